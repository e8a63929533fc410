//! Starts a scan: as rows, records, batches, a cursor, a count, or cut into parts.
//!
//! Owns the way from what was asked for to a plan. All that was asked for is checked here, before anything is read.
//!
//! Invariant: a scan and its parts see one state of the table, fixed before the first row.

use std::sync::Arc;

use sstable::Direction;

use super::Scan;
use crate::error::{Error, Result};
use crate::read::pipeline::{Counter, Pipeline, Plan, Sink};
use crate::read::{Batches, Cursor, ReadPoint, Records, Rows, bounds, partition};
use crate::record::FromRow;
use crate::row::{Projection, Row};

impl Scan {
    /// Starts the scan, row by row. The rows are handles that can be kept, and keep the batch that they came in.
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
    /// for row in metrics.scan().range((17, 10)..(17, 13)).rows()? {
    ///     let row = row?;
    ///     println!("{}: {}", row.get::<u64>("time")?, row.get::<f64>("load")?);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if the scan was told something wrong, `SchemaMismatch` if a column that it reads was dropped
    /// since the table was opened, `Closed`, `NoSuchTable`, `Corruption`, `Io`.
    pub fn rows(self) -> Result<Rows> {
        Ok(Rows::new(self.start()?))
    }

    /// The first row of the scan, in its direction; `None` if it has none.
    ///
    /// # Errors
    /// As [`Scan::rows`].
    pub fn first(self) -> Result<Option<Row>> {
        self.limit(1).rows()?.next().transpose()
    }

    /// The last row of the scan. Costs as much as the first: it is read from the other end. A limit counts from the
    /// first, and the whole scan is read if there is one.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use nyala::{Engine, Options, Schema, Type};
    /// # let engine = Engine::open(dir.path(), Options::default())?;
    /// # let schema = Schema::builder().key("host", Type::U32).key("time", Type::U64).build()?;
    /// # let events = engine.open_or_create_table("events", schema)?;
    /// # for time in 0..25 { events.upsert((17, time))?; events.upsert((18, time + 100))?; }
    /// let latest = events.scan().prefix((17,)).last()?.expect("it has some");
    /// assert_eq!(latest.get::<u64>("time")?, 24);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Scan::rows`].
    pub fn last(mut self) -> Result<Option<Row>> {
        if self.limit.is_some() {
            return self.rows()?.last().transpose();
        }
        self.direction = match self.direction {
            Direction::Forward => Direction::Reverse,
            Direction::Reverse => Direction::Forward,
        };
        self.first()
    }

    /// Starts the scan, and reads each row as a `T`, of whose columns alone it is. For a type that borrows use
    /// [`cursor`](Scan::cursor) and [`RowRef::to`](crate::RowRef::to).
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use nyala::{Engine, FromRow, Options, Record, Schema};
    ///
    /// #[derive(Record)]
    /// struct Metric {
    ///     #[nyala(key)]
    ///     host: u32,
    ///     #[nyala(key)]
    ///     metric: String,
    ///     value: f64,
    /// }
    ///
    /// #[derive(Debug, FromRow, PartialEq)]
    /// struct Reading {
    ///     host: u32,
    ///     value: f64,
    /// }
    /// let engine = Engine::open(dir.path(), Options::default())?;
    /// let metrics = engine.open_or_create_table("metrics", Schema::of::<Metric>()?)?;
    /// for host in 0..3 {
    ///     metrics.upsert(Metric { host, metric: "cpu".into(), value: f64::from(host) / 4.0 })?;
    /// }
    /// let last: Option<Reading> = metrics.scan().reverse().records()?.next().transpose()?;
    /// assert_eq!(last, Some(Reading { host: 2, value: 0.5 }));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Scan::rows`].
    pub fn records<T: for<'r> FromRow<'r>>(self) -> Result<Records<T>> {
        Ok(Records::new(self.columns_of::<T>().rows()?))
    }

