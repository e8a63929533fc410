//! Flushes: sealed memtables become rowsets and an index run each, in one pass and one edit.
//!
//! Owns the choice of what to flush together, the writing of the files, and the install. Looks nothing up: a flush
//! writes what the memtable holds on top of the index.
//!
//! Order: files synced, directory synced, log synced through the last version flushed, edit durable, view swapped,
//! memory given back, old log segments deleted.
//!
//! Invariant: flushes of a tablet are installed in seal order; there is one flush job at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use codec::{FileId, Version, hash_key};
use pkindex::{Entry, IndexFile, Output, Retention, Run, RunOptions, RunWriter, WrittenFile};
use sstable::{FileInfo, WriterOptions};
use wal::Position;

use crate::compaction::{self, KeySample};
use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::events::{Event, FlushSummary};
use crate::files::{FileKind, Files, Outputs, file_name};
use crate::manifest::{Edit, RunDesc, TabletEdit};
use crate::memtable::{MemOp, Memtable, Older};
use crate::options::{Compression, Options};
use crate::rowset::{Rowset, RowsetOptions, RowsetWriter, WrittenRowset};
use crate::tablet::{Tablet, Unflushed};
use crate::view::TabletView;

/// The memtables of one job, oldest first within a tablet.
#[derive(Debug)]
pub(crate) struct FlushJob {
    memtables: Vec<(Arc<Tablet>, Unflushed)>,
}

impl FlushJob {
    /// The memory of its memtables.
    fn bytes(&self) -> usize {
        self.memtables.iter().map(|(_, slot)| slot.counted).sum()
    }
}

/// What a memtable became on disk.
#[derive(Debug)]
pub(crate) struct Flushed {
    pub(crate) run_id: u64,
    pub(crate) index: Vec<WrittenFile>,
    pub(crate) rowsets: Vec<WrittenRowset>,
    pub(crate) through: Version,
    /// Some of its keys.
    sample: KeySample,
}

fn compression(options: &Options) -> sstable::Compression {
    match options.compression {
        Compression::None => sstable::Compression::None,
        Compression::Lz4 => sstable::Compression::Lz4,
    }
}

/// The options of the files of a table's oldest index run: most of the index, and written least often, so that it pays
/// to make it smaller.
pub(crate) fn base_run_options(options: &Options, owner: &Arc<[u8]>) -> RunOptions {
    let mut run = run_options(options, owner);
    run.file.compression = compression(options);
    run
}

/// The options of index files that will soon be merged with others.
pub(crate) fn run_options(options: &Options, owner: &Arc<[u8]>) -> RunOptions {
    RunOptions {
        file: WriterOptions {
            block_bytes: options.index_block_bytes,
            compression: sstable::Compression::None,
            ..WriterOptions::default()
        },
        file_bytes: options.index_file_bytes,
        owner: Arc::clone(owner),
    }
}

/// The options of rowsets.
pub(crate) fn rowset_options(options: &Options, owner: &Arc<[u8]>) -> RowsetOptions {
    RowsetOptions {
        rowset_bytes: options.rowset_bytes,
        file: WriterOptions {
            block_bytes: options.row_block_bytes,
            compression: compression(options),
            filter: false,
            ..WriterOptions::default()
        },
        owner: Arc::clone(owner),
    }
}

/// The options of the rowsets of a flush. Over as many others as never stay they will be moved for certain, and are
/// compressed then: twice would be once too often.
fn flush_rowset_options(options: &Options, tablet: &Tablet, memtable: &Arc<Memtable>) -> RowsetOptions {
    let mut rows = rowset_options(options, &tablet.owner());
    if let Some((first, last)) = memtable.ends()
        && compaction::depth_under(&tablet.view.pin(), &first, &last) >= compaction::DEPTH_MAX_IDLE
    {
        rows.file.compression = sstable::Compression::None;
    }
    rows
}

