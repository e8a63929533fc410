//! Damage at every place: what is salvaged is what was written, and what is not lies in what is told to be lost.

use std::path::Path;

use vfs::SimFs;
use vfs::sim::{Fault, OpSet};

use super::*;
use crate::Compression;
use crate::options::WriterOptions;
use crate::tests::{ID, path, tiny, write_keyed, write_ordinal};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn entries(count: u32) -> Entries {
    (0..count).map(|i| (format!("key{:04}", i * 3).into_bytes(), format!("value {i}").into_bytes())).collect()
}

fn rows(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|i| format!("row {i} row row {i} row").repeat(1 + i as usize % 4).into_bytes()).collect()
}

fn keyed_file(count: u32) -> (SimFs, Entries) {
    keyed_file_with(Compression::None, count)
}

fn keyed_file_with(compression: Compression, count: u32) -> (SimFs, Entries) {
    let (fs, entries) = (SimFs::new(1), entries(count));
    let options = WriterOptions { compression, ..tiny() };
    write_keyed(
        &fs,
        &path(),
        &options,
        entries.iter().map(|(key, value)| (key.as_slice(), value.as_slice())),
    );
    (fs, entries)
}

fn damage(fs: &SimFs, edit: impl FnOnce(&mut Vec<u8>)) {
    fs.damage(&path(), edit).expect("it is there");
}

fn length(fs: &SimFs) -> usize {
    fs.read(&path(), 1 << 30).expect("it is there").len()
}

/// What is salvaged was written, in order, and every entry that is not lies where one is told to be lost. Gives how
/// many entries are gone.
fn salvage_keyed(fs: &SimFs, entries: &Entries, context: &str) -> usize {
    let mut salvage = KeyedSalvage::open(fs, &path(), ID).expect("the disk is good");
    let mut found = Entries::new();
    while let Some(key) = salvage.key() {
        found.push((key.to_vec(), salvage.value().to_vec()));
        salvage.advance();
    }
    assert!(found.is_sorted_by(|a, b| a.0 < b.0), "{context}");
    for entry in &found {
        assert!(entries.contains(entry), "{context}: made up");
    }
    let missing: Vec<_> = entries.iter().filter(|entry| !found.contains(entry)).collect();
    for (key, _) in &missing {
        let is_told = salvage.lost().iter().any(|lost| {
            lost.after.as_ref().is_none_or(|after| after < key)
                && lost.before.as_ref().is_none_or(|before| key < before)
        });
        assert!(is_told, "{context}: {:?} of {:?}", String::from_utf8_lossy(key), salvage.lost());
    }
    missing.len()
}

fn salvage_rows(fs: &SimFs, rows: &[Vec<u8>], context: &str) -> usize {
    let salvage = OrdinalSalvage::open(fs, &path(), ID).expect("the disk is good");
    let mut found = Vec::new();
    for number in 0..salvage.blocks() {
        let Ok(block) = salvage.block(number) else { continue };
        found.extend((0..block.len()).map(|row| block.row(row).expect("a sound block").to_vec()));
    }
    assert!(found.iter().all(|row| rows.contains(row)), "{context}: made up");
    rows.iter().filter(|row| !found.contains(row)).count()
}

/// One byte anywhere costs at most the block that it lies in, also if it is the root or the footer.
#[test]
fn one_flipped_byte_costs_one_block_of_a_keyed_file_at_most() {
    for compression in [Compression::None, Compression::Lz4] {
        let (fs, entries) = keyed_file_with(compression, 120);
        assert_eq!(salvage_keyed(&fs, &entries, "sound"), 0);
        let mut cost = 0;
        for at in 0..length(&fs) {
            damage(&fs, |bytes| bytes[at] ^= 0x41);
            let missing = salvage_keyed(&fs, &entries, &format!("byte {at}"));
            assert!(missing <= 8, "byte {at} costs {missing} entries");
            cost += usize::from(missing > 0);
            damage(&fs, |bytes| bytes[at] ^= 0x41);
        }
        assert!(cost > 1000, "{cost}");
    }
}

