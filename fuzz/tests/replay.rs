//! Replays the corpus, and varies it.
//!
//! `NYALA_FUZZ_RUNS`: how many variations of each input (64 by default). `NYALA_SEED`: another seed. A failure prints
//! what is needed to see it again; `NYALA_FUZZ_KEEP=<file>` also writes the input there. `NYALA_FUZZ_WRITE` writes the
//! seeds to the corpus anew.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the repository's own files are read as they are"
)]

#[path = "../allocator.rs"]
mod allocator;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use nyala_fuzz::mutate::{Chance, mutate};
use nyala_fuzz::{TARGETS, Target, Verdict, memory, seeds, target};

/// The whole corpus may have so many bytes: it is checked in.
const CORPUS_BYTES_MAX: usize = 1_000_000;

fn corpus_of(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// The inputs of a target, by name.
fn corpus(target: &str) -> BTreeMap<String, Vec<u8>> {
    let folder = corpus_of(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries
        .map(|entry| {
            let path = entry.expect("a folder that can be read").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("plain names").to_owned();
            (name, std::fs::read(path).expect("a file that can be read"))
        })
        .collect()
}

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")),
        Err(_) => default,
    }
}

/// How many inputs were accepted and refused, and what they took at the most.
#[derive(Debug, Default)]
struct Tally {
    accepted: u64,
    refused: u64,
    peak: usize,
    millis: u128,
}

impl Tally {
    fn check(&mut self, target: &Target, data: &[u8], what: &str) -> Verdict {
        let checked = catch_unwind(AssertUnwindSafe(|| target.check(data)));
        let Ok((verdict, cost)) = checked else {
            if let Ok(path) = std::env::var("NYALA_FUZZ_KEEP") {
                std::fs::write(path, data).expect("a place to write the input to");
            }
            panic!("target {}, {what}", target.name);
        };
        match verdict {
            Verdict::Accepted => self.accepted += 1,
            Verdict::Refused => self.refused += 1,
        }
        self.peak = self.peak.max(cost.peak);
        self.millis = self.millis.max(cost.time.as_millis());
        verdict
    }
}

/// The corpus, and variations of each of its inputs.
fn replay(name: &str) {
    let target = target(name).expect("a target of this name");
    let inputs = corpus(name);
    assert!(inputs.len() >= 5, "{name} has a corpus of {} inputs", inputs.len());
    let mut tally = Tally::default();
    for (input, bytes) in &inputs {
        tally.check(target, bytes, &format!("input {input}"));
    }
    // An input of a directory takes a hundred times as long as others.
    let share = if name == "directory" { 8 } else { 1 };
    let (seed, runs) = (number("NYALA_SEED", 1), number("NYALA_FUZZ_RUNS", 64).div_ceil(share));
    let mut varied = Tally::default();
    let all: Vec<&Vec<u8>> = inputs.values().collect();
    for (index, (input, bytes)) in inputs.iter().enumerate() {
        let mut chance = Chance::new(seed.wrapping_mul(1 << 20).wrapping_add(index as u64));
        for run in 0..runs {
            let mut data = bytes.clone();
            let other = all[chance.below(all.len())];
            mutate(&mut data, other, &mut chance, target.input_bytes_max);
            let what = format!(
                "variation {run} of input {input}; see it again with \
                 NYALA_SEED={seed} NYALA_FUZZ_RUNS={} cargo test -p nyala-fuzz --test replay {name}_",
                share * (run + 1)
            );
            varied.check(target, &data, &what);
        }
    }
    println!("{name}: corpus {tally:?}, varied {varied:?}");
    assert!(tally.accepted >= 4, "{name}: too little of the corpus is accepted: {tally:?}");
    if runs >= 8 {
        // A target that refuses everything, or nothing, tests little.
        assert!(varied.accepted > 0 && varied.refused > 0, "{name}: {varied:?}");
    }
}

#[test]
fn wal_corpus_and_variations() {
    replay("wal");
}

#[test]
fn sstable_corpus_and_variations() {
    replay("sstable");
}

#[test]
fn manifest_corpus_and_variations() {
    replay("manifest");
}

#[test]
fn key_corpus_and_variations() {
    replay("key");
}

#[test]
fn entries_corpus_and_variations() {
    replay("entries");
}

#[test]
fn row_corpus_and_variations() {
    replay("row");
}

#[test]
fn batch_corpus_and_variations() {
    replay("batch");
}

#[test]
fn directory_corpus_and_variations() {
    replay("directory");
}

#[test]
fn seeds_are_whole_and_in_the_corpus() {
    if std::env::var_os("NYALA_FUZZ_WRITE").is_some() {
        // What the tests beside this one read meanwhile is half old and half new: run it alone.
        for seed in seeds::all() {
            let folder = corpus_of(seed.target);
            std::fs::create_dir_all(&folder).expect("the corpus can be written");
            std::fs::write(folder.join(seed.name), seed.bytes).expect("the corpus can be written");
        }
    }
    for seed in seeds::all() {
        let target = target(seed.target).expect("seeds are for targets");
        let is_whole = !seed.name.starts_with("damaged");
        let stored = corpus(seed.target).remove(&seed.name);
        let stored = stored.unwrap_or_else(|| {
            panic!("{}/{} is not in the corpus; NYALA_FUZZ_WRITE=1 writes it", seed.target, seed.name)
        });
        // What is stored may come from an older engine; both must still be read.
        for (which, bytes) in [("made now", seed.bytes), ("in the corpus", stored)] {
            let what = format!("seed {} as it is {which}", seed.name);
            let verdict = Tally::default().check(target, &bytes, &what);
            assert!(
                verdict == Verdict::Accepted || !is_whole,
                "{}: {what} is refused; if the format has changed, NYALA_FUZZ_WRITE=1 writes the seeds anew",
                seed.target
            );
        }
    }
}

#[test]
fn the_corpus_is_small_and_belongs_to_targets() {
    let mut total = 0;
    for target in TARGETS {
        for (name, bytes) in corpus(target.name) {
            total += bytes.len();
            assert!(bytes.len() <= target.input_bytes_max, "{}/{name} is too long", target.name);
        }
    }
    assert!(total < CORPUS_BYTES_MAX, "{total} bytes of corpus");
    let folders = std::fs::read_dir(corpus_of("")).expect("there is a corpus");
    for folder in folders {
        let name = folder.expect("it can be read").file_name();
        let name = name.to_str().expect("plain names");
        assert!(target(name).is_some(), "the corpus has a folder {name}, but there is no such target");
    }
}

#[test]
fn memory_is_counted() {
    let (bytes, peak) = memory::peak_of(|| {
        drop(vec![1u8; 3 << 20]);
        vec![1u8; 1 << 20]
    });
    assert!((3 << 20..5 << 20).contains(&peak), "{peak}");
    let (more, peak) = memory::peak_of(|| Vec::<u8>::with_capacity(1 << 20));
    assert!(peak >= 1 << 20, "what is not written to counts as well");
    drop((bytes, more));
}

/// A target that takes too much is told.
#[test]
#[should_panic(expected = "bytes of memory for an input of 4")]
fn too_much_memory_is_a_failure() {
    let greedy = |data: &[u8]| {
        let claimed = data.iter().fold(0, |claimed, byte| claimed << 8 | usize::from(*byte));
        Verdict::of(&Vec::<u8>::with_capacity(claimed).first().ok_or(()))
    };
    let target =
        Target { name: "greedy", run: greedy, memory_base: 1 << 20, memory_per_byte: 64, input_bytes_max: 4 };
    target.check(&[0x10, 0, 0, 0]);
}
