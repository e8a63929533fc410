//! Several writers at once, each with batches of its own: whoever reads meanwhile must find a prefix of each, whole.
//!
//! Owns the writers' threads; they end when the guard of a load is dropped.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use nyala::{Durability, Engine, Schema, Table, Type};

/// The batches of several writers and what each of them had seen of the others.
pub(crate) struct Load {
    pub(crate) engine: Engine,
    tables: [Table; 2],
    acknowledged: Vec<AtomicI64>,
    stop: AtomicBool,
}

pub(crate) const WRITERS: usize = 3;
const KEYS: i64 = 8;

pub(crate) fn load_schema() -> Schema {
    let builder =
        Schema::builder().key("writer", Type::U32).key("key", Type::I64).column("number", Type::I64);
    let seen =
        (0..WRITERS).fold(builder, |builder, writer| builder.column(format!("seen{writer}"), Type::I64));
    seen.column("padding", Type::Binary).build().expect("legal")
}

/// Ends the load when it is dropped, also by a panic.
pub(crate) struct StopLoad<'a>(&'a AtomicBool);

impl Drop for StopLoad<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Load {
    pub(crate) fn new(engine: Engine) -> Load {
        let tables = ["x", "y"].map(|name| engine.create_table(name, load_schema()).expect("a new name"));
        let acknowledged = (0..WRITERS).map(|_| AtomicI64::new(0)).collect();
        Load { engine, tables, acknowledged, stop: AtomicBool::new(false) }
    }

    pub(crate) fn stop_at_the_end(&self) -> StopLoad<'_> {
        StopLoad(&self.stop)
    }

    pub(crate) fn seen(&self) -> Vec<i64> {
        self.acknowledged.iter().map(|number| number.load(Ordering::SeqCst)).collect()
    }

    /// Batch after batch, each of which writes its number to all keys of this writer in both tables.
    pub(crate) fn write(&self, writer: usize) {
        for number in 1.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let seen = self.seen();
            let mut batch = self.engine.batch();
            for table in &self.tables {
                for key in 0..KEYS {
                    if (key + number) % 5 == 0 {
                        batch.delete(table, (writer as u32, key)).expect("fits");
                    }
                    let mut row = vec![
                        nyala::Value::UInt(writer as u64),
                        nyala::Value::Int(key),
                        nyala::Value::Int(number),
                    ];
                    row.extend(seen.iter().map(|number| nyala::Value::Int(*number)));
                    row.push(nyala::Value::Binary(&[7; 20]));
                    batch.upsert(table, row).expect("fits");
                }
            }
            let durability = if number % 4 == 0 { Durability::Sync } else { Durability::Buffered };
            batch.commit(durability).expect("a good disk");
            self.acknowledged[writer].store(number, Ordering::SeqCst);
        }
    }

    /// Tables come and go, with a row each.
    pub(crate) fn churn(&self) {
        for number in 0_u32.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let name = format!("passing{}", number % 3);
            let schema = Schema::builder().key("id", Type::U32).build().expect("legal");
            let table = self.engine.open_or_create_table(&name, schema).expect("a good disk");
            table.upsert((number,)).expect("a good disk");
            if number % 2 == 0 {
                self.engine.drop_table(&name).expect("a good disk");
            }
        }
    }
}

/// The number of each writer in an engine, whose batches must be whole and in order.
pub(crate) fn prefix_of(engine: &Engine) -> Vec<i64> {
    let mut numbers = vec![0; WRITERS];
    let mut seen_by: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
    for (position, name) in ["x", "y"].into_iter().enumerate() {
        let table = engine.open_table(name, &load_schema()).expect("it was made before the load");
        let mut keys = vec![0; WRITERS];
        for row in table.scan().rows().expect("a scan") {
            let row = row.expect("a row");
            let writer = row.get::<u32>("writer").expect("a number") as usize;
            let number: i64 = row.get("number").expect("a number");
            let seen = (0..WRITERS).map(|of| row.get(format!("seen{of}").as_str()).expect("a number"));
            let seen: Vec<i64> = seen.collect();
            if position == 0 && keys[writer] == 0 {
                numbers[writer] = number;
                seen_by.insert(writer, seen.clone());
            }
            keys[writer] += 1;
            assert_eq!(numbers[writer], number, "writer {writer} has half a batch");
            assert_eq!(seen_by[&writer], seen);
        }
        for (writer, count) in keys.into_iter().enumerate() {
            assert_eq!(count, if numbers[writer] == 0 { 0 } else { KEYS }, "keys of writer {writer}");
        }
    }
    for (writer, seen) in seen_by {
        for (of, seen) in seen.into_iter().enumerate() {
            assert!(
                numbers[of] >= seen,
                "writer {writer} had seen {seen} of {of}, here it is {}",
                numbers[of]
            );
        }
    }
    numbers
}
