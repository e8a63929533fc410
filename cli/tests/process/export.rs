//! What is exported is imported as the same rows, of every type, in every form.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::nyala::{command, done, run};
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
    assert_eq!(names(dir.path()), ["db", "t.jsonl"]);
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

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"))
        .collect();
    names.sort();
    names
}

#[test]
fn no_file_is_touched_that_the_export_did_not_make() {
    let dir = tempfile::tempdir().expect("a directory");
    make(dir.path(), State::Normal);
    for file in ["counts.csv", "counts.jsonl", "counts.csv.gz"] {
        let other = format!("{file}.unfinished");
        fs::write(dir.path().join(&other), "precious").expect("a file");
        done(dir.path(), ["export", "db", "counts", file]);
        assert_eq!(fs::read_to_string(dir.path().join(&other)).expect("the file"), "precious");
    }
    assert_eq!(names(dir.path()).len(), 7);
    fs::create_dir(dir.path().join("folder")).expect("a directory");
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    for name in ["folder", "pipe", "/dev/null"] {
        let ran = run(dir.path(), ["export", "db", "counts", name, "--force"]);
        assert_eq!(ran.code, 1);
        assert!(ran.err.contains(&format!("{name} is there, and is no file")), "{}", ran.err);
    }
    let ran = run(dir.path(), ["export", "db", "counts", "nowhere/t.csv"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("nowhere/t.csv: No such file"), "{}", ran.err);
    assert_eq!(names(dir.path()).len(), 9);
}

#[test]
fn a_file_has_a_name_as_long_as_can_be_and_the_usual_permissions() {
    let dir = tempfile::tempdir().expect("a directory");
    make(dir.path(), State::Normal);
    let name = format!("{}.csv", "n".repeat(251));
    done(dir.path(), ["export", "db", "counts", &name]);
    let mode = |name: &str| fs::metadata(dir.path().join(name)).expect("the file").permissions().mode();
    fs::write(dir.path().join("usual"), "").expect("a file");
    assert_eq!(mode(&name), mode("usual"));
}

#[test]
fn an_interrupted_export_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    make(dir.path(), State::Empty);
    let rows = (0..300_000).map(|id| format!("{id},row\n")).collect::<String>();
    fs::write(dir.path().join("rows.csv"), format!("id,x\n{rows}")).expect("a file");
    done(dir.path(), ["import", "db", "t", "rows.csv", "--key", "id"]);
    let before = names(dir.path());
    let child = command(dir.path(), ["export", "db", "t", "t.jsonl.gz", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    let begun = Instant::now();
    while !names(dir.path()).iter().any(|name| name.ends_with(".unfinished")) {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is written");
    }
    assert!(
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs").success()
    );
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert_eq!(
        said,
        "{\"error\":{\"exit_code\":130,\"message\":\"interrupted; the file is not written\",\"help\":null}}\n"
    );
    assert_eq!(names(dir.path()), before);
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
