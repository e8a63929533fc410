//! Locks, condition variables, atomics and threads: the ones that decide who goes next.
//!
//! Owns nothing. Everywhere but in a model it only gives other names to `parking_lot`, `arc-swap` and `std`, and costs
//! nothing. Built with `--cfg nyala_shuttle` the same names are those of shuttle, which runs all threads of a test in
//! one, chooses who goes on at each lock and each atomic, and can so try thousands of schedules and play a failing one
//! again.
//!
//! What goes through here is what threads wait on or decide by. Counters that are only reported stay `std`'s: a choice
//! at each of them would drown the choices that matter. `Arc` stays `std`'s too: nobody waits for one.
//!
//! What a model can not see: an order of memory weaker than sequential consistency, and a wait that ends by its time.
//! In a model no wait ends by time, so a missed wake-up that a period would hide is a deadlock there, and is reported.
#![forbid(unsafe_code)]

#[cfg(nyala_shuttle)]
mod model;

#[cfg(not(nyala_shuttle))]
pub use arc_swap::ArcSwap;
#[cfg(nyala_shuttle)]
pub use model::{
    ArcGuard, ArcSwap, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic,
    choice_point, thread,
};
#[cfg(not(nyala_shuttle))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(nyala_shuttle))]
pub use std::{sync::atomic, thread};

/// What [`ArcSwap::load`] gives: as good as a clone of the `Arc`, without a count that all threads share.
#[cfg(not(nyala_shuttle))]
pub type ArcGuard<T> = arc_swap::Guard<std::sync::Arc<T>>;
