//! Composite keys, with the newest first: the messages of each user, by conversation and time.
//!
//! ```text
//! cargo run --example inbox
//! ```

use std::ops::Bound;

use nyala::{Durability, Engine, Options, Record, Schema, Table, Timestamp, column};

/// A key sorts by its first column, then by the next: all messages of a user lie together, in them those of a
/// conversation, and of these the newest comes first. The number tells apart what was sent in the same microsecond.
#[derive(Debug, Record)]
struct Message<'a> {
    #[nyala(key)]
    user: u64,
    #[nyala(key)]
    conversation: &'a str,
    #[nyala(key, desc)]
    sent: Timestamp,
    #[nyala(key)]
    number: u32,
    text: &'a str,
    is_read: bool,
}

/// The newest messages of a conversation, up to `rows` of them, that are older than `before`: a page of a list.
fn page(
    inbox: &Table,
    (user, conversation): (u64, &str),
    before: Option<Timestamp>,
    rows: usize,
) -> nyala::Result<Vec<String>> {
    let mut scan = inbox.scan().prefix((user, conversation)).limit(rows);
    if let Some(before) = before {
        // In the order of the key what is older comes behind.
        scan = scan.range((Bound::Excluded((user, conversation, before)), Bound::Unbounded));
    }
    scan.rows()?.map(|row| Ok(row?.get::<&str>("text")?.to_owned())).collect()
}

fn main() -> nyala::Result<()> {
    let directory = tempfile::tempdir().expect("a directory for the example");
    let engine = Engine::open(directory.path(), Options::default())?;
    let inbox = engine.open_or_create_table("inbox", Schema::of::<Message>()?)?;

    let time = |second: i64| Timestamp::from_micros(1_767_225_600_000_000 + second * 1_000_000);
    let mut batch = engine.batch();
    for (user, conversation, second, number, text) in [
        (1, "family/ann", 10, 0, "dinner?"),
        (1, "family/ann", 30, 0, "at seven"),
        (1, "family/ann", 30, 1, "bring bread"),
        (1, "family/bob", 20, 0, "hello"),
        (1, "work/chris", 40, 0, "the report"),
        (2, "family/ann", 50, 0, "not for user 1"),
    ] {
        let sent = time(second);
        batch.insert(&inbox, Message { user, conversation, sent, number, text, is_read: false })?;
    }
    batch.commit(Durability::Buffered)?;

    // A prefix of the key is a range: of a user, of a conversation, or of conversations whose name begins so.
    assert_eq!(inbox.scan().prefix((1,)).count()?, 5);
    assert_eq!(inbox.scan().prefix((1, "family/ann")).count()?, 3);
    assert_eq!(inbox.scan().starts_with((1,), "family/").count()?, 4);

    // The newest first, without `reverse`: that is the order of the key.
    assert_eq!(page(&inbox, (1, "family/ann"), None, 2)?, ["at seven", "bring bread"]);
    assert_eq!(page(&inbox, (1, "family/ann"), Some(time(30)), 2)?, ["dinner?"]);

    // What a scan of a range costs is the range. A filter on another column looks at every row of it.
    inbox.update((1, "family/bob", time(20), 0)).set("is_read", true).apply()?;
    assert_eq!(inbox.scan().prefix((1,)).filter(column("is_read").eq(false)).count()?, 4);

    for row in inbox.scan().prefix((1,)).rows()? {
        let row = row?;
        let message: Message = row.to()?;
        println!("{} {} {}: {}", message.user, message.conversation, message.sent, message.text);
    }
    engine.close()
}

#[test]
fn what_it_asserts_holds() -> nyala::Result<()> {
    main()
}
