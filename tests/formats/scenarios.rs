//! The databases of format version 1 that are kept as fixtures.

use nyala::{Compression, Date, Decimal, Durability, Timestamp, Type, Value};

use crate::expected::{Column, Kind};
use crate::writer::{Alteration, Change, Row, Writer, Written};

/// A name, and what writes the database. A number behind the name: the same calls, from when the engine came to do
/// something else for them, with every format as it was. 2: a log that is closed gives back its space and leaves behind
/// what is flushed.
type Scenario = (&'static str, fn() -> Written);

pub(crate) const SCENARIOS: [Scenario; 16] = [
    ("empty", empty),
    ("types", types),
    ("limits", limits),
    ("schemas", schemas),
    ("runs", runs),
    ("compacted", compacted),
    ("log", log),
    ("torn", torn),
    ("checkpoint", checkpoint),
    ("manifest", manifest),
    ("empty-2", empty),
    ("types-2", types),
    ("schemas-2", schemas),
    ("log-2", log),
    ("checkpoint-2", checkpoint),
    ("manifest-2", manifest),
];

fn column(name: &str, ty: Type, kind: Kind) -> Column {
    Column { name: name.to_owned(), ty, kind, default: None }
}

fn with_default(name: &str, ty: Type, kind: Kind, default: Value<'static>) -> Column {
    Column { name: name.to_owned(), ty, kind, default: Some(default) }
}

fn integer(number: usize) -> Value<'static> {
    Value::UInt(number as u64)
}

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// A new database that was closed.
fn empty() -> Written {
    Writer::begin(|_| {}).close()
}

const DECIMALS: [(u8, u8); 3] = [(9, 2), (18, 0), (38, 19)];

/// Every type, with its least and greatest values and those that are special, plain ones first.
fn values() -> Vec<(&'static str, Type, Vec<Value<'static>>)> {
    let int = |values: &[i64]| values.iter().copied().map(Value::Int).collect::<Vec<_>>();
    let uint = |values: &[u64]| values.iter().copied().map(Value::UInt).collect::<Vec<_>>();
    let f64s = [
        1.5,
        -2.25,
        0.0,
        -0.0,
        f64::MIN_POSITIVE,
        f64::from_bits(1),
        f64::MAX,
        f64::MIN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::from_bits(0x7ff8_0000_0000_0000),
        f64::from_bits(0xfff8_0000_0000_0001),
    ];
    let f32s = [
        1.5,
        -2.25,
        0.0,
        -0.0,
        f32::MIN_POSITIVE,
        f32::MAX,
        f32::MIN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::from_bits(0x7fc0_0000),
        f32::from_bits(0xffc0_0001),
    ];
    let texts = [
        "plain",
        "",
        "\0",
        "a\0b",
        "a\0",
        "a\u{1}",
        "ünï©ode",
        "日本",
        "\u{10ffff}",
        "quote\" back\\ line\n",
    ];
    let bytes: [&[u8]; 7] = [b"plain", &[], &[0], &[0, 0], &[0, 1], &[0xff, 0xff], &[1, 0, 0xff, 0, 0, 7]];
    let decimals = DECIMALS.map(|(precision, scale)| {
        let most = 10_i128.pow(u32::from(precision)) - 1;
        let values =
            [12_345, 0, 1, -1, most, -most].map(|unscaled| Value::Decimal(Decimal::new(unscaled, scale)));
        (Type::Decimal { precision, scale }, values.to_vec())
    });
    let [(small, smalls), (middle, middles), (large, larges)] = decimals;
    let dates = [20_000, 0, -1, -719_162, i32::MIN, i32::MAX].map(|days| Value::Date(Date::from_days(days)));
    let times = [1_600_000_000_000_000, 0, -1, i64::MIN, i64::MAX];
    let times = times.map(|micros| Value::Timestamp(Timestamp::from_micros(micros)));
    vec![
        ("bool", Type::Bool, vec![Value::Bool(true), Value::Bool(false)]),
        ("i8", Type::I8, int(&[5, 0, -1, i8::MIN.into(), i8::MAX.into()])),
        ("i16", Type::I16, int(&[500, 0, -1, i16::MIN.into(), i16::MAX.into()])),
        ("i32", Type::I32, int(&[50_000, 0, -1, i32::MIN.into(), i32::MAX.into()])),
        ("i64", Type::I64, int(&[5_000_000_000, 0, -1, i64::MIN, i64::MAX])),
        ("u8", Type::U8, uint(&[200, 0, u8::MAX.into()])),
        ("u16", Type::U16, uint(&[50_000, 0, u16::MAX.into()])),
        ("u32", Type::U32, uint(&[3_000_000_000, 0, u32::MAX.into()])),
        ("u64", Type::U64, uint(&[1 << 63, 0, u64::MAX])),
        ("f32", Type::F32, f32s.map(Value::F32).to_vec()),
        ("f64", Type::F64, f64s.map(Value::F64).to_vec()),
        ("decimal4", small, smalls),
        ("decimal8", middle, middles),
        ("decimal16", large, larges),
        ("date", Type::Date, dates.to_vec()),
        ("timestamp", Type::Timestamp, times.to_vec()),
        ("string", Type::String, texts.map(Value::String).to_vec()),
        ("binary", Type::Binary, bytes.map(Value::Binary).to_vec()),
    ]
}

