//! An engine with one table, and a map that says what it holds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use pkindex::Retention;
use vfs::{Fs, SimFs};

use crate::compaction::{
    CompactionJob, Eagerness, Merged, claim, compact_whole, install, merge, overlap_depth, run,
};
use crate::core::Core;
use crate::error::Error;
use crate::files::{FileKind, Outputs, parse_name};
use crate::runtime::Chance;
use crate::stats::TableStats;
use crate::tablet::Tablet;
use crate::view::TabletView;
use crate::{Durability, Engine, Options, RuntimeMode, Schema, Snapshot, Table, Type, background};

pub(super) type Rows = BTreeMap<u64, String>;

pub(super) const DIR: &str = "/db";

/// Several blocks and files a flush, rowsets of a few dozen rows; and memory enough that nobody waits for a flush.
pub(super) fn tiny() -> Options {
    Options {
        memory_bytes: 16 << 20,
        memtable_bytes: Some(16 << 10),
        log_bytes_max: 128 << 10,
        log_segment_bytes: 16 << 10,
        index_block_bytes: 128,
        row_block_bytes: 128,
        index_file_bytes: 1 << 10,
        rowset_bytes: 2 << 10,
        background_threads: 2,
        runtime: RuntimeMode::Inline { seed: 0 },
        ..Options::default()
    }
}

/// A job whose merge is done and whose install is not.
pub(super) struct Held {
    pub(super) job: CompactionJob,
    merged: Merged,
    retention: Retention,
    index_outputs: Outputs,
    row_outputs: Arc<Outputs>,
}

