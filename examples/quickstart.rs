//! The program of the README. Run it twice: the second time it finds the rows of the first.

use nyala::{Durability, Engine, Options, Record, Schema, Timestamp};

#[derive(Record)]
struct Metric<'a> {
    #[nyala(key)]
    host: u32,
    #[nyala(key)]
    time: Timestamp,
    load: f64,
    note: Option<&'a str>,
}

fn main() -> nyala::Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or("target/quickstart".into());
    let engine = Engine::open(directory, Options::default())?;
    let metrics = engine.open_or_create_table("metrics", Schema::of::<Metric>()?)?;
    println!("the table holds {} rows from before", metrics.count()?);

    let time = Timestamp::now();
    metrics.upsert(Metric { host: 17, time, load: 0.93, note: None })?; // Survives the end of the process.
    metrics.update((17, time)).set("note", "peak").apply()?;

    let mut batch = engine.batch(); // All of it or nothing, over any tables.
    batch.upsert(&metrics, Metric { host: 18, time, load: 0.08, note: Some("idle") })?;
    batch.delete(&metrics, (16, time))?;
    batch.commit(Durability::Sync)?; // Survives a loss of power, with everything before it.

    let row = metrics.get((17, time))?.expect("written above");
    let Metric { load, note, .. } = row.to()?;
    println!("host 17 at {time}: load {load}, note {note:?}");
    for row in metrics.scan().prefix((17,)).reverse().limit(6).rows()? {
        println!("{}", row?); // The newest first.
    }
    engine.close()
}
