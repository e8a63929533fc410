//! The allocator of the binaries that fuzz: the system's, with every call counted for the thread that makes it.
#![allow(unsafe_code, reason = "an allocator cannot be written without; the libraries forbid it")]

use std::alloc::{GlobalAlloc, Layout, System};

use nyala_fuzz::memory;

struct Counting;

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract; counting neither
// allocates (the counters are const-initialised and need no destructor) nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        memory::taken(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        memory::taken(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // The old block is there until the new one is: both count.
        memory::taken(bytes);
        memory::given_back(layout.size());
        // SAFETY: as above; the pointer came from the same allocator.
        unsafe { System.realloc(pointer, layout, bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        memory::given_back(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
