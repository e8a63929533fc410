//! A disk that is full: a clear error, nothing lost, and the import goes on once there is space.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::Command;

/// Mounts a small file system in a mount namespace of its own, fills it, and makes it larger.
const SCRIPT: &str = r#"
set -u
mount -t tmpfs -o size=12m nyala "$DISK" || exit 99
"$NYALA" import "$DISK/db" t "$FILE" --key id >"$OUT/first" 2>&1
echo "import $?"
"$NYALA" scan "$DISK/db" t --count --csv >"$OUT/kept"
echo "scan $?"
"$NYALA" check "$DISK/db" >"$OUT/check"
echo "check $?"
"$NYALA" export "$DISK/db" t "$DISK/t.csv" >"$OUT/export" 2>&1
echo "export $?"
ls "$DISK" >"$OUT/files"
mount -o remount,size=200m "$DISK"
"$NYALA" import "$DISK/db" t "$FILE" >"$OUT/second" 2>&1
echo "again $?"
"$NYALA" scan "$DISK/db" t --count --csv >"$OUT/all"
"#;

#[test]
fn a_full_disk_ends_an_import_that_can_be_run_again() {
    let can_mount =
        Command::new("unshare").args(["--mount", "mount", "-t", "tmpfs", "nyala", "/mnt"]).output();
    if !can_mount.is_ok_and(|output| output.status.success()) {
        let _ =
            writeln!(std::io::stderr(), "SKIPPED: a full disk needs root (to mount a tmpfs) and util-linux");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let disk = dir.path().join("disk");
    fs::create_dir(&disk).expect("a directory");
    let file = dir.path().join("rows.csv");
    // What does not compress well.
    let mut text = "id,x\n".to_owned();
    let mut random = 1u64;
    for id in 0..60_000 {
        write!(text, "{id},").expect("to memory");
        for _ in 0..16 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            write!(text, "{random:016x}").expect("to memory");
        }
        text.push('\n');
    }
    fs::write(&file, text).expect("a file");
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", SCRIPT])
        .env("NYALA", env!("CARGO_BIN_EXE_nyala"))
        .env("DISK", &disk)
        .env("FILE", &file)
        .env("OUT", dir.path())
        .output()
        .expect("sh runs");
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).expect("a file");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "import 7\nscan 0\ncheck 0\nexport 7\nagain 0\n", "{}", read("first"));
    assert!(read("first").contains("help: free some space and run it again"), "{}", read("first"));
    let written: u64 = read("first")
        .split_once(" rows are written")
        .and_then(|(before, _)| before.rsplit(' ').next()?.parse().ok())
        .expect("how many rows are written");
    let kept: u64 = read("kept").trim().rsplit(',').next().expect("a count").parse().expect("a number");
    assert!(written > 0 && kept >= written && kept < 60_000, "{kept} of {written} rows are there");
    assert_eq!(read("files"), "db\n", "a file that was not whole is left");
    assert_eq!(read("all").trim(), "name,value\nrows,60000");
}
