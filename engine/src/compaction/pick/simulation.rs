//! Sustained upserts on paper: what picking and backpressure make of a table that is overwritten at random for long,
//! with the numbers of a table but none of its rows.
//!
//! Keys are drawn uniformly, so that counts say everything: of the entries of a run, as many are overwritten by a newer
//! run as that one has of all keys. Two processors are shared by two writers, a flush and the lanes of compactions, at
//! the cost that each row and each entry took when it was measured; only the ratios of these costs matter.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pkindex::pick::RunShape;

use super::*;
use crate::compaction::shape::{RowsetShape, RunDetail, union};
use crate::stall::Stall;

const ROW_BYTES: f64 = 112.0;
const ENTRY_BYTES: f64 = 31.0;
const MIB: u64 = 1 << 20;
/// Processor time, in seconds, of writing a row, flushing it, merging an entry, moving a row.
const WRITE: f64 = 0.75e-6;
const FLUSH: f64 = 0.55e-6;
const MERGE: f64 = 0.09e-6;
const MOVE: f64 = 0.45e-6;

const PROCESSORS: f64 = 2.0;
const STEP: f64 = 0.005;
/// The range of all keys, in ranks.
const RANKS: f64 = 1000.0;

#[derive(Clone, Debug)]
struct SimRun {
    id: u32,
    entries: f64,
}

#[derive(Clone, Debug)]
struct SimRowset {
    id: u32,
    run: u32,
    first: f64,
    last: f64,
    rows: f64,
    live: f64,
}

#[derive(Clone, Debug)]
struct Job {
    inputs: Vec<u32>,
    moving: Vec<u32>,
    bytes: u64,
    work: f64,
    done: f64,
    bytes_out: f64,
}

/// What came of it, while upserts went on.
#[derive(Debug, Default)]
struct Outcome {
    /// How fast upserts were, against the load.
    ratio: f64,
    /// Bytes on disk, running outputs included, against those of the live rows; the greatest.
    disk: f64,
    depth: usize,
    runs: usize,
    /// How often an entry and a row of an upsert were written, the flush included.
    index_written: f64,
    rows_written: f64,
    /// The greatest part of the rows stored to which no entry points.
    garbage: f64,
}

struct Sim {
    keys: f64,
    memtable_rows: f64,
    lanes: f64,
    policy: Policy,
    stall: Arc<Stall>,
    runs: Vec<SimRun>,
    rowsets: Vec<SimRowset>,
    jobs: Vec<Job>,
    next_id: u32,
    overwrite_permille: u64,
    overwrites: bool,
    // The load and the flush under way.
    active: f64,
    sealed: usize,
    flush_left: f64,
    flush_started: f64,
    now: f64,
    index_out: f64,
    rows_out: f64,
}

impl Sim {
    fn id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    fn shape(&self, with_jobs: bool) -> Shape {
        let busy: BTreeSet<u32> =
            self.jobs.iter().flat_map(|job| job.inputs.iter().copied()).filter(|_| with_jobs).collect();
        let runs = self.runs.iter().map(|run| RunShape {
            bytes: (run.entries * ENTRY_BYTES) as u64,
            entries: run.entries as u64,
            busy: busy.contains(&run.id),
        });
        let rowsets = self.rowsets.iter().map(|rowset| RowsetShape {
            id: RowsetId(rowset.id),
            run: self.runs.iter().position(|run| run.id == rowset.run).expect("it is there"),
            first: rowset.first as usize,
            last: (rowset.last as usize).saturating_sub(1),
            rows: rowset.rows as u64,
            live: (rowset.live as u64).min(rowset.rows as u64),
            bytes: (rowset.rows * ROW_BYTES) as u64,
            is_free: true,
            is_raw: false,
        });
        Shape {
            details: vec![RunDetail::default(); self.runs.len()],
            runs: runs.collect(),
            rowsets: rowsets.collect(),
            overwrite_percent: self.overwrite_permille.div_ceil(10),
        }
    }

    fn survive(&self, inputs: &[u32]) -> Vec<f64> {
        let mut left = 1.0;
        let entries = |id: &u32| self.runs.iter().find(|run| run.id == *id).expect("it is there").entries;
        inputs
            .iter()
            .map(|id| {
                let survive = left;
                if self.overwrites {
                    left *= 1.0 - (entries(id) / self.keys).min(1.0);
                }
                survive
            })
            .collect()
    }

