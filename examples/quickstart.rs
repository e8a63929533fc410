//! A table of metrics: made, written, read by key and by range. Run it again, and it finds the rows of before.
//!
//! ```text
//! cargo run --example quickstart [DIRECTORY]
//! ```

use nyala::{Durability, Engine, Options, Schema, Timestamp, Type};

fn main() -> nyala::Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or("target/quickstart".into());
    let engine = Engine::open(&directory, Options::default())?;
    let schema = Schema::builder()
        .key("host", Type::U32)
        .key("time", Type::Timestamp)
        .key("metric", Type::String)
        .column("value", Type::F64)
        .column("note", Type::String.nullable())
        .build()?;
    let metrics = engine.open_or_create_table("metrics", schema)?;
    println!("{} holds {} rows from before", directory.display(), metrics.count()?);

    // Single writes: a whole row, whether its key is there or not; then a column of a row that must be there.
    let time = Timestamp::now();
    metrics.upsert((17, time, "cpu", 0.93, None::<&str>))?;
    metrics.update((17, time, "cpu")).set("note", "peak").apply()?;

    // A batch is visible and durable as a whole, over any tables; with `Sync` it survives a loss of power.
    let mut batch = engine.batch();
    batch.upsert(&metrics, (17, time, "memory", 0.41, Some("steady")))?;
    batch.upsert(&metrics, (18, time, "cpu", 0.08, None::<&str>))?;
    batch.delete(&metrics, (16, time, "cpu"))?;
    batch.commit(Durability::Sync)?;

    // By key.
    let row = metrics.get((17, time, "cpu"))?.expect("written above");
    let (value, note): (f64, Option<&str>) = (row.get("value")?, row.get("note")?);
    println!("host 17 at {time}: cpu {value}, note {note:?}");

    // By range, as of now, whatever is written meanwhile: the last of one host, newest first.
    let snapshot = engine.snapshot();
    let latest = metrics.scan().prefix((17,)).columns(["time", "metric", "value"]).reverse().limit(6);
    for row in latest.at(&snapshot).rows()? {
        println!("{}", row?);
    }
    engine.close()
}
