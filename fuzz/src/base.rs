//! Directories that an engine wrote, as the starting points of inputs. Made by the engine as it is, always in the same
//! way, so that they are real whatever becomes of the formats.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use nyala::{
    Compression, Date, Decimal, Durability, Engine, Options, RuntimeMode, Schema, Table, Timestamp, Type,
    fuzzing,
};

use crate::disk::Disk;

/// Where each of them lies.
pub const DIR: &str = "/db";

/// The files of a directory, by name. Without `LOCK`.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A directory, and what was true of it at any time.
#[derive(Debug)]
pub struct Base {
    /// Its files.
    pub files: Files,
    /// For each table all rows that it ever had, as they are shown.
    pub history: BTreeMap<String, BTreeSet<String>>,
}

/// A small engine on `disk`, without threads.
#[must_use]
pub fn options(disk: &Disk) -> Options {
    Options {
        memory_bytes: 1 << 20,
        memtable_bytes: Some(2048),
        log_bytes_max: 64 << 10,
        log_segment_bytes: 4096,
        index_block_bytes: 128,
        row_block_bytes: 256,
        index_file_bytes: 1024,
        rowset_bytes: 2048,
        compression: Compression::Lz4,
        background_threads: 1,
        runtime: RuntimeMode::Inline { seed: 7 },
        fs: Arc::new(disk.clone()),
        ..Options::default()
    }
}

/// All of them.
pub fn all() -> &'static [Base] {
    static ALL: OnceLock<Vec<Base>> = OnceLock::new();
    ALL.get_or_init(|| {
        vec![
            closed(),
            killed_in_the_middle(),
            of_many_types(),
            without_tables(),
            not_begun(),
            several_segments(),
            altered(),
        ]
    })
}

/// The files of a directory on a disk.
#[must_use]
pub fn files(disk: &Disk) -> Files {
    let name = |path: PathBuf| path.strip_prefix(DIR).ok()?.to_str().map(str::to_owned);
    let named = disk.files().into_iter().filter_map(|(path, bytes)| Some((name(path)?, bytes)));
    named.filter(|(name, _)| name != "LOCK").collect()
}

/// A disk with these files in the directory.
#[must_use]
pub fn disk(files: &Files) -> Disk {
    Disk::with(files.iter().map(|(name, bytes)| (Path::new(DIR).join(name), bytes.clone())))
}

/// An engine whose every state is noted.
struct Maker {
    disk: Disk,
    engine: Engine,
    history: BTreeMap<String, BTreeSet<String>>,
}

impl Maker {
    fn new() -> Maker {
        Maker::with(|options| options)
    }

    fn with(change: impl FnOnce(Options) -> Options) -> Maker {
        let disk = Disk::new();
        let engine = Engine::open(DIR, change(options(&disk))).expect("a good disk");
        Maker { disk, engine, history: BTreeMap::new() }
    }

    fn table(&self, name: &str, schema: Schema) -> Table {
        self.engine.create_table(name, schema).expect("a new name")
    }

    /// Notes what is there. To be called before a key is written again.
    fn note(&mut self) {
        for name in self.engine.tables() {
            let table = self.engine.existing_table(&name).expect("it is listed");
            let noted = self.history.entry(name).or_default();
            for row in table.scan().rows().expect("a good disk") {
                noted.insert(format!("{:?}", row.expect("a good disk")));
            }
        }
    }

    /// The directory as it is now, as if the process were killed.
    fn kill(mut self) -> Base {
        self.note();
        Base { files: files(&self.disk), history: self.history }
    }

    fn close(mut self) -> Base {
        self.note();
        self.engine.close().expect("a good disk");
        Base { files: files(&self.disk), history: self.history }
    }
}

fn people() -> Schema {
    Schema::builder()
        .key("city", Type::String)
        .key("number", Type::U32)
        .column("name", Type::String)
        .column("note", Type::Binary.nullable())
        .build()
        .expect("a legal schema")
}

fn fill(table: &Table, numbers: std::ops::Range<u32>, round: u32) {
    for number in numbers {
        let city = ["Aalen", "Bonn", "Celle", "Döbeln"][number as usize % 4];
        let note = number.is_multiple_of(3).then(|| [round.to_le_bytes(), number.to_be_bytes()].concat());
        table
            .upsert((city, number, format!("name {number} of round {round}"), note.as_deref()))
            .expect("a good disk");
    }
}

/// One table, flushed and closed.
fn closed() -> Base {
    let mut maker = Maker::new();
    let table = maker.table("people", people());
    fill(&table, 0..24, 0);
    maker.note();
    table.delete(("Bonn", 5)).expect("a good disk");
    maker.close()
}

