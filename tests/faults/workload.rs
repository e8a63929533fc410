//! Workloads: lists of steps that follow from a seed, and the options that they run with.
//!
//! The base workloads together do everything that an engine does to a disk, with thresholds so small that a hundred
//! rows make every structure. None knows whether a call will fail.

use nyala::{Compression, Durability, Options, RuntimeMode};

use crate::model::{Op, Row, Verb};
use crate::random::Random;

/// What a program does to an engine, one call after the other.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// One verb of a table's handle.
    Write(Op),
    Batch(Vec<Op>, Durability),
    Sync,
    /// Of one table, or of all.
    Flush(Option<String>),
    Compact(String),
    /// Makes a table; a wide one's schema takes some kilobytes of the manifest.
    Create(String, Width),
    /// A column comes, or goes again.
    Alter(String),
    Drop(String),
    /// Compares a row by every kind of point read.
    Get(String, u32),
    /// Compares all tables.
    ReadAll,
    Snapshot,
    /// Compares all snapshots with what they saw when they were taken.
    ReadSnapshots,
    ForgetSnapshots,
    /// Starts a scan that later steps go on with.
    StartScan(String, Direction),
    /// So many rows of each open scan.
    ContinueScans(usize),
    Check,
    /// Makes a checkpoint in a new directory, and compares it.
    Checkpoint,
    /// Closes the engine and opens it again.
    Close,
    /// Drops every handle and opens it again.
    LetGo,
    /// The process dies without a word; opens again.
    Kill,
    /// The power goes; opens again.
    PowerCut,
    /// Leaves so much space on the disk. Once it has run out, space is made.
    Limit(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Plain,
    Wide,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Reverse,
}

/// Steps and options.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// The option set, for the long runs.
    pub(crate) set: &'static str,
    pub(crate) seed: u64,
    pub(crate) options: Options,
    pub(crate) steps: Vec<Step>,
}

/// Puts steps together.
struct Script {
    random: Random,
    steps: Vec<Step>,
    tables: Vec<String>,
    number: i64,
    /// Rows have texts of up to so many bytes.
    text_max: usize,
    /// Keys lie below this.
    ids: usize,
}

impl Script {
    fn new(seed: u64, stream: u64) -> Script {
        Script {
            random: Random::stream(seed, stream),
            steps: Vec::new(),
            tables: Vec::new(),
            number: 0,
            text_max: 120,
            ids: 40,
        }
    }

    fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    fn create(&mut self, name: &str) {
        self.tables.push(name.to_owned());
        self.push(Step::Create(name.to_owned(), Width::Plain));
    }

    fn drop_table(&mut self, name: &str) {
        self.tables.retain(|table| table != name);
        self.push(Step::Drop(name.to_owned()));
    }

    fn table(&mut self) -> String {
        let index = self.random.below(self.tables.len());
        self.tables[index].clone()
    }

    fn op(&mut self, verbs: usize) -> Op {
        self.number += 1;
        let number = self.number;
        let len = self.random.below(self.text_max);
        let text = (!self.random.one_in(6)).then(|| "x".repeat(len));
        let row = Row { number, text };
        let verb = match self.random.below(verbs) {
            0..4 => Verb::Upsert(row),
            4 | 5 => Verb::Delete,
            6 => Verb::Insert(row),
            7 => Verb::InsertIgnore(row),
            _ => Verb::Update(number),
        };
        Op { table: self.table(), id: self.random.below(self.ids) as u32, verb }
    }

    /// Single writes of every verb.
    fn writes(&mut self, count: usize) {
        for _ in 0..count {
            let op = self.op(10);
            self.push(Step::Write(op));
        }
    }

    /// Batches over the tables, of which some ask for a sync.
    fn batches(&mut self, count: usize, ops: usize) {
        for _ in 0..count {
            let verbs = if self.random.one_in(3) { 10 } else { 6 };
            let ops = (0..1 + self.random.below(ops)).map(|_| self.op(verbs)).collect();
            let durability = if self.random.one_in(3) { Durability::Sync } else { Durability::Buffered };
            self.push(Step::Batch(ops, durability));
        }
    }

    fn gets(&mut self, count: usize) {
        for _ in 0..count {
            let step = Step::Get(self.table(), self.random.below(self.ids) as u32);
            self.push(step);
        }
    }

    fn flush_all(&mut self) {
        self.push(Step::Flush(None));
    }
}

/// Every verb, alone and in batches; the log alone holds the rows, and is replayed after a kill.
fn verbs(seed: u64) -> Vec<Step> {
    let mut script = Script::new(seed, 1);
    script.create("a");
    script.create("b");
    script.writes(14);
    script.batches(5, 6);
    script.push(Step::Sync);
    script.gets(2);
    script.writes(6);
    script.push(Step::Kill);
    script.push(Step::ReadAll);
    script.batches(4, 6);
    script.writes(5);
    script.push(Step::LetGo);
    script.gets(2);
    script.writes(3);
    script.push(Step::Close);
    script.push(Step::ReadAll);
    script.steps
}

