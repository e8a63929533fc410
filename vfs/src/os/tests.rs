use super::*;
use std::process::{Command, Stdio};

const LOCK_TO_HOLD: &str = "NYALA_VFS_TEST_LOCK";

/// No test by itself: the other process of the test below.
#[test]
fn hold_a_lock_if_asked() {
    let Some(path) = std::env::var_os(LOCK_TO_HOLD) else { return };
    let _guard = OsFs.lock(Path::new(&path)).expect("nobody else holds it");
    println!("held");
    // Until the parent closes the pipe, or is gone.
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn a_lock_holds_against_another_process_and_ends_with_it() {
    use std::io::{BufRead, BufReader};
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("LOCK");
    let mut child = Command::new(std::env::current_exe().expect("a test has a file"))
        .args(["--exact", "os::tests::hold_a_lock_if_asked", "--nocapture"])
        .env(LOCK_TO_HOLD, &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a second process");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let held = lines.map_while(Result::ok).any(|line| line.contains("held"));
    assert!(held, "the other process did not get the lock");

    for _ in 0..2 {
        let error = OsFs.lock(&path).expect_err("another process holds it");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
    }
    child.kill().expect("it runs");
    child.wait().expect("it was started");
    OsFs.lock(&path).expect("a lock ends with its process");
}

#[test]
fn a_lock_knows_a_directory_by_a_link() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let real = dir.path().join("real");
    OsFs.create_dir_all(&real).expect("a directory");
    std::os::unix::fs::symlink(&real, dir.path().join("link")).expect("a link");
    let _guard = OsFs.lock(&real.join("LOCK")).expect("free");
    let error = OsFs.lock(&dir.path().join("link/LOCK")).expect_err("held");
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn zeros_are_written_where_space_cannot_be_taken() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(dir.path().join("1.wal"))
        .expect("a new file");
    let file = OsFile { file, path: dir.path().join("1.wal") };
    file.write_all_at(b"head", 0).expect("space");
    file.extend_with_zeros(200_001).expect("space");
    file.extend_with_zeros(5).expect("space");
    let bytes = OsFs.read(&dir.path().join("1.wal"), 1 << 20).expect("it is there");
    assert_eq!(bytes.len(), 200_001);
    assert!(bytes.starts_with(b"head") && bytes[4..].iter().all(|byte| *byte == 0));
}

#[test]
fn a_full_disk_is_storage_full() {
    if !Path::new("/dev/full").exists() {
        println!("skipped: no /dev/full here");
        return;
    }
    let file = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("it can be opened");
    let file = OsFile { file, path: PathBuf::from("/dev/full") };
    let error = file.write_all_at(b"x", 0).expect_err("it is always full");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert!(error.to_string().starts_with("write 1 bytes at 0 of /dev/full"), "{error}");
}
