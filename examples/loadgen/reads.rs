//! Reads of what was loaded, for their times: a full scan, and random rows by their keys.

use std::error::Error;
use std::time::Instant;

use hdrhistogram::Histogram;
use nyala::Table;

use crate::generator::{RowSource, Spec, next};
use crate::process;
use crate::verify::Expected;
use crate::worker::{new_latencies, record};

/// What the scans took.
#[derive(Debug)]
pub(crate) struct ScanFigures {
    pub(crate) rows: u64,
    pub(crate) seconds: f64,
    /// Counting the rows, which needs the index alone.
    pub(crate) count_seconds: f64,
    /// How many rows there should be, if that is known and not so.
    pub(crate) rows_expected: Option<u64>,
    /// Bytes of memory afterwards.
    pub(crate) memory: Option<u64>,
}

/// Reads every row of the table, all columns, in the order of keys. Then counts them.
///
/// # Errors
/// What the engine says, or that the scan and the count disagree.
pub(crate) fn scan(table: &Table, expected: &Expected) -> Result<ScanFigures, Box<dyn Error>> {
    let start = Instant::now();
    let mut rows = 0;
    let mut cursor = table.scan().cursor()?;
    let last = table.schema().columns().len() - 1;
    while let Some(row) = cursor.next()? {
        std::hint::black_box(row.value(last)?);
        rows += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    drop(cursor);
    let start = Instant::now();
    let count = table.count()?;
    let count_seconds = start.elapsed().as_secs_f64();
    if count != rows {
        return Err(format!("a scan gave {rows} rows, but the count is {count}").into());
    }
    let rows_expected = expected.table_rows().filter(|&expected| expected != rows);
    Ok(ScanFigures { rows, seconds, count_seconds, rows_expected, memory: process::resident_memory() })
}

/// What the point reads took.
#[derive(Debug)]
pub(crate) struct GetFigures {
    pub(crate) found: u64,
    /// Rows that are not there, and need not be: an interrupted run may not have come so far.
    pub(crate) absent: u64,
    /// Rows that should be there and are not, or are others.
    pub(crate) wrong: u64,
    pub(crate) seconds: f64,
    /// Nanoseconds of each.
    pub(crate) latencies: Histogram<u64>,
    /// Bytes of memory afterwards.
    pub(crate) memory: Option<u64>,
}

/// Reads `count` rows by their keys, in one thread and in random order, and compares them.
///
/// # Errors
/// What the engine says.
pub(crate) fn gets(table: &Table, spec: &Spec, expected: &Expected, count: u64) -> nyala::Result<GetFigures> {
    let mut figures =
        GetFigures { found: 0, absent: 0, wrong: 0, seconds: 0.0, latencies: new_latencies(), memory: None };
    let rows = expected.numbers();
    if rows.is_empty() {
        return Ok(figures);
    }
    let mut row = RowSource::new(spec);
    let mut state = spec.seed ^ 0x6765_7473;
    for _ in 0..count {
        let number = rows.start + next(&mut state) % (rows.end - rows.start);
        row.fill(number);
        let start = Instant::now();
        let stored = table.get(row.key())?;
        let time = start.elapsed();
        record(&mut figures.latencies, time);
        figures.seconds += time.as_secs_f64();
        match stored {
            Some(stored) if row.equals(stored.as_ref())? => figures.found += 1,
            // A row that was refused may be there from an earlier run, and differ.
            Some(_) if !expected.must_have(number) => figures.absent += 1,
            None if !expected.must_have(number) => figures.absent += 1,
            _ => figures.wrong += 1,
        }
    }
    figures.memory = process::resident_memory();
    Ok(figures)
}