/// Large rows in three tables: the log is switched and bounded, memtables are flushed under snapshots and scans.
fn flushes(seed: u64) -> Vec<Step> {
    let mut script = Script::new(seed, 2);
    script.text_max = 700;
    for name in ["a", "b", "c"] {
        script.create(name);
    }
    script.batches(8, 6);
    script.push(Step::Snapshot);
    script.push(Step::StartScan("a".into(), Direction::Forward));
    script.push(Step::StartScan("b".into(), Direction::Reverse));
    script.batches(10, 6);
    script.push(Step::ContinueScans(4));
    script.push(Step::Flush(Some("a".into())));
    script.batches(5, 6);
    script.flush_all();
    script.push(Step::ReadSnapshots);
    script.push(Step::ContinueScans(3));
    script.gets(5);
    script.batches(8, 6);
    script.push(Step::ContinueScans(1000));
    script.push(Step::ReadSnapshots);
    script.push(Step::Kill);
    script.push(Step::ReadAll);
    script.batches(3, 6);
    script.push(Step::Check);
    script.steps
}

/// Runs piled up and merged: rows that move, deletions that go, snapshots that hold old versions back.
fn compactions(seed: u64) -> Vec<Step> {
    let mut script = Script::new(seed, 3);
    script.text_max = 300;
    script.create("a");
    script.create("b");
    for round in 0..12 {
        script.batches(2, 12);
        script.flush_all();
        match round {
            1 => script.push(Step::Snapshot),
            2 => script.push(Step::StartScan("a".into(), Direction::Forward)),
            _ => {}
        }
    }
    script.push(Step::Compact("a".into()));
    script.push(Step::ContinueScans(5));
    script.push(Step::ReadSnapshots);
    script.gets(4);
    script.batches(2, 12);
    script.push(Step::Compact("b".into()));
    script.push(Step::ForgetSnapshots);
    script.push(Step::ContinueScans(1000));
    script.push(Step::Compact("a".into()));
    script.push(Step::Check);
    script.push(Step::Close);
    script.push(Step::ReadAll);
    script.steps
}

/// Tables come and go, some with large schemas, so that the manifest is rolled.
fn tables(seed: u64) -> Vec<Step> {
    let mut script = Script::new(seed, 4);
    script.create("a");
    script.batches(3, 5);
    for round in 0..5 {
        let wide = format!("wide{round}");
        script.push(Step::Create(wide.clone(), Width::Wide));
        script.batches(1, 5);
        script.push(Step::Drop(wide));
        if round % 2 == 0 {
            script.push(Step::Alter("a".into()));
        }
    }
    script.flush_all();
    script.create("b");
    script.batches(3, 5);
    script.push(Step::Alter("b".into()));
    script.batches(1, 5);
    script.push(Step::Alter("b".into()));
    script.drop_table("a");
    script.writes(2);
    script.create("a");
    script.batches(3, 5);
    script.flush_all();
    script.push(Step::Kill);
    script.push(Step::ReadAll);
    for round in 0..5 {
        let wide = format!("wider{round}");
        script.push(Step::Create(wide.clone(), Width::Wide));
        script.push(Step::Drop(wide));
    }
    script.drop_table("b");
    script.writes(4);
    script.push(Step::Close);
    script.push(Step::ReadAll);
    script.steps
}

/// Opens after every kind of end, with much to replay, twice in a row too.
fn recoveries(seed: u64) -> Vec<Step> {
    let mut script = Script::new(seed, 5);
    script.text_max = 500;
    script.create("a");
    script.create("b");
    script.batches(8, 8);
    script.push(Step::Kill);
    script.push(Step::Kill);
    script.batches(5, 8);
    script.push(Step::PowerCut);
    script.push(Step::ReadAll);
    script.batches(4, 8);
    script.push(Step::LetGo);
    script.batches(3, 8);
    script.push(Step::PowerCut);
    script.push(Step::PowerCut);
    script.writes(3);
    script.push(Step::Close);
    script.push(Step::Close);
    script.push(Step::ReadAll);
    script.steps
}

/// Checkpoints of a log alone, of files and a log, after a compaction and after a kill.
fn checkpoints(seed: u64) -> Vec<Step> {
    let mut script = Script::new(seed, 8);
    script.text_max = 300;
    script.create("a");
    script.create("b");
    script.batches(4, 8);
    script.push(Step::Checkpoint);
    script.batches(4, 10);
    script.flush_all();
    script.writes(3);
    script.push(Step::Checkpoint);
    script.batches(4, 10);
    script.push(Step::Compact("a".into()));
    script.push(Step::Checkpoint);
    script.writes(4);
    script.push(Step::Kill);
    script.push(Step::ReadAll);
    script.push(Step::Checkpoint);
    script.writes(3);
    script.push(Step::Close);
    script.push(Step::ReadAll);
    script.steps
}

