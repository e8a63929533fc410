//! Structs as rows: what `derive(Record)` and `derive(FromRow)` make, at the API.

use std::borrow::Cow;

use nyala::{
    AsValue, Date, Decimal, Durability, Engine, ErrorKind, FromRow, FromValue, KeyOf, Record, Result, Schema,
    Table, Timestamp, Type, TypedRecord, Value, ValueType,
};

use crate::support::{lazy, scratch};

fn table_of<R: TypedRecord>(engine: &Engine, name: &str) -> Table {
    engine.open_or_create_table(name, Schema::of::<R>().expect("a valid struct")).expect("a table")
}

#[derive(Clone, Debug, PartialEq, Record)]
struct Metric<'a> {
    #[nyala(key)]
    host: u32,
    #[nyala(key, desc)]
    time: Timestamp,
    #[nyala(key)]
    metric: &'a str,
    value: f64,
    note: Option<&'a str>,
}

fn metric(host: u32, metric: &str) -> Metric<'_> {
    Metric { host, time: Timestamp::from_micros(-5), metric, value: 0.5, note: None }
}

#[test]
fn a_struct_and_a_tuple_are_the_same_row() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let metrics = table_of::<Metric>(&engine, "metrics");
    let by_hand = Schema::builder()
        .key("host", Type::U32)
        .key("time", Type::Timestamp.descending())
        .key("metric", Type::String)
        .column("value", Type::F64)
        .column("note", Type::String.nullable())
        .build()
        .expect("a valid schema");
    assert_eq!(Schema::of::<Metric>().expect("a valid struct"), by_hand);

    let cpu = Metric { note: Some("peak"), ..metric(17, "cpu") };
    metrics.upsert(&cpu).expect("a row of the table");
    metrics.upsert((17, cpu.time, "disk", 0.25, None::<&str>)).expect("a tuple goes on working");
    let row = metrics.get((17, cpu.time, "cpu")).expect("read").expect("there");
    assert_eq!(row.to::<Metric>().expect("of this table"), cpu);
    let disk = metrics.get(KeyOf(&metric(17, "disk"))).expect("read").expect("there");
    assert_eq!(disk.to::<Metric>().expect("of this table"), Metric { value: 0.25, ..metric(17, "disk") });
    let error = metrics.insert(cpu).expect_err("it is there");
    assert_eq!(error.kind(), ErrorKind::DuplicateKey);
}

#[derive(Debug, PartialEq, Record)]
struct EveryType<'a> {
    #[nyala(key)]
    key: Cow<'a, str>,
    a: bool,
    b: i8,
    c: i16,
    d: i32,
    e: i64,
    f: u8,
    g: u16,
    h: u32,
    i: u64,
    j: f32,
    k: f64,
    #[nyala(decimal(9, 2))]
    l: Decimal,
    #[nyala(decimal(38, 38))]
    m: Option<Decimal>,
    n: Date,
    o: Timestamp,
    p: String,
    q: &'a str,
    r: Box<str>,
    s: Option<Cow<'a, str>>,
    t: Vec<u8>,
    u: &'a [u8],
    v: Box<[u8]>,
    w: [u8; 3],
    x: Option<Vec<u8>>,
    y: Option<bool>,
}

#[test]
fn every_type_comes_back_as_it_was_written() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let table = table_of::<EveryType>(&engine, "every_type");
    let full = EveryType {
        key: Cow::Borrowed("nul\0 and é"),
        a: true,
        b: i8::MIN,
        c: i16::MIN,
        d: i32::MIN,
        e: i64::MIN,
        f: u8::MAX,
        g: u16::MAX,
        h: u32::MAX,
        i: u64::MAX,
        j: f32::MIN_POSITIVE,
        k: -0.0,
        l: Decimal::new(-999_999_999, 2),
        m: Some(Decimal::new(1, 38)),
        n: Date::from_days(-1),
        o: Timestamp::from_micros(i64::MAX),
        p: "text".into(),
        q: "",
        r: "boxed".into(),
        s: Some(Cow::Borrowed("cow")),
        t: vec![0, 255],
        u: b"",
        v: Box::from(*b"boxed"),
        w: [1, 2, 3],
        x: Some(Vec::new()),
        y: Some(false),
    };
    let nulls = EveryType { key: "nulls".into(), m: None, s: None, x: None, y: None, ..full.copy() };
    table.upsert(&full).expect("a row");
    table.upsert(&nulls).expect("a row");
    for flushed in [false, true] {
        for expected in [&full, &nulls] {
            let row = table.get(KeyOf(expected)).expect("read").expect("there");
            assert_eq!(&row.to::<EveryType>().expect("of this table"), expected, "flushed: {flushed}");
        }
        table.flush().expect("flushed");
    }
    let types: Vec<String> = table.schema().columns().iter().map(|column| column.to_string()).collect();
    assert_eq!(
        types.join("; "),
        "string; bool; i8; i16; i32; i64; u8; u16; u32; u64; f32; f64; decimal(9, 2); decimal(38, 38), nullable; date; \
         timestamp; string; string; string; string, nullable; binary; binary; binary; binary; binary, nullable; bool, \
         nullable"
    );
}

