//! Keys and values at their edges: what goes in comes out, and in the right order.

use std::ops::Bound;

use nyala::{Date, Decimal, Engine, ErrorKind, Schema, Table, Timestamp, Type, Value};

use crate::support::{lazy, scratch};

/// Makes a table of one key column, writes the values in a scrambled order, and checks that a scan gives them in order,
/// both ways, from memory and from disk, and that each is found by its key.
fn in_order(engine: &Engine, name: &str, schema: &Schema, keys: &[Vec<Value<'_>>]) {
    let table = engine.create_table(name, schema.clone()).expect("a table");
    let scrambled = (0..keys.len()).map(|n| n * 7919 % keys.len());
    for n in scrambled.chain(0..keys.len()) {
        let mut row = keys[n].clone();
        row.push(Value::UInt(n as u64));
        table.upsert(row).expect("a row");
    }
    check_order(&table, keys);
    table.flush().expect("it is flushed");
    check_order(&table, keys);
    table.compact().expect("it is merged");
    check_order(&table, keys);
}

fn check_order(table: &Table, keys: &[Vec<Value<'_>>]) {
    let numbers = |scan: nyala::Scan| -> Vec<usize> {
        scan.rows()
            .expect("a scan")
            .map(|row| row.expect("a row").get::<u32>("n").expect("a number") as usize)
            .collect()
    };
    let all: Vec<usize> = (0..keys.len()).collect();
    assert_eq!(numbers(table.scan()), all, "{}", table.name());
    let mut backward = numbers(table.scan().reverse());
    backward.reverse();
    assert_eq!(backward, all, "{}", table.name());
    for (n, key) in keys.iter().enumerate() {
        let row = table.get(key).expect("a row").expect("it is there");
        assert_eq!(row.get::<u32>("n").expect("a number") as usize, n);
        // Equality of keys is equality of encodings, so that NaNs are compared as text.
        let read = row.to_values().expect("values");
        assert_eq!(format!("{:?}", &read[..key.len()]), format!("{:?}", canonical(key)), "{}", table.name());
        // Every key works as a bound.
        let from: Vec<usize> = numbers(table.scan().range((Bound::Included(key.clone()), Bound::Unbounded)));
        assert_eq!(from, all[n..], "{} from {key:?}", table.name());
        let after: Vec<usize> = numbers(table.scan().range((Bound::Excluded(key.clone()), Bound::Unbounded)));
        assert_eq!(after, all[n + 1..], "{} after {key:?}", table.name());
        let below: Vec<usize> =
            numbers(table.scan().range((Bound::Unbounded, Bound::Excluded(key.clone()))).reverse());
        assert_eq!(
            below,
            all[..n].iter().rev().copied().collect::<Vec<_>>(),
            "{} below {key:?}",
            table.name()
        );
    }
}

/// Small integers are given as `Int` here and may be read as `UInt`.
fn canonical<'a>(key: &[Value<'a>]) -> Vec<Value<'a>> {
    key.to_vec()
}

fn one(ty: Type) -> Schema {
    Schema::builder().key("k", ty).column("n", Type::U32).build().expect("good")
}

fn one_descending(ty: Type) -> Schema {
    Schema::builder().key("k", ty.descending()).column("n", Type::U32).build().expect("good")
}

fn both_ways(ty: Type, name: &str, engine: &Engine, keys: &[Value<'_>]) {
    let ascending: Vec<Vec<Value<'_>>> = keys.iter().map(|value| vec![*value]).collect();
    in_order(engine, name, &one(ty), &ascending);
    let descending: Vec<Vec<Value<'_>>> = ascending.into_iter().rev().collect();
    in_order(engine, &format!("{name} descending"), &one_descending(ty), &descending);
}

// docs/testing.md, fault 35
#[test]
fn signed_numbers_dates_and_decimals_sort_as_numbers() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let int = |values: &[i64]| values.iter().map(|value| Value::Int(*value)).collect::<Vec<_>>();
    both_ways(Type::I8, "i8", &engine, &int(&[-128, -127, -1, 0, 1, 126, 127]));
    both_ways(Type::I16, "i16", &engine, &int(&[-32768, -257, -256, -1, 0, 1, 255, 256, 32767]));
    both_ways(Type::I32, "i32", &engine, &int(&[i64::from(i32::MIN), -65536, -1, 0, 1, i64::from(i32::MAX)]));
    both_ways(Type::I64, "i64", &engine, &int(&[i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX]));
    let unsigned = [0, 1, 255, 256, u64::from(u32::MAX), u64::MAX - 1, u64::MAX].map(Value::UInt);
    both_ways(Type::U64, "u64", &engine, &unsigned);
    let dates = [
        (-1, 12, 31),
        (1, 1, 1),
        (1899, 12, 31),
        (1969, 12, 31),
        (1970, 1, 1),
        (1970, 1, 2),
        (2020, 7, 9),
        (9999, 12, 31),
    ];
    let dates = dates.map(|(y, m, d)| Value::Date(Date::from_ymd(y, m, d).expect("a date")));
    both_ways(Type::Date, "date", &engine, &dates);
    let times = [i64::MIN, -1_000_001, -1, 0, 1, i64::MAX]
        .map(|micros| Value::Timestamp(Timestamp::from_micros(micros)));
    both_ways(Type::Timestamp, "timestamp", &engine, &times);
    for (precision, scale) in [(4, 2), (9, 2), (18, 2), (38, 2)] {
        let largest = 10i128.pow(u32::from(precision)) - 1;
        let values = [-largest, -100, -1, 0, 1, 99, 100, largest];
        let values = values.map(|unscaled| Value::Decimal(Decimal { unscaled, scale }));
        both_ways(Type::Decimal { precision, scale }, &format!("decimal {precision}"), &engine, &values);
    }
    both_ways(Type::Bool, "bool", &engine, &[Value::Bool(false), Value::Bool(true)]);
}

