//! Imports: what is found out, what is refused, what is set aside.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use nyala::{Engine, Options, Schema, Type};

use crate::nyala::{command, count, done, run};
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
        ran.err.contains("1 row is written, and stays: line 3: column n: \"256\" is no u8"),
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

/// A table whose columns have defaults, of its first schema and of a later one.
fn with_defaults(dir: &Path) {
    let engine = Engine::open(dir.join("db"), Options::default()).expect("a new database");
    let schema = Schema::builder()
        .key("id", Type::U32)
        .column("n", Type::I64)
        .column_with_default("unit", Type::String, "none")
        .column_with_default("size", Type::U8.nullable(), 7u8)
        .build()
        .expect("a schema");
    let table = engine.create_table("t", schema).expect("a table");
    table.upsert((1u32, 10, "m", 1u8)).expect("a row");
    let alter = table.alter().add_column("rate", Type::F64, 0.5).add_column(
        "late",
        Type::Date.nullable(),
        None::<u8>,
    );
    alter.apply().expect("a new schema");
    engine.close().expect("it closes");
}

#[test]
fn a_column_that_a_file_lacks_has_its_default() {
    for (file, text) in
        [("rows.csv", "n,id\n20,2\n30,3\n"), ("rows.jsonl", "{\"n\":20,\"id\":2}\n{\"id\":3,\"n\":30}\n")]
    {
        let dir = tempfile::tempdir().expect("a directory");
        with_defaults(dir.path());
        write(dir.path(), file, text);
        done(dir.path(), ["import", "db", "t", file]);
        let expected = "id,n,unit,size,rate,late\n1,10,m,1,0.5,\n2,20,none,7,0.5,\n3,30,none,7,0.5,\n";
        assert_eq!(done(dir.path(), ["scan", "db", "t", "--csv"]), expected, "{file}");
    }
    // A record of JSON says itself what it lacks.
    let dir = tempfile::tempdir().expect("a directory");
    with_defaults(dir.path());
    write(dir.path(), "mixed.jsonl", "{\"id\":2,\"n\":2,\"unit\":\"kg\"}\n{\"id\":3,\"n\":3,\"rate\":2}\n");
    done(dir.path(), ["import", "db", "t", "mixed.jsonl"]);
    let expected = "id,n,unit,size,rate,late\n1,10,m,1,0.5,\n2,2,kg,7,0.5,\n3,3,none,7,2.0,\n";
    assert_eq!(done(dir.path(), ["scan", "db", "t", "--csv"]), expected);
}

#[test]
fn defaults_are_shown() {
    let dir = tempfile::tempdir().expect("a directory");
    with_defaults(dir.path());
    let shown = done(dir.path(), ["inspect", "db", "t", "--csv"]);
    let expected = "table,column,type,key,descending,nullable,default\n\
        t,id,u32,1,false,false,\nt,n,i64,,false,false,\nt,unit,string,,false,false,none\n\
        t,size,u8,,false,true,7\nt,rate,f64,,false,false,0.5\nt,late,date,,false,true,\n";
    assert_eq!(shown, expected);
}

