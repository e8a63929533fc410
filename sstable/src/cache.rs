//! Blocks of all open files, kept in memory up to a number of bytes.
//!
//! Two pools share one total: blocks of the index (keyed blocks, index partitions, filters) and blocks of rows. Rows
//! get what the index leaves, and at least a sixteenth, so that reading many rows never drives out the index, which
//! every read needs. A block is loaded once however many ask for it at the same time.
//!
//! Invariant: both pools together hold at most the total; a load in flight may stand beside it.
//! Never reads a file: the caller loads.

use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use codec::FileId;
use quick_cache::sync::{Cache as Pool, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use sync::Mutex;

use crate::block::{Block, Shape};
use crate::error::Result;

/// What a block takes beside its bytes: itself, its counts, and its place in the pool.
const BLOCK_OVERHEAD_BYTES: u64 = 160;
/// A shard this large takes the largest usual block: a partition of a filter.
const SHARD_BYTES_MIN: usize = 2 << 20;
const SHARDS_MAX: usize = 16;
/// The index takes at most all but one of so many parts, and gives way to rows in such steps.
const PARTS: u64 = 16;
const STEPS: u64 = 64;

/// Where a block lies: file numbers are never used twice, so neither is a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    file: u64,
    offset: u64,
}

#[derive(Clone, Debug)]
struct ByBytes;

impl Weighter<Place, Arc<Block>> for ByBytes {
    fn weight(&self, _: &Place, block: &Arc<Block>) -> u64 {
        block.bytes.capacity() as u64 + BLOCK_OVERHEAD_BYTES
    }
}

/// Mixes two numbers; `std`'s default takes longer than the look-up itself.
#[derive(Clone, Copy, Debug, Default)]
struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }
}

type Blocks = Pool<Place, Arc<Block>, ByBytes, BuildHasherDefault<PlaceHasher>>;

/// What a cache did and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Blocks asked for and found.
    pub hits: u64,
    /// Blocks asked for and not found.
    pub misses: u64,
    /// Bytes held, with a rough cost of keeping each block.
    pub bytes_used: u64,
    /// Of those, bytes of index blocks, filters and keyed blocks.
    pub index_bytes_used: u64,
    /// What it may hold.
    pub bytes_max: u64,
}

/// Counters apart from one another in memory, so that threads that read different blocks do not wait for one line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Keeps blocks of any number of files of one directory, whose numbers tell them apart.
///
/// ```
/// let cache = nyala_sstable::Cache::new(64 << 20);
/// assert_eq!(cache.stats().bytes_used, 0);
/// assert_eq!(cache.stats().bytes_max, 64 << 20);
/// ```
pub struct Cache {
    bytes_max: u64,
    index: Blocks,
    rows: Blocks,
    /// How many steps of the total the rows have given way to the index.
    steps: Mutex<u64>,
    counters: [Counters; 16],
}

impl Cache {
    /// A cache of at most `bytes_max` bytes. 0 keeps nothing.
    #[must_use]
    pub fn new(bytes_max: usize) -> Arc<Cache> {
        let shards = (bytes_max / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        let pool = |bytes: u64| {
            // The estimate sizes no table, only the memory of what was lately let go.
            let options = OptionsBuilder::new()
                .shards(shards)
                .estimated_items_capacity((bytes_max / 4096).max(32 * shards))
                .weight_capacity(bytes)
                .build()
                .expect("capacities are given");
            Pool::with_options(options, ByBytes, BuildHasherDefault::default(), DefaultLifecycle::default())
        };
        let bytes_max = bytes_max as u64;
        // Shards round up; taking one byte a shard off keeps the sum below the total.
        let rounding = 2 * shards as u64;
        let rows_min = bytes_max / PARTS;
        Arc::new(Cache {
            bytes_max,
            index: pool((bytes_max - rows_min).saturating_sub(rounding)),
            rows: pool(bytes_max.saturating_sub(rounding)),
            steps: Mutex::new(0),
            counters: Default::default(),
        })
    }

    /// What it did and holds now.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let sum = |counter: fn(&Counters) -> &AtomicU64| {
            self.counters.iter().map(|counters| counter(counters).load(Ordering::Relaxed)).sum()
        };
        let index_bytes_used = self.index.weight();
        CacheStats {
            hits: sum(|counters| &counters.hits),
            misses: sum(|counters| &counters.misses),
            bytes_used: index_bytes_used + self.rows.weight(),
            index_bytes_used,
            bytes_max: self.bytes_max,
        }
    }

    /// Lets go of all blocks of a file, once nobody reads it any more. Looks at every block that is held.
    pub fn forget(&self, file: FileId) {
        self.index.retain(|place, _| place.file != file.0);
        self.rows.retain(|place, _| place.file != file.0);
        self.share();
    }

    fn pool(&self, shape: Shape) -> &Blocks {
        if shape == Shape::Ordinal { &self.rows } else { &self.index }
    }

    #[inline]
    fn counters(&self, offset: u64) -> &Counters {
        &self.counters[(offset >> 12) as usize % self.counters.len()]
    }

    /// The block, if it is held.
    #[inline]
    pub(crate) fn get(&self, shape: Shape, file: FileId, offset: u64) -> Option<Arc<Block>> {
        let found = self.pool(shape).get(&Place { file: file.0, offset });
        let counters = self.counters(offset);
        let counter = if found.is_some() { &counters.hits } else { &counters.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Whether the block is held; leaves no trace.
    pub(crate) fn holds(&self, shape: Shape, file: FileId, offset: u64) -> bool {
        self.pool(shape).contains_key(&Place { file: file.0, offset })
    }

    /// The block; loaded, once for all who ask, if it is not held. An error is nobody else's: the next loads again.
    #[inline]
    pub(crate) fn get_or_load(
        &self,
        shape: Shape,
        file: FileId,
        offset: u64,
        load: impl FnOnce() -> Result<Arc<Block>>,
    ) -> Result<Arc<Block>> {
        match self.get(shape, file, offset) {
            Some(block) => Ok(block),
            None => {
                let block = self.pool(shape).get_or_insert_with(&Place { file: file.0, offset }, load)?;
                self.inserted(shape);
                Ok(block)
            }
        }
    }

    /// Keeps a block that was loaded otherwise.
    pub(crate) fn insert(&self, shape: Shape, block: &Arc<Block>) {
        self.pool(shape).insert(Place { file: block.file.0, offset: block.offset }, Arc::clone(block));
        self.inserted(shape);
    }

    fn inserted(&self, shape: Shape) {
        if shape != Shape::Ordinal {
            self.share();
        }
    }

    /// Gives the rows what the index leaves. In steps, because a change goes through all shards.
    fn share(&self) {
        let mut steps = self.steps.lock();
        let step = (self.bytes_max / STEPS).max(1);
        let wanted = self.index.weight().div_ceil(step);
        if *steps == wanted {
            return;
        }
        *steps = wanted;
        let rows_min = self.bytes_max / PARTS;
        let rounding = 2 * self.rows.num_shards() as u64;
        let rows = self.bytes_max.saturating_sub(wanted * step).max(rows_min).saturating_sub(rounding);
        self.rows.set_capacity(rows);
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
