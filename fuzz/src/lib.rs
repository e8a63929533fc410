//! Fuzz targets of Nyala: bytes of every format through the code that reads them.
//!
//! Owns the targets, what an input means to each, and the bounds that every input is held to. A target takes any bytes
//! and panics if something is wrong: a panic below it, a wrong acceptance, two answers that disagree, more memory or
//! time than the input is worth. Inputs are real bytes, and their checksums are put right before they are read, so that
//! changes reach what lies behind the checksums.
//!
//! Never touches the real disk. libFuzzer is no part of this crate: `fuzz/libfuzzer` runs the same targets under it,
//! and `fuzz/tests` replays and mutates the corpus without it.
#![forbid(unsafe_code)]

pub mod base;
pub mod columns;
pub mod disk;
pub mod fix;
pub mod input;
pub mod memory;
pub mod mutate;
pub mod seeds;
pub mod targets;

/// The messages of the manifest, from the engine's own source.
#[allow(missing_docs, unreachable_pub, dead_code, clippy::all, clippy::pedantic)]
pub(crate) mod pb {
    include!("../../engine/src/manifest/pb.rs");
}

use std::cell::Cell;
use std::sync::Once;
use std::time::{Duration, Instant};

/// What became of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was read to its end, and everything that was asked about it agreed.
    Accepted,
    /// It was refused with an error, somewhere.
    Refused,
}

impl Verdict {
    /// Accepted, if it was.
    #[must_use]
    pub fn of<T, E>(result: &Result<T, E>) -> Verdict {
        if result.is_ok() { Verdict::Accepted } else { Verdict::Refused }
    }
}

/// One target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its folder in the corpus.
    pub name: &'static str,
    /// Reads an input.
    pub run: fn(&[u8]) -> Verdict,
    /// How many bytes of memory it may take, whatever the input.
    pub memory_base: usize,
    /// And for each byte of the input.
    pub memory_per_byte: usize,
    /// The longest input that libFuzzer should make.
    pub input_bytes_max: usize,
}

/// No input takes longer than this, on a machine that is busy with other things as well.
pub const TIME_MAX: Duration = Duration::from_secs(20);

const MIB: usize = 1 << 20;

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "wal",
        run: targets::wal::run,
        memory_base: 256 << 10,
        memory_per_byte: 32,
        input_bytes_max: 64 << 10,
    },
    Target {
        name: "sstable",
        run: targets::sstable::run,
        memory_base: 16 * MIB,
        memory_per_byte: 600,
        input_bytes_max: 32 << 10,
    },
    Target {
        name: "manifest",
        run: targets::manifest::run,
        memory_base: 64 << 10,
        memory_per_byte: 128,
        input_bytes_max: 32 << 10,
    },
    Target {
        name: "key",
        run: targets::key::run,
        memory_base: 64 << 10,
        memory_per_byte: 64,
        input_bytes_max: 4 << 10,
    },
    Target {
        name: "entries",
        run: targets::entries::run,
        memory_base: 512 << 10,
        memory_per_byte: 64,
        input_bytes_max: 4 << 10,
    },
    Target {
        name: "row",
        run: targets::row::run,
        memory_base: 64 << 10,
        memory_per_byte: 64,
        input_bytes_max: 4 << 10,
    },
    Target {
        name: "batch",
        run: targets::batch::run,
        memory_base: 64 << 10,
        memory_per_byte: 64,
        input_bytes_max: 16 << 10,
    },
    Target {
        name: "directory",
        run: targets::directory::run,
        memory_base: 8 * MIB,
        memory_per_byte: 1024,
        input_bytes_max: 4 << 10,
    },
];

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// What one run took.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// The most memory that was held at a time, in bytes; 0 if nobody counts.
    pub peak: usize,
    /// How long it took.
    pub time: Duration,
}

thread_local! {
    static PANICS: Cell<u64> = const { Cell::new(0) };
}

/// Has the panics of each thread counted: the engine catches some, and none of them is in order.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let _ = PANICS.try_with(|panics| panics.set(panics.get() + 1));
            before(info);
        }));
    });
}

impl Target {
    /// Reads an input, and checks what that took.
    ///
    /// # Panics
    /// If anything is wrong.
    pub fn check(&self, data: &[u8]) -> (Verdict, Cost) {
        count_panics();
        // Made once, and no part of an input's cost.
        base::all();
        let panics = PANICS.get();
        let start = Instant::now();
        let (verdict, peak) = memory::peak_of(|| (self.run)(data));
        let cost = Cost { peak, time: start.elapsed() };
        let memory_max = self.memory_base + self.memory_per_byte * data.len();
        assert_eq!(PANICS.get(), panics, "{}: a panic that was caught", self.name);
        assert!(
            cost.peak <= memory_max,
            "{}: {} bytes of memory for an input of {}, at most {memory_max} are allowed",
            self.name,
            cost.peak,
            data.len()
        );
        assert!(
            cost.time <= TIME_MAX,
            "{}: {:?} for an input of {} bytes, at most {TIME_MAX:?} are allowed",
            self.name,
            cost.time,
            data.len()
        );
        (verdict, cost)
    }
}