/// Writes one memtable as rowsets and one run. The files are synced, the directory is not.
pub(crate) fn write_memtable(
    files: &Arc<Files>,
    options: &Options,
    owner: &Arc<[u8]>,
    rowset_options: RowsetOptions,
    memtable: &Memtable,
    retention: &Retention,
) -> Result<Flushed, Error> {
    let index_outputs = Outputs::new(files, FileKind::Index);
    let row_outputs = Outputs::new(files, FileKind::Rows);
    let write = || {
        let through = memtable.versions().map_or(Version(0), |(_, last)| last);
        let mut sample = KeySample::of(memtable.entries());
        let (index, rowsets) = write_files(
            (&index_outputs, &row_outputs),
            (&run_options(options, owner), rowset_options),
            memtable,
            retention,
            &mut sample,
        )?;
        Ok(Flushed { run_id: files.next_id().0, index, rowsets, through, sample })
    };
    let written = write();
    if written.is_err() {
        index_outputs.discard();
        row_outputs.discard();
    }
    written
}

fn write_files(
    (index_outputs, row_outputs): (&dyn Output, &dyn Output),
    (run_options, rowset_options): (&RunOptions, RowsetOptions),
    memtable: &Memtable,
    retention: &Retention,
    sample: &mut KeySample,
) -> Result<(Vec<WrittenFile>, Vec<WrittenRowset>), Error> {
    let mut runs = RunWriter::new(index_outputs, run_options);
    let mut rows = RowsetWriter::new(row_outputs, rowset_options);
    let mut key: Vec<u8> = Vec::new();
    let mut entries: Vec<Entry> = Vec::new();
    let mut newer = None;
    memtable.for_each_sorted(|next, version, op| {
        if newer.is_none() || next != key.as_slice() {
            if !entries.is_empty() {
                runs.add(&key, Some(hash_key(&key)), &entries)?;
                entries.clear();
            }
            key.clear();
            key.extend_from_slice(next);
            sample.offer(next);
            newer = None;
        }
        if retention.needs(version, newer) {
            entries.push(match op {
                MemOp::Put { schema, row } => Entry::put(version, rows.push(&key, version, schema, row)?),
                MemOp::Delete => Entry::deletion(version),
            });
        }
        newer = Some(version);
        Ok::<Older, Error>(if retention.needs_older_than(version) { Older::Wanted } else { Older::Unwanted })
    })?;
    if !entries.is_empty() {
        runs.add(&key, Some(hash_key(&key)), &entries)?;
    }
    let rowsets = rows.finish()?;
    Ok((runs.finish()?, rowsets))
}

/// The manifest's description of a rowset: its file, with the keys of its first and last row.
pub(crate) fn rowset_info(rowset: &WrittenRowset) -> FileInfo {
    FileInfo { first_key: rowset.first_key.clone(), last_key: rowset.last_key.clone(), ..rowset.info.clone() }
}

/// The edit that puts a flushed memtable on top of its tablet.
pub(crate) fn tablet_edit(tablet: codec::TabletId, flushed: &Flushed) -> TabletEdit {
    let files: Vec<FileInfo> = flushed.index.iter().map(|file| file.info.clone()).collect();
    TabletEdit {
        tablet,
        flushed_through: Some(flushed.through),
        removed_runs: Vec::new(),
        added_runs: if files.is_empty() { Vec::new() } else { vec![RunDesc { id: flushed.run_id, files }] },
        added_rowsets: flushed.rowsets.iter().map(rowset_info).collect(),
        removed_rowsets: Vec::new(),
    }
}

/// Opens the rowset that `info` describes.
pub(crate) fn open_rowset(
    files: &Files,
    cache: &Arc<sstable::Cache>,
    info: &FileInfo,
) -> Result<Arc<Rowset>, Error> {
    let path = files.path(info.id, FileKind::Rows);
    let (first, last) = (info.first_key.clone(), info.last_key.clone());
    let info = FileInfo { first_key: Vec::new(), last_key: Vec::new(), ..info.clone() };
    Rowset::open(&*files.fs, &path, info, first, last, Arc::clone(cache))
}

/// Opens index files.
pub(crate) fn open_index_files(
    files: &Files,
    cache: &Arc<sstable::Cache>,
    descriptions: &[FileInfo],
) -> Result<Vec<Arc<IndexFile>>, Error> {
    let open = |info: &FileInfo| {
        let path = files.path(info.id, FileKind::Index);
        IndexFile::open(&*files.fs, &path, info.id, Arc::clone(cache), (info.len, info.footer_checksum))
    };
    Ok(descriptions.iter().map(open).collect::<Result<Vec<_>, _>>()?)
}