// docs/testing.md, fault 36
#[test]
fn floats_have_one_total_order() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let quiet = f64::from_bits(0x7ff8_0000_0000_0000);
    let other = f64::from_bits(0x7ff8_0000_0000_0001);
    let values = [
        -other,
        -quiet,
        f64::NEG_INFINITY,
        f64::MIN,
        -1.0,
        -f64::MIN_POSITIVE,
        -f64::from_bits(1),
        -0.0,
        0.0,
        f64::from_bits(1),
        f64::MIN_POSITIVE,
        1.0,
        f64::MAX,
        f64::INFINITY,
        quiet,
        other,
    ];
    both_ways(Type::F64, "f64", &engine, &values.map(Value::F64));
    let values = [
        -f32::NAN,
        f32::NEG_INFINITY,
        -1.0,
        -f32::from_bits(1),
        -0.0,
        0.0,
        f32::from_bits(1),
        1.0,
        f32::INFINITY,
        f32::NAN,
    ];
    both_ways(Type::F32, "f32", &engine, &values.map(Value::F32));
    let table = engine.create_table("bits", one(Type::F64)).expect("a table");
    table.upsert((other, 1)).expect("a row");
    let row = table.get((other,)).expect("a row").expect("it is there");
    assert_eq!(row.get::<f64>("k").expect("a float").to_bits(), other.to_bits());
    assert!(table.get((quiet,)).expect("a row").is_none(), "another NaN is another key");
    assert!(table.get((0.0,)).expect("a row").is_none());
}

// docs/testing.md, fault 34
#[test]
fn composite_keys_sort_by_column_whatever_bytes_they_hold() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let schema = Schema::builder()
        .key("s", Type::String)
        .key("i", Type::I32)
        .column("n", Type::U32)
        .build()
        .expect("good");
    let texts = [
        "",
        "\0",
        "\0\0",
        "\0\u{1}",
        "\u{1}",
        "a",
        "a\0",
        "a\0b",
        "a\u{1}",
        "aa",
        "ab",
        "b",
        "foo",
        "foo\0bar",
        "foobar",
        "é",
        "\u{10ffff}",
    ];
    let keys: Vec<Vec<Value<'_>>> = texts
        .iter()
        .flat_map(|text| {
            [i64::from(i32::MIN), -1, 0, 1, 2, i64::from(i32::MAX)]
                .map(|i| vec![Value::String(text), Value::Int(i)])
        })
        .collect();
    in_order(&engine, "string, int", &schema, &keys);
    let table = engine.existing_table("string, int").expect("it was made");
    for text in texts {
        assert_eq!(table.scan().prefix((text,)).count().expect("rows"), 6, "{text:?}");
        let starting = texts.iter().filter(|other| other.starts_with(text)).count() as u64;
        assert_eq!(table.scan().starts_with((), text).count().expect("rows"), 6 * starting, "{text:?}");
    }

    let schema = Schema::builder()
        .key("i", Type::U8)
        .key("b", Type::Binary)
        .column("n", Type::U32)
        .build()
        .expect("good");
    let binaries: [&[u8]; 9] =
        [b"", b"\0", b"\0\0", b"\0\xff", b"\x01", b"\x7f", b"\x80", b"\xff", b"\xff\xff"];
    let keys: Vec<Vec<Value<'_>>> =
        [0u64, 255].iter().flat_map(|i| binaries.map(|b| vec![Value::UInt(*i), Value::Binary(b)])).collect();
    in_order(&engine, "int, binary", &schema, &keys);

    let schema = Schema::builder()
        .key("b", Type::Binary.descending())
        .key("s", Type::String.descending())
        .column("n", Type::U32);
    let schema = schema.build().expect("good");
    let keys: Vec<Vec<Value<'_>>> = binaries
        .iter()
        .rev()
        .flat_map(|b| texts.iter().rev().map(|s| vec![Value::Binary(b), Value::String(s)]))
        .collect();
    in_order(&engine, "both descending", &schema, &keys);
}

