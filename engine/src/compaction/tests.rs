//! Compaction inside an engine with tiny thresholds, on the simulated disk, with background work inline.
//!
//! A job is held between its merge and its install wherever something could slip in between.

mod cases;
mod faults;
mod schedules;
mod world;
