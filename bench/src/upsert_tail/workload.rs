//! Rows, and the order in which they are written.
//!
//! A row's key is a function of its number: a host, a time and a metric, 26 bytes once encoded. Numbers go over the
//! hosts first, as measurements come in, so that neighbours in time are no neighbours in the table.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nyala::{Schema, Timestamp, Type};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution as _, Zipf};

use crate::args::Distribution;
use crate::scatter::scatter;

const HOSTS: u64 = 1000;
const METRICS: [&str; 4] = ["cpu.user.total", "disk.read.time", "memory.free.kb", "net.rx.packets"];
/// YCSB's constant.
const ZIPF_EXPONENT: f64 = 0.99;
/// What rows take their notes from.
const TEXT_BYTES: usize = 1 << 20;
const NOTE_BYTES: usize = 84;

/// A row: key (host, time, metric), then 100 bytes.
pub(super) type Row<'a> = (u32, Timestamp, &'a str, f64, i64, &'a str);

pub(super) fn schema() -> nyala::Result<Schema> {
    Schema::builder()
        .key("host", Type::U32)
        .key("time", Type::Timestamp)
        .key("metric", Type::String)
        .column("value", Type::F64)
        .column("writes", Type::I64)
        .column("note", Type::String)
        .build()
}

/// All rows, by number.
pub(super) struct Rows {
    count: u64,
    /// Random text: a note is a piece of it, so that notes compress little and cost little.
    text: String,
    next: AtomicU64,
}

impl Rows {
    pub(super) fn new(count: u64, seed: u64) -> Rows {
        const SYMBOLS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut random = SmallRng::seed_from_u64(seed);
        let text = (0..TEXT_BYTES).map(|_| char::from(SYMBOLS[random.random_range(0..64)])).collect();
        Rows { count, text, next: AtomicU64::new(0) }
    }

    /// Row `number` as write number `write` leaves it.
    pub(super) fn row(&self, number: u64, write: u64) -> Row<'_> {
        let host = (number % HOSTS) as u32;
        let second = (number / HOSTS) as i64;
        let time = Timestamp::from_micros(1_700_000_000_000_000 + second * 1_000_000);
        let random = scatter(write);
        let at = (random >> 32) as usize % (TEXT_BYTES - NOTE_BYTES);
        let note = &self.text[at..at + NOTE_BYTES];
        let metric = METRICS[(number % HOSTS) as usize % METRICS.len()];
        (host, time, metric, f64::from(random as u32), write as i64, note)
    }
}

/// Draws the numbers of rows to write. One for each thread.
pub(super) struct Draw {
    rows: Arc<Rows>,
    random: SmallRng,
    order: Order,
}

enum Order {
    /// All threads share one counter.
    Sequential,
    Zipfian(Zipf<f64>),
    Uniform,
}

impl Draw {
    /// Every row once, in order, over all threads.
    pub(super) fn in_order(rows: &Arc<Rows>) -> Draw {
        Draw { rows: Arc::clone(rows), random: SmallRng::seed_from_u64(0), order: Order::Sequential }
    }

    pub(super) fn new(distribution: Distribution, rows: &Arc<Rows>, seed: u64) -> Draw {
        let order = match distribution {
            Distribution::Uniform => Order::Uniform,
            Distribution::Zipfian => {
                let zipf = Zipf::new(rows.count as f64, ZIPF_EXPONENT);
                Order::Zipfian(zipf.expect("there is a row, and the exponent is positive"))
            }
        };
        Draw { rows: Arc::clone(rows), random: SmallRng::seed_from_u64(scatter(seed)), order }
    }

    pub(super) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Draws the rows of a batch.
    pub(super) fn fill(&mut self, numbers: &mut Vec<u64>, count: u64) {
        numbers.clear();
        let rows = self.rows.count;
        match &self.order {
            Order::Sequential => {
                let first = self.rows.next.fetch_add(count, Ordering::Relaxed);
                numbers.extend((first..first + count).filter(|&number| number < rows));
            }
            Order::Uniform => numbers.extend((0..count).map(|_| self.random.random_range(0..rows))),
            Order::Zipfian(zipf) => {
                // The hot rows lie all over the table.
                let random = &mut self.random;
                numbers.extend((0..count).map(|_| scatter(zipf.sample(random) as u64) % rows));
            }
        }
    }

    /// A number for the values of a row.
    pub(super) fn write(&mut self) -> u64 {
        self.random.next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    #[test]
    fn keys_are_different() {
        let rows = Rows::new(50_000, 1);
        let keys: HashSet<_> =
            (0..50_000).map(|number| rows.row(number, 0)).map(|row| (row.0, row.1)).collect();
        assert_eq!(keys.len(), 50_000);
    }

    #[test]
    fn a_load_writes_each_row_once() {
        let rows = Arc::new(Rows::new(1050, 1));
        let (mut numbers, mut all) = (Vec::new(), Vec::new());
        for _ in 0..12 {
            Draw::in_order(&rows).fill(&mut numbers, 100);
            all.extend_from_slice(&numbers);
        }
        assert_eq!(all, (0..1050).collect::<Vec<_>>());
    }

    /// The share of the most drawn row, and how many different ones there were, in 100,000 draws.
    fn draw(distribution: Distribution) -> (f64, usize) {
        let rows = Arc::new(Rows::new(10_000, 1));
        let mut draw = Draw::new(distribution, &rows, 5);
        let mut counts: HashMap<u64, u32> = HashMap::new();
        let mut numbers = Vec::new();
        for _ in 0..1000 {
            draw.fill(&mut numbers, 100);
            for &number in &numbers {
                assert!(number < 10_000);
                *counts.entry(number).or_default() += 1;
            }
        }
        (f64::from(*counts.values().max().expect("some")) / 1e5, counts.len())
    }

    #[test]
    fn zipfian_draws_have_hot_rows_and_uniform_ones_have_none() {
        // The sum of i^-0.99 up to 10,000 is 10.2: the hottest row has a tenth.
        let (hottest, different) = draw(Distribution::Zipfian);
        assert!((0.08..0.12).contains(&hottest) && different < 9000, "{hottest} {different}");
        let (hottest, different) = draw(Distribution::Uniform);
        assert!(hottest < 0.001 && different > 9900, "{hottest} {different}");
    }
}
