//! The runs to merge: built once for each set of parameters, and kept.
//!
//! Every key of the universe belongs to one run, which has it first; each later run has it again with a chance that
//! makes the wanted share of its keys come from older runs. The runs interleave, so that no file can move whole.
//! A key has 26 bytes: a host, a time and the name of a metric; 2^20 keys follow each other on one host.
//!
//! Invariant: equal parameters give equal runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use codec::{FileId, Location, RowId, RowsetId, Version};
use pkindex::{Entry, IndexFile, Output, Run, RunOptions, RunWriter, WrittenFile};
use serde_json::{Value, json};
use sstable::Cache;

use crate::args::InputArgs;
use crate::measure;
use crate::scatter::scatter;

use super::output::Folder;

/// Its presence says that the folder is complete.
const DESCRIPTION: &str = "inputs.json";
const KEY_BYTES: usize = 26;
const METRICS: [&[u8; 14]; 4] = [b"cpu.user.total", b"disk.read.time", b"memory.free.kb", b"net.rx.packets"];
/// A rowset of the engine has about so many rows of 100 bytes.
const ROWS_PER_ROWSET: u64 = 2_000_000;

/// Sees to it that the runs are there, and gives their folder.
pub(super) fn ensure(folder: &Path, args: &InputArgs, overlap: f64) -> anyhow::Result<PathBuf> {
    let InputArgs { keys, runs, deletions, seed } = args;
    let name = format!("keys-{keys}-runs-{runs}-overlap-{overlap}-deletions-{deletions}-seed-{seed}");
    let folder = folder.join(name);
    match open(&folder) {
        Ok(runs) if !runs.is_empty() => return Ok(folder),
        Ok(_) => {}
        Err(error) => eprintln!("building the inputs anew: {error:#}"),
    }
    measure::remove_folder(&folder)?;
    eprintln!("building {keys} keys in {runs} runs with overlap {overlap} in {}", folder.display());
    build(&folder, &Universe::new(args, overlap)).context("building the inputs")?;
    Ok(folder)
}

/// The runs of a folder, newest first; none if it is not there.
#[expect(clippy::disallowed_methods, reason = "a description of this program's own")]
pub(super) fn open(folder: &Path) -> anyhow::Result<Vec<Arc<Run>>> {
    let text = match fs::read(folder.join(DESCRIPTION)) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let description: Value = serde_json::from_slice(&text)?;
    let runs = description.as_array().context("a list of runs")?;
    let files = Folder::new(folder, u64::MAX / 2)?;
    // Merging reads past the cache; only the blocks of the block index come into it.
    let cache = Cache::new(32 << 20);
    let open_file = |file: &Value| {
        let number = |name: &str| file[name].as_u64().context("a number");
        let expect = (number("len")?, u32::try_from(number("footer_checksum")?)?);
        let id = FileId(number("id")?);
        anyhow::Ok(IndexFile::open(files.fs(), &files.file(id), id, Arc::clone(&cache), expect)?)
    };
    let open_run = |run: &Value| {
        let files = run.as_array().context("a list of files")?;
        let files = files.iter().map(open_file).collect::<anyhow::Result<Vec<_>>>()?;
        anyhow::Ok(Arc::new(Run::new(files)?))
    };
    runs.iter().map(open_run).collect()
}

fn build(folder: &Path, universe: &Universe) -> anyhow::Result<()> {
    let files = Folder::new(folder, 1)?;
    let mut runs = Vec::new();
    for run in (0..universe.runs).rev() {
        let written = universe.write(run, &files)?;
        runs.push(written.iter().map(describe).collect::<Vec<_>>());
    }
    measure::write_file(&folder.join(DESCRIPTION), json!(runs).to_string().as_bytes())?;
    Ok(())
}

/// Builds one run of so many keys, in a folder.
pub(super) fn build_one(folder: &Path, keys: u64) -> anyhow::Result<()> {
    let files = Folder::new(folder, 1)?;
    let input = InputArgs { keys, runs: 1, deletions: 0.0, seed: 1 };
    if keys > 0 {
        Universe::new(&input, 0.0).write(0, &files)?;
    }
    Ok(())
}

fn describe(file: &WrittenFile) -> Value {
    let info = &file.info;
    json!({ "id": info.id.0, "len": info.len, "footer_checksum": info.footer_checksum })
}

