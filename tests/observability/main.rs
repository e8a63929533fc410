//! What a process hears of its engines through the facades `tracing` and `metrics`. Both are set for a whole process,
//! which is why these tests are by themselves.
//!
//!   cargo test -p nyala --features metrics --test observability
#![forbid(unsafe_code)]

#[cfg(feature = "metrics")]
mod metrics;
mod spans;

use std::time::{Duration, Instant};

use nyala::{Durability, Engine, Options, Schema, Type};

/// An engine of which writers were slowed once, which has flushed and compacted, and which is closed.
fn busy(dir: &std::path::Path) -> Engine {
    let engine = Engine::open(dir, Options { memory_bytes: 1 << 20, ..Options::default() });
    let engine = engine.expect("it opens");
    let schema = Schema::builder().key("id", Type::U64).column("text", Type::String).build().expect("good");
    let table = engine.open_or_create_table("texts", schema).expect("a table");
    // Two runs, so that there is something to merge.
    for _ in 0..2 {
        table.upsert((0, "text")).expect("a row");
        table.flush().expect("it is flushed");
    }
    let start = Instant::now();
    let mut batch = engine.batch();
    for id in 0u64.. {
        batch.upsert(&table, (id, "x".repeat(1000))).expect("encoded");
        if batch.len() == 500 {
            batch.commit(Durability::Buffered).expect("it is committed");
            let stats = engine.stats();
            if stats.delayed_batches + stats.stopped_batches > 0 {
                break;
            }
        }
        assert!(start.elapsed() < Duration::from_secs(60), "no batch is ever slowed");
    }
    table.compact().expect("it is compacted");
    engine.close().expect("it closes");
    engine
}
