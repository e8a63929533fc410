//! Crash recovery with real processes, on real disks: children write, are killed by SIGKILL at random moments, or their
//! disk loses its power, fails or fills up, and whatever they were promised must be there afterwards.
//!
//! This binary runs itself again as the child (see [`child`]). A child reports through a pipe, which survives it, what
//! it is about to do and what was acknowledged; the parent keeps an oracle of it (see [`cycles`]). [`scenarios`] has
//! the kills that need a certain state of the log. [`power`], [`full_disk`] and [`failing_sync`] have disks that fail;
//! where they cannot be made (they need root, see [`mounts`]), the tests say `SKIPPED`.
//!
//! Environment:
//! - `NYALA_CRASH_CYCLES`: how many children are killed by the random test. Default 50; CI takes 100, the long run
//!   3,000.
//! - `NYALA_CRASH_PAUSES`: how many are killed that rest now and then. Default 5; the long run 300.
//! - `NYALA_POWER_CUTS`: how often the power is cut. Default 3; CI takes 20, the long run 1,000; 0 for none.
//! - `NYALA_FULL_DISKS`: how many disks are filled. Default 6.
//! - `NYALA_FAILED_SYNCS`: how many runs have a failing sync. Default 6; CI takes 20.
//! - `NYALA_SEED`: the seed of the work and of the moments. It is printed; a run is repeated with the same one,
//!   although the moments of the kills depend on the machine too.
//! - `NYALA_CRASH_KEEP=1`: keeps the directory of a failed run, and prints where it is.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the test looks at the files of the engine from outside"
)]

mod child;
mod cycles;
mod failing_sync;
mod full_disk;
mod mounts;
mod power;
mod process;
#[path = "../support/random.rs"]
mod random;
mod report;
mod scenarios;
mod work;
