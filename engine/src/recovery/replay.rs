//! Replays the log into new rowsets and index runs.
//!
//! The log holds full rows and deletions, so replay decides nothing: an operation is skipped if its version is in the
//! runs already or its table is gone, else it goes to a memtable as it once did. Memory is bounded: when the memtables
//! have filled half of it they are written out, between two batches, by a thread beside the replay of what follows.
//!
//! The manifest names a table, and a ceiling of versions, before the log may speak of them. If the log does and the
//! manifest does not, the manifest has lost edits: nothing is skipped then, it is corruption. So it is with the schema
//! of a row.

use std::collections::BTreeMap;
use std::sync::Arc;

use codec::{SchemaVersion, TableId, TabletId, Version};
use pkindex::Retention;
use sync::thread::JoinHandle;
use wal::Scan;

use super::RecoveryReport;
use crate::batch::ops::{Op, OpKind, Ops};
use crate::commit::mem_op;
use crate::error::Error;
use crate::files::Files;
use crate::flush::{Flushed, write_memtable};
use crate::manifest::{Edit, Owner, State, TableDesc};
use crate::memtable::{MEMTABLE_BYTES_MAX, Memtable};
use crate::options::{Options, RuntimeMode};
use crate::row::ROW_BYTES_MAX;
use crate::runtime;
use crate::schema::Schema;
use crate::tablet::files::rowset_options;

/// What becomes of the operations that are replayed.
pub(super) trait Sink {
    /// Takes an operation that is in no run of this tablet.
    fn apply(&mut self, tablet: TabletId, op: &Op<'_>, version: Version);

    /// Told between two batches, and at the end.
    ///
    /// # Errors
    /// Whatever stops the replay.
    fn end_batch(
        &mut self,
        is_last: Last,
        state: &mut State,
        report: &mut RecoveryReport,
    ) -> Result<(), Error>;
}

/// Whether the log ends with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    No,
    Yes,
}

/// Replays what `scan` found, and adds what was written to the state.
pub(super) fn replay(
    options: &Options,
    files: &Arc<Files>,
    scan: &Scan,
    state: &mut State,
) -> Result<RecoveryReport, Error> {
    // Half of it fills while the other half is written out.
    let memory_max = (options.memtable_bytes_max() / 2).min(MEMTABLE_BYTES_MAX / 2);
    let mut sink =
        Flushing { options, files, part_bytes: memory_max / 2, memtables: BTreeMap::new(), writing: None };
    let (report, last_version) = walk(scan, state, &mut sink)?;
    state.version_ceiling = last_version;
    Ok(report)
}

/// Gives what is to be replayed to `sink`, in order. Tells the last version, or the ceiling if that is greater.
pub(super) fn walk(
    scan: &Scan,
    state: &mut State,
    sink: &mut impl Sink,
) -> Result<(RecoveryReport, Version), Error> {
    let mut report = RecoveryReport {
        log_segments: scan.segments.len() as u64,
        log_bytes: scan.record_bytes(),
        ..RecoveryReport::default()
    };
    let schemas = schema_versions(state)?;
    let (next_table, ceiling) = (state.next_table, state.version_ceiling);
    let mut last_version = ceiling;
    let mut least = Version(1);
    let mut records = scan.replay();
    while let Some(record) = records.next()? {
        report.batches += 1;
        let at = record.position;
        let mut version = record.first_version;
        for op in Ops::new(record.body) {
            let op =
                op.map_err(|error| Error::corruption(format!("the batch in the log at {at}: {error}")))?;
            if op.table >= next_table || version > ceiling {
                return Err(Error::corruption(format!(
                    "the batch in the log at {at} holds version {version} of table {}, but the manifest knows tables below \
                     {next_table} and versions up to {ceiling} only: it has lost edits",
                    op.table
                )));
            }
            // Log order is version order; memtables rely on it.
            if version < least {
                return Err(Error::corruption(format!(
                    "the batch in the log at {at}: version {version} where {least} or a later one should be"
                )));
            }
            least = version.next();
            match tablet_of(state, &op, version) {
                Some(tablet) => {
                    check(&op, &schemas)
                        .map_err(|error| error.context(format!("the batch in the log at {at}")))?;
                    sink.apply(tablet, &op, version);
                    report.replayed_operations += 1;
                    let first = report.replayed_versions.map_or(version, |(first, _)| first);
                    report.replayed_versions = Some((first, version));
                }
                None => report.skipped_operations += 1,
            }
            last_version = last_version.max(version);
            state.durable_through = state.durable_through.max(version);
            version = version.next();
        }
        sink.end_batch(Last::No, state, &mut report)?;
    }
    sink.end_batch(Last::Yes, state, &mut report)?;
    Ok((report, last_version))
}

