//! A small database on the simulated disk, with every structure in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nyala::vfs::{Fs, SimFs};
use nyala::{Compression, Durability, Engine, Options, RuntimeMode, Schema, Table, Type};

pub(crate) const DIR: &str = "/db";

/// Small blocks and files, nothing in the background but what is asked for, rows as they are.
pub(crate) fn options(disk: &SimFs) -> Options {
    Options {
        fs: Arc::new(disk.clone()),
        memory_bytes: 1 << 20,
        log_segment_bytes: 4096,
        index_block_bytes: 128,
        row_block_bytes: 256,
        compression: Compression::None,
        runtime: RuntimeMode::Inline { seed: 1 },
        ..Options::default()
    }
}

/// `name -> number, text`. The key is the last column: its bytes stand in the files as they are.
pub(crate) fn schema() -> Schema {
    let builder = Schema::builder().key("name", Type::String).column("number", Type::I64);
    builder.column("text", Type::String).build().expect("a good schema")
}

pub(crate) fn open(disk: &SimFs) -> Engine {
    Engine::open(DIR, options(disk)).expect("a sound database")
}

pub(crate) fn table(engine: &Engine) -> Table {
    engine.open_or_create_table("t", schema()).expect("a table")
}

/// The key of the row `n`, two letters: rows sort by number up to 26 * 26.
pub(crate) fn name(n: u32) -> String {
    let letter = |n: u32| char::from(b'a' + u8::try_from(n % 26).expect("below 26"));
    format!("{}{}", letter(n / 26), letter(n))
}

/// Rows `from..to` in one batch.
pub(crate) fn write(engine: &Engine, from: u32, to: u32) {
    let table = table(engine);
    let mut batch = engine.batch();
    for n in from..to {
        batch.upsert(&table, (name(n), i64::from(n), format!("text of {n}"))).expect("it fits");
    }
    batch.commit(Durability::Buffered).expect("a good disk");
}

/// A closed database of 60 rows in one rowset under one index file.
pub(crate) fn sixty_rows() -> SimFs {
    let disk = SimFs::new(1);
    let engine = open(&disk);
    write(&engine, 0, 60);
    engine.close().expect("a good disk");
    disk
}

/// The files of a kind, by number.
pub(crate) fn files(disk: &SimFs, extension: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = disk
        .paths()
        .into_iter()
        .filter(|path| path.starts_with(DIR) && path.extension().is_some_and(|kind| kind == extension))
        .collect();
    found.sort_by_key(|path| number(path));
    found
}

pub(crate) fn only(disk: &SimFs, extension: &str) -> PathBuf {
    let found = files(disk, extension);
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().expect("one")
}

pub(crate) fn number(path: &Path) -> u64 {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
    stem.parse().unwrap_or(0)
}

pub(crate) fn read(disk: &SimFs, path: &Path) -> Vec<u8> {
    disk.read(path, 1 << 30).expect("it is there")
}
