//! Conditions select the rows that they say, and wrong ones are told why.

use nyala::{Engine, Options, Schema, Type};

use super::parse;

#[test]
fn conditions_select_what_they_say() {
    let dir = tempfile::tempdir().expect("a directory");
    let engine = Engine::open(dir.path(), Options::default()).expect("a new database");
    let schema = Schema::builder()
        .key("id", Type::I32)
        .column("name", Type::String.nullable())
        .column("size of it", Type::F64)
        .build()
        .expect("a schema");
    let table = engine.create_table("t", schema.clone()).expect("a table");
    for (id, name, size) in
        [(-1, Some("it's"), 0.5), (1, Some("ab"), 1.5), (2, Some("abc"), 2.5), (3, None, 3.5)]
    {
        table.upsert((id, name, size)).expect("a row");
    }
    let found = |condition: &str| -> Vec<i32> {
        let filter = parse(condition, &schema).expect(condition);
        let rows = table.scan().filter(filter).rows().expect("a scan");
        rows.map(|row| row.expect("a row").get("id").expect("an id")).collect()
    };
    assert_eq!(found("id > 0"), [1, 2, 3]);
    assert_eq!(found("id=-1"), [-1]);
    assert_eq!(found("id <> 1 and id != 2"), [-1, 3]);
    assert_eq!(found("id < 0 or id >= 3"), [-1, 3]);
    assert_eq!(found("name IS NULL"), [3]);
    assert_eq!(found("name is not null AND not (id = 1)"), [-1, 2]);
    assert_eq!(found("name = 'it''s'"), [-1]);
    assert_eq!(found("name = ab"), [1]);
    assert_eq!(found("name starts with ab"), [1, 2]);
    assert_eq!(found("\"size of it\" between 1 and 2.5"), [1, 2]);
    assert_eq!(found("id in (1,3, 7)"), [1, 3]);
    assert_eq!(found("id not in (1,3)"), [-1, 2]);
    // Unknown stays unknown.
    assert_eq!(found("not name = 'ab'"), [-1, 2]);
    assert_eq!(found("not not name = 'ab'"), [1]);
    // `and` binds before `or`.
    assert_eq!(found("id = 1 or id = 2 and name = 'x'"), [1]);
}

#[test]
fn a_wrong_condition_is_told_why() {
    let schema = Schema::builder().key("id", Type::I32).build().expect("a schema");
    for (condition, why) in [
        ("", "it ends where a column was expected"),
        ("id", "it ends where a comparison was expected"),
        ("id =", "it ends where a value was expected"),
        ("id = x", "\"x\" is no i32"),
        ("id = 1 id", "\"id\" is too much"),
        ("(id = 1", "it ends where \")\" was expected"),
        ("no = 1", "there is no column \"no\""),
        ("id = 'x", "a ' is not closed"),
        ("id ! 1", "'!' makes no sense"),
        ("id is 1", "\"null\" expected"),
    ] {
        let error = parse(condition, &schema).expect_err(condition).to_string();
        assert!(error.contains(why), "{condition}: {error}");
    }
    let deep = format!("{}id = 1{}", "(".repeat(200), ")".repeat(200));
    parse(&deep, &schema).expect_err("too deep");
}
