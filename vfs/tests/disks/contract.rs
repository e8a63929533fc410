//! One suite for both disks: whatever the engine relies on without a power cut.

use nyala_vfs::{Advice, Fs, OsFs, SimFs};
use std::io::ErrorKind;
use std::path::Path;

macro_rules! on_both_disks {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        mod real {
            $(#[test] fn $name() {
                let dir = tempfile::tempdir().expect("a temporary directory");
                super::$name(&nyala_vfs::OsFs::new(), dir.path());
            })+
        }
        mod simulated {
            $(#[test] fn $name() {
                let disk = nyala_vfs::SimFs::new(1);
                nyala_vfs::Fs::create_dir_all(&disk, "/db".as_ref()).expect("a directory");
                super::$name(&disk, "/db".as_ref());
            })+
        }
    };
}

on_both_disks![
    a_new_file_is_empty_and_reads_what_was_written,
    create_refuses_a_name_that_is_taken,
    a_missing_file_is_not_found,
    a_directory_is_no_file,
    a_read_past_the_end_is_an_unexpected_eof,
    a_gap_reads_as_zeros,
    many_pages_round_trip,
    preallocation_extends_with_zeros_and_never_cuts,
    truncation_cuts_and_extends_with_zeros,
    a_read_only_handle_refuses_writes,
    every_handle_sees_a_write_at_once,
    a_removed_file_reads_on_through_its_handle,
    a_rename_replaces,
    a_rename_of_nothing_leaves_the_target,
    a_link_is_a_second_name_of_the_same_file,
    a_link_takes_no_name_that_is_taken_and_needs_a_file,
    a_rename_onto_another_name_of_the_file_leaves_both,
    list_is_sorted_and_tells_files_from_directories,
    directories_are_made_with_their_parents,
    a_file_in_the_way_of_a_directory_is_an_error,
    a_lock_is_exclusive_and_ends_with_its_guard,
    a_lock_knows_other_spellings_of_its_path,
    a_lock_keeps_what_is_in_the_file,
    read_takes_a_whole_small_file_and_refuses_a_long_one,
    syncs_and_hints_succeed,
    errors_name_operation_and_path,
    threads_share_a_handle,
];

fn names(disk: &dyn Fs, dir: &Path) -> Vec<String> {
    let entries = disk.list(dir).expect("a directory");
    entries.into_iter().map(|entry| entry.name.into_string().expect("a plain name")).collect()
}

fn write(disk: &dyn Fs, path: &Path, bytes: &[u8]) {
    disk.create(path).and_then(|file| file.write_all_at(bytes, 0)).expect("a new file");
}

fn a_new_file_is_empty_and_reads_what_was_written(disk: &dyn Fs, dir: &Path) {
    let file = disk.create(&dir.join("1.wal")).unwrap();
    assert_eq!(file.len().unwrap(), 0);
    file.write_all_at(b"hello world", 0).unwrap();
    file.write_all_at(b"there", 6).unwrap();
    file.write_all_at(b"", 1000).unwrap();
    assert_eq!(file.len().unwrap(), 11);
    let mut buf = [0; 8];
    file.read_exact_at(&mut buf, 3).unwrap();
    assert_eq!(&buf, b"lo there");
    file.read_exact_at(&mut [], 11).unwrap();
}