/// The plain value of every type, and then rows in which one column has each of its other values.
fn one_at_a_time() -> Vec<Row> {
    let values = values();
    let plain: Row = values.iter().map(|(_, _, values)| values[0]).collect();
    let mut rows = vec![plain.clone()];
    for (at, (_, _, values)) in values.iter().enumerate() {
        rows.extend(values[1..].iter().map(|value| {
            let mut row = plain.clone();
            row[at] = *value;
            row
        }));
    }
    rows
}

/// Every type as key column, ascending and descending, and as value column, nullable and not; nulls in each.
fn types() -> Written {
    let mut writer = Writer::begin(|options| options.compression = Compression::None);
    let of_kind = |kind: Kind| values().into_iter().map(move |(name, ty, _)| column(name, ty, kind));
    for (table, kind) in [("keys", Kind::Key), ("keys descending", Kind::KeyDescending)] {
        let mut columns: Vec<Column> = of_kind(kind).collect();
        columns.push(column("number", Type::U32, Kind::Plain));
        writer.create(table, &columns);
        let rows = one_at_a_time().into_iter().enumerate().map(|(number, mut row)| {
            row.push(integer(number));
            Change::Put(table, row)
        });
        writer.batch(Durability::Buffered, rows.collect());
    }
    // A string that is the last column of a key is written raw if it ascends.
    for (table, ty, at) in [("last string", Type::String, 16), ("last binary", Type::Binary, 17)] {
        writer.create(table, &[column("n", Type::U8, Kind::Key), column("last", ty, Kind::Key)]);
        let rows =
            values()[at].2.iter().map(|value| Change::Put(table, vec![Value::UInt(1), *value])).collect();
        writer.batch(Durability::Buffered, rows);
    }
    for (table, kind) in [("values", Kind::Plain), ("nullable values", Kind::Nullable)] {
        let mut columns = vec![column("number", Type::U32, Kind::Key)];
        columns.extend(of_kind(kind));
        writer.create(table, &columns);
        let mut rows = one_at_a_time();
        if kind == Kind::Nullable {
            let plain = rows[0].clone();
            rows.push(vec![Value::Null; plain.len()]);
            for at in 0..plain.len() {
                let mut row = plain.clone();
                row[at] = Value::Null;
                rows.push(row);
            }
        }
        let numbered = rows.into_iter().enumerate().map(|(number, mut row)| {
            row.insert(0, integer(number));
            Change::Put(table, row)
        });
        writer.batch(Durability::Buffered, numbered.collect());
    }
    writer.create(
        "plain key and value",
        &[column("key", Type::Binary, Kind::Key), column("value", Type::Binary, Kind::Plain)],
    );
    for value in &values()[17].2 {
        writer.put("plain key and value", vec![*value, *value]);
    }
    writer.flush();
    writer.close()
}

