//! RocksDB through its crate, which builds it from source: the default column family.

use std::path::Path;

use anyhow::Context;
use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, CompactionPri, DB, DBCompactionStyle, DBCompressionType,
    DBRawIterator, DataBlockIndexType, Options, ReadOptions, WriteBatch, WriteBufferManager, WriteOptions,
    properties,
};

use crate::peers::rows::{self, Batch, KEY_BYTES, Key, Value};
use crate::peers::store::{
    Columns, Durability, Reader, Scan, SeeRow, Setting, Setup, Start, Store, Taste, Writer, setting,
};

const BASIC: &str = "https://github.com/facebook/rocksdb/wiki/Setup-Options-and-Basic-Tuning";
const GUIDE: &str = "https://github.com/facebook/rocksdb/wiki/RocksDB-Tuning-Guide";
const MANAGER: &str = "https://github.com/facebook/rocksdb/wiki/Write-Buffer-Manager";
const CACHE: &str = "https://github.com/facebook/rocksdb/wiki/Block-Cache";
const FILTER: &str = "https://github.com/facebook/rocksdb/wiki/RocksDB-Bloom-Filter";
const COMPRESSION: &str = "https://github.com/facebook/rocksdb/wiki/Compression";
const UNIVERSAL: &str = "https://github.com/facebook/rocksdb/wiki/Universal-Compaction";
const PARTITIONED: &str = "https://github.com/facebook/rocksdb/wiki/Partitioned-Index-Filters";
const DIRECT: &str = "https://github.com/facebook/rocksdb/wiki/Direct-IO";
const HASH: &str = "https://github.com/facebook/rocksdb/wiki/Data-Block-Hash-Index";
const PIPELINED: &str = "https://github.com/facebook/rocksdb/wiki/Pipelined-Write";
const BASIC_OPERATIONS: &str = "https://github.com/facebook/rocksdb/wiki/Basic-Operations";

const BITS_PER_KEY: f64 = 10.0;
/// Of L0, at which it is merged into L1: the default.
const L0_FILES: usize = 4;

/// The sizes that both the options and what is said of them come from.
struct Sizes {
    write_buffer: usize,
    write_buffers: usize,
    block: usize,
    background_jobs: usize,
}

impl Sizes {
    fn of(setup: &Setup) -> Sizes {
        let background_jobs = std::thread::available_parallelism().map_or(2, std::num::NonZero::get).max(4);
        // All write buffers together take half of the memory.
        match setup.taste {
            Taste::Documented => {
                Sizes { write_buffer: setup.memory / 8, write_buffers: 4, block: 4 << 10, background_jobs }
            }
            Taste::Argued => {
                Sizes { write_buffer: setup.memory / 4, write_buffers: 3, block: 16 << 10, background_jobs }
            }
        }
    }

    /// As large as L0 when it is merged into it.
    fn level_base(&self) -> usize {
        self.write_buffer * L0_FILES
    }
}

/// What is set.
pub(in crate::peers) fn settings(setup: &Setup) -> Vec<Setting> {
    let sizes = Sizes::of(setup);
    let memory = setup.memory;
    let mut settings = vec![
        setting("block_cache", format!("HyperClockCache of {memory} bytes, write buffers included"), CACHE),
        setting("write_buffer_manager", format!("{} bytes, charged to the cache", memory / 2), MANAGER),
        setting("write_buffer_size", sizes.write_buffer, GUIDE),
        setting("max_write_buffer_number", sizes.write_buffers, GUIDE),
        setting("max_background_jobs", sizes.background_jobs, BASIC),
        setting("bytes_per_sync", 1 << 20, BASIC),
        setting("compression", "LZ4 on all levels", COMPRESSION),
        setting("block_size", sizes.block, BASIC),
        setting("cache_index_and_filter_blocks", "true, with high priority", BASIC),
        setting("pin_l0_filter_and_index_blocks_in_cache", true, BASIC),
        setting("filter", format!("Bloom, {BITS_PER_KEY} bits a key"), FILTER),
        setting("WriteOptions.sync", setup.durability == Durability::Synced, BASIC_OPERATIONS),
    ];
    match setup.taste {
        Taste::Documented => settings.extend([
            setting("compaction_style", "level, with dynamic sizes of levels", BASIC),
            setting("compaction_pri", "kMinOverlappingRatio", BASIC),
            setting("max_bytes_for_level_base", sizes.level_base(), GUIDE),
            setting("target_file_size_base", sizes.write_buffer, GUIDE),
        ]),
        Taste::Argued => settings.extend([
            setting("compaction_style", "universal", UNIVERSAL),
            setting("use_direct_io_for_flush_and_compaction", true, DIRECT),
            setting("index_type, partition_filters", "kTwoLevelIndexSearch, true", PARTITIONED),
            setting("data_block_index_type", "kDataBlockBinaryAndHash, 0.75", HASH),
            setting("enable_pipelined_write", true, PIPELINED),
        ]),
    }
    settings
}