/// Writes out what was replayed whenever a part of its memory is full, beside the replay of the next part.
struct Flushing<'a> {
    options: &'a Options,
    files: &'a Arc<Files>,
    part_bytes: usize,
    memtables: BTreeMap<TabletId, Memtable>,
    /// Writes out the part before.
    writing: Option<Writing>,
}

impl Sink for Flushing<'_> {
    fn apply(&mut self, tablet: TabletId, op: &Op<'_>, version: Version) {
        let memtable = self.memtables.entry(tablet).or_insert_with(|| Memtable::new(0));
        memtable.apply(|tree| tree.insert(op.key, version, mem_op(op)));
    }

    fn end_batch(
        &mut self,
        is_last: Last,
        state: &mut State,
        report: &mut RecoveryReport,
    ) -> Result<(), Error> {
        let bytes: usize = self.memtables.values().map(Memtable::bytes).sum();
        if is_last == Last::No && bytes < self.part_bytes {
            return Ok(());
        }
        if let Some(writing) = self.writing.take() {
            add(writing.end()?, state, report)?;
        }
        let part = Arc::new(Part::new(self.options, self.files, std::mem::take(&mut self.memtables), state));
        self.writing = match (is_last, self.options.runtime) {
            (Last::No, RuntimeMode::Threads) => Writing::begin(&part),
            _ => None,
        };
        if self.writing.is_none() {
            add(part.write()?, state, report)?;
        }
        Ok(())
    }
}

/// The tablet that an operation still has to be applied to.
fn tablet_of(state: &State, op: &Op<'_>, version: Version) -> Option<TabletId> {
    let tablet = *state.tables.get(&op.table)?.tablets.first()?;
    (version > state.tablets.get(&tablet)?.flushed_through).then_some(tablet)
}

/// The newest schema version of each table.
fn schema_versions(state: &State) -> Result<BTreeMap<TableId, SchemaVersion>, Error> {
    let version = |table: &TableDesc| Ok((table.id, Schema::decode(&table.schema)?.version()));
    state.tables.values().map(version).collect()
}

fn check(op: &Op<'_>, schemas: &BTreeMap<TableId, SchemaVersion>) -> Result<(), Error> {
    if op.kind == OpKind::Update {
        return Err(Error::corruption("an update, which is never logged"));
    }
    // What could not be written to a rowset was never logged.
    if op.row.len() > ROW_BYTES_MAX {
        let len = op.row.len();
        return Err(Error::corruption(format!("a row of {len} bytes, at most {ROW_BYTES_MAX} are written")));
    }
    // The manifest names a schema before the log may speak of it.
    let newest = schemas.get(&op.table).copied().expect("the operation is on a table that there is");
    if op.kind == OpKind::Put && (op.schema.0 == 0 || op.schema > newest) {
        return Err(Error::corruption(format!(
            "a row of schema version {}, but the manifest knows the versions 1 to {newest} of table {} only: it has lost edits",
            op.schema, op.table
        )));
    }
    Ok(())
}

