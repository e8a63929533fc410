//! A damaged database: what is told of it, and a new one made of what can still be read.
//!
//! ```text
//! cargo run --example repair [DIRECTORY]
//! ```
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it harms files that are the engine's, which goes through vfs itself"
)]

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nyala::{Engine, Options, RepairError, RepairOptions, Schema, Type, repair};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory: PathBuf = std::env::args_os().nth(1).unwrap_or("target/repair".into()).into();
    let (damaged, repaired) = (directory.join("damaged"), directory.join("repaired"));
    for old in [&damaged, &repaired] {
        if old.exists() {
            std::fs::remove_dir_all(old)?;
        }
    }

    let engine = Engine::open(&damaged, Options::default())?;
    let schema = Schema::builder().key("id", Type::U64).column("text", Type::String).build()?;
    let notes = engine.open_or_create_table("notes", schema)?;
    for id in 0..10_000u64 {
        notes.upsert((id, format!("note {id}")))?;
    }
    notes.flush()?;
    engine.close()?;
    flip_a_bit(&damaged)?;

    // Damage is found where it is read, and named; everything else reads as before.
    let engine = Engine::open_read_only(&damaged, Options::default())?;
    for problem in engine.check()?.problems {
        println!("{problem}");
    }
    let row = engine.existing_table("notes")?.get((1,))?;
    println!("a row elsewhere: {}", row.expect("written above"));
    drop(engine);

    // The damaged database stays as it is. Nothing is lost unseen: a loss has to be accepted.
    let report = match repair(&damaged, &repaired, &RepairOptions::default()) {
        Err(RepairError::WouldLose(report)) => {
            println!("\n{report}");
            repair(&damaged, &repaired, &RepairOptions { accept_loss: true, ..RepairOptions::default() })?
        }
        other => other?,
    };
    assert!(report.is_written);

    let engine = Engine::open(&repaired, Options::default())?;
    println!("\n{} of 10000 rows are there", engine.existing_table("notes")?.count()?);
    Ok(engine.close()?)
}

/// Changes one bit in the middle of the file that holds the rows.
fn flip_a_bit(directory: &Path) -> std::io::Result<()> {
    let mut paths = std::fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path()));
    let rows =
        paths.find(|path| path.as_ref().is_ok_and(|path| path.extension().is_some_and(|it| it == "row")));
    let file = std::fs::File::options().read(true).write(true).open(rows.expect("rows were flushed")?)?;
    let middle = file.metadata()?.len() / 2;
    let mut byte = [0];
    file.read_exact_at(&mut byte, middle)?;
    file.write_all_at(&[byte[0] ^ 1], middle)
}
