//! Makes a new database of what can be read of a damaged one.
//!
//! Owns the order of the steps, and the promise that goes with them: the source is never changed by a byte; the target
//! is a new directory that opens like any other and passes a check; what is not in it lies in a range that the report
//! names; and nothing is written before whoever calls has accepted the loss.
//!
//! | step | where |
//! |---|---|
//! | which tables and files there are: the manifest, an older one, or what files say of themselves | `repair/root.rs` |
//! | the index files and rowsets of each table | `repair/stock.rs` |
//! | what of the log can be taken | `repair/log.rs` |
//! | the versions of each key, from all sources, in key order | `repair/merge.rs` |
//! | the row of a version | `repair/rows.rs` |
//! | the new files | `repair/write.rs` |
//!
//! Why a union of all that is found is right: a version belongs to one operation, for ever. Wherever an entry or a
//! record of that version is found, it says the same; so the newest one that can be read is the newest one that is
//! known. What can be wrong is only what is missing: an older version shows where a newer one is lost, and a deleted
//! row comes back where its deletion is. Both are told.
//!
//! Memory: the newest operation of the log for each key; and of one table at a time, of each index file a block and
//! what names the next few hundred, of each rowset the root of its block index, and 16 bytes for each row if it is
//! damaged, and some ten thousand losses.

mod log;
mod merge;
mod report;
mod root;
mod rows;
mod stock;
#[cfg(test)]
mod tests;
mod write;

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use codec::Version;

pub use report::{KeyRange, Loss, LossKind, RepairReport, RepairSource, RepairedTable, TornLog};

use crate::error::{Error, ErrorKind};
use crate::files::LOCK;
use crate::manifest::Unfinished;
use crate::options::{Options, RuntimeMode};
use crate::recovery::Listing;
use crate::{Engine, manifest, recovery};

/// What claims to be of a later version is damage. A repaired database has as many left to give out as it will ever
/// need.
const VERSION_MAX: Version = Version(manifest::VERSION_MAX.0 / 2);

/// How a repair goes about it. Later versions may have more of them: end with `..RepairOptions::default()`.
#[derive(Clone, Debug, Default)]
pub struct RepairOptions {
    /// Whether to go on although something is lost. Default: no; then a repair that would lose something writes nothing
    /// and answers [`RepairError::WouldLose`] with its report.
    pub accept_loss: bool,
    /// What becomes of batches in the log behind a damaged place. Default: [`LogAfterDamage::LeaveOut`].
    pub log_after_damage: LogAfterDamage,
    /// Whether the texts of the report show keys. Default: no. The ranges themselves have them in any case.
    pub show_keys: bool,
    /// The file system of both directories, and how the new files are written. What concerns an open engine is not
    /// used.
    pub engine: Options,
}

/// What becomes of batches in the log behind a damaged place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LogAfterDamage {
    /// They are left out, and reported. Of what was in the log only, a prefix of the commits is there, as after a loss
    /// of power; what later batches wrote to tables that have been flushed since is there too.
    #[default]
    LeaveOut,
    /// They are taken, and reported: more is there, but not everything that was committed before it.
    Take,
}

/// Why a repair did not write a new database.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairError {
    /// Something would be lost, and [`RepairOptions::accept_loss`] is not set. Nothing was written. The report says
    /// what.
    WouldLose(Box<RepairReport>),
    /// The disk failed, the target is not empty, the source is open, or it is of a newer format.
    Failed(Error),
}

impl std::fmt::Display for RepairError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RepairError::WouldLose(report) => {
                write!(f, "nothing was written, since something would be lost:\n{report}")
            }
            RepairError::Failed(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for RepairError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RepairError::WouldLose(_) => None,
            RepairError::Failed(error) => Some(error),
        }
    }
}

impl From<Error> for RepairError {
    fn from(error: Error) -> RepairError {
        RepairError::Failed(error)
    }
}

/// Writes a new database in `target` from what can be read in `source`.
///
/// The source must not be open, and is not changed. The target must be empty or missing. The source is read once; twice
/// if nothing turns out to be lost and a loss would not have been accepted. Then the new database is opened and
/// checked. What a repair that failed or was interrupted leaves in the target does not open: remove it and begin again.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let (damaged, repaired) = (dir.path().join("damaged"), dir.path().join("repaired"));
/// # nyala::Engine::open(&damaged, nyala::Options::default())?.close()?;
/// use nyala::{RepairError, RepairOptions, repair};
///
/// let report = match repair(&damaged, &repaired, &RepairOptions::default()) {
///     Err(RepairError::WouldLose(report)) => {
///         println!("{report}");
///         // After somebody has read that:
///         repair(&damaged, &repaired, &RepairOptions { accept_loss: true, ..RepairOptions::default() })?
///     }
///     other => other?,
/// };
/// assert!(report.is_written);
/// # Ok(()) }
/// ```
///
/// # Errors
/// [`RepairError`].
pub fn repair(
    source: impl AsRef<Path>,
    target: impl AsRef<Path>,
    options: &RepairOptions,
) -> Result<RepairReport, RepairError> {
    let (source, target) = (source.as_ref(), target.as_ref());
    options.engine.validate()?;
    check_target(&options.engine, source, target)?;
    let patient = Patient::open(source, options)?;
    if !options.accept_loss {
        let report = patient.read(None)?;
        if !report.is_lossless() {
            return Err(RepairError::WouldLose(Box::new(report)));
        }
    }
    let target_options = Options {
        runtime: RuntimeMode::Inline { seed: 0 },
        create_if_missing: true,
        ..options.engine.clone()
    };
    let mut report = patient.read(Some((target, &target_options)))?;
    if !options.accept_loss && !report.is_lossless() {
        // The disk did not give the second time what it gave the first. The target was not finished.
        return Err(RepairError::WouldLose(Box::new(report)));
    }
    check_written(target, &target_options).inspect_err(|_| {
        // It must not pass for a good one.
        let _ = manifest::mark_unfinished(&*target_options.fs, target, Unfinished::Repair);
    })?;
    report.is_written = true;
    Ok(report)
}

