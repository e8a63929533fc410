//! Opens a directory: first learns, read-only, then acts.
//!
//! Owns the decision between a new database, an existing one, and a directory that is neither; the replay of the log;
//! and the removal of orphans. Ends with the parts of a core whose memtables are empty.
//!
//! Invariant: nothing is changed before everything was read that decides whether to change it. (`LOCK` is made first.)
//! Invariant: an old file is never appended to. What was only in the page cache is written anew and synced: replayed
//! rows go to new files, the log and the manifest start new segments, and `CURRENT` comes last.
//! Invariant: an open that fails before `CURRENT` may name what it wrote removes that again.
//! Invariant: new numbers lie above every number in the directory and in the manifest; new versions lie above the
//! ceiling that the manifest named.

mod learn;
mod read_only;
mod replay;
mod report;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use codec::{FileId, RowsetId, TabletId, Version};
use vfs::Fs;
use wal::Log;

use crate::catalog::{Catalog, TableCore};
use crate::commit::VERSION_RESERVE;
use crate::error::{Error, ErrorKind};
use crate::files::{CURRENT_TEMPORARY, FileKind, Files, LOCK, file_name};
use crate::manifest::{Manifest, Owner, State, TabletState};
use crate::options::Options;
use crate::rowset::Rowsets;
use crate::runtime::Clock;
use crate::schema::Schema;
use crate::tablet::Tablet;
use crate::tablet::files::{open_index_files, open_rowset};
use crate::view::TabletView;
use learn::Learned;
pub(crate) use learn::Listing;
pub(crate) use read_only::{hold_segment, open as open_read_only};
pub use report::{RecoveryReport, TornTail};

/// What an open found.
pub(crate) struct Recovered {
    pub(crate) parts: Parts,
    pub(crate) report: RecoveryReport,
}

/// The parts of a core that come from the directory.
pub(crate) struct Parts {
    pub(crate) files: Arc<Files>,
    pub(crate) log: Log,
    pub(crate) manifest: Manifest,
    pub(crate) catalog: Catalog,
    /// The first version to give out.
    pub(crate) first_version: Version,
    /// The last that may be given out before the manifest names more.
    pub(crate) ceiling: Version,
    /// All commits up to this one are on disk.
    pub(crate) durable: Version,
}

/// The options of the write-ahead log.
pub(crate) fn log_options(options: &Options, dir: &Path) -> wal::Options {
    /// A body is a batch, whose limit may have been higher when it was written than it is now.
    const RECORD_BYTES_MAX: u32 = (1 << 30) + (1 << 20);
    wal::Options {
        fs: Arc::clone(&options.fs),
        dir: dir.to_owned(),
        flavor: wal::Flavor::Wal,
        segment_bytes: options.log_segment_bytes,
        record_bytes_max: RECORD_BYTES_MAX,
        trickle_bytes: 1 << 20,
    }
}

/// Opens or creates the database in `dir`, whose lock is held.
pub(crate) fn recover(
    options: &Options,
    dir: &Path,
    cache: &Arc<sstable::Cache>,
) -> Result<Recovered, Error> {
    let clock = Clock::of(options.runtime);
    let start = clock.now();
    let listing = Listing::read(&*options.fs, dir)?;
    let (files, prepared) = match learn::learn(options, dir, &listing)? {
        None => {
            learn::check_creatable(options, dir, &listing)?;
            sync_way(&*options.fs, dir)?;
            let files = Arc::new(Files::new(Arc::clone(&options.fs), dir, listing.next_number()));
            let report = RecoveryReport { is_new: true, ..RecoveryReport::default() };
            let prepared = prepare(options, &files, cache, State::default(), report);
            (files, prepared)
        }
        Some(Learned { mut state, scan }) => {
            let next = listing.next_number().max(state.next_file);
            let files = Arc::new(Files::new(Arc::clone(&options.fs), dir, next));
            // Everything that is named must open before anything is written.
            open_tables(&files, cache, &state)?;
            let replayed = replay::replay(options, &files, &scan, &mut state);
            let prepared = replayed.and_then(|mut report| {
                report.torn = scan.torn.as_ref().map(|torn| learn::save_torn(&files, torn));
                prepare(options, &files, cache, state, report)
            });
            (files, prepared)
        }
    };
    let prepared = prepared.inspect_err(|_| discard_new(&files))?;
    let mut recovered = prepared.put_in_force(files, &listing)?;
    recovered.report.duration = clock.now() - start;
    Ok(recovered)
}

