//! Tests of the rows themselves, and through a table.

use super::*;

fn spec(shape: Shape, is_random: bool) -> Spec {
    Spec {
        shape,
        has_random_keys: is_random,
        has_random_values: is_random,
        int_columns: 2,
        string_columns: 2,
        string_len: 32,
        string_fixed: None,
        seed: 7,
    }
}

fn all_specs() -> impl Iterator<Item = Spec> {
    let shapes = [Shape::Int, Shape::Composite, Shape::String];
    shapes.into_iter().flat_map(|shape| [spec(shape, false), spec(shape, true)])
}

fn show(row: &RowSource<'_>) -> Vec<String> {
    (0..row.columns()).map(|column| format!("{:?}", row.value_at(column))).collect()
}

#[test]
fn scrambling_can_be_undone() {
    for seed in [0, 1, u64::MAX] {
        for number in (0..1000).chain([u64::MAX, 1 << 63, 0x0123_4567_89ab_cdef]) {
            assert_eq!(unscramble(scramble(number, seed), seed), number);
        }
    }
}

#[test]
fn a_row_is_a_function_of_its_number_whatever_was_before() {
    for spec in all_specs() {
        let (mut first, mut second) = (RowSource::new(&spec), RowSource::new(&spec));
        first.fill(3);
        first.fill(1_000_003);
        second.fill(1_000_003);
        assert_eq!(show(&first), show(&second), "{spec:?}");
    }
}

#[test]
fn numbers_are_told_from_stored_keys_and_rows_are_recognized() {
    let dir = tempfile::tempdir().unwrap();
    let engine = nyala::Engine::open(dir.path(), nyala::Options::default()).unwrap();
    for (at, spec) in all_specs().enumerate() {
        let table = engine.create_table(&format!("t{at}"), spec.schema().unwrap()).unwrap();
        let numbers: Vec<u64> = (0..300).chain((1 << 20) - 2..(1 << 20) + 2).chain([9_999_999_999]).collect();
        let mut row = RowSource::new(&spec);
        for &number in &numbers {
            row.fill(number);
            table.insert(&row).unwrap();
        }
        let mut found = Vec::new();
        let mut cursor = table.scan().cursor().unwrap();
        while let Some(stored) = cursor.next().unwrap() {
            let number = spec.number_of(stored).unwrap();
            row.fill(number);
            assert!(row.equals(stored).unwrap(), "{spec:?} {number}");
            row.fill(number + 1);
            assert!(!row.equals(stored).unwrap(), "{spec:?} {number}");
            found.push(number);
        }
        if spec.has_random_keys {
            found.sort_unstable();
        }
        assert_eq!(found, numbers, "{spec:?}: sequential keys sort like their numbers, and none is lost");
    }
}

#[test]
fn random_values_have_negative_numbers_nul_and_letters_beyond_ascii() {
    let spec = spec(Shape::String, true);
    let mut row = RowSource::new(&spec);
    let (mut negative, mut nul) = (0, 0);
    for number in 0..1000 {
        row.fill(number);
        negative += usize::from(row.ints[0] < 0);
        for text in [&row.key_text, &row.strings[0], &row.strings[1]] {
            assert_eq!(text.len(), 32);
            assert!(!text.is_ascii());
            nul += usize::from(text.contains('\0'));
        }
    }
    assert!((300..700).contains(&negative), "{negative}");
    assert!(nul > 300, "{nul}");
}

#[test]
fn composite_keys_have_26_bytes() {
    for is_random in [false, true] {
        let spec = spec(Shape::Composite, is_random);
        let mut row = RowSource::new(&spec);
        row.fill(12_345_678);
        assert_eq!(row.key_text.chars().count(), 12);
        assert_eq!(4 + 8 + row.key_text.len(), 26);
    }
}