/// The disk is full again and again, and each time space is made.
fn full_disk(seed: u64) -> Vec<Step> {
    let mut script = Script::new(seed, 6);
    script.text_max = 600;
    script.create("a");
    script.create("b");
    script.batches(2, 6);
    for spare in [1_000, 2_000, 4_000] {
        script.push(Step::Limit(spare));
        script.batches(12, 8);
        script.gets(1);
    }
    script.flush_all();
    script.push(Step::Kill);
    script.push(Step::ReadAll);
    script.writes(3);
    script.steps
}

/// A few large rows: a log that is written back as it grows, and files that are synced piece by piece.
fn bulk(seed: u64) -> Vec<Step> {
    let mut script = Script::new(seed, 7);
    script.text_max = 200_000;
    script.ids = 12;
    script.create("a");
    script.batches(7, 6);
    script.flush_all();
    script.batches(3, 6);
    script.push(Step::Compact("a".into()));
    script.batches(2, 3);
    script.push(Step::Kill);
    script.push(Step::ReadAll);
    script.steps
}

/// Thresholds so small that a hundred rows make every structure.
fn tiny(seed: u64) -> Options {
    Options {
        memory_bytes: 256 << 10,
        memtable_bytes: Some(8 << 10),
        log_bytes_max: 16 << 10,
        log_segment_bytes: 4 << 10,
        index_block_bytes: 128,
        row_block_bytes: 256,
        index_file_bytes: 1 << 10,
        rowset_bytes: 2 << 10,
        background_threads: 1,
        background_sync_interval: None,
        runtime: RuntimeMode::Inline { seed },
        ..Options::default()
    }
}

/// The options of the base workloads, and others for the long runs.
const SETS: [&str; 6] = ["base", "each-batch", "roomy", "sync", "large-blocks", "one-file"];

fn options(set: &str, seed: u64) -> Options {
    let base = tiny(seed);
    match set {
        "base" => base,
        // A memtable is sealed after every batch.
        "each-batch" => Options { memtable_bytes: Some(1 << 10), ..base },
        // Nothing is flushed unless it is asked for, and one segment holds the log.
        "roomy" => Options {
            memory_bytes: 4 << 20,
            memtable_bytes: None,
            log_bytes_max: 1 << 20,
            log_segment_bytes: 128 << 10,
            ..base
        },
        "sync" => Options { default_durability: Durability::Sync, compression: Compression::None, ..base },
        "large-blocks" => Options {
            index_block_bytes: 4 << 10,
            row_block_bytes: 4 << 10,
            log_segment_bytes: 16 << 10,
            log_bytes_max: 32 << 10,
            ..base
        },
        // Blocks of one row, and files and rowsets that are never cut.
        "one-file" => Options {
            index_block_bytes: 64,
            row_block_bytes: 64,
            index_file_bytes: 1 << 20,
            rowset_bytes: 1 << 20,
            ..base
        },
        other => panic!("no option set {other}"),
    }
}

/// A base workload under an option set.
fn workload(name: &'static str, set: &'static str, seed: u64) -> Workload {
    let steps = match name {
        "verbs" => verbs(seed),
        "flushes" => flushes(seed),
        "compactions" => compactions(seed),
        "tables" => tables(seed),
        "recoveries" => recoveries(seed),
        "checkpoints" => checkpoints(seed),
        "full-disk" => full_disk(seed),
        "bulk" => bulk(seed),
        other => panic!("no workload {other}"),
    };
    let mut options = options(set, seed);
    if name == "bulk" {
        options = Options {
            memory_bytes: 32 << 20,
            memtable_bytes: None,
            log_bytes_max: 32 << 20,
            log_segment_bytes: 8 << 20,
            rowset_bytes: 8 << 20,
            ..options
        };
    }
    Workload { name, set, seed, options, steps }
}

/// The names of the base workloads.
pub(crate) const NAMES: [&str; 8] =
    ["verbs", "flushes", "compactions", "tables", "recoveries", "checkpoints", "full-disk", "bulk"];

/// A workload under its base options.
pub(crate) fn base(name: &'static str, seed: u64) -> Workload {
    workload(name, "base", seed)
}

/// A workload under all option sets.
pub(crate) fn all_sets(name: &'static str, seed: u64) -> Vec<Workload> {
    SETS.iter().map(|set| workload(name, set, seed)).collect()
}
