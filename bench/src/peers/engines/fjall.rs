//! fjall: one keyspace.
//!
//! Its documentation calls the counters that tell whether it is idle experimental; they are the only ones.

use std::ops::Bound;
use std::path::Path;

use anyhow::Context;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    HashRatioPolicy, PinningPolicy,
};
use fjall::{
    CompressionType, Database, Guard, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode,
};

use crate::peers::rows::{self, Batch, Key, Value};
use crate::peers::store::{
    Columns, Durability, Reader, Scan, SeeRow, Setting, Setup, Start, Store, Taste, Writer, setting,
};

const DATABASE: &str = "https://docs.rs/fjall/latest/fjall/struct.DatabaseBuilder.html";
const KEYSPACE: &str = "https://docs.rs/fjall/latest/fjall/struct.KeyspaceCreateOptions.html";
const BATCH: &str = "https://docs.rs/fjall/latest/fjall/struct.OwnedWriteBatch.html";
const SEPARATION: &str = "https://docs.rs/fjall/latest/fjall/struct.KvSeparationOptions.html";

/// Values as large as this are kept apart from the keys, if somebody argues for fjall.
const SEPARATED_BYTES: usize = 512;

/// Writers go on until four memtables wait for a flush beside the active one; mostly one does.
fn memtable_bytes(setup: &Setup) -> u64 {
    let share = match setup.taste {
        Taste::Documented => 8,
        Taste::Argued => 4,
    };
    (setup.memory / share).max(1 << 10) as u64
}

fn cache_bytes(setup: &Setup) -> u64 {
    (setup.memory / 2) as u64
}

fn block_bytes(setup: &Setup) -> u32 {
    match setup.taste {
        Taste::Documented => 4 << 10,
        Taste::Argued => 8 << 10,
    }
}

fn separates(setup: &Setup) -> bool {
    setup.taste == Taste::Argued && setup.rows.value_bytes() >= SEPARATED_BYTES
}

/// What is set.
pub(in crate::peers) fn settings(setup: &Setup) -> Vec<Setting> {
    let mut settings = vec![
        setting("cache_size", cache_bytes(setup), DATABASE),
        setting("worker_threads", "one a processor, at most 4 (default)", DATABASE),
        setting("max_journaling_size", "512 MiB (default)", DATABASE),
        setting("max_memtable_size", memtable_bytes(setup), KEYSPACE),
        setting("data_block_size_policy", block_bytes(setup), KEYSPACE),
        setting("filter_policy", "10 bits a key; in L0 one mistake in 10,000 (default)", KEYSPACE),
        setting("data_block_compression_policy", "none in L0 and L1, LZ4 below (default)", KEYSPACE),
        setting("compaction_strategy", "Leveled (default)", KEYSPACE),
        setting("durability", format!("{:?}", persist_mode(setup)), BATCH),
    ];
    if setup.taste == Taste::Argued {
        settings.extend([
            setting("index_block_pinning_policy, filter_block_pinning_policy", "all levels", KEYSPACE),
            setting("data_block_hash_ratio_policy", "0.75", KEYSPACE),
        ]);
    }
    if separates(setup) {
        settings.push(setting("with_kv_separation", format!("from {SEPARATED_BYTES} bytes on"), SEPARATION));
    }
    settings
}

fn persist_mode(setup: &Setup) -> PersistMode {
    match setup.durability {
        Durability::Buffered => PersistMode::Buffer,
        Durability::Synced => PersistMode::SyncData,
    }
}

fn keyspace_options(setup: &Setup) -> KeyspaceCreateOptions {
    let bloom = |policy| FilterPolicyEntry::Bloom(policy);
    let mut options = KeyspaceCreateOptions::default()
        .max_memtable_size(memtable_bytes(setup))
        .data_block_size_policy(BlockSizePolicy::all(block_bytes(setup)))
        .filter_policy(FilterPolicy::new([
            bloom(BloomConstructionPolicy::FalsePositiveRate(0.0001)),
            bloom(BloomConstructionPolicy::BitsPerKey(10.0)),
        ]))
        .data_block_compression_policy(CompressionPolicy::new([
            CompressionType::None,
            CompressionType::None,
            CompressionType::Lz4,
        ]));
    if setup.taste == Taste::Argued {
        options = options
            .index_block_pinning_policy(PinningPolicy::all(true))
            .filter_block_pinning_policy(PinningPolicy::all(true))
            .data_block_hash_ratio_policy(HashRatioPolicy::all(0.75));
    }
    if separates(setup) {
        let separation = KvSeparationOptions::default()
            .separation_threshold(SEPARATED_BYTES as u32)
            .compression(CompressionType::Lz4);
        options = options.with_kv_separation(Some(separation));
    }
    options
}

