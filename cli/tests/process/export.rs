//! What is exported is imported as the same rows, of every type, in every form.

use std::fs;

use crate::nyala::{done, run};
use crate::world::{State, make};

const TYPES: &[&str] = &[
    "id=i32:desc",
    "bool=bool?",
    "i8=i8?",
    "u64=u64?",
    "f32=f32?",
    "f64=f64?",
    "price=decimal(9,2)?",
    "day=date?",
    "time=timestamp?",
    "text=string?",
    "blob=binary?",
];

#[test]
fn every_type_goes_out_and_comes_back_unchanged() {
    for (file, more) in [
        ("things.csv", &["--null", "\\N"][..]),
        ("things.csv.gz", &["--null", "\\N", "--binary", "base64"]),
        ("things.jsonl", &[]),
        ("things.ndjson.gz", &["--binary", "base64"]),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        make(dir.path(), State::Normal);
        done(dir.path(), ["export", "db", "things", file].iter().chain(more));
        let bytes = fs::read(dir.path().join(file)).expect("the file");
        assert_eq!(bytes.starts_with(&[0x1f, 0x8b]), file.ends_with(".gz"), "{file}");
        let mut import = vec!["import", "db", "again", file, "--key", "name,id"];
        import.extend(TYPES.iter().flat_map(|ty| ["--type", ty]));
        if file.contains("csv") {
            import.extend(["--null", "\\N"]);
        }
        done(dir.path(), &import);
        let rows = |table| done(dir.path(), ["scan", "db", table, "--json"]);
        assert_eq!(rows("again"), rows("things"), "{file}");
        assert_eq!(rows("again").lines().count(), 3);
    }
}

#[test]
fn nothing_is_exported_that_would_be_read_as_a_null() {
    let dir = tempfile::tempdir().expect("a directory");
    make(dir.path(), State::Normal);
    fs::write(dir.path().join("t.jsonl"), "{\"id\":1,\"x\":\"\"}\n").expect("a file");
    done(dir.path(), ["import", "db", "t", "t.jsonl", "--key", "id"]);
    let ran = run(dir.path(), ["export", "db", "t", "t.csv"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("the text of column x is \"\", which stands for a null"), "{}", ran.err);
    assert!(!dir.path().join("t.csv").exists() && !dir.path().join("t.csv.unfinished").exists());
    done(dir.path(), ["export", "db", "t", "t.csv", "--null", "NULL"]);
    assert_eq!(fs::read_to_string(dir.path().join("t.csv")).expect("the file"), "id,x\n1,\n");
}

#[test]
fn a_file_that_is_there_is_not_replaced_unasked() {
    let dir = tempfile::tempdir().expect("a directory");
    make(dir.path(), State::Normal);
    fs::write(dir.path().join("counts.csv"), "precious").expect("a file");
    let ran = run(dir.path(), ["export", "db", "counts", "counts.csv"]);
    assert_eq!(ran.code, 1);
    assert_eq!(fs::read_to_string(dir.path().join("counts.csv")).expect("the file"), "precious");
    done(dir.path(), ["export", "db", "counts", "counts.csv", "--force", "--limit", "1"]);
    assert_eq!(fs::read_to_string(dir.path().join("counts.csv")).expect("the file"), "id,n\n0,0\n");
}

#[test]
fn a_packed_file_is_small() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = crate::world::flights();
    let file = file.to_str().expect("a plain name");
    let key = "year,month,day,carrier,flight,origin";
    done(dir.path(), ["import", "db", "flights", file, "--key", key, "--null", "NA"]);
    for name in ["flights.csv", "flights.jsonl"] {
        let packed = format!("{name}.gz");
        done(dir.path(), ["export", "db", "flights", name]);
        done(dir.path(), ["export", "db", "flights", &packed]);
        let bytes = |name: &str| fs::metadata(dir.path().join(name)).expect("the file").len();
        // Packed row by row it would be hardly smaller.
        let (plain, packed) = (bytes(name), bytes(&packed));
        assert!(packed * 3 < plain, "{name}: {packed} bytes of {plain}");
    }
}
