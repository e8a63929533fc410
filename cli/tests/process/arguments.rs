//! Arguments that make no sense are told why, in the form that was asked for, and change nothing.

use std::fs;

use serde_json::Value;

use crate::nyala::{done, run};
use crate::world::{State, contents, make};

#[test]
fn what_the_command_line_lacks_is_json_if_that_is_asked_for() {
    let dir = tempfile::tempdir().expect("a directory");
    for (arguments, message, help) in [
        (&["frob", "--json"][..], "unrecognized subcommand 'frob'", "nyala [OPTIONS] <COMMAND>"),
        (
            &["--output", "json", "scan"],
            "the following required arguments were not provided: <DIR> <TABLE>",
            "nyala scan <DIR> <TABLE>",
        ),
        (&["--output=json", "key"], "a subcommand is missing", "`--help` lists them"),
        (
            &["get", "db", "t", "-x", "--json"],
            "unexpected argument '-x' found",
            "to pass '-x' as a value, use '-- -x'",
        ),
    ] {
        let ran = run(dir.path(), arguments);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{arguments:?}");
        let error: Value = serde_json::from_str(&ran.err).expect(&ran.err);
        let expected = serde_json::json!({"error": {"exit_code": 2, "message": message, "help": help}});
        assert_eq!(error, expected, "{arguments:?}");
    }
    // Behind -- it is a value.
    let ran = run(dir.path(), ["get", "db", "-x", "--", "--json"]);
    assert!(ran.code == 2 && ran.err.starts_with("error: unexpected argument"), "{}", ran.err);
    for help in [&["--json", "--help"][..], &["help", "scan"], &["import", "-h"], &["--version", "--json"]] {
        assert!(done(dir.path(), help).contains("nyala"));
    }
}

#[test]
fn help_fits_in_a_hundred_columns() {
    let dir = tempfile::tempdir().expect("a directory");
    let names =
        ["inspect", "get", "scan", "import", "export", "stats", "check", "compact", "checkpoint", "repair"];
    for name in names.iter().chain(&["rename", "drop", "dump", "key"]) {
        let help = done(dir.path(), [*name, "--help"]);
        let longest = help.lines().max_by_key(|line| line.chars().count()).expect("a line");
        assert!(longest.chars().count() <= 100, "{name}: {longest}");
    }
}

#[test]
fn no_database_is_made_among_other_files_or_for_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("t.csv"), "id\n1\n").expect("a file");
    fs::write(dir.path().join("twice.csv"), "id,id\n1,2\n").expect("a file");
    let before = contents(dir.path());
    let ran = run(dir.path(), ["import", ".", "t", "t.csv", "--key", "id"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains(". holds no database, and is not empty"), "{}", ran.err);
    let ran = run(dir.path(), ["import", "t.csv", "t", "t.csv", "--key", "id"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("t.csv is a file"), "{}", ran.err);
    for (file, key) in [("twice.csv", "id"), ("t.csv", "no"), ("t.csv", "id,id")] {
        assert_eq!(run(dir.path(), ["import", "db", "t", file, "--key", key]).code, 2);
    }
    for arguments in [&["repair", ".", "new"][..], &["repair", "t.csv", "new"], &["repair", "no", "new"]] {
        assert_eq!(run(dir.path(), arguments).code, 3, "{arguments:?}");
    }
    assert_eq!(contents(dir.path()), before);
    // An empty directory is as good as none, and so is what a making left that was cut off.
    fs::create_dir(dir.path().join("db")).expect("a directory");
    fs::write(dir.path().join("db/LOCK"), "").expect("a file");
    done(dir.path(), ["import", "db", "t", "t.csv", "--key", "id"]);
}

#[test]
fn a_selection_that_makes_no_sense_is_told_why() {
    let dir = tempfile::tempdir().expect("a directory");
    make(dir.path(), State::Normal);
    let refused = |more: &[&str], words: &str| {
        for command in ["scan", "export"] {
            let ran = run(dir.path(), [command, "db", "things"].iter().chain(more));
            assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{more:?}");
            assert!(ran.err.contains(words), "{more:?}: {}", ran.err);
        }
    };
    refused(&["--columns", "id,day,id"], "--columns has \"id\" twice");
    refused(&["--columns", ""], "give at least one");
    refused(&["--columns", "no"], "there is no column \"no\"");
    refused(&["--limit", "-1"], "invalid value '-1' for '--limit <ROWS>'");
    refused(&["--prefix", "ant,1,2"], "more values than the key has columns, 2");
    refused(&["--where", "text = null"], "write: text is null");
    refused(&["--where", "id in (1, NULL)"], "write: id is null");
    let ran = run(dir.path(), ["get", "db", "things", "ant"]);
    assert!(ran.code == 2 && ran.err.contains("the key has 2 columns: id is missing"), "{}", ran.err);
    let ran = run(dir.path(), ["key", "encode", "--types", "string,u8", "a"]);
    assert!(ran.code == 2 && ran.err.contains("the key has 2 columns: 2 is missing"), "{}", ran.err);
    assert_eq!(done(dir.path(), ["key", "encode", "--types", "f64", "--", "-inf"]), "000fffffffffffff\n");
    assert_eq!(
        done(dir.path(), ["scan", "db", "things", "--where", "text = 'null'", "--count"]),
        "rows: 0\n"
    );
}

#[test]
fn names_may_have_commas_and_quotes() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("t.csv"), "\"a,b\",\"c\"\"d\",e f\n1,2,3\n").expect("a file");
    done(dir.path(), ["import", "db", "t é", "t.csv", "--key", "e f,\"a,b:desc\""]);
    let scan = |columns: &str| done(dir.path(), ["scan", "db", "t é", "--csv", "--columns", columns]);
    assert_eq!(scan("\"a,b\",e f"), "\"a,b\",e f\n1,3\n");
    assert_eq!(scan("\"c\"\"d\""), "\"c\"\"d\"\n2\n");
    assert_eq!(
        done(dir.path(), ["scan", "db", "t é", "--count", "--where", "\"a,b\" = 1 and \"c\"\"d\" = 2"]),
        "rows: 1\n"
    );
    // The same key again; another one is refused.
    done(dir.path(), ["import", "db", "t é", "t.csv", "--key", "e f,\"a,b\""]);
    assert_eq!(run(dir.path(), ["import", "db", "t é", "t.csv", "--key", "e f"]).code, 2);
}
