//! Evaluates the checked operations of a batch, in the caller's thread, at one pinned view of each table.
//!
//! Turns a batch into one of puts and deletions alone, with what was seen of each key that a decision hangs on. The
//! leader then only compares.

use std::collections::HashMap;
use std::sync::Arc;

use codec::{KeyHash, SchemaVersion, Version, hash_key};
use encoded_key::KeyProbe;

use super::ops::{self, HEAD_BYTES, Op, OpKind, Ops};
use super::{Buffer, Check, changes};
use crate::catalog::TableCore;
use crate::commit::{Expectation, Saw};
use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::read::{self, ReadPoint};
use crate::row::{ReadSchema, Translator, show_key};

/// A batch as it can be committed.
pub(crate) struct Resolved {
    pub(crate) body: Vec<u8>,
    pub(crate) operations: u32,
    pub(crate) expectations: Vec<Expectation>,
    /// The keys that the expectations speak of, one after the other.
    pub(crate) seen_keys: Vec<u8>,
}

/// Evaluates the batch.
///
/// # Errors
/// `DuplicateKey` and `MissingRow`, both from visible data or from the batch itself, with the operation's position.
pub(crate) fn evaluate(core: &Core, buffer: &Buffer) -> Result<Resolved, Error> {
    let mut evaluation = Evaluation {
        core,
        buffer,
        points: buffer.targets.iter().map(|table| core.read_point(&table.tablet)).collect(),
        resolved: Resolved {
            body: Vec::with_capacity(buffer.body.len()),
            operations: 0,
            expectations: Vec::with_capacity(buffer.checks.len()),
            seen_keys: Vec::new(),
        },
        earlier: HashMap::with_capacity(buffer.operations as usize),
        links: Vec::with_capacity(buffer.operations as usize),
        row: Vec::new(),
        row_schema: SchemaVersion(0),
        translators: buffer.targets.iter().map(|_| None).collect(),
    };
    // After the pins: the view of a dropped table is empty, and must not be taken for that of a table without rows.
    for table in &buffer.targets {
        table.tablet.check_not_dropped()?;
    }
    let mut checks = buffer.checks.iter().copied().peekable();
    for (position, op) in (0u32..).zip(Ops::new(&buffer.body)) {
        let op = op.expect("a batch's bytes are written by the batch");
        let check = checks.next_if(|(at, _)| *at == position).map(|(_, check)| check);
        evaluation.operation(&op, check).map_err(|error| evaluation.named(error, position, &op))?;
    }
    Ok(evaluation.resolved)
}

/// An operation of the resolved body, and the one before it with the same table and hash.
#[derive(Clone, Copy)]
struct Link {
    start: usize,
    before: Option<usize>,
}

struct Evaluation<'a> {
    core: &'a Core,
    buffer: &'a Buffer,
    points: Vec<ReadPoint>,
    resolved: Resolved,
    /// The last operation of each table and hash, as an index of `links`.
    earlier: HashMap<(usize, KeyHash), usize>,
    links: Vec<Link>,
    row: Vec<u8>,
    /// The schema version of `row`.
    row_schema: SchemaVersion,
    /// To the newest schema of each target, made when the first row of it is updated.
    translators: Vec<Option<Translator>>,
}

/// What the key holds when its operation's turn comes.
#[derive(Clone, Copy)]
enum Seen {
    Absent,
    /// A live row of this version; none if this batch writes it. Its bytes are in `Evaluation::row` if they were asked for.
    Live(Option<Version>),
}

impl Seen {
    /// Whether it is the row of this version, or, for none, no row.
    fn is(self, expected: Option<Version>) -> bool {
        match self {
            Seen::Absent => expected.is_none(),
            Seen::Live(version) => version.is_some() && version == expected,
        }
    }
}

