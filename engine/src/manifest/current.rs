//! `CURRENT`: the one line of text that names the manifest in force.
//!
//! `nyala <format version> <required features, hex> <manifest number> <checksum, hex>`, then a newline. The checksum
//! covers the text before it, with the space.
//!
//! Every later version keeps the first three words, the checksum at the end and the length below 256 bytes, so that a
//! newer file is told from a damaged one.
//!
//! Invariant: it is replaced as a whole, by a rename of a synced file, so that it is the old line or the new one.

use codec::{FileId, Kind, checksum};
use vfs::Fs;

use crate::error::{Error, ErrorKind};
use crate::files::{CURRENT, CURRENT_TEMPORARY, Files};

/// The version of the directory's format.
pub(crate) const FORMAT_VERSION: u32 = 1;
/// The features that a reader has to know. None yet.
const REQUIRED_FEATURES: u64 = 0;
const BYTES_MAX: u64 = 256;

/// What puts a line of its own there before anything else, so that the directory is no database until it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfinished {
    Repair,
    Checkpoint,
}

impl Unfinished {
    fn line(self) -> &'static [u8] {
        match self {
            Unfinished::Repair => b"a repair of nyala's that has not ended\n",
            Unfinished::Checkpoint => b"a checkpoint of nyala's that has not ended\n",
        }
    }
}

pub(crate) fn line(manifest: FileId) -> String {
    let text = format!("nyala {FORMAT_VERSION} {REQUIRED_FEATURES:x} {manifest} ");
    let sum = checksum(Kind::Current, FileId(0), 0, &[text.as_bytes()]);
    format!("{text}{:08x}\n", sum.0)
}

pub(crate) fn parse(bytes: &[u8]) -> Result<FileId, Error> {
    let damaged = |why: &str| Error::new(ErrorKind::Corruption, format!("{CURRENT} {why}"));
    if bytes.is_empty() {
        return Err(damaged("is empty"));
    }
    if bytes == Unfinished::Repair.line() {
        return Err(damaged("says that a repair did not end: remove the directory, and repair again"));
    }
    if bytes == Unfinished::Checkpoint.line() {
        return Err(damaged("says that a checkpoint did not end: remove the directory, and make another"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| damaged("is not text"))?;
    let mut words = text.split(' ');
    if words.next() != Some("nyala") {
        return Err(damaged("is not one of nyala's"));
    }
    let body = text.strip_suffix('\n').ok_or_else(|| damaged("is cut off"))?;
    let sum_at = body.rfind(' ').map_or(0, |at| at + 1);
    let sum = checksum(Kind::Current, FileId(0), 0, &[&body.as_bytes()[..sum_at]]);
    if body[sum_at..] != format!("{:08x}", sum.0) {
        return Err(damaged("does not match its checksum"));
    }
    let version: u32 =
        words.next().and_then(|word| word.parse().ok()).ok_or_else(|| damaged("has no version"))?;
    if version > FORMAT_VERSION {
        return Err(Error::newer(format_args!(
            "{CURRENT} says format version {version}, this program knows {FORMAT_VERSION}"
        )));
    }
    let features = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
    let features = features.ok_or_else(|| damaged("has no feature bits"))?;
    if features & !REQUIRED_FEATURES != 0 {
        return Err(Error::newer(format_args!(
            "{CURRENT} requires the features {features:#x}, this program knows {REQUIRED_FEATURES:#x}"
        )));
    }
    let manifest =
        words.next().and_then(|word| word.parse().ok()).ok_or_else(|| damaged("names no manifest"))?;
    let manifest = FileId(manifest);
    // There is one line for a manifest: no sign, no leading zero, no word more.
    if text != line(manifest) {
        return Err(damaged("is not the line that names its manifest"));
    }
    Ok(manifest)
}

/// Reads which manifest is in force. `None` if there is no `CURRENT`.
pub(crate) fn read(fs: &dyn Fs, dir: &std::path::Path) -> Result<Option<FileId>, Error> {
    match fs.read(&dir.join(CURRENT), BYTES_MAX) {
        Ok(bytes) => parse(&bytes).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            Err(Error::new(ErrorKind::Corruption, format!("{CURRENT} is longer than any of ours")))
        }
        Err(error) => Err(Error::io("reading CURRENT", error)),
    }
}

/// Has `CURRENT` say what has not ended, whatever it said before: no open takes the directory for a database.
pub(crate) fn mark_unfinished(fs: &dyn Fs, dir: &std::path::Path, what: Unfinished) -> Result<(), Error> {
    let path = dir.join(CURRENT);
    match fs.remove(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::io_write("removing CURRENT", error));
        }
        _ => {}
    }
    let write = || {
        let file = fs.create(&path)?;
        file.write_all_at(what.line(), 0)?;
        Ok(file)
    };
    let file = write().map_err(|error| Error::io_write("writing CURRENT", error))?;
    file.sync().map_err(|error| Error::sync("syncing CURRENT", error))?;
    fs.sync_dir(dir).map_err(|error| Error::sync("syncing the directory", error))
}

