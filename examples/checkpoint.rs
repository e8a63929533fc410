//! A backup while writers go on: a thread that writes, checkpoints beside it, each opened and checked.
//!
//! ```text
//! cargo run --example checkpoint [DIRECTORY]
//! ```

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use nyala::{Engine, Options, Schema, Type};

fn main() -> nyala::Result<()> {
    let directory: PathBuf = std::env::args_os().nth(1).unwrap_or("target/checkpoint".into()).into();
    let engine = Engine::open(directory.join("data"), Options::default())?;
    let schema = Schema::builder().key("id", Type::U64).column("text", Type::String).build()?;
    let notes = engine.open_or_create_table("notes", schema)?;
    let first = notes.count()?;

    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Nobody waits for a checkpoint.
        let writer = scope.spawn(|| -> nyala::Result<u64> {
            let mut id = first;
            while !stop.load(Ordering::Relaxed) {
                notes.upsert((id, format!("note {id}")))?;
                id += 1;
            }
            Ok(id)
        });
        let made = (0..3).try_for_each(|_| back_up(&engine, &directory));
        stop.store(true, Ordering::Relaxed);
        let rows = writer.join().expect("it does not panic")?;
        println!("{rows} rows in the end");
        made
    })?;
    engine.close()
}

/// Makes a checkpoint, named for the last version that is in it, and looks at what it holds.
fn back_up(engine: &Engine, directory: &std::path::Path) -> nyala::Result<()> {
    // A new directory each time; it is missing or empty.
    let target = directory.join(format!("backup-{}", engine.snapshot().version()));
    let report = engine.checkpoint(&target)?;
    println!(
        "{}: {} files linked, {} copied, {} bytes of log, in {:?}",
        target.display(),
        report.linked_files,
        report.copied_files,
        report.log_bytes,
        report.duration
    );

    // It is a database like any other. To look at it, and to check it, nothing of it needs to change.
    let copy = Engine::open_read_only(&target, Options::default())?;
    let rows = copy.existing_table("notes")?.count()?;
    let check = copy.check()?;
    println!("  {rows} rows; {}", if check.is_clean() { "every byte is right" } else { "damaged" });
    Ok(())
}
