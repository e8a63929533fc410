//! The feature `metrics`: a recorder gets every number under the name that the documents give it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use nyala::{Engine, Options};

/// Keeps the last value of everything, by name and the values of labels. A histogram's value is how often it was given one.
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
    fn increment(&self, _: u64) {
        panic!("what the engine counted is told as a whole");
    }

    fn absolute(&self, value: u64) {
        self.set(value);
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

#[test]
fn every_number_has_the_name_of_the_documents_and_the_value_of_the_stats() {
    let kept = Kept::default();
    metrics::set_global_recorder(kept.clone()).expect("the only recorder");
    let dir = tempfile::tempdir().expect("a directory");
    // Publishes by itself while others make theirs.
    let start = Instant::now();
    let idle = tempfile::tempdir().expect("a directory");
    let _idle = Engine::open(idle.path(), Options::default()).expect("it opens");
    let is_published = || {
        let name = idle.path().display().to_string();
        kept.0.lock().expect("no panics").keys().any(|key| key.contains(&name))
    };
    while !is_published() {
        assert!(start.elapsed() < Duration::from_secs(90), "nothing is published by itself");
        std::thread::sleep(Duration::from_millis(10));
    }
    let engine = crate::busy(dir.path());
    let stats = engine.stats();
    let kept = kept.0.lock().expect("no panics");
    // Other engines of this process have other directories.
    let database = dir.path().display();
    let bits = |name: &str| kept[&name.replace("DIR", &database.to_string())].bits.load(Ordering::Relaxed);
    assert_eq!(bits("nyala_operations_total DIR"), stats.operations);
    assert_eq!(bits("nyala_flushes_total DIR"), stats.flushes);
    assert_eq!(bits("nyala_compactions_total DIR"), stats.compactions);
    let gauge = |name: &str| f64::from_bits(bits(name));
    assert_eq!(gauge("nyala_healthy DIR"), 0.0, "it is closed");
    assert_eq!(gauge("nyala_table_row_bytes DIR texts"), stats.tables[0].row_bytes as f64);
    assert_eq!(gauge("nyala_disk_bytes DIR"), stats.disk.expect("listed").total_bytes() as f64);
    let times = |name: &str| kept[name].times.load(Ordering::Relaxed);
    // One that the close cut short is no failure.
    assert!(times("nyala_compaction_seconds") >= stats.compactions + stats.failed_compactions);
    assert!(times("nyala_flush_seconds") >= stats.flushes && times("nyala_stall_seconds") >= 1);

    // Each is in the documents, and each of the documents is there.
    let page = include_str!("../../docs/operations.md");
    let named: BTreeSet<&str> =
        page.split('`').filter(|word| word.starts_with("nyala_") && !word.contains('*')).collect();
    let published: BTreeSet<&str> = kept.keys().map(|key| key.split(' ').next().expect("a name")).collect();
    assert_eq!(named, published);
}