/// The largest key, a row that is larger than a block and a log segment, long names, many columns.
fn limits() -> Written {
    let mut writer = Writer::begin(|_| {});
    writer.create("keys", &[column("key", Type::String, Kind::Key), column("n", Type::U8, Kind::Plain)]);
    let longest = leak("k".repeat(65_535));
    let nearly = leak(format!("{}j", "k".repeat(65_534)));
    for (number, key) in ["", "k", longest, nearly].into_iter().enumerate() {
        writer.put("keys", vec![Value::String(key), integer(number)]);
    }
    let name = "ñ".repeat(127);
    writer.create(
        &name,
        &[
            column(&"c".repeat(255), Type::U8, Kind::Key),
            column(&"ø".repeat(127), Type::String, Kind::Nullable),
        ],
    );
    let mut columns = vec![column("id", Type::U8, Kind::Key)];
    columns.extend((0..600).map(|n| column(&format!("c{n}"), Type::U8, Kind::Nullable)));
    writer.create("wide", &columns);
    let mut row = vec![Value::UInt(1)];
    row.extend((0..600).map(|n| if n % 3 == 0 { Value::Null } else { Value::UInt(n % 256) }));
    writer.put("wide", row);
    writer.create("rows", &[column("id", Type::U8, Kind::Key), column("text", Type::String, Kind::Plain)]);
    let long = leak((0..5000).map(|n| format!("{n} ")).collect());
    writer.put("rows", vec![Value::UInt(1), Value::String(long)]);
    writer.put("rows", vec![Value::UInt(2), Value::String("")]);
    writer.flush();
    writer.put("rows", vec![Value::UInt(3), Value::String(long)]);
    writer.put("keys", vec![Value::String(longest), integer(9)]);
    writer.kill()
}

/// Columns that were added with defaults of every type, renamed and dropped, and rows of each schema, on disk and in
/// the log.
fn schemas() -> Written {
    let mut writer = Writer::begin(|_| {});
    writer.create(
        "t",
        &[
            column("id", Type::U32, Kind::Key),
            column("a", Type::String, Kind::Plain),
            column("b", Type::I64, Kind::Nullable),
            with_default("c", Type::U8, Kind::Plain, Value::UInt(7)),
        ],
    );
    let text = |number: usize| Value::String(leak(format!("written as row {number}, {number}, {number}")));
    let mut next = 0;
    let mut rows = |writer: &mut Writer, more: &[Value<'static>]| {
        for _ in 0..4 {
            let mut row = vec![integer(next), text(next), Value::Int(-5), Value::UInt(9)];
            row.extend_from_slice(more);
            writer.put("t", row);
            next += 1;
        }
    };
    rows(&mut writer, &[]);
    writer.flush();
    let added: Vec<(&str, Type, Vec<Value<'static>>)> = values();
    let defaults: Vec<Alteration> = added
        .iter()
        .enumerate()
        .map(|(at, (name, ty, values))| {
            let value = values[(values.len() - 1).min(3)];
            let kind = if at % 2 == 0 { Kind::Plain } else { Kind::Nullable };
            Alteration::Add(with_default(&format!("added {name}"), *ty, kind, value))
        })
        .collect();
    writer.alter("t", &defaults);
    writer.alter("t", &[Alteration::Add(column("null by default", Type::String, Kind::Nullable))]);
    let more: Row = added.iter().map(|(_, _, values)| values[0]).chain([Value::String("there")]).collect();
    rows(&mut writer, &more);
    writer.flush();
    writer.alter(
        "t",
        &[
            Alteration::Rename("a".into(), "alpha".into()),
            Alteration::Rename("id".into(), "number".into()),
            Alteration::Drop("added i8".into()),
        ],
    );
    writer.alter(
        "t",
        &[
            Alteration::Drop("added string".into()),
            Alteration::Add(with_default(
                "added string",
                Type::Binary,
                Kind::Plain,
                Value::Binary(b"another"),
            )),
        ],
    );
    let more: Row = more
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != 1 && *at != 16)
        .map(|(_, value)| *value)
        .chain([Value::Binary(b"new")])
        .collect();
    rows(&mut writer, &more);
    writer.alter("t", &[Alteration::Add(with_default("last", Type::F64, Kind::Plain, Value::F64(-0.0)))]);
    let more: Row = more.into_iter().chain([Value::F64(f64::INFINITY)]).collect();
    rows(&mut writer, &more);
    writer.kill()
}

