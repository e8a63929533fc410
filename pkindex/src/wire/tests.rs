use super::*;
use crate::pb::{IndexValueWithVer, IndexValuesWithVer};
use proptest::prelude::*;
use prost::Message;

fn message(entries: &[Entry]) -> IndexValuesWithVer {
    let values = entries
        .iter()
        .map(|entry| IndexValueWithVer {
            version: entry.version.0,
            rowset: entry.location().map(|location| location.rowset.0),
            rowid: entry.location().map(|location| location.rowid.0),
        })
        .collect();
    IndexValuesWithVer { values }
}

fn encoded(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(entries, &mut bytes);
    bytes
}

fn decoded(bytes: &[u8]) -> Result<Vec<Entry>, WireError> {
    let mut entries = Vec::new();
    decode(bytes, &mut entries)?;
    Ok(entries)
}

fn at(version: u64, rowset: u32, rowid: u32) -> Entry {
    Entry::put(Version(version), Location { rowset: RowsetId(rowset), rowid: RowId(rowid) })
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let number = prop_oneof![Just(0u32), 1u32..300, any::<u32>(), Just(u32::MAX)];
    let version = prop_oneof![1u64..300, 1u64..1 << 24, 1u64..1 << 37, 1u64.., Just(u64::MAX)];
    let entry =
        (version, proptest::option::of((number.clone(), number))).prop_map(|(version, place)| match place {
            Some((rowset, rowid)) => at(version, rowset, rowid),
            None => Entry::deletion(Version(version)),
        });
    proptest::collection::vec(entry, 1..8).prop_map(|mut list| {
        list.sort_by_key(|entry| std::cmp::Reverse(entry.version));
        list.dedup_by_key(|entry| entry.version);
        list
    })
}

#[test]
fn a_location_of_zeros_is_a_place_and_not_a_deletion() {
    assert_eq!(encoded(&[at(7, 0, 0)]), [0x0a, 6, 0x08, 7, 0x10, 0, 0x18, 0]);
    assert_eq!(encoded(&[Entry::deletion(Version(7))]), [0x0a, 2, 0x08, 7]);
    assert_eq!(decoded(&encoded(&[at(7, 0, 0)])), Ok(vec![at(7, 0, 0)]));
}

#[test]
fn an_entry_of_a_large_table_takes_fourteen_bytes() {
    assert_eq!(encoded(&[at(200_000_000, 1000, 2_000_000)]).len(), 14);
    assert_eq!(encoded(&[at(u64::MAX, u32::MAX, u32::MAX)]).len(), ENTRY_BYTES_MAX);
}

#[test]
fn what_is_not_our_form_is_refused() {
    assert_eq!(decoded(&[]), Err(WireError::Empty));
    assert_eq!(visible(&[], Version::MAX), Err(WireError::Empty));
    assert_eq!(peek(&[]), Err(WireError::Empty));
    // An unknown field, in the list and in the version.
    assert_eq!(decoded(&[0x12, 0]), Err(WireError::Field { at: 0, tag: 0x12 }));
    assert_eq!(decoded(&[0x0a, 4, 0x08, 7, 0x20, 1]), Err(WireError::Field { at: 4, tag: 0x20 }));
    // Half a location, of either kind.
    assert_eq!(decoded(&[0x0a, 4, 0x08, 7, 0x10, 1]), Err(WireError::HalfLocation { at: 0 }));
    assert_eq!(decoded(&[0x0a, 4, 0x08, 7, 0x18, 1]), Err(WireError::HalfLocation { at: 0 }));
    // Version 0, left out or written.
    assert_eq!(decoded(&[0x0a, 0]), Err(WireError::VersionZero { at: 0 }));
    assert_eq!(decoded(&[0x0a, 2, 0x08, 0]), Err(WireError::VersionZero { at: 0 }));
    assert_eq!(decoded(&[0x0a, 4, 0x10, 1, 0x18, 1]), Err(WireError::VersionZero { at: 0 }));
    // Fields out of order, and repeated.
    assert_eq!(decoded(&[0x0a, 6, 0x08, 7, 0x18, 1, 0x10, 1]), Err(WireError::Field { at: 6, tag: 0x10 }));
    assert_eq!(decoded(&[0x0a, 4, 0x08, 7, 0x08, 7]), Err(WireError::Field { at: 4, tag: 0x08 }));
    // A rowset of more than 32 bits, and a varint longer than needed.
    let wide = [0x0a, 10, 0x08, 7, 0x10, 0xff, 0xff, 0xff, 0xff, 0x1f, 0x18, 1];
    assert_eq!(decoded(&wide), Err(WireError::Number { at: 5 }));
    assert_eq!(decoded(&[0x0a, 3, 0x08, 0x87, 0x00]), Err(WireError::Number { at: 3 }));
    // A version that does not reach its end, and one that claims more than there is.
    assert_eq!(decoded(&[0x0a, 2, 0x08]), Err(WireError::Short { at: 2 }));
    assert_eq!(decoded(&[0x0a]), Err(WireError::Short { at: 1 }));
    assert_eq!(decoded(&[0x0a, 2, 0x08, 0x87]), Err(WireError::Short { at: 3 }));
    assert_eq!(decoded(&[0x0a, 200, 0x08]), Err(WireError::Number { at: 1 }));
}

#[test]
fn equal_and_ascending_versions_are_refused() {
    let twice = encoded(&[at(7, 1, 1), at(7, 1, 2)]);
    assert_eq!(decoded(&twice), Err(WireError::Order { before: Version(7), found: Version(7) }));
    let ascending = encoded(&[at(7, 1, 1), at(8, 1, 2)]);
    assert_eq!(decoded(&ascending), Err(WireError::Order { before: Version(7), found: Version(8) }));
    let mut kept = vec![at(9, 9, 9)];
    assert!(decode(&ascending, &mut kept).is_err());
    assert_eq!(kept, [at(9, 9, 9)], "a failed decode leaves the list as it was");
}

proptest! {
    #[test]
    fn the_bytes_are_those_of_prost(list in entries()) {
        let bytes = encoded(&list);
        prop_assert_eq!(&bytes, &message(&list).encode_to_vec());
        prop_assert_eq!(decoded(&bytes), Ok(list.clone()));
        let peeked = if list.len() == 1 { Peek::One(list[0]) } else { Peek::Several(list[0]) };
        prop_assert_eq!(peek(&bytes), Ok(peeked));
    }

    #[test]
    fn the_visible_entry_is_the_newest_at_or_below(list in entries(), at in prop_oneof![0u64..400, any::<u64>()]) {
        let wanted = list.iter().find(|entry| entry.version <= Version(at)).copied();
        prop_assert_eq!(visible(&encoded(&list), Version(at)), Ok(wanted));
    }

    #[test]
    fn what_is_accepted_prost_accepts_and_writes_the_same(
        list in entries(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = encoded(&list);
        for (index, byte) in damage {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        if let Ok(found) = decoded(&bytes) {
            let parsed = IndexValuesWithVer::decode(&bytes[..]).expect("prost reads what we accept");
            prop_assert_eq!(&parsed, &message(&found));
            prop_assert_eq!(parsed.encode_to_vec(), bytes);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0x0a), 0u8..32], 0..40)) {
        let _ = decoded(&bytes);
        let _ = peek(&bytes);
        let _ = visible(&bytes, Version(3));
    }
}