fn create_refuses_a_name_that_is_taken(disk: &dyn Fs, dir: &Path) {
    write(disk, &dir.join("1.wal"), b"first");
    let error = disk.create(&dir.join("1.wal")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(disk.read(&dir.join("1.wal"), 10).unwrap(), b"first");
}

fn a_missing_file_is_not_found(disk: &dyn Fs, dir: &Path) {
    let missing = dir.join("none");
    assert_eq!(disk.open(&missing).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.remove(&missing).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.read(&missing, 1).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.list(&missing).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.sync_dir(&missing).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.create(&missing.join("1.wal")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.lock(&missing.join("LOCK")).unwrap_err().kind(), ErrorKind::NotFound);
}

fn a_directory_is_no_file(disk: &dyn Fs, dir: &Path) {
    disk.create_dir_all(&dir.join("sub")).unwrap();
    assert_eq!(disk.open(&dir.join("sub")).unwrap_err().kind(), ErrorKind::IsADirectory);
    assert!(disk.remove(&dir.join("sub")).is_err());
    assert_eq!(disk.create(&dir.join("sub")).unwrap_err().kind(), ErrorKind::AlreadyExists);
    write(disk, &dir.join("1.wal"), b"");
    assert_eq!(disk.open(&dir.join("1.wal/x")).unwrap_err().kind(), ErrorKind::NotADirectory);
    assert_eq!(disk.list(&dir.join("1.wal")).unwrap_err().kind(), ErrorKind::NotADirectory);
}

fn a_read_past_the_end_is_an_unexpected_eof(disk: &dyn Fs, dir: &Path) {
    let file = disk.create(&dir.join("1.wal")).unwrap();
    file.write_all_at(&[7; 100], 0).unwrap();
    for (offset, len) in [(0, 101), (100, 1), (99, 2), (5000, 1), (1 << 62, 1)] {
        let error = file.read_exact_at(&mut vec![0; len], offset).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{len} bytes at {offset}: {error}");
    }
}

fn a_gap_reads_as_zeros(disk: &dyn Fs, dir: &Path) {
    let file = disk.create(&dir.join("1.wal")).unwrap();
    file.write_all_at(b"end", 10_000).unwrap();
    assert_eq!(file.len().unwrap(), 10_003);
    let bytes = disk.read(&dir.join("1.wal"), 20_000).unwrap();
    assert!(bytes[..10_000].iter().all(|byte| *byte == 0));
    assert_eq!(&bytes[10_000..], b"end");
}

fn many_pages_round_trip(disk: &dyn Fs, dir: &Path) {
    let bytes: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
    let file = disk.create(&dir.join("1.row")).unwrap();
    file.write_all_at(&bytes, 4000).unwrap();
    let mut back = vec![0; bytes.len()];
    file.read_exact_at(&mut back, 4000).unwrap();
    assert_eq!(back, bytes);
    let mut middle = vec![0; 9000];
    file.read_exact_at(&mut middle, 4000 + 5000).unwrap();
    assert_eq!(middle, bytes[5000..14_000]);
}

fn preallocation_extends_with_zeros_and_never_cuts(disk: &dyn Fs, dir: &Path) {
    let file = disk.create(&dir.join("1.wal")).unwrap();
    file.write_all_at(b"head", 0).unwrap();
    file.preallocate(200_000).unwrap();
    assert_eq!(file.len().unwrap(), 200_000);
    file.preallocate(10).unwrap();
    assert_eq!(file.len().unwrap(), 200_000);
    let bytes = disk.read(&dir.join("1.wal"), 200_000).unwrap();
    assert_eq!(&bytes[..4], b"head");
    assert!(bytes[4..].iter().all(|byte| *byte == 0));
}

fn truncation_cuts_and_extends_with_zeros(disk: &dyn Fs, dir: &Path) {
    let file = disk.create(&dir.join("1.wal")).unwrap();
    file.write_all_at(&[9; 9000], 0).unwrap();
    file.truncate(5000).unwrap();
    assert_eq!(file.len().unwrap(), 5000);
    file.truncate(9000).unwrap();
    let bytes = disk.read(&dir.join("1.wal"), 9000).unwrap();
    assert!(bytes[..5000].iter().all(|byte| *byte == 9));
    assert!(bytes[5000..].iter().all(|byte| *byte == 0));
    file.truncate(0).unwrap();
    assert_eq!(file.len().unwrap(), 0);
}

fn a_read_only_handle_refuses_writes(disk: &dyn Fs, dir: &Path) {
    write(disk, &dir.join("1.row"), b"kept");
    let file = disk.open(&dir.join("1.row")).unwrap();
    assert!(file.write_all_at(b"lost", 0).is_err());
    assert!(file.truncate(0).is_err());
    assert!(file.preallocate(100).is_err());
    assert_eq!(disk.read(&dir.join("1.row"), 10).unwrap(), b"kept");
}

fn every_handle_sees_a_write_at_once(disk: &dyn Fs, dir: &Path) {
    let writer = disk.create(&dir.join("1.wal")).unwrap();
    let reader = disk.open(&dir.join("1.wal")).unwrap();
    writer.write_all_at(b"new", 0).unwrap();
    let mut buf = [0; 3];
    reader.read_exact_at(&mut buf, 0).unwrap();
    assert_eq!((&buf, reader.len().unwrap()), (b"new", 3));
}

fn a_removed_file_reads_on_through_its_handle(disk: &dyn Fs, dir: &Path) {
    write(disk, &dir.join("1.row"), b"still here");
    let file = disk.open(&dir.join("1.row")).unwrap();
    disk.remove(&dir.join("1.row")).unwrap();
    disk.sync_dir(dir).unwrap();
    assert_eq!(names(disk, dir), [""; 0]);
    let mut buf = [0; 10];
    file.read_exact_at(&mut buf, 0).unwrap();
    assert_eq!(&buf, b"still here");
    // The name is free again, for another file.
    write(disk, &dir.join("1.row"), b"another one");
    file.read_exact_at(&mut buf, 0).unwrap();
    assert_eq!(&buf, b"still here");
}

fn a_rename_replaces(disk: &dyn Fs, dir: &Path) {
    write(disk, &dir.join("CURRENT"), b"old");
    write(disk, &dir.join("CURRENT.tmp"), b"new");
    let old = disk.open(&dir.join("CURRENT")).unwrap();
    disk.rename(&dir.join("CURRENT.tmp"), &dir.join("CURRENT")).unwrap();
    assert_eq!(names(disk, dir), ["CURRENT"]);
    assert_eq!(disk.read(&dir.join("CURRENT"), 10).unwrap(), b"new");
    let mut buf = [0; 3];
    old.read_exact_at(&mut buf, 0).unwrap();
    assert_eq!(&buf, b"old");
    disk.rename(&dir.join("CURRENT"), &dir.join("CURRENT")).unwrap();
    assert_eq!(disk.read(&dir.join("CURRENT"), 10).unwrap(), b"new");
}

fn a_rename_of_nothing_leaves_the_target(disk: &dyn Fs, dir: &Path) {
    write(disk, &dir.join("CURRENT"), b"old");
    let error = disk.rename(&dir.join("CURRENT.tmp"), &dir.join("CURRENT")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(disk.read(&dir.join("CURRENT"), 10).unwrap(), b"old");
    disk.create_dir_all(&dir.join("sub")).unwrap();
    assert!(disk.rename(&dir.join("CURRENT"), &dir.join("sub")).is_err());
}

fn a_link_is_a_second_name_of_the_same_file(disk: &dyn Fs, dir: &Path) {
    disk.create_dir_all(&dir.join("sub")).unwrap();
    let (first, second) = (dir.join("1.row"), dir.join("sub/1.row"));
    write(disk, &first, b"before");
    disk.hard_link(&first, &second).unwrap();
    assert_eq!(disk.read(&second, 10).unwrap(), b"before");
    let open = disk.open(&second).unwrap();
    disk.remove(&first).unwrap();
    assert_eq!(disk.read(&second, 10).unwrap(), b"before");
    disk.rename(&second, &dir.join("sub/2.row")).unwrap();
    assert_eq!(names(disk, &dir.join("sub")), ["2.row"]);
    disk.remove(&dir.join("sub/2.row")).unwrap();
    assert_eq!(names(disk, dir), ["sub"]);
    let mut buf = [0; 6];
    open.read_exact_at(&mut buf, 0).unwrap();
    assert_eq!(&buf, b"before");
}

fn a_link_takes_no_name_that_is_taken_and_needs_a_file(disk: &dyn Fs, dir: &Path) {
    let (first, second) = (dir.join("1.row"), dir.join("2.row"));
    write(disk, &first, b"first");
    write(disk, &second, b"second");
    assert_eq!(disk.hard_link(&first, &second).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(disk.read(&second, 10).unwrap(), b"second");
    assert_eq!(
        disk.hard_link(&dir.join("none"), &dir.join("3.row")).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(disk.hard_link(&first, &dir.join("none/3.row")).unwrap_err().kind(), ErrorKind::NotFound);
    disk.create_dir_all(&dir.join("sub")).unwrap();
    let error = disk.hard_link(&dir.join("sub"), &dir.join("3.row")).unwrap_err();
    assert!(nyala_vfs::is_not_linkable(&error), "{error}");
}

fn a_rename_onto_another_name_of_the_file_leaves_both(disk: &dyn Fs, dir: &Path) {
    let (first, second) = (dir.join("1.row"), dir.join("2.row"));
    write(disk, &first, b"bytes");
    disk.hard_link(&first, &second).unwrap();
    disk.rename(&first, &second).unwrap();
    assert_eq!(names(disk, dir), ["1.row", "2.row"]);
    disk.remove(&first).unwrap();
    assert_eq!(disk.read(&second, 10).unwrap(), b"bytes");
}

fn list_is_sorted_and_tells_files_from_directories(disk: &dyn Fs, dir: &Path) {
    for name in ["9.wal", "10.wal", "CURRENT", "LOCK"] {
        write(disk, &dir.join(name), name.as_bytes());
    }
    disk.create_dir_all(&dir.join("lost+found")).unwrap();
    assert_eq!(names(disk, dir), ["10.wal", "9.wal", "CURRENT", "LOCK", "lost+found"]);
    let entries = disk.list(dir).unwrap();
    let files: Vec<(u64, bool)> = entries.iter().map(|entry| (entry.len, entry.is_file)).collect();
    assert_eq!(files, [(6, true), (5, true), (7, true), (4, true), (0, false)]);
}

fn directories_are_made_with_their_parents(disk: &dyn Fs, dir: &Path) {
    let deep = dir.join("a/b/c");
    disk.create_dir_all(&deep).unwrap();
    disk.create_dir_all(&deep).unwrap();
    write(disk, &deep.join("1.wal"), b"deep");
    assert_eq!(disk.read(&dir.join("a/b/../b/./c/1.wal"), 10).unwrap(), b"deep");
    assert_eq!(names(disk, dir), ["a"]);
    disk.sync_dir(&deep).unwrap();
}

fn a_file_in_the_way_of_a_directory_is_an_error(disk: &dyn Fs, dir: &Path) {
    write(disk, &dir.join("db"), b"");
    assert!(disk.create_dir_all(&dir.join("db")).is_err());
    assert!(disk.create_dir_all(&dir.join("db/sub")).is_err());
}

fn a_lock_is_exclusive_and_ends_with_its_guard(disk: &dyn Fs, dir: &Path) {
    let path = dir.join("LOCK");
    let guard = disk.lock(&path).unwrap();
    for _ in 0..2 {
        let error = disk.lock(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
    }
    let other = disk.lock(&dir.join("LOCK2")).unwrap();
    drop(guard);
    let guard = disk.lock(&path).unwrap();
    drop((guard, other));
    assert_eq!(names(disk, dir), ["LOCK", "LOCK2"]);
}

fn a_lock_knows_other_spellings_of_its_path(disk: &dyn Fs, dir: &Path) {
    disk.create_dir_all(&dir.join("sub")).unwrap();
    let guard = disk.lock(&dir.join("LOCK")).unwrap();
    assert_eq!(disk.lock(&dir.join("sub/../LOCK")).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(disk.lock(&dir.join("./LOCK")).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(guard);
    disk.lock(&dir.join("sub/../LOCK")).unwrap();
}

fn a_lock_keeps_what_is_in_the_file(disk: &dyn Fs, dir: &Path) {
    write(disk, &dir.join("LOCK"), b"pid 7");
    let _guard = disk.lock(&dir.join("LOCK")).unwrap();
    assert_eq!(disk.read(&dir.join("LOCK"), 10).unwrap(), b"pid 7");
}

fn read_takes_a_whole_small_file_and_refuses_a_long_one(disk: &dyn Fs, dir: &Path) {
    write(disk, &dir.join("CURRENT"), &[1; 64]);
    assert_eq!(disk.read(&dir.join("CURRENT"), 64).unwrap(), [1; 64]);
    let error = disk.read(&dir.join("CURRENT"), 63).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert!(error.to_string().contains("CURRENT"), "{error}");
    write(disk, &dir.join("empty"), b"");
    assert_eq!(disk.read(&dir.join("empty"), 0).unwrap(), b"");
}

fn syncs_and_hints_succeed(disk: &dyn Fs, dir: &Path) {
    let file = disk.create(&dir.join("1.wal")).unwrap();
    file.write_all_at(&[1; 10_000], 0).unwrap();
    file.start_writeback(0, 8192).unwrap();
    file.start_writeback(8192, 0).unwrap();
    for advice in [Advice::Random, Advice::Sequential, Advice::WillNeed, Advice::DontNeed] {
        file.advise(advice, 0, 0);
        file.advise(advice, 1 << 40, 10);
    }
    file.sync().unwrap();
    disk.sync_dir(dir).unwrap();
    assert_eq!(disk.read(&dir.join("1.wal"), 10_000).unwrap(), [1; 10_000]);
}

fn errors_name_operation_and_path(disk: &dyn Fs, dir: &Path) {
    let missing = dir.join("7.row");
    let file = disk.create(&dir.join("8.row")).unwrap();
    let text = |error: std::io::Error| error.to_string();
    assert!(text(disk.open(&missing).unwrap_err()).starts_with(&format!("open {}: ", missing.display())));
    assert!(text(disk.remove(&missing).unwrap_err()).starts_with(&format!("remove {}: ", missing.display())));
    let error = text(file.read_exact_at(&mut [0; 5], 3).unwrap_err());
    assert!(error.starts_with(&format!("read 5 bytes at 3 of {}", dir.join("8.row").display())), "{error}");
    let error = text(disk.rename(&missing, &dir.join("9.row")).unwrap_err());
    assert!(error.contains("7.row") && error.contains("9.row"), "{error}");
}

fn threads_share_a_handle(disk: &dyn Fs, dir: &Path) {
    let file = disk.create(&dir.join("1.row")).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let file = &file;
            scope.spawn(move || {
                for step in 0..50u64 {
                    file.write_all_at(&[thread + 1; 100], (step * 4 + u64::from(thread)) * 100).unwrap();
                }
            });
        }
    });
    let bytes = disk.read(&dir.join("1.row"), 20_000).unwrap();
    assert_eq!(bytes.len(), 20_000);
    for (at, chunk) in bytes.chunks(100).enumerate() {
        assert!(chunk.iter().all(|byte| *byte == (at % 4) as u8 + 1));
    }
}

#[test]
fn both_disks_can_be_shared_behind_the_trait() {
    let disks: [std::sync::Arc<dyn Fs>; 2] =
        [std::sync::Arc::new(OsFs::new()), std::sync::Arc::new(SimFs::new(0))];
    assert_eq!(disks.len(), 2);
}
