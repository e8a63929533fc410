//! A table whose columns and name change while it is in use: rows from before read right at once, older handles go on.

use nyala::{Engine, ErrorKind, Options, Schema, Type, column};

fn main() -> nyala::Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or("target/evolve".into());
    let engine = Engine::open(&directory, Options::default())?;
    for name in engine.tables() {
        engine.drop_table(&name)?; // What an earlier run left.
    }
    let schema = Schema::builder()
        .key("sensor", Type::U32)
        .key("time", Type::U64)
        .column("value", Type::F64)
        .column("note", Type::String.nullable())
        .build()?;
    let first = engine.create_table("readings", schema)?;
    first.upsert((17, 1, 20.5, "as it was"))?;
    first.flush()?;

    // One change of three columns, durable when it returns. No row is rewritten.
    let second = first
        .alter()
        .add_column("unit", Type::String, "celsius")
        .rename_column("value", "reading")
        .drop_column("note")
        .apply()?;
    second.upsert((17, 2, 68.9, "fahrenheit"))?;
    for row in second.scan().rows()? {
        println!("{}", row?);
    }
    assert_eq!(second.scan().filter(column("unit").eq("celsius")).count()?, 1);

    // The handle from before has its own columns still: all but the one that is gone.
    first.update((17, 2)).set("value", 69.1).apply()?;
    for row in first.scan().columns(["sensor", "time", "value"]).rows()? {
        println!("through the older handle: {}", row?);
    }
    let error = first.upsert((17, 3, 21.0, "no place for a note")).expect_err("its note was dropped");
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    println!("{error}");
    let row = second.get((17, 2))?.expect("written above");
    assert_eq!((row.get::<f64>("reading")?, row.get::<&str>("unit")?), (69.1, "fahrenheit"));

    // The table makes room for another one of its name. No row moves.
    let old = engine.rename_table("readings", "readings.old")?;
    second.upsert((17, 4, 21.5, "celsius"))?;
    engine.create_table("readings", Schema::builder().key("sensor", Type::U32).build()?)?;
    println!("{:?}; {} has {} rows", engine.tables(), old.name(), old.count()?);
    assert_eq!(old.count()?, 3);
    engine.close()
}
