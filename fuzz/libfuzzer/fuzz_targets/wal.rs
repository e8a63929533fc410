//! `nyala_fuzz::targets::wal` under libFuzzer.
#![no_main]

#[path = "../../allocator.rs"]
mod allocator;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    nyala_fuzz::target("wal").expect("it is in the table").check(data);
});
