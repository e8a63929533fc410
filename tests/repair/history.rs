//! A database with everything in it, and all that was ever committed to it.

use std::collections::BTreeMap;
use std::path::Path;

use nyala::vfs::SimFs;
use nyala::{Durability, Engine, LossKind, Options, RepairReport, Row, Schema, Table, Type, Version};

use crate::choices::Random;
use crate::support::{DIR, name, options};

/// What a key had: a number and a text, or nothing.
pub(crate) type State = Option<(i64, String)>;

/// All states of each key of each table, in the order of their commits.
pub(crate) struct History {
    pub(crate) states: BTreeMap<(&'static str, u32), Vec<State>>,
    /// The versions of the batch that brought the last of them.
    pub(crate) versions: BTreeMap<(&'static str, u32), (Version, Version)>,
}

pub(crate) const TABLES: [&str; 2] = ["first", "second"];

fn schema() -> Schema {
    let builder = Schema::builder().key("name", Type::String).column("number", Type::I64);
    builder.column("text", Type::String).build().expect("a good schema")
}

pub(crate) fn table(engine: &Engine, name: &str) -> Table {
    engine.open_or_create_table(name, schema()).expect("a table")
}

/// Writes, deletes, flushes and merges, as the seed has it, and stops as if killed. The last batches are in the log
/// only.
pub(crate) fn killed(seed: u64) -> (SimFs, History) {
    let mut random = Random::new(seed);
    let disk = SimFs::new(seed);
    let small = Options {
        index_file_bytes: 4 << 10,
        rowset_bytes: 8 << 10,
        log_bytes_max: 16 << 10,
        ..options(&disk)
    };
    let engine = Engine::open(DIR, small).expect("an empty disk");
    let tables = TABLES.map(|name| table(&engine, name));
    let mut states: BTreeMap<(&'static str, u32), Vec<State>> = BTreeMap::new();
    let mut versions = BTreeMap::new();
    let rounds = 4 + random.below(4);
    for round in 0..rounds {
        for _ in 0..6 + random.below(10) {
            let mut batch = engine.batch();
            let mut changed: BTreeMap<(&'static str, u32), State> = BTreeMap::new();
            for _ in 0..1 + random.below(12) {
                let (at, n) = (random.below(2), random.below(240) as u32);
                let state = (random.below(5) > 0).then(|| {
                    let number = random.next() as i64;
                    (number, format!("{} of {}", n, "text ".repeat(random.below(8))))
                });
                match &state {
                    Some((number, text)) => batch.upsert(&tables[at], (name(n), *number, text.as_str())),
                    None => batch.delete(&tables[at], (name(n),)),
                }
                .expect("it fits");
                changed.insert((TABLES[at], n), state);
            }
            let before = engine.snapshot().version();
            batch.commit(Durability::Sync).expect("a good disk");
            let version = engine.snapshot().version();
            for (key, state) in changed {
                versions.insert(key, (before.next(), version));
                states.entry(key).or_default().push(state);
            }
        }
        if round + 1 < rounds {
            engine.flush().expect("a good disk");
        }
        if random.below(4) == 0 {
            tables[random.below(2)].compact().expect("a good disk");
        }
    }
    (disk.fork(), History { states, versions })
}

impl History {
    /// Holds a repaired database against what was committed: every row is one that its key had; and where it is not the
    /// last, the report says so. Gives how many keys are not as they were.
    pub(crate) fn assert_repaired(
        &self,
        disk: &SimFs,
        target: &Path,
        report: &RepairReport,
        context: &str,
    ) -> usize {
        let strict = Options { create_if_missing: false, ..options(disk) };
        let engine =
            Engine::open(target, strict).unwrap_or_else(|error| panic!("{context}: it must open: {error}"));
        let check = engine.check().expect("the disk is good");
        assert!(check.is_clean(), "{context}: {check}");
        let mut changed = 0;
        for table_name in TABLES {
            let found = report.tables.iter().find(|table| table.name == table_name);
            let table = engine.existing_table(table_name).ok();
            assert_eq!(found.is_some(), table.is_some(), "{context}: {table_name}");
            let mut rows = 0;
            for ((_, n), states) in self.states.range((table_name, 0)..=(table_name, u32::MAX)) {
                let row = table.as_ref().and_then(|table| table.get((name(*n),)).expect("it is sound"));
                rows += u64::from(row.is_some());
                let row = row.as_ref().map(values);
                let last = states.last().expect("a key has a state");
                if row == *last {
                    continue;
                }
                changed += 1;
                let was_committed = row.is_none() || states.contains(&row);
                assert!(was_committed, "{context}: {table_name} {}: {row:?} was never there", name(*n));
                // The last state is what is missing: its version must be among those that are told to be lost.
                let (first, last_version) = self.versions[&(table_name, *n)];
                let is_of_it = |loss: &&nyala::Loss| {
                    loss.versions.is_none_or(|lost| lost.0 <= last_version && first <= lost.1)
                };
                let is_told = match found {
                    Some(_) => {
                        report.losses_of(table_name, (name(*n),)).expect("a key of it").iter().any(is_of_it)
                    }
                    None => report.losses.iter().any(|loss| {
                        loss.table.is_none() || matches!(loss.kind, LossKind::Manifest | LossKind::Table)
                    }),
                };
                // Records at the end of the log that are gone whole cannot be told from such as were never written.
                let was_cut =
                    context.contains(".wal") && found.is_some_and(|found| last_version > found.read_through);
                let key = name(*n);
                assert!(
                    is_told || was_cut,
                    "{context}: {table_name} {key}: {row:?} for {last:?} is not in\n{report}"
                );
            }
            if let (Some(table), Some(found)) = (&table, found) {
                let counted = table.count().expect("it is sound");
                assert_eq!(counted, rows, "{context}: a row of {table_name} was made up");
                assert_eq!(found.rows, rows, "{context}");
            }
        }
        changed
    }
}

fn values(row: &Row) -> (i64, String) {
    (row.get("number").expect("a number"), row.get("text").expect("a text"))
}