/// Removes what an open has written that failed before `CURRENT` could name it. On a full disk attempts must not pile
/// up.
fn discard_new(files: &Files) {
    let Ok(listing) = Listing::read(&*files.fs, &files.dir) else { return };
    files.remove_unfinished(listing.numbered.into_iter().filter(|(id, _)| files.is_new(*id)));
    let _ = files.fs.remove(&files.dir.join(CURRENT_TEMPORARY));
}

/// A database that is whole and on disk, but for `CURRENT`.
struct Prepared {
    log: Log,
    manifest: Manifest,
    catalog: Catalog,
    first_version: Version,
    ceiling: Version,
    durable: Version,
    report: RecoveryReport,
}

/// Starts a new log and a new manifest.
fn prepare(
    options: &Options,
    files: &Arc<Files>,
    cache: &Arc<sstable::Cache>,
    mut state: State,
    mut report: RecoveryReport,
) -> Result<Prepared, Error> {
    files.sync_dir()?;
    let numbers = Arc::clone(files);
    let log =
        Log::create(log_options(options, &files.dir), files.next_id(), Box::new(move || numbers.next_id()))?;
    let first_version = state.version_ceiling.next();
    state.version_ceiling = Version(first_version.0 + VERSION_RESERVE);
    state.log_start = log.end().segment;
    state.attested = Some(log.synced());
    let (ceiling, durable) = (state.version_ceiling, state.durable_through);
    report.recovered_to = durable;
    let catalog = open_tables(files, cache, &state)?;
    let manifest = Manifest::prepare(files, state)?;
    Ok(Prepared { log, manifest, catalog, first_version, ceiling, durable, report })
}

impl Prepared {
    /// Has `CURRENT` name it, and clears the directory of what it does not name. After a failure either may be in
    /// force.
    fn put_in_force(self, files: Arc<Files>, listing: &Listing) -> Result<Recovered, Error> {
        let Prepared { log, manifest, catalog, first_version, ceiling, durable, mut report } = self;
        manifest.put_in_force()?;
        remove_orphans(&files, listing, &manifest, log.end().segment, &mut report);
        let parts = Parts { files, log, manifest, catalog, first_version, ceiling, durable };
        Ok(Recovered { parts, report })
    }
}

fn open_tables(files: &Files, cache: &Arc<sstable::Cache>, state: &State) -> Result<Catalog, Error> {
    let catalog = Catalog::default();
    for table in state.tables.values() {
        let schema = Schema::decode(&table.schema)
            .map_err(|error| error.context(format!("table {:?}", table.name)))?;
        let [id] = table.tablets[..] else {
            return Err(Error::corruption(format!(
                "table {:?} has {} tablets",
                table.name,
                table.tablets.len()
            )));
        };
        let described = state.tablets.get(&id).expect("a table's tablets are in the state");
        let tablet = open_tablet(files, cache, id, &Owner::of(table, id), described)
            .map_err(|error| error.context(format!("table {:?}", table.name)))?;
        let core = TableCore::new(table.id, table.name.clone(), Arc::new(schema), Arc::new(tablet));
        catalog.put(Arc::new(core));
    }
    Ok(catalog)
}

fn open_tablet(
    files: &Files,
    cache: &Arc<sstable::Cache>,
    id: TabletId,
    owner: &Owner,
    described: &TabletState,
) -> Result<Tablet, Error> {
    // A file that moved whole from one run to another is one file still.
    let mut opened = BTreeMap::new();
    let mut runs = Vec::with_capacity(described.runs.len());
    for run in &described.runs {
        let mut index_files = Vec::with_capacity(run.files.len());
        for info in &run.files {
            let file = match opened.get(&info.id) {
                Some(file) => Arc::clone(file),
                None => open_index_files(files, cache, std::slice::from_ref(info))?.remove(0),
            };
            opened.insert(info.id, Arc::clone(&file));
            index_files.push(file);
        }
        runs.push(Arc::new(pkindex::Run::new(index_files)?));
    }
    let rowsets = described
        .rowsets
        .values()
        .map(|info| open_rowset(files, cache, info))
        .collect::<Result<Vec<_>, _>>()?;
    let rowsets = Rowsets::new(rowsets);
    check_places(&runs, &rowsets, described.flushed_through)?;
    Ok(Tablet::new(id, owner.encode(), |active| TabletView {
        memtables: vec![active],
        runs,
        run_ids: described.runs.iter().map(|run| run.id).collect(),
        rowsets: Arc::new(rowsets),
        flushed_through: described.flushed_through,
    }))
}

