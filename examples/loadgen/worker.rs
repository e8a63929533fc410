//! The threads that load, and what they tell.
//!
//! Each writes the rows of its own numbers in batches. A batch that a duplicate key stops is written again row by row,
//! so that only the rows that are really there already are lost, and counted. After any other error the thread gives
//! up: what stops one batch for such a reason stops the next as well.

use std::fmt;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};
use nyala::{Engine, Error, ErrorKind, Table, WriteBatch};

use crate::args::Args;
use crate::generator::{RowSource, Spec};

/// A batch of so many bytes is committed, even if it has fewer rows than asked for: the engine takes only so much.
const BATCH_BYTES_ENOUGH: usize = 16 << 20;

/// What became of a thread's rows, or of all threads' rows.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Rows that were acknowledged.
    pub(crate) stored: u64,
    /// Rows that were refused.
    pub(crate) errors: u64,
    pub(crate) first_errors: Vec<String>,
    /// The numbers of rows that are not in the table, or not as this run made them. In order.
    pub(crate) missing: Vec<Range<u64>>,
    /// Nanoseconds of each commit of a batch.
    pub(crate) latencies: Histogram<u64>,
    /// Why a thread gave up.
    pub(crate) fatal: Option<Error>,
    /// When the last row was acknowledged.
    pub(crate) finished: Instant,
}

impl Outcome {
    fn new() -> Outcome {
        Outcome {
            stored: 0,
            errors: 0,
            first_errors: Vec::new(),
            missing: Vec::new(),
            latencies: new_latencies(),
            fatal: None,
            finished: Instant::now(),
        }
    }

    /// Takes in what became of the rows that follow.
    fn merge(&mut self, other: Outcome, errors_shown: usize) {
        self.stored += other.stored;
        self.errors += other.errors;
        self.first_errors.extend(other.first_errors);
        self.first_errors.truncate(errors_shown);
        self.missing.extend(other.missing);
        self.latencies.add(&other.latencies).expect("both have the same bounds");
        self.fatal = self.fatal.take().or(other.fatal);
        self.finished = self.finished.max(other.finished);
    }

    fn note_missing(&mut self, rows: Range<u64>) {
        match self.missing.last_mut() {
            Some(last) if last.end == rows.start => last.end = rows.end,
            _ => self.missing.push(rows),
        }
    }
}

/// An empty histogram of nanoseconds up to an hour, to three digits.
pub(crate) fn new_latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("valid bounds")
}

/// Adds a time to a histogram; one above an hour counts as an hour.
pub(crate) fn record(latencies: &mut Histogram<u64>, time: Duration) {
    latencies.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}

/// Loads all rows, and returns when all threads are done.
pub(crate) fn run(args: &Args, spec: &Spec, engine: &Engine, table: &Table) -> Outcome {
    let done = AtomicU64::new(0);
    let mut total = Outcome::new();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..u64::from(args.num_threads))
            .map(|index| {
                let first = args.seq_start + index * args.num_rows_per_thread;
                let rows = first..first + args.num_rows_per_thread;
                let mut worker = Worker::new(args, spec, engine, table, &done);
                scope.spawn(move || worker.load(rows))
            })
            .collect();
        if crate::shows_progress() {
            show_progress(args.rows(), &done, || workers.iter().all(|worker| worker.is_finished()));
        }
        for worker in workers {
            let outcome = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
            total.merge(outcome, args.show_first_n_errors);
        }
    });
    total
}

/// Draws the progress until all is finished.
fn show_progress(rows: u64, done: &AtomicU64, is_finished: impl Fn() -> bool) {
    let style = ProgressStyle::with_template(
        "{elapsed:>5} {wide_bar} {human_pos} of {human_len} rows, {rate} rows/s, {eta} to go",
    );
    let bar = ProgressBar::new(rows).with_style(style.expect("a valid template").with_key(
        "rate",
        |state: &ProgressState, out: &mut dyn fmt::Write| {
            // Writing into the bar's line cannot fail.
            let _ = write!(out, "{}", HumanCount(state.per_sec() as u64));
        },
    ));
    while !is_finished() {
        thread::sleep(Duration::from_millis(50));
        bar.set_position(done.load(Ordering::Relaxed));
    }
    bar.finish_and_clear();
}

