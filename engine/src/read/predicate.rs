//! Predicates: which rows of a scan are wanted.
//!
//! Owns the three-valued logic and the comparison of a column with a literal. Reads no row by itself: it asks for
//! columns through [`Columns`], whose answer may be "not known yet", so that one tree serves before the row is fetched
//! (key columns only) and after.
//!
//! Invariant: no predicate is nested deeper than [`DEPTH_MAX`]. What would be is forgotten where it is put together, so
//! that nothing that goes through one (nor dropping it) can run out of stack; the scan that it was for tells.
//! Invariant: what is decided from a part of the columns stays decided when the rest is known. (Kleene's logic is
//! monotone: replacing "unknown" by a value never turns a true into a false or back.)

use std::ops::Not;

use encoded_key::{Type, Value};

use super::literal::Literal;
use crate::error::{Error, Result};
use crate::schema::Schema;
use crate::value::AsValue;

/// Starts a predicate on the column of that name, for [`Scan::filter`](crate::Scan::filter).
///
/// ```
/// use nyala::column;
/// let warm = column("metric").eq("cpu").and(column("value").ge(0.9).or(column("note").is_not_null()));
/// # let _ = warm;
/// ```
#[must_use]
pub fn column(name: impl Into<String>) -> ColumnExpr {
    ColumnExpr { name: name.into() }
}

/// A column in a predicate; made by [`column()`].
#[derive(Clone, Debug)]
pub struct ColumnExpr {
    name: String,
}

/// How deep `and`, `or` and `not` may lie in one another. Chains of one kind count once, however long they are.
const DEPTH_MAX: usize = 100;

/// What a scan keeps: comparisons of columns with values, joined by `and`, `or` and `not`.
///
/// Nulls are treated as in SQL: a comparison with a null, on either side, is neither true nor false but unknown; `not`
/// of unknown is unknown; a row is kept only if the whole predicate is true. So `column("note").ne("x")` does not keep
/// rows whose note is null, and neither does its `not`.
///
/// Values are compared as keys sort: strings and binaries by their bytes, floats by the total order of IEEE 754
/// (-NaN, -inf, .., -0.0, +0.0, .., inf, NaN), so that `eq(0.0)` does not find -0.0. An integer column may be compared
/// with any integer, a float column with `f32` and `f64`, a decimal column with a decimal of any scale. Everything else
/// must have the column's type; if not, or if there is no such column, the scan answers `InvalidArgument` when it is
/// started. So it does if `and`, `or` and `not` lie in one another more than 100 deep; a chain of a thousand `or` is
/// one.
///
/// ```
/// # fn main() -> Result<(), nyala::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// use nyala::{Engine, Options, Schema, Type, column};
/// let engine = Engine::open(dir.path(), Options::default())?;
/// let schema = Schema::builder().key("id", Type::U64).column("note", Type::String.nullable()).build()?;
/// let table = engine.open_or_create_table("notes", schema)?;
/// table.upsert((1, "peak"))?;
/// table.upsert((2, None::<&str>))?;
/// table.upsert((3, "quiet"))?;
///
/// let count = |filter| table.scan().filter(filter).count();
/// assert_eq!(count(column("note").starts_with("pe").or(column("id").eq(3)))?, 2);
/// assert_eq!(count(column("note").ne("peak"))?, 1, "the null is not counted");
/// assert_eq!(count(column("note").eq("peak").not())?, 1, "nor here");
/// assert_eq!(count(column("note").is_null())?, 1);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Predicate {
    node: Node<String>,
    /// How many nodes lie in one another.
    depth: usize,
}

impl ColumnExpr {
    /// Equal to `value`.
    pub fn eq(self, value: impl AsValue) -> Predicate {
        self.compare(Op::Eq, &value)
    }

    /// Not equal to `value`, and not null.
    pub fn ne(self, value: impl AsValue) -> Predicate {
        self.compare(Op::Ne, &value)
    }

    /// Less than `value`.
    pub fn lt(self, value: impl AsValue) -> Predicate {
        self.compare(Op::Lt, &value)
    }

    /// Less than `value`, or equal.
    pub fn le(self, value: impl AsValue) -> Predicate {
        self.compare(Op::Le, &value)
    }

