//! A table whose columns are known when the program runs: rows made and read by name, and a scan in parallel parts.
//!
//! ```text
//! cargo run --example dynamic [DIRECTORY]
//! ```

use nyala::{Durability, Engine, Options, Schema, Type, Value};

/// As they might stand in a file: name, type, whether it is of the key.
const COLUMNS: [(&str, &str, bool); 4] =
    [("city", "string", true), ("year", "u64", true), ("people", "u64", false), ("area", "f64", false)];

fn main() -> nyala::Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or("target/dynamic".into());
    let engine = Engine::open(directory, Options::default())?;
    let mut schema = Schema::builder();
    for (name, type_name, is_key) in COLUMNS {
        let column_type = match type_name {
            "string" => Type::String,
            "f64" => Type::F64,
            _ => Type::U64,
        };
        schema =
            if is_key { schema.key(name, column_type) } else { schema.column(name, column_type.nullable()) };
    }
    let table = engine.open_or_create_table("cities", schema.build()?)?;

    let mut batch = engine.batch();
    for year in 0..100_000u64 {
        // In any order; what is not given is null, and a name that is wrong is an error.
        let mut row = table.schema().row();
        row.assign("people", 100_000 + year)?;
        row.assign("city", if year % 2 == 0 { "Arusha" } else { "Moshi" })?;
        row.assign("year", year)?;
        batch.upsert(&table, row)?;
        if batch.len() == 1000 {
            batch.commit(Durability::Buffered)?;
        }
    }
    batch.commit(Durability::Buffered)?;
    engine.flush()?;

    let key = table.schema().key().set("year", 7)?.set("city", "Moshi")?;
    let row = table.get(key)?.expect("written above");
    for (index, column) in table.schema().columns().iter().enumerate() {
        let value: Option<Value<'_>> = row.get(index)?;
        println!("{:>8}: {value:?}", column.name);
    }

    // All parts see the same moment, and each goes to a thread of its own.
    let parts = table.scan().columns(["people"]).partitions(4)?;
    let sums = std::thread::scope(|scope| {
        let sum = |part: nyala::Scan| -> nyala::Result<u64> {
            let mut rows = part.cursor()?;
            let mut sum = 0;
            while let Some(row) = rows.next()? {
                sum += row.get::<u64>("people")?;
            }
            Ok(sum)
        };
        let threads: Vec<_> = parts.into_iter().map(|part| scope.spawn(move || sum(part))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("it does not panic"))
            .collect::<Result<Vec<_>, _>>()
    })?;
    println!("{} parts, {} people in all", sums.len(), sums.iter().sum::<u64>());
    engine.close()
}