    fn start(&mut self, below: Option<u64>) -> bool {
        let shape = self.shape(true);
        let Some(work) = pick(&shape, &self.policy, Load::Busy) else { return false };
        if below.is_some_and(|below| work.bytes > below) {
            return false;
        }
        let inputs: Vec<u32> = self.runs[work.inputs.clone()].iter().map(|run| run.id).collect();
        let moving: Vec<u32> = work.moving.iter().map(|id| id.0).collect();
        let survive = self.survive(&inputs);
        let (mut entries_in, mut entries_out, mut moved) = (0.0, 0.0, 0.0);
        for (id, survive) in inputs.iter().zip(&survive) {
            let entries = self.runs.iter().find(|run| run.id == *id).expect("it is there").entries;
            entries_in += entries;
            entries_out += entries * survive;
            for rowset in self.rowsets.iter().filter(|rowset| rowset.run == *id) {
                if moving.contains(&rowset.id) {
                    moved += rowset.live * survive;
                }
            }
        }
        self.index_out += entries_out;
        self.rows_out += moved;
        let bytes_out = entries_out * ENTRY_BYTES + moved * ROW_BYTES;
        self.jobs.push(Job {
            inputs,
            moving,
            bytes: work.bytes,
            work: entries_in * MERGE + moved * MOVE,
            done: 0.0,
            bytes_out,
        });
        true
    }

    fn finish(&mut self, job: &Job) {
        let survive = self.survive(&job.inputs);
        let run = self.id();
        let mut entries = 0.0;
        let mut moved = Vec::new();
        for (id, survive) in job.inputs.iter().zip(&survive) {
            let of = self.runs.iter().find(|run| run.id == *id).expect("it is there").entries;
            entries += of * survive;
            for rowset in self.rowsets.iter_mut().filter(|rowset| rowset.run == *id) {
                rowset.live *= survive;
                rowset.run = run;
            }
        }
        self.rowsets.retain(|rowset| {
            let is_moved = job.moving.contains(&rowset.id);
            if is_moved {
                moved.push(rowset.clone());
            }
            !is_moved && rowset.live >= 1.0
        });
        for (first, last) in
            union(moved.iter().map(|rowset| (rowset.first as u64, rowset.last as u64)).collect())
        {
            let within =
                moved.iter().filter(|rowset| first <= rowset.first as u64 && rowset.last as u64 <= last);
            let rows: f64 = within.map(|rowset| rowset.live).sum();
            let pieces = (rows * ROW_BYTES / self.policy.rowset_bytes as f64).ceil().max(1.0);
            for piece in 0..pieces as u64 {
                let width = (last - first) as f64 / pieces;
                let id = self.id();
                let first = (first as f64 + width * piece as f64).round();
                let last = (first + width).round();
                let rows = rows / pieces;
                self.rowsets.push(SimRowset { id, run, first, last, rows, live: rows });
            }
        }
        let at = self.runs.iter().position(|run| run.id == job.inputs[0]).expect("it is there");
        self.runs.splice(at..at + job.inputs.len(), [SimRun { id: run, entries }]);
        self.note_debt();
    }

    fn note_debt(&self) {
        let debt = debt(&self.shape(false), &self.policy);
        self.stall.set_debt(debt.runs, debt.depth);
    }

    /// Lets two writers write for a moment, and everything else go on. Gives how many rows.
    fn step(&mut self, left: f64) -> f64 {
        if self.jobs.is_empty() {
            self.start(None);
        } else if let Some(job) = self.jobs.last() {
            let below = job.bytes / 4;
            self.start(Some(below));
        }
        let is_flushing = self.sealed > 0;
        let lanes = if self.jobs.is_empty() { 0.0 } else { self.lanes };
        let background = lanes + f64::from(u8::from(is_flushing));
        let share = (PROCESSORS / (background + 2.0)).min(1.0);
        let mut writing = share * 2.0 * STEP;
        if let Some(rate) = self.stall.allowed_rows(ROW_BYTES + ENTRY_BYTES) {
            writing = writing.min(rate * STEP * WRITE);
        }
        // Memory: at most two memtables wait.
        if self.sealed > 2 {
            writing = 0.0;
        }
        let written = (writing / WRITE).min(left);
        let each =
            if background > 0.0 { ((PROCESSORS * STEP - writing) / background).min(STEP) } else { 0.0 };
        self.active += written;
        if self.active >= self.memtable_rows {
            if self.sealed == 0 {
                (self.flush_started, self.flush_left) = (self.now, self.memtable_rows);
            }
            self.sealed += 1;
            self.active = 0.0;
        }
        if is_flushing {
            self.flush_left -= each / FLUSH;
            if self.flush_left <= 0.0 {
                self.sealed -= 1;
                let rows = if self.overwrites {
                    self.keys * (1.0 - (-self.memtable_rows / self.keys).exp())
                } else {
                    self.memtable_rows
                };
                let oldest = self.runs.last().map_or(0.0, |run| run.entries);
                let found = if self.overwrites { (oldest / self.keys * 1000.0) as u64 } else { 0 };
                self.overwrite_permille = (3 * self.overwrite_permille + found) / 4;
                let (id, run) = (self.id(), self.id());
                self.runs.insert(0, SimRun { id: run, entries: rows });
                self.rowsets.push(SimRowset { id, run, first: 0.0, last: RANKS, rows, live: rows });
                let bytes = (self.memtable_rows * (ROW_BYTES + ENTRY_BYTES)) as usize;
                self.stall.note_flush(
                    bytes,
                    Duration::from_secs_f64(self.flush_started),
                    Duration::from_secs_f64(self.now + STEP),
                );
                (self.flush_started, self.flush_left) = (self.now, self.memtable_rows);
                self.note_debt();
            }
        }
        if let Some(job) = self.jobs.last_mut() {
            job.done += each * lanes;
            if job.done >= job.work {
                let job = self.jobs.pop().expect("there is one");
                self.finish(&job);
            }
        }
        self.now += STEP;
        written
    }