/// What became of the memtables of a part.
type Written = Vec<(TabletId, Flushed)>;

/// Memtables that are full, with all that it takes to write them out.
struct Part {
    options: Options,
    files: Arc<Files>,
    memtables: Vec<(TabletId, Arc<[u8]>, Memtable)>,
}

impl Part {
    fn new(
        options: &Options,
        files: &Arc<Files>,
        memtables: BTreeMap<TabletId, Memtable>,
        state: &State,
    ) -> Part {
        let with_owner = |(tablet, memtable)| {
            let table = state.tables.values().find(|table| table.tablets.contains(&tablet));
            let owner = table.map(|table| Owner::of(table, tablet).encode()).unwrap_or_default();
            (tablet, owner.into(), memtable)
        };
        let memtables = memtables.into_iter().map(with_owner).collect();
        Part { options: options.clone(), files: Arc::clone(files), memtables }
    }

    fn write(&self) -> Result<Written, Error> {
        // Nobody reads yet: of each key the newest version is all that is needed.
        let retention = Retention { floor: Version::MAX, snapshots: Vec::new() };
        let write = |(tablet, owner, memtable): &(TabletId, Arc<[u8]>, Memtable)| {
            let rows = rowset_options(&self.options, owner);
            Ok((*tablet, write_memtable(&self.files, &self.options, owner, rows, memtable, &retention)?))
        };
        self.memtables.iter().map(write).collect()
    }
}

/// A thread that writes out a part. Whoever drops this waits for it: an open that fails leaves nobody at work behind
/// it.
struct Writing(Option<JoinHandle<Result<Written, Error>>>);

impl Writing {
    /// `None` if there is no thread to be had.
    fn begin(part: &Arc<Part>) -> Option<Writing> {
        let part = Arc::clone(part);
        match runtime::start("replay", move || part.write()) {
            Ok(thread) => Some(Writing(Some(thread))),
            Err(error) => {
                tracing::warn!(%error, "a thread could not be started");
                None
            }
        }
    }

    fn end(mut self) -> Result<Written, Error> {
        let thread = self.0.take().expect("it is joined once");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}

/// Adds what was written to the state, in the order of the log.
fn add(written: Written, state: &mut State, report: &mut RecoveryReport) -> Result<(), Error> {
    for (tablet, flushed) in written {
        report.flushed_runs += u64::from(!flushed.index.is_empty());
        report.flushed_files += flushed.files();
        report.flushed_bytes += flushed.bytes();
        let edit = Edit { tablets: vec![flushed.edit(tablet)], ..Edit::default() };
        state.apply(&edit)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    /// It could be neither flushed nor dropped, and the open would fail as if an argument were wrong.
    #[test]
    fn a_row_that_is_longer_than_any_is_damage() {
        let row = vec![0; ROW_BYTES_MAX + 1];
        let state = BTreeMap::from([(TableId(1), SchemaVersion(1))]);
        let op = |row| Op { kind: OpKind::Put, table: TableId(1), schema: SchemaVersion(1), key: b"k", row };
        check(&op(&row[1..]), &state).expect("the longest row there is");
        let error = check(&op(&row), &state).expect_err("one byte more");
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    }

    /// Its columns are not known: what stands in the row would be read as something else.
    #[test]
    fn a_row_of_a_schema_that_the_manifest_does_not_know_is_damage() {
        let state = BTreeMap::from([(TableId(1), SchemaVersion(2))]);
        let op =
            |kind, schema| Op { kind, table: TableId(1), schema: SchemaVersion(schema), key: b"k", row: b"" };
        for schema in [1, 2] {
            check(&op(OpKind::Put, schema), &state).expect("a version that the table has had");
        }
        check(&op(OpKind::Delete, 3), &state).expect("a deletion has no row");
        for schema in [0, 3] {
            let error = check(&op(OpKind::Put, schema), &state).expect_err("an unknown version");
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        }
    }
}
