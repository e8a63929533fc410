//! Scans: of everything, in both directions and of keys alone, and of a hundred rows from somewhere.

use std::time::Instant;

use anyhow::{Context, ensure};
use hdrhistogram::Histogram;

use crate::peers::draw::{Distribution, Draw};
use crate::peers::meter::nanos;
use crate::peers::rows::{Rows, Value};
use crate::peers::store::{Columns, Reader, Scan, Start};

use super::{Task, in_threads, latencies, share, together};

/// Rows of a short scan.
pub(in crate::peers) const SHORT_ROWS: u64 = 100;

/// Scans everything in one thread. All rows must come, in order, with values of their own.
pub(in crate::peers) fn full(task: Task<'_>, start: Start, columns: Columns) -> anyhow::Result<()> {
    let mut reader = task.store.reader()?;
    let rows = task.rows;
    let scan = Scan { start, columns, limit: u64::MAX };
    let mut check = match start {
        Start::Last => Expect::backwards_from(rows, rows.count() - 1),
        Start::First | Start::At(_) => Expect::forwards_from(rows, 0),
    };
    let count = reader.scan(scan, &mut |host, time, value| check.see(host, time, value))?;
    ensure!(count == rows.count(), "a scan of everything gives {count} of {} rows", rows.count());
    task.live.note(count, std::time::Duration::ZERO);
    Ok(())
}

/// Scans from keys drawn at random. The latencies are those of whole scans.
pub(in crate::peers) fn short(task: Task<'_>, count: u64) -> anyhow::Result<Histogram<u64>> {
    let all = in_threads(task.threads, |thread| {
        let mut reader = task.store.reader()?;
        let mut draw = Draw::new(Distribution::Uniform, task.rows, task.seed ^ (0x5ca9 + thread));
        let mut latencies = latencies();
        for _ in 0..share(count, task.threads, thread) {
            let number = draw.next(task.rows);
            let start = Instant::now();
            let rows = short_scan(&mut *reader, task.rows, number)?;
            let took = start.elapsed();
            latencies.record(nanos(took))?;
            task.live.note(rows, took);
        }
        Ok(latencies)
    })?;
    Ok(together(all))
}

fn short_scan(reader: &mut dyn Reader, rows: &Rows, number: u64) -> anyhow::Result<u64> {
    reader.refresh()?;
    let mut check = Expect::forwards_from(rows, number);
    let scan = Scan { start: Start::At(rows.key(number)), columns: Columns::All, limit: SHORT_ROWS };
    let count = reader.scan(scan, &mut |host, time, value| check.see(host, time, value))?;
    let expected = SHORT_ROWS.min(rows.count() - number);
    ensure!(count == expected, "a scan from row {number} gives {count} rows and not {expected}");
    Ok(count)
}

/// The rows that have to come.
struct Expect<'a> {
    rows: &'a Rows,
    next: u64,
    backwards: bool,
}

impl Expect<'_> {
    fn forwards_from(rows: &Rows, next: u64) -> Expect<'_> {
        Expect { rows, next, backwards: false }
    }

    fn backwards_from(rows: &Rows, next: u64) -> Expect<'_> {
        Expect { rows, next, backwards: true }
    }

    #[inline]
    fn see(&mut self, host: u32, time: i64, value: Option<Value<'_>>) -> anyhow::Result<()> {
        let number = self.rows.number(host, time).context("a scan gives a key of no row")?;
        ensure!(number == self.next, "a scan gives row {number} and not {}", self.next);
        if let Some(value) = value {
            ensure!(self.rows.is_of(number, value), "row {number} has a value that is not its own");
        }
        self.next = if self.backwards { number.wrapping_sub(1) } else { number + 1 };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_out_of_order_is_an_error() {
        let rows = Rows::new(1000, 100, 1);
        let mut value = [0; 100];
        rows.fill(7, 1, &mut value);
        let (key, next) = (rows.key(7), rows.key(8));
        let mut expect = Expect::forwards_from(&rows, 7);
        expect.see(key.host, key.time, Value::split(&value)).expect("the row");
        expect.see(key.host, key.time, None).expect_err("the same again");
        expect.see(next.host, next.time, Value::split(&value)).expect_err("the value of another");
        expect.see(next.host, next.time, None).expect("the next");
        expect.see(2000, next.time, None).expect_err("no such host");
        let mut expect = Expect::backwards_from(&rows, 8);
        expect.see(next.host, next.time, None).expect("the row");
        expect.see(key.host, key.time, None).expect("the one before");
    }
}
