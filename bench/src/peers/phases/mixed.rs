//! As many reads as upserts: each thread commits a batch, reads as many rows one by one, and so on.

use std::time::Instant;

use hdrhistogram::Histogram;

use crate::peers::meter::nanos;
use crate::peers::rows::Batch;

use super::points::read_existing;
use super::writes::{self, Writer};
use super::{Task, in_threads, latencies, share, together};

/// The latencies of both.
pub(in crate::peers) struct Mixed {
    /// Of single rows.
    pub(in crate::peers) reads: Histogram<u64>,
    /// Of batches.
    pub(in crate::peers) upserts: Histogram<u64>,
}

/// Reads so many rows and upserts as many, drawn by a zipfian distribution.
pub(in crate::peers) fn run(task: Task<'_>, each: u64) -> anyhow::Result<Mixed> {
    let all = in_threads(task.threads, |thread| {
        let (mut writer, mut reader) = (task.store.writer()?, task.store.reader()?);
        let mut draw = writes::draw(task.rows, Writer::Mixed, task.seed, thread);
        let (mut batch, mut numbers) = (Batch::new(task.rows), Vec::new());
        let (mut reads, mut upserts) = (latencies(), latencies());
        let mut left = share(each, task.threads, thread);
        for count in 0.. {
            if left == 0 {
                break;
            }
            let now = left.min(task.batch);
            left -= now;
            draw.fill(task.rows, now, &mut numbers);
            batch.fill(task.rows, &numbers, Writer::Mixed.stamp(thread, count));
            let start = Instant::now();
            writer.write(&batch)?;
            let took = start.elapsed();
            upserts.record(nanos(took))?;
            task.live.note(now, took);
            reader.refresh()?;
            for _ in 0..now {
                let number = draw.next(task.rows);
                let start = Instant::now();
                read_existing(&mut *reader, task.rows, number)?;
                let took = start.elapsed();
                reads.record(nanos(took))?;
                task.live.note(1, took);
            }
            // A transaction that reads would keep what the next upserts replace.
            reader.refresh()?;
        }
        Ok((reads, upserts))
    })?;
    let (reads, upserts) = all.into_iter().unzip();
    Ok(Mixed { reads: together(reads), upserts: together(upserts) })
}
