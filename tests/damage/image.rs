//! Makes the database that is damaged: small, the same for the same seed, and with one of everything.
//!
//! It is caught in the middle of its life, as a kill leaves it: several runs of index files and their rowsets, some
//! compacted, with overwritten and deleted keys and the old versions that a snapshot held; a manifest of many edits; a
//! log of several segments with batches that were never flushed, the first of them attested, the last of them only
//! buffered. Each commit of its life is remembered, and so are some earlier moments of the directory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use nyala::vfs::sim::PowerCut;
use nyala::vfs::{Fs, SimFs};
use nyala::{Durability, Engine, Options, RuntimeMode, Table, Type, Version};

use crate::random::Random;
use crate::rows::{self, BYTES, EVERYTHING, KEYS, TABLES, TEXTS, Values};

pub(crate) const DIR: &str = "/db";

/// The files of a directory, by name.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// All rows at one moment: for each table, by the number of their keys.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) tables: [Vec<Option<Arc<Values>>>; TABLES.len()],
}

/// The rows after one commit.
#[derive(Debug)]
pub(crate) struct Moment {
    /// The last version of the commit.
    pub(crate) version: Version,
    pub(crate) state: State,
}

/// The directory as it was once.
#[derive(Debug)]
pub(crate) struct Earlier {
    pub(crate) when: &'static str,
    pub(crate) files: Files,
}

/// The database, and all that is known of it.
pub(crate) struct Image {
    pub(crate) disk: SimFs,
    pub(crate) files: Files,
    pub(crate) options: Options,
    /// All commits, the first first; the last is what must be read.
    pub(crate) history: Vec<Moment>,
    /// The moment of the last flush: all later commits are in the log alone.
    pub(crate) flushed: usize,
    pub(crate) earlier: Vec<Earlier>,
    /// All keys of each table, those that were never written included.
    pub(crate) keys: [Vec<Values>; TABLES.len()],
}

/// Options that make many small files and blocks, and leave background work to the calls.
pub(crate) fn options(disk: &SimFs, scale: u32) -> Options {
    let scale = u64::from(scale);
    Options {
        fs: Arc::new(disk.clone()),
        runtime: RuntimeMode::Inline { seed: 7 },
        memory_bytes: (512 << 10) * scale as usize,
        memtable_bytes: Some((128 << 10) * scale as usize),
        background_sync_interval: None,
        log_segment_bytes: 4096 * scale.min(4),
        log_bytes_max: (1 << 20) * scale,
        index_block_bytes: 512,
        row_block_bytes: 1024,
        index_file_bytes: 2048 * scale,
        rowset_bytes: (12 << 10) * scale,
        ..Options::default()
    }
}

/// Reads a whole directory.
pub(crate) fn files_of(disk: &SimFs) -> Files {
    let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).expect("our names").to_owned();
    let read = |path: &Path| disk.read(path, 1 << 30).expect("a good disk");
    disk.paths().iter().map(|path| (name(path), read(path))).collect()
}

struct Life {
    disk: SimFs,
    engine: Engine,
    tables: Vec<Table>,
    scale: u32,
    random: Random,
    history: Vec<Moment>,
    earlier: Vec<Earlier>,
}

impl Image {
    /// A database of 64 KiB times `scale`, or somewhat more.
    pub(crate) fn make(seed: u64, scale: u32) -> Image {
        let mut life = Life::begin(seed, scale);
        let flushed = life.live();
        life.end(flushed)
    }

    /// A database whose runs are twins: the same keys in the same places of each file, with other versions. Whoever
    /// takes a block of one for that of another gives old rows.
    pub(crate) fn twins(seed: u64) -> Image {
        let mut life = Life::begin(seed, 1);
        // From the second on, all versions take two bytes, so that blocks have equal lengths.
        for _ in 0..3 {
            life.write_all(0, 1);
            life.flush();
        }
        let flushed = life.history.len() - 1;
        life.end(flushed)
    }

    pub(crate) fn state(&self) -> &State {
        &self.history.last().expect("there was a first").state
    }

    /// The moment at which everything up to `version` was there and nothing after it.
    pub(crate) fn moment_of(&self, version: Version) -> usize {
        self.history.iter().position(|moment| moment.version >= version).expect("a version of this life")
    }
}

impl Life {
    /// Makes the tables.
    fn begin(seed: u64, scale: u32) -> Life {
        let disk = SimFs::new(seed);
        let engine = Engine::open(DIR, options(&disk, scale)).expect("a new directory");
        let tables = (0..TABLES.len())
            .map(|table| engine.create_table(TABLES[table], rows::schema(table)).expect("a new table"))
            .collect();
        let state = State { tables: std::array::from_fn(|table| vec![None; keys_of(table, scale) as usize]) };
        let version = engine.snapshot().version();
        Life {
            disk,
            engine,
            tables,
            scale,
            random: Random::of(&[seed, u64::from(scale)]),
            history: vec![Moment { version, state }],
            earlier: Vec::new(),
        }
    }
}

/// How many keys a table has at most.
fn keys_of(table: usize, scale: u32) -> u32 {
    let keys = match table {
        BYTES => 44,
        EVERYTHING => 36,
        KEYS => 24,
        TEXTS => 36,
        _ => panic!("there is no table {table}"),
    };
    keys * scale
}

impl Life {
    /// A column comes and goes: rows from before have another schema version than those that follow, and the schema
    /// remembers the column.
    fn alter(&mut self, table: usize) {
        let passing = self.tables[table].alter().add_column("passing", Type::String, "a default");
        let altered = passing.apply().and_then(|table| table.alter().drop_column("passing").apply());
        self.tables[table] = altered.expect("a good disk");
    }