    /// Greater than `value`.
    pub fn gt(self, value: impl AsValue) -> Predicate {
        self.compare(Op::Gt, &value)
    }

    /// Greater than `value`, or equal.
    pub fn ge(self, value: impl AsValue) -> Predicate {
        self.compare(Op::Ge, &value)
    }

    /// A string that starts with the string `value`, or a binary that starts with the binary `value`.
    pub fn starts_with(self, value: impl AsValue) -> Predicate {
        self.compare(Op::StartsWith, &value)
    }

    /// Null.
    #[must_use]
    pub fn is_null(self) -> Predicate {
        Predicate::new(Node::IsNull { column: self.name }, 1)
    }

    /// Not null.
    #[must_use]
    pub fn is_not_null(self) -> Predicate {
        self.is_null().not()
    }

    fn compare(self, op: Op, value: &impl AsValue) -> Predicate {
        let literal = Literal::new(value.as_value());
        Predicate::new(Node::Compare { column: self.name, op, literal }, 1)
    }
}

impl Predicate {
    fn new(node: Node<String>, depth: usize) -> Predicate {
        if depth > DEPTH_MAX {
            Predicate { node: Node::TooDeep, depth: 1 }
        } else {
            Predicate { node, depth }
        }
    }

    /// Both.
    #[must_use]
    pub fn and(self, other: Predicate) -> Predicate {
        let join = |predicate: Predicate| match predicate.node {
            Node::All(all) => (all, predicate.depth),
            node => (vec![node], predicate.depth + 1),
        };
        let (mut all, depth) = join(self);
        let (others, depth_of_others) = join(other);
        all.extend(others);
        Predicate::new(Node::All(all), depth.max(depth_of_others))
    }

    /// One of the two, or both.
    #[must_use]
    pub fn or(self, other: Predicate) -> Predicate {
        let join = |predicate: Predicate| match predicate.node {
            Node::Any(any) => (any, predicate.depth),
            node => (vec![node], predicate.depth + 1),
        };
        let (mut any, depth) = join(self);
        let (others, depth_of_others) = join(other);
        any.extend(others);
        Predicate::new(Node::Any(any), depth.max(depth_of_others))
    }

    /// The opposite; of unknown: unknown.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "implemented as well; this one needs no import")]
    pub fn not(self) -> Predicate {
        match self.node {
            Node::Not(inner) => Predicate::new(*inner, self.depth - 1),
            node => Predicate::new(Node::Not(Box::new(node)), self.depth + 1),
        }
    }

    /// Ties the predicate to the columns of `schema`.
    ///
    /// # Errors
    /// `InvalidArgument`: a column that does not exist, or a value that cannot be compared with it.
    pub(crate) fn compile(&self, schema: &Schema) -> Result<Filter> {
        Ok(Filter(self.node.compile(schema)?))
    }
}

impl Not for Predicate {
    type Output = Predicate;

    fn not(self) -> Predicate {
        Predicate::not(self)
    }
}

/// Where a filter gets a row's columns.
pub(crate) trait Columns {
    /// The column at that place of the schema; `None` if it is not known yet.
    fn value(&mut self, column: usize) -> Result<Option<Value<'_>>>;
}

/// A predicate tied to a schema.
#[derive(Clone, Debug)]
pub(crate) struct Filter(Node<usize>);

impl Filter {
    /// Whether the row is wanted: `Some(true)` and `Some(false)` are final, `None` is unknown. With all columns
    /// known, unknown means unwanted.
    pub(crate) fn decide(&self, columns: &mut impl Columns) -> Result<Option<bool>> {
        self.0.decide(columns)
    }

    /// Whether it reads a column at that place of the schema or after it.
    pub(crate) fn reads_from(&self, column: usize) -> bool {
        self.0.reads(&|read| read >= column)
    }

    /// Whether it reads the column at that place of the schema.
    pub(crate) fn reads(&self, column: usize) -> bool {
        self.0.reads(&|read| read == column)
    }