/// Writes the line that names `manifest` beside the one in force.
pub(crate) fn prepare(files: &Files, manifest: FileId) -> Result<(), Error> {
    let temporary = files.dir.join(CURRENT_TEMPORARY);
    match files.fs.remove(&temporary) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::io("removing an old CURRENT.tmp", error));
        }
        _ => {}
    }
    let write = || {
        let file = files.fs.create(&temporary)?;
        file.write_all_at(line(manifest).as_bytes(), 0)?;
        Ok(file)
    };
    let file = write().map_err(|error| Error::io("writing CURRENT.tmp", error))?;
    file.sync().map_err(|error| Error::sync("syncing CURRENT.tmp", error))
}

/// Puts the line that was prepared in force, durably.
pub(crate) fn put(files: &Files) -> Result<(), Error> {
    let renamed = files.fs.rename(&files.dir.join(CURRENT_TEMPORARY), &files.dir.join(CURRENT));
    renamed.map_err(|error| Error::io("renaming CURRENT.tmp", error))?;
    files.sync_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_the_manifest() {
        assert_eq!(parse(line(FileId(17)).as_bytes()).expect("ours"), FileId(17));
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_noticed() {
        let good = line(FileId(1234));
        for length in 0..good.len() {
            let error = parse(&good.as_bytes()[..length]).expect_err("cut");
            assert_eq!(error.kind(), ErrorKind::Corruption, "{length}");
        }
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bytes = good.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let error = parse(&bytes).expect_err("changed");
                assert_eq!(error.kind(), ErrorKind::Corruption, "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn a_repair_or_a_checkpoint_that_has_not_ended_is_no_database() {
        for (what, says) in [(Unfinished::Repair, "repair again"), (Unfinished::Checkpoint, "make another")] {
            let error = parse(what.line()).expect_err("no line");
            assert_eq!(error.kind(), ErrorKind::Corruption);
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn there_is_one_line_for_a_manifest() {
        for text in
            ["nyala 1 0 17 more ", "nyala 1 0 017 ", "nyala 1 0 +17 ", "nyala 1 00 17 ", "nyala 0 0 17 "]
        {
            let sum = checksum(Kind::Current, FileId(0), 0, &[text.as_bytes()]);
            let error =
                parse(format!("{text}{:08x}\n", sum.0).as_bytes()).expect_err("not the line that is written");
            assert_eq!(error.kind(), ErrorKind::Corruption, "{text}");
        }
    }

    #[test]
    fn a_newer_format_is_told_from_damage() {
        let sealed = |text: &str| {
            let sum = checksum(Kind::Current, FileId(0), 0, &[text.as_bytes()]);
            format!("{text}{:08x}\n", sum.0).into_bytes()
        };
        for text in
            ["nyala 2 0 17 ", "nyala 4000000000 f and whatever they write ", "nyala 1 1 17 ", "nyala 1 8 - "]
        {
            let error = parse(&sealed(text)).expect_err("newer");
            assert_eq!(error.kind(), ErrorKind::UnsupportedFormat, "{text}");
            assert!(error.to_string().contains("newer version of Nyala"), "{error}");
        }
        for other in [&b"MANIFEST-000001\n"[..], b"nyala 2 0 17 00000000\n", b"nyala 2\n"] {
            assert_eq!(parse(other).expect_err("not ours").kind(), ErrorKind::Corruption);
        }
    }
}
