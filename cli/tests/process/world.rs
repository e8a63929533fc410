//! Directories to run the command on.

use std::fs;
use std::path::{Path, PathBuf};

use nyala::{Date, Decimal, Engine, Options, Schema, Timestamp, Type};

/// The states of a directory that every subcommand meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// An empty directory.
    Nothing,
    /// A database without tables.
    Empty,
    /// Two tables, one of them of every type.
    Normal,
    /// The same with a byte changed in the middle of each index file.
    Damaged,
    /// The same, open for writing in another process, with rows that are in the log alone.
    Locked,
}

impl State {
    pub(crate) const ALL: [State; 5] =
        [State::Nothing, State::Empty, State::Normal, State::Damaged, State::Locked];

    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Nothing => "nothing",
            State::Empty => "empty",
            State::Normal => "normal",
            State::Damaged => "damaged",
            State::Locked => "locked",
        }
    }
}

/// A database in `dir/db`, and who else has it open.
pub(crate) fn make(dir: &Path, state: State) -> Option<Engine> {
    let db = dir.join("db");
    if state == State::Nothing {
        fs::create_dir(&db).expect("a directory");
        return None;
    }
    let engine = Engine::open(&db, Options::default()).expect("a new database");
    if state == State::Empty {
        engine.close().expect("it closes");
        return None;
    }
    every_type(&engine);
    let counts = engine
        .create_table(
            "counts",
            Schema::builder().key("id", Type::U32).column("n", Type::I64).build().expect("a schema"),
        )
        .expect("a table");
    for id in 0..20u32 {
        counts.upsert((id, i64::from(id) * 1000)).expect("a row");
    }
    engine.close().expect("it closes");
    match state {
        State::Damaged => {
            files(&db, "idx").iter().for_each(|file| flip(file));
            None
        }
        State::Locked => {
            let engine = Engine::open(&db, Options::default()).expect("it opens again");
            let counts = engine.existing_table("counts").expect("the table");
            counts.upsert((20u32, 20_000)).expect("a row");
            Some(engine)
        }
        _ => None,
    }
}

/// A table with a column of each type; its key has a string and a column that descends.
fn every_type(engine: &Engine) {
    let schema = Schema::builder()
        .key("name", Type::String)
        .key("id", Type::I32.descending())
        .column("bool", Type::Bool.nullable())
        .column("i8", Type::I8.nullable())
        .column("u64", Type::U64.nullable())
        .column("f32", Type::F32.nullable())
        .column("f64", Type::F64.nullable())
        .column("price", Type::Decimal { precision: 9, scale: 2 }.nullable())
        .column("day", Type::Date.nullable())
        .column("time", Type::Timestamp.nullable())
        .column("text", Type::String.nullable())
        .column("blob", Type::Binary.nullable())
        .build()
        .expect("a schema");
    let table = engine.create_table("things", schema).expect("a table");
    let time = Timestamp::from_micros(1_594_298_096_123_456);
    table
        .upsert((
            "ant",
            1,
            true,
            -128i8,
            u64::MAX,
            0.1f32,
            1e300,
            Decimal::new(-12_345, 2),
            Date::from_days(18_452),
            time,
            "two\nlines, \"quoted\"",
            &[0u8, 255, 16],
        ))
        .expect("a row");
    table
        .upsert((
            "ant",
            -7,
            false,
            0i8,
            0u64,
            -0.0f32,
            f64::NAN,
            Decimal::new(0, 2),
            Date::from_days(-1),
            Timestamp::from_micros(-1),
            "Müller 東京",
            &[0u8; 0],
        ))
        .expect("a row");
    let null = None::<bool>;
    table
        .upsert((
            "bee",
            0,
            null,
            None::<i8>,
            None::<u64>,
            None::<f32>,
            None::<f64>,
            None::<Decimal>,
            None::<Date>,
            None::<Timestamp>,
            None::<&str>,
            None::<&[u8]>,
        ))
        .expect("a row");
}

/// The files of a database with this extension, the oldest first.
pub(crate) fn files(db: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(db)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    files
}

/// Changes a byte near the beginning, where the first block lies.
pub(crate) fn flip(file: &Path) {
    let mut bytes = fs::read(file).expect("a file");
    let at = 80.min(bytes.len() / 2);
    bytes[at] ^= 0x20;
    fs::write(file, bytes).expect("a file");
}

/// Every file below a directory with its bytes.
pub(crate) fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let bytes = if path.is_dir() { Vec::new() } else { fs::read(&path).expect("a file") };
        found.push((path, bytes));
    }
    found.sort();
    found
}

/// The sample of flights that ships with the examples.
pub(crate) fn flights() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/flights/data/flights.csv.gz")
}
