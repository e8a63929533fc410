//! Opens a directory for reading only, perhaps beside a writer.
//!
//! Owns the order in which a state is had that was in force at one moment, and the decision to try again. Replays the
//! log into memtables that are never flushed.
//!
//! What is read, in this order, each thing from then on as it is: `CURRENT`; the manifest that it names, up to its end;
//! the log from where that says, up to its end; every file that it names. The state of the manifest is older than the
//! end of the log, so the log holds all that was committed since, and each commit before the call is in one or the
//! other. Where a writer deletes a file before it is opened here, or makes a table whose rows are read but not the
//! edit, that is noticed, and all is read again.
//!
//! Invariant: nothing is written, made, locked or removed: there is no other file system below than one that refuses
//! it.
//!
//! Damage that a writer would never leave looks like a race at first. It is told once the same directory has been seen
//! with it three times.

mod frozen;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use codec::{FileId, TabletId, Version};
use vfs::Fs;
use wal::Log;

use self::frozen::Frozen;
use super::replay::{self, Last, Sink};
use super::{Listing, Parts, Recovered, RecoveryReport, TornTail, learn, log_options, open_tables};
use crate::batch::ops::Op;
use crate::catalog::{Catalog, TableCore};
use crate::commit::mem_op;
use crate::error::{Error, ErrorKind};
use crate::files::{FileKind, Files};
use crate::manifest::{self, Manifest, State};
use crate::memtable::MEMTABLE_BYTES_MAX;
use crate::options::Options;
use crate::runtime::Clock;
use crate::tablet::Tablet;

/// So often it is tried, whatever changes meanwhile.
const TRIES_MAX: u32 = 100;
/// So often the same failure is met on the same files before it counts.
const SAME_TRIES: u32 = 3;
/// Between two tries, at first, and at most.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// At which size a memtable is sealed. None is ever flushed, and a read looks into each: the fewer the better. The rest
/// is room for the batch that is larger.
const SEAL_BYTES: usize = MEMTABLE_BYTES_MAX / 2;

/// What a try has seen of the directory: numbers and lengths, in the order in which they were met.
type Seen = Vec<u64>;

