//! Every subcommand on every state of a directory in every form, compared with what is kept.

use std::fs;
use std::path::{Path, PathBuf};

use crate::mask;
use crate::nyala::run;
use crate::world::{State, files, make};

/// Writes what is printed to the files that it is compared with.
const WRITE: &str = "NYALA_KEPT_WRITE";

/// A subcommand, and its arguments behind the database.
const CASES: &[(&str, &[&str])] = &[
    ("inspect", &["inspect", "db"]),
    ("inspect_table", &["inspect", "db", "things"]),
    ("get", &["get", "db", "things", "ant", "-7"]),
    ("get_missing", &["get", "db", "counts", "99"]),
    ("scan", &["scan", "db", "things"]),
    (
        "scan_selected",
        &["scan", "db", "counts", "--from", "3", "--where", "n <> 5000", "--limit", "4", "--reverse"],
    ),
    ("scan_count", &["scan", "db", "counts", "--count"]),
    ("import", &["import", "db", "new", "new.csv", "--key", "id", "--rejects", "rejects.csv"]),
    ("export", &["export", "db", "things", "things.jsonl"]),
    ("stats", &["stats", "db"]),
    ("check", &["check", "db"]),
    ("compact", &["compact", "db"]),
    ("rename", &["rename", "db", "counts", "numbers"]),
    ("rename_taken", &["rename", "db", "counts", "things"]),
    ("rename_missing", &["rename", "db", "no", "numbers"]),
    ("drop", &["drop", "db", "counts", "--yes"]),
    ("drop_refused", &["drop", "db", "counts"]),
    ("drop_missing", &["drop", "db", "no", "--yes"]),
    ("checkpoint", &["checkpoint", "db", "copy"]),
    ("repair", &["repair", "db", "repaired"]),
    ("repair_dry_run", &["repair", "db", "--dry-run"]),
    ("dump_wal", &["dump", "wal", "NEWEST.wal"]),
    ("dump_manifest", &["dump", "manifest", "NEWEST.manifest"]),
    ("dump_idx", &["dump", "idx", "NEWEST.idx"]),
    ("dump_row", &["dump", "row", "NEWEST.row"]),
    ("key_encode", &["key", "encode", "--db", "db", "--table", "things", "ant", "-7"]),
    ("key_decode", &["key", "decode", "--db", "db", "--table", "things", "616e7400000080000006"]),
];

fn compare(state: State) {
    let mut different = Vec::new();
    for (name, arguments) in CASES {
        let mut found = String::new();
        for form in ["table", "csv", "json"] {
            found.push_str(&session(state, arguments, form));
        }
        let path = kept(state, name);
        if std::env::var_os(WRITE).is_some() {
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(&path, &found).expect("a file");
        } else if fs::read_to_string(&path).unwrap_or_default() != found {
            different.push(format!("{}:\n{found}", path.display()));
        }
    }
    assert!(
        different.is_empty(),
        "{} outputs are not those that are kept (if that is meant, run again with {WRITE}=1):\n{}",
        different.len(),
        different.join("\n")
    );
}

/// The command as a person would type it, its exit code, and what it prints.
fn session(state: State, arguments: &[&str], form: &str) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let writer = make(dir.path(), state);
    fs::write(dir.path().join("new.csv"), "id,note\n1,one\n2,\nx,bad\n").expect("a file");
    let arguments: Vec<&str> = arguments.iter().copied().chain(["--output", form]).collect();
    // The numbers of files depend on what the threads of the engine did first.
    let named = arguments.iter().map(|argument| match argument.strip_prefix("NEWEST.") {
        Some(extension) => files(&dir.path().join("db"), extension)
            .pop()
            .unwrap_or_else(|| format!("db/1.{extension}").into())
            .into_os_string(),
        None => argument.into(),
    });
    let is_of_a_file = arguments[0] == "dump";
    let ran = run(dir.path(), named);
    if let Some(writer) = writer {
        writer.close().expect("it closes");
    }
    let hidden = |text: &str| {
        let text = mask::sizes(&text.replace(dir.path().to_str().expect("a plain name"), "DIR"));
        if state == State::Damaged || is_of_a_file { mask::numbers(&text) } else { text }
    };
    format!(
        "$ nyala {}\nexit code {}\n{}{}\n",
        arguments.join(" "),
        ran.code,
        hidden(&ran.out),
        hidden(&ran.err)
    )
}

fn kept(state: State, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept").join(state.name()).join(format!("{name}.txt"))
}

#[test]
fn an_empty_directory_prints_what_is_kept() {
    compare(State::Nothing);
}

#[test]
fn an_empty_database_prints_what_is_kept() {
    compare(State::Empty);
}

#[test]
fn a_normal_database_prints_what_is_kept() {
    compare(State::Normal);
}

#[test]
fn a_damaged_database_prints_what_is_kept() {
    compare(State::Damaged);
}

#[test]
fn a_database_with_a_writer_prints_what_is_kept() {
    compare(State::Locked);
}

#[test]
fn nothing_is_kept_that_no_case_makes() {
    for state in State::ALL {
        let folder = kept(state, "").parent().expect("a folder").to_owned();
        let mut found: Vec<String> = fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"))
            .collect();
        found.sort();
        let mut made: Vec<String> = CASES.iter().map(|(name, _)| format!("{name}.txt")).collect();
        made.sort();
        assert_eq!(found, made, "{}", state.name());
    }
}
