//! Faults that other engines shipped, each as a scenario of its own, with tiny thresholds on the simulated disk.

mod deletions;
mod scanning;
mod versions;

use std::sync::Arc;

use nyala::vfs::SimFs;
use nyala::vfs::sim::PowerCut;
use nyala::{Engine, Options, RuntimeMode, Scan, Schema, Table, Type};

use crate::settings;

/// An engine with one table of numbers and texts, on a simulated disk.
struct Bench {
    disk: SimFs,
    options: Options,
    /// None only between a kill and the next open.
    open: Option<(Engine, Table)>,
}

/// What happens to an engine between two writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    Nothing,
    Flush,
    Compact,
    Close,
    Kill,
    /// A sync, then a power cut that loses everything else.
    PowerCut,
}

const EVERYTHING: [Between; 6] =
    [Between::Nothing, Between::Flush, Between::Compact, Between::Close, Between::Kill, Between::PowerCut];

impl Bench {
    fn new(seed: u64) -> Bench {
        Bench::with(Options { runtime: RuntimeMode::Inline { seed }, ..settings::inline_tiny().options })
    }

    fn with(options: Options) -> Bench {
        let mut bench = Bench { disk: SimFs::new(1), options, open: None };
        bench.open_on(bench.disk.clone());
        bench
    }

    fn schema() -> Schema {
        let schema = Schema::builder().key("key", Type::I64).column("text", Type::String);
        schema.build().expect("legal")
    }

    fn open_on(&mut self, disk: SimFs) {
        self.disk = disk;
        let options = Options { fs: Arc::new(self.disk.clone()), ..self.options.clone() };
        let engine = Engine::open("/db", options).expect("the disk is well");
        let table = engine.open_or_create_table("t", Bench::schema()).expect("it has this schema");
        self.open = Some((engine, table));
    }

    fn engine(&self) -> &Engine {
        &self.open.as_ref().expect("it is open").0
    }

    fn table(&self) -> &Table {
        &self.open.as_ref().expect("it is open").1
    }

    fn put(&self, key: i64, text: &str) {
        self.table().upsert((key, text)).expect("the disk is well");
    }

    fn delete(&self, key: i64) {
        self.table().delete(key).expect("the disk is well");
    }

    fn happens(&mut self, between: Between) {
        match between {
            Between::Nothing => {}
            Between::Flush => self.engine().flush().expect("the disk is well"),
            Between::Compact => self.table().compact().expect("the disk is well"),
            Between::Close => {
                self.engine().close().expect("the disk is well");
                self.open = None;
                self.open_on(self.disk.clone());
            }
            Between::Kill => {
                let fork = self.disk.fork();
                self.open = None;
                self.open_on(fork);
            }
            Between::PowerCut => {
                self.engine().sync().expect("the disk is well");
                let after = self.disk.power_cut(&PowerCut::lose_all());
                self.open = None;
                self.open_on(after);
            }
        }
    }

    /// All rows, by a scan. Every other kind of read must agree, in both directions.
    fn rows(&self) -> Vec<(i64, String)> {
        let table = self.table();
        let rows = rows_of(table.scan());
        let mut reversed = rows_of(table.scan().reverse());
        reversed.reverse();
        assert_eq!(rows, reversed, "a reverse scan");
        assert_eq!(rows.len() as u64, table.count().expect("the disk is well"), "count");
        for (key, text) in &rows {
            assert_eq!(Some(text), self.get(*key).as_ref(), "get of {key}");
        }
        rows
    }

    fn get(&self, key: i64) -> Option<String> {
        let row = self.table().get(key).expect("the disk is well");
        assert_eq!(row.is_some(), self.table().exists(key).expect("the disk is well"), "exists {key}");
        row.map(|row| row.get("text").expect("a text"))
    }

    fn check(&self) {
        let report = self.engine().check().expect("the disk is well");
        assert!(report.is_clean(), "{:#?}", report.problems);
    }
}

fn rows_of(scan: Scan) -> Vec<(i64, String)> {
    let rows = scan.rows().expect("a legal scan").map(|row| {
        let row = row.expect("the disk is well");
        (row.get("key").expect("a key"), row.get("text").expect("a text"))
    });
    rows.collect()
}
