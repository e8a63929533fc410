//! What a started scan gives: owned rows, lent rows, or batches.
//!
//! Owns one batch at a time. Its memory is used again when no row of it is held any more. In a transaction, says of
//! each row that the caller has come to it, before it is given out: batches are read ahead, and what nobody was told of
//! need not be as it was.

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
        let builder = if pipeline.notes() { builder.keeping_keys() } else { builder };
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

/// Goes through the batches row by row.
struct Walk {
    feed: Feed,
    batch: Option<Arc<RowBatch>>,
    /// How many rows of the batch were given out.
    given: usize,
    /// How many may be given out: all, or, if each must be noted first, those that were.
    ready: usize,
}

impl Walk {
    fn new(pipeline: Pipeline) -> Walk {
        Walk { feed: Feed::new(pipeline), batch: None, given: 0, ready: 0 }
    }

    /// Moves on by one row; false at the end.
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        if self.given == self.ready && !self.make_ready()? {
            return Ok(false);
        }
        self.given += 1;
        Ok(true)
    }

    /// Makes the next row ready, or as many as need not be noted; false if there is none.
    fn make_ready(&mut self) -> Result<bool> {
        if self.batch.as_ref().is_none_or(|batch| self.given == batch.len()) {
            (self.given, self.ready) = (0, 0);
            self.batch = self.feed.next(self.batch.take())?;
        }
        let Some(batch) = &self.batch else { return Ok(false) };
        if self.feed.pipeline.notes() {
            self.feed.pipeline.note_through(batch.key(self.given));
            self.ready = self.given + 1;
        } else {
            self.ready = batch.len();
        }
        Ok(true)
    }
}

/// The rows of a scan, from [`Scan::rows`](crate::Scan::rows).
///
/// A failure comes after the rows before it, and ends the scan: it is told once. So whoever goes past errors, as
/// `flatten` does, does not see that rows are missing; stop at the first, as `?` and `collect::<Result<_, _>>` do.
/// After the end comes the end again. After the engine is closed the scan fails with `Closed` when it needs the next
/// batch.
#[must_use = "iterators are lazy"]
pub struct Rows {
    /// `None` when it has ended or failed.
    walk: Option<Walk>,
}

impl Rows {
    pub(super) fn new(pipeline: Pipeline) -> Rows {
        Rows { walk: Some(Walk::new(pipeline)) }
    }

    #[cold]
    fn end<T>(&mut self, last: Option<T>) -> Option<T> {
        self.walk = None;
        last
    }
}

impl Iterator for Rows {
    type Item = Result<Row>;

    #[inline]
    fn next(&mut self) -> Option<Result<Row>> {
        let walk = self.walk.as_mut()?;
        match walk.advance() {
            Ok(true) => {
                let batch = walk.batch.as_ref()?;
                Some(Ok(Row::new(Arc::clone(batch), walk.given - 1)))
            }
            Ok(false) => self.end(None),
            Err(error) => self.end(Some(Err(error))),
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
    walk: Walk,
}

impl Cursor {
    pub(super) fn new(pipeline: Pipeline) -> Cursor {
        Cursor { walk: Walk::new(pipeline) }
    }

    /// The next row; `None` at the end, and after it.
    ///
    /// # Errors
    /// `Corruption`, `Io`, `Closed`; the same again from then on.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend")]
    pub fn next(&mut self) -> Result<Option<RowRef<'_>>> {
        if !self.walk.advance()? {
            return Ok(None);
        }
        Ok(self.walk.batch.as_ref().and_then(|batch| batch.get(self.walk.given - 1)))
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
    /// `None` when it has ended or failed.
    feed: Option<Feed>,
}

impl Batches {
    pub(super) fn new(pipeline: Pipeline) -> Batches {
        Batches { feed: Some(Feed::new(pipeline)) }
    }
}

impl Iterator for Batches {
    type Item = Result<Arc<RowBatch>>;

    fn next(&mut self) -> Option<Result<Arc<RowBatch>>> {
        let feed = self.feed.as_mut()?;
        let next = feed.next(None).transpose();
        match &next {
            Some(Ok(batch)) if feed.pipeline.notes() => {
                feed.pipeline.note_through(batch.key(batch.len() - 1));
            }
            Some(Ok(_)) => {}
            Some(Err(_)) | None => self.feed = None,
        }
        next
    }
}

impl FusedIterator for Batches {}

impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches").finish_non_exhaustive()
    }
}
