//! The builder of scans.
//!
//! Owns what a scan was asked for (`start` has what comes of it). An argument that is wrong is remembered and told when
//! the scan is started, so that a scan can be written as one expression.

mod start;

use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;

use encoded_key::KeyRange;
use sstable::Direction;

use super::bounds::Narrow;
use super::literal::Literal;
use super::{Predicate, ReadPoint, bounds};
use crate::error::{Error, Result};
use crate::record::{FromRow, Record};
use crate::row::{Projection, ReadSchema};
use crate::schema::Schema;
use crate::snapshot::Snapshot;
use crate::transaction::ScanReads;
use crate::value::AsValue;

/// What a scan needs to know of its table.
pub(crate) trait ScanSource: Send + Sync {
    /// The schema that it is read in.
    fn reads(&self) -> &Arc<ReadSchema>;

    /// What a read that begins now sees: the latest, or what `snapshot` sees.
    ///
    /// # Errors
    /// `Closed`, `NoSuchTable` after a drop, `InvalidArgument` for a snapshot of another engine.
    fn pin(&self, snapshot: Option<&Snapshot>) -> Result<ReadPoint>;

    /// Called when a scan is started: whom it tells how far it has come, if anybody wants to know.
    ///
    /// # Errors
    /// `InvalidArgument` if more is read than anybody keeps.
    fn begin(&self, range: &KeyRange, direction: Direction) -> Result<Option<ScanReads>> {
        let _ = (range, direction);
        Ok(None)
    }

    /// Asked before each batch. A dropped table is no error: running scans finish.
    ///
    /// # Errors
    /// `Closed`.
    fn check(&self) -> Result<()>;
}

/// A scan that is being put together: which keys, which rows of them, which columns, in which direction.
///
/// Without further calls it gives all rows of the table in key order, with all columns. Whatever narrows it can be
/// given several times; all of it must hold. A wrong argument is told by the call that starts the scan:
/// [`rows`](Scan::rows), [`records`](Scan::records), [`cursor`](Scan::cursor), [`batches`](Scan::batches),
/// [`first`](Scan::first), [`last`](Scan::last), [`count`](Scan::count) or [`partitions`](Scan::partitions).
///
/// A scan sees one state of the table: the latest when it is started, or a snapshot's.
///
/// ```
/// # fn main() -> Result<(), nyala::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// use nyala::{Engine, Options, Schema, Type, column};
/// let engine = Engine::open(dir.path(), Options::default())?;
/// let schema = Schema::builder()
///     .key("host", Type::U32)
///     .key("metric", Type::String)
///     .column("value", Type::F64)
///     .build()?;
/// let metrics = engine.open_or_create_table("metrics", schema)?;
/// for (host, metric, value) in [(17, "cpu", 0.9), (17, "cpu_wait", 0.1), (17, "disk", 0.5), (18, "cpu", 0.2)] {
///     metrics.upsert((host, metric, value))?;
/// }
/// let mut sum = 0.0;
/// for row in metrics.scan().starts_with((17,), "cpu").columns(["value"]).rows()? {
///     sum += row?.get::<f64>("value")?;
/// }
/// assert_eq!(sum, 1.0);
/// assert_eq!(metrics.scan().filter(column("value").ge(0.5)).count()?, 2);
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "a scan does nothing until it is started"]
pub struct Scan {
    source: Arc<dyn ScanSource>,
    /// Pinned already: by `at`, or because it is a part of a scan.
    point: Option<ReadPoint>,
    range: KeyRange,
    /// The values that the first columns of all keys of the range have, as far as it was said.
    fixed: Vec<Literal>,
    /// All columns if there is none.
    projection: Option<Projection>,
    filter: Option<Predicate>,
    limit: Option<u64>,
    direction: Direction,
    /// The first argument that was wrong.
    error: Option<Error>,
}

impl Scan {
    pub(crate) fn new(source: Arc<dyn ScanSource>) -> Scan {
        Scan {
            source,
            point: None,
            range: KeyRange::all(),
            fixed: Vec::new(),
            projection: None,
            filter: None,
            limit: None,
            direction: Direction::Forward,
            error: None,
        }
    }

    /// A scan that cannot be started, for this reason.
    pub(crate) fn failed(source: Arc<dyn ScanSource>, error: Error) -> Scan {
        Scan { error: Some(error), ..Scan::new(source) }
    }

    /// Only rows whose first key columns have the values of `record`, which may have fewer columns than the key. A
    /// prefix that is one string is no prefix of the string: for that there is [`starts_with`](Scan::starts_with).
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use nyala::{Engine, Options, Schema, Type, column};
    /// # let engine = Engine::open(dir.path(), Options::default())?;
    /// # let schema = Schema::builder().key("host", Type::U32).key("time", Type::U64);
    /// # let schema = schema.column("load", Type::F64).build()?;
    /// # let metrics = engine.open_or_create_table("metrics", schema)?;
    /// # for time in 0..100 { metrics.upsert((17, time, time as f64 / 100.0))?; metrics.upsert((18, time, 0.5))?; }
    /// assert_eq!(metrics.scan().prefix((17,)).count()?, 100);
    /// assert_eq!(metrics.scan().prefix((17, 5)).count()?, 1);
    /// # Ok(()) }
    /// ```
    pub fn prefix(self, record: impl Record) -> Scan {
        self.narrow_to(|schema| bounds::prefix(schema, &record))
    }

    /// Only rows whose first key columns have the values of `record`, and whose next key column, a string or a binary,
    /// starts with `text`. For the first key column give a record without columns, such as `[] as [Value; 0]`.
    pub fn starts_with(self, record: impl Record, text: impl AsValue) -> Scan {
        self.narrow_to(|schema| bounds::starts_with(schema, &record, &text))
    }

