//! LMDB through heed: the unnamed database of an environment.
//!
//! It has no write-ahead log: a commit writes pages. Without a sync what the operating system has survives the end of
//! the process, as a buffered log does; a loss of power may damage the whole file, which a buffered log does not.
#![expect(unsafe_code, reason = "a memory-mapped file is only sound as long as nobody else changes it")]

use std::ops::Bound;
use std::path::Path;

use anyhow::{Context, anyhow};
use heed::types::{Bytes, DecodeIgnore};
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, RoTxn, WithTls};

use crate::measure;
use crate::peers::rows::{self, Batch, KEY_BYTES, Key, Value};
use crate::peers::store::{
    Columns, Durability, Reader, Scan, SeeRow, Setting, Setup, Start, Store, Taste, Writer, setting,
};

/// The map has to be larger than the file ever gets. It takes addresses, and no memory.
fn map_bytes(setup: &Setup) -> usize {
    let rows = usize::try_from(setup.rows.count() * setup.rows.row_bytes()).unwrap_or(usize::MAX >> 8);
    (8 * rows + (4 << 30)).next_multiple_of(1 << 20)
}

fn flags(setup: &Setup) -> EnvFlags {
    let sync = match setup.durability {
        Durability::Buffered => EnvFlags::NO_SYNC,
        Durability::Synced => EnvFlags::empty(),
    };
    match setup.taste {
        Taste::Documented => sync,
        Taste::Argued => sync | EnvFlags::WRITE_MAP | EnvFlags::NO_MEM_INIT,
    }
}

/// What is set.
pub(in crate::peers) fn settings(setup: &Setup) -> Vec<Setting> {
    const OPEN: &str = "http://www.lmdb.tech/doc/group__mdb.html#ga32a193c6bf4d7d5c5d579e71f22e9340";
    const SIZE: &str = "http://www.lmdb.tech/doc/group__mdb.html#gaa2506ec8dab3d969b0e609cd82e619e5";
    const CAVEATS: &str = "http://www.lmdb.tech/doc/index.html";
    vec![
        setting("mdb_env_set_mapsize", map_bytes(setup), SIZE),
        setting("mdb_env_open flags", format!("{:?}", flags(setup)), OPEN),
        setting("transactions that read", "one for up to 100 reads", CAVEATS),
        setting("cache", "that of the operating system, as large as it likes", CAVEATS),
        setting("compression, filters, write-ahead log", "it has none", CAVEATS),
    ]
}

pub(in crate::peers) struct Lmdb {
    env: Env,
    database: Database<'static, Bytes, Bytes>,
}

impl Lmdb {
    pub(in crate::peers) fn open(setup: &Setup) -> anyhow::Result<Lmdb> {
        measure::make_folder(&setup.folder)?;
        let mut options = EnvOpenOptions::new();
        options.map_size(map_bytes(setup)).max_readers(126);
        // SAFETY: the folder is the benchmark's own; nobody opens it but one process at a time, which never changes the
        // file but through LMDB. The flags only give up what a loss of power would leave.
        let env = unsafe { options.flags(flags(setup)).open(&setup.folder) }?;
        let transaction = env.write_txn()?;
        let database = env.create_databases_and_commit(transaction, |opener, transaction| {
            let database = opener.create_database::<Bytes, Bytes>(transaction, None)?;
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(database))
        })?;
        let database = database.commit().ok_or_else(|| anyhow!("the database was not made"))?;
        Ok(Lmdb { env, database })
    }
}

impl Store for Lmdb {
    fn writer(&self) -> anyhow::Result<Box<dyn Writer + '_>> {
        Ok(Box::new(LmdbWriter(self)))
    }

    fn reader(&self) -> anyhow::Result<Box<dyn Reader + '_>> {
        Ok(Box::new(LmdbReader { lmdb: self, transaction: None }))
    }

    fn flush(&self) -> anyhow::Result<()> {
        Ok(self.env.force_sync()?)
    }

    fn is_idle(&self) -> anyhow::Result<bool> {
        Ok(true)
    }

    fn is_log(&self, _: &Path) -> bool {
        false
    }

    fn close(self: Box<Self>) -> anyhow::Result<()> {
        self.env.force_sync()?;
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

struct LmdbWriter<'s>(&'s Lmdb);

impl Writer for LmdbWriter<'_> {
    fn write(&mut self, batch: &Batch) -> anyhow::Result<()> {
        let mut transaction = self.0.env.write_txn()?;
        for (key, value) in batch.iter() {
            self.0.database.put(&mut transaction, &key.encode()[..], value)?;
        }
        Ok(transaction.commit()?)
    }
}

struct LmdbReader<'s> {
    lmdb: &'s Lmdb,
    transaction: Option<RoTxn<'s, WithTls>>,
}

impl<'s> LmdbReader<'s> {
    fn transaction(&mut self) -> anyhow::Result<&RoTxn<'s, WithTls>> {
        if self.transaction.is_none() {
            self.transaction = Some(self.lmdb.env.read_txn()?);
        }
        Ok(self.transaction.as_ref().expect("it just began"))
    }
}

impl Reader for LmdbReader<'_> {
    fn refresh(&mut self) -> anyhow::Result<()> {
        self.transaction = None;
        Ok(())
    }

    fn get(&mut self, key: &Key, see: &mut dyn FnMut(Value<'_>)) -> anyhow::Result<bool> {
        let database = self.lmdb.database;
        let value = database.get(self.transaction()?, &key.encode()[..])?;
        if let Some(value) = value {
            see(Value::split(value).context("a short value")?);
        }
        Ok(value.is_some())
    }

    fn scan(&mut self, scan: Scan, see: &mut SeeRow<'_>) -> anyhow::Result<u64> {
        let database = self.lmdb.database;
        let transaction = self.transaction()?;
        let limit = usize::try_from(scan.limit).unwrap_or(usize::MAX);
        let mut count = 0;
        if scan.columns == Columns::Keys {
            let from = match scan.start {
                Start::At(key) => key.encode(),
                Start::First => [0; KEY_BYTES],
                Start::Last => return Err(anyhow!("keys are scanned forwards")),
            };
            let database = database.remap_data_type::<DecodeIgnore>();
            let range = (Bound::Included(&from[..]), Bound::Unbounded);
            for entry in database.range(transaction, &range)?.take(limit) {
                let (host, time) = rows::decode_key(entry?.0).context("no key")?;
                count += 1;
                see(host, time, None)?;
            }
            return Ok(count);
        }
        let mut visit = |entry: heed::Result<(&[u8], &[u8])>| {
            let (key, value) = entry?;
            let (host, time) = rows::decode_key(key).context("no key")?;
            count += 1;
            see(host, time, Some(Value::split(value).context("a short value")?))
        };
        match scan.start {
            Start::First => database.iter(transaction)?.take(limit).try_for_each(&mut visit)?,
            Start::Last => database.rev_iter(transaction)?.take(limit).try_for_each(&mut visit)?,
            Start::At(key) => {
                let from = key.encode();
                let range = (Bound::Included(&from[..]), Bound::Unbounded);
                database.range(transaction, &range)?.take(limit).try_for_each(&mut visit)?;
            }
        }
        Ok(count)
    }
}
