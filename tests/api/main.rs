//! What the engine does, seen through its public API, with bad input, damaged files, full disks, and many threads.
//!
//! The numbers in the tests are those of the faults in docs/testing.md that other engines shipped.
//!
//! Environment: `NYALA_LONG=1` makes the tests with many threads go on for longer.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the tests damage files behind the engine's back"
)]

mod bad_input;
mod batches;
mod checkpoints;
mod concurrency;
mod damage;
mod doors;
mod evolution;
mod full_disk;
mod gate;
mod handles;
mod journey;
mod keys;
mod load;
mod observe;
mod races;
mod read_only;
mod renames;
mod scans;
mod serialisable;
mod shutdown;
mod support;
mod transactions;
#[cfg(feature = "derive")]
mod typed;
mod verbs;
mod versions;
