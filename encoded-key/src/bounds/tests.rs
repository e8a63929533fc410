use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::model::{Owned, any_tuple, compare, encode, encode_values, layout_and_tuples, layout_of, values};
use crate::{KEY_BYTES_MAX, KeyColumn, Type};

const NO_VALUES: [Value<'static>; 0] = [];

/// Asserts that `range` holds exactly the tuples that `expected` says, also as the bounds of an ordered map.
fn assert_holds(
    layout: &KeyLayout,
    tuples: &[Vec<Owned>],
    range: &KeyRange,
    expected: impl Fn(&[Owned]) -> bool,
) -> Result<(), TestCaseError> {
    let mut keys = BTreeMap::new();
    for tuple in tuples {
        let key = encode(layout, tuple).unwrap();
        prop_assert_eq!(range.contains(&key), expected(tuple), "{:?} {:02x?} {:02x?}", tuple, key, range);
        keys.insert(key, expected(tuple));
    }
    if range.is_empty() {
        prop_assert_eq!(range, &KeyRange::none());
        prop_assert!(!keys.values().any(|inside| *inside));
    }
    let found: Vec<_> = keys.range::<[u8], _>(range.clone()).map(|(key, _)| key).collect();
    let inside: Vec<_> = keys.iter().filter(|(_, inside)| **inside).map(|(key, _)| key).collect();
    prop_assert_eq!(found, inside);
    Ok(())
}

/// Included, excluded or unbounded, at the first columns of a tuple.
fn bound(tuple: &[Owned], kind: u8) -> Bound<&[Owned]> {
    match kind {
        0 => Bound::Included(tuple),
        1 => Bound::Excluded(tuple),
        _ => Bound::Unbounded,
    }
}

fn text_of(value: Value<'_>) -> &[u8] {
    match value {
        Value::String(text) => text.as_bytes(),
        Value::Binary(bytes) => bytes,
        other => panic!("{other} is no text"),
    }
}

/// A layout, tuples of it, and one more that need not be among them.
fn tuples_and_one() -> impl Strategy<Value = (KeyLayout, Vec<Vec<Owned>>, Vec<Owned>)> {
    (layout_and_tuples(10), any::<Index>(), any::<bool>()).prop_flat_map(|((layout, tuples), pick, among)| {
        let fresh = any_tuple(&layout);
        let picked = Just(tuples[pick.index(tuples.len())].clone());
        let one = if among { picked.boxed() } else { fresh };
        (Just(layout), Just(tuples), one)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn a_prefix_holds_the_tuples_that_have_it((layout, tuples, one) in tuples_and_one(), columns in any::<Index>()) {
        let given = &one[..columns.index(one.len() + 1)];
        let range = KeyRange::prefix(&layout, values(given)).unwrap();
        assert_holds(&layout, &tuples, &range, |tuple| compare(&layout, tuple, given).is_eq())?;
    }

    #[test]
    fn a_beginning_holds_the_texts_that_have_it(
        (layout, tuples, one) in tuples_and_one(),
        column in any::<Index>(),
        length in any::<Index>(),
    ) {
        let column = column.index(one.len());
        let (whole, rest) = one.split_at(column);
        let text = match rest[0].value() {
            Value::String(text) => {
                let ends: Vec<_> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
                Value::String(&text[..ends[length.index(ends.len())]])
            }
            Value::Binary(bytes) => Value::Binary(&bytes[..length.index(bytes.len() + 1)]),
            other => {
                let ty = layout.columns()[column].ty;
                prop_assert_eq!(
                    KeyRange::starts_with(&layout, values(whole), other),
                    Err(KeyError::NotText { column, ty })
                );
                return Ok(());
            }
        };
        let range = KeyRange::starts_with(&layout, values(whole), text).unwrap();
        assert_holds(&layout, &tuples, &range, |tuple| {
            compare(&layout, tuple, whole).is_eq()
                && text_of(tuple[column].value()).starts_with(text_of(text))
        })?;
    }

    #[test]
    fn a_range_holds_the_tuples_between(
        (layout, tuples, one) in tuples_and_one(),
        (other, columns, other_columns) in any::<(Index, Index, Index)>(),
        (lower, upper) in (0u8..3, 0u8..3),
    ) {
        let other = &tuples[other.index(tuples.len())];
        let lower = bound(&one[..columns.index(one.len() + 1)], lower);
        let upper = bound(&other[..other_columns.index(other.len() + 1)], upper);
        let inside = |tuple: &[Owned]| {
            let above = match lower {
                Bound::Included(lower) => compare(&layout, tuple, lower).is_ge(),
                Bound::Excluded(lower) => compare(&layout, tuple, lower).is_gt(),
                Bound::Unbounded => true,
            };
            let below = match upper {
                Bound::Included(upper) => compare(&layout, tuple, upper).is_le(),
                Bound::Excluded(upper) => compare(&layout, tuple, upper).is_lt(),
                Bound::Unbounded => true,
            };
            above && below
        };
        let range = KeyRange::range(&layout, lower.map(values), upper.map(values)).unwrap();
        assert_holds(&layout, &tuples, &range, inside)?;
    }

    #[test]
    fn an_intersection_holds_what_both_hold(
        (layout, tuples, one) in tuples_and_one(),
        (columns, other, third) in any::<(Index, Index, Index)>(),
        kinds in any::<[u8; 3]>(),
    ) {
        let third = &tuples[third.index(tuples.len())];
        let other = &tuples[other.index(tuples.len())];
        let first = KeyRange::range(
            &layout,
            bound(&one[..columns.index(one.len() + 1)], kinds[0] % 3).map(values),
            bound(other, kinds[1] % 3).map(values),
        ).unwrap();
        let second = KeyRange::range(&layout, bound(third, kinds[2] % 3).map(values), Bound::Unbounded).unwrap();
        let both = first.intersect(&second);
        prop_assert_eq!(&both, &second.intersect(&first));
        prop_assert_eq!(&both.intersect(&KeyRange::all()), &both);
        for tuple in &tuples {
            let key = encode(&layout, tuple).unwrap();
            prop_assert_eq!(both.contains(&key), first.contains(&key) && second.contains(&key));
        }
    }
}

#[test]
fn is_empty_says_exactly_whether_some_bytes_lie_between() {
    let alphabet = [0, 1, 0xff];
    let mut strings: Vec<Vec<u8>> = vec![vec![]];
    for level in [0..1, 1..4, 4..13] {
        let longer: Vec<_> = strings[level]
            .iter()
            .flat_map(|shorter| alphabet.iter().map(|byte| [&shorter[..], &[*byte]].concat()))
            .collect();
        strings.extend(longer);
    }
    let short: Vec<_> = strings.iter().filter(|string| string.len() <= 2).collect();
    assert_eq!((short.len(), strings.len()), (13, 40));
    let bounds: Vec<_> = short
        .iter()
        .flat_map(|string| [Bound::Included((*string).clone()), Bound::Excluded((*string).clone())])
        .chain([Bound::Unbounded])
        .collect();
    for start in &bounds {
        for end in &bounds {
            let range = KeyRange { start: start.clone(), end: end.clone() };
            let holds_some = strings.iter().any(|string| range.contains(string));
            assert_eq!(range.is_empty(), !holds_some, "{range:?}");
        }
    }
}

#[test]
fn contradictory_bounds_are_an_empty_range() {
    let layout = layout_of(&[Type::I32.into(), Type::String.into()]);
    let five = || vec![Value::Int(5)];
    let six = || vec![Value::Int(6)];
    let whole = || vec![Value::Int(5), Value::String("")];
    for (lower, upper) in [
        (Bound::Included(six()), Bound::Included(five())),
        (Bound::Excluded(five()), Bound::Excluded(five())),
        (Bound::Included(five()), Bound::Excluded(five())),
        (Bound::Excluded(five()), Bound::Included(five())),
        (Bound::Excluded(whole()), Bound::Excluded(whole())),
        (Bound::Excluded(five()), Bound::Excluded(six())),
        (Bound::Included(whole()), Bound::Excluded(five())),
        (Bound::Excluded(vec![]), Bound::Unbounded),
        (Bound::Unbounded, Bound::Excluded(vec![])),
        (Bound::Excluded(vec![Value::Int(i32::MAX.into())]), Bound::Unbounded),
    ] {
        let range = KeyRange::range(&layout, lower.clone(), upper.clone()).unwrap();
        assert_eq!(range, KeyRange::none(), "{lower:?} {upper:?}");
        assert!(range.is_empty());
        assert_eq!(BTreeMap::<Vec<u8>, ()>::new().range::<[u8], _>(range).count(), 0);
    }
}

#[test]
fn no_key_lies_below_the_least() {
    let layout = layout_of(&[Type::I32.into(), Type::String.into()]);
    let least = || [Value::Int(i32::MIN.into()), Value::String("")];
    let key = encode_values(&layout, &least()).unwrap();
    for columns in [1, 2] {
        let below = KeyRange::range(&layout, Bound::Unbounded, Bound::Excluded(&least()[..columns])).unwrap();
        assert!(!below.contains(&key));
    }
}

#[test]
fn prefixes_that_end_in_ff_or_are_all_ff_have_the_right_upper_side() {
    let layout = layout_of(&[Type::Binary.into()]);
    let start = |text: &[u8]| KeyRange::starts_with(&layout, NO_VALUES, Value::Binary(text)).unwrap();
    assert_eq!(start(&[0x61, 0xff]).end, Bound::Excluded(vec![0x62]));
    assert_eq!(start(&[0x61, 0xff, 0xff]).end, Bound::Excluded(vec![0x62]));
    assert_eq!(start(&[0xff]).end, Bound::Unbounded);
    assert_eq!(start(&[0xff, 0xff]).end, Bound::Unbounded);
    assert_eq!(start(&[]), KeyRange::all());
    assert_eq!(KeyRange::prefix(&layout, NO_VALUES).unwrap(), KeyRange::all());
    assert!(start(&[0xff, 0xff]).contains(&[0xff, 0xff]) && start(&[0xff, 0xff]).contains(&[0xff; 9]));
    assert!(!start(&[0xff, 0xff]).contains(&[0xff, 0xfe, 0xff]));
}

#[test]
fn a_maximal_key_bounds_and_resumes_a_scan() {
    let layout = layout_of(&[Type::I64.into(), Type::U8.into()]);
    let maximal = [Value::Int(i64::MAX), Value::UInt(255)];
    let key = encode_values(&layout, &maximal).unwrap();
    assert_eq!(key, [0xff; 9]);
    let resumed = KeyRange::range(&layout, Bound::Excluded(&maximal[..]), Bound::Unbounded).unwrap();
    assert!(!resumed.contains(&key));
    assert_eq!(resumed.end, Bound::Unbounded);
    let through = KeyRange::range(&layout, Bound::Unbounded, Bound::Included(&maximal[..1])).unwrap();
    assert_eq!(through, KeyRange::all());
    let whole = KeyRange::prefix(&layout, maximal).unwrap();
    assert_eq!(whole, KeyRange::point(&key));
    assert!(whole.contains(&key));
    let below = KeyRange::range(&layout, Bound::Unbounded, Bound::Excluded(&maximal[..])).unwrap();
    assert!(!below.contains(&key) && below.contains(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]));
}

#[test]
fn the_least_descending_text_is_maximal_and_still_found() {
    // An empty text in a descending column is ff ff: every prefix of it is all ff.
    let layout = layout_of(&[KeyColumn::descending(Type::String), KeyColumn::descending(Type::U8)]);
    let key = encode_values(&layout, &[Value::String(""), Value::Int(0)]).unwrap();
    assert_eq!(key, [0xff; 3]);
    let range = KeyRange::prefix(&layout, [Value::String("")]).unwrap();
    assert_eq!(range.end, Bound::Unbounded);
    assert!(range.contains(&key));
    assert!(KeyRange::prefix(&layout, [Value::String(""), Value::Int(0)]).unwrap().contains(&key));
}

#[test]
fn the_empty_key_can_be_a_bound() {
    let layout = layout_of(&[Type::Binary.into()]);
    let empty = [Value::Binary(b"")];
    let point = KeyRange::prefix(&layout, empty).unwrap();
    assert!(point.contains(b"") && !point.contains(b"\0"));
    let after = KeyRange::range(&layout, Bound::Excluded(empty), Bound::Unbounded).unwrap();
    assert!(!after.contains(b"") && after.contains(b"\0"));
    let before = KeyRange::range(&layout, Bound::Unbounded, Bound::Excluded(empty)).unwrap();
    assert!(before.is_empty());
    assert_eq!(KeyRange::range(&layout, Bound::Included(empty), Bound::Unbounded).unwrap(), KeyRange::all());
}

#[test]
fn a_text_is_not_taken_for_the_beginning_of_another() {
    let layout = layout_of(&[Type::String.into(), Type::I32.into()]);
    let key = |text| encode_values(&layout, &[Value::String(text), Value::Int(0)]).unwrap();
    let foo = KeyRange::prefix(&layout, [Value::String("foo")]).unwrap();
    assert!(foo.contains(&key("foo")));
    for other in ["fo", "foo\0", "foo\0bar", "foobar", ""] {
        assert!(!foo.contains(&key(other)), "{other:?}");
    }
    let starts = KeyRange::starts_with(&layout, NO_VALUES, Value::String("foo\0")).unwrap();
    assert!(
        starts.contains(&key("foo\0")) && starts.contains(&key("foo\0\0")) && !starts.contains(&key("foo"))
    );
}

#[test]
fn bad_bounds_are_typed_errors() {
    let layout = layout_of(&[Type::I8.into(), Type::Binary.into()]);
    let text = Value::Binary(b"x");
    assert_eq!(
        KeyRange::prefix(&layout, [Value::Int(128)]),
        Err(KeyError::OutOfRange { column: 0, expected: Type::I8 })
    );
    assert_eq!(
        KeyRange::starts_with(&layout, NO_VALUES, text),
        Err(KeyError::NotText { column: 0, ty: Type::I8 })
    );
    assert_eq!(
        KeyRange::starts_with(&layout, [Value::Int(1), text], text),
        Err(KeyError::MissingColumn { column: 2, columns: 2 })
    );
    assert_eq!(
        KeyRange::starts_with(&layout, [Value::Int(1)], Value::String("x")),
        Err(KeyError::WrongType { column: 1, expected: Type::Binary, found: "string" })
    );
    let long = vec![0xff; KEY_BYTES_MAX];
    assert_eq!(
        KeyRange::starts_with(&layout, [Value::Int(1)], Value::Binary(&long)),
        Err(KeyError::TooLong { bytes: KEY_BYTES_MAX + 1 })
    );
    assert!(KeyRange::starts_with(&layout, [Value::Int(1)], Value::Binary(&long[1..])).is_ok());
}