/// Opens the run whose files are described.
pub(crate) fn open_run(
    files: &Files,
    cache: &Arc<sstable::Cache>,
    descriptions: &[FileInfo],
) -> Result<Arc<Run>, Error> {
    Ok(Arc::new(Run::new(open_index_files(files, cache, descriptions)?)?))
}

/// Takes the memtables to flush next: sealed ones, oldest first, until they are worth a sync together.
pub(crate) fn claim(core: &Core) -> Option<FlushJob> {
    if core.health.is_healthy() { claim_sealed(core) } else { None }
}

/// How long a flush that lacks file descriptors waits before it is tried again, at first; twice as long each time.
const RETRY_AFTER_MIN: Duration = Duration::from_millis(10);
/// And at last: after two and a half seconds in all it is a failure like any other.
const RETRY_AFTER_MAX: Duration = Duration::from_millis(1280);

/// Writes out what is sealed when the engine closes and nobody else flushes any more.
pub(crate) fn flush_rest(core: &Core) -> Result<(), Error> {
    while let Some(job) = claim_sealed(core) {
        if let Err(error) = write_and_tell(core, &job) {
            give_back(&job);
            return Err(error.context("the last flush failed"));
        }
    }
    Ok(())
}

/// Writes and installs a job, and tells of it.
fn write_and_tell(core: &Core, job: &FlushJob) -> Result<(), Error> {
    let _span = tracing::info_span!("flush", memtables = job.memtables.len(), bytes = job.bytes()).entered();
    // Looked up once: a table that is dropped meanwhile is the same one at the end.
    let tables: Vec<String> = if core.events.are_wanted() {
        core.catalog.names_of(job.memtables.iter().map(|(tablet, _)| tablet))
    } else {
        Vec::new()
    };
    core.events.raise(|| Event::FlushBegun { tables: tables.clone(), memtable_bytes: job.bytes() as u64 });
    let start = core.clock.now();
    let mut summary = FlushSummary::default();
    let result = patiently(core, || {
        summary = write_and_install(core, job)?;
        Ok(())
    });
    core.events.raise(|| Event::FlushEnded {
        tables,
        took: core.clock.now().saturating_sub(start),
        result: result.clone().map(|()| summary),
    });
    result
}

fn give_back(job: &FlushJob) {
    for (tablet, slot) in &job.memtables {
        tablet.unclaim(&slot.memtable);
    }
}

fn claim_sealed(core: &Core) -> Option<FlushJob> {
    let mut memtables = Vec::new();
    let mut bytes = 0;
    for table in core.catalog.all() {
        let mut held = 0;
        while bytes < core.options.memtable_seal_bytes() {
            let Some(slot) = table.tablet.claim_sealed(held) else { break };
            held += 1;
            bytes += slot.counted;
            memtables.push((Arc::clone(&table.tablet), slot));
        }
    }
    (!memtables.is_empty()).then_some(FlushJob { memtables })
}

/// Runs a job. When it fails, the memtables stay where they are, and the engine's health says why.
pub(crate) fn run(core: &Core, job: &FlushJob) {
    let start = core.clock.now();
    match write_and_tell(core, job) {
        Ok(()) => core.stall.note_flush(job.bytes(), start, core.clock.now()),
        Err(error) => {
            give_back(job);
            let error = error.context("a flush failed");
            // Writers cannot wait for ever for descriptors to come back; a close tries once more.
            if !error.is_passing() {
                core.health.fail(&error);
            } else if !core.workers.stopping().load(Ordering::Acquire) {
                core.health.poison(&error);
            }
        }
    }
    core.health.progress.notify();
}

/// Does something again and again, later each time, as long as it lacks file descriptors.
pub(crate) fn patiently(core: &Core, mut work: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    let mut delay = RETRY_AFTER_MIN;
    loop {
        match work() {
            Err(error) if error.is_passing() && delay <= RETRY_AFTER_MAX => {
                tracing::warn!(%error, ?delay, "this is tried again");
                core.clock.sleep(delay);
                delay *= 2;
            }
            done => return done,
        }
    }
}

