//! Compares the whole table with what the generator makes.
//!
//! Invariant: a row of this run is right if it is in the table once, with every column as generated. Keys are unique
//! and come in order, and each leads back to one number, so as many right rows as were stored are all of them.

use std::ops::Range;
use std::time::{Duration, Instant};

use nyala::{Result, Table};

use crate::args::Args;
use crate::generator::{RowSource, Spec};
use crate::process;
use crate::worker::Outcome;

/// How many of the rows that are wrong are described.
const SHOWN: usize = 5;

/// What should be in the table.
#[derive(Debug)]
pub(crate) struct Expected {
    numbers: Range<u64>,
    rows_per_thread: u64,
    is_loaded: bool,
    /// Loaded rows that need not be there, in order.
    missing: Vec<Range<u64>>,
    stored: u64,
    /// Whether the table may hold rows of earlier runs.
    has_others: bool,
}

impl Expected {
    /// What a load has acknowledged.
    pub(crate) fn loaded(args: &Args, outcome: &Outcome) -> Expected {
        Expected {
            is_loaded: true,
            missing: outcome.missing.clone(),
            stored: outcome.stored,
            has_others: args.append,
            ..Expected::unknown(args)
        }
    }

    /// An earlier run's rows: of each thread's, the first so and so many.
    pub(crate) fn unknown(args: &Args) -> Expected {
        Expected {
            numbers: args.seq_start..args.seq_start + args.rows(),
            rows_per_thread: args.num_rows_per_thread,
            is_loaded: false,
            missing: Vec::new(),
            stored: 0,
            has_others: false,
        }
    }

    /// The numbers that rows may have.
    pub(crate) fn numbers(&self) -> Range<u64> {
        self.numbers.clone()
    }

    /// Whether the row of this number must be in the table, as it was generated.
    pub(crate) fn must_have(&self, number: u64) -> bool {
        let after = self.missing.partition_point(|range| range.end <= number);
        let is_missing = self.missing.get(after).is_some_and(|range| range.contains(&number));
        self.is_loaded && self.numbers.contains(&number) && !is_missing
    }

    /// How many rows the table must have, if that is known.
    pub(crate) fn table_rows(&self) -> Option<u64> {
        (self.is_loaded && !self.has_others).then_some(self.stored)
    }
}

/// What the comparison found.
#[derive(Debug)]
pub(crate) struct Verification {
    pub(crate) close_seconds: f64,
    pub(crate) open_seconds: f64,
    /// Rows that are as generated.
    pub(crate) right: u64,
    /// Rows that differ, are missing, or should not be there.
    pub(crate) wrong: u64,
    /// Rows of other runs, which were not compared.
    pub(crate) others: u64,
    pub(crate) seconds: f64,
    /// What the first wrong rows are.
    pub(crate) first_wrong: Vec<String>,
    /// Bytes of memory afterwards.
    pub(crate) memory: Option<u64>,
}

impl Verification {
    fn note_wrong(&mut self, rows: u64, text: impl FnOnce() -> String) {
        self.wrong += rows;
        if self.first_wrong.len() < SHOWN {
            self.first_wrong.push(text());
        }
    }
}

/// Reads the whole table and compares it.
///
/// # Errors
/// What the engine says.
pub(crate) fn verify(
    table: &Table,
    spec: &Spec,
    expected: &Expected,
    closed: Duration,
    opened: Duration,
) -> Result<Verification> {
    let mut found = Verification {
        close_seconds: closed.as_secs_f64(),
        open_seconds: opened.as_secs_f64(),
        right: 0,
        wrong: 0,
        others: 0,
        seconds: 0.0,
        first_wrong: Vec::new(),
        memory: None,
    };
    let mut row = RowSource::new(spec);
    let mut progress = Progress::new(expected);
    let start = Instant::now();
    let mut cursor = table.scan().cursor()?;
    while let Some(stored) = cursor.next()? {
        let number = spec.number_of(stored)?;
        let is_of_this_run = expected.numbers.contains(&number);
        if is_of_this_run {
            row.fill(number);
            let is_right = row.equals(stored)?;
            if is_right {
                progress.note(number);
            }
            if is_right && (!expected.is_loaded || expected.must_have(number)) {
                found.right += 1;
            } else if expected.is_loaded && !expected.must_have(number) {
                found.others += 1;
            } else {
                found.note_wrong(1, || format!("row {number} is not as it was generated"));
            }
        } else if expected.has_others {
            found.others += 1;
        } else {
            found.note_wrong(1, || format!("there is a row of number {number}, which was never loaded"));
        }
    }
    found.seconds = start.elapsed().as_secs_f64();
    found.memory = process::resident_memory();
    if expected.is_loaded {
        let missing = expected.stored.saturating_sub(found.right);
        if missing > 0 {
            found.note_wrong(missing, || format!("{missing} of the {} rows are missing", expected.stored));
        }
    } else {
        progress.check(&mut found);
    }
    Ok(found)
}

/// How far each thread of an interrupted run came: its rows must be a prefix of what it had to load, since it had
/// one batch after the other acknowledged.
struct Progress {
    first: u64,
    rows_per_thread: u64,
    threads: Vec<ThreadProgress>,
}

#[derive(Clone, Copy, Default)]
struct ThreadProgress {
    rows: u64,
    /// One above the greatest position.
    end: u64,
}

impl Progress {
    fn new(expected: &Expected) -> Progress {
        let rows = expected.numbers.end - expected.numbers.start;
        let threads = rows.checked_div(expected.rows_per_thread).unwrap_or(0);
        let threads =
            vec![ThreadProgress::default(); usize::try_from(threads).expect("at most 1,024 threads")];
        Progress { first: expected.numbers.start, rows_per_thread: expected.rows_per_thread, threads }
    }

    fn note(&mut self, number: u64) {
        let position = number - self.first;
        let thread = (position / self.rows_per_thread) as usize;
        let thread = &mut self.threads[thread];
        thread.rows += 1;
        thread.end = thread.end.max(position % self.rows_per_thread + 1);
    }

    fn check(&self, found: &mut Verification) {
        for (thread, progress) in self.threads.iter().enumerate() {
            let gaps = progress.end - progress.rows;
            if gaps > 0 {
                found.note_wrong(gaps, || {
                    format!(
                        "thread {thread} came to its row {}, but {gaps} before it are missing",
                        progress.end
                    )
                });
            }
        }
    }
}
