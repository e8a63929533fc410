//! Handles, scans, snapshots and batches from before a change; and random changes against a model of columns.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use nyala::{Column, Durability, Engine, ErrorKind, Row, Schema, Table, Type, Value};

use super::printed;
use crate::support::{assert_clean, lazy, plain_table, refused, scratch, tiny};

#[test]
fn an_old_handle_reads_and_writes_as_if_nothing_was_added_or_renamed() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("a new database");
    let old = plain_table(&engine);
    old.upsert((1, 10, "a")).expect("it fits");
    let new = old
        .alter()
        .rename_column("number", "reading")
        .add_column("unit", Type::String, "none")
        .apply()
        .expect("legal");
    new.upsert((2, 20, "b", "volt")).expect("it fits");
    assert_eq!(
        printed(&old),
        [r#"(id: 1, number: 10, text: "a")"#, r#"(id: 2, number: 20, text: "b")"#],
        "its names and its columns, of rows of either schema"
    );
    old.upsert((3, 30, "c")).expect("it fits");
    assert_eq!(printed(&new)[2], r#"(id: 3, reading: 30, text: "c", unit: "none")"#);

    // An update changes what it names, and loses nothing that its handle does not know of.
    old.update((2,)).set("number", 21).apply().expect("it is there");
    assert_eq!(printed(&new)[1], r#"(id: 2, reading: 21, text: "b", unit: "volt")"#);
    let mut batch = engine.batch();
    batch.upsert(&new, (4, 40, "d", "ohm")).expect("it fits");
    batch.update(&old, (4,), [("number", 41)]).expect("a column");
    batch.update(&new, (4,), [("unit", "watt")]).expect("a column");
    batch.upsert(&old, (5, 50, None::<&str>)).expect("it fits");
    batch.commit(Durability::Sync).expect("both handles in one batch");
    assert_eq!(
        printed(&new)[3..],
        [
            r#"(id: 4, reading: 41, text: "d", unit: "watt")"#,
            r#"(id: 5, reading: 50, text: null, unit: "none")"#
        ]
    );
    assert!(old.delete((5,)).is_ok() && !new.exists((5,)).expect("readable"));
    assert_clean(&engine);
}

#[test]
fn an_old_handle_is_refused_only_what_needs_a_dropped_column() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("a new database");
    let old = plain_table(&engine);
    old.upsert((1, 10, "a")).expect("it fits");
    let snapshot = engine.snapshot();
    let (mut running, from_snapshot) = (old.scan().rows().expect("a scan"), old.scan().at(&snapshot));
    let mut built = engine.batch();
    built.upsert(&old, (7, 70, "x")).expect("it fits");
    let mut harmless = engine.batch();
    harmless.update(&old, (1,), [("number", 11)]).expect("a column");
    harmless.delete(&old, (8,)).expect("a key");
    let update = old.update((1,)).set("text", "changed");

    let new = old.alter().drop_column("text").apply().expect("legal");
    let gone = ErrorKind::SchemaMismatch;
    let names = &["\"text\"", "dropped", "open it again"];
    refused(old.upsert((2, 20, "b")), gone, names);
    refused(old.insert((2, 20, "b")), gone, names);
    refused(old.insert_ignore((1, 20, "b")), gone, names);
    refused(old.get((1,)), gone, names);
    refused(old.multi_get([(1,)]), gone, names);
    refused(old.scan().rows(), gone, names);
    refused(old.scan().filter(nyala::column("text").is_null()).count(), gone, names);
    refused(from_snapshot.rows(), gone, names);
    refused(update.apply(), gone, names);
    refused(built.commit(Durability::Buffered), gone, names);
    assert_eq!(built.len(), 1, "a batch that was refused keeps its operations");
    // A scan that runs sees what it began with.
    assert_eq!(
        running.next().expect("a row").expect("readable").to_string(),
        r#"(id: 1, number: 10, text: "a")"#
    );
    assert!(running.next().is_none());
    // Everything else goes on.
    harmless.commit(Durability::Sync).expect("it needs no dropped column");
    old.update((1,)).set("number", 12).apply().expect("it needs no dropped column");
    let some = old.scan().columns(["id", "number"]).rows().expect("a scan");
    let some: Vec<_> = some.map(|row| row.expect("a row").to_string()).collect();
    assert_eq!(some, ["(id: 1, number: 12)"]);
    assert!(old.exists((1,)).expect("readable") && old.count().expect("readable") == 1);
    old.delete((1,)).expect("a key is a key");
    assert_eq!(new.count().expect("readable"), 0);
    // A column that came and went in between is none of the old handle's.
    let old = engine.existing_table("t").expect("it is there");
    let between = new.alter().add_column("x", Type::I64, 1).apply().expect("legal");
    between.alter().drop_column("x").apply().expect("legal");
    old.upsert((5, 50)).expect("all its columns are there");
    assert_eq!(printed(&old), ["(id: 5, number: 50)"]);
    refused(between.upsert((6, 60, 1)), gone, &["\"x\""]);
    assert_clean(&engine);
}

/// What rows without a column hold in it, by the column's id.
type Defaults = BTreeMap<u32, Option<i64>>;

/// Many changes, with all the handles that there ever were, against a map from keys to columns by id.
#[test]
fn whatever_changes_rows_read_as_a_model_of_columns_says() {
    for seed in 0..12 {
        let dir = scratch();
        let options = if seed % 2 == 0 { tiny() } else { lazy() };
        let mut engine = Engine::open(dir.path(), options.clone()).expect("a new database");
        let mut draw = Draw(seed * 7919 + 1);
        let mut handles = vec![plain_less(&engine)];
        let mut columns = Defaults::from([(2, None)]);
        let mut rows: BTreeMap<u64, BTreeMap<u32, Option<i64>>> = BTreeMap::new();
        for step in 0..400 {
            let table = handles[draw.below(handles.len() as u64) as usize].clone();
            let live = |column: &&Column| columns.contains_key(&column.id.0);
            let values = || table.schema().columns()[1..].iter();
            let is_whole = values().all(|column| live(&column));
            let key = draw.below(40);
            match draw.below(20) {
                0..8 => {
                    let given: Vec<Option<i64>> =
                        values().map(|column| draw.value(column.nullable)).collect();
                    let mut record = vec![Value::UInt(key)];
                    record.extend(given.iter().map(|value| value.map_or(Value::Null, Value::Int)));
                    let written = table.upsert(record);
                    if is_whole {
                        written.expect("all its columns are there");
                        let mut row = columns.clone();
                        row.extend(values().map(|column| column.id.0).zip(given));
                        rows.insert(key, row);
                    } else {
                        refused(written, ErrorKind::SchemaMismatch, &["dropped"]);
                    }
                }
                8..11 => {
                    let Some(column) = values().nth(draw.below(values().count().max(1) as u64) as usize)
                    else {
                        continue;
                    };
                    let value = draw.value(column.nullable);
                    let changed = table.update((key,)).set(&column.name, value).apply();
                    match rows.get_mut(&key) {
                        None => assert_eq!(changed.expect_err("no row").kind(), ErrorKind::MissingRow),
                        Some(_) if !live(&column) => {
                            refused(changed, ErrorKind::SchemaMismatch, &["dropped"])
                        }
                        Some(row) => {
                            changed.expect("it is there");
                            row.insert(column.id.0, value);
                        }
                    }
                }
                11 => {
                    table.delete((key,)).expect("a key is a key");
                    rows.remove(&key);
                }
                12 => engine.flush().expect("a good disk"),
                13 => table.compact().expect("a good disk"),
                14 | 15 => {
                    let newest = handles.last().expect("there is one").clone();
                    let alter = newest.alter();
                    let names: Vec<&Column> = newest.schema().columns()[1..].iter().collect();
                    let altered = match draw.below(3) {
                        0 if !names.is_empty() => {
                            let gone = names[draw.below(names.len() as u64) as usize];
                            columns.remove(&gone.id.0);
                            for row in rows.values_mut() {
                                row.remove(&gone.id.0);
                            }
                            alter.drop_column(&*gone.name)
                        }
                        1 if !names.is_empty() => {
                            let other = names[draw.below(names.len() as u64) as usize];
                            alter.rename_column(&*other.name, format!("renamed {step}"))
                        }
                        _ => {
                            let nullable = draw.below(2) == 0;
                            let default = draw.value(nullable);
                            let ty = if nullable { Type::I64.nullable() } else { Type::I64.into() };
                            alter.add_column(format!("added {step}"), ty, default)
                        }
                    };
                    let altered = altered.apply().expect("legal");
                    for column in &altered.schema().columns()[1..] {
                        if let std::collections::btree_map::Entry::Vacant(vacant) = columns.entry(column.id.0)
                        {
                            let default = match column.default_value() {
                                Some(Value::Int(default)) => Some(default),
                                None => None,
                                other => panic!("no default of ours: {other:?}"),
                            };
                            vacant.insert(default);
                            for row in rows.values_mut() {
                                row.insert(column.id.0, default);
                            }
                        }
                    }
                    handles.push(altered);
                }
                16 if step % 5 == 0 => {
                    let newest = handles.last().expect("there is one").schema().clone();
                    handles.clear();
                    engine.close().expect("a good disk");
                    engine = Engine::open(dir.path(), options.clone()).expect("a good database");
                    handles.push(engine.open_table("t", &newest).expect("it is there"));
                }
                _ => compare(&table, &rows, &columns),
            }
        }
        for table in &handles {
            compare(table, &rows, &columns);
        }
        assert_clean(&engine);
    }
}

fn plain_less(engine: &Engine) -> Table {
    let schema =
        nyala::Schema::builder().key("id", Type::U64).column("first", Type::I64).build().expect("valid");
    engine.create_table("t", schema).expect("a new table")
}

/// What a handle shows is what the model has of its columns, by scan and by get.
fn compare(table: &Table, rows: &BTreeMap<u64, BTreeMap<u32, Option<i64>>>, columns: &Defaults) {
    let schema = table.schema();
    let live: Vec<&Column> =
        schema.columns()[1..].iter().filter(|column| columns.contains_key(&column.id.0)).collect();
    let names = ["id"].into_iter().chain(live.iter().map(|column| &*column.name));
    let found = table.scan().columns(names).rows().expect("columns that are there");
    let found: Vec<Vec<String>> = found
        .map(|row| {
            row.expect("a row").to_values().expect("readable").iter().map(ToString::to_string).collect()
        })
        .collect();
    let expected: Vec<Vec<String>> = rows
        .iter()
        .map(|(key, row)| {
            let value =
                |column: &&Column| row[&column.id.0].map_or("null".to_owned(), |value| value.to_string());
            std::iter::once(key.to_string()).chain(live.iter().map(value)).collect()
        })
        .collect();
    assert_eq!(found, expected, "through {schema:?}");
    if live.len() + 1 == schema.columns().len() {
        for (key, expected) in rows.keys().zip(&expected) {
            let row = table.get((*key,)).expect("readable").expect("it is there");
            let row: Vec<String> =
                row.to_values().expect("readable").iter().map(ToString::to_string).collect();
            assert_eq!(&row, expected, "through {schema:?}");
        }
    }
}

/// Numbers that follow from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn value(&mut self, nullable: bool) -> Option<i64> {
        if nullable && self.below(3) == 0 { None } else { Some(self.below(1000).cast_signed()) }
    }
}