    fn disk(&self) -> f64 {
        let index: f64 = self.runs.iter().map(|run| run.entries).sum::<f64>() * ENTRY_BYTES;
        let rows: f64 = self.rowsets.iter().map(|rowset| rowset.rows).sum::<f64>() * ROW_BYTES;
        let outputs: f64 = self.jobs.iter().map(|job| job.bytes_out * (job.done / job.work)).sum();
        index + rows + outputs
    }
}

/// Loads so many keys, then overwrites at random.
fn simulate(policy: Policy, keys: f64, upserts: f64, memtable_rows: f64, lanes: f64) -> Outcome {
    let mut sim = Sim {
        keys,
        memtable_rows,
        lanes,
        policy,
        stall: Arc::new(Stall::new(128 << 20)),
        runs: Vec::new(),
        rowsets: Vec::new(),
        jobs: Vec::new(),
        next_id: 0,
        overwrite_permille: 1000,
        overwrites: false,
        active: 0.0,
        sealed: 0,
        flush_left: 0.0,
        flush_started: 0.0,
        now: 0.0,
        index_out: 0.0,
        rows_out: 0.0,
    };
    let mut left = keys;
    while left > 0.0 {
        left -= sim.step(left);
    }
    let load = keys / sim.now;
    sim.overwrites = true;
    let (start, mut result) = (sim.now, Outcome::default());
    (sim.index_out, sim.rows_out) = (0.0, 0.0);
    let mut left = upserts;
    while left > 0.0 {
        left -= sim.step(left);
        result.disk = result.disk.max(sim.disk() / (keys * (ROW_BYTES + ENTRY_BYTES)));
        result.depth = result.depth.max(sim.shape(false).depth());
        result.runs = result.runs.max(sim.runs.len());
        let shape = sim.shape(false);
        result.garbage = result.garbage.max(shape.garbage_bytes() as f64 / shape.row_bytes() as f64);
    }
    result.ratio = upserts / (sim.now - start) / load;
    result.index_written = sim.index_out / upserts + 1.0;
    result.rows_written = sim.rows_out / upserts + 1.0;
    result
}

/// A table of some seventy memtables, overwritten twice.
fn uniform_upserts(lanes: f64) -> Outcome {
    let mut policy = Policy::new(192 * MIB);
    policy.index.tier_bytes = 4 * MIB;
    policy.index.upper_bytes_min = 16 * MIB;
    simulate(policy, 10e6, 20e6, 150e3, lanes)
}

#[test]
fn uniform_upserts_keep_their_pace_within_all_bounds() {
    let outcome = uniform_upserts(2.0);
    assert!(outcome.ratio > 0.7, "{outcome:?}");
    assert!(outcome.disk < 2.0 && outcome.garbage < 0.3, "{outcome:?}");
    assert!(outcome.depth <= 12 && outcome.runs <= 12, "{outcome:?}");
    assert!(outcome.index_written < 9.0 && outcome.rows_written < 4.5, "{outcome:?}");
}

#[test]
fn where_one_thread_compacts_writers_get_slower_and_nothing_else_grows() {
    let outcome = uniform_upserts(1.0);
    assert!(outcome.ratio > 0.55 && outcome.disk < 2.1, "{outcome:?}");
    assert!(outcome.depth <= 13 && outcome.runs <= 12, "{outcome:?}");
}
