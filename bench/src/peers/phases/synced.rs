//! Single rows, each committed to the disk before the next one of its thread.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::peers::draw::{Distribution, Draw};
use crate::peers::meter::nanos;
use crate::peers::rows::Batch;

use super::writes::Writer;
use super::{Task, in_threads, latencies, together};

/// Commits single rows for so long, drawn with equal chances.
pub(in crate::peers) fn commit(task: Task<'_>, duration: Duration) -> anyhow::Result<Histogram<u64>> {
    let end = Instant::now() + duration;
    let all = in_threads(task.threads, |thread| {
        let mut writer = task.store.writer()?;
        let mut draw = Draw::new(Distribution::Uniform, task.rows, Writer::Synced.seed(task.seed, thread));
        let mut batch = Batch::new(task.rows);
        let mut latencies = latencies();
        for count in 0.. {
            batch.fill(task.rows, &[draw.next(task.rows)], Writer::Synced.stamp(thread, count));
            let start = Instant::now();
            if start >= end {
                break;
            }
            writer.write(&batch)?;
            let took = start.elapsed();
            latencies.record(nanos(took))?;
            task.live.note(1, took);
        }
        Ok(latencies)
    })?;
    Ok(together(all))
}