#[test]
fn one_flipped_byte_costs_one_block_of_rows_at_most() {
    for compression in [Compression::None, Compression::Lz4] {
        let (fs, rows) = (SimFs::new(1), rows(90));
        let options = WriterOptions { compression, block_bytes: 256, ..tiny() };
        write_ordinal(&fs, &path(), &options, rows.iter().map(Vec::as_slice));
        assert_eq!(salvage_rows(&fs, &rows, "sound"), 0);
        let mut cost = 0;
        for at in 0..length(&fs) {
            damage(&fs, |bytes| bytes[at] ^= 0x41);
            let missing = salvage_rows(&fs, &rows, &format!("byte {at}"));
            assert!(missing <= 8, "byte {at} costs {missing} rows");
            cost += usize::from(missing > 0);
            damage(&fs, |bytes| bytes[at] ^= 0x41);
        }
        assert!(cost > 1000, "{cost}");
    }
}

/// Without footer and root, and with two blocks damaged, the others are found by their checksums.
#[test]
fn blocks_are_found_without_an_index_and_behind_damage() {
    for compression in [Compression::None, Compression::Lz4] {
        let (fs, entries) = keyed_file_with(compression, 400);
        let len = length(&fs);
        damage(&fs, |bytes| bytes[len - 60..].fill(0));
        assert_eq!(salvage_keyed(&fs, &entries, "no footer"), 0);
        damage(&fs, |bytes| bytes[300] ^= 1);
        damage(&fs, |bytes| bytes[len / 2..len / 2 + 100].fill(0xee));
        let missing = salvage_keyed(&fs, &entries, "no footer, two blocks");
        assert!(missing > 2 && missing < 30, "{missing} {compression:?}");

        let (fs, rows) = (SimFs::new(1), rows(400));
        let options = WriterOptions { compression, block_bytes: 256, ..tiny() };
        write_ordinal(&fs, &path(), &options, rows.iter().map(Vec::as_slice));
        let len = length(&fs);
        damage(&fs, |bytes| bytes[len - 60..].fill(0));
        assert_eq!(salvage_rows(&fs, &rows, "no footer"), 0);
        damage(&fs, |bytes| bytes[300] ^= 1);
        damage(&fs, |bytes| bytes[len / 2..len / 2 + 100].fill(0xee));
        let missing = salvage_rows(&fs, &rows, "no footer, two blocks");
        assert!(missing > 1 && missing < 30, "{missing} {compression:?}");
    }
}

#[test]
fn a_file_cut_anywhere_gives_what_lies_before_the_cut() {
    for compression in [Compression::None, Compression::Lz4] {
        let (fs, entries) = keyed_file_with(compression, 60);
        let mut before = 0;
        for len in (0..length(&fs)).rev() {
            damage(&fs, |bytes| bytes.truncate(len));
            let missing = salvage_keyed(&fs, &entries, &format!("cut at {len}"));
            assert!(missing >= before && missing <= before + 8, "cut at {len}: {missing} after {before}");
            before = missing;
        }
        assert_eq!(before, 60);
    }
}

/// Whatever the bytes are, the search for blocks ends soon: it is no matter of how many places look like a beginning,
/// and how many like an end.
#[test]
fn a_search_takes_no_longer_than_its_bytes_are_worth() {
    const BYTES: usize = 3 << 20;
    let zeros_with = |every: usize, what: &[u8]| -> Vec<u8> {
        let mut bytes = vec![0; BYTES];
        for at in (0..BYTES - what.len()).step_by(every) {
            bytes[at..at + what.len()].copy_from_slice(what);
        }
        bytes
    };
    let patterns = [
        // Ends of blocks with one restart point, far from one another.
        zeros_with(32 << 10, &[1]),
        // Beginnings of compressed blocks of a megabyte, and ends.
        zeros_with(4, &[0x10, 0x10, 0x10]),
        zeros_with(4, &[1, 0, 0x10]),
        // Ends of raw blocks of one row of a megabyte.
        zeros_with(64, &[0, 0, 0x10, 0, 1]),
    ];
    for (number, pattern) in patterns.iter().enumerate() {
        let (fs, entries) = keyed_file(60);
        let rows = rows(60);
        let len = length(&fs);
        damage(&fs, |bytes| {
            // Behind the first blocks, with some sound ones behind it that lie where they do not belong.
            bytes.truncate(len / 2);
            bytes.extend_from_slice(pattern);
        });
        let start = std::time::Instant::now();
        let missing = salvage_keyed(&fs, &entries, &format!("keyed, pattern {number}"));
        assert!((20..45).contains(&missing), "{missing}");

        let fs = SimFs::new(1);
        write_ordinal(
            &fs,
            &path(),
            &WriterOptions { block_bytes: 256, ..tiny() },
            rows.iter().map(Vec::as_slice),
        );
        let len = length(&fs);
        damage(&fs, |bytes| {
            bytes.truncate(len / 2);
            bytes.extend_from_slice(pattern);
        });
        salvage_rows(&fs, &rows, &format!("rows, pattern {number}"));
        // A second, on a machine that does nothing else; if each place were tried with each other, hours.
        assert!(start.elapsed().as_secs() < 300, "pattern {number}: {:?}", start.elapsed());
    }
}

