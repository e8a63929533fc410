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
            &["drop", "db", "counts"],
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
    for arguments in [
        &["compact", "db"][..],
        &["rename", "db", "counts", "numbers"],
        &["drop", "db", "counts", "--yes"],
        &["checkpoint", "db", "copy"],
        &["repair", "db", "new"],
    ] {
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
    let watch = |form| crate::nyala::done(dir.path(), ["stats", "db", "--watch=0.01", "--looks", "3", form]);
    let out = watch("--json");
    let is_look = |line: &&str| line.starts_with("{\"time\":\"2") && line.contains("\"version\":");
    assert_eq!(out.lines().filter(is_look).count(), 3, "one object a line: {out}");
    let out = watch("--csv");
    assert_eq!(out.lines().filter(|line| *line == "time,table,name,value").count(), 1, "one head: {out}");
    assert!(out.starts_with("time,table,name,value\n"), "{out}");
    for fact in [",,version,", ",,health,", ",,disk_bytes,", ",,slowed_by,", ",counts,debt_runs,"] {
        assert_eq!(out.lines().filter(|line| line.contains(fact)).count(), 3, "{fact} each time: {out}");
    }
    let out = watch("--output=table");
    assert_eq!(out.lines().filter(|line| line.starts_with("time:")).count(), 3, "{out}");
}

#[test]
fn the_parts_that_stats_shows_add_up_to_the_files_of_the_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    drop(make(dir.path(), State::Normal));
    std::fs::write(dir.path().join("db/notes.txt"), "none of ours").expect("a file");
    let files: Vec<u64> = std::fs::read_dir(dir.path().join("db"))
        .expect("a directory")
        .map(|entry| entry.expect("a file").metadata().expect("a length").len())
        .collect();
    let out = crate::nyala::done(dir.path(), ["stats", "db", "--csv"]);
    let fact = |name: &str| -> u64 {
        let value = out.lines().find_map(|line| line.strip_prefix(&format!(",{name},")));
        value.unwrap_or_else(|| panic!("no {name} in {out}")).parse().expect("a number")
    };
    let parts = [
        "index_bytes",
        "row_bytes",
        "log_file_bytes",
        "manifest_file_bytes",
        "obsolete_bytes",
        "unfinished_bytes",
        "other_bytes",
    ];
    assert_eq!(fact("files"), files.len() as u64);
    assert_eq!(fact("disk_bytes"), files.iter().sum::<u64>());
    assert_eq!(fact("disk_bytes"), parts.iter().map(|part| fact(part)).sum::<u64>());
    assert_eq!(fact("other_bytes"), "none of ours".len() as u64);
}
