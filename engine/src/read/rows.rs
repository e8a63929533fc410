//! What a started scan gives: owned rows, lent rows, or batches.
//!
//! Owns one batch at a time. Its memory is used again when no row of it is held any more.

use std::fmt;
use std::iter::FusedIterator;
use std::sync::Arc;

use super::pipeline::Pipeline;
use crate::error::Result;
use crate::row::{Row, RowBatch, RowBatchBuilder, RowRef};

/// Makes batches of a pipeline's rows.
struct Feed {
    pipeline: Pipeline,
    builder: RowBatchBuilder,
}

impl Feed {
    fn new(pipeline: Pipeline) -> Feed {
        let plan = pipeline.plan();
        let builder = RowBatchBuilder::new(Arc::clone(&plan.reads), plan.projection.clone());
        Feed { pipeline, builder }
    }

    /// The next batch, which has rows; `None` at the end. `previous` is used again if nobody else holds it.
    fn next(&mut self, previous: Option<Arc<RowBatch>>) -> Result<Option<Arc<RowBatch>>> {
        if let Some(previous) = previous {
            self.builder.recycle(previous);
        }
        self.pipeline.next_batch(&mut self.builder)?;
        Ok((!self.builder.is_empty()).then(|| self.builder.finish()))
    }
}

/// The rows of a scan, from [`Scan::rows`](crate::Scan::rows).
///
/// After the end comes the end again. A failure comes after the rows before it, and then again for ever: stop at the first
/// error, as `?` and `collect::<Result<_, _>>` do. After the engine is closed the scan answers `Closed` when it needs the
/// next batch.
#[must_use = "iterators are lazy"]
pub struct Rows {
    feed: Feed,
    batch: Option<Arc<RowBatch>>,
    /// The next row of the batch.
    next: usize,
}

impl Rows {
    pub(super) fn new(pipeline: Pipeline) -> Rows {
        Rows { feed: Feed::new(pipeline), batch: None, next: 0 }
    }
}

impl Iterator for Rows {
    type Item = Result<Row>;

    #[inline]
    fn next(&mut self) -> Option<Result<Row>> {
        loop {
            if let Some(batch) = &self.batch
                && self.next < batch.len()
            {
                self.next += 1;
                return Some(Ok(Row::new(Arc::clone(batch), self.next - 1)));
            }
            self.next = 0;
            match self.feed.next(self.batch.take()) {
                Ok(None) => return None,
                Ok(batch) => self.batch = batch,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl FusedIterator for Rows {}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").finish_non_exhaustive()
    }
}

/// The rows of a scan, each lent until the next is asked for; from [`Scan::cursor`](crate::Scan::cursor).
///
/// ```no_run
/// # fn example(metrics: nyala::Table) -> Result<(), nyala::Error> {
/// let mut cursor = metrics.scan().columns(["value"]).cursor()?;
/// let mut sum = 0.0;
/// while let Some(row) = cursor.next()? {
///     sum += row.get::<f64>("value")?;
/// }
/// # Ok(()) }
/// ```
pub struct Cursor {
    feed: Feed,
    batch: Option<Arc<RowBatch>>,
    next: usize,
}

impl Cursor {
    pub(super) fn new(pipeline: Pipeline) -> Cursor {
        Cursor { feed: Feed::new(pipeline), batch: None, next: 0 }
    }

    /// The next row; `None` at the end, and after it.
    ///
    /// # Errors
    /// `Corruption`, `Io`, `Closed`; the same again from then on.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend")]
    pub fn next(&mut self) -> Result<Option<RowRef<'_>>> {
        let batch_rows = self.batch.as_ref().map_or(0, |batch| batch.len());
        if self.next < batch_rows {
            self.next += 1;
        } else {
            self.batch = self.feed.next(self.batch.take())?;
            self.next = 1;
        }
        Ok(self.batch.as_ref().and_then(|batch| batch.get(self.next - 1)))
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor").finish_non_exhaustive()
    }
}

/// The rows of a scan in batches, from [`Scan::batches`](crate::Scan::batches). No batch is empty.
///
/// Ends and fails like [`Rows`].
#[must_use = "iterators are lazy"]
pub struct Batches {
    feed: Feed,
}

impl Batches {
    pub(super) fn new(pipeline: Pipeline) -> Batches {
        Batches { feed: Feed::new(pipeline) }
    }
}

impl Iterator for Batches {
    type Item = Result<Arc<RowBatch>>;

    fn next(&mut self) -> Option<Result<Arc<RowBatch>>> {
        self.feed.next(None).transpose()
    }
}

impl FusedIterator for Batches {}

impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches").finish_non_exhaustive()
    }
}
