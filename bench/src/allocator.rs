//! The allocator of this program: counts what it is asked for, and is the system's or mimalloc, as the environment has
//! it when the program starts.
//!
//! One binary for both, so that they are compared with the same code around them. The choice costs each call one load
//! and one branch that is always taken the same way, with either allocator.
//!
//! Invariant: the choice is made at the first allocation and never changes, so that memory goes back to where it came
//! from.
#![expect(unsafe_code, reason = "a global allocator is unsafe by nature; each call is passed on as it came")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

use mimalloc::MiMalloc;

/// The environment variable that names the allocator: `mimalloc`; all else is the system's.
pub(crate) const VARIABLE: &str = "NYALA_BENCH_ALLOCATOR";

/// Which allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub(crate) enum Kind {
    /// That of the C library
    System,
    /// mimalloc
    Mimalloc,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::System => "system",
            Kind::Mimalloc => "mimalloc",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The allocator of the program. Counts the calls of each thread.
pub(crate) struct Counting;

const UNDECIDED: u8 = 0;
const SYSTEM: u8 = 1;
const MIMALLOC: u8 = 2;

static CHOSEN: AtomicU8 = AtomicU8::new(UNDECIDED);

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// How often this thread asked for memory so far; growing a piece counts too.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// What the program runs with.
pub(crate) fn current() -> Kind {
    if is_mimalloc() { Kind::Mimalloc } else { Kind::System }
}

#[inline]
fn count() {
    // A thread that is ending has no counter any more.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

#[inline]
fn is_mimalloc() -> bool {
    match CHOSEN.load(Ordering::Relaxed) {
        UNDECIDED => choose(),
        chosen => chosen == MIMALLOC,
    }
}

/// Threads that come here at the same time find the same: nobody changes the environment before `main`.
#[cold]
fn choose() -> bool {
    // SAFETY: the name ends in a zero byte, and the result is null or a string that ends in one. Nothing here
    // allocates. The environment does not change while this runs: the first allocation comes from the runtime before
    // `main`, when there is one thread.
    let is_mimalloc = unsafe {
        let value = libc::getenv(c"NYALA_BENCH_ALLOCATOR".as_ptr());
        !value.is_null() && std::ffi::CStr::from_ptr(value).to_bytes() == b"mimalloc"
    };
    CHOSEN.store(if is_mimalloc { MIMALLOC } else { SYSTEM }, Ordering::Relaxed);
    is_mimalloc
}

// SAFETY: every call is passed on as it came to one of two allocators, always the same one; the counter is a plain
// thread-local cell that does not allocate.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { if is_mimalloc() { MiMalloc.alloc(layout) } else { System.alloc(layout) } }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { if is_mimalloc() { MiMalloc.alloc_zeroed(layout) } else { System.alloc_zeroed(layout) } }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe {
            if is_mimalloc() {
                MiMalloc.realloc(pointer, layout, size)
            } else {
                System.realloc(pointer, layout, size)
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe {
            if is_mimalloc() { MiMalloc.dealloc(pointer, layout) } else { System.dealloc(pointer, layout) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_counted() {
        let before = allocations();
        let boxed = std::hint::black_box(Box::new([0u8; 100]));
        assert_eq!(allocations() - before, 1);
        drop(boxed);
        assert_eq!(VARIABLE, "NYALA_BENCH_ALLOCATOR");
    }
}
