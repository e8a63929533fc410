//! Point reads: answers in the order asked, empty values, and who reads no row.

use std::sync::Arc;

use encoded_key::{KeyProbe, Type};

use super::world::{Values, World, printed};
use crate::read;
use crate::row::{Projection, Row};
use crate::schema::Schema;

fn world() -> World {
    let schema = Schema::builder().key("id", Type::U32).column("text", Type::String).build();
    let mut world = World::new(schema.expect("a valid schema"));
    for id in (0..300u32).step_by(3) {
        world.put((id, format!("old {id}")));
    }
    world.flush();
    for id in (0..300u32).step_by(5) {
        world.put((id, format!("new {id}")));
    }
    world.delete((0u32,));
    world
}

fn values(row: Option<Row>) -> Option<Values> {
    row.map(|row| printed(&row.to_values().expect("no damage")))
}

#[test]
fn multi_get_answers_in_the_order_asked() {
    for flushed in [false, true] {
        let mut world = world();
        if flushed {
            world.flush();
        }
        let asked = [30u32, 7, 5, 3, 299, 5, 0, 30, 297, 10, 9];
        let keys: Vec<Vec<u8>> = asked.iter().map(|&id| world.key((id,))).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let point = world.point(world.version());
        let projection = Projection::named(&world.schema, ["text"]).expect("there is such a column");
        let rows = read::multi_get(&point, &world.reads, &projection, &keys).expect("no fault");
        let texts: Vec<Option<String>> =
            rows.into_iter().map(|row| values(row).map(|row| row[0].clone())).collect();
        let expected = asked.map(|id| match id {
            0 => None,
            id if id % 5 == 0 => Some(format!("\"new {id}\"")),
            id if id % 3 == 0 => Some(format!("\"old {id}\"")),
            _ => None,
        });
        assert_eq!(texts, expected);
    }
    let world = world();
    let all = Projection::all(&world.schema);
    let none = read::multi_get(&world.point(world.version()), &world.reads, &all, &[]).expect("no fault");
    assert!(none.is_empty());
}

#[test]
fn who_asks_for_no_value_column_reads_no_row() {
    let mut world = world();
    world.flush();
    for path in &world.row_paths {
        world.disk.damage(path, |bytes| bytes.fill(0xee)).expect("the file is there");
    }
    let point = world.point(world.version());
    let keys_only = Projection::named(&world.schema, ["id"]).expect("there is such a column");
    for (id, expected) in [(3u32, true), (4, false), (5, true), (0, false)] {
        let key = world.key((id,));
        let probe = KeyProbe::new(&key);
        assert_eq!(read::exists(&point, &probe).expect("no row is read"), expected);
        let row = read::get(&point, &world.reads, &keys_only, &probe).expect("no row is read");
        assert_eq!(values(row), expected.then(|| vec![id.to_string()]));
        let rows = read::multi_get(&point, &world.reads, &keys_only, &[&key]).expect("no row is read");
        assert_eq!(
            rows.into_iter().map(values).collect::<Vec<_>>(),
            [expected.then(|| vec![id.to_string()])]
        );
    }
    assert_eq!(world.scan().count().expect("no row is read"), 139);
    assert_eq!(super::world::scanned(world.scan().columns(["id"])).expect("no row is read").len(), 139);
    let filtered = world.scan().filter(crate::read::column("id").lt(30)).count();
    assert_eq!(filtered.expect("no row is read"), 13);
    assert!(world.get(&world.key((3u32,)), world.version()).is_err(), "but who asks for more does");
}

#[test]
fn an_empty_value_is_not_an_absent_row() {
    let schema = Schema::builder().key("key", Type::Binary).column("value", Type::Binary).build();
    let mut world = World::new(schema.expect("a valid schema"));
    world.put((&b""[..], &b""[..]));
    world.put((&b"k"[..], &b""[..]));
    for flushed in [false, true] {
        if flushed {
            world.flush();
        }
        for key in [&b""[..], b"k"] {
            let row = world.get(key, world.version()).expect("no fault").expect("the row is there");
            assert_eq!(row[1], "b\"\"");
        }
        assert_eq!(world.get(b"x", world.version()).expect("no fault"), None);
        assert_eq!(world.scan().count().expect("no fault"), 2);
        assert_eq!(super::world::scanned(world.scan()).expect("no fault").len(), 2);
    }
    let keys_only = Schema::builder().key("key", Type::U8).build().expect("a valid schema");
    let mut world = World::new(keys_only);
    world.put((7u8,));
    world.flush();
    assert_eq!(world.get(&[7], world.version()).expect("no fault"), Some(vec!["7".to_owned()]));
    assert_eq!(super::world::scanned(world.scan()).expect("no fault"), [["7"]]);
}

#[test]
fn rows_outlive_the_view_that_they_were_read_from() {
    let mut world = world();
    world.flush();
    let key = world.key((3u32,));
    let row = read::get(
        &world.point(world.version()),
        &world.reads,
        &Projection::all(&world.schema),
        &KeyProbe::new(&key),
    );
    let row = row.expect("no fault").expect("the row is there");
    let schema = Arc::clone(&world.schema);
    drop(world);
    assert_eq!(row.get::<&str>("text").expect("a string"), "old 3");
    assert_eq!(Arc::strong_count(&schema), 2, "the row holds its schema, and nothing holds more");
}