impl EveryType<'_> {
    fn copy(&self) -> EveryType<'_> {
        EveryType {
            key: self.key.clone(),
            p: self.p.clone(),
            r: self.r.clone(),
            s: self.s.clone(),
            t: self.t.clone(),
            v: self.v.clone(),
            x: self.x.clone(),
            ..*self
        }
    }
}

#[test]
fn what_borrows_lies_in_the_row() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let metrics = table_of::<Metric>(&engine, "metrics");
    metrics.upsert(Metric { note: Some("peak"), ..metric(17, "cpu") }).expect("a row");
    let row = metrics.get(KeyOf(&metric(17, "cpu"))).expect("read").expect("there");
    let read: Metric = row.to().expect("of this table");
    assert!(std::ptr::eq(read.note.expect("a note"), row.get::<&str>("note").expect("a note")));
    assert!(std::ptr::eq(read.metric, row.get::<&str>("metric").expect("a name")));

    let mut cursor = metrics.scan().columns_of::<Metric>().cursor().expect("a scan");
    let lent = cursor.next().expect("read").expect("a row");
    assert_eq!(lent.to::<Metric>().expect("of this table"), read);
}

/// Columns of the same types as [`Metric`], in the same order, with two names the other way round.
#[derive(Debug, Record)]
struct Swapped<'a> {
    #[nyala(key)]
    host: u32,
    #[nyala(key, desc)]
    time: Timestamp,
    #[nyala(key)]
    note: &'a str,
    value: f64,
    metric: Option<&'a str>,
}

#[derive(Debug, Record)]
struct Narrow<'a> {
    #[nyala(key)]
    host: u32,
    #[nyala(key)]
    time: Timestamp,
    #[nyala(key)]
    metric: &'a str,
    value: f32,
}

#[test]
fn a_struct_of_another_table_is_refused_by_name_whatever_its_types() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let metrics = table_of::<Metric>(&engine, "metrics");
    let opened = engine.open_table("metrics", &Schema::of::<Narrow>().expect("a valid struct"));
    let error = opened.expect_err("another struct");
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    for text in [
        "column \"time\" is timestamp, descending, timestamp asked for",
        "column \"value\" is f64, f32 asked for",
        "column \"note\" (string, nullable) is in the table, but not asked for",
    ] {
        assert!(error.to_string().contains(text), "{error}");
    }

    let time = Timestamp::from_micros(0);
    let swapped = Swapped { host: 1, time, note: "a", value: 0.5, metric: Some("b") };
    let narrow = Narrow { host: 1, time, metric: "a", value: 0.5 };
    let mut batch = engine.batch();
    batch.upsert(&metrics, metric(2, "cpu")).expect("a row of the table");
    let before = batch.bytes();
    let attempts = [
        metrics.upsert(&swapped).expect_err("other names"),
        metrics.insert(&narrow).expect_err("fewer columns"),
        metrics.insert_ignore(&swapped).expect_err("other names"),
        batch.upsert(&metrics, &swapped).expect_err("in a batch"),
        metrics.delete(KeyOf(&swapped)).expect_err("another key"),
        metrics.get(KeyOf(&narrow)).expect_err("another order"),
        metrics.update(KeyOf(&swapped)).set("value", 1.0).apply().expect_err("another key"),
        metrics.multi_get([KeyOf(&swapped)]).expect_err("another key"),
        metrics.scan().prefix(KeyOf(&swapped)).count().expect_err("another key"),
        metrics.scan().range(KeyOf(&swapped)..).count().expect_err("another key"),
    ];
    for error in &attempts {
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
    }
    let text = attempts[0].to_string();
    assert!(text.contains("column \"metric\" is string, string, nullable asked for"), "{text}");
    assert!(
        attempts[4].to_string().contains("column \"metric\" (string) is in the table"),
        "{}",
        attempts[4]
    );
    assert!(!attempts[4].to_string().contains("value"), "only the key matters: {}", attempts[4]);
    assert_eq!(batch.bytes(), before, "what is refused leaves no trace");
    batch.commit(Durability::Buffered).expect("the next call works");
    assert_eq!(metrics.count().expect("counted"), 1);

    let error = metrics.delete(metric(2, "cpu")).expect_err("a whole row is no key");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("KeyOf(&row) is its key"), "{error}");
}

