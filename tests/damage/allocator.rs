//! How much memory a thread holds at most: no damage may make the engine take more than a sound database of this size
//! needs.
#![allow(unsafe_code, reason = "an allocator cannot be written without; the engine's crates forbid it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the bytes that each thread holds.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that ends may allocate after its counters are gone. What one thread takes, another may give back: only
    // the differences within one damage count, which lives and dies in one thread.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = MOST.try_with(|most| most.set(most.get().max(held.get())));
    });
}

fn signed(bytes: usize) -> isize {
    isize::try_from(bytes).unwrap_or(isize::MAX / 2)
}

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract; counting neither
// allocates (the thread's counters are const-initialised and need no destructor) nor unwinds (the sums of what a
// process can hold fit an isize).
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(signed(bytes));
        count(-signed(layout.size()));
        // SAFETY: as above; the pointer came from the same allocator.
        unsafe { System.realloc(pointer, layout, bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-signed(layout.size()));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `run` gives, and how many bytes this thread held at most beyond what it held before.
pub(crate) fn most_held<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    MOST.set(before);
    let given = run();
    (given, usize::try_from(MOST.get() - before).unwrap_or(0))
}

#[test]
fn the_most_that_was_held_is_told_also_if_it_is_given_back() {
    let (sum, most) = most_held(|| {
        drop(std::hint::black_box(vec![1u8; 3 << 20]));
        std::hint::black_box(vec![1u8; 1 << 20]).len()
    });
    assert_eq!(sum, 1 << 20);
    assert!((3 << 20..4 << 20).contains(&most), "{most}");
}