/// Returns what came into force.
fn write_and_install(core: &Core, job: &FlushJob) -> Result<FlushSummary, Error> {
    let retention = core.registry.retention();
    let (flushed, opened) = write_and_open(core, job, &retention).or_else(|first| {
        // Once more, under new numbers: a file that failed to sync is not trusted again, another may do.
        tracing::warn!(error = %first, "a flush is tried once more");
        write_and_open(core, job, &retention)
    })?;
    install(core, job, &retention, &flushed, &opened)
}

/// Writes the files of a job and opens them. If anything fails, none is left.
fn write_and_open(
    core: &Core,
    job: &FlushJob,
    retention: &Retention,
) -> Result<(Vec<Flushed>, Vec<Opened>), Error> {
    let flushed = write_all(core, job, retention)?;
    let opened = flushed.iter().map(|done| open(core, done)).collect::<Result<Vec<Opened>, Error>>();
    match opened {
        Ok(opened) => Ok((flushed, opened)),
        Err(error) => {
            discard(&core.files, &flushed);
            Err(error)
        }
    }
}

fn write_all(core: &Core, job: &FlushJob, retention: &Retention) -> Result<Vec<Flushed>, Error> {
    let mut flushed: Vec<Flushed> = Vec::with_capacity(job.memtables.len());
    for (tablet, slot) in &job.memtables {
        let rows = flush_rowset_options(&core.options, tablet, &slot.memtable);
        let (files, options) = (&core.files, &core.options);
        match write_memtable(files, options, &tablet.owner(), rows, &slot.memtable, retention) {
            Ok(done) => flushed.push(done),
            Err(error) => {
                discard(&core.files, &flushed);
                return Err(error);
            }
        }
    }
    Ok(flushed)
}

/// Removes what a job wrote that will not be installed.
pub(crate) fn discard(files: &Files, flushed: &[Flushed]) {
    for done in flushed {
        files.remove_unfinished(done.index.iter().map(|file| (file.info.id, FileKind::Index)));
        files.remove_unfinished(done.rowsets.iter().map(|rowset| (rowset.info.id, FileKind::Rows)));
    }
}

/// The opened form of a flushed memtable.
struct Opened {
    run: Option<Arc<Run>>,
    rowsets: Vec<Arc<Rowset>>,
}

fn install(
    core: &Core,
    job: &FlushJob,
    retention: &Retention,
    flushed: &[Flushed],
    opened: &[Opened],
) -> Result<FlushSummary, Error> {
    let sync = || {
        core.files.sync_dir()?;
        let log_end = job.memtables.iter().map(|(_, slot)| slot.log_end).max().expect("a job has memtables");
        Ok::<(), Error>(core.log.sync(log_end)?)
    };
    if let Err(error) = sync() {
        // A failed sync of the directory or the log leaves open what is on disk.
        discard(&core.files, flushed);
        core.health.poison(&error);
        return Err(error);
    }
    let log_start = log_start_after(core, job);
    sync_log_start(core, log_start)?;
    for (((tablet, _), done), opened) in job.memtables.iter().zip(flushed).zip(opened) {
        if let Some(run) = &opened.run {
            tablet.compacting.note_run(done.run_id, retention, run.versions());
        }
    }
    let installed = core.manifest.install(
        |state| {
            // A tablet may be gone by now. One whose drop has only begun is still there: its files are named, and it is
            // for the drop to retire them, or for the table to go on with them if the drop fails.
            let tablets: Vec<TabletEdit> = job
                .memtables
                .iter()
                .zip(flushed)
                .filter(|((tablet, _), _)| state.tablets.contains_key(&tablet.id))
                .map(|((tablet, _), done)| tablet_edit(tablet.id, done))
                .collect();
            let attested: Position = core.log.synced();
            Ok(Some(Edit {
                // Housekeeping may have gone further meanwhile: what it deleted must not be named again.
                log_start: Some(log_start.max(state.log_start)),
                attested: Some(attested),
                durable_through: Some(core.log.synced_version()),
                version_ceiling: core.commit.ceiling_to_raise(),
                tablets,
                ..Edit::default()
            }))
        },
        |state| {
            core.commit.raise_ceiling(state.version_ceiling);
            let mut are_named = Vec::with_capacity(flushed.len());
            for (((tablet, slot), done), opened) in job.memtables.iter().zip(flushed).zip(opened) {
                let is_named = state.tablets.contains_key(&tablet.id);
                if is_named {
                    // Before anybody sees them: a compaction may be done with them at once.
                    tell_files(core, done.index.iter().map(|file| &file.info), FileKind::Index);
                    tell_files(core, done.rowsets.iter().map(|rowset| &rowset.info), FileKind::Rows);
                    publish(tablet, &slot.memtable, done, opened);
                }
                are_named.push(is_named);
            }
            are_named
        },
    );
    let are_named = match installed {
        Ok(are_named) => are_named.expect("the edit is always made"),
        Err(error) => {
            // For lack of space or of descriptors the edit never was; after any other failure it may be on disk, and its
            // files are kept.
            if error.kind() == ErrorKind::NoSpace || error.is_passing() {
                discard(&core.files, flushed);
            }
            return Err(error);
        }
    };
    core.counters.flushes.add(1);
    let mut summary = FlushSummary::default();
    for (((tablet, slot), done), is_named) in job.memtables.iter().zip(flushed).zip(are_named) {
        core.stall.shrink(tablet.forget_flushed(&slot.memtable));
        core.counters.flushed_bytes.add(written_bytes(done));
        if is_named {
            summary.files += (done.index.len() + done.rowsets.len()) as u64;
            summary.bytes += written_bytes(done);
        } else {
            discard(&core.files, std::slice::from_ref(done));
        }
    }
    delete_log_below(core, log_start);
    for ((tablet, _), done) in job.memtables.iter().zip(flushed) {
        compaction::note_overwrites(tablet, &done.sample);
    }
    compaction::note_debt(core, job.memtables.iter().map(|(tablet, _)| tablet));
    core.signals.compaction.set();
    Ok(summary)
}