/// Blocks behind megabytes of zeros and behind a block that is longer than all that is looked at together.
#[test]
fn what_lies_far_behind_damage_is_found_and_so_are_long_blocks() {
    let fs = SimFs::new(1);
    let noise = |n: u32, len: usize| -> Vec<u8> {
        let byte = |i: usize| {
            (codec::hash_key(&(i as u64 / 8 + (u64::from(n) << 32)).to_le_bytes()).0 >> (i % 8 * 8)) as u8
        };
        (0..len).map(byte).collect()
    };
    let mut rows: Vec<Vec<u8>> = (0..40).map(|n| noise(n, 1000)).collect();
    rows.insert(10, noise(100, 9 << 20));
    rows.insert(30, noise(101, 5 << 20));
    write_ordinal(
        &fs,
        &path(),
        &WriterOptions { block_bytes: 4096, ..tiny() },
        rows.iter().map(Vec::as_slice),
    );
    let len = length(&fs);
    damage(&fs, |bytes| bytes[len - 60..].fill(0));
    assert_eq!(salvage_rows(&fs, &rows, "no footer"), 0);
    // All of the second long row but its ends.
    let at = len - (1 << 20) - 20_000;
    damage(&fs, |bytes| bytes[at - (3 << 20)..at].fill(0));
    let missing = salvage_rows(&fs, &rows, "zeros in a long row");
    assert!((1..6).contains(&missing), "{missing}");
}

/// Neighbouring blocks that are damaged are told as one: the memory for it does not grow with their number.
#[test]
fn what_is_missing_between_two_keys_is_told_once() {
    let (fs, entries) = keyed_file(400);
    let len = length(&fs);
    damage(&fs, |bytes| bytes[len / 3..len / 2].fill(0x55));
    let mut salvage = KeyedSalvage::open(&fs, &path(), ID).expect("the disk is good");
    while salvage.key().is_some() {
        salvage.advance();
    }
    let [lost] = salvage.lost() else { panic!("{:?}", salvage.lost()) };
    assert!(lost.offset <= len as u64 / 3 && lost.offset + lost.bytes >= len as u64 / 2, "{lost:?}");
    assert!(lost.after.is_some() && lost.before.is_some(), "{lost:?}");
    salvage_keyed(&fs, &entries, "a sixth of the file");
}

/// A disk that refuses to read some places is damage, not the end.
#[test]
fn what_the_disk_does_not_give_is_lost_and_the_rest_is_not() {
    let (fs, entries) = keyed_file(200);
    let start = fs.operations();
    drop(KeyedSalvage::open(&fs, &path(), ID));
    let calls = fs.operations() - start;
    assert!(calls > 4, "{calls}");
    for n in 2..calls {
        fs.fail_at(fs.operations() + n, Fault::eio().on(OpSet::READS));
        salvage_keyed(&fs, &entries, &format!("call {n}"));
        fs.clear_faults();
    }
}

#[test]
fn what_the_owner_said_is_read_if_it_can_be() {
    let (fs, _) = keyed_file(20);
    let salvage = KeyedSalvage::open(&fs, &path(), ID).expect("the disk is good");
    assert!(salvage.user_properties().is_some());
    let len = length(&fs);
    damage(&fs, |bytes| bytes[len - 20] ^= 1);
    let salvage = KeyedSalvage::open(&fs, &path(), ID).expect("the disk is good");
    assert_eq!(salvage.user_properties(), None);
    let missing = KeyedSalvage::open(&fs, Path::new("/nowhere"), ID).expect_err("it is not there");
    assert!(missing.io().is_some());
}
