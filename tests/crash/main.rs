//! Crash recovery with real processes: children write, are killed by SIGKILL at random moments, and whatever they were
//! promised must be there afterwards.
//!
//! This binary runs itself again as the child (see [`child`]). A child reports through a pipe, which survives it, what it
//! is about to do and what was acknowledged; the parent keeps an oracle of it (see [`cycles`]). [`scenarios`] has the
//! kills that need a certain state of the log.
//!
//! Environment:
//! - `NYALA_CRASH_CYCLES`: how many children are killed by the random test. Default 50; the long run takes 200 or more.
//! - `NYALA_SEED`: the seed of the work and of the moments. It is printed; a run is repeated with the same one, although
//!   the moments of the kills depend on the machine too.
//! - `NYALA_CRASH_KEEP=1`: keeps the directory of a failed run, and prints where it is.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the test looks at the files of the engine from outside"
)]

mod child;
mod cycles;
mod process;
mod report;
mod scenarios;
mod work;