pub(super) struct World {
    pub(super) chance: Chance,
    options: Options,
    pub(super) disk: SimFs,
    engine: Option<Engine>,
    table: Option<Table>,
    pub(super) rows: Rows,
    pub(super) snapshots: Vec<(Snapshot, Rows)>,
    writes: u64,
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        World::with(seed, tiny())
    }

    pub(super) fn with(seed: u64, options: Options) -> World {
        let mut world = World {
            chance: Chance::new(seed),
            options: Options { runtime: RuntimeMode::Inline { seed }, ..options },
            disk: SimFs::new(seed),
            engine: None,
            table: None,
            rows: Rows::new(),
            snapshots: Vec::new(),
            writes: 0,
        };
        world.open();
        // The directory of the database itself is no matter of these tests.
        world.disk.sync_dir(Path::new("/")).expect("no fault");
        world
    }

    pub(super) fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("it is open")
    }

    pub(super) fn table(&self) -> &Table {
        self.table.as_ref().expect("it is open")
    }

    pub(super) fn core(&self) -> &Core {
        self.engine().core()
    }

    pub(super) fn tablet(&self) -> Arc<Tablet> {
        Arc::clone(&self.core().catalog.get("t").expect("the table is there").tablet)
    }

    pub(super) fn view(&self) -> Arc<TabletView> {
        self.tablet().view.pin()
    }

    pub(super) fn stats(&self) -> TableStats {
        self.engine().stats().tables.remove(0)
    }

    pub(super) fn close(&mut self) {
        self.snapshots.clear();
        self.table = None;
        self.engine = None;
    }

    pub(super) fn open(&mut self) {
        self.close();
        let options = Options { fs: Arc::new(self.disk.clone()), ..self.options.clone() };
        let engine = Engine::open(DIR, options).expect("it opens");
        let schema =
            Schema::builder().key("id", Type::U64).column("text", Type::String).build().expect("a schema");
        self.table = Some(engine.open_or_create_table("t", schema).expect("the schema is the same"));
        self.engine = Some(engine);
    }

    /// Opens what is on `disk`.
    pub(super) fn open_on(&mut self, disk: SimFs) {
        self.close();
        self.disk = disk;
        self.open();
    }

    /// From now on nothing is done inline but what the test asks for.
    pub(super) fn stop_inline_work(&self) {
        self.core().inline_turn.lock().only_on_demand = true;
    }

    pub(super) fn put(&mut self, id: u64) {
        self.writes += 1;
        let text = format!("{}:{}", self.writes, "x".repeat(self.chance.below(60)));
        self.table().upsert((id, text.as_str())).expect("healthy");
        self.rows.insert(id, text);
    }

    pub(super) fn delete(&mut self, id: u64) {
        self.table().delete((id,)).expect("healthy");
        self.rows.remove(&id);
    }

    pub(super) fn flush(&self) {
        self.table().flush().expect("healthy");
    }

    pub(super) fn keep_snapshot(&mut self) {
        self.snapshots.push((self.engine().snapshot(), self.rows.clone()));
    }

    pub(super) fn sync(&self) {
        self.engine().sync().expect("healthy");
    }

    pub(super) fn put_batch(&mut self, ids: impl IntoIterator<Item = u64>) {
        let mut batch = self.engine().batch();
        for id in ids {
            self.writes += 1;
            let text = format!("{}:batch", self.writes);
            batch.upsert(self.table(), (id, text.as_str())).expect("it fits");
            self.rows.insert(id, text);
        }
        batch.commit(Durability::Buffered).expect("healthy");
    }

    /// Claims a job, if there is one.
    pub(super) fn claim(&self, eagerness: Eagerness) -> Option<CompactionJob> {
        claim(self.core(), eagerness)
    }

    /// Runs a job if there is one.
    pub(super) fn compact_once(&self, eagerness: Eagerness) -> bool {
        let Some(job) = self.claim(eagerness) else { return false };
        let before = overlap_depth(&self.view());
        run(self.core(), &job).expect("no fault");
        let after = overlap_depth(&self.view());
        assert!(after <= before, "{before} rowsets over a key before, {after} after");
        true
    }

    /// Compacts until nothing is left to do. Says how many compactions that took.
    pub(super) fn compact_all(&self) -> usize {
        let mut count = 0;
        while self.compact_once(Eagerness::Idle) {
            count += 1;
            assert!(count < 200, "picking ends");
        }
        count
    }

    pub(super) fn compact_whole(&self) {
        compact_whole(self.core(), &self.tablet()).expect("no fault");
    }

    /// Merges a job and holds it.
    pub(super) fn hold(&self, job: CompactionJob) -> Held {
        let core = self.core();
        let index_outputs = Outputs::new(&core.files, FileKind::Index);
        let row_outputs = Arc::new(Outputs::new(&core.files, FileKind::Rows));
        let retention = core.registry.retention();
        let merged = merge(core, &job, &retention, &index_outputs, &row_outputs).expect("no fault");
        Held { job, merged, retention, index_outputs, row_outputs }
    }

    pub(super) fn install(&self, held: Held) -> Result<(), Error> {
        let Held { job, merged, retention, index_outputs, row_outputs } = held;
        let result = install(self.core(), &job, &retention, &merged);
        if result.is_err() {
            index_outputs.discard();
            row_outputs.discard();
        }
        result.map(|_| ())
    }

    fn scan(&self, snapshot: Option<&Snapshot>) -> Rows {
        let scan = self.table().scan();
        let scan = match snapshot {
            Some(snapshot) => scan.at(snapshot),
            None => scan,
        };
        let rows = scan.rows().expect("readable");
        rows.map(|row| {
            let row = row.expect("readable");
            (row.get("id").expect("an id"), row.get::<&str>("text").expect("a text").to_owned())
        })
        .collect()
    }

    /// Everything reads as the model has it: now, and at every snapshot.
    pub(super) fn check_reads(&self) {
        assert_eq!(self.scan(None), self.rows);
        for (snapshot, rows) in &self.snapshots {
            assert_eq!(&self.scan(Some(snapshot)), rows, "at {snapshot:?}");
        }
    }

    /// The whole store is in order, and so is what reads see.
    pub(super) fn check(&self) {
        self.check_reads();
        let report = self.engine().check().expect("no fault");
        assert!(report.is_clean(), "{:#?}", report.problems);
        self.check_files();
    }

    /// The disk has the files that the view names, and no others, once house was kept.
    pub(super) fn check_files(&self) {
        let named = self.named_files();
        background::keep_house(self.core());
        assert_eq!(self.files(), named);
    }

    fn named_files(&self) -> BTreeSet<(u64, &'static str)> {
        let view = self.view();
        let index = view.runs.iter().flat_map(|run| run.files()).map(|file| (file.id().0, "idx"));
        let rows = view.rowsets.iter().map(|rowset| (u64::from(rowset.id().0), "row"));
        index.chain(rows).collect()
    }

    /// The index and row files on the disk.
    pub(super) fn files(&self) -> BTreeSet<(u64, &'static str)> {
        let is_in_dir = |path: &&Path| path.parent() == Some(Path::new(DIR));
        let paths = self.disk.paths();
        let names = paths.iter().map(|path| path.as_path()).filter(is_in_dir).filter_map(Path::file_name);
        names
            .filter_map(|name| parse_name(name.to_str()?))
            .filter(|(_, kind)| matches!(kind, FileKind::Index | FileKind::Rows))
            .map(|(id, kind)| (id.0, kind.extension()))
            .collect()
    }

    /// Writes rows and flushes, several times, without compacting: so many runs, each over the same keys.
    pub(super) fn pile_up(&mut self, runs: usize, keys: u64) {
        self.stop_inline_work();
        for _ in 0..runs {
            for _ in 0..keys / 2 {
                let id = self.chance.below(keys as usize) as u64;
                self.put(id);
            }
            self.flush();
        }
    }
}
