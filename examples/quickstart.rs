//! A table of metrics: made, written, read by key and by range. Run it again, and it finds the rows of before.
//!
//! ```text
//! cargo run --example quickstart [DIRECTORY]
//! ```

use nyala::{Durability, Engine, Options, Record, Schema, Timestamp};

#[derive(Record)]
struct Metric<'a> {
    #[nyala(key)]
    host: u32,
    #[nyala(key)]
    time: Timestamp,
    #[nyala(key)]
    metric: &'a str,
    value: f64,
    note: Option<&'a str>,
}

fn main() -> nyala::Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or("target/quickstart".into());
    let engine = Engine::open(&directory, Options::default())?;
    let metrics = engine.open_or_create_table("metrics", Schema::of::<Metric>()?)?;
    println!("{} holds {} rows from before", directory.display(), metrics.count()?);

    // Single writes: a whole row, whether its key is there or not; then a column of a row that must be there.
    let time = Timestamp::now();
    metrics.upsert(Metric { host: 17, time, metric: "cpu", value: 0.93, note: None })?;
    metrics.update((17, time, "cpu")).set("note", "peak").apply()?;

    // A batch is visible and durable as a whole, over any tables; with `Sync` it survives a loss of power. Tuples are rows
    // too.
    let mut batch = engine.batch();
    batch.upsert(&metrics, (17, time, "memory", 0.41, Some("steady")))?;
    batch.upsert(&metrics, (18, time, "cpu", 0.08, None::<&str>))?;
    batch.delete(&metrics, (16, time, "cpu"))?;
    batch.commit(Durability::Sync)?;

    // By key.
    let row = metrics.get((17, time, "cpu"))?.expect("written above");
    let Metric { value, note, .. } = row.to()?;
    println!("host 17 at {time}: cpu {value}, note {note:?}");

    // By range, as of now, whatever is written meanwhile: the last of one host, newest first.
    let snapshot = engine.snapshot();
    let latest = metrics.scan().prefix((17,)).columns(["time", "metric", "value"]).reverse().limit(6);
    for row in latest.at(&snapshot).rows()? {
        println!("{}", row?);
    }
    engine.close()
}
