//! Models: the real components, and the whole of a tiny engine, under a scheduler that decides who goes on at every
//! lock, every atomic that decides something, and every change of the disk.
//!
//! Built only with `--cfg nyala_shuttle`, which exchanges what [`sync`] gives; nothing else of the engine is replaced.
//! A test here is one small program, run under thousands of schedules. What it asserts must hold in each of them, and
//! no schedule may end with everybody waiting: time stands still, so that a wake-up that a period would make up for is
//! missed for good.
//!
//! Never tests what one thread does alone; other tests do that with much less effort.

mod alters;
mod cache;
mod commits;
mod copies;
mod disk;
mod drops;
mod failures;
mod registry;
mod runner;
mod shutdown;
mod transactions;
mod views;
mod world;
