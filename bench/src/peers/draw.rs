//! In which order rows are written and read.

use std::sync::atomic::{AtomicU64, Ordering};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution as _, Zipf};

use crate::scatter::scatter;

use super::rows::Rows;

/// YCSB's constant.
const ZIPF_EXPONENT: f64 = 0.99;

/// The order of a load, which all threads share: each row once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Random,
    Sequential,
}

/// Where a load is.
#[derive(Debug)]
pub(crate) struct Load {
    order: Order,
    next: AtomicU64,
}

impl Load {
    pub(crate) fn new(order: Order) -> Load {
        Load { order, next: AtomicU64::new(0) }
    }

    /// Takes the next rows, at most `count`; none at the end.
    pub(crate) fn fill(&self, rows: &Rows, count: u64, numbers: &mut Vec<u64>) {
        numbers.clear();
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        let places = first..(first + count).min(rows.count());
        match self.order {
            Order::Sequential => numbers.extend(places),
            Order::Random => numbers.extend(places.map(|place| rows.shuffled(place))),
        }
    }
}

/// How rows are drawn that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distribution {
    /// Every row as often as any other.
    Uniform,
    /// A few rows most of the time, scattered over the table.
    Zipfian,
}

/// Draws rows that are there, for one thread.
#[derive(Debug)]
pub(crate) struct Draw {
    random: SmallRng,
    zipf: Option<Zipf<f64>>,
}

impl Draw {
    /// Draws with equal seeds are equal.
    pub(crate) fn new(distribution: Distribution, rows: &Rows, seed: u64) -> Draw {
        let zipf = match distribution {
            Distribution::Uniform => None,
            Distribution::Zipfian => Some(
                Zipf::new(rows.count() as f64, ZIPF_EXPONENT)
                    .expect("there is a row, and the exponent is positive"),
            ),
        };
        Draw { random: SmallRng::seed_from_u64(scatter(seed)), zipf }
    }

    #[inline]
    pub(crate) fn next(&mut self, rows: &Rows) -> u64 {
        match &self.zipf {
            None => self.random.random_range(0..rows.count()),
            Some(zipf) => rows.shuffled(zipf.sample(&mut self.random) as u64 - 1),
        }
    }

    pub(crate) fn fill(&mut self, rows: &Rows, count: u64, numbers: &mut Vec<u64>) {
        numbers.clear();
        numbers.extend((0..count).map(|_| self.next(rows)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn a_load_has_each_row_once() {
        let rows = Rows::new(1050, 100, 1);
        for order in [Order::Sequential, Order::Random] {
            let load = Load::new(order);
            let (mut numbers, mut all) = (Vec::new(), Vec::new());
            for _ in 0..12 {
                load.fill(&rows, 100, &mut numbers);
                all.extend_from_slice(&numbers);
            }
            assert_eq!(all.is_sorted(), order == Order::Sequential);
            all.sort_unstable();
            assert_eq!(all, (0..1050).collect::<Vec<_>>());
        }
    }

    #[test]
    fn zipfian_draws_have_hot_rows_and_uniform_ones_have_none() {
        let rows = Rows::new(10_000, 100, 1);
        let share = |distribution| {
            let mut draw = Draw::new(distribution, &rows, 5);
            let mut counts: HashMap<u64, u32> = HashMap::new();
            for _ in 0..100_000 {
                *counts.entry(draw.next(&rows)).or_default() += 1;
            }
            assert!(counts.keys().all(|&number| number < 10_000));
            f64::from(*counts.values().max().expect("some")) / 1e5
        };
        // The sum of i^-0.99 up to 10,000 is 10.2: the hottest row has a tenth.
        assert!((0.08..0.12).contains(&share(Distribution::Zipfian)));
        assert!(share(Distribution::Uniform) < 0.001);
    }

    #[test]
    fn equal_seeds_draw_the_same() {
        let rows = Rows::new(1000, 100, 1);
        let draw = |seed| {
            let mut numbers = Vec::new();
            Draw::new(Distribution::Zipfian, &rows, seed).fill(&rows, 50, &mut numbers);
            numbers
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