/// All keys, and which run has which.
struct Universe {
    /// Different keys.
    keys: u64,
    runs: u64,
    overlap: f64,
    deletions: f64,
    seed: u64,
}

impl Universe {
    fn new(args: &InputArgs, overlap: f64) -> Universe {
        let keys_a_run = args.keys as f64 / args.runs as f64;
        let keys = keys_a_run * (1.0 + (args.runs - 1) as f64 * (1.0 - overlap));
        Universe {
            keys: (keys.round() as u64).max(1),
            runs: args.runs,
            overlap,
            deletions: args.deletions,
            seed: args.seed,
        }
    }

    /// Writes a run; 0 is the oldest.
    fn write(&self, run: u64, files: &Folder) -> pkindex::Result<Vec<WrittenFile>> {
        let options = RunOptions::default();
        let mut writer = RunWriter::new(files, &options);
        let mut row = 0;
        for index in (0..self.keys).filter(|&index| self.has(run, index)) {
            // Rows are upserted in no order of their keys, and lie in that order once they are flushed.
            let version = Version(run * self.keys + 1 + self.random(index, run, 2) % self.keys);
            let entry = if chance(self.random(index, run, 3)) < self.deletions {
                Entry::deletion(version)
            } else {
                let rowset = RowsetId((10 + run * 1000 + row / ROWS_PER_ROWSET) as u32);
                row += 1;
                Entry::put(version, Location { rowset, rowid: RowId(((row - 1) % ROWS_PER_ROWSET) as u32) })
            };
            writer.add(&key(index), None, &[entry])?;
        }
        writer.finish()
    }

    /// Whether a run has a key.
    fn has(&self, run: u64, index: u64) -> bool {
        let first = self.first_run(index);
        let chance_again = || self.overlap / (1.0 + (run - 1) as f64 * (1.0 - self.overlap));
        first == run || (first < run && chance(self.random(index, run, 1)) < chance_again())
    }

    /// The oldest run that has a key. The first run has only new keys, each other one its share of them.
    fn first_run(&self, index: u64) -> u64 {
        let new = 1.0 - self.overlap;
        let place = chance(self.random(index, 0, 0)) * (1.0 + (self.runs - 1) as f64 * new);
        if place < 1.0 { 0 } else { (1 + ((place - 1.0) / new) as u64).min(self.runs - 1) }
    }

    fn random(&self, index: u64, run: u64, what: u64) -> u64 {
        scatter(scatter(self.seed ^ (run << 8 | what)) ^ index)
    }
}

/// A number from 0 to 1, without 1.
fn chance(random: u64) -> f64 {
    (random >> 11) as f64 / (1u64 << 53) as f64
}

/// The encoded key of that number: u32, timestamp and string. Keys are in the order of their numbers.
pub(super) fn key(index: u64) -> [u8; KEY_BYTES] {
    let host = u32::try_from(index >> 20).expect("fewer than 2^52 keys");
    let micros = 1_700_000_000_000_000 + (index & 0xf_ffff) * 1_000_000;
    let mut key = [0; KEY_BYTES];
    key[..4].copy_from_slice(&host.to_be_bytes());
    key[4..12].copy_from_slice(&(micros ^ 1 << 63).to_be_bytes());
    key[12..].copy_from_slice(METRICS[index as usize % METRICS.len()]);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_their_size_and_share_what_they_shall() {
        for overlap in [0.0, 0.3, 0.9, 1.0] {
            let args = InputArgs { keys: 40_000, runs: 4, deletions: 0.0, seed: 3 };
            let universe = Universe::new(&args, overlap);
            for run in 0..universe.runs {
                let has = |index: &u64| universe.has(run, *index);
                let keys = (0..universe.keys).filter(has).count() as f64;
                let old = (0..universe.keys).filter(|index| universe.first_run(*index) < run).filter(has);
                let share = old.count() as f64 / keys;
                let wanted = if run == 0 { 0.0 } else { overlap };
                assert!((9_000.0..11_000.0).contains(&keys), "{overlap}: run {run} has {keys}");
                assert!((share - wanted).abs() < 0.03, "{overlap}: run {run} shares {share}");
            }
        }
    }

    #[test]
    fn keys_are_in_the_order_of_their_numbers() {
        let numbers = [0, 1, 2, 3, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 1 << 32, 1 << 51];
        assert!(numbers.windows(2).all(|pair| key(pair[0]) < key(pair[1])));
    }
}
