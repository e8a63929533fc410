//! What an engine tells of itself: events while it works, then its numbers.
//!
//! ```text
//! cargo run --example observe [DIRECTORY]
//! ```

use std::sync::Arc;

use nyala::{Durability, Engine, Event, Options, Schema, Type};

/// Called by a thread of the engine's, one event after the other.
fn listen(event: &Event) {
    match event {
        Event::FlushEnded { tables, took, result: Ok(done), .. } => {
            println!(
                "flushed {}: {} files, {} bytes in {took:.1?}",
                tables.join(", "),
                done.files,
                done.bytes
            );
        }
        Event::CompactionEnded { table, took, result: Ok(done), .. } => println!(
            "compacted {table}: {} of {} entries dropped, {} rows moved in {took:.1?}",
            done.entries_dropped, done.entries_in, done.moved_rows,
        ),
        Event::StallBegun { cause, .. } => println!("writers are slowed: {cause}"),
        Event::StallEnded { took, .. } => println!("writers were slowed for {took:.1?}"),
        Event::HealthChanged { health, .. } => println!("health: {health}"),
        _ => {}
    }
}

fn main() -> nyala::Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or("target/observe".into());
    // Little memory, so that there is something to see.
    let options = Options { memory_bytes: 4 << 20, listener: Some(Arc::new(listen)), ..Options::default() };
    let engine = Engine::open(&directory, options)?;
    let schema = Schema::builder().key("id", Type::U64).column("text", Type::String).build()?;
    let table = engine.open_or_create_table("texts", schema)?;
    let mut batch = engine.batch();
    for round in 0..400u64 {
        for row in 0..100u64 {
            let id = (round * 100 + row).wrapping_mul(0x9e37_79b9_7f4a_7c15) % 20_000;
            batch
                .upsert(&table, (id, format!("text {row} of round {round}, which is not all that short")))?;
        }
        batch.commit(Durability::Buffered)?;
    }
    table.flush()?;
    println!("\n{}", engine.stats());
    engine.close()
}
