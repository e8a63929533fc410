//! Point reads: of rows that are there, all alike or a few mostly, and of rows that are not.

use std::time::Instant;

use anyhow::ensure;
use hdrhistogram::Histogram;

use crate::peers::draw::{Distribution, Draw};
use crate::peers::meter::nanos;
use crate::peers::rows::Rows;
use crate::peers::store::Reader;

use super::{Task, in_threads, latencies, share, together};

/// Which keys are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::peers) enum Which {
    Existing,
    Missing,
    Zipfian,
}

/// Reads so many keys. The latencies are those of single reads, with a look at the value.
pub(in crate::peers) fn read(task: Task<'_>, which: Which, count: u64) -> anyhow::Result<Histogram<u64>> {
    let distribution = match which {
        Which::Existing | Which::Missing => Distribution::Uniform,
        Which::Zipfian => Distribution::Zipfian,
    };
    let all = in_threads(task.threads, |thread| {
        let mut reader = task.store.reader()?;
        let mut draw = Draw::new(distribution, task.rows, task.seed ^ (0x5ead + thread));
        let mut latencies = latencies();
        for done in 0..share(count, task.threads, thread) {
            if done % task.batch == 0 {
                reader.refresh()?;
            }
            let number = draw.next(task.rows);
            let start = Instant::now();
            match which {
                Which::Missing => read_missing(&mut *reader, task.rows, number)?,
                Which::Existing | Which::Zipfian => {
                    read_existing(&mut *reader, task.rows, number)?;
                }
            }
            let took = start.elapsed();
            latencies.record(nanos(took))?;
            task.live.note(1, took);
        }
        Ok(latencies)
    })?;
    Ok(together(all))
}

/// Reads a row that must be there, with a value of its own, and tells the stamp.
pub(in crate::peers) fn read_existing(
    reader: &mut dyn Reader,
    rows: &Rows,
    number: u64,
) -> anyhow::Result<u64> {
    let mut seen = None;
    let is_there = reader.get(&rows.key(number), &mut |value| {
        seen = Some((rows.is_of(number, value), value.stamp));
    })?;
    ensure!(is_there, "row {number} is missing");
    let Some((true, stamp)) = seen else { anyhow::bail!("row {number} has a value that is not its own") };
    Ok(stamp)
}

fn read_missing(reader: &mut dyn Reader, rows: &Rows, number: u64) -> anyhow::Result<()> {
    let is_there = reader.get(&rows.missing_key(number), &mut |_| ())?;
    ensure!(!is_there, "a row is there that was never written, before row {number}");
    Ok(())
}