/// Tells of files that come into force.
pub(crate) fn tell_files<'a>(core: &Core, files: impl Iterator<Item = &'a FileInfo>, kind: FileKind) {
    for info in files {
        core.events.raise(|| Event::FileMade { name: file_name(info.id, kind), bytes: info.len });
    }
}

fn open(core: &Core, done: &Flushed) -> Result<Opened, Error> {
    let files: Vec<FileInfo> = done.index.iter().map(|file| file.info.clone()).collect();
    let run = if files.is_empty() { None } else { Some(open_run(&core.files, &core.cache, &files)?) };
    let rowsets = done
        .rowsets
        .iter()
        .map(|rowset| open_rowset(&core.files, &core.cache, &rowset_info(rowset)))
        .collect::<Result<_, _>>()?;
    Ok(Opened { run, rowsets })
}

/// Swaps the view: the memtable goes, its run and rowsets come.
fn publish(tablet: &Tablet, memtable: &Arc<Memtable>, done: &Flushed, opened: &Opened) {
    tablet.view.replace(|view| {
        let mut runs = view.runs.clone();
        let mut run_ids = view.run_ids.clone();
        if let Some(run) = &opened.run {
            runs.insert(0, Arc::clone(run));
            run_ids.insert(0, done.run_id);
        }
        TabletView {
            memtables: view.memtables.iter().filter(|kept| !Arc::ptr_eq(kept, memtable)).cloned().collect(),
            runs,
            run_ids,
            rowsets: Arc::new(view.rowsets.with(&[], opened.rowsets.iter().cloned())),
            flushed_through: done.through.max(view.flushed_through),
        }
    });
}

/// The bytes of the files that a memtable became.
pub(crate) fn written_bytes(done: &Flushed) -> u64 {
    let index: u64 = done.index.iter().map(|file| file.info.len).sum();
    let rows: u64 = done.rowsets.iter().map(|rowset| rowset.info.len).sum();
    index + rows
}

/// The first log segment that is needed once the job is installed. Looked up in the stage, between groups: else a
/// group could be in the log and not yet noted by its memtable.
fn log_start_after(core: &Core, job: &FlushJob) -> FileId {
    let _stage = core.commit.stage();
    let mut start = core.log.end().segment;
    for table in core.catalog.all() {
        let flushing = |memtable: &Arc<Memtable>| {
            job.memtables.iter().any(|(_, slot)| Arc::ptr_eq(&slot.memtable, memtable))
        };
        if let Some(first) = table.tablet.log_first_without(flushing) {
            start = start.min(first);
        }
    }
    start
}