fn plain_columns() -> [Column; 4] {
    [
        column("host", Type::U32, Kind::Key),
        column("metric", Type::String, Kind::Key),
        column("value", Type::I64, Kind::Nullable),
        column("note", Type::String, Kind::Nullable),
    ]
}

const METRICS: [&str; 5] = ["cpu", "disk", "memory", "network", "temperature"];

fn plain_key(number: usize) -> Row {
    vec![integer(number / METRICS.len()), Value::String(METRICS[number % METRICS.len()])]
}

fn plain_row(number: usize, round: usize) -> Row {
    let mut row = plain_key(number);
    row.push(if number % 7 == 3 { Value::Null } else { Value::Int((number * 31 + round) as i64 - 500) });
    row.push(match (number + round) % 3 {
        0 => Value::Null,
        1 => Value::String(leak(format!("note {number} of round {round}"))),
        _ => Value::String("steady steady steady steady steady"),
    });
    row
}

/// Runs over one another that were never merged: overwritten rows, deleted ones, ones that came back; nothing
/// compressed.
fn runs() -> Written {
    let mut writer = Writer::begin(|options| options.compression = Compression::None);
    writer.create("metrics", &plain_columns());
    writer.create("others", &plain_columns());
    for round in 0..3 {
        let rows = (round * 20..200 + round * 20).step_by(round + 1);
        writer
            .batch(Durability::Buffered, rows.map(|n| Change::Put("metrics", plain_row(n, round))).collect());
        for number in (round..200).step_by(9) {
            writer.delete("metrics", plain_key(number));
        }
        writer.put("others", plain_row(round, round));
        writer.flush();
    }
    writer.delete("others", plain_key(0));
    writer.flush();
    writer.put("metrics", plain_row(18, 8));
    writer.delete("metrics", plain_key(19));
    writer.kill()
}

/// Runs that were merged into several files, rows that were moved, index files and rows compressed; and a run on top.
fn compacted() -> Written {
    let mut writer = Writer::begin(|options| {
        options.index_file_bytes = 4 << 10;
        options.rowset_bytes = 4 << 10;
        options.index_block_bytes = 512;
        options.row_block_bytes = 1024;
    });
    writer.create("metrics", &plain_columns());
    for round in 0..4 {
        let rows =
            (0..900).filter(|n| n % (round + 1) == 0).map(|n| Change::Put("metrics", plain_row(n, round)));
        writer.batch(Durability::Buffered, rows.collect());
        writer.flush();
    }
    writer.batch(
        Durability::Buffered,
        (0..900).step_by(5).map(|n| Change::Delete("metrics", plain_key(n))).collect(),
    );
    writer.compact("metrics");
    writer.reopen();
    writer.batch(
        Durability::Buffered,
        (0..900).step_by(50).map(|n| Change::Put("metrics", plain_row(n, 9))).collect(),
    );
    writer.flush();
    writer.close()
}