/// Two tables with several runs, some compacted, and a log that holds what no run has.
fn killed_in_the_middle() -> Base {
    let mut maker = Maker::new();
    let table = maker.table("people", people());
    let plain = Schema::builder().key("key", Type::Binary).column("value", Type::Binary).build();
    let pairs = maker.table("pairs", plain.expect("a legal schema"));
    for round in 0..3 {
        fill(&table, 7 * round..7 * round + 20, round);
        for pair in 0..10u32 {
            pairs.upsert((pair.to_be_bytes().as_slice(), [0u8; 30].as_slice())).expect("a good disk");
        }
        maker.note();
        maker.engine.flush().expect("a good disk");
        if round == 1 {
            table.compact().expect("a good disk");
        }
    }
    let mut batch = maker.engine.batch();
    batch.upsert(&table, ("Celle", 2, "in the log", Some(b"x".as_slice()))).expect("it fits");
    batch.delete(&pairs, 3u32.to_be_bytes().as_slice()).expect("it fits");
    batch.commit(Durability::Sync).expect("a good disk");
    pairs.upsert((b"last".as_slice(), b"".as_slice())).expect("a good disk");
    maker.kill()
}

/// A table with a column of many types, half of it in the log.
fn of_many_types() -> Base {
    let maker = Maker::new();
    let schema = Schema::builder()
        .key("flag", Type::Bool)
        .key("text", Type::String.descending())
        .key("when", Type::Timestamp)
        .column("i8", Type::I8)
        .column("u64", Type::U64.nullable())
        .column("f64", Type::F64)
        .column("decimal", Type::Decimal { precision: 20, scale: 4 }.nullable())
        .column("date", Type::Date)
        .column("text 1", Type::String.nullable())
        .column("text 2", Type::String)
        .build();
    let table = maker.table("types", schema.expect("a legal schema"));
    for number in 0..16u8 {
        let text = (number % 2 == 0).then(|| "t".repeat(number.into()));
        let decimal = (number % 5 == 0).then_some(Decimal { unscaled: i128::from(number) << 50, scale: 4 });
        table
            .upsert((
                number % 2 == 0,
                format!("a\0{number}"),
                Timestamp::from_micros(i64::from(number) * 1_000_000),
                i8::try_from(number).expect("small"),
                (number % 3 == 0).then_some(u64::from(number)),
                f64::from(number) / 2.0,
                decimal,
                Date::from_days(number.into()),
                text,
                "same",
            ))
            .expect("a good disk");
        if number == 8 {
            table.flush().expect("a good disk");
        }
    }
    maker.kill()
}

/// A table whose columns came and went: rows of three schema versions, in files and in the log.
fn altered() -> Base {
    let mut maker = Maker::new();
    let table = maker.table("people", people());
    fill(&table, 0..6, 1);
    table.flush().expect("a good disk");
    maker.note();
    let table = table.alter().add_column("unit", Type::String, "none").apply().expect("a new name");
    maker.note();
    table.upsert(("Aalen", 20, "name", None::<&[u8]>, "metre")).expect("it fits");
    table.upsert(("Bonn", 21, "name", Some(b"note".as_slice()), "foot")).expect("it fits");
    table.flush().expect("a good disk");
    maker.note();
    let alter = table.alter().drop_column("note").rename_column("unit", "measure");
    let table = alter.add_column("size", Type::I16.nullable(), 5).apply().expect("they are there");
    maker.note();
    table.upsert(("Celle", 22, "name", "yard", None::<i16>)).expect("it fits");
    table.update(("Celle", 2)).set("size", 6).apply().expect("it is there");
    maker.kill()
}

/// The schema of a table that was altered, as bytes of the manifest.
#[must_use]
pub fn altered_schema() -> Vec<u8> {
    let engine = Engine::open(DIR, options(&Disk::new())).expect("an empty disk");
    let table = engine.create_table("people", people()).expect("a new name");
    let alter = table.alter().add_column("unit", Type::String, "none").drop_column("note");
    let altered = alter.add_column("size", Type::I16.nullable(), 5).apply().expect("they are there");
    fuzzing::encode_schema(altered.schema())
}

/// A database without tables.
fn without_tables() -> Base {
    Maker::new().kill()
}

/// A database whose making was interrupted before `CURRENT`.
fn not_begun() -> Base {
    let mut base = without_tables();
    base.files.remove("CURRENT");
    base
}

/// Much in the log, over several segments, and a table that was dropped.
fn several_segments() -> Base {
    let mut maker = Maker::with(|options| Options { memtable_bytes: Some(32 << 10), ..options });
    let table = maker.table("people", people());
    let gone = maker.table("gone", people());
    fill(&gone, 0..3, 9);
    for round in 0..4 {
        fill(&table, 0..30, round);
        maker.note();
    }
    maker.engine.drop_table("gone").expect("a good disk");
    maker.kill()
}