/// The segment that the manifest will name as the start of the log must be on disk, with its header and its name. If
/// it is gone, the manifest names a later start already.
fn sync_log_start(core: &Core, start: FileId) -> Result<(), Error> {
    let segment = core.log.segments().into_iter().find(|segment| segment.id == start);
    let Some(segment) = segment else { return Ok(()) };
    core.log.sync(segment.start()).map_err(|error| {
        let error = Error::from(error);
        core.health.poison(&error);
        error
    })
}

/// Deletes the log segments below `start`, which the manifest does not need any more.
pub(crate) fn delete_log_below(core: &Core, start: FileId) {
    let old: Vec<FileId> =
        core.log.segments().into_iter().map(|segment| segment.id).filter(|id| *id < start).collect();
    if old.is_empty() {
        return;
    }
    core.log.forget_below(start);
    for id in old {
        core.files.retire_unnamed(id, FileKind::Log);
    }
    core.signals.housekeeping.set();
}

/// Seals the largest memtable; false if all are empty. Called when writers are slowed although no sealed memtable
/// waits.
pub(crate) fn seal_largest(core: &Core) -> bool {
    let largest = core
        .catalog
        .all()
        .into_iter()
        .map(|table| (table.tablet.memory().active_bytes, table))
        .max_by_key(|(bytes, _)| *bytes);
    let Some((_, table)) = largest else { return false };
    let _stage = core.commit.stage();
    table.tablet.seal()
}

/// Seals every memtable that keeps a segment below `keep` alive.
pub(crate) fn seal_older_than(core: &Core, keep: FileId) {
    let _stage = core.commit.stage();
    for table in core.catalog.all() {
        if table.tablet.memory().active_log_first.is_some_and(|first| first < keep) {
            table.tablet.seal();
        }
    }
    core.signals.flush.set();
}

/// Flushes everything that was applied before the call, and waits for it.
pub(crate) fn flush_and_wait(core: &Core, tablets: &[Arc<Tablet>]) -> Result<(), Error> {
    let goals: Vec<(Arc<Tablet>, Version)> = {
        let _stage = core.commit.stage();
        tablets
            .iter()
            .filter_map(|tablet| {
                let last = tablet.last_unflushed()?;
                tablet.seal();
                Some((Arc::clone(tablet), last))
            })
            .collect()
    };
    core.signals.flush.set();
    core.run_inline_flushes();
    let is_done =
        |(tablet, goal): &(Arc<Tablet>, Version)| tablet.is_gone() || !tablet.has_unflushed_through(*goal);
    let flushed = core.health.progress.wait_for(Duration::from_millis(100), || {
        if goals.iter().all(is_done) {
            return Some(Ok(()));
        }
        core.health.check_writable().err().map(Err)
    });
    core.tell_inline();
    flushed
}

/// Deletes log segments that no memtable needs, although no flush came by to say so.
pub(crate) fn drop_unneeded_log(core: &Core) -> Result<(), Error> {
    let start = {
        let _stage = core.commit.stage();
        let end = core.log.end().segment;
        let first = |table: Arc<crate::catalog::TableCore>| table.tablet.log_first_without(|_| false);
        core.catalog.all().into_iter().filter_map(first).min().map_or(end, |first| first.min(end))
    };
    start_log_at(core, start)
}

/// Makes `start` the start of the log, unless a flush has gone further since it was looked up.
fn start_log_at(core: &Core, start: FileId) -> Result<(), Error> {
    if core.manifest.with_state(|state| state.log_start >= start) {
        return Ok(());
    }
    let installed = sync_log_start(core, start).and_then(|()| {
        core.manifest.install(
            |state| {
                // What was committed to the segments that go is durable, and nothing else may say so any more.
                let durable_through = Some(core.log.synced_version());
                let edit = Edit { log_start: Some(start), durable_through, ..Edit::default() };
                Ok((state.log_start < start).then_some(edit))
            },
            |_| (),
        )
    });
    match installed {
        Ok(Some(())) => delete_log_below(core, start),
        Ok(None) => {}
        Err(error) => {
            core.health.fail(&error);
            return Err(error);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