/// A log of several segments of which nothing was flushed: batches, transactions, deletions, altered, made and dropped
/// tables.
fn log() -> Written {
    let mut writer = written_to_the_log();
    writer.put("metrics", plain_row(1, 5));
    writer.kill()
}

fn written_to_the_log() -> Writer {
    let mut writer = Writer::begin(|options| {
        options.log_segment_bytes = 4 << 10;
    });
    writer.create("metrics", &plain_columns());
    writer.create("dropped", &plain_columns());
    for number in 0..40 {
        writer.put("metrics", plain_row(number, 0));
        writer.put("dropped", plain_row(number, 0));
    }
    writer.batch(Durability::Sync, (20..140).map(|n| Change::Put("metrics", plain_row(n, 1))).collect());
    writer.drop_table("dropped");
    writer.create("made later", &plain_columns());
    writer.transaction(vec![
        Change::Put("metrics", plain_row(7, 2)),
        Change::Delete("metrics", plain_key(8)),
        Change::Put("made later", plain_row(7, 2)),
    ]);
    writer
        .alter("made later", &[Alteration::Add(with_default("more", Type::U8, Kind::Plain, Value::UInt(1)))]);
    let mut row = plain_row(8, 2);
    row.push(Value::UInt(8));
    writer.put("made later", row);
    writer.batch(
        Durability::Sync,
        vec![
            Change::Delete("metrics", plain_key(0)),
            Change::Put("metrics", plain_row(0, 3)),
            Change::Delete("metrics", plain_key(1)),
            Change::Delete("metrics", plain_key(5000)),
        ],
    );
    writer.put("metrics", plain_row(2, 4));
    writer
}

/// The same log, whose last record was written in part: it is as if that commit had never been.
fn torn() -> Written {
    let mut writer = written_to_the_log();
    let before = writer.contents_now();
    writer.put("metrics", plain_row(1, 5));
    let mut written = writer.kill();
    let last = written.files.keys().filter(|name| name.ends_with(".wal")).max_by_key(|name| {
        let number = name.trim_end_matches(".wal").parse::<u64>().expect("a number");
        let is_used = written.files[*name].iter().any(|byte| *byte != 0);
        (is_used, number)
    });
    let last = last.expect("there is a log").clone();
    let bytes = written.files.get_mut(&last).expect("just found");
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("it is used");
    // The power went before the end of the record came to the disk.
    bytes.truncate(end - 9);
    written.contents = before;
    written
}

/// A checkpoint of a database with runs and a log.
fn checkpoint() -> Written {
    let mut writer = Writer::begin(|_| {});
    writer.create("metrics", &plain_columns());
    writer.batch(Durability::Buffered, (0..60).map(|n| Change::Put("metrics", plain_row(n, 0))).collect());
    writer.flush();
    writer.batch(Durability::Buffered, (30..90).map(|n| Change::Put("metrics", plain_row(n, 1))).collect());
    writer.delete("metrics", plain_key(3));
    writer.checkpoint()
}

/// A manifest of several segments: a schema of long names, altered often.
fn manifest() -> Written {
    let mut writer = Writer::begin(|_| {});
    let mut columns = vec![column("id", Type::U32, Kind::Key)];
    columns.extend((0..70).map(|n| column(&format!("{n} {}", "n".repeat(250)), Type::U8, Kind::Nullable)));
    writer.create("t", &columns);
    let mut row = vec![Value::UInt(1)];
    row.extend((0..70).map(Value::UInt));
    writer.put("t", row.clone());
    writer.reopen();
    for number in 0..3 {
        let (from, to) = (columns[number + 1].name.clone(), format!("renamed {number}"));
        writer.alter("t", &[Alteration::Rename(from, to)]);
        row[0] = integer(number + 10);
        writer.put("t", row.clone());
    }
    writer.create("u", &[column("id", Type::U8, Kind::Key)]);
    writer.put("u", vec![Value::UInt(1)]);
    writer.flush();
    writer.kill()
}
