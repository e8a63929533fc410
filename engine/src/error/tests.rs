//! Errors: their kinds, their texts, their causes.

use super::{Error, ErrorKind};
use encoded_key::KeyError;
use std::error::Error as _;
use std::io;
use std::path::Path;
use std::sync::Arc;

#[test]
fn an_error_is_one_pointer_and_can_go_anywhere() {
    fn anywhere<T: Send + Sync + Clone + 'static>() {}
    anywhere::<Error>();
    assert_eq!(size_of::<Error>(), size_of::<usize>());
    assert_eq!(size_of::<Result<(), Error>>(), size_of::<usize>());
}

#[test]
fn the_text_is_one_line_with_place_operation_and_key() {
    let error = Error::new(ErrorKind::DuplicateKey, "table \"metrics\"");
    assert_eq!(error.to_string(), "duplicate key: table \"metrics\"");
    assert_eq!(error.operation(), None);
    let told = error.clone().with_operation(3).with_key("(17, b\"\\x80\")").context("batch");
    assert_eq!(
        told.to_string(),
        r#"duplicate key in operation 3: batch: table "metrics" (key (17, b"\x80"))"#
    );
    assert_eq!(told.operation(), Some(3));
    assert_eq!(format!("{told:?}"), told.to_string());
    assert_eq!(error.to_string(), "duplicate key: table \"metrics\"", "a clone changes nothing");
    assert_eq!(Error::new(ErrorKind::Closed, "").to_string(), "closed");
}

#[test]
fn disk_errors_are_sorted_by_what_can_be_done() {
    let kinds = [
        (io::ErrorKind::StorageFull, ErrorKind::NoSpace),
        (io::ErrorKind::QuotaExceeded, ErrorKind::NoSpace),
        (io::ErrorKind::ReadOnlyFilesystem, ErrorKind::ReadOnly),
        (io::ErrorKind::PermissionDenied, ErrorKind::Io),
        (io::ErrorKind::NotFound, ErrorKind::Io),
    ];
    for (cause, kind) in kinds {
        let error = Error::io("cannot open 7.idx", io::Error::new(cause, "the disk says so"));
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().ends_with(": cannot open 7.idx: the disk says so"), "{error}");
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.expect("the cause").kind(), cause);
    }
    let error = Error::io_write("cannot create LOCK", io::ErrorKind::PermissionDenied.into());
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
}

#[test]
fn a_damaged_key_is_corruption_and_a_bad_one_an_argument() {
    assert_eq!(Error::from(KeyError::Trailing { at: 4, left: 1 }).kind(), ErrorKind::Corruption);
    assert_eq!(Error::from(KeyError::TooLong { bytes: 70_000 }).kind(), ErrorKind::InvalidArgument);
    let error = Error::from(KeyError::TooLong { bytes: 70_000 });
    assert!(error.source().expect("the cause").is::<KeyError>());
}

#[test]
fn errors_of_the_layers_below_are_sorted_by_their_nature() {
    let file = codec::FileId(7);
    let full = || Arc::new(io::Error::from(io::ErrorKind::StorageFull));
    let io = |source| sstable::Error::Io { file, offset: 4096, during: "writing a block", source };
    let damaged = sstable::Error::Mismatch { file, offset: 4096, what: "entries", expected: 3, found: 2 };
    let newer = sstable::Error::UnsupportedFormat { file, what: "format version", found: 9, supported: 1 };
    let sstables = [
        (io(full()), ErrorKind::NoSpace),
        (damaged, ErrorKind::Corruption),
        (newer, ErrorKind::UnsupportedFormat),
    ];
    for (error, kind) in sstables {
        let text = error.to_string();
        assert_eq!(Error::from(error.clone()).kind(), kind);
        let through_index = Error::from(pkindex::Error::Sstable(error));
        assert_eq!(through_index.kind(), kind);
        assert!(text.contains("file 7") && through_index.to_string().contains(&text), "{through_index}");
    }
    assert_eq!(Error::from(pkindex::Error::Cancelled).kind(), ErrorKind::Closed);
    assert_eq!(Error::from(pkindex::Error::KeyOrder { file }).kind(), ErrorKind::Corruption);

    let path: Arc<Path> = Path::new("data/7.wal").into();
    let refused = |source| wal::Error::Io { doing: "append to", file: Arc::clone(&path), offset: 64, source };
    assert_eq!(Error::from(refused(full())).kind(), ErrorKind::NoSpace);
    let failed = wal::Error::Failed { doing: "sync", file: Arc::clone(&path), offset: 64, source: full() };
    assert_eq!(Error::from(failed).kind(), ErrorKind::Io, "space does not mend a log that failed for good");
    assert!(Error::from(refused(full())).to_string().contains("data/7.wal"));
}

#[test]
fn the_error_of_a_row_move_comes_back_through_the_index() {
    let cause = Error::corruption("row 3 of rowset 9");
    let error = Error::from(pkindex::Error::Relocate(Arc::new(cause)));
    assert_eq!(error.to_string(), "corruption: a row could not be moved: row 3 of rowset 9");
}
