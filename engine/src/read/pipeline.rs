//! The core of a scan: keys from the merge, then rows in batches.
//!
//! A batch is made in two steps. Gathering walks the merge, drops what the key columns alone rule out, and stages keys
//! with where their rows lie. Draining fetches those rows in key order, drops what the whole row rules out, and gives
//! the rest to the sink. A scan that needs no row skips the stage. Both steps end by rows and by bytes, so memory does
//! not grow with the table; all buffers are reused, so nothing is allocated per row.
//!
//! Invariant: what is given to the sink before a failure is right; the failure comes after it, whenever more is asked
//! for.
//! Invariant: after the end comes the end.

use std::sync::Arc;

use codec::{Location, SchemaVersion, Version};
use encoded_key::KeyRange;
use sstable::Direction;

use super::fetch::RowFetcher;
use super::keys::{KeyColumns, RowColumns};
use super::merged::{MergedKeys, Visible};
use super::predicate::Filter;
use super::{ReadPoint, ScanSource};
use crate::error::{Error, Result};
use crate::memtable::Fetch;
use crate::row::{Projection, ReadSchema, RowBatchBuilder, Translator};
use crate::transaction::ScanReads;

/// The first batch is small: many scans want few rows.
const BATCH_ROWS_MIN: usize = 16;
/// The greatest batch.
const BATCH_ROWS_MAX: usize = 1024;
/// A batch that has grown to this many bytes ends, whatever its rows.
const BATCH_BYTES: usize = 256 << 10;
/// How many keys may be passed over for each one staged before the engine is asked again whether it is open.
const EXAMINED_PER_STAGED: usize = 64;

/// What a scan is to do, all arguments checked.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) reads: Arc<ReadSchema>,
    pub(super) projection: Projection,
    pub(super) filter: Option<Filter>,
    pub(super) range: KeyRange,
    pub(super) direction: Direction,
    /// At most so many rows.
    pub(super) limit: u64,
}

impl Plan {
    fn filters_rows(&self) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.reads_from(self.reads.schema().key_columns()))
    }
}

/// Where a scan puts its rows.
pub(super) trait Sink {
    /// `row` is empty if the plan gives no value columns.
    fn push(&mut self, key: &[u8], row: &[u8], schema: SchemaVersion, version: Version) -> Result<()>;
    fn rows(&self) -> usize;
    fn bytes(&self) -> usize;
}

impl Sink for RowBatchBuilder {
    #[inline]
    fn push(&mut self, key: &[u8], row: &[u8], schema: SchemaVersion, version: Version) -> Result<()> {
        RowBatchBuilder::push(self, key, row, schema, version)
    }

    fn rows(&self) -> usize {
        self.len()
    }

    fn bytes(&self) -> usize {
        RowBatchBuilder::bytes(self)
    }
}

/// Counts rows and keeps none.
#[derive(Debug, Default)]
pub(super) struct Counter {
    rows: usize,
}

