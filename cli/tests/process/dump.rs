//! What stands in files, as values; and keys as bytes.

use std::path::Path;

use crate::nyala::{done, run};
use crate::world::{State, files, flip, make};

fn newest(dir: &Path, extension: &str) -> String {
    let file = files(&dir.join("db"), extension).pop().expect("a file");
    file.to_str().expect("a plain name").to_owned()
}

#[test]
fn files_show_their_values_and_nothing_is_changed() {
    let dir = tempfile::tempdir().expect("a directory");
    let _writer = make(dir.path(), State::Locked);
    let log = done(dir.path(), ["dump", "wal", &newest(dir.path(), "wal"), "--csv"]);
    assert!(log.ends_with(",put,counts,(id: 20),(n: 20000)\n"), "{log}");
    let things = files(&dir.path().join("db"), "idx")
        .into_iter()
        .map(|file| done(dir.path(), ["dump".as_ref(), "idx".as_ref(), file.as_os_str(), "--csv".as_ref()]))
        .find(|text| text.contains("ant"))
        .expect("an index file of things");
    // The key descends in its second column.
    let keys: Vec<&str> = things.lines().skip(1).collect();
    assert_eq!(keys.len(), 3, "{things}");
    assert!(keys[0].contains("id: 1)") && keys[1].contains("id: -7)") && keys[2].contains("bee"), "{things}");
    let rows: Vec<String> = files(&dir.path().join("db"), "row")
        .into_iter()
        .map(|file| done(dir.path(), ["dump".as_ref(), "row".as_ref(), file.as_os_str(), "--json".as_ref()]))
        .collect();
    assert!(
        rows.iter().any(|text| text.contains("\"price\":\"-123.45\",\"day\":\"2020-07-09\"")),
        "{rows:?}"
    );
    let manifest = done(dir.path(), ["dump", "manifest", &newest(dir.path(), "manifest")]);
    assert!(manifest.contains("\"counts\" Schema v1 (key \"id\": u32, \"n\": i64)"), "{manifest}");
    let limited =
        done(dir.path(), ["dump", "manifest", &newest(dir.path(), "manifest"), "--limit", "2", "--csv"]);
    assert_eq!(limited.lines().count(), 3);
}

#[test]
fn damage_is_told_and_the_rest_is_shown() {
    let dir = tempfile::tempdir().expect("a directory");
    let writer = make(dir.path(), State::Locked).expect("a writer");
    let counts = writer.existing_table("counts").expect("the table");
    for id in 21..30u32 {
        counts.upsert((id, 0)).expect("a row");
    }
    // The log stays as it is: this handle is never dropped.
    std::mem::forget(writer);
    let log = newest(dir.path(), "wal");
    flip(log.as_ref());
    let ran = run(dir.path(), ["dump", "wal", &log, "--csv"]);
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    assert!(ran.err.starts_with("byte 64: ") && ran.err.contains("cannot be read"), "{}", ran.err);
    assert_eq!(ran.out.lines().filter(|line| line.contains(",put,counts,")).count(), 9, "{}", ran.out);
}

#[test]
fn a_file_under_another_name_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    make(dir.path(), State::Normal);
    std::fs::copy(newest(dir.path(), "idx"), dir.path().join("copy.idx")).expect("a copy");
    let ran = run(dir.path(), ["dump", "idx", "copy.idx"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("its number, as in 17.idx, is a part of its checksums"), "{}", ran.err);
}

#[test]
fn keys_go_to_bytes_and_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let encoded = |types: &str, values: &[&str]| {
        let arguments = ["key", "encode", "--types", types].into_iter().chain(values.iter().copied());
        done(dir.path(), arguments).trim().to_owned()
    };
    assert_eq!(encoded("i8,string,i32", &["-5", "ab", "7"]), "7b6162000080000007");
    assert_eq!(encoded("decimal(9,2)", &["-123.45"]), "7fffcfc7");
    assert_eq!(encoded("date", &["2020-07-09"]), "80004814");
    assert_eq!(encoded("u8:desc,binary", &["1", "0x00ff"]), "fe00ff");
    let decoded =
        done(dir.path(), ["key", "decode", "--types", "i8,string,i32", "0x7b6162000080000007", "--csv"]);
    assert_eq!(decoded, "column,value\n1,-5\n2,ab\n3,7\n");
    for (types, bytes) in [("i8", "7b00"), ("string,i8", "61"), ("i8", "xx"), ("i8", "7")] {
        let ran = run(dir.path(), ["key", "decode", "--types", types, bytes]);
        assert_eq!(ran.code, 2, "{types} {bytes}: {}", ran.out);
        assert!(ran.err.contains("no key"), "{}", ran.err);
    }
    assert_eq!(run(dir.path(), ["key", "encode", "7"]).code, 2);
}
