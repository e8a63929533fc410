//! From an asynchronous program: each call on a thread that may block, a scan as a stream of batches of rows.
//!
//! Calls of the engine block: a read may wait for the disk, a write for a sync or for memory. Handles are cheap to
//! clone and go to any thread, and iterators borrow nothing, so that all of it can move to where blocking is allowed.
//!
//! ```text
//! cargo run --example spawn_blocking [DIRECTORY]
//! ```

use nyala::{Engine, Options, Row, Schema, Table, Type};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

#[tokio::main(flavor = "current_thread")]
async fn main() -> nyala::Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or("target/spawn_blocking".into());
    let engine = blocking(move || Engine::open(directory, Options::default())).await?;
    let schema = Schema::builder().key("id", Type::U32).column("text", Type::String).build()?;
    let handle = engine.clone();
    let notes = blocking(move || handle.open_or_create_table("notes", schema)).await?;

    // Many at a time: the engine puts what comes together into one write.
    let writes: Vec<_> = (0..100_u32).map(|id| tokio::spawn(write(notes.clone(), id))).collect();
    for write in writes {
        write.await.expect("it does not panic")?;
    }

    let mut batches = scan(notes);
    let mut count = 0;
    while let Some(batch) = batches.recv().await {
        count += batch?.len();
    }
    println!("{count} rows");

    blocking(move || engine.close()).await
}

async fn write(notes: Table, id: u32) -> nyala::Result<()> {
    blocking(move || notes.upsert((id, format!("note {id}")))).await
}

/// The rows of a table, in key order. Whoever receives slowly slows the scan; whoever stops ends it.
fn scan(notes: Table) -> mpsc::Receiver<nyala::Result<Vec<Row>>> {
    const ROWS: usize = 32;
    let (sender, receiver) = mpsc::channel(4);
    spawn_blocking(move || {
        let mut rows = match notes.scan().rows() {
            Ok(rows) => rows,
            Err(error) => return drop(sender.blocking_send(Err(error))),
        };
        loop {
            let batch: nyala::Result<Vec<Row>> = rows.by_ref().take(ROWS).collect();
            let is_end = batch.as_ref().map_or(true, Vec::is_empty);
            if sender.blocking_send(batch).is_err() || is_end {
                return;
            }
        }
    });
    receiver
}

/// Runs something that may block where that harms nobody.
async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> nyala::Result<T> + Send + 'static,
) -> nyala::Result<T> {
    spawn_blocking(call).await.expect("it does not panic")
}