#[derive(Debug, PartialEq, Record)]
struct Host {
    #[nyala(key)]
    host: u32,
}

#[derive(Debug, Record)]
struct MetricKey {
    #[nyala(key)]
    host: u32,
    #[nyala(key, desc)]
    time: Timestamp,
    #[nyala(key)]
    metric: String,
}

#[test]
fn a_struct_of_key_columns_is_a_key_or_the_start_of_one() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let metrics = table_of::<Metric>(&engine, "metrics");
    for (host, name) in [(1, "cpu"), (1, "disk"), (2, "cpu")] {
        metrics.upsert(metric(host, name)).expect("a row");
    }
    let time = metric(1, "cpu").time;
    assert!(metrics.exists(MetricKey { host: 1, time, metric: "disk".into() }).expect("read"));
    assert_eq!(metrics.scan().prefix(Host { host: 1 }).count().expect("counted"), 2);
    assert_eq!(metrics.scan().range(Host { host: 2 }..).count().expect("counted"), 1);

    let hosts = table_of::<Host>(&engine, "hosts");
    hosts.upsert(Host { host: 7 }).expect("a row of a table of keys alone");
    let all: Vec<Host> = hosts.scan().records().expect("a scan").collect::<Result<_>>().expect("read");
    assert_eq!(all, [Host { host: 7 }]);
}

#[derive(Debug, PartialEq, Record)]
struct Mixed {
    /// The key's columns come first in the table, whatever the order of the fields.
    value: i64,
    #[nyala(key)]
    second: u8,
    #[nyala(name = "first name")]
    name: String,
    #[nyala(key)]
    r#type: u8,
    #[nyala(skip)]
    cached: Vec<u64>,
}

#[test]
fn names_order_and_skipped_fields_are_as_said() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let table = table_of::<Mixed>(&engine, "mixed");
    let names: Vec<_> = table.schema().columns().iter().map(|column| &*column.name).collect();
    assert_eq!((names, table.schema().key_columns()), (vec!["second", "type", "value", "first name"], 2));
    let written = Mixed { value: -7, second: 2, name: "Ada".into(), r#type: 1, cached: vec![1, 2, 3] };
    table.upsert(&written).expect("a row");
    let row = table.get((2, 1)).expect("read").expect("there");
    assert_eq!(row.to::<Mixed>().expect("of this table"), Mixed { cached: Vec::new(), ..written });
    let error = row.to::<Host>().expect_err("no such column");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("the row has no column \"host\""), "{error}");
}

#[derive(Debug, FromRow, PartialEq)]
struct Some4 {
    value: f64,
    #[nyala(default)]
    missing: Option<String>,
    #[nyala(default = 40 + 2, name = "answer")]
    number: u8,
    host: u64,
}

#[test]
fn some_columns_are_read_by_name_in_any_order_and_missing_ones_by_default() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let metrics = table_of::<Metric>(&engine, "metrics");
    metrics.upsert(metric(17, "cpu")).expect("a row");
    let expected = Some4 { value: 0.5, missing: None, number: 42, host: 17 };
    let scan = || metrics.scan();
    let read: Vec<Some4> = scan().records().expect("a scan").collect::<Result<_>>().expect("read");
    assert_eq!(read, [expected]);
    for columns in [["host", "value"], ["value", "host"]] {
        let row = scan().columns(columns).rows().expect("a scan").next().expect("a row").expect("read");
        assert_eq!(row.to::<Some4>().expect("by name").host, 17, "{columns:?}");
    }
    let row = scan().columns(["value"]).rows().expect("a scan").next().expect("a row").expect("read");
    assert!(row.to::<Some4>().expect_err("not asked for").to_string().contains("\"host\""));
    assert!(metrics.scan().records::<Misread>().expect("a scan").next().expect("a row").is_err());
}

