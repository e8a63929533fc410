//! Every verb against everything that may be wrong with what it is asked of: the engine is closed, or open for reading
//! only; the table is dropped, or was altered since the handle was opened. Each answers with the error that says so.

use nyala::{
    Durability, Engine, Error, ErrorKind, Options, Snapshot, Table, Transaction, Type, Version, column,
};

use crate::support::{lazy, plain, plain_table, refused, scratch};

/// What the verbs are called on. The table has the row 1, and `other` is another table.
struct World {
    dir: tempfile::TempDir,
    engine: Engine,
    table: Table,
    snapshot: Snapshot,
}

impl World {
    fn new() -> World {
        let dir = scratch();
        let engine = Engine::open(dir.path().join("db"), lazy()).expect("a new database");
        let table = plain_table(&engine);
        table.upsert((1, 10, "one")).expect("it fits");
        engine.create_table("other", plain()).expect("a new table");
        World { snapshot: engine.snapshot(), dir, engine, table }
    }

    fn transact<T>(&self, run: impl FnOnce(&mut Transaction) -> Result<T, Error>) -> Result<(), Error> {
        let mut transaction = self.engine.transaction();
        run(&mut transaction)?;
        transaction.commit(Durability::Buffered).map(drop)
    }

    fn batch(
        &self,
        fill: impl FnOnce(&mut nyala::WriteBatch) -> Result<(), Error>,
    ) -> Result<Version, Error> {
        let mut batch = self.engine.batch();
        fill(&mut batch)?;
        batch.commit(Durability::Buffered)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Of {
    Engine,
    Table,
}

#[derive(Clone, Copy, PartialEq)]
enum Does {
    Read,
    Write,
}

/// What a handle from before the drop of a column may do.
#[derive(Clone, Copy, PartialEq)]
enum Old {
    /// It needs no column that is gone.
    May,
    /// It does.
    MayNot,
}

type Verb = (&'static str, Of, Does, Old, fn(&World) -> Result<(), Error>);

/// Those that fail on a sound engine would tell nothing, so each works there: in this order, too.
const VERBS: &[Verb] = {
    use Does::{Read, Write};
    use Old::{May, MayNot};
    &[
        ("open_table", Of::Engine, Read, MayNot, |w| w.engine.open_table("t", &plain()).map(drop)),
        ("existing_table", Of::Engine, Read, May, |w| w.engine.existing_table("t").map(drop)),
        ("open_or_create_table, there", Of::Engine, Read, May, |w| {
            w.engine.open_or_create_table("other", plain()).map(drop)
        }),
        ("open_or_create_table, new", Of::Engine, Write, May, |w| {
            w.engine.open_or_create_table("new", plain()).map(drop)
        }),
        ("create_table", Of::Engine, Write, May, |w| w.engine.create_table("newer", plain()).map(drop)),
        ("rename_table", Of::Engine, Write, May, |w| w.engine.rename_table("other", "named").map(drop)),
        ("rename_table to itself", Of::Engine, Write, May, |w| {
            let name = if w.engine.tables().iter().any(|name| name == "named") { "named" } else { "other" };
            w.engine.rename_table(name, name).map(drop)
        }),
        ("drop_table", Of::Engine, Write, May, |w| {
            let name = if w.engine.tables().iter().any(|name| name == "named") { "named" } else { "other" };
            w.engine.drop_table(name)
        }),
        ("sync", Of::Engine, Write, May, |w| w.engine.sync()),
        ("Engine::flush", Of::Engine, Write, May, |w| w.engine.flush()),
        ("resume", Of::Engine, Write, May, |w| w.engine.resume()),
        ("check", Of::Engine, Read, May, |w| w.engine.check().map(drop)),
        ("checkpoint", Of::Engine, Write, May, |w| {
            w.engine.checkpoint(w.dir.path().join(format!("copy of {:?}", w.engine.health()))).map(drop)
        }),
        ("an empty batch", Of::Engine, Write, May, |w| w.batch(|_| Ok(())).map(drop)),
        ("an empty transaction", Of::Engine, Read, May, |w| w.transact(|_| Ok(()))),
        ("transact", Of::Engine, Read, May, |w| w.engine.transact(|_| Ok(()))),
        ("get", Of::Table, Read, MayNot, |w| w.table.get((1,)).map(drop)),
        ("get_at", Of::Table, Read, MayNot, |w| w.table.get_at((1,), &w.snapshot).map(drop)),
        ("multi_get", Of::Table, Read, MayNot, |w| w.table.multi_get([(1,)]).map(drop)),
        ("multi_get of nothing", Of::Table, Read, MayNot, |w| w.table.multi_get([(1,); 0]).map(drop)),
        ("multi_get_at", Of::Table, Read, MayNot, |w| w.table.multi_get_at([(1,)], &w.snapshot).map(drop)),
        ("exists", Of::Table, Read, May, |w| w.table.exists((1,)).map(|found| assert!(found))),
        ("exists_at", Of::Table, Read, May, |w| {
            w.table.exists_at((1,), &w.snapshot).map(|found| assert!(found))
        }),
        ("count", Of::Table, Read, May, |w| w.table.count().map(drop)),
        ("first", Of::Table, Read, MayNot, |w| w.table.first().map(drop)),
        ("last", Of::Table, Read, MayNot, |w| w.table.last().map(drop)),
        ("rows", Of::Table, Read, MayNot, |w| w.table.scan().rows().map(drop)),
        ("rows of some columns", Of::Table, Read, May, |w| {
            w.table.scan().columns(["id", "number"]).filter(column("number").gt(1)).rows().map(drop)
        }),
        ("cursor", Of::Table, Read, MayNot, |w| w.table.scan().cursor().map(drop)),
        ("batches", Of::Table, Read, MayNot, |w| w.table.scan().batches().map(drop)),
        ("partitions", Of::Table, Read, MayNot, |w| w.table.scan().partitions(2).map(drop)),
        ("a scan at a snapshot", Of::Table, Read, May, |w| w.table.scan().at(&w.snapshot).count().map(drop)),
        ("upsert", Of::Table, Write, MayNot, |w| w.table.upsert((2, 20, "two"))),
        ("insert", Of::Table, Write, MayNot, |w| w.table.insert((3, 30, "three"))),
        ("insert_ignore", Of::Table, Write, MayNot, |w| w.table.insert_ignore((4, 40, "four")).map(drop)),
        ("insert_or_get", Of::Table, Write, MayNot, |w| w.table.insert_or_get((5, 50, "five")).map(drop)),
        ("insert_or_get, there", Of::Table, Write, MayNot, |w| w.table.insert_or_get((1, 10, "x")).map(drop)),
        ("update", Of::Table, Write, May, |w| w.table.update((1,)).set("number", 11).apply()),
        ("update_with", Of::Table, Write, MayNot, |w| w.table.update_with((1,), |_, c| c.set("number", 12))),
        ("update_with of nothing", Of::Table, Write, MayNot, |w| w.table.update_with((1,), |_, _| Ok(()))),
        ("compare_and_set", Of::Table, Write, MayNot, |w| {
            w.table.compare_and_set((6, 60, "six"), None).map(drop)
        }),
        ("compare_and_delete", Of::Table, Write, May, |w| {
            w.table.compare_and_delete((7,), Version(1)).map(drop)
        }),
        ("delete", Of::Table, Write, May, |w| w.table.delete((8,))),
        ("delete_returning", Of::Table, Write, MayNot, |w| w.table.delete_returning((9,)).map(drop)),
        ("delete_range", Of::Table, Write, May, |w| w.table.delete_range((10,)..(12,), 5).map(drop)),
        ("Table::flush", Of::Table, Write, May, |w| w.table.flush()),
        ("compact", Of::Table, Write, May, |w| w.table.compact()),
        ("alter nothing", Of::Table, Write, MayNot, |w| w.table.alter().apply().map(drop)),
        ("an upsert in a batch", Of::Table, Write, MayNot, |w| {
            w.batch(|batch| batch.upsert(&w.table, (2, 20, "two"))).map(drop)
        }),
        ("an update in a batch", Of::Table, Write, May, |w| {
            w.batch(|batch| batch.update(&w.table, (1,), [("number", 13)])).map(drop)
        }),
        ("a deletion in a batch", Of::Table, Write, May, |w| {
            w.batch(|batch| batch.delete(&w.table, (8,))).map(drop)
        }),
        ("get in a transaction", Of::Table, Read, MayNot, |w| w.transact(|t| t.get(&w.table, (1,)))),
        ("multi_get in a transaction", Of::Table, Read, MayNot, |w| {
            w.transact(|t| t.multi_get(&w.table, [(1,)]))
        }),
        ("exists in a transaction", Of::Table, Read, May, |w| w.transact(|t| t.exists(&w.table, (1,)))),
        ("count in a transaction", Of::Table, Read, May, |w| w.transact(|t| t.count(&w.table))),
        ("first in a transaction", Of::Table, Read, MayNot, |w| w.transact(|t| t.first(&w.table))),
        ("last in a transaction", Of::Table, Read, MayNot, |w| w.transact(|t| t.last(&w.table))),
        ("a scan in a transaction", Of::Table, Read, MayNot, |w| w.transact(|t| t.scan(&w.table).rows())),
        ("upsert in a transaction", Of::Table, Write, MayNot, |w| {
            w.transact(|t| t.upsert(&w.table, (2, 1, "x")))
        }),
        ("insert in a transaction", Of::Table, Write, MayNot, |w| {
            w.transact(|t| t.insert(&w.table, (13, 1, "x")))
        }),
        ("insert_ignore in a transaction", Of::Table, Write, MayNot, |w| {
            w.transact(|t| t.insert_ignore(&w.table, (14, 1, "x")))
        }),
        ("update in a transaction", Of::Table, Write, May, |w| {
            w.transact(|t| t.update(&w.table, (1,), [("number", 14)]))
        }),
        ("delete in a transaction", Of::Table, Write, May, |w| w.transact(|t| t.delete(&w.table, (8,)))),
        // Last: the handle is an old one afterwards.
        ("alter", Of::Table, Write, MayNot, |w| {
            w.table.alter().add_column("more", Type::U8, 0).apply().map(drop)
        }),
    ]
};

/// Calls every verb, and holds what comes of it against `expected`.
fn call_all(world: &World, state: &str, expected: impl Fn(&Verb) -> Option<ErrorKind>) {
    for verb in VERBS {
        let found = (verb.4)(world).err().map(|error| error.kind());
        assert_eq!(found, expected(verb), "{} where {state}", verb.0);
    }
}

#[test]
fn all_verbs_work_on_a_sound_engine() {
    call_all(&World::new(), "all is well", |_| None);
}

#[test]
fn every_call_on_a_closed_engine_says_that_it_is_closed() {
    let world = World::new();
    let mut before = world.engine.batch();
    before.upsert(&world.table, (2, 20, "two")).expect("it fits");
    let mut transaction = world.engine.transaction();
    transaction.upsert(&world.table, (2, 20, "two")).expect("it fits");
    let last = world.engine.last_committed();
    world.engine.close().expect("it closes");
    call_all(&world, "the engine is closed", |_| Some(ErrorKind::Closed));
    refused(before.commit(Durability::Sync), ErrorKind::Closed, &[]);
    refused(transaction.commit(Durability::Sync), ErrorKind::Closed, &[]);
    // Wrong arguments do not hide it.
    refused(world.engine.create_table("", plain()), ErrorKind::Closed, &[]);
    refused(world.table.alter().drop_column("none").apply(), ErrorKind::Closed, &[]);
    refused(world.table.delete_range((1,)..(2,), 0), ErrorKind::Closed, &[]);
    // What asks nothing of the disk is answered.
    world.engine.wait_durable(last).expect("the close has synced it");
    assert_eq!((world.engine.last_committed(), world.engine.last_durable()), (last, last));
    assert!(!world.engine.health().is_healthy());
    world.engine.close().expect("it is closed");
}

#[test]
fn every_write_to_an_engine_that_reads_only_says_so_and_every_read_works() {
    let World { dir, engine, .. } = World::new();
    engine.close().expect("it closes");
    let engine = Engine::open_read_only(dir.path().join("db"), Options::default()).expect("it opens");
    let table = engine.existing_table("t").expect("it is there");
    let world = World { snapshot: engine.snapshot(), dir, engine, table };
    call_all(&world, "the engine reads only", |(_, _, does, ..)| {
        (*does == Does::Write).then_some(ErrorKind::ReadOnly)
    });
}

#[test]
fn every_verb_of_a_dropped_table_says_that_there_is_none() {
    let world = World::new();
    world.engine.drop_table("t").expect("it is there");
    // Another one of the same name is another one.
    plain_table(&world.engine);
    call_all(&world, "the table was dropped", |(_, of, ..)| {
        (*of == Of::Table).then_some(ErrorKind::NoSuchTable)
    });
}

#[test]
fn a_handle_from_before_a_drop_of_a_column_is_refused_what_needs_it() {
    let world = World::new();
    world.table.alter().drop_column("text").apply().expect("legal");
    call_all(&world, "a column was dropped", |(.., old, _)| {
        (*old == Old::MayNot).then_some(ErrorKind::SchemaMismatch)
    });
}

/// A handle from before a change of the name is one of the same table.
#[test]
fn all_verbs_work_on_a_handle_from_before_a_change_of_the_name() {
    let world = World::new();
    world.engine.rename_table("t", "renamed").expect("it is there");
    // It has the name that some verbs look for.
    plain_table(&world.engine);
    call_all(&world, "the table was renamed", |_| None);
    assert_eq!(world.engine.existing_table("t").expect("another").count().expect("readable"), 0);
}