/// Says what a repair could read of the database in `source` and what it would lose, and writes nothing.
///
/// # Errors
/// The disk's; `Locked` if the database is open; `UnsupportedFormat`.
pub fn examine(source: impl AsRef<Path>, options: &RepairOptions) -> Result<RepairReport, Error> {
    options.engine.validate()?;
    Patient::open(source.as_ref(), options)?.read(None)
}

/// A damaged database, locked and not changed.
struct Patient<'a> {
    dir: &'a Path,
    options: &'a RepairOptions,
    listing: Listing,
    _lock: Option<Box<dyn vfs::Lock>>,
}

impl<'a> Patient<'a> {
    fn open(dir: &'a Path, options: &'a RepairOptions) -> Result<Patient<'a>, Error> {
        let fs = &options.engine.fs;
        let entries =
            fs.list(dir).map_err(|error| Error::io(format_args!("listing {}", dir.display()), error))?;
        // Without the file nobody has it open, and it is not for us to make it.
        let lock = match entries.iter().any(|entry| entry.is_file && entry.name == LOCK) {
            true => Some(recovery::lock(&**fs, dir)?),
            false => None,
        };
        let listing = Listing::read(&**fs, dir)?;
        if listing.numbered.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("there is no database in {}", dir.display()),
            ));
        }
        Ok(Patient { dir, options, listing, _lock: lock })
    }

    /// Reads all there is, and writes it to a target if there is one.
    fn read(&self, target: Option<(&Path, &Options)>) -> Result<RepairReport, Error> {
        let mut report = RepairReport::new(self.options.show_keys);
        let mut root = root::learn(self, &mut report)?;
        if root.is_whole
            && let Some(why) = root.lost_edits(self)
        {
            root.distrust(why, &mut report);
        }
        let mut stock = stock::take(self, &root, &mut report)?;
        let mut log = log::read(self, &root, &stock, &mut report)?;
        if let Some(why) = log.lost_edits.take() {
            // What was found under the wrong belief is found again.
            report = RepairReport::new(self.options.show_keys);
            root.distrust(why, &mut report);
            stock = stock::take(self, &root, &mut report)?;
            log = log::read(self, &root, &stock, &mut report)?;
        }
        let mut out = match target {
            Some((dir, options)) => Some(write::Target::create(dir, options, &root, &stock)?),
            None => None,
        };
        let mut rows = rows::RowSources::new(self, std::mem::take(&mut stock.rowsets));
        for table in &stock.tables {
            let ops = log.ops.remove(&table.desc.id).unwrap_or_default();
            let read_through = log.last_version.max(table.flushed_through);
            merge::table(self, table, ops, &mut rows, out.as_mut(), &mut report)?;
            if let Some(repaired) = report.tables.last_mut() {
                repaired.read_through = read_through;
            }
        }
        rows.tell_unread(&mut report);
        // The new files are opened next.
        drop(rows);
        if let Some(out) = out
            && (self.options.accept_loss || report.is_lossless())
        {
            out.finish(log.last_version)?;
        }
        Ok(report)
    }

    fn fs(&self) -> &Arc<dyn vfs::Fs> {
        &self.options.engine.fs
    }
}

/// A path from the root on, without `.` and `..`. Links are not followed: they are none of ours.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            _ => plain.push(component),
        }
    }
    plain
}

/// The target is no part of the source, and there is nothing in it.
fn check_target(options: &Options, source: &Path, target: &Path) -> Result<(), Error> {
    let (plain_source, plain_target) = (plain(source), plain(target));
    if plain_target.starts_with(&plain_source) || plain_source.starts_with(&plain_target) {
        return Err(Error::invalid(format!(
            "a repair writes to another directory: {} and {} lie within one another",
            source.display(),
            target.display()
        )));
    }
    match options.fs.list(target) {
        Ok(entries) if entries.is_empty() => Ok(()),
        Ok(_) => Err(Error::invalid(format!("{} is not empty", target.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io(format_args!("listing {}", target.display()), error)),
    }
}

/// Whether an error says nothing of a file, but of the process that asks: it lacks descriptors, memory or a permission.
/// Then nothing is lost, and the repair ends. What the disk does not give otherwise is damage.
fn fails_repair(error: Option<&std::io::Error>) -> bool {
    use std::io::ErrorKind::{OutOfMemory, PermissionDenied};
    error.is_some_and(|error| {
        vfs::is_out_of_descriptors(error) || matches!(error.kind(), OutOfMemory | PermissionDenied)
    })
}

/// What was written is a sound database.
fn check_written(target: &Path, options: &Options) -> Result<(), Error> {
    let engine = Engine::open(target, Options { create_if_missing: false, ..options.clone() })
        .map_err(|error| error.context("the repaired database does not open"))?;
    let report = engine.check()?;
    if let Some(problem) = report.problems.first() {
        return Err(Error::corruption(format!("the repaired database is not sound: {problem}")));
    }
    engine.close()
}
