//! The way of a key from typed values into a batch, alone, over and over.
//!
//! Batches are cleared and used again, as the engine does. What an operation has around its key in a batch is left out,
//! and so are the values: they are the same for both.

use std::time::Instant;

use anyhow::Context;
use encoded_key::{KeyBuilder, KeyLayout, KeyProbe, Type, Value};

use crate::allocator;
use crate::measure::{self, Took};
use crate::peers::rows::{Key, Rows};

use super::Variant;
use super::heap::RowSetKeyProbe;

/// Keys of a batch.
const BATCH: usize = 100;
/// Keys are made beforehand, so many, and used over and over: making them is not what is measured.
const DIFFERENT: u64 = 10_000;

/// What a part of the path costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// Of processor time, over all threads.
    pub(super) cpu_ns_per_key: f64,
    pub(super) elapsed_ns_per_key: f64,
    pub(super) allocations_per_key: f64,
}

/// The columns of a key.
pub(super) fn columns(key: &Key) -> [Value<'_>; 3] {
    [Value::UInt(key.host.into()), Value::Int(key.time), Value::String(key.metric)]
}

/// Host, time and metric.
pub(super) fn layout() -> anyhow::Result<KeyLayout> {
    let types = [Type::U32, Type::I64, Type::String];
    Ok(KeyLayout::new(types.iter().map(|ty| (*ty).into()).collect())?)
}

/// How long keys of this layout are: what the memory for one is made for.
pub(super) const KEY_BYTES: usize = 24;

/// Takes `keys` keys through in each of so many threads.
pub(super) fn run(variant: Variant, rows: &Rows, threads: u64, keys: u64) -> anyhow::Result<Cost> {
    let start = Instant::now();
    let all = std::thread::scope(|scope| {
        let started: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || run_thread(variant, rows, thread, keys))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, anyhow::Result<(Took, u64)>>| {
            thread.join().ok().context("a thread of the benchmark panicked")?
        };
        started.into_iter().map(join).collect::<anyhow::Result<Vec<_>>>()
    })?;
    let elapsed = start.elapsed();
    let count = (threads * keys).max(1) as f64;
    let cpu: u128 = all.iter().map(|(took, _)| took.cpu.as_nanos()).sum();
    let allocations: u64 = all.iter().map(|(_, allocations)| allocations).sum();
    Ok(Cost {
        cpu_ns_per_key: cpu as f64 / count,
        elapsed_ns_per_key: elapsed.as_nanos() as f64 / count,
        allocations_per_key: allocations as f64 / count,
    })
}

fn run_thread(variant: Variant, rows: &Rows, thread: u64, keys: u64) -> anyhow::Result<(Took, u64)> {
    let layout = layout()?;
    let first = thread * DIFFERENT;
    let made: Vec<Key> =
        (first..first + DIFFERENT).map(|place| rows.key(rows.shuffled(place % rows.count()))).collect();
    let (mut batch, mut scratch) = (Vec::with_capacity(BATCH * KEY_BYTES), Vec::with_capacity(64));
    let before = allocator::allocations();
    let (result, took) = measure::timed(|| {
        let mut left = keys;
        for keys in made.chunks(BATCH).cycle() {
            if left == 0 {
                break;
            }
            let keys = &keys[..keys.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            batch.clear();
            match variant {
                Variant::Heap => fill_from_heap(&layout, keys, &mut batch, &mut scratch)?,
                Variant::Arena => fill_in_place(&layout, keys, &mut batch)?,
            }
            std::hint::black_box(&batch);
            left -= keys.len() as u64;
        }
        anyhow::Ok(())
    });
    result?;
    Ok((took, allocator::allocations() - before))
}

fn fill_from_heap(
    layout: &KeyLayout,
    keys: &[Key],
    batch: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
) -> anyhow::Result<()> {
    for key in keys {
        let probe = RowSetKeyProbe::new(layout, &columns(key), KEY_BYTES)?;
        std::hint::black_box(probe.hash());
        probe.encode_for_memtable(layout, scratch)?;
        batch.extend_from_slice(scratch);
    }
    Ok(())
}

fn fill_in_place(layout: &KeyLayout, keys: &[Key], batch: &mut Vec<u8>) -> anyhow::Result<()> {
    for key in keys {
        let mut builder = KeyBuilder::new(layout, batch);
        for column in columns(key) {
            builder.push(column)?;
        }
        let range = builder.finish()?;
        std::hint::black_box(KeyProbe::new(&batch[range]).hash());
    }
    Ok(())
}

/// What both variants leave in a batch, and the keys by themselves.
#[cfg(test)]
pub(super) fn fill_for_test(variant: Variant, keys: &[Key]) -> anyhow::Result<Vec<u8>> {
    let layout = layout()?;
    let mut batch = Vec::new();
    match variant {
        Variant::Heap => fill_from_heap(&layout, keys, &mut batch, &mut Vec::new())?,
        Variant::Arena => fill_in_place(&layout, keys, &mut batch)?,
    }
    Ok(batch)
}