// docs/testing.md, fault 38, 40
#[test]
fn maximal_and_empty_keys_and_values_are_ordinary_ones() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let schema = Schema::builder().key("k", Type::Binary).column("v", Type::Binary).build().expect("good");
    let table = engine.create_table("t", schema.clone()).expect("a table");
    let longest = vec![0xff; 65_535];
    let keys: [&[u8]; 4] = [b"", b"\0", b"\xff\xff", &longest];
    for key in keys {
        table.upsert((key, &b""[..])).expect("a row");
    }
    for _ in 0..2 {
        for key in keys {
            let row = table.get((key,)).expect("a row").expect("an empty value is a value");
            assert_eq!(row.get::<&[u8]>("v").expect("bytes"), b"");
            assert!(table.exists((key,)).expect("a row"));
        }
        let found: Vec<_> = table.multi_get(keys.iter().map(|key| (*key,))).expect("rows");
        assert!(found.iter().all(Option::is_some));
        assert_eq!(table.count().expect("rows"), 4);
        // A scan that is resumed after its last key, row by row.
        let mut last: Option<Vec<u8>> = None;
        let mut seen = 0;
        loop {
            let scan = match &last {
                None => table.scan(),
                Some(last) => table.scan().range((Bound::Excluded((&last[..],)), Bound::Unbounded)),
            };
            let Some(row) = scan.limit(1).rows().expect("a scan").next() else { break };
            last = Some(row.expect("a row").get::<Vec<u8>>("k").expect("bytes"));
            seen += 1;
        }
        assert_eq!((seen, last.as_deref()), (4, Some(&longest[..])));
        assert_eq!(table.scan().range((&longest[..],)..).count().expect("rows"), 1);
        assert_eq!(table.scan().prefix((&longest[..],)).count().expect("rows"), 1);
        assert_eq!(table.scan().starts_with((), &longest[..]).count().expect("rows"), 1);
        assert_eq!(table.scan().range(..(&longest[..],)).count().expect("rows"), 3);
        engine.flush().expect("it is flushed");
    }
    drop((table, engine));
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let table = engine.open_table("t", &schema).expect("it was made");
    assert!(table.get((&b""[..],)).expect("a row").is_some());
    // All columns maximal.
    let schema = Schema::builder()
        .key("a", Type::U8)
        .key("b", Type::Bool)
        .column("n", Type::U32)
        .build()
        .expect("good");
    let table = engine.create_table("maximal", schema).expect("a table");
    table.upsert((255, true, 1)).expect("a row");
    table.upsert((255, false, 0)).expect("a row");
    assert_eq!(table.scan().prefix((255,)).count().expect("rows"), 2);
    assert_eq!(table.scan().prefix((255, true)).count().expect("rows"), 1);
    assert_eq!(table.scan().range((255,)..).reverse().count().expect("rows"), 2);
    assert_eq!(table.scan().range((Bound::Excluded((255,)), Bound::Unbounded)).count().expect("rows"), 0);
    assert_eq!(
        table.scan().range((Bound::Excluded((255, true)), Bound::Unbounded)).count().expect("rows"),
        0
    );
}

// docs/testing.md, fault 37
#[test]
fn keys_are_shown_right_if_they_may_be_shown_and_never_otherwise() {
    let schema = Schema::builder()
        .key("s", Type::String)
        .key("b", Type::Binary)
        .column("n", Type::U32)
        .build()
        .expect("good");
    let key = ("é\u{80}ÿ\n", &[0x00, 0x7f, 0x80, 0xff][..]);
    let duplicate = |keys_in_errors| {
        let dir = scratch();
        let engine = Engine::open(dir.path(), nyala::Options { keys_in_errors, ..lazy() }).expect("it opens");
        let table = engine.create_table("t", schema.clone()).expect("a table");
        table.insert((key.0, key.1, 1)).expect("a row");
        let shown = format!("{:?}", table.get(key).expect("a row").expect("it is there"));
        let error = table.insert((key.0, key.1, 1)).expect_err("it is there");
        assert_eq!(error.kind(), ErrorKind::DuplicateKey);
        (error.to_string(), shown)
    };
    let (text, shown) = duplicate(true);
    for shown in [&text, &shown] {
        assert!(shown.contains('é') && shown.contains('ÿ'), "{shown}");
        assert!(shown.to_lowercase().contains("007f80ff") || shown.contains("\\x80\\xff"), "{shown}");
        assert!(!shown.contains("ffffff80"), "a byte is no signed number: {shown}");
        assert!(!shown.contains('\n'), "an error is one line: {shown:?}");
    }
    let (text, _) = duplicate(false);
    assert!(!text.contains('é') && !text.contains("80"), "{text}");
}
