//! How much memory a run takes at its peak.
//!
//! Owns the counters of each thread. An allocator cannot be written without `unsafe`, which this library forbids; the
//! binaries that want to know define one (`fuzz/allocator.rs`) and tell these functions. Without it nothing is
//! counted, and a peak is 0.
//!
//! Counts what the thread asks for, whether or not the operating system would ever give it: a vector that is made for
//! four gigabytes and never filled counts as four gigabytes.

use std::cell::Cell;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// This thread has been given so many bytes.
#[inline]
pub fn taken(bytes: usize) {
    // A thread that ends may allocate after its counters are gone. A layout has at most `isize::MAX` bytes.
    let _ = LIVE.try_with(|live| {
        live.set(live.get().wrapping_add_unsigned(bytes));
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

/// This thread has given back so many bytes.
#[inline]
pub fn given_back(bytes: usize) {
    let _ = LIVE.try_with(|live| live.set(live.get().wrapping_sub_unsigned(bytes)));
}

/// Runs `run`, and tells how many bytes this thread held at the most, beyond those that it held before.
pub fn peak_of<R>(run: impl FnOnce() -> R) -> (R, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let result = run();
    (result, usize::try_from(PEAK.get() - before).unwrap_or(0))
}
