//! Blocks of all open files, kept in memory up to a number of bytes.
//!
//! Two pools share one total: blocks of the index (keyed blocks, index partitions, filters) and blocks of rows. Rows
//! get what the index leaves, and at least a sixteenth, so that reading many rows never drives out the index, which
//! every read needs. A block is loaded once however many ask for it at the same time.
//!
//! What files pin (`pinned`) counts against the total as well, and is at most half of what the total is at least. The
//! total may change at any time: an engine lends it what its memtables do not need.
//!
//! A pool that is full takes a block only when it is asked for a second time before long (`doorkeeper`): one that is
//! asked for once would only drive out another, and cost more than it spares.
//!
//! Invariant: the pools and what is pinned hold at most the total together; a load in flight may stand beside it.
//! Never reads a file: the caller loads.

mod doorkeeper;

use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use codec::FileId;
use quick_cache::sync::{Cache as Pool, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use sync::Mutex;

use crate::block::{Block, Shape};
use crate::error::Result;
use doorkeeper::Doorkeeper;

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
        weight(block)
    }
}

/// What a block counts.
fn weight(block: &Block) -> u64 {
    block.bytes.capacity() as u64 + BLOCK_OVERHEAD_BYTES
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
    /// Of those, bytes that stay as long as their files are open.
    pub pinned_bytes: u64,
    /// What it may hold now.
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
    /// The total.
    bytes_max: AtomicU64,
    /// What open files pin of it, and at most.
    pinned: AtomicU64,
    pinned_max: u64,
    index: Pooled,
    rows: Pooled,
    /// How many steps of the total the rows have given way to the index.
    steps: Mutex<u64>,
    doorkeeper: Doorkeeper,
    counters: [Counters; 16],
}

/// A pool, and how full it was when somebody looked.
struct Pooled {
    blocks: Blocks,
    /// Bytes that were put in since.
    inserted: AtomicU64,
    is_full: AtomicBool,
}

impl Pooled {
    /// Counts what was put in. True, about once for each `step` bytes.
    fn note_inserted(&self, bytes: u64, step: u64) -> bool {
        // Looking goes through all shards, which is too much for each block.
        if self.inserted.fetch_add(bytes, Ordering::Relaxed) + bytes < step {
            return false;
        }
        self.inserted.store(0, Ordering::Relaxed);
        true
    }

    fn look(&self, capacity: u64) {
        let is_full = self.blocks.weight() >= capacity - capacity / PARTS;
        self.is_full.store(is_full, Ordering::Relaxed);
    }
}

