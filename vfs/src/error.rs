//! Errors that name the operation and the path, and keep their kind and their cause.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What failed, where, and why. It lies inside an [`io::Error`] of the same kind; the disk's own error, with its
/// `raw_os_error`, is its `source()`.
#[derive(Debug)]
struct Failure {
    operation: String,
    path: PathBuf,
    cause: io::Error,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.operation, self.path.display(), self.cause)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

/// Wraps `cause`. A quota that is used up counts as a full disk, so that callers have one kind to ask for.
pub(crate) fn failure(operation: impl Into<String>, path: &Path, cause: io::Error) -> io::Error {
    let kind = match cause.kind() {
        io::ErrorKind::QuotaExceeded => io::ErrorKind::StorageFull,
        kind => kind,
    };
    io::Error::new(kind, Failure { operation: operation.into(), path: path.to_owned(), cause })
}

/// Whether a file could not be opened or made because the process, or the machine, has too many open. Nothing was done
/// then, and it may work a moment later.
#[must_use]
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let failure = error.get_ref().and_then(|inner| inner.downcast_ref::<Failure>());
    let cause = failure.map_or(error, |failure| &failure.cause);
    let short = [Errno::MFILE, Errno::NFILE].map(|errno| Some(errno.raw_os_error()));
    short.contains(&cause.raw_os_error())
}

/// Whether a second name was refused since there can be none there: on another file system, or on one without links, or
/// the file has as many as it may. A copy does as well.
#[must_use]
pub fn is_not_linkable(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    // File systems without links, and systems that let only its owner link a file, answer that it is not permitted.
    matches!(error.kind(), CrossesDevices | PermissionDenied | TooManyLinks | Unsupported)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_kind_its_cause_and_names_its_place() {
        let full = io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error());
        let error = failure("write 7 bytes at 4096 of", Path::new("db/3.wal"), full);
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().starts_with("write 7 bytes at 4096 of db/3.wal: "), "{error}");
        let cause = error.get_ref().and_then(|failure| failure.source()).expect("a failure has a cause");
        let cause = cause.downcast_ref::<io::Error>().expect("the cause is the disk's own error");
        assert_eq!(cause.raw_os_error(), Some(rustix::io::Errno::NOSPC.raw_os_error()));
    }

    #[test]
    fn a_lack_of_descriptors_is_known_through_its_wrapping() {
        let raw = || io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error());
        assert!(is_out_of_descriptors(&raw()));
        assert!(is_out_of_descriptors(&failure("create", Path::new("x"), raw())));
        let other = io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error());
        assert!(!is_out_of_descriptors(&failure("create", Path::new("x"), other)));
    }

    #[test]
    fn a_used_up_quota_is_a_full_disk() {
        let quota = io::Error::from_raw_os_error(rustix::io::Errno::DQUOT.raw_os_error());
        assert_eq!(failure("sync", Path::new("x"), quota).kind(), io::ErrorKind::StorageFull);
    }
}