    /// Only rows with keys in `range`, in the order of keys: where a column is descending, the greater value comes
    /// first.
    ///
    /// The ends may have fewer columns than the key: an included end then includes all keys that start with its
    /// columns, an excluded one excludes all of them. Ends in the wrong order make an empty range.
    /// Both ends are of one type: where they have different numbers of columns, give vectors or slices of
    /// [`Value`](crate::Value).
    ///
    /// ```no_run
    /// # fn example(metrics: nyala::Table) -> Result<(), nyala::Error> {
    /// let early = metrics.scan().range((10,)..(20,)).rows()?;
    /// let from_cpu = metrics.scan().range((17, "cpu")..).rows()?;
    /// # Ok(()) }
    /// ```
    pub fn range<R: Record>(self, range: impl RangeBounds<R>) -> Scan {
        self.set(|scan| {
            let schema = scan.source.reads().schema();
            let range = bounds::range(schema, range.start_bound(), range.end_bound())?;
            scan.range = scan.range.intersect(&range);
            Ok(())
        })
    }

    /// Gives only these columns, in this order. Fewer columns are cheaper, and key columns alone need no row at all.
    pub fn columns<N: AsRef<str>>(self, names: impl IntoIterator<Item = N>) -> Scan {
        self.set(|scan| {
            scan.projection = Some(Projection::named(scan.source.reads().schema(), names)?);
            Ok(())
        })
    }

    /// Gives only the columns that `T` reads, for [`rows`](Scan::rows) or [`cursor`](Scan::cursor) and
    /// [`RowRef::to`](crate::RowRef::to). Those that the table lacks are left to the defaults of `T`.
    pub fn columns_of<'r, T: FromRow<'r>>(self) -> Scan {
        let schema = Arc::clone(self.source.reads().schema());
        self.columns(T::FIELDS.iter().filter(|name| schema.column_index(name).is_some()))
    }

    /// Only rows for which `predicate` is true. It may name columns that are not given.
    ///
    /// Comparisons of leading key columns also narrow the range of keys that is read, and so do those of the columns
    /// that follow a [`prefix`](Scan::prefix): of a key (host, time), `prefix((17,)).filter(column("time").ge(noon))`
    /// reads nothing before noon. Joined by `or` or `not`, comparisons only choose among what is read.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use nyala::{Engine, Options, Schema, Type, column};
    /// # let engine = Engine::open(dir.path(), Options::default())?;
    /// # let schema = Schema::builder().key("host", Type::U32).key("time", Type::U64);
    /// # let schema = schema.column("load", Type::F64).build()?;
    /// # let metrics = engine.open_or_create_table("metrics", schema)?;
    /// # for time in 0..100 { metrics.upsert((17, time, time as f64 / 100.0))?; metrics.upsert((18, time, 0.5))?; }
    /// let loaded = metrics.scan().prefix((17,)).filter(column("load").ge(0.9).and(column("time").lt(95)));
    /// assert_eq!(loaded.count()?, 5);
    /// # Ok(()) }
    /// ```
    pub fn filter(mut self, predicate: Predicate) -> Scan {
        self.filter = Some(match self.filter {
            Some(others) => others.and(predicate),
            None => predicate,
        });
        self
    }

    /// At most `rows` rows, those that come first in the scan's direction.
    pub fn limit(mut self, rows: usize) -> Scan {
        let rows = rows as u64;
        self.limit = Some(self.limit.map_or(rows, |limit| limit.min(rows)));
        self
    }

    /// From the last key to the first. A scan in reverse costs about as much as one forward.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use nyala::{Engine, Options, Schema, Type, column};
    /// # let engine = Engine::open(dir.path(), Options::default())?;
    /// # let schema = Schema::builder().key("host", Type::U32).key("time", Type::U64);
    /// # let schema = schema.column("load", Type::F64).build()?;
    /// # let metrics = engine.open_or_create_table("metrics", schema)?;
    /// # for time in 0..100 { metrics.upsert((17, time, time as f64 / 100.0))?; metrics.upsert((18, time, 0.5))?; }
    /// let newest = metrics.scan().prefix((17,)).reverse().limit(3).rows()?;
    /// let times = newest.map(|row| row?.get::<u64>("time")).collect::<Result<Vec<_>, _>>()?;
    /// assert_eq!(times, [99, 98, 97]);
    /// # Ok(()) }
    /// ```
    pub fn reverse(mut self) -> Scan {
        self.direction = Direction::Reverse;
        self
    }

    /// Sees what `snapshot` sees. Without it the scan sees what is there when it is started.
    pub fn at(self, snapshot: &Snapshot) -> Scan {
        self.set(|scan| {
            scan.point = Some(scan.source.pin(Some(snapshot))?);
            Ok(())
        })
    }

    fn narrow_to(self, keys: impl FnOnce(&Schema) -> Result<Narrow>) -> Scan {
        self.set(|scan| {
            let Narrow { range, fixed } = keys(scan.source.reads().schema())?;
            scan.range = scan.range.intersect(&range);
            // Of two that contradict each other nothing is left, whichever stays.
            if fixed.len() > scan.fixed.len() {
                scan.fixed = fixed;
            }
            Ok(())
        })
    }

    /// Sets something, and remembers the first error.
    fn set(mut self, set: impl FnOnce(&mut Scan) -> Result<()>) -> Scan {
        if self.error.is_none()
            && let Err(error) = set(&mut self)
        {
            self.error = Some(error.context("scan"));
        }
        self
    }
}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan")
            .field("direction", &self.direction)
            .field("limit", &self.limit)
            .field("filter", &self.filter)
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}
