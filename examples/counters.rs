//! Counters: one that many threads add to by transactions, and one that is cut into parts of which each thread owns
//! one.
//!
//! ```text
//! cargo run --example counters
//! ```

use nyala::{Engine, Options, Record, Schema, Table};

const THREADS: u64 = 4;
const EACH: u64 = 250;

#[derive(Record)]
struct Counter<'a> {
    #[nyala(key)]
    name: &'a str,
    count: u64,
}

/// A counter in parts: the count is the sum over them.
#[derive(Record)]
struct Part<'a> {
    #[nyala(key)]
    name: &'a str,
    #[nyala(key)]
    part: u64,
    count: u64,
}

/// Adds to a counter and returns what it comes to: each caller gets another number. Whoever was overtaken between the
/// read and the commit is run again.
fn add(engine: &Engine, counters: &Table, name: &str, more: u64) -> nyala::Result<u64> {
    engine.transact(|transaction| {
        let row = transaction.get(counters, (name,))?;
        let count = row.map_or(Ok(0), |row| row.get::<u64>("count"))? + more;
        transaction.upsert(counters, Counter { name, count })?;
        Ok(count)
    })
}

/// What the parts of a counter come to, at one moment.
fn sum(parts: &Table, name: &str) -> nyala::Result<u64> {
    let mut sum = 0;
    let mut cursor = parts.scan().prefix((name,)).columns(["count"]).cursor()?;
    while let Some(row) = cursor.next()? {
        sum += row.get::<u64>(0)?;
    }
    Ok(sum)
}

fn main() -> nyala::Result<()> {
    let directory = tempfile::tempdir().expect("a directory for the example");
    let engine = Engine::open(directory.path(), Options::default())?;
    let counters = engine.open_or_create_table("counters", Schema::of::<Counter>()?)?;
    let parts = engine.open_or_create_table("parts", Schema::of::<Part>()?)?;

    let mut numbers = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|part| {
                let (engine, counters, parts) = (&engine, &counters, &parts);
                scope.spawn(move || -> nyala::Result<Vec<u64>> {
                    // Nobody else writes this part, so it is read once, and its writes look nothing up.
                    let row = parts.get(("views", part))?;
                    let before = row.map_or(Ok(0), |row| row.get::<u64>("count"))?;
                    let mut numbers = Vec::new();
                    for more in 1..=EACH {
                        numbers.push(add(engine, counters, "orders", 1)?);
                        parts.upsert(Part { name: "views", part, count: before + more })?;
                    }
                    Ok(numbers)
                })
            })
            .collect();
        let numbers = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        numbers.collect::<nyala::Result<Vec<_>>>()
    })?
    .concat();

    numbers.sort_unstable();
    assert_eq!(numbers, (1..=THREADS * EACH).collect::<Vec<_>>(), "no number was given out twice");
    assert_eq!(sum(&parts, "views")?, THREADS * EACH);
    println!("{} orders, {} views", numbers.len(), sum(&parts, "views")?);
    engine.close()
}

#[test]
fn what_it_asserts_holds() -> nyala::Result<()> {
    main()
}