    /// Starts the scan, lending row by row: the quickest way to look at each row once.
    ///
    /// # Errors
    /// As [`Scan::rows`].
    pub fn cursor(self) -> Result<Cursor> {
        Ok(Cursor::new(self.start()?))
    }

    /// Starts the scan, batch by batch. Batches are small at first and grow to some hundred rows or kilobytes.
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
    /// let mut sum = 0.0;
    /// for batch in metrics.scan().columns(["load"]).batches()? {
    ///     for row in batch?.iter() {
    ///         sum += row.get::<f64>("load")?;
    ///     }
    /// }
    /// assert!((sum - 99.5).abs() < 1e-9);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Scan::rows`].
    pub fn batches(self) -> Result<Batches> {
        Ok(Batches::new(self.start()?))
    }

    /// How many rows the scan has. Fetches no row unless the filter needs it.
    ///
    /// # Errors
    /// As [`Scan::rows`].
    pub fn count(mut self) -> Result<u64> {
        self.projection = Some(Projection::named(self.source.reads().schema(), [""; 0])?);
        if self.limit.is_some() {
            // A transaction is told how far it has come.
            return self.batches()?.map(|batch| Ok(batch?.len() as u64)).sum();
        }
        let mut pipeline = self.start()?;
        let mut count = 0;
        loop {
            let mut batch = Counter::default();
            pipeline.next_batch(&mut batch)?;
            if batch.rows() == 0 {
                return Ok(count);
            }
            count += batch.rows() as u64;
        }
    }

    /// Cuts the scan into at most `parts` scans of disjoint ranges of keys and similar size, in the scan's order, to be
    /// run in parallel. All of them see the same state of the table, and together they give the rows of this scan.
    ///
    /// There is always one part at least; there are fewer than asked for if the table is too small to tell.
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
    /// let parts = metrics.scan().partitions(4)?;
    /// let counts = std::thread::scope(|scope| {
    ///     let threads: Vec<_> = parts.into_iter().map(|part| scope.spawn(|| part.count())).collect();
    ///     threads.into_iter().map(|thread| thread.join().expect("it does not panic")).sum::<Result<u64, _>>()
    /// })?;
    /// assert_eq!(counts, 200);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Scan::rows`], and `InvalidArgument` if the scan has a limit, which its parts could not share, or if `parts`
    /// is 0.
    pub fn partitions(mut self, parts: usize) -> Result<Vec<Scan>> {
        let (plan, point) = self.check()?;
        if parts == 0 {
            return Err(Error::invalid("a scan cannot be cut into 0 parts"));
        }
        if self.limit.is_some() {
            return Err(Error::invalid("a scan with a limit cannot be cut into parts"));
        }
        let mut ranges = partition::split(&point, &plan.range, parts)?;
        if self.direction == Direction::Reverse {
            ranges.reverse();
        }
        self.point = Some(point);
        Ok(ranges.into_iter().map(|range| Scan { range, ..self.clone() }).collect())
    }

    fn start(self) -> Result<Pipeline> {
        let (plan, point) = self.check()?;
        Pipeline::new(self.source, plan, point)
    }

    /// The plan, and what it sees.
    pub(in crate::read) fn check(&self) -> Result<(Plan, ReadPoint)> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let reads = Arc::clone(self.source.reads());
        let schema = reads.schema();
        let filter = self.filter.as_ref().map(|filter| filter.compile(schema)).transpose()?;
        let range = match &filter {
            Some(filter) => self.range.intersect(&bounds::implied(schema, &self.fixed, filter)),
            None => self.range.clone(),
        };
        let projection = match &self.projection {
            Some(projection) => projection.clone(),
            None => Projection::all(schema),
        };
        let point = match &self.point {
            Some(point) => point.clone(),
            None => self.source.pin(None)?,
        };
        reads.check_columns(|column| {
            projection.columns().contains(&column)
                || filter.as_ref().is_some_and(|filter| filter.reads(column))
        })?;
        let limit = self.limit.unwrap_or(u64::MAX);
        Ok((Plan { reads, projection, filter, range, direction: self.direction, limit }, point))
    }
}