#[derive(Debug, FromRow)]
struct Misread {
    #[expect(dead_code, reason = "it cannot be read")]
    value: String,
}

#[derive(Debug, PartialEq, Record)]
struct Generic<'a, 'b: 'a, T, const N: usize>
where
    T: Clone,
{
    #[nyala(key)]
    key: [u8; N],
    value: T,
    more: Option<T>,
    text: &'a str,
    other: Cow<'b, [u8]>,
    #[nyala(skip)]
    skipped: std::marker::PhantomData<T>,
}

#[test]
fn generic_structs_are_records_for_each_type() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let numbers = table_of::<Generic<u16, 2>>(&engine, "numbers");
    let texts = table_of::<Generic<&str, 0>>(&engine, "texts");
    let (other, skipped) = (Cow::<[u8]>::Owned(vec![1]), std::marker::PhantomData);
    let number = Generic { key: *b"ab", value: 7u16, more: None, text: "t", other: other.clone(), skipped };
    numbers.upsert(&number).expect("a row");
    let row = numbers.get(b"ab").expect("read").expect("there");
    assert_eq!(row.to::<Generic<u16, 2>>().expect("of this table"), number);
    let skipped = std::marker::PhantomData;
    let text = Generic { key: [], value: "v", more: Some("m"), text: "t", other, skipped };
    texts.upsert(&text).expect("a row");
    let row = texts.scan().rows().expect("a scan").next().expect("a row").expect("read");
    assert_eq!(row.to::<Generic<&str, 0>>().expect("of this table"), text);
    assert_eq!(texts.upsert(&number).expect_err("of the other").kind(), ErrorKind::SchemaMismatch);
}

/// A type of a user's own as a column.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Celsius(f64);

impl ValueType for Celsius {
    const TYPE: Type = Type::F64;
}

impl AsValue for Celsius {
    fn as_value(&self) -> Value<'_> {
        self.0.as_value()
    }
}

impl<'a> FromValue<'a> for Celsius {
    fn from_value(value: Value<'a>) -> Result<Celsius> {
        f64::from_value(value).map(Celsius)
    }
}

#[derive(Debug, PartialEq, Record)]
struct Weather {
    #[nyala(key)]
    day: Date,
    high: Celsius,
    low: Option<Celsius>,
}

#[test]
fn a_type_of_ones_own_is_a_column() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let table = table_of::<Weather>(&engine, "weather");
    let weather = Weather { day: Date::from_days(1), high: Celsius(20.5), low: None };
    table.upsert(&weather).expect("a row");
    let all: Vec<Weather> = table.scan().records().expect("a scan").collect::<Result<_>>().expect("read");
    assert_eq!(all, [weather]);
}

/// Names that generated code must not take for the standard library's, and a crate that is elsewhere.
mod hygiene {
    #![allow(non_camel_case_types, dead_code, reason = "they are in the way on purpose")]

    pub(super) mod engine {
        pub(in super::super) use nyala as renamed;
    }
    mod nyala {}
    mod core {}
    mod std {}
    struct Result;
    struct Option;
    struct Ok;
    struct Some;
    struct None;
    struct Value;
    struct Shape;
    struct Default;
    struct str;
    struct usize;
    trait AsValue {
        fn as_value(&self) {}
    }
    impl<T> AsValue for T {}

    #[derive(engine::renamed::Record)]
    #[nyala(crate = "engine::renamed")]
    pub(super) struct Plain<'row> {
        #[nyala(key)]
        pub(super) index: u8,
        #[nyala(default = ROW)]
        pub(super) row: &'row ::core::primitive::str,
        #[nyala(default)]
        pub(super) set: ::core::option::Option<u8>,
    }

    const ROW: &::core::primitive::str = "row";

    #[derive(::nyala::FromRow)]
    pub(super) struct Some2 {
        pub(super) index: u8,
        #[nyala(default = 5)]
        pub(super) value: u8,
    }
}

#[test]
fn generated_code_sees_none_of_the_users_names() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("it opens");
    let table = table_of::<hygiene::Plain>(&engine, "plain");
    table.upsert(hygiene::Plain { index: 1, row: "r", set: None }).expect("a row");
    let row = table.get(1).expect("read").expect("there");
    let plain: hygiene::Plain = row.to().expect("of this table");
    let some: hygiene::Some2 = row.to().expect("of this table");
    assert_eq!((plain.index, plain.row, plain.set), (1, "r", None));
    assert_eq!((some.index, some.value), (1, 5));
}
