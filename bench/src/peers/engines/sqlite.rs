//! SQLite in WAL mode: a table of one key and one value, one connection that writes and one for each thread that reads.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use anyhow::Context;
use rusqlite::{Connection, Statement, params};

use crate::measure;
use crate::peers::rows::{self, Batch, KEY_BYTES, Key, Value};
use crate::peers::store::{
    Columns, Durability, Reader, Scan, SeeRow, Setting, Setup, Start, Store, Taste, Writer, setting,
};

/// SQLite recommends tables without a row id for rows of less than a twentieth of a page.
const WITHOUT_ROWID_BYTES: u64 = 4096 / 20;
/// So many pages of the log are written back at once: 64 MiB.
const CHECKPOINT_PAGES: u32 = 16_384;
/// How much of the file is mapped, if somebody argues for SQLite: all of it.
const MAP_BYTES: u64 = 1 << 40;

const WRITE: &str =
    "INSERT INTO rows (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";

fn is_without_rowid(setup: &Setup) -> bool {
    setup.rows.row_bytes() < WITHOUT_ROWID_BYTES
}

/// Each connection has a cache of its own: half of the memory for the one that writes, the rest for those that read.
fn cache_bytes(setup: &Setup) -> (usize, usize) {
    (setup.memory / 2, setup.memory / 2 / setup.threads.max(1))
}

fn synchronous(setup: &Setup) -> &'static str {
    match setup.durability {
        Durability::Buffered => "NORMAL",
        Durability::Synced => "FULL",
    }
}

fn map_bytes(setup: &Setup) -> u64 {
    match setup.taste {
        Taste::Documented => 0,
        Taste::Argued => MAP_BYTES,
    }
}

/// What is set.
pub(in crate::peers) fn settings(setup: &Setup) -> Vec<Setting> {
    const WAL: &str = "https://www.sqlite.org/wal.html";
    const PRAGMA: &str = "https://www.sqlite.org/pragma.html";
    let (writer, reader) = cache_bytes(setup);
    vec![
        setting("journal_mode", "WAL", WAL),
        setting("synchronous", synchronous(setup), "https://www.sqlite.org/pragma.html#pragma_synchronous"),
        setting("wal_autocheckpoint", CHECKPOINT_PAGES, WAL),
        setting(
            "cache_size",
            format!("{writer} bytes to write, {reader} for each thread that reads"),
            "https://www.sqlite.org/pragma.html#pragma_cache_size",
        ),
        setting("WITHOUT ROWID", is_without_rowid(setup), "https://www.sqlite.org/withoutrowid.html"),
        setting("mmap_size", map_bytes(setup), "https://www.sqlite.org/mmap.html"),
        setting("locking", "one connection writes, behind a lock", PRAGMA),
        setting("compression, filters", "it has none", "https://www.sqlite.org/fileformat2.html"),
    ]
}

pub(in crate::peers) struct Sqlite {
    file: PathBuf,
    setup: Setup,
    writer: Mutex<Connection>,
}

fn connect(file: &Path, setup: &Setup, cache_bytes: usize) -> anyhow::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(std::time::Duration::from_secs(60))?;
    let kibibytes = i64::try_from(cache_bytes / 1024)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", synchronous(setup))?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "cache_size", -kibibytes)?;
    connection.pragma_update(None, "mmap_size", i64::try_from(map_bytes(setup))?)?;
    Ok(connection)
}

impl Sqlite {
    pub(in crate::peers) fn open(setup: &Setup) -> anyhow::Result<Sqlite> {
        measure::make_folder(&setup.folder)?;
        let file = setup.folder.join("rows.sqlite");
        let connection = connect(&file, setup, cache_bytes(setup).0)?;
        let without_rowid = if is_without_rowid(setup) { "WITHOUT ROWID" } else { "" };
        connection.execute_batch(&format!(
            "CREATE TABLE IF NOT EXISTS rows (key BLOB NOT NULL PRIMARY KEY, value BLOB NOT NULL) {without_rowid}"
        ))?;
        Ok(Sqlite { file, setup: setup.clone(), writer: Mutex::new(connection) })
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.writer.lock().expect("nobody panics with it")
    }
}