impl Evaluation<'_> {
    fn operation(&mut self, op: &Op<'_>, check: Option<Check>) -> Result<(), Error> {
        let target = self.target(op);
        if op.kind == OpKind::Put {
            self.table(target).check_row_schema(op.schema)?;
        }
        let hash = hash_key(op.key);
        let Some(check) = check else {
            return self.write(target, hash, op);
        };
        let is_update = op.kind == OpKind::Update;
        let seen = self.look(target, hash, op.key, is_update)?;
        match (check, seen) {
            (Check::Absent, Seen::Live(_)) => {
                return Err(Error::new(ErrorKind::DuplicateKey, "the key is there already"));
            }
            // What it saw is still checked: if the row goes before the commit, the operation has to be in.
            (Check::AbsentOrSkip, Seen::Live(_)) => return Ok(()),
            (Check::Live, Seen::Absent) => {
                return Err(Error::new(ErrorKind::MissingRow, "there is no row of this key"));
            }
            (Check::Version(expected), seen) if !seen.is(expected) => {
                let what = "the row has another version than the one that was compared with, or is gone";
                return Err(Error::new(ErrorKind::Conflict, what));
            }
            _ => {}
        }
        if !is_update {
            return self.write(target, hash, op);
        }
        let old = std::mem::take(&mut self.row);
        let (new, schema) = self.updated(target, op, &old)?;
        self.row = old;
        self.write(target, hash, &Op { kind: OpKind::Put, row: &new, schema, ..*op })
    }

    /// The row that an update makes of `old`. It has the newest schema, whatever handle the update came through: columns
    /// that the handle does not know of must not be lost.
    fn updated(&mut self, target: usize, op: &Op<'_>, old: &[u8]) -> Result<(Vec<u8>, SchemaVersion), Error> {
        let mut changes = changes::read(op.row);
        let table = &self.buffer.targets[target];
        let translator = self.translators[target].get_or_insert_with(|| to_newest(table));
        let newest = Arc::clone(translator.schema());
        if op.schema != newest.version() {
            changes::carry_over(&mut changes, op.schema, &newest)?;
        }
        let old = translator.translate(self.row_schema, old)?;
        let mut new = Vec::with_capacity(old.len() + op.row.len());
        newest.row_layout().patch(old, &changes, &mut new)?;
        Ok((new, newest.version()))
    }

    fn table(&self, target: usize) -> &TableCore {
        &self.buffer.targets[target]
    }

    fn target(&self, op: &Op<'_>) -> usize {
        let found = self.buffer.targets.iter().position(|table| table.id == op.table);
        found.expect("a batch knows every table that it names")
    }

    fn write(&mut self, target: usize, hash: KeyHash, op: &Op<'_>) -> Result<(), Error> {
        let start = self.resolved.body.len();
        let (bytes, most) =
            (start + HEAD_BYTES + op.key.len() + op.row.len(), self.core.options.batch_bytes_max);
        if bytes > most {
            // A change of a few bytes becomes a whole row. The log must never be given more than it takes.
            return Err(Error::invalid(format!(
                "the rows that the updates make come to {bytes} bytes and more; a batch holds at most {most}"
            )));
        }
        let before = self.earlier.insert((target, hash), self.links.len());
        self.links.push(Link { start, before });
        ops::put(&mut self.resolved.body, op);
        self.resolved.operations += 1;
        Ok(())
    }

    /// Looks the key up: in the batch so far, else in the store. What is seen in the store becomes an expectation.
    fn look(
        &mut self,
        target: usize,
        hash: KeyHash,
        key_bytes: &[u8],
        wants_row: bool,
    ) -> Result<Seen, Error> {
        if let Some(kind) = self.look_in_batch(target, hash, key_bytes, wants_row) {
            return Ok(if kind == OpKind::Put { Seen::Live(None) } else { Seen::Absent });
        }
        let point = &self.points[target];
        let probe = KeyProbe::new(key_bytes);
        self.row.clear();
        let saw: Option<Version> = if wants_row {
            let found = read::row_bytes(point, &probe, &mut self.row)?;
            found.map(|(version, schema)| {
                self.row_schema = schema;
                version
            })
        } else {
            read::latest(point, &probe)?.and_then(|(version, is_deleted)| (!is_deleted).then_some(version))
        };
        let at = point.at;
        let start = self.resolved.seen_keys.len();
        self.resolved.seen_keys.extend_from_slice(key_bytes);
        let key = start..self.resolved.seen_keys.len();
        self.resolved.expectations.push(Expectation { target, key, saw: Saw::row(saw.as_ref()), at });
        Ok(if saw.is_some() { Seen::Live(saw) } else { Seen::Absent })
    }

    fn look_in_batch(&mut self, target: usize, hash: KeyHash, key: &[u8], wants_row: bool) -> Option<OpKind> {
        let mut next = self.earlier.get(&(target, hash)).copied();
        let op = loop {
            let link = self.links[next?];
            let op = Ops::new(&self.resolved.body[link.start..]).next()?.expect("written here");
            if op.key == key {
                break op;
            }
            next = link.before;
        };
        if wants_row {
            self.row.clear();
            self.row.extend_from_slice(op.row);
            self.row_schema = op.schema;
        }
        Some(op.kind)
    }

    fn named(&self, error: Error, position: u32, op: &Op<'_>) -> Error {
        let error = error.with_operation(position as usize);
        if self.core.options.keys_in_errors {
            let schema = &self.table(self.target(op)).schema;
            return error.with_key(show_key(schema, op.key));
        }
        error
    }
}

/// Translates rows of a table to its newest schema.
fn to_newest(table: &TableCore) -> Translator {
    if table.newest.version() == table.schema.version() {
        return Translator::new(Arc::clone(&table.reads));
    }
    let newest = table.newest.newest();
    Translator::new(Arc::new(ReadSchema::new(newest, Arc::clone(&table.newest))))
}