#[test]
fn what_a_file_says_is_not_replaced_by_a_default() {
    let dir = tempfile::tempdir().expect("a directory");
    with_defaults(dir.path());
    // An empty cell is a null, or text where no null can be; and a null is no number.
    write(dir.path(), "rows.csv", "id,n,unit,size\n2,20,,\n");
    done(dir.path(), ["import", "db", "t", "rows.csv"]);
    write(dir.path(), "rows.jsonl", "{\"id\":3,\"n\":30,\"size\":null}\n");
    done(dir.path(), ["import", "db", "t", "rows.jsonl"]);
    let expected = "id,n,unit,size,rate,late\n1,10,m,1,0.5,\n2,20,,,0.5,\n3,30,none,,0.5,\n";
    assert_eq!(done(dir.path(), ["scan", "db", "t", "--csv"]), expected);
    write(dir.path(), "rate.csv", "id,n,rate\n4,40,\n");
    let ran = run(dir.path(), ["import", "db", "t", "rate.csv"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("column rate: it cannot be null"), "{}", ran.err);
}

#[test]
fn a_column_without_value_and_default_is_told_before_the_first_row() {
    let dir = tempfile::tempdir().expect("a directory");
    with_defaults(dir.path());
    write(dir.path(), "rows.csv", "id,unit\n2,m\n3,m\n");
    for more in [&[][..], &["--rejects", "rejects.csv"]] {
        let ran = run(dir.path(), ["import", "db", "t", "rows.csv"].iter().chain(more));
        assert_eq!(ran.code, 2);
        assert!(
            ran.err.contains("the file has no column n, which cannot be null and has no default"),
            "{}",
            ran.err
        );
    }
    assert!(!dir.path().join("rejects.csv").exists());
    assert_eq!(count(dir.path(), "db", "t"), 1);
}

#[test]
fn a_file_of_rejects_destroys_no_other() {
    let dir = tempfile::tempdir().expect("a directory");
    write(dir.path(), "rows.csv", "id,n\n1,10\nx,20\n");
    write(dir.path(), "precious.csv", "precious");
    let import = ["import", "db", "t", "rows.csv", "--key", "id", "--type", "id=u8", "--rejects"];
    let with = |more: &[&str]| run(dir.path(), import.iter().chain(more));
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).expect("a file");
    let ran = with(&["precious.csv"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("precious.csv is there already"), "{}", ran.err);
    assert_eq!(read("precious.csv"), "precious");
    let ran = with(&["nowhere/r.csv"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("nowhere/r.csv: nowhere is no directory"), "{}", ran.err);
    // The file that is read, under another name.
    std::os::unix::fs::symlink("rows.csv", dir.path().join("link.csv")).expect("a link");
    for name in ["./rows.csv", "link.csv"] {
        let ran = with(&[name, "--force"]);
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains("is the file to import"), "{}", ran.err);
    }
    assert_eq!(read("rows.csv"), "id,n\n1,10\nx,20\n");
    assert!(!dir.path().join("db").exists(), "something was done before");

    assert_eq!(with(&["precious.csv", "--force"]).code, 4);
    assert!(read("precious.csv").starts_with("line,reason,record\n3,"));
    write(dir.path(), "empty.csv", "");
    for name in ["empty.csv", "/dev/null", "new.csv"] {
        let ran = with(&[name]);
        assert_eq!((ran.code, ran.err.as_str()), (4, ""), "{name}");
    }
    assert_eq!(read("empty.csv"), read("precious.csv"));
    assert_eq!(read("new.csv"), read("precious.csv"));
}

#[test]
fn a_quote_that_is_not_closed_takes_no_rows_in_unseen() {
    let dir = tempfile::tempdir().expect("a directory");
    write(dir.path(), "open.csv", "id,x\n1,a\n2,\"b\n3,c\n");
    let ran = run(dir.path(), ["import", "db", "t", "open.csv", "--key", "id"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("1 row is written, and stays: line 3: a quote is not closed"), "{}", ran.err);
    let ran = run(dir.path(), ["import", "db", "t", "open.csv", "--rejects", "r.csv"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    let rejects = fs::read_to_string(dir.path().join("r.csv")).expect("a file");
    assert_eq!(rejects, "line,reason,record\n3,a quote is not closed,\"2,\"\"b\n3,c\n\"\"\"\n");
    write(dir.path(), "head.csv", "id,\"x\n1,a\n");
    let ran = run(dir.path(), ["import", "db", "t", "head.csv"]);
    assert!(ran.code == 2 && ran.err.contains("line 1: a quote is not closed"), "{}", ran.err);
    // However the file ends, its last record is there.
    for (name, text) in
        [("a", "id,x\n5,a"), ("b", "id,x\r\n5,\"a\"\r\n"), ("c", "id,x\n\n5,a\n\n\n"), ("d", "id,x\r5,a\r")]
    {
        write(dir.path(), "end.csv", text);
        done(dir.path(), ["import", "db", name, "end.csv", "--key", "id"]);
        assert_eq!(done(dir.path(), ["scan", "db", name, "--csv"]), "id,x\n5,a\n", "{text:?}");
    }
}

#[test]
fn a_file_without_columns_is_told_why() {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, text, why) in [
        ("empty.csv", "", "no column is found in empty.csv: it is empty"),
        ("empty.jsonl", "\n\n", "no column is found in empty.jsonl: it is empty"),
        ("list.json", "[{\"id\":1},{\"id\":2}]\n", "line 1: invalid type: sequence, expected an object"),
        ("pretty.json", "{\n  \"id\": 1\n}\n", "line 1: EOF while parsing an object"),
        ("head.csv", "id,\u{0}\n", "there is no column \"k\" in the file"),
        ("nameless.jsonl", "{\"\":1}\n", "line 1: a field has no name"),
    ] {
        write(dir.path(), name, text);
        let ran = run(dir.path(), ["import", "db", "t", name, "--key", "k"]);
        assert_eq!(ran.code, 2, "{name}");
        assert!(ran.err.contains(why), "{name}: {}", ran.err);
    }
    fs::write(dir.path().join("latin.csv"), b"id,gr\xf6\xdfe\n1,2\n").expect("a file");
    let ran = run(dir.path(), ["import", "db", "t", "latin.csv", "--key", "id"]);
    assert!(
        ran.code == 2 && ran.err.contains("the name of column 2 of the file is not UTF-8"),
        "{}",
        ran.err
    );
    assert!(!dir.path().join("db").exists(), "a database was made for nothing");
}

#[test]
fn of_a_record_that_is_none_no_column_is_learnt() {
    let dir = tempfile::tempdir().expect("a directory");
    let lines = "\u{feff}{\"id\":1}\n{\"id\":2,\"z\":1,\"z\":2}\n{\"id\":3,\"\":1}\n";
    write(dir.path(), "rows.jsonl", lines);
    let ran =
        run(dir.path(), ["import", "db", "t", "rows.jsonl", "--key", "id", "--rejects", "r.csv", "--json"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.out.contains("\"columns\":[{\"column\":\"id\",\"type\":\"i64\",\"key\":1}]"), "{}", ran.out);
    let rejects = fs::read_to_string(dir.path().join("r.csv")).expect("a file");
    assert!(rejects.contains("2,\"\"\"z\"\" is there twice\""), "{rejects}");
    assert!(rejects.contains("3,a field has no name,"), "{rejects}");
    let twice = ["import", "db", "u", "rows.jsonl", "--key", "id", "--type", "id=u8", "--type", "id=u16"];
    let ran = run(dir.path(), twice);
    assert!(ran.code == 2 && ran.err.contains("--type is given twice for column id"), "{}", ran.err);
}

#[test]
fn gzip_that_is_cut_short_is_told_and_what_came_before_it_stays() {
    let dir = tempfile::tempdir().expect("a directory");
    let whole = fs::read(flights()).expect("the file");
    fs::write(dir.path().join("cut.csv.gz"), &whole[..whole.len() / 2]).expect("a file");
    let key = "year,month,day,carrier,flight,origin";
    let import = ["import", "db", "t", "cut.csv.gz", "--key", key, "--null", "NA"];
    let ran = run(dir.path(), import);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("the gzip data is cut short or damaged (incomplete deflate stream)"),
        "{}",
        ran.err
    );
    assert!(!dir.path().join("db").exists(), "the types of half a file are none");
    let file = flights();
    done(
        dir.path(),
        ["import", "db", "t", file.to_str().expect("a plain name"), "--key", key, "--null", "NA"],
    );
    let ran = run(dir.path(), import);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains(" rows are written, and stay: after line "), "{}", ran.err);
    assert_eq!(count(dir.path(), "db", "t"), 3601);
}

#[test]
fn what_is_set_aside_keeps_its_delimiter() {
    let dir = tempfile::tempdir().expect("a directory");
    write(dir.path(), "t.tsv", "id\tx\n1\ta,b\n2\t\"c\td\"\te\n");
    let import = ["import", "db", "t", "t.tsv", "--key", "id", "--delimiter", "tab", "--rejects", "r.csv"];
    assert_eq!(run(dir.path(), import).code, 4);
    assert_eq!(done(dir.path(), ["scan", "db", "t", "--csv"]), "id,x\n1,\"a,b\"\n");
    let rejects = fs::read_to_string(dir.path().join("r.csv")).expect("a file");
    assert_eq!(rejects, "line,reason,record\n3,\"2 fields expected, 3 found\",\"2\t\"\"c\td\"\"\te\"\n");
    write(dir.path(), "bad.tsv", "id\tx\ty\nz\ta\tb\n");
    let ran = run(dir.path(), ["import", "db", "t", "bad.tsv", "--delimiter", "tab"]);
    assert!(ran.code == 2 && ran.err.contains("the table has no column \"y\""), "{}", ran.err);
    write(dir.path(), "bad.tsv", "id\tx\nz\ta\n");
    let ran = run(dir.path(), ["import", "db", "t", "bad.tsv", "--delimiter", "tab"]);
    assert!(ran.err.contains("nothing is written: line 2: column id: \"z\" is no i64"), "{}", ran.err);
}

#[test]
fn types_that_do_not_hold_for_the_rest_of_standard_input_are_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let rows = (0..600_000).map(|id| format!("{id},7\n")).collect::<String>();
    write(dir.path(), "rows.csv", &format!("id,n\n{rows}600000,x\n"));
    let import = |arguments: &[&str]| {
        let file = fs::File::open(dir.path().join("rows.csv")).expect("the file");
        // Through a pipe: what is a file could be read twice.
        let mut child = command(dir.path(), arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command runs");
        let mut pipe = child.stdin.take().expect("a pipe");
        let writer = std::thread::spawn(move || std::io::copy(&mut &file, &mut pipe));
        let output = child.wait_with_output().expect("it ends");
        writer.join().expect("it writes").expect("it is read");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    let (code, said) = import(&["import", "db", "t", "-", "--key", "id"]);
    assert_eq!(code, Some(1));
    assert!(
        said.contains("600000 rows are written, and stay: line 600002: column n: \"x\" is no i64"),
        "{said}"
    );
    assert!(said.contains("found out from the first 4 MiB"), "{said}");
    let (code, said) = import(&["import", "db", "u", "-", "--key", "id", "--type", "n=string"]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
}
