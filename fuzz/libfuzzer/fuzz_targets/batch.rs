//! `nyala_fuzz::targets::batch` under libFuzzer.
#![no_main]

#[path = "../../allocator.rs"]
mod allocator;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    nyala_fuzz::target("batch").expect("it is in the table").check(data);
});