struct Worker<'a> {
    args: &'a Args,
    table: &'a Table,
    batch: WriteBatch,
    row: RowSource<'a>,
    done: &'a AtomicU64,
    outcome: Outcome,
}

impl<'a> Worker<'a> {
    fn new(
        args: &'a Args,
        spec: &'a Spec,
        engine: &Engine,
        table: &'a Table,
        done: &'a AtomicU64,
    ) -> Worker<'a> {
        let (batch, row) = (engine.batch(), RowSource::new(spec));
        Worker { args, table, batch, row, done, outcome: Outcome::new() }
    }

    fn load(&mut self, rows: Range<u64>) -> Outcome {
        let mut next = rows.start;
        while next < rows.end && self.outcome.fatal.is_none() {
            let batch = next..self.fill_batch(next..rows.end);
            next = batch.end;
            self.done.fetch_add(batch.end - batch.start, Ordering::Relaxed);
            self.commit(batch);
        }
        if next < rows.end {
            self.outcome.note_missing(next..rows.end);
        }
        self.outcome.finished = Instant::now();
        std::mem::replace(&mut self.outcome, Outcome::new())
    }

    /// Puts the first rows into the batch, as many as it takes. Returns the number of the first that is not in it.
    ///
    /// A row that no batch takes is refused when it would be the first of its batch, so a batch has all rows up to its
    /// end.
    fn fill_batch(&mut self, rows: Range<u64>) -> u64 {
        let end = rows.end.min(rows.start + u64::from(self.args.batch_rows));
        for number in rows.start..end {
            if self.batch.bytes() >= BATCH_BYTES_ENOUGH {
                return number;
            }
            self.row.fill(number);
            let added = match self.args.use_upsert {
                true => self.batch.upsert(self.table, &self.row),
                false => self.batch.insert(self.table, &self.row),
            };
            match added {
                Ok(()) => {}
                Err(_) if number > rows.start => return number,
                Err(error) => {
                    self.refuse(number..number + 1, &error);
                    return number + 1;
                }
            }
        }
        end
    }

    /// Commits the batch, which has these rows, unless it is empty since its only row was refused.
    fn commit(&mut self, rows: Range<u64>) {
        if self.batch.is_empty() {
            return;
        }
        let in_batch = self.batch.len() as u64;
        let start = Instant::now();
        let committed = self.batch.commit(self.args.durability.durability());
        record(&mut self.outcome.latencies, start.elapsed());
        match committed {
            Ok(_) => self.outcome.stored += in_batch,
            Err(error) => {
                self.batch.clear();
                if error.kind() == ErrorKind::DuplicateKey {
                    self.load_one_by_one(rows);
                } else {
                    self.give_up(rows, error);
                }
            }
        }
    }

    /// Inserts the rows of a batch in which there is a duplicate.
    fn load_one_by_one(&mut self, rows: Range<u64>) {
        for number in rows.clone() {
            self.row.fill(number);
            match self.table.insert(&self.row) {
                Ok(()) => self.outcome.stored += 1,
                Err(error)
                    if matches!(error.kind(), ErrorKind::DuplicateKey | ErrorKind::InvalidArgument) =>
                {
                    self.refuse(number..number + 1, &error);
                }
                Err(error) => return self.give_up(number..rows.end, error),
            }
        }
    }

    fn give_up(&mut self, rows: Range<u64>, error: Error) {
        self.refuse(rows, &error);
        self.outcome.fatal = Some(error);
    }

    /// Counts rows that were not written.
    fn refuse(&mut self, rows: Range<u64>, error: &Error) {
        self.outcome.errors += rows.end - rows.start;
        if self.outcome.first_errors.len() < self.args.show_first_n_errors {
            self.outcome.first_errors.push(match rows.end - rows.start {
                1 => format!("row {}: {error}", rows.start),
                _ => format!("rows {} to {}: {error}", rows.start, rows.end - 1),
            });
        }
        self.outcome.note_missing(rows);
    }
}
