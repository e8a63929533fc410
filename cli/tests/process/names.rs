//! Names of directories that are not plain ASCII, and as long as the file system lets them be.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use crate::nyala::{done, run};

#[test]
fn directories_may_have_any_name() {
    let long: PathBuf = std::iter::repeat_n("d".repeat(255), 8).collect();
    let names = [
        OsString::from("Größe 東京 🦌"),
        OsString::from("with 'quotes' and \"more\""),
        OsString::from("line\nbreak"),
        OsString::from_vec(b"no utf-8 \xff".to_vec()),
        long.into_os_string(),
    ];
    for name in names {
        let dir = tempfile::tempdir().expect("a directory");
        let db = dir.path().join(&name).into_os_string();
        std::fs::write(dir.path().join("t.csv"), "id,x\n1,a\n2,b\n").expect("a file");
        let arguments = |words: &[&str]| -> Vec<OsString> {
            words.iter().map(|word| if *word == "DB" { db.clone() } else { word.into() }).collect()
        };
        done(dir.path(), arguments(&["import", "DB", "t", "t.csv", "--key", "id"]));
        assert_eq!(done(dir.path(), arguments(&["scan", "DB", "t", "--csv"])), "id,x\n1,a\n2,b\n");
        for words in [&["inspect", "DB"][..], &["stats", "DB"], &["check", "DB"], &["compact", "DB"]] {
            done(dir.path(), arguments(words));
        }
        // What a terminal would act on is not printed as it is.
        let shown = done(dir.path(), arguments(&["inspect", "DB"]));
        assert!(shown.lines().next().expect("a line").starts_with("directory:"));
        assert!(!shown.contains("line\nbreak"));
        assert!(
            serde_json::from_str::<serde_json::Value>(&done(
                dir.path(),
                arguments(&["inspect", "DB", "--json"])
            ))
            .is_ok()
        );
    }
}

#[test]
fn a_name_that_is_too_long_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let ran = run(dir.path(), ["inspect", &"d".repeat(300)]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("name too long"), "{}", ran.err);
}