/// Opens the database in `dir` as it is.
pub(crate) fn open(options: &Options, dir: &Path, cache: &Arc<sstable::Cache>) -> Result<Recovered, Error> {
    super::find_directory(&*options.fs, dir)?;
    let clock = Clock::of(options.runtime);
    let start = clock.now();
    let (mut tries, mut same, mut pause) = (0, 0, PAUSE_MIN);
    let mut before: Option<Seen> = None;
    loop {
        let mut seen = Seen::new();
        let error = match attempt(options, dir, cache, &mut seen) {
            Ok(mut recovered) => {
                recovered.report.duration = clock.now().saturating_sub(start);
                return Ok(recovered);
            }
            Err(error) => error,
        };
        tries += 1;
        same = if before.as_ref() == Some(&seen) { same + 1 } else { 1 };
        let may_be_a_race = matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io);
        if !may_be_a_race || same == SAME_TRIES || tries == TRIES_MAX {
            return Err(error);
        }
        tracing::debug!(%error, tries, "the directory is read again");
        before = Some(seen);
        clock.sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// The disk as it is, but for a segment of a log, which ends where it ended.
pub(crate) fn hold_segment(fs: &Arc<dyn Fs>, dir: &Path, id: FileId, kind: FileKind) -> Arc<dyn Fs> {
    let frozen = Frozen::new(Arc::clone(fs), dir);
    match frozen.hold_log(&[id], kind) {
        Ok(_) => Arc::new(frozen),
        // A disk that does not give all of it: what can be read is for the caller to find out.
        Err(_) => Arc::clone(fs),
    }
}

fn attempt(
    options: &Options,
    dir: &Path,
    cache: &Arc<sstable::Cache>,
    seen: &mut Seen,
) -> Result<Recovered, Error> {
    let frozen = Arc::new(Frozen::new(Arc::clone(&options.fs), dir));
    let fs: Arc<dyn Fs> = Arc::clone(&frozen) as Arc<dyn Fs>;
    let options = Options { fs: Arc::clone(&fs), create_if_missing: false, ..options.clone() };
    let current = manifest::read_current(&*fs, dir)?;
    let listing = look(&frozen, dir, seen)?;
    let Some(current) = current else {
        super::check_creatable(&options, dir)?;
        unreachable!("it is not to be created");
    };
    let manifests = listing.from(current, FileKind::Manifest);
    hold(&frozen, &manifests, FileKind::Manifest, seen)?;
    let (state, manifest_scan) = manifest::load_scanned(&fs, dir, current, &manifests)?;

    let listing = look(&frozen, dir, seen)?;
    let segments = listing.from(state.log_start, FileKind::Log);
    hold(&frozen, &segments, FileKind::Log, seen)?;
    learn::check_present(&listing, &state)?;
    let next = listing.next_number().max(state.next_file);
    let files = Arc::new(Files::new(Arc::clone(&fs), dir, next));
    let catalog = open_tables(&files, cache, &state)?;

    let attested = state.attested.unwrap_or_default();
    let scan = wal::scan_attested(&log_options(&options, dir), state.log_start, &segments, attested)?;
    let mut remembering = Remembering::new(&catalog);
    // The replay notes what it has come to; what is in force is what the manifest says.
    let mut replayed = state.clone();
    let (mut report, _) = replay::walk(&scan, &mut replayed, &mut remembering)?;
    report.torn = scan.torn.as_ref().map(TornTail::not_saved);
    report.recovered_to = replayed.durable_through;
    let flushed = state.tablets.values().map(|tablet| tablet.flushed_through).max().unwrap_or_default();
    let visible = report.replayed_versions.map_or(flushed, |(_, last)| flushed.max(last));
    // What is only in the log may still be in the writer's page cache.
    let durable = state.durable_through;
    let parts = Parts {
        log: Log::read_only(&scan)?,
        manifest: Manifest::read_only(&files, state, &manifest_scan)?,
        files,
        catalog,
        first_version: visible.next(),
        ceiling: visible,
        durable,
    };
    Ok(Recovered { parts, report })
}

/// What is in the directory now, and stays so.
fn look(frozen: &Frozen, dir: &Path, seen: &mut Seen) -> Result<Listing, Error> {
    let listed = frozen.look();
    listed.map_err(|error| Error::io(format_args!("listing {}", dir.display()), error))?;
    let listing = Listing::read(frozen, dir)?;
    seen.extend(listing.numbered.iter().map(|(id, _)| id.0));
    Ok(listing)
}

/// The log is from now on as it is.
fn hold(frozen: &Frozen, segments: &[FileId], kind: FileKind, seen: &mut Seen) -> Result<(), Error> {
    let held = frozen.hold_log(segments, kind);
    seen.extend(held.map_err(|error| Error::io("opening the log", error))?);
    Ok(())
}

/// Keeps what is replayed in the memtables of its tablets.
struct Remembering {
    tablets: BTreeMap<TabletId, Arc<Tablet>>,
    /// Those that the batch has an operation of; some of them twice.
    touched: Vec<TabletId>,
}

impl Remembering {
    fn new(catalog: &Catalog) -> Remembering {
        let tablet = |table: &Arc<TableCore>| (table.tablet.id, Arc::clone(&table.tablet));
        let tablets = catalog.all().iter().map(tablet).collect();
        Remembering { tablets, touched: Vec::new() }
    }
}

impl Sink for Remembering {
    fn apply(&mut self, tablet: TabletId, op: &Op<'_>, version: Version) {
        let view = self.tablets.get(&tablet).expect("every tablet of the state is open").view.pin();
        view.active().apply(|tree| tree.insert(op.key, version, mem_op(op)));
        if self.touched.last() != Some(&tablet) {
            self.touched.push(tablet);
        }
    }

    fn end_batch(&mut self, _: Last, _: &mut State, _: &mut RecoveryReport) -> Result<(), Error> {
        for id in self.touched.drain(..) {
            let tablet = &self.tablets[&id];
            tablet.count_replayed();
            if tablet.view.pin().active().bytes() >= SEAL_BYTES {
                tablet.seal();
            }
        }
        Ok(())
    }
}
