//! A scan whose rows are read as a type.

use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;

use super::Rows;
use crate::error::Result;
use crate::record::FromRow;

/// The rows of a scan as values of one type, from [`Scan::records`](crate::Scan::records).
///
/// Ends and fails like [`Rows`]; a row that cannot be read as `T` is an error in its place.
#[must_use = "iterators are lazy"]
pub struct Records<T> {
    rows: Rows,
    of: PhantomData<fn() -> T>,
}

impl<T> Records<T> {
    pub(super) fn new(rows: Rows) -> Records<T> {
        Records { rows, of: PhantomData }
    }
}

impl<T: for<'r> FromRow<'r>> Iterator for Records<T> {
    type Item = Result<T>;

    #[inline]
    fn next(&mut self) -> Option<Result<T>> {
        self.rows.next().map(|row| row.and_then(|row| T::from_row(row.as_ref())))
    }
}

impl<T: for<'r> FromRow<'r>> FusedIterator for Records<T> {}

impl<T> fmt::Debug for Records<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").finish_non_exhaustive()
    }
}