impl Store for Sqlite {
    fn writer(&self) -> anyhow::Result<Box<dyn Writer + '_>> {
        Ok(Box::new(SqliteWriter(self)))
    }

    fn reader(&self) -> anyhow::Result<Box<dyn Reader + '_>> {
        let connection = connect(&self.file, &self.setup, cache_bytes(&self.setup).1)?;
        Ok(Box::new(SqliteReader { connection, is_reading: false }))
    }

    fn flush(&self) -> anyhow::Result<()> {
        Ok(self.lock().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    }

    fn is_idle(&self) -> anyhow::Result<bool> {
        Ok(true)
    }

    fn is_log(&self, file: &Path) -> bool {
        file.to_string_lossy().ends_with("-wal")
    }

    fn close(self: Box<Self>) -> anyhow::Result<()> {
        let connection = self.writer.into_inner().expect("nobody panics with it");
        connection.close().map_err(|(_, error)| error.into())
    }
}

struct SqliteWriter<'s>(&'s Sqlite);

impl Writer for SqliteWriter<'_> {
    fn write(&mut self, batch: &Batch) -> anyhow::Result<()> {
        let mut connection = self.0.lock();
        let transaction = connection.transaction()?;
        {
            let mut statement = transaction.prepare_cached(WRITE)?;
            for (key, value) in batch.iter() {
                statement.execute(params![&key.encode()[..], value])?;
            }
        }
        Ok(transaction.commit()?)
    }
}

struct SqliteReader {
    connection: Connection,
    is_reading: bool,
}

impl SqliteReader {
    /// Reads go through one transaction until the next refresh.
    fn begin(&mut self) -> anyhow::Result<()> {
        if !self.is_reading {
            self.connection.prepare_cached("BEGIN")?.execute([])?;
            self.is_reading = true;
        }
        Ok(())
    }
}

impl Reader for SqliteReader {
    fn refresh(&mut self) -> anyhow::Result<()> {
        if self.is_reading {
            self.connection.prepare_cached("COMMIT")?.execute([])?;
            self.is_reading = false;
        }
        Ok(())
    }

    fn get(&mut self, key: &Key, see: &mut dyn FnMut(Value<'_>)) -> anyhow::Result<bool> {
        self.begin()?;
        let mut statement = self.connection.prepare_cached("SELECT value FROM rows WHERE key = ?1")?;
        let mut found = statement.query(params![&key.encode()[..]])?;
        let Some(row) = found.next()? else { return Ok(false) };
        see(Value::split(row.get_ref(0)?.as_blob()?).context("a short value")?);
        Ok(true)
    }

    fn scan(&mut self, scan: Scan, see: &mut SeeRow<'_>) -> anyhow::Result<u64> {
        self.begin()?;
        let limit = i64::try_from(scan.limit).unwrap_or(i64::MAX);
        let (order, from) = match scan.start {
            Start::First => ("ASC", [0; KEY_BYTES]),
            Start::At(key) => ("ASC", key.encode()),
            Start::Last => ("DESC", [0; KEY_BYTES]),
        };
        let columns = match scan.columns {
            Columns::All => "key, value",
            Columns::Keys => "key",
        };
        let text = format!("SELECT {columns} FROM rows WHERE key >= ?1 ORDER BY key {order} LIMIT ?2");
        let mut statement = self.connection.prepare_cached(&text)?;
        scan_rows(&mut statement, &from, limit, scan.columns, see)
    }
}

fn scan_rows(
    statement: &mut Statement<'_>,
    from: &[u8],
    limit: i64,
    columns: Columns,
    see: &mut SeeRow<'_>,
) -> anyhow::Result<u64> {
    let mut found = statement.query(params![from, limit])?;
    let mut count = 0;
    while let Some(row) = found.next()? {
        let (host, time) = rows::decode_key(row.get_ref(0)?.as_blob()?).context("no key")?;
        let value = match columns {
            Columns::Keys => None,
            Columns::All => Some(Value::split(row.get_ref(1)?.as_blob()?).context("a short value")?),
        };
        count += 1;
        see(host, time, value)?;
    }
    Ok(count)
}
