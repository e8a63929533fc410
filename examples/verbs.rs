//! Verbs that read and write in one step: a counter, a queue that several take from, an edit that must not overwrite
//! another one, and a range that is deleted.

use nyala::{Engine, Options, Schema, Type};

fn main() -> nyala::Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or("target/verbs".into());
    let engine = Engine::open(&directory, Options::default())?;

    // A counter: the closure runs again if somebody else has counted meanwhile, so that no hit is lost.
    let schema = Schema::builder().key("page", Type::String).column("hits", Type::U64).build()?;
    let pages = engine.open_or_create_table("pages", schema)?;
    if let Some(there) = pages.insert_or_get(("/", 0))? {
        println!("counted before: {there}");
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let count = pages
                        .update_with(("/",), |row, change| change.set("hits", row.get::<u64>("hits")? + 1));
                    count.expect("the page is there");
                }
            });
        }
    });
    println!("now: {}", pages.get(("/",))?.expect("it was inserted"));

    // A queue: whoever gets the row back has it, and nobody else.
    let schema = Schema::builder().key("number", Type::U64).column("task", Type::String).build()?;
    let queue = engine.open_or_create_table("queue", schema)?;
    let next = queue.last()?.map_or(Ok(0), |row| row.get::<u64>("number"))? + 1;
    queue.upsert((next, "sweep"))?;
    queue.upsert((next + 1, "mop"))?;
    while let Some(first) = queue.first()? {
        if let Some(task) = queue.delete_returning((first.get::<u64>("number")?,))? {
            println!("taken: {task}");
        }
    }

    // An edit of what was read before: it is refused if somebody else was first.
    let schema = Schema::builder().key("name", Type::String).column("text", Type::String).build()?;
    let notes = engine.open_or_create_table("notes", schema)?;
    notes.upsert(("shopping", "bread"))?;
    let read = notes.get(("shopping",))?.expect("just written");
    assert!(notes.compare_and_set(("shopping", "bread, milk"), read.version())?.is_some());
    assert!(notes.compare_and_set(("shopping", "bread, eggs"), read.version())?.is_none());

    // A range, some rows at a time; and how many are left, from the index alone.
    let schema = Schema::builder().key("host", Type::U32).key("time", Type::U64).build()?;
    let events = engine.open_or_create_table("events", schema)?;
    for time in 0..1000 {
        events.upsert((17, time))?;
    }
    while events.delete_range((17, 0)..(17, 900), 250)? > 0 {}
    println!("{} events are left", events.scan().prefix((17,)).count()?);
    engine.close()
}