/// Each run is newer than the next, each rowset begins before it ends, and each that index files say they point into is
/// there, has as many rows, and lies under one run. Reads and compactions take that for granted; a manifest that names
/// the wrong files is found here, before anything is written.
fn check_places(
    runs: &[Arc<pkindex::Run>],
    rowsets: &Rowsets,
    flushed_through: Version,
) -> Result<(), Error> {
    let mut newer = flushed_through.next();
    for run in runs {
        let (first, last) = run.versions();
        if last >= newer {
            return Err(Error::corruption(format!(
                "a run of versions {first} to {last} where all should be below {newer}"
            )));
        }
        newer = first;
    }
    if let Some(rowset) = rowsets.iter().find(|rowset| rowset.first_key() > rowset.last_key()) {
        let id = rowset.id();
        return Err(Error::corruption(format!("the first key of rowset {id} is not before its last")));
    }
    let mut pointing: BTreeMap<RowsetId, (usize, u64)> = BTreeMap::new();
    for (number, run) in runs.iter().enumerate() {
        for file in run.files() {
            for &(rowset, entries) in &file.properties.per_rowset {
                let (under, sum) = pointing.entry(rowset).or_insert((number, 0));
                *sum = sum.saturating_add(entries);
                let rows = rowsets.get(rowset).map(|rowset| rowset.info().entries);
                if *under != number || rows.is_none_or(|rows| *sum > rows) {
                    return Err(Error::corruption(format!(
                        "index file {} points into rowset {rowset}, which is not there, is another run's, or has fewer \
                         rows",
                        file.id()
                    )));
                }
            }
        }
    }
    Ok(())
}

/// Removes every file of ours that was there before and that nothing names now. Others are left alone.
fn remove_orphans(
    files: &Files,
    listing: &Listing,
    manifest: &Manifest,
    log_start: FileId,
    report: &mut RecoveryReport,
) {
    let segments = manifest.segments();
    let named: std::collections::BTreeSet<(FileId, FileKind)> =
        manifest.with_state(|state| state.files().map(|(kind, info)| (info.id, kind)).collect());
    let is_kept = |&(id, kind): &(FileId, FileKind)| match kind {
        FileKind::Manifest => segments.contains(&id),
        FileKind::Log => id >= log_start,
        FileKind::Index | FileKind::Rows => named.contains(&(id, kind)),
    };
    let orphans = listing.numbered.iter().filter(|file| !is_kept(file));
    let mut names: Vec<String> = orphans.map(|&(id, kind)| file_name(id, kind)).collect();
    if listing.has_temporary {
        names.push(CURRENT_TEMPORARY.to_owned());
    }
    for name in names {
        match files.fs.remove(&files.dir.join(&name)) {
            Ok(()) => report.orphans.push(name),
            // The new CURRENT was made of it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                // It is as harmless as before; the next open tries again.
                tracing::warn!(%error, name, "an orphan could not be removed");
                report.orphans_left.push(name);
            }
        }
    }
    report.orphans_removed = report.orphans.len() as u64;
}

/// Makes the name of a new database's directory survive a loss of power, and those of the directories above it, any of
/// which may be new.
pub(crate) fn sync_way(fs: &dyn Fs, dir: &Path) -> Result<(), Error> {
    for parent in dir.ancestors().skip(1) {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        match fs.sync_dir(parent) {
            Ok(()) => {}
            // It can't be opened to be synced, or its file system has no such call; what is above it is none of ours.
            Err(error) if is_beyond_us(&error) => break,
            Err(error) => return Err(Error::io(format_args!("syncing {}", parent.display()), error)),
        }
    }
    Ok(())
}

fn is_beyond_us(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    matches!(error.kind(), PermissionDenied | InvalidInput | Unsupported | ReadOnlyFilesystem)
}