impl Sink for Counter {
    #[inline]
    fn push(&mut self, _: &[u8], _: &[u8], _: SchemaVersion, _: Version) -> Result<()> {
        self.rows += 1;
        Ok(())
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn bytes(&self) -> usize {
        0
    }
}

/// A scan under way.
pub(super) struct Pipeline {
    source: Arc<dyn ScanSource>,
    plan: Plan,
    gives_rows: bool,
    filters_rows: bool,
    state: State,
    stage: Stage,
    /// For rows that the filter has to see. Others are translated where they are kept.
    translator: Translator,
    /// For key columns that must be unescaped.
    scratch: Vec<u8>,
    batch_rows: usize,
    /// How many rows may still be given out.
    left: u64,
    /// Whom to tell how far the caller has come.
    reads: Option<ScanReads>,
}

enum State {
    Reading(Box<Input>),
    /// The merge has ended; what is staged is not given out yet.
    Draining(Box<Input>),
    Ended,
    Failed(Error),
}

struct Input {
    keys: MergedKeys,
    fetcher: RowFetcher,
    /// Keeps the files.
    _point: ReadPoint,
}

impl Pipeline {
    pub(super) fn new(source: Arc<dyn ScanSource>, plan: Plan, point: ReadPoint) -> Result<Pipeline> {
        let (gives_rows, filters_rows) = (plan.projection.needs_row(), plan.filters_rows());
        let mut reads = None;
        let state = if plan.range.is_empty() || plan.limit == 0 {
            State::Ended
        } else {
            reads = source.begin(&plan.range, plan.direction)?;
            let fetch = if gives_rows || filters_rows { Fetch::Rows } else { Fetch::KeysOnly };
            let keys = MergedKeys::new(&point, &plan.range, plan.direction, fetch)?;
            let fetcher = RowFetcher::new(Arc::clone(&point.view.rowsets), plan.direction);
            State::Reading(Box::new(Input { keys, fetcher, _point: point }))
        };
        Ok(Pipeline {
            source,
            gives_rows,
            filters_rows,
            state,
            stage: Stage::default(),
            translator: Translator::new(Arc::clone(&plan.reads)),
            scratch: Vec::new(),
            batch_rows: BATCH_ROWS_MIN,
            left: plan.limit,
            reads,
            plan,
        })
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether somebody wants to know how far the caller has come. Whoever gives out rows of a batch says so then,
    /// before it does, by [`Pipeline::note_through`].
    pub(super) fn notes(&self) -> bool {
        self.reads.is_some()
    }

    /// The caller is about to be given the row of `key`, and so learns what was on the way to it.
    pub(super) fn note_through(&self, key: &[u8]) {
        if let Some(reads) = &self.reads {
            reads.through(key);
        }
    }

    /// Fills the empty `sink`; it stays empty only at the end, which is noted here.
    ///
    /// # Errors
    /// What made the scan fail, every time from then on.
    pub(super) fn next_batch(&mut self, sink: &mut impl Sink) -> Result<()> {
        debug_assert_eq!(sink.rows(), 0, "a batch is filled once");
        while sink.rows() == 0 {
            match &self.state {
                State::Ended => {
                    // One that its limit has ended tells nothing of what is behind its last row.
                    if self.left > 0
                        && let Some(reads) = &self.reads
                    {
                        reads.all();
                    }
                    return Ok(());
                }
                State::Failed(error) => return Err(error.clone()),
                State::Reading(_) | State::Draining(_) => {}
            }
            if let Err(error) = self.step(sink) {
                self.stage.clear();
                self.state = State::Failed(error);
            }
        }
        self.batch_rows = (self.batch_rows * 2).min(BATCH_ROWS_MAX);
        Ok(())
    }

    /// Gathers if nothing is staged, then drains into the sink.
    fn step(&mut self, sink: &mut impl Sink) -> Result<()> {
        self.source.check()?;
        // A failure of the merge comes after the rows that it gave before.
        let gathered = if self.stage.is_empty() {
            self.stage.clear();
            self.gather(sink)
        } else {
            Ok(())
        };
        self.drain(sink)?;
        gathered?;
        if self.left == 0 || (self.stage.is_empty() && matches!(self.state, State::Draining(_))) {
            self.stage.clear();
            self.state = State::Ended;
        }
        Ok(())
    }

    fn gather(&mut self, sink: &mut impl Sink) -> Result<()> {
        let State::Reading(input) = &mut self.state else { return Ok(()) };
        let mut rows_max = self.batch_rows;
        if !self.filters_rows {
            rows_max = rows_max.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        }
        let mut examined = 0;
        let mut is_full = false;
        while !is_full {
            let Some(key) = input.keys.key() else {
                let State::Reading(input) = std::mem::replace(&mut self.state, State::Ended) else {
                    unreachable!("the state was matched above");
                };
                self.state = State::Draining(input);
                return Ok(());
            };
            if let Some(visible) = input.keys.visible()? {
                let wanted = match &self.plan.filter {
                    None => Some(true),
                    Some(filter) => {
                        let layout = self.plan.reads.schema().key_layout();
                        filter.decide(&mut KeyColumns { layout, key, scratch: &mut self.scratch })?
                    }
                };
                match wanted {
                    Some(true) if self.gives_rows => self.stage.push(key, visible, Decided::Yes),
                    Some(true) if !self.filters_rows => {
                        sink.push(key, &[], self.plan.reads.schema().version(), visible.version())?;
                        self.left -= 1;
                    }
                    Some(true) => self.stage.push_key(key, visible.version()),
                    None if self.filters_rows => self.stage.push(key, visible, Decided::NotYet),
                    Some(false) | None => {}
                }
            }
            examined += 1;
            is_full = self.stage.staged.len() + sink.rows() >= rows_max
                || self.stage.bytes() + sink.bytes() >= BATCH_BYTES
                || examined >= rows_max * EXAMINED_PER_STAGED;
            input.keys.advance()?;
        }
        Ok(())
    }

    fn drain(&mut self, sink: &mut impl Sink) -> Result<()> {
        let (State::Reading(input) | State::Draining(input)) = &mut self.state else { return Ok(()) };
        while self.left > 0 && sink.bytes() < BATCH_BYTES {
            let Some(Staged { key, version, place, decided }) = self.stage.next() else { break };
            let reader = self.plan.reads.schema();
            let (mut schema, mut row) = match place {
                Place::Disk { location } => input.fetcher.get(key, location, version)?,
                Place::Memory { schema, row } => (schema, row),
                Place::NotNeeded => (reader.version(), &[][..]),
            };
            if let (Decided::NotYet, Some(filter)) = (decided, &self.plan.filter) {
                (schema, row) = (reader.version(), self.translator.translate(schema, row)?);
                let mut columns = RowColumns { schema: reader, key, row, scratch: &mut self.scratch };
                if filter.decide(&mut columns)? != Some(true) {
                    continue;
                }
            }
            sink.push(key, if self.gives_rows { row } else { &[] }, schema, version)?;
            self.left -= 1;
        }
        Ok(())
    }
}

/// Keys that are wanted, or may be, with where their rows lie.
#[derive(Debug, Default)]
struct Stage {
    keys: Vec<u8>,
    /// Rows that come from memtables.
    rows: Vec<u8>,
    staged: Vec<StagedAt>,
    /// The first that is not given out yet, and where its key and its row from a memtable begin.
    next: usize,
    next_key: usize,
    next_row: usize,
}

#[derive(Clone, Copy, Debug)]
struct StagedAt {
    key_end: usize,
    version: Version,
    place: StagedPlace,
    decided: Decided,
}

#[derive(Clone, Copy, Debug)]
enum StagedPlace {
    Disk { location: Location },
    Memory { schema: SchemaVersion, row_end: usize },
    NotNeeded,
}

/// Whether the filter is done with the key columns alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decided {
    Yes,
    NotYet,
}

struct Staged<'a> {
    key: &'a [u8],
    version: Version,
    place: Place<'a>,
    decided: Decided,
}