    /// One life; gives the moment of the last flush.
    fn live(&mut self) -> usize {
        // What was dropped must stay dropped, and its files are gone.
        let gone = self.engine.create_table("gone", rows::schema(TEXTS)).expect("a new table");
        gone.upsert(("never", "seen")).expect("a row");
        for number in 0..3 {
            self.write_all(number, 3);
        }
        self.flush();
        self.remember("after the first flush");
        self.alter(TEXTS);
        self.engine.drop_table("gone").expect("it is there");
        self.touch(4, Durability::Buffered);
        // Each of these keys has two versions in one memtable, and the snapshot keeps both.
        self.write_all(1, 5);
        let snapshot = self.engine.snapshot();
        self.write_all(1, 5);
        self.touch(8, Durability::Sync);
        self.flush();
        self.remember("after the second flush");
        self.tables[TEXTS].compact().expect("a good disk");
        self.tables[EVERYTHING].compact().expect("a good disk");
        self.remember("after compactions");
        drop(snapshot);
        self.touch(6, Durability::Buffered);
        self.flush();
        self.remember("after the last flush");
        let flushed = self.history.len() - 1;
        for _ in 0..4 {
            self.touch(2, Durability::Buffered);
            self.touch(1, Durability::Sync);
        }
        self.remember("before the end");
        self.touch(1, Durability::Sync);
        self.touch(4, Durability::Buffered);
        flushed
    }

    fn end(self, flushed: usize) -> Image {
        // As a kill leaves it; all of it durable, so that copies are small.
        let disk = self.disk.power_cut(&PowerCut::keep_all());
        self.disk.halt_at(0);
        let files = files_of(&disk);
        let options = options(&disk, self.scale);
        let keys = std::array::from_fn(|table| {
            (0..keys_of(table, self.scale)).map(|number| rows::key(table, number)).collect()
        });
        Image { disk, files, options, history: self.history, flushed, earlier: self.earlier, keys }
    }

    fn remember(&mut self, when: &'static str) {
        let disk = self.disk.fork();
        self.earlier.push(Earlier { when, files: files_of(&disk) });
    }

    fn flush(&mut self) {
        self.engine.flush().expect("a good disk");
    }

    /// Writes every key whose number has this rest.
    fn write_all(&mut self, rest: u32, modulus: u32) {
        for table in 0..TABLES.len() {
            let numbers: Vec<u32> =
                (0..keys_of(table, self.scale)).filter(|number| number % modulus == rest).collect();
            for part in numbers.chunks(10) {
                let operations: Vec<_> = part.iter().map(|number| (table, *number, false)).collect();
                self.commit(&operations, Durability::Buffered);
            }
        }
    }

    /// Commits batches that overwrite and delete here and there.
    fn touch(&mut self, batches: u32, durability: Durability) {
        for _ in 0..batches * self.scale {
            let count = 1 + self.random.number(9);
            let operations: Vec<_> = (0..count)
                .map(|_| {
                    let table = self.random.number(TABLES.len() as u64) as usize;
                    let number = self.random.number(u64::from(keys_of(table, self.scale))) as u32;
                    (table, number, self.random.number(4) == 0)
                })
                .collect();
            self.commit(&operations, durability);
        }
    }

    fn commit(&mut self, operations: &[(usize, u32, bool)], durability: Durability) {
        let mut state = self.history.last().expect("there was a first").state.clone();
        let mut batch = self.engine.batch();
        for &(table, number, is_delete) in operations {
            let slot = &mut state.tables[table][number as usize];
            if is_delete {
                let key = rows::key(table, number);
                batch.delete(&self.tables[table], rows::values(&key)).expect("a good key");
                *slot = None;
            } else {
                let row = rows::row(table, number, &mut self.random);
                batch.upsert(&self.tables[table], rows::values(&row)).expect("a good row");
                *slot = Some(Arc::new(row));
            }
        }
        batch.commit(durability).expect("a good disk");
        self.history.push(Moment { version: self.engine.snapshot().version(), state });
    }
}

/// The image of the default size has everything that it is said to have.
#[test]
fn the_image_has_one_of_everything() {
    let seed = crate::run::seed();
    let image = Image::make(seed, 1);
    let again = Image::make(seed, 1);
    assert!(image.files == again.files, "equal seeds make equal files");
    for (name, bytes) in &image.files {
        println!("{:>7} {name}", bytes.len());
    }
    let map = crate::map::Map::of(&image);
    let of = |kind: &str, region: &str| map.bytes_of(kind, region);
    let written = image.files.values().map(Vec::len).sum::<usize>() - map.unused();
    assert!(written >= 64 << 10, "{written} bytes");
    let count = |kind: &str| image.files.keys().filter(|name| name.ends_with(kind)).count();
    assert!(count(".idx") >= 8 && count(".row") >= 8 && count(".wal") >= 3, "{:?}", image.files.keys());
    for (kind, region) in [
        ("row", "data block, lz4"),
        ("row", "data block, raw"),
        ("idx", "data block, lz4"),
        ("idx", "data block, raw"),
        ("idx", "filter"),
        ("manifest", "record body"),
    ] {
        assert!(of(kind, region) > 0, "{kind}: {region}");
    }
    assert!(map.several_versions > 5, "{} keys have several versions in one file", map.several_versions);
    assert!(map.deletions > 0, "{} deletions", map.deletions);
    let disk = image.disk.fork();
    let engine = Engine::open(DIR, options(&disk, 1)).expect("it is whole");
    let stats = engine.stats();
    assert!(stats.tables.iter().all(|table| table.index_runs >= 2), "{stats:?}");
    assert!(engine.recovery_report().replayed_operations > 20, "{:?}", engine.recovery_report());
    assert!(image.history.len() - image.flushed > 12);
}