/// Takes the lock of a directory.
pub(crate) fn lock(fs: &dyn Fs, dir: &Path) -> Result<Box<dyn vfs::Lock>, Error> {
    fs.lock(&dir.join(LOCK)).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => {
            Error::new(ErrorKind::Locked, format!("{} is open already", dir.display()))
        }
        _ => Error::io_write(format_args!("locking {}", dir.display()), error),
    })
}

/// Makes a database of files that are there and that `state` names, in a directory that has nothing else of ours.
pub(crate) fn found(options: &Options, files: Arc<Files>, state: State) -> Result<(), Error> {
    let cache = sstable::Cache::new(options.cache_bytes());
    let prepared = prepare(options, &files, &cache, state, RecoveryReport::default())?;
    prepared.put_in_force(files, &Listing::default()).map(drop)
}

/// Whether a database may be made in a directory without `CURRENT`.
pub(crate) fn check_creatable(options: &Options, dir: &Path) -> Result<(), Error> {
    learn::check_creatable(options, dir, &Listing::read(&*options.fs, dir)?)
}

/// Makes `dir`, if it is not there, and the directories above it.
pub(crate) fn make_directory(fs: &dyn Fs, dir: &Path) -> Result<(), Error> {
    fs.create_dir_all(dir).map_err(|error| Error::io_write(format_args!("making {}", dir.display()), error))
}

/// Whether `dir` is there.
///
/// # Errors
/// `InvalidArgument` if it is not.
pub(crate) fn find_directory(fs: &dyn Fs, dir: &Path) -> Result<(), Error> {
    match fs.list(dir) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Error::invalid(format!(
            "there is no database in {}: there is no such directory",
            dir.display()
        ))),
        Err(error) => Err(Error::io(format_args!("opening {}", dir.display()), error)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use encoded_key::Type;
    use vfs::sim::PowerCut;
    use vfs::{Fs, SimFs};

    use crate::options::{Durability, Options, RuntimeMode};
    use crate::{Engine, ErrorKind, Schema};

    #[test]
    fn a_new_database_survives_with_the_directories_above_it() {
        let disk = SimFs::new(1);
        let open = |disk: &SimFs| {
            let fs = Arc::new(disk.clone());
            let options = Options { fs, runtime: RuntimeMode::Inline { seed: 1 }, ..Options::default() };
            Engine::open("/new/and/deep", options).expect("a good directory")
        };
        let schema = Schema::builder().key("id", Type::U64).build().expect("legal");
        let engine = open(&disk);
        let table = engine.create_table("t", schema.clone()).expect("a new name");
        let mut batch = engine.batch();
        batch.upsert(&table, (7,)).expect("fits");
        batch.commit(Durability::Sync).expect("a good disk");

        let engine = open(&disk.power_cut(&PowerCut::lose_all()));
        let table = engine.open_table("t", &schema).expect("it was made for good");
        assert!(table.exists((7,)).expect("a good disk"));
    }

    /// Without `CURRENT`, damage is no reason to believe that there was nothing.
    #[test]
    fn without_current_a_damaged_file_is_never_taken_for_an_unfinished_one() {
        let disk = SimFs::new(1);
        let open = |disk: &SimFs| {
            let fs = Arc::new(disk.clone());
            Engine::open(
                "/db",
                Options { fs, runtime: RuntimeMode::Inline { seed: 1 }, ..Options::default() },
            )
        };
        let engine = open(&disk).expect("a good directory");
        let schema = Schema::builder().key("id", Type::U64).build().expect("legal");
        let table = engine.create_table("t", schema).expect("a new name");
        table.upsert((7,)).expect("a good disk");
        let of_kind = |disk: &SimFs, kind: &str| -> Vec<_> {
            disk.paths()
                .into_iter()
                .filter(|path| path.extension().is_some_and(|found| found == kind))
                .collect()
        };
        for (damaged, gone) in [("manifest", "wal"), ("wal", "manifest")] {
            let disk = disk.power_cut(&PowerCut::keep_all());
            disk.remove("/db/CURRENT".as_ref()).expect("it is there");
            for path in of_kind(&disk, gone) {
                disk.remove(&path).expect("it is there");
            }
            for path in of_kind(&disk, damaged) {
                disk.damage(&path, |bytes| bytes[20] ^= 1).expect("it is there");
            }
            let before = of_kind(&disk, damaged);
            let error = open(&disk).expect_err("there was a table with a row");
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert_eq!(of_kind(&disk, damaged), before, "nothing is touched");
        }
    }
}
