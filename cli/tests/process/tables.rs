//! Tables under other names, and tables that go.

use crate::nyala::{count, done, run};
use crate::world::{State, files, make};

#[test]
fn a_table_keeps_its_rows_under_another_name() {
    let dir = tempfile::tempdir().expect("a directory");
    make(dir.path(), State::Normal);
    let before = done(dir.path(), ["scan", "db", "things", "--json"]);
    done(dir.path(), ["rename", "db", "things", "größer, \"besser\""]);
    assert_eq!(done(dir.path(), ["scan", "db", "größer, \"besser\"", "--json"]), before);
    // The old name is free, and its own name is no other table's.
    done(dir.path(), ["rename", "db", "counts", "things"]);
    done(dir.path(), ["rename", "db", "things", "things"]);
    assert_eq!(count(dir.path(), "db", "things"), 20);
    for (new, code) in [("größer, \"besser\"", 2), ("", 2), (&*"n".repeat(256), 2)] {
        assert_eq!(run(dir.path(), ["rename", "db", "things", new]).code, code, "{new}");
    }
    assert_eq!(count(dir.path(), "db", "things"), 20);
    done(dir.path(), ["check", "db"]);
}

#[test]
fn a_table_is_dropped_with_its_files_and_no_other() {
    let dir = tempfile::tempdir().expect("a directory");
    make(dir.path(), State::Normal);
    let count_files =
        || files(&dir.path().join("db"), "idx").len() + files(&dir.path().join("db"), "row").len();
    let before = count_files();
    let ran = run(dir.path(), ["drop", "db", "counts"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert_eq!((count(dir.path(), "db", "counts"), count_files()), (20, before));
    done(dir.path(), ["drop", "db", "counts", "--yes"]);
    assert_eq!(run(dir.path(), ["scan", "db", "counts"]).code, 3);
    assert_eq!((count(dir.path(), "db", "things"), count_files()), (3, before / 2));
    done(dir.path(), ["check", "db"]);
}

#[test]
fn a_damaged_table_can_be_dropped() {
    let dir = tempfile::tempdir().expect("a directory");
    make(dir.path(), State::Damaged);
    for table in ["counts", "things"] {
        let ran = run(dir.path(), ["drop", "db", table]);
        assert!(ran.code == 2 && ran.err.contains("cannot be counted"), "{}", ran.err);
        assert!(done(dir.path(), ["drop", "db", table, "--yes"]).contains("rows:    -"));
    }
    done(dir.path(), ["check", "db"]);
}
