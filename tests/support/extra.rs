//! Columns that come and go: what a table can be altered to, beyond its shape.

use nyala::{Alter, Column, Schema, Table, Type, Value};

use crate::random::Random;
use crate::shape::Part;
use crate::state::TableState;

/// The value of such a column.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    Text(String),
}

impl Cell {
    pub(crate) fn value(&self) -> Value<'_> {
        match self {
            Cell::Null => Value::Null,
            Cell::Int(number) => Value::Int(*number),
            Cell::Text(text) => Value::String(text),
        }
    }

    pub(crate) fn of(value: Value<'_>) -> Cell {
        match value {
            Value::Null => Cell::Null,
            Value::Int(number) => Cell::Int(number),
            Value::String(text) => Cell::Text(text.to_owned()),
            other => panic!("no value of ours: {other:?}"),
        }
    }
}

/// A column that was added.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Extra {
    pub(crate) name: &'static str,
    is_text: bool,
    nullable: bool,
    pub(crate) default: Cell,
}

const NAMES: [&str; 5] = ["x0", "x1", "x2", "x3", "x4"];
/// So many a table has at most; one name is left to rename one to.
const EXTRAS_MAX: usize = NAMES.len() - 1;

impl Extra {
    fn random(random: &mut Random, name: &'static str) -> Extra {
        let mut extra =
            Extra { name, is_text: random.one_in(2), nullable: random.one_in(2), default: Cell::Null };
        extra.default = extra.cell(random);
        extra
    }

    /// A value that it can hold.
    pub(crate) fn cell(&self, random: &mut Random) -> Cell {
        if self.nullable && random.one_in(3) { Cell::Null } else { Cell::of(self.literal(random).value()) }
    }

    /// Something to compare it with.
    pub(crate) fn literal(&self, random: &mut Random) -> Part {
        if self.is_text {
            Part::Text("text ".repeat(random.below(4)))
        } else {
            Part::Int(random.within(-3..3))
        }
    }

    /// The column of a schema that was altered by us.
    pub(crate) fn of(column: &Column) -> Extra {
        Extra {
            name: NAMES.into_iter().find(|name| **name == *column.name).expect("a name of ours"),
            is_text: column.ty == Type::String,
            nullable: column.nullable,
            default: column.default_value().map_or(Cell::Null, Cell::of),
        }
    }

    pub(crate) fn all_of(schema: &Schema, base_columns: usize) -> Vec<Extra> {
        schema.columns()[base_columns..].iter().map(Extra::of).collect()
    }
}

/// One change of a table's columns.
#[derive(Clone, Debug)]
pub(crate) enum Alteration {
    Add(Extra),
    Rename(&'static str, &'static str),
    Drop(&'static str),
}

impl Alteration {
    /// One that is possible.
    pub(crate) fn random(random: &mut Random, table: &TableState) -> Alteration {
        let free: Vec<&'static str> =
            NAMES.into_iter().filter(|name| table.extra.iter().all(|extra| extra.name != *name)).collect();
        let is_full = table.extra.len() == EXTRAS_MAX;
        match random.below(3) {
            0 if !table.extra.is_empty() => Alteration::Drop(random.pick(&table.extra).name),
            1 if !table.extra.is_empty() => {
                Alteration::Rename(random.pick(&table.extra).name, random.pick::<&str>(&free))
            }
            _ if is_full => Alteration::Drop(random.pick(&table.extra).name),
            _ => {
                let name = *random.pick(&free);
                Alteration::Add(Extra::random(random, name))
            }
        }
    }

    /// Asks a table for it.
    pub(crate) fn of(&self, table: &Table) -> Alter {
        match self {
            Alteration::Add(Extra { name, is_text, nullable, default }) => {
                let ty = if *is_text { Type::String } else { Type::I64 };
                let ty = if *nullable { ty.nullable() } else { ty.into() };
                table.alter().add_column(*name, ty, default.value())
            }
            Alteration::Rename(from, to) => table.alter().rename_column(*from, *to),
            Alteration::Drop(name) => table.alter().drop_column(*name),
        }
    }
}
