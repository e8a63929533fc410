//! An ordinal file against a vector.

use proptest::prelude::*;
use vfs::SimFs;
use vfs::sim::OpKind;

use super::*;
use crate::{Caching, Direction, Error};

fn row() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => proptest::collection::vec(any::<u8>(), 0..60),
        3 => (any::<u8>(), 0usize..200).prop_map(|(byte, len)| vec![byte; len]),
        1 => proptest::collection::vec(any::<u8>(), 0..2000),
    ]
}

fn options() -> impl Strategy<Value = WriterOptions> {
    (0usize..400, 0usize..200, any::<bool>()).prop_map(|(block_bytes, index_block_bytes, compressed)| {
        let compression = if compressed { Compression::Lz4 } else { Compression::None };
        WriterOptions { block_bytes, index_block_bytes, compression, ..tiny() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn reads_like_a_vector(
        rows in proptest::collection::vec(row(), 0..150),
        options in options(),
        asked in proptest::collection::vec(any::<proptest::sample::Index>(), 0..200),
        caching in prop_oneof![Just(Caching::Fill), Just(Caching::Leave)],
        cache_bytes in prop_oneof![Just(0usize), Just(4 << 10), Just(1 << 20)],
    ) {
        let fs = SimFs::new(1);
        let info = write_ordinal(&fs, &path(), &options, rows.iter().map(Vec::as_slice));
        let expect = Some((info.len, info.footer_checksum));
        let cache = Cache::new(cache_bytes);
        let reader = OrdinalReader::open(&fs, &path(), ID, Arc::clone(&cache), expect).expect("open");
        prop_assert_eq!(reader.info(), info);
        prop_assert_eq!(reader.rows() as usize, rows.len());
        prop_assert_eq!(reader.user_properties(), b"user");
        let past = reader.get(rows.len() as u32);
        let is_past = matches!(past, Err(Error::NoSuchRow { .. }));
        prop_assert!(is_past);

        let mut asked: Vec<usize> = if rows.is_empty() {
            Vec::new()
        } else {
            asked.iter().map(|index| index.index(rows.len())).collect()
        };
        let mut wild = reader.cursor(Direction::Forward);
        wild.set_caching(caching);
        for &ordinal in &asked {
            let row = reader.get(ordinal as u32).expect("sound file");
            prop_assert_eq!(row.bytes(), rows[ordinal].as_slice());
            prop_assert_eq!(wild.get(ordinal as u32).expect("sound file"), rows[ordinal].as_slice());
        }
        asked.sort_unstable();
        let mut forward = reader.cursor(Direction::Forward);
        forward.set_caching(caching);
        for &ordinal in &asked {
            prop_assert_eq!(forward.get(ordinal as u32).expect("sound file"), rows[ordinal].as_slice());
        }
        let mut reverse = reader.cursor(Direction::Reverse);
        for ordinal in (0..rows.len()).rev() {
            prop_assert_eq!(reverse.get(ordinal as u32).expect("sound file"), rows[ordinal].as_slice());
        }
        let report = reader.verify().expect("sound file");
        prop_assert_eq!((report.entries, report.bytes), (rows.len() as u64, reader.file_len()));
        prop_assert!(cache.stats().bytes_used <= cache_bytes as u64);
    }
}

fn reads(fs: &SimFs, from: usize) -> usize {
    fs.log()[from..].iter().filter(|kind| **kind == OpKind::Read).count()
}

#[test]
fn neighbouring_blocks_come_in_few_reads_in_both_directions() {
    let options = WriterOptions { compression: Compression::None, ..WriterOptions::default() };
    let rows: Vec<Vec<u8>> = (0u32..20_000).map(|i| format!("row number {i:>30}").into_bytes()).collect();
    let fs = SimFs::new(1);
    write_ordinal(&fs, &path(), &options, rows.iter().map(Vec::as_slice));
    let blocks = open_ordinal(&fs, &path()).expect("open").verify().expect("sound file").blocks as usize;
    for direction in [Direction::Forward, Direction::Reverse] {
        let reader = open_ordinal(&fs, &path()).expect("open");
        let before = fs.log().len();
        let mut cursor = reader.cursor(direction);
        for i in 0..rows.len() {
            let ordinal = if direction == Direction::Forward { i } else { rows.len() - 1 - i };
            assert_eq!(cursor.get(ordinal as u32).expect("sound file"), rows[ordinal].as_slice());
        }
        let count = reads(&fs, before);
        assert!(count < blocks / 8, "{count} reads of {blocks} blocks, {direction:?}");
    }
}

#[test]
fn a_gap_is_not_read_across() {
    let options = WriterOptions { compression: Compression::None, ..WriterOptions::default() };
    let rows: Vec<[u8; 100]> = (0..4000).map(|i| [i as u8; 100]).collect();
    let fs = SimFs::new(1);
    write_ordinal(&fs, &path(), &options, rows.iter().map(|row| &row[..]));
    let reader = open_ordinal(&fs, &path()).expect("open");
    let mut cursor = reader.cursor(Direction::Forward);
    cursor.get(0).expect("sound file");
    let misses = reader.input().cache().stats().misses;
    for ordinal in (200..4000).step_by(200) {
        cursor.get(ordinal).expect("sound file");
    }
    let stats = reader.input().cache().stats();
    assert_eq!(stats.misses - misses, 19, "one block a row");
    assert!(stats.bytes_used - stats.index_bytes_used < 20 * 4400);
}
