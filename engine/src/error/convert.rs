//! How the errors of the layers below are sorted into the engine's kinds.

use super::{Error, ErrorKind, io_kind};
use encoded_key::KeyError;

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Error {
        let kind = if error.is_damage() { ErrorKind::Corruption } else { ErrorKind::InvalidArgument };
        Error::caused(kind, error)
    }
}

impl From<sstable::Error> for Error {
    fn from(error: sstable::Error) -> Error {
        let is_passing = error.io().is_some_and(vfs::is_out_of_descriptors);
        Error::caused(sstable_kind(&error), error).passing(is_passing)
    }
}

impl From<pkindex::Error> for Error {
    fn from(error: pkindex::Error) -> Error {
        // A row that could not be moved failed in the engine's own hook: its error comes back as it was.
        if let Some(error) = error.relocate().and_then(|error| error.downcast_ref::<Error>()) {
            return error.clone().context("a row could not be moved");
        }
        let kind = match &error {
            pkindex::Error::Sstable(error) => sstable_kind(error),
            pkindex::Error::Io { source, .. } => io_kind(source),
            pkindex::Error::Cancelled => ErrorKind::Closed,
            error if error.is_corruption() => ErrorKind::Corruption,
            _ => ErrorKind::Io,
        };
        let is_passing = error.io().is_some_and(vfs::is_out_of_descriptors);
        Error::caused(kind, error).passing(is_passing)
    }
}

impl From<wal::Error> for Error {
    fn from(error: wal::Error) -> Error {
        let kind = match &error {
            wal::Error::Io { source, .. } => io_kind(source),
            wal::Error::Corruption { .. } => ErrorKind::Corruption,
            wal::Error::UnsupportedFormat { .. } => ErrorKind::UnsupportedFormat,
            wal::Error::TooLong { .. } => ErrorKind::InvalidArgument,
            wal::Error::ReadOnly { .. } => ErrorKind::ReadOnly,
            // A log that failed for good is no matter of space, even if the disk said so: more space does not mend it.
            _ => ErrorKind::Io,
        };
        let is_passing = error.is_out_of_descriptors();
        Error::caused(kind, error).passing(is_passing)
    }
}

fn sstable_kind(error: &sstable::Error) -> ErrorKind {
    if error.is_corruption() {
        ErrorKind::Corruption
    } else if error.is_unsupported() {
        ErrorKind::UnsupportedFormat
    } else {
        match error.io() {
            Some(error) => io_kind(error),
            None => ErrorKind::InvalidArgument,
        }
    }
}
