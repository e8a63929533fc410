use super::heap::RowSetKeyProbe;
use super::*;

use crate::args::{Args, Command};
use clap::Parser;

#[test]
fn both_variants_make_the_same_keys() {
    let rows = Rows::new(5000, VALUE_BYTES, 1);
    let keys: Vec<_> = (0..500).map(|number| rows.key(rows.shuffled(number))).collect();
    let [heap, arena] = Variant::ALL.map(|variant| path::fill_for_test(variant, &keys).expect("they fit"));
    assert_eq!(heap, arena);
    assert_eq!(heap.len(), keys.len() * path::KEY_BYTES);
    let layout = path::layout().expect("a layout");
    let probe = RowSetKeyProbe::new(&layout, &path::columns(&keys[0]), path::KEY_BYTES).expect("it fits");
    assert_eq!(probe.encoded(), &heap[..path::KEY_BYTES]);
    assert_eq!(probe.hash(), codec::hash_key(&heap[..path::KEY_BYTES]));
}

#[test]
fn one_asks_for_memory_and_the_other_does_not() {
    let rows = Rows::new(50_000, VALUE_BYTES, 1);
    let [heap, arena] = Variant::ALL.map(|variant| path::run(variant, &rows, 2, 20_000).expect("no error"));
    // The bytes, the list of columns, the key and the probe.
    assert_eq!(heap.allocations_per_key, 4.0);
    assert_eq!(arena.allocations_per_key, 0.0);
    assert!(heap.cpu_ns_per_key > 0.0 && arena.cpu_ns_per_key > 0.0);
}

#[test]
fn a_small_run_loads_both_tables() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = "b keys --rows 20000 --keys 1000 --threads 1,2 --load-threads 2 --rounds 1 --memory 1MiB --json --dir";
    let line = line.split(' ').map(std::ffi::OsStr::new).chain([folder.path().as_os_str()]);
    let Command::Keys(args) = Args::parse_from(line).command else { panic!("another command") };
    run(&args).expect("a sound run");
    let rows = Rows::new(args.rows, VALUE_BYTES, args.seed);
    let [heap, arena] = Variant::ALL
        .map(|variant| load::run(&args, variant, &rows, &folder.path().join("keys")).expect("a sound load"));
    let more = heap.allocations_per_row - arena.allocations_per_row;
    assert!((3.5..4.5).contains(&more), "{heap:?} {arena:?}");
    assert!(heap.cpu_ns_per_row > 0.0 && arena.rows_per_second > 0.0);
}
