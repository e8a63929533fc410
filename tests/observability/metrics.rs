//! The feature `metrics`: a recorder gets every number under the name that the documents give it, with few labels, also
//! over several opens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use nyala::{Engine, Options, Schema, Type};

/// Keeps the value of everything, by name and the values of labels, as a recorder does: counters of all opens of a
/// database are one.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<BTreeMap<String, Arc<Cell>>>>);

#[derive(Default)]
struct Cell {
    bits: AtomicU64,
    times: AtomicU64,
}

impl Cell {
    fn set(&self, bits: u64) {
        self.bits.store(bits, Ordering::Relaxed);
        self.times.fetch_add(1, Ordering::Relaxed);
    }
}

impl metrics::CounterFn for Cell {
    fn increment(&self, more: u64) {
        self.bits.fetch_add(more, Ordering::Relaxed);
        self.times.fetch_add(1, Ordering::Relaxed);
    }

    fn absolute(&self, _: u64) {
        panic!("the next open would begin at 0 again");
    }
}

impl metrics::GaugeFn for Cell {
    fn increment(&self, _: f64) {
        panic!("gauges are set");
    }

    fn decrement(&self, _: f64) {
        panic!("gauges are set");
    }

    fn set(&self, value: f64) {
        Cell::set(self, value.to_bits());
    }
}

impl metrics::HistogramFn for Cell {
    fn record(&self, value: f64) {
        Cell::set(self, value.to_bits());
    }
}

impl Kept {
    fn cell(&self, key: &Key) -> Arc<Cell> {
        let labels: Vec<String> = key.labels().map(|label| label.value().to_owned()).collect();
        let name = format!("{} {}", key.name(), labels.join(" "));
        Arc::clone(self.0.lock().expect("no panics").entry(name.trim().to_owned()).or_default())
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.cell(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.cell(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.cell(key))
    }
}

/// The recorder of this process.
fn kept() -> &'static Kept {
    static KEPT: OnceLock<Kept> = OnceLock::new();
    KEPT.get_or_init(|| {
        let kept = Kept::default();
        metrics::set_global_recorder(kept.clone()).expect("the only recorder");
        kept
    })
}

/// What is kept of the database in a directory, by name and, if there is one, the other label.
fn of(dir: &std::path::Path) -> BTreeMap<String, Arc<Cell>> {
    let database = format!(" {}", dir.display());
    let kept = kept().0.lock().expect("no panics");
    let own = kept.iter().filter(|(key, _)| key.contains(&database));
    own.map(|(key, cell)| (key.replace(&database, ""), Arc::clone(cell))).collect()
}

fn value(of: &BTreeMap<String, Arc<Cell>>, name: &str) -> u64 {
    of[name].bits.load(Ordering::Relaxed)
}

fn gauge(of: &BTreeMap<String, Arc<Cell>>, name: &str) -> f64 {
    f64::from_bits(value(of, name))
}

#[test]
fn every_number_has_the_name_of_the_documents_and_the_value_of_the_stats() {
    let dir = tempfile::tempdir().expect("a directory");
    kept();
    let engine = crate::busy(dir.path());
    let stats = engine.stats();
    let of = of(dir.path());
    assert_eq!(value(&of, "nyala_operations_total"), stats.operations);
    assert_eq!(value(&of, "nyala_flushes_total"), stats.flushes);
    assert_eq!(value(&of, "nyala_compactions_total"), stats.compactions);
    assert_eq!(gauge(&of, "nyala_healthy"), 0.0, "it is closed");
    assert_eq!(gauge(&of, "nyala_table_row_bytes texts"), stats.tables[0].row_bytes as f64);
    assert_eq!(gauge(&of, "nyala_disk_bytes"), stats.disk.expect("listed").total_bytes() as f64);
    let times = |name: &str| of[name].times.load(Ordering::Relaxed);
    // One that the close cut short is no failure.
    assert!(times("nyala_compaction_seconds") >= stats.compactions + stats.failed_compactions);
    assert!(times("nyala_flush_seconds") >= stats.flushes && times("nyala_stall_seconds") >= 1);

    // Each is in the documents, and each of the documents is there.
    let page = include_str!("../../docs/operations.md");
    let named: BTreeSet<&str> =
        page.split('`').filter(|word| word.starts_with("nyala_") && !word.contains('*')).collect();
    let published: BTreeSet<&str> = of.keys().map(|key| key.split(' ').next().expect("a name")).collect();
    assert_eq!(named, published);
}

#[test]
fn an_idle_engine_publishes_by_itself() {
    kept();
    let dir = tempfile::tempdir().expect("a directory");
    let _engine = Engine::open(dir.path(), Options::default()).expect("it opens");
    let start = Instant::now();
    while of(dir.path()).is_empty() {
        assert!(start.elapsed() < Duration::from_secs(90), "nothing is published by itself");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn counters_go_on_where_the_last_open_left_them() {
    kept();
    let dir = tempfile::tempdir().expect("a directory");
    for open in 1..=3 {
        let engine = Engine::open(dir.path(), Options::default()).expect("it opens");
        let schema = Schema::builder().key("id", Type::U64).build().expect("good");
        let table = engine.open_or_create_table("numbers", schema).expect("a table");
        table.upsert((open,)).expect("a row");
        // It is published more than once before the close.
        let published =
            || of(dir.path()).get("nyala_snapshots").map_or(0, |cell| cell.times.load(Ordering::Relaxed));
        let (before, start) = (published(), Instant::now());
        while published() < before + 2 {
            assert!(start.elapsed() < Duration::from_secs(90), "nothing is published");
            std::thread::sleep(Duration::from_millis(10));
        }
        engine.close().expect("it closes");
        assert_eq!(value(&of(dir.path()), "nyala_operations_total"), open);
    }
}

#[test]
fn however_many_tables_come_and_go_the_labels_are_bounded() {
    kept();
    let dir = tempfile::tempdir().expect("a directory");
    let open = || Engine::open(dir.path(), Options::default()).expect("it opens");
    let engine = open();
    let schema = || Schema::builder().key("id", Type::U64).build().expect("good");
    for table in 0..130 {
        let table = engine.create_table(&format!("t{table:03}"), schema()).expect("a table");
        table.upsert((1,)).expect("a row");
    }
    engine.close().expect("it closes");
    let rows = |of: &BTreeMap<String, Arc<Cell>>| {
        let own = of.iter().filter(|(key, _)| key.starts_with("nyala_table_live_rows "));
        own.map(|(_, cell)| f64::from_bits(cell.bits.load(Ordering::Relaxed))).collect::<Vec<f64>>()
    };
    let live = rows(&of(dir.path()));
    assert_eq!((live.len(), live.iter().sum::<f64>()), (101, 130.0), "100 tables, and the others");
    let engine = open();
    let start = Instant::now();
    while gauge(&of(dir.path()), "nyala_healthy") == 0.0 {
        assert!(start.elapsed() < Duration::from_secs(90), "nothing is published");
        std::thread::sleep(Duration::from_millis(10));
    }
    engine.drop_table("t000").expect("it is dropped");
    engine.close().expect("it closes");
    let of = of(dir.path());
    assert_eq!(gauge(&of, "nyala_table_live_rows t000"), 0.0, "what is dropped takes nothing");
    assert_eq!((rows(&of).len(), rows(&of).iter().sum::<f64>()), (101, 129.0));
}