fn table_options(setup: &Setup, cache: &Cache) -> BlockBasedOptions {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(cache);
    table.set_block_size(Sizes::of(setup).block);
    table.set_cache_index_and_filter_blocks(true);
    table.set_cache_index_and_filter_blocks_with_high_priority(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    table.set_bloom_filter(BITS_PER_KEY, false);
    if setup.taste == Taste::Argued {
        table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
        table.set_partition_filters(true);
        table.set_pin_top_level_index_and_filter(true);
        table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
        table.set_data_block_hash_ratio(0.75);
    }
    table
}

fn options(setup: &Setup) -> Options {
    let sizes = Sizes::of(setup);
    let cache = Cache::new_hyper_clock_cache(setup.memory, 0);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table_options(setup, &cache));
    let manager = WriteBufferManager::new_write_buffer_manager_with_cache(setup.memory / 2, false, cache);
    options.set_write_buffer_manager(&manager);
    options.set_write_buffer_size(sizes.write_buffer);
    options.set_max_write_buffer_number(sizes.write_buffers as i32);
    options.set_max_background_jobs(sizes.background_jobs as i32);
    options.set_bytes_per_sync(1 << 20);
    options.set_compression_type(DBCompressionType::Lz4);
    match setup.taste {
        Taste::Documented => {
            options.set_level_compaction_dynamic_level_bytes(true);
            options.set_compaction_pri(CompactionPri::MinOverlappingRatio);
            options.set_level_zero_file_num_compaction_trigger(L0_FILES as i32);
            options.set_max_bytes_for_level_base(sizes.level_base() as u64);
            options.set_target_file_size_base(sizes.write_buffer as u64);
        }
        Taste::Argued => {
            options.set_compaction_style(DBCompactionStyle::Universal);
            options.set_use_direct_io_for_flush_and_compaction(true);
            options.set_enable_pipelined_write(true);
        }
    }
    options
}

pub(in crate::peers) struct RocksDb {
    db: DB,
    durability: Durability,
}

impl RocksDb {
    pub(in crate::peers) fn open(setup: &Setup) -> anyhow::Result<RocksDb> {
        let db = DB::open(&options(setup), &setup.folder)?;
        Ok(RocksDb { db, durability: setup.durability })
    }
}

impl Store for RocksDb {
    fn writer(&self) -> anyhow::Result<Box<dyn Writer + '_>> {
        let mut options = WriteOptions::default();
        options.set_sync(self.durability == Durability::Synced);
        Ok(Box::new(RocksDbWriter { db: &self.db, options }))
    }

    fn reader(&self) -> anyhow::Result<Box<dyn Reader + '_>> {
        Ok(Box::new(RocksDbReader { db: &self.db, options: ReadOptions::default() }))
    }

    fn flush(&self) -> anyhow::Result<()> {
        Ok(self.db.flush()?)
    }

    fn is_idle(&self) -> anyhow::Result<bool> {
        let waiting = [
            properties::NUM_RUNNING_COMPACTIONS,
            properties::COMPACTION_PENDING,
            properties::NUM_RUNNING_FLUSHES,
            properties::MEM_TABLE_FLUSH_PENDING,
        ];
        for property in waiting {
            if self.db.property_int_value(property)?.context("RocksDB does not know its property")? != 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_log(&self, file: &Path) -> bool {
        file.extension().is_some_and(|extension| extension == "log")
    }

    fn close(self: Box<Self>) -> anyhow::Result<()> {
        // A close alone leaves what is in memory to the log; the others bring it to their files.
        self.db.flush()?;
        self.db.cancel_all_background_work(true);
        Ok(())
    }
}

struct RocksDbWriter<'s> {
    db: &'s DB,
    options: WriteOptions,
}

impl Writer for RocksDbWriter<'_> {
    fn write(&mut self, batch: &Batch) -> anyhow::Result<()> {
        let value_bytes = batch.iter().next().map_or(0, |(_, value)| value.len());
        let mut writes =
            WriteBatch::with_capacity_bytes(16 + batch.iter().len() * (KEY_BYTES + value_bytes + 8));
        for (key, value) in batch.iter() {
            writes.put(key.encode(), value);
        }
        Ok(self.db.write_opt(writes, &self.options)?)
    }
}

struct RocksDbReader<'s> {
    db: &'s DB,
    options: ReadOptions,
}

impl Reader for RocksDbReader<'_> {
    fn refresh(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn get(&mut self, key: &Key, see: &mut dyn FnMut(Value<'_>)) -> anyhow::Result<bool> {
        let value = self.db.get_pinned_opt(key.encode(), &self.options)?;
        if let Some(value) = &value {
            see(Value::split(value).context("a short value")?);
        }
        Ok(value.is_some())
    }

    fn scan(&mut self, scan: Scan, see: &mut SeeRow<'_>) -> anyhow::Result<u64> {
        let mut options = ReadOptions::default();
        // A scan of everything would drive out what others read.
        options.fill_cache(matches!(scan.start, Start::At(_)));
        let mut iterator: DBRawIterator<'_> = self.db.raw_iterator_opt(options);
        match scan.start {
            Start::First => iterator.seek_to_first(),
            Start::Last => iterator.seek_to_last(),
            Start::At(key) => iterator.seek(key.encode()),
        }
        let mut count = 0;
        while count < scan.limit {
            let Some(key) = iterator.key() else { break };
            let (host, time) = rows::decode_key(key).context("no key")?;
            let value = match scan.columns {
                Columns::Keys => None,
                Columns::All => {
                    let value = iterator.value().context("a key without a value")?;
                    Some(Value::split(value).context("a short value")?)
                }
            };
            see(host, time, value)?;
            count += 1;
            match scan.start {
                Start::Last => iterator.prev(),
                Start::First | Start::At(_) => iterator.next(),
            }
        }
        iterator.status()?;
        Ok(count)
    }
}
