//! Makes a new database of what can be read of a damaged one.
//!
//! Owns the order of the steps, and the promise that goes with them: the source is never changed by a byte; the target is
//! a new directory that opens like any other and passes a check; what is not in it lies in a range that the report names;
//! and nothing is written before whoever calls has accepted the loss.
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
//! Why a union of all that is found is right: a version belongs to one operation, for ever. Wherever an entry or a record of
//! that version is found, it says the same; so the newest one that can be read is the newest one that is known. What can
//! be wrong is only what is missing: an older version shows where a newer one is lost, and a deleted row comes back where
//! its deletion is. Both are told.
//!
//! Memory: the operations of the log, a block of each index file, and two numbers for each row of a rowset whose block
//! index is damaged.

mod log;
mod merge;
mod report;
mod root;
mod rows;
mod stock;
mod write;

use std::path::Path;
use std::sync::Arc;

pub use report::{KeyRange, Loss, LossKind, RepairReport, RepairedTable, Source, TornLog};

use crate::error::{Error, ErrorKind};
use crate::files::LOCK;
use crate::options::{Options, RuntimeMode};
use crate::recovery::Listing;
use crate::{Engine, recovery};

/// How a repair goes about it.
#[derive(Clone, Debug, Default)]
pub struct RepairOptions {
    /// Whether to go on although something is lost. Default: no; then a repair that would lose something writes nothing
    /// and answers [`RepairError::WouldLose`] with its report.
    pub accept_loss: bool,
    /// What becomes of batches in the log behind a damaged place. Default: [`LogAfterDamage::LeaveOut`].
    pub log_after_damage: LogAfterDamage,
    /// Whether the texts of the report show keys. Default: no. The ranges themselves have them in any case.
    pub show_keys: bool,
    /// The file system of both directories, and how the new files are written. What concerns an open engine is not used.
    pub engine: Options,
}

/// What becomes of batches in the log behind a damaged place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogAfterDamage {
    /// They are left out, and reported: what is there is a prefix of the commits, as after a loss of power.
    #[default]
    LeaveOut,
    /// They are taken, and reported: more is there, but not everything that was committed before it.
    Take,
}

/// Why a repair did not write a new database.
#[derive(Debug)]
#[non_exhaustive]
pub enum RepairError {
    /// Something would be lost, and [`RepairOptions::accept_loss`] is not set. Nothing was written. The report says what.
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
/// The source must not be open, and is not changed. The target must be empty or missing. It takes as long as reading
/// the source twice if nothing is lost or the loss is not accepted, and once otherwise; then the new database is
/// opened and checked. What an interrupted repair leaves in the target is no database: delete it and begin again.
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
    check_written(target, target_options)?;
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
        let root = root::learn(self, &mut report)?;
        let mut stock = stock::take(self, &root, &mut report)?;
        let mut log = log::read(self, &root, &stock, &mut report)?;
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
                repaired.read_through = read_through.0;
            }
        }
        if let Some(out) = out {
            out.finish()?;
        }
        Ok(report)
    }

    fn fs(&self) -> &Arc<dyn vfs::Fs> {
        &self.options.engine.fs
    }
}

/// The target is no part of the source, and there is nothing in it.
fn check_target(options: &Options, source: &Path, target: &Path) -> Result<(), Error> {
    if target.starts_with(source) || source.starts_with(target) {
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

/// What was written is a sound database.
fn check_written(target: &Path, options: Options) -> Result<(), Error> {
    let engine = Engine::open(target, Options { create_if_missing: false, ..options })
        .map_err(|error| error.context("the repaired database does not open"))?;
    let report = engine.check()?;
    if let Some(problem) = report.problems.first() {
        return Err(Error::corruption(format!("the repaired database is not sound: {problem}")));
    }
    engine.close()
}