    /// What must hold of single columns whenever the whole holds.
    pub(crate) fn required(&self) -> impl Iterator<Item = (usize, Op, Value<'_>)> {
        let all = match &self.0 {
            Node::All(all) => all.as_slice(),
            node => std::slice::from_ref(node),
        };
        all.iter().filter_map(|node| match node {
            Node::Compare { column, op, literal } => Some((*column, *op, literal.value())),
            _ => None,
        })
    }
}

/// How a column and a literal are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    StartsWith,
}

/// A predicate over columns that are named by a `C`: their name, then their place in the schema.
#[derive(Clone, Debug)]
enum Node<C> {
    Compare {
        column: C,
        op: Op,
        literal: Literal,
    },
    IsNull {
        column: C,
    },
    All(Vec<Node<C>>),
    Any(Vec<Node<C>>),
    Not(Box<Node<C>>),
    /// What lay too deep. It stands in no filter.
    TooDeep,
}

impl Node<String> {
    fn compile(&self, schema: &Schema) -> Result<Node<usize>> {
        let find = |name: &String| schema.find_column(name).map_err(|error| error.context("filter"));
        let each =
            |nodes: &[Node<String>]| nodes.iter().map(|node| node.compile(schema)).collect::<Result<_>>();
        Ok(match self {
            Node::Compare { column: name, op, literal } => {
                let column = find(name)?;
                let ty = schema.columns()[column].ty;
                literal.check(name, ty, *op)?;
                Node::Compare { column, op: *op, literal: literal.clone() }
            }
            Node::IsNull { column } => Node::IsNull { column: find(column)? },
            Node::All(nodes) => Node::All(each(nodes)?),
            Node::Any(nodes) => Node::Any(each(nodes)?),
            Node::Not(node) => Node::Not(Box::new(node.compile(schema)?)),
            Node::TooDeep => {
                return Err(Error::invalid(format!(
                    "filter: more than {DEPTH_MAX} of `and`, `or` and `not` lie in one another"
                )));
            }
        })
    }
}

impl Node<usize> {
    /// Whether it reads a column for which `is_it` answers yes.
    fn reads(&self, is_it: &dyn Fn(usize) -> bool) -> bool {
        match self {
            Node::Compare { column, .. } | Node::IsNull { column } => is_it(*column),
            Node::All(nodes) | Node::Any(nodes) => nodes.iter().any(|node| node.reads(is_it)),
            Node::Not(node) => node.reads(is_it),
            Node::TooDeep => unreachable!("it is compiled to an error"),
        }
    }

    fn decide(&self, columns: &mut impl Columns) -> Result<Option<bool>> {
        match self {
            Node::Compare { column, op, literal } => {
                Ok(columns.value(*column)?.and_then(|value| literal.decide(*op, value)))
            }
            Node::IsNull { column } => Ok(columns.value(*column)?.map(|value| matches!(value, Value::Null))),
            Node::All(nodes) => first(nodes, columns, false),
            Node::Any(nodes) => first(nodes, columns, true),
            Node::Not(node) => Ok(node.decide(columns)?.map(bool::not)),
            Node::TooDeep => unreachable!("it is compiled to an error"),
        }
    }
}

/// `decisive` if any node says so, else unknown if any is unknown, else the other.
fn first(nodes: &[Node<usize>], columns: &mut impl Columns, decisive: bool) -> Result<Option<bool>> {
    let mut result = Some(!decisive);
    for node in nodes {
        match node.decide(columns)? {
            Some(decided) if decided == decisive => return Ok(Some(decisive)),
            Some(_) => {}
            None => result = None,
        }
    }
    Ok(result)
}

impl Literal {
    fn check(&self, column: &str, ty: Type, op: Op) -> Result<()> {
        let comparable = match self {
            Literal::Null => true,
            Literal::Bool(_) => matches!(ty, Type::Bool),
            Literal::Int(_) | Literal::UInt(_) => matches!(
                ty,
                Type::I8 | Type::I16 | Type::I32 | Type::I64 | Type::U8 | Type::U16 | Type::U32 | Type::U64
            ),
            Literal::F32(_) | Literal::F64(_) => matches!(ty, Type::F32 | Type::F64),
            Literal::Decimal(_) => matches!(ty, Type::Decimal { .. }),
            Literal::Date(_) => matches!(ty, Type::Date),
            Literal::Timestamp(_) => matches!(ty, Type::Timestamp),
            Literal::String(_) => matches!(ty, Type::String),
            Literal::Binary(_) => matches!(ty, Type::Binary),
        };
        let has_prefixes = matches!(ty, Type::String | Type::Binary);
        if comparable && (op != Op::StartsWith || has_prefixes) {
            return Ok(());
        }
        let how = if op == Op::StartsWith { "tested for a prefix" } else { "compared" };
        Err(Error::invalid(format!(
            "filter: column {column:?} of type {ty} cannot be {how} with {}",
            self.value().kind()
        )))
    }