impl Cache {
    /// A cache of at most `bytes_max` bytes. 0 keeps nothing.
    #[must_use]
    pub fn new(bytes_max: usize) -> Arc<Cache> {
        let shards = (bytes_max / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        let pool = || {
            // The estimate sizes no table, only the memory of what was lately let go.
            let options = OptionsBuilder::new()
                .shards(shards)
                .estimated_items_capacity((bytes_max / 4096).max(32 * shards))
                .weight_capacity(0)
                .build()
                .expect("capacities are given");
            let blocks = Pool::with_options(
                options,
                ByBytes,
                BuildHasherDefault::default(),
                DefaultLifecycle::default(),
            );
            Pooled { blocks, inserted: AtomicU64::new(0), is_full: AtomicBool::new(false) }
        };
        let cache = Cache {
            bytes_max: AtomicU64::new(bytes_max as u64),
            pinned: AtomicU64::new(0),
            pinned_max: bytes_max as u64 / 2,
            index: pool(),
            rows: pool(),
            steps: Mutex::new(0),
            doorkeeper: Doorkeeper::default(),
            counters: Default::default(),
        };
        cache.resize();
        Arc::new(cache)
    }

    /// What it may hold now.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        usize::try_from(self.bytes_max.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    /// Changes what it may hold. What is too much goes at once; what files pin stays.
    pub fn set_bytes_max(&self, bytes_max: usize) {
        self.bytes_max.store(bytes_max as u64, Ordering::Relaxed);
        self.resize();
    }

    /// What it did and holds now.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let sum = |counter: fn(&Counters) -> &AtomicU64| {
            self.counters.iter().map(|counters| counter(counters).load(Ordering::Relaxed)).sum()
        };
        let pinned_bytes = self.pinned.load(Ordering::Relaxed);
        let index_bytes_used = self.index.blocks.weight() + pinned_bytes;
        CacheStats {
            hits: sum(|counters| &counters.hits),
            misses: sum(|counters| &counters.misses),
            bytes_used: index_bytes_used + self.rows.blocks.weight(),
            index_bytes_used,
            pinned_bytes,
            bytes_max: self.bytes_max.load(Ordering::Relaxed),
        }
    }

    /// Lets go of all blocks of a file, once nobody reads it any more. Looks at every block that is held. What the
    /// file pins goes with its reader.
    pub fn forget(&self, file: FileId) {
        self.index.blocks.retain(|place, _| place.file != file.0);
        self.rows.blocks.retain(|place, _| place.file != file.0);
        self.share();
    }

    /// Lets go of one block.
    pub(crate) fn forget_block(&self, shape: Shape, file: FileId, offset: u64) {
        self.pool(shape).blocks.remove(&Place { file: file.0, offset });
    }

    /// Whether files may still pin a block that takes `stored_bytes` on disk. What is left is mostly a little, too
    /// little for the next.
    pub(crate) fn can_pin(&self, stored_bytes: u32) -> bool {
        let bytes = u64::from(stored_bytes) + BLOCK_OVERHEAD_BYTES;
        self.pinned.load(Ordering::Relaxed) + bytes <= self.pinned_max
    }

    /// Takes so many bytes out of the pools for a block that its file will hold; false if that is more than files may.
    pub(crate) fn pin(&self, block: &Block) -> bool {
        let bytes = weight(block);
        let pin = |pinned: u64| Some(pinned + bytes).filter(|&pinned| pinned <= self.pinned_max);
        if self.pinned.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pin).is_err() {
            return false;
        }
        self.resize();
        true
    }

    /// Gives back what [`Cache::pin`] took for these blocks.
    pub(crate) fn unpin<'a>(&self, blocks: impl Iterator<Item = &'a Block>) {
        let bytes: u64 = blocks.map(weight).sum();
        if bytes > 0 {
            self.pinned.fetch_sub(bytes, Ordering::Relaxed);
            self.resize();
        }
    }

    fn pool(&self, shape: Shape) -> &Pooled {
        if shape == Shape::Ordinal { &self.rows } else { &self.index }
    }

    #[inline]
    fn counters(&self, offset: u64) -> &Counters {
        &self.counters[(offset >> 12) as usize % self.counters.len()]
    }

    /// The block, if it is held.
    #[inline]
    pub(crate) fn get(&self, shape: Shape, file: FileId, offset: u64) -> Option<Arc<Block>> {
        let found = self.pool(shape).blocks.get(&Place { file: file.0, offset });
        let counters = self.counters(offset);
        let counter = if found.is_some() { &counters.hits } else { &counters.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Whether the block is held; leaves no trace.
    pub(crate) fn holds(&self, shape: Shape, file: FileId, offset: u64) -> bool {
        self.pool(shape).blocks.contains_key(&Place { file: file.0, offset })
    }

    /// Whether a block that is not held should be, once it is loaded.
    #[inline]
    pub(crate) fn admits(&self, shape: Shape, file: FileId, offset: u64) -> bool {
        let is_data = matches!(shape, Shape::Keyed | Shape::Ordinal);
        // The rest is little, and every read needs it.
        !is_data
            || !self.pool(shape).is_full.load(Ordering::Relaxed)
            || self.doorkeeper.knows(hash(Place { file: file.0, offset }))
    }

    /// The block; loaded, once for all who ask, if it is not held. An error is nobody else's: the next loads again.
    pub(crate) fn load(
        &self,
        shape: Shape,
        file: FileId,
        offset: u64,
        load: impl FnOnce() -> Result<Arc<Block>>,
    ) -> Result<Arc<Block>> {
        let block = self.pool(shape).blocks.get_or_insert_with(&Place { file: file.0, offset }, load)?;
        self.note_inserted(shape, &block);
        Ok(block)
    }

    /// Keeps a block that was loaded otherwise.
    pub(crate) fn insert(&self, shape: Shape, block: &Arc<Block>) {
        let place = Place { file: block.file.0, offset: block.offset };
        self.pool(shape).blocks.insert(place, Arc::clone(block));
        self.note_inserted(shape, block);
    }

    fn note_inserted(&self, shape: Shape, block: &Block) {
        // So often that what the index has taken since is within the step that the rows gave way too far.
        let step = self.step() / 4;
        if self.pool(shape).note_inserted(weight(block), step) {
            self.share();
        }
    }

    fn step(&self) -> u64 {
        (self.bytes_max.load(Ordering::Relaxed) / STEPS).max(1)
    }

    /// What the pools may hold together.
    fn pools_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed).saturating_sub(self.pinned.load(Ordering::Relaxed))
    }

    /// Shards round up; taking as much off keeps the sum below the total.
    fn rounding(&self) -> u64 {
        2 * self.rows.blocks.num_shards() as u64
    }

    /// Gives both pools their capacities, after the total or what is pinned has changed.
    fn resize(&self) {
        let mut steps = self.steps.lock();
        *steps = u64::MAX;
        let pools = self.pools_max();
        self.index.blocks.set_capacity((pools - pools / PARTS).saturating_sub(self.rounding()));
        self.share_with(&mut steps);
    }

    /// Gives the rows what the index leaves, and looks how full both are.
    fn share(&self) {
        self.share_with(&mut self.steps.lock());
    }

    /// In steps, because a change goes through all shards.
    fn share_with(&self, steps: &mut u64) {
        let (pools, step) = (self.pools_max(), self.step());
        // Half a step more than there is: somebody looks before that is used up.
        let wanted = (self.index.blocks.weight() + step / 2).div_ceil(step);
        let rows_min = pools / PARTS;
        let rows = pools.saturating_sub(wanted * step).max(rows_min).saturating_sub(self.rounding());
        if *steps != wanted {
            *steps = wanted;
            self.rows.blocks.set_capacity(rows);
        }
        self.index.look((pools - rows_min).saturating_sub(self.rounding()));
        self.rows.look(rows);
    }
}

/// A hash of a place.
fn hash(place: Place) -> u64 {
    BuildHasherDefault::<PlaceHasher>::default().hash_one(place)
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_to_pin_what_cannot_be_pinned() {
        let cache = Cache::new(2000);
        let block = |len| Block { bytes: vec![0; len], items: 0, tail: 0, file: FileId(1), offset: 0 };
        let first = block(500);
        assert!(cache.can_pin(500) && cache.pin(&first));
        assert!(!cache.can_pin(600) && !cache.pin(&block(600)));
        assert!(cache.can_pin(100));
        cache.unpin([&first].into_iter());
        assert!(cache.can_pin(600) && cache.pin(&block(600)));
    }
}
