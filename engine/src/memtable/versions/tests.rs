//! Chains of versions.

use super::*;

fn chain(count: u64) -> (Arena, Address) {
    let mut arena = Arena::new();
    let schema = SchemaVersion(3);
    let first =
        push_first(&mut arena, b"key", Version(10), MemOp::Put { schema, row: &10_u64.to_le_bytes() });
    for version in (2..=count).map(|i| i * 10) {
        push_later(&mut arena, first, Version(version), MemOp::Put { schema, row: &version.to_le_bytes() });
    }
    (arena, first)
}

#[test]
fn every_version_is_reached_in_few_steps() {
    const COUNT: u64 = 5000;
    let (arena, first) = chain(COUNT);
    for at in 1..=COUNT {
        let mut record = newest(&arena, first);
        let mut steps = 0;
        while version_of(&arena, record) > Version(at * 10 + 5) {
            record = towards(&arena, record, Version(at * 10 + 5));
            steps += 1;
        }
        assert_eq!(version_of(&arena, record), Version(at * 10));
        assert!(steps <= 3 * COUNT.ilog2(), "{steps} steps to version {at}");
    }
}

#[test]
fn a_reader_sees_the_newest_version_that_is_not_above_its_own() {
    let (arena, first) = chain(300);
    assert_eq!(key(&arena, first), b"key");
    assert_eq!(visible(&arena, first, Version(9)), None);
    for at in 10..3100_u64 {
        let expected = (at / 10 * 10).min(3000);
        let op = MemOp::Put { schema: SchemaVersion(3), row: &expected.to_le_bytes() };
        assert_eq!(visible(&arena, first, Version(at)), Some((Version(expected), op)));
    }
}

#[test]
fn all_versions_come_newest_first() {
    let (arena, first) = chain(100);
    let versions: Vec<u64> = all(&arena, first).map(|(version, _)| version.0).collect();
    assert!(versions.iter().copied().eq((1..=100).rev().map(|version| version * 10)));
}
