//! Reads what a directory holds, and changes nothing.

use std::collections::BTreeSet;
use std::path::Path;

use codec::FileId;
use vfs::Fs;
use wal::{Scan, Torn};

use super::{TornTail, log_options};
use crate::error::{Error, ErrorKind};
use crate::files::{CURRENT, CURRENT_TEMPORARY, FileKind, Files, parse_name, path};
use crate::manifest::{self, State};
use crate::options::Options;

/// Our files in a directory. Foreign ones do not count, ever.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) numbered: Vec<(FileId, FileKind)>,
    pub(crate) has_temporary: bool,
}

impl Listing {
    pub(crate) fn read(fs: &dyn Fs, dir: &Path) -> Result<Listing, Error> {
        let entries =
            fs.list(dir).map_err(|error| Error::io(format_args!("listing {}", dir.display()), error))?;
        let mut listing = Listing::default();
        for entry in entries.iter().filter(|entry| entry.is_file) {
            let Some(name) = entry.name.to_str() else { continue };
            listing.has_temporary |= name == CURRENT_TEMPORARY;
            listing.numbered.extend(parse_name(name));
        }
        Ok(listing)
    }

    pub(crate) fn has(&self, id: FileId, kind: FileKind) -> bool {
        self.numbered.contains(&(id, kind))
    }

    pub(crate) fn of(&self, kind: FileKind) -> Vec<FileId> {
        self.numbered.iter().filter(|(_, found)| *found == kind).map(|(id, _)| *id).collect()
    }

    /// Above every number in the directory.
    pub(crate) fn next_number(&self) -> FileId {
        FileId(self.numbered.iter().map(|(id, _)| id.0 + 1).max().unwrap_or(1))
    }

    /// Those of one kind from a number on, in order.
    pub(crate) fn from(&self, first: FileId, kind: FileKind) -> Vec<FileId> {
        let mut ids: Vec<FileId> = self.of(kind).into_iter().filter(|id| *id >= first).collect();
        ids.sort_unstable();
        ids
    }
}

/// What an existing database holds.
pub(crate) struct Learned {
    pub(crate) state: State,
    pub(crate) scan: Scan,
}

/// Reads manifest and log. `None` if there is no `CURRENT`.
pub(crate) fn learn(options: &Options, dir: &Path, listing: &Listing) -> Result<Option<Learned>, Error> {
    let Some(current) = manifest::read_current(&*options.fs, dir)? else { return Ok(None) };
    let state = manifest::load(&options.fs, dir, current, &listing.of(FileKind::Manifest))?;
    let attested = state.attested.unwrap_or_default();
    let scan = wal::scan_attested(
        &log_options(options, dir),
        state.log_start,
        &listing.of(FileKind::Log),
        attested,
    )?;
    check_present(listing, &state)?;
    Ok(Some(Learned { state, scan }))
}

/// A file that is named was synced before it was named, so that its absence is damage and no failure of the disk.
pub(super) fn check_present(listing: &Listing, state: &State) -> Result<(), Error> {
    let present: BTreeSet<_> = listing.numbered.iter().copied().collect();
    match state.files().find(|(kind, info)| !present.contains(&(info.id, *kind))) {
        None => Ok(()),
        Some((kind, info)) => Err(Error::corruption(format!(
            "{}.{}, which the manifest names, is missing",
            info.id,
            kind.extension()
        ))),
    }
}

/// Without `CURRENT`, a directory is a new database's only if all that is there is what a creation leaves that was
/// interrupted.
pub(crate) fn check_creatable(options: &Options, dir: &Path, listing: &Listing) -> Result<(), Error> {
    let missing = |file: String| {
        Err(Error::corruption(format!("{CURRENT} is missing in {}, beside {file}", dir.display())))
    };
    for &(id, kind) in &listing.numbered {
        let holds_data = match kind {
            FileKind::Index | FileKind::Rows => true,
            FileKind::Manifest => {
                unless_unfinished(options, dir, id, kind, manifest::names_a_table(&options.fs, dir, id))?
            }
            FileKind::Log => unless_unfinished(options, dir, id, kind, log_holds_records(options, dir, id))?,
        };
        if holds_data {
            return missing(format!("{id}.{}", kind.extension()));
        }
    }
    if !options.create_if_missing {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("there is no database in {}", dir.display()),
        ));
    }
    Ok(())
}

/// A segment that cannot be read because its making was interrupted holds nothing: then no byte follows its header. All
/// other damage may hide data.
fn unless_unfinished(
    options: &Options,
    dir: &Path,
    id: FileId,
    kind: FileKind,
    found: Result<bool, Error>,
) -> Result<bool, Error> {
    match found {
        Err(error) if error.kind() == ErrorKind::Corruption => {
            let bytes = read_all(&*options.fs, &path(dir, id, kind))?;
            Ok(bytes.get(wal::HEADER_BYTES..).is_some_and(|rest| rest.iter().any(|byte| *byte != 0)))
        }
        found => found,
    }
}

/// Whether a segment of the write-ahead log holds a record.
fn log_holds_records(options: &Options, dir: &Path, id: FileId) -> Result<bool, Error> {
    let scan = wal::scan(&log_options(options, dir), id, &[id])?;
    Ok(scan.replay().next()?.is_some())
}

fn read_all(fs: &dyn Fs, path: &Path) -> Result<Vec<u8>, Error> {
    const SEGMENT_BYTES_MAX: u64 = 8 << 30;
    fs.read(path, SEGMENT_BYTES_MAX).map_err(|error| Error::io("reading a log segment", error))
}

/// The most of a torn tail that is kept, in bytes.
const SAVED_BYTES_MAX: usize = 64 << 20;

/// Saves what is cut off the log, for whoever wants to look at it. It was never acknowledged, so a failure to save it
/// is no reason not to open.
pub(crate) fn save_torn(files: &Files, torn: &Torn) -> TornTail {
    let mut bytes = Vec::new();
    for (segment, range) in &torn.ranges {
        let path = files.path(*segment, FileKind::Log);
        let wanted = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let mut part = vec![0; wanted.min(SAVED_BYTES_MAX - bytes.len())];
        let read = files.fs.open(&path).and_then(|file| file.read_exact_at(&mut part, range.start));
        if read.is_ok() {
            bytes.extend_from_slice(&part);
        }
    }
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let name = format!("{}-{}.torn", torn.at.segment, torn.at.offset);
    let save = || {
        let file = match files.fs.create(&files.dir.join(&name)) {
            // An earlier recovery that did not end has saved this very tail.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(()),
            created => created?,
        };
        file.write_all_at(&bytes[..used], 0)?;
        file.sync()
    };
    let is_saved =
        used > 0 && save().inspect_err(|error| tracing::warn!(%error, "a torn tail is not saved")).is_ok();
    TornTail {
        saved_bytes: if is_saved { used as u64 } else { 0 },
        saved_as: is_saved.then_some(name),
        ..TornTail::not_saved(torn)
    }
}