/// Writers with old handles and new ones while columns come and go: no row is torn, none reads as another schema's.
#[test]
fn writers_go_on_while_columns_change() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), tiny()).expect("a new database");
    plain_table(&engine);
    let (stop, written) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for writer in 0..3u32 {
            let (engine, stop, written) = (&engine, &stop, &written);
            scope.spawn(move || {
                let mut table = engine.existing_table("t").expect("it is there");
                let mut next = 0;
                while !stop.load(Ordering::Relaxed) {
                    let id = writer * 1_000_000 + next;
                    // Of every column that is a number, the id.
                    let mut row = table.schema().row();
                    for column in table.schema().columns() {
                        if column.ty != Type::String {
                            row.assign(&column.name, id).expect("a number");
                        }
                    }
                    match table.upsert(&row) {
                        Ok(()) => {
                            next += 1;
                            written.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
                            drop(row);
                            table = engine.existing_table("t").expect("it is there");
                        }
                    }
                }
            });
        }
        let mut seen = 0;
        for change in 0..30u32 {
            let table = engine.existing_table("t").expect("it is there");
            let altered = match change % 3 {
                0 => table.alter().add_column("later", Type::I64.nullable(), None::<i64>),
                1 => table.alter().rename_column("number", format!("number {change}")),
                _ => {
                    let name = format!("number {}", change - 1);
                    table.alter().drop_column("later").rename_column(name, "number")
                }
            };
            let altered = altered.apply().expect("nobody else alters");
            while written.load(Ordering::Relaxed) < seen + 20 {
                std::thread::yield_now();
            }
            seen = written.load(Ordering::Relaxed);
            let number = altered.schema().columns()[1].name.clone();
            for row in altered.scan().rows().expect("a scan") {
                let row = row.expect("a row");
                assert_eq!(row.get::<i64>("id").ok(), row.get::<i64>(&*number).ok(), "{row}");
                if let Ok(later) = row.get::<Option<i64>>("later") {
                    assert!(later.is_none() || later == row.get("id").ok(), "{row}");
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_clean(&engine);
}

#[test]
fn transactions_follow_the_same_rules() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("a new database");
    let old = plain_table(&engine);
    old.upsert((1, 10, "a")).expect("it fits");
    let before = engine.transaction();
    let new = old.alter().add_column("unit", Type::String, "none").apply().expect("legal");
    new.upsert((2, 20, "b", "volt")).expect("it fits");
    let row = before.get(&new, (1,)).expect("readable").expect("it was there");
    assert_eq!(row.to_string(), r#"(id: 1, number: 10, text: "a", unit: "none")"#);
    drop(before);

    let mut transaction = engine.transaction();
    transaction.update(&old, (2,), [("number", 21)]).expect("it is there");
    transaction.update(&old, (1,), [("number", 11)]).expect("it is there");
    transaction.update(&new, (1,), [("unit", "ohm")]).expect("it is there");
    transaction.upsert(&old, (3, 30, "c")).expect("it fits");
    let seen: Vec<_> =
        transaction.scan(&new).rows().expect("a scan").map(|row| row.expect("a row").to_string()).collect();
    assert_eq!(seen[0], r#"(id: 1, number: 11, text: "a", unit: "ohm")"#);
    transaction.commit(Durability::Sync).expect("nobody else wrote");
    assert_eq!(printed(&new), seen);
    assert_eq!(
        seen[1..],
        [
            r#"(id: 2, number: 21, text: "b", unit: "volt")"#,
            r#"(id: 3, number: 30, text: "c", unit: "none")"#
        ]
    );

    let mut written = engine.transaction();
    written.upsert(&old, (4, 40, "d")).expect("it fits");
    // Reads through another handle must not hide what was written through this one.
    let mut both = engine.transaction();
    both.upsert(&old, (5, 50, "e")).expect("it fits");
    let newest = new.alter().drop_column("text").apply().expect("legal");
    assert!(!both.exists(&newest, (9,)).expect("readable"));
    let names = &["\"text\"", "dropped"];
    // It was right when it was written.
    refused(written.commit(Durability::Buffered), ErrorKind::Conflict, names);
    refused(both.commit(Durability::Buffered), ErrorKind::Conflict, names);
    let mut late = engine.transaction();
    refused(late.upsert(&old, (6, 60, "f")), ErrorKind::SchemaMismatch, names);
    refused(late.get(&old, (1,)), ErrorKind::SchemaMismatch, names);
    refused(late.scan(&old).rows(), ErrorKind::SchemaMismatch, names);
    late.update(&old, (1,), [("number", 12)]).expect("it needs no dropped column");
    late.delete(&old, (3,)).expect("a key is a key");
    late.commit(Durability::Sync).expect("nobody else wrote");
    assert_eq!(printed(&newest)[0], r#"(id: 1, number: 12, unit: "ohm")"#);
    assert_eq!(newest.count().expect("readable"), 2);
    assert_clean(&engine);
}

#[test]
fn rows_that_know_their_columns_are_never_written_to_others() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), lazy()).expect("a new database");
    let schema = Schema::builder().key("id", Type::U32).column("a", Type::I64).column("b", Type::I64).build();
    let old = engine.create_table("t", schema.expect("legal")).expect("a new name");
    old.upsert((1, 10, 20)).expect("it fits");

    // In another order than the table's.
    let turned = old.scan().columns(["id", "b", "a"]).first().expect("readable").expect("it is there");
    refused(old.upsert(&turned), ErrorKind::SchemaMismatch, &["\"a\"", "\"b\""]);
    refused(old.upsert(turned.as_ref()), ErrorKind::SchemaMismatch, &["\"a\""]);
    let mut batch = engine.batch();
    refused(batch.upsert(&old, &turned), ErrorKind::SchemaMismatch, &["\"a\""]);
    let mut transaction = engine.transaction();
    refused(transaction.upsert(&old, &turned), ErrorKind::SchemaMismatch, &["\"a\""]);
    let other = old.scan().columns(["a"]).first().expect("readable").expect("it is there");
    refused(old.get(&other), ErrorKind::SchemaMismatch, &["\"id\"", "\"a\""]);
    refused(old.scan().prefix(&other).count(), ErrorKind::SchemaMismatch, &["\"id\""]);
    refused(old.scan().range::<&Row>(&other..).count(), ErrorKind::SchemaMismatch, &["\"id\""]);
    // What is asked for in the table's order is a row of it, and its first column a key.
    let row = old.scan().columns(["id", "a", "b"]).first().expect("readable").expect("it is there");
    old.upsert(&row).expect("its own");
    refused(old.delete(&row), ErrorKind::InvalidArgument, &["3 values given"]);
    let key = old.scan().columns(["id"]).first().expect("readable").expect("it is there");
    assert!(old.exists(&key).expect("readable") && old.scan().prefix(&key).count().expect("readable") == 1);
    let own_key = old.schema().key().set("id", 1).expect("a key column");
    assert!(old.exists(&own_key).expect("readable"));
    // Whoever means the positions says so.
    old.upsert(turned.to_values().expect("readable")).expect("as many, and they fit");
    assert_eq!(printed(&old), ["(id: 1, a: 20, b: 10)"]);

    // Of a schema from before: as many columns, of the same types.
    let built =
        old.schema().row().set("id", 1).and_then(|row| row.set("a", 7)).and_then(|row| row.set("b", 8));
    let built = built.expect("its columns");
    let new = old.alter().drop_column("a").add_column("c", Type::I64, 0).apply().expect("legal");
    refused(new.upsert(&built), ErrorKind::SchemaMismatch, &["\"b\"", "\"a\""]);
    refused(new.upsert(&row), ErrorKind::SchemaMismatch, &["\"b\"", "\"a\""]);
    assert!(new.exists(&own_key).expect("readable"), "the key is what it was");
    assert_eq!(printed(&new), ["(id: 1, b: 10, c: 0)"]);

    // A table with the same columns, though by another key.
    let schema =
        Schema::builder().key("id", Type::U32).key("b", Type::I64).column("c", Type::I64.nullable()).build();
    let copy = engine.create_table("copy", schema.expect("legal")).expect("a new name");
    copy.upsert(new.get(1).expect("readable").expect("it is there")).expect("the same names");
    assert_eq!(printed(&copy), ["(id: 1, b: 10, c: 0)"]);
}