pub(in crate::peers) struct Fjall {
    database: Database,
    keyspace: Keyspace,
    durability: PersistMode,
}

impl Fjall {
    pub(in crate::peers) fn open(setup: &Setup) -> anyhow::Result<Fjall> {
        let database = Database::builder(&setup.folder).cache_size(cache_bytes(setup)).open()?;
        let keyspace = database.keyspace("rows", || keyspace_options(setup))?;
        Ok(Fjall { database, keyspace, durability: persist_mode(setup) })
    }
}

impl Store for Fjall {
    fn writer(&self) -> anyhow::Result<Box<dyn Writer + '_>> {
        Ok(Box::new(FjallWriter(self)))
    }

    fn reader(&self) -> anyhow::Result<Box<dyn Reader + '_>> {
        Ok(Box::new(FjallReader(&self.keyspace)))
    }

    fn flush(&self) -> anyhow::Result<()> {
        self.keyspace.rotate_memtable_and_wait()?;
        Ok(())
    }

    fn is_idle(&self) -> anyhow::Result<bool> {
        let waiting = self.database.outstanding_flushes() + self.keyspace.sealed_memtable_count();
        Ok(waiting + self.database.active_compactions() == 0)
    }

    fn is_log(&self, file: &Path) -> bool {
        file.extension().is_some_and(|extension| extension == "jnl")
    }

    fn close(self: Box<Self>) -> anyhow::Result<()> {
        self.database.persist(PersistMode::SyncAll)?;
        Ok(())
    }
}

struct FjallWriter<'s>(&'s Fjall);

impl Writer for FjallWriter<'_> {
    fn write(&mut self, batch: &Batch) -> anyhow::Result<()> {
        let fjall = self.0;
        let mut writes = fjall::OwnedWriteBatch::with_capacity(fjall.database.clone(), batch.iter().len())
            .durability(Some(fjall.durability));
        for (key, value) in batch.iter() {
            writes.insert(&fjall.keyspace, key.encode(), value);
        }
        Ok(writes.commit()?)
    }
}

struct FjallReader<'s>(&'s Keyspace);

impl Reader for FjallReader<'_> {
    fn refresh(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn get(&mut self, key: &Key, see: &mut dyn FnMut(Value<'_>)) -> anyhow::Result<bool> {
        let value = self.0.get(key.encode())?;
        if let Some(value) = &value {
            see(Value::split(value).context("a short value")?);
        }
        Ok(value.is_some())
    }

    fn scan(&mut self, scan: Scan, see: &mut SeeRow<'_>) -> anyhow::Result<u64> {
        let limit = usize::try_from(scan.limit).unwrap_or(usize::MAX);
        let mut count = 0;
        let mut visit = |guard: Guard| {
            count += 1;
            if scan.columns == Columns::Keys {
                let (host, time) = rows::decode_key(&guard.key()?).context("no key")?;
                return see(host, time, None);
            }
            let (key, value) = guard.into_inner()?;
            let (host, time) = rows::decode_key(&key).context("no key")?;
            see(host, time, Some(Value::split(&value).context("a short value")?))
        };
        match scan.start {
            Start::First => self.0.iter().take(limit).try_for_each(&mut visit)?,
            Start::Last => self.0.iter().rev().take(limit).try_for_each(&mut visit)?,
            Start::At(key) => {
                let range = (Bound::Included(key.encode()), Bound::Unbounded);
                self.0.range(range).take(limit).try_for_each(&mut visit)?;
            }
        }
        Ok(count)
    }
}
