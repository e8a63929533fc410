//! `nyala_fuzz::targets::manifest` under libFuzzer.
#![no_main]

#[path = "../../allocator.rs"]
mod allocator;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    nyala_fuzz::target("manifest").expect("it is in the table").check(data);
});
