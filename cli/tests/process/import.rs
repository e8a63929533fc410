//! Imports: what is found out, what is refused, what is set aside.

use std::fs;
use std::path::Path;

use crate::nyala::{count, done, run};
use crate::world::flights;

fn write(dir: &Path, name: &str, text: &str) {
    fs::write(dir.join(name), text).expect("a file");
}

#[test]
fn the_flights_that_ship_are_imported_with_their_key() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = flights();
    let file = file.to_str().expect("a plain name");
    let key = "year,month,day,carrier,flight,origin";
    let out = done(dir.path(), ["import", "db", "flights", file, "--key", key, "--null", "NA", "--json"]);
    assert!(out.contains("\"records_read\":3601,\"rows_written\":3601,\"records_rejected\":0"), "{out}");
    assert!(
        out.contains("{\"column\":\"time_hour\",\"type\":\"timestamp, nullable\",\"key\":null}"),
        "{out}"
    );
    assert_eq!(count(dir.path(), "db", "flights"), 3601);
    // Once more: rows replace themselves.
    done(dir.path(), ["import", "db", "flights", file, "--null", "NA"]);
    assert_eq!(count(dir.path(), "db", "flights"), 3601);
}

#[test]
fn what_cannot_be_a_row_is_set_aside_with_its_line_and_the_reason() {
    let dir = tempfile::tempdir().expect("a directory");
    write(dir.path(), "good.csv", "id,n\n1,10\n");
    done(dir.path(), ["import", "db", "t", "good.csv", "--key", "id", "--type", "n=u8", "--type", "id=i64"]);
    let bytes =
        [b"id,n\n2,20\n3,256\n4,x\n\"5\n\",50\n6\n7,\n8,80,1\n9,90\n\xff,1\n".as_slice(), b"10,100\n"];
    fs::write(dir.path().join("mixed.csv"), bytes.concat()).expect("a file");
    // Without a place for them the first ends the import; what came before it stays.
    let ran = run(dir.path(), ["import", "db", "t", "mixed.csv"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("1 rows are written, and stay: line 3: column n: \"256\" is no u8"),
        "{}",
        ran.err
    );
    assert_eq!(count(dir.path(), "db", "t"), 2);

    let ran = run(dir.path(), ["import", "db", "t", "mixed.csv", "--rejects", "rejects.csv", "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (4, ""));
    assert!(ran.out.contains("\"records_read\":10,\"rows_written\":3,\"records_rejected\":7"), "{}", ran.out);
    let rejects = fs::read_to_string(dir.path().join("rejects.csv")).expect("a file");
    let expected = "line,reason,record\n\
        3,\"column n: \"\"256\"\" is no u8: give a whole number of 8 bits that is not negative\",\"3,256\"\n\
        4,\"column n: \"\"x\"\" is no u8: give a whole number of 8 bits that is not negative\",\"4,x\"\n\
        5,\"column id: \"\"5\\n\"\" is no i64: give a whole number of 64 bits\",\"\"\"5\n\"\",50\"\n\
        7,\"2 fields expected, 1 found\",6\n\
        8,column n: it cannot be null,\"7,\"\n\
        9,\"2 fields expected, 3 found\",\"8,80,1\"\n\
        11,field 1 is not UTF-8 (from its byte 1),\"\u{fffd},1\"\n";
    assert_eq!(rejects, expected);
}

#[test]
fn lines_of_json_are_read_by_the_types_of_the_table() {
    let dir = tempfile::tempdir().expect("a directory");
    write(
        dir.path(),
        "rows.jsonl",
        "{\"id\":1,\"price\":1.10,\"at\":\"2020-07-09T00:00:00Z\",\"text\":\"7\"}\n\n{\"text\":null,\"id\":2}\n",
    );
    let out = done(
        dir.path(),
        ["import", "db", "t", "rows.jsonl", "--key", "id", "--type", "price=decimal(9,2)?", "--json"],
    );
    let columns = "\"columns\":[{\"column\":\"id\",\"type\":\"i64\",\"key\":1},\
        {\"column\":\"price\",\"type\":\"decimal(9, 2), nullable\",\"key\":null},\
        {\"column\":\"at\",\"type\":\"timestamp, nullable\",\"key\":null},\
        {\"column\":\"text\",\"type\":\"string, nullable\",\"key\":null}]";
    assert!(out.contains(columns), "{out}");
    assert_eq!(
        done(dir.path(), ["scan", "db", "t", "--json"]),
        "{\"id\":1,\"price\":\"1.10\",\"at\":\"2020-07-09T00:00:00.000000Z\",\"text\":\"7\"}\n\
         {\"id\":2,\"price\":null,\"at\":null,\"text\":null}\n"
    );
    write(
        dir.path(),
        "bad.jsonl",
        "{\"id\":3}\n[1]\n{\"id\":\n{\"id\":4,\"id\":5}\n{\"id\":6,\"other\":1}\n{\"id\":7.5}\n{\"price\":1}\n{\"id\":8,\"price\":1.005}\n",
    );
    let ran = run(dir.path(), ["import", "db", "t", "bad.jsonl", "--rejects", "r.csv", "--json"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.out.contains("\"rows_written\":1,\"records_rejected\":7"), "{}", ran.out);
    let rejects = fs::read_to_string(dir.path().join("r.csv")).expect("a file");
    for (line, reason) in [
        (2, "expected an object"),
        (3, "EOF while parsing"),
        (4, "is there twice"),
        (5, "the table has no column"),
        (6, "is no i64"),
        (7, "column id: no value"),
        (8, "is no decimal"),
    ] {
        let found = rejects.lines().find(|found| found.starts_with(&format!("{line},"))).expect("a reject");
        assert!(found.contains(reason), "{found}");
    }
}

#[test]
fn arguments_that_make_no_sense_change_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    write(dir.path(), "t.csv", "id,x\n1,a\n");
    write(dir.path(), "twice.csv", "id,id\n1,a\n");
    let refused = |arguments: &[&str], words: &str| {
        let ran = run(dir.path(), arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(words), "{arguments:?}: {}", ran.err);
    };
    refused(&["import", "db", "t", "t.csv"], "--key says which columns are its key");
    refused(&["import", "db", "t", "t.csv", "--key", "no"], "there is no column \"no\" in the file");
    refused(&["import", "db", "t", "t.csv", "--key", "id", "--type", "x=int"], "is no type");
    refused(&["import", "db", "t", "t.csv", "--key", "id", "--type", "y=i64"], "there is no column \"y\"");
    refused(&["import", "db", "t", "twice.csv", "--key", "id"], "two columns of the file are called \"id\"");
    let missing = run(dir.path(), ["import", "other", "t", "no.csv", "--key", "id"]);
    assert_eq!(missing.code, 1);
    assert!(!dir.path().join("other").exists(), "a database was made for a file that is not there");

    done(dir.path(), ["import", "db", "t", "t.csv", "--key", "id"]);
    write(dir.path(), "more.csv", "id,x,y\n2,b,c\n");
    write(dir.path(), "less.csv", "x\nb\n");
    refused(&["import", "db", "t", "more.csv"], "the table has no column \"y\"");
    refused(&["import", "db", "t", "less.csv"], "the file has no column id");
    refused(&["import", "db", "t", "t.csv", "--key", "x"], "has the key id");
    assert_eq!(count(dir.path(), "db", "t"), 1);
}

#[test]
fn a_word_for_nulls_is_noticed() {
    let dir = tempfile::tempdir().expect("a directory");
    write(dir.path(), "t.csv", "id,n\n1,5\n2,NA\n3,7\n");
    let out = done(dir.path(), ["import", "db", "t", "t.csv", "--key", "id"]);
    assert!(out.contains("column n: text, because of \"NA\""), "{out}");
    done(dir.path(), ["import", "db", "u", "t.csv", "--key", "id", "--null", "NA"]);
    assert_eq!(done(dir.path(), ["scan", "db", "u", "--where", "n is null", "--csv"]), "id,n\n2,\n");
}
