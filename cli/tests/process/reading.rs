//! Commands that read change nothing; commands that write say that they cannot, beside a writer.

use crate::nyala::run;
use crate::world::{State, contents, make};

#[test]
fn commands_that_read_change_not_a_byte() {
    // Beside a writer it would be the writer that does.
    for state in [State::Empty, State::Normal, State::Damaged] {
        let dir = tempfile::tempdir().expect("a directory");
        make(dir.path(), state);
        let before = contents(&dir.path().join("db"));
        for arguments in [
            &["inspect", "db"][..],
            &["get", "db", "counts", "7"],
            &["scan", "db", "things"],
            &["export", "db", "counts"],
            &["stats", "db"],
            &["key", "encode", "--db", "db", "--table", "counts", "7"],
            &["check", "db"],
            &["repair", "db", "--dry-run"],
        ] {
            run(dir.path(), arguments);
            let after = contents(&dir.path().join("db"));
            assert!(before == after, "{arguments:?} changed the directory ({})", state.name());
        }
    }
}

#[test]
fn a_writer_locks_out_commands_that_write_and_no_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let writer = make(dir.path(), State::Locked).expect("a writer");
    for arguments in [&["compact", "db"][..], &["checkpoint", "db", "copy"], &["repair", "db", "new"]] {
        let ran = run(dir.path(), arguments);
        assert_eq!(ran.code, 5, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains("help: another process has the database open"), "{}", ran.err);
    }
    // It sees what the writer has written, flushed or not.
    assert_eq!(crate::nyala::count(dir.path(), "db", "counts"), 21);
    writer.existing_table("counts").expect("the table").upsert((21u32, 0)).expect("a row");
    assert_eq!(crate::nyala::count(dir.path(), "db", "counts"), 22);
    writer.close().expect("it closes");
    assert_eq!(run(dir.path(), ["compact", "db"]).code, 0);
}

#[test]
fn watching_sees_what_a_writer_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let _writer = make(dir.path(), State::Locked).expect("a writer");
    let out = crate::nyala::done(dir.path(), ["stats", "db", "--watch=0.01", "--looks", "3", "--json"]);
    assert_eq!(out.lines().filter(|line| line.starts_with("{\"version\":")).count(), 3, "{out}");
}