enum Place<'a> {
    Disk { location: Location },
    Memory { schema: SchemaVersion, row: &'a [u8] },
    NotNeeded,
}

impl Stage {
    fn is_empty(&self) -> bool {
        self.next == self.staged.len()
    }

    fn bytes(&self) -> usize {
        self.keys.len() + self.rows.len()
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.rows.clear();
        self.staged.clear();
        (self.next, self.next_key, self.next_row) = (0, 0, 0);
    }

    #[inline]
    fn push(&mut self, key: &[u8], visible: Visible<'_>, decided: Decided) {
        let place = match visible {
            Visible::Disk { location, .. } => StagedPlace::Disk { location },
            Visible::Memory { schema, row, .. } => {
                self.rows.extend_from_slice(row);
                StagedPlace::Memory { schema, row_end: self.rows.len() }
            }
        };
        self.keys.extend_from_slice(key);
        self.staged.push(StagedAt { key_end: self.keys.len(), version: visible.version(), place, decided });
    }

    /// A key whose row nobody asks for.
    fn push_key(&mut self, key: &[u8], version: Version) {
        self.keys.extend_from_slice(key);
        let place = StagedPlace::NotNeeded;
        self.staged.push(StagedAt { key_end: self.keys.len(), version, place, decided: Decided::Yes });
    }

    #[inline]
    fn next(&mut self) -> Option<Staged<'_>> {
        let StagedAt { key_end, version, place, decided } = *self.staged.get(self.next)?;
        self.next += 1;
        let key = &self.keys[self.next_key..key_end];
        self.next_key = key_end;
        let place = match place {
            StagedPlace::Disk { location } => Place::Disk { location },
            StagedPlace::Memory { schema, row_end } => {
                let row = &self.rows[self.next_row..row_end];
                self.next_row = row_end;
                Place::Memory { schema, row }
            }
            StagedPlace::NotNeeded => Place::NotNeeded,
        };
        Some(Staged { key, version, place, decided })
    }
}