    /// `None` if one of the two is null.
    fn decide(&self, op: Op, value: Value<'_>) -> Option<bool> {
        if op == Op::StartsWith {
            return match (value, self) {
                (Value::String(value), Literal::String(text)) => {
                    Some(value.as_bytes().starts_with(text.as_bytes()))
                }
                (Value::Binary(value), Literal::Binary(bytes)) => Some(value.starts_with(bytes)),
                _ => None,
            };
        }
        let order = value.compare(self.value())?;
        Some(match op {
            Op::Eq => order.is_eq(),
            Op::Ne => order.is_ne(),
            Op::Lt => order.is_lt(),
            Op::Le => order.is_le(),
            Op::Gt => order.is_gt(),
            Op::Ge | Op::StartsWith => order.is_ge(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns 0 (known), 1 (not known yet) and 2 (null).
    struct Three;

    impl Columns for Three {
        fn value(&mut self, column: usize) -> Result<Option<Value<'_>>> {
            Ok([Some(Value::Int(7)), None, Some(Value::Null)][column])
        }
    }

    fn node(column: usize, op: Op, literal: i64) -> Node<usize> {
        Node::Compare { column, op, literal: Literal::Int(literal) }
    }

    #[test]
    fn the_depth_is_bounded_and_the_length_is_not() {
        let schema = Schema::builder().key("id", Type::U64).build().expect("legal");
        let one = || column("id").eq(1);
        // Each step but the first puts a node around what there is.
        let nested = |depth: usize| {
            (2..=depth).fold(one(), |inner, at| match at % 3 {
                0 => inner.or(one()),
                1 => inner.and(one()),
                _ => inner.not(),
            })
        };
        nested(DEPTH_MAX).compile(&schema).expect("as deep as it may be");
        for depth in [DEPTH_MAX + 1, DEPTH_MAX + 5, 300_000] {
            let error = nested(depth).clone().and(one()).compile(&schema).expect_err("too deep");
            assert_eq!(error.kind(), crate::ErrorKind::InvalidArgument);
        }
        let long = (0..100_000).fold(one(), |chain, _| chain.or(one()));
        long.and(one()).compile(&schema).expect("three deep");
        let negated = (0..1001).fold(one(), |predicate, _| predicate.not());
        assert_eq!(negated.depth, 2);
    }

    #[test]
    fn unknown_is_neither_true_nor_false() {
        let decide = |node: Node<usize>| Filter(node).decide(&mut Three).expect("no column fails");
        let yes = || node(0, Op::Eq, 7);
        let no = || node(0, Op::Lt, 7);
        for unknown in [1, 2] {
            let unknown = || node(unknown, Op::Eq, 7);
            assert_eq!(decide(unknown()), None);
            assert_eq!(decide(Node::Not(Box::new(unknown()))), None);
            assert_eq!(decide(Node::All(vec![unknown(), yes()])), None);
            assert_eq!(decide(Node::All(vec![unknown(), no()])), Some(false));
            assert_eq!(decide(Node::Any(vec![unknown(), yes()])), Some(true));
            assert_eq!(decide(Node::Any(vec![unknown(), no()])), None);
        }
        assert_eq!(decide(Node::IsNull { column: 0 }), Some(false));
        assert_eq!(decide(Node::IsNull { column: 1 }), None);
        assert_eq!(decide(Node::IsNull { column: 2 }), Some(true));
        assert_eq!(decide(Node::All(vec![])), Some(true));
        assert_eq!(decide(Node::Any(vec![])), Some(false));
    }
}
