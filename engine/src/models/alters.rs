//! Columns that come and go while batches and transactions are committed through handles from before.

use vfs::sim::PowerCut;

use super::disk::Disk;
use super::runner::check;
use super::world::{acknowledged, assert_clean, join, open, reopen, spawn, tiny};
use crate::{Durability, Engine, ErrorKind, Result, Schema, Table, Type};

const DROPPED: &[ErrorKind] = &[ErrorKind::SchemaMismatch];

fn three_columns(engine: &Engine) -> Table {
    let schema = Schema::builder().key("id", Type::U64).column("value", Type::U64).column("other", Type::U64);
    engine.create_table("t", schema.build().expect("a schema")).expect("a table")
}

/// The columns of a row that are there in the end.
fn value_and_extra(table: &Table, id: u64) -> Option<(u64, u64)> {
    let row = table.scan().columns(["value", "extra"]).range((id,)..=(id,)).first().expect("reads go on");
    row.map(|row| (row.get("value").expect("a number"), row.get("extra").expect("a number")))
}

/// Adds one to the value of row 0, through a handle that may know neither all columns nor which are gone.
fn increment(engine: &Engine, table: &Table) -> Result<()> {
    engine.transact(|transaction| {
        let row =
            transaction.scan(table).columns(["value"]).range((0u64,)..=(0,)).first()?.expect("it is there");
        transaction.update(table, (0u64,), [("value", row.get::<u64>("value")? + 1)])
    })
}

#[test]
fn what_is_committed_while_columns_come_and_go_fits_them_and_loses_nothing() {
    check(|| {
        let disk = Disk::new();
        let engine = open(&disk, tiny());
        let old = three_columns(&engine);
        old.upsert((0u64, 0u64, 0u64)).expect("healthy");
        let increments: Vec<_> = (0..2)
            .map(|_| {
                let (engine, old) = (engine.clone(), old.clone());
                spawn(move || increment(&engine, &old).expect("the column that it changes stays"))
            })
            .collect();
        let alterer = spawn({
            let old = old.clone();
            move || {
                let new = old.alter().add_column("extra", Type::U64, 5u64).apply().expect("healthy");
                new.update((0u64,)).set("extra", 9u64).apply().expect("it is there");
                new.alter().drop_column("other").apply().expect("healthy");
            }
        });
        // Whole rows, with a value for the column that goes.
        let in_a_batch = spawn({
            let old = old.clone();
            move || acknowledged(old.upsert((7u64, 7u64, 7u64)), DROPPED)
        });
        let by_hand = spawn({
            let (engine, old) = (engine.clone(), old.clone());
            move || {
                let mut transaction = engine.transaction();
                acknowledged(transaction.upsert(&old, (8u64, 8u64, 8u64)), DROPPED)
                    && acknowledged(transaction.commit(Durability::Buffered), &[ErrorKind::Conflict])
            }
        });
        let cutter = spawn({
            let disk = disk.clone();
            move || [PowerCut::lose_all(), PowerCut::keep_all()].map(|policy| disk.fs.power_cut(&policy))
        });
        let cuts = join(cutter);
        increments.into_iter().for_each(join);
        join(alterer);
        let written = [(7, join(in_a_batch)), (8, join(by_hand))];
        let end = |engine: &Engine| {
            let table = engine.existing_table("t").expect("it is there");
            assert_eq!(
                value_and_extra(&table, 0),
                Some((2, 9)),
                "two increments, and nobody's column was lost"
            );
            for (id, is_there) in written {
                assert_eq!(value_and_extra(&table, id), is_there.then_some((id, 5)), "row {id}");
            }
            assert_clean(engine);
        };
        end(&engine);
        engine.close().expect("a clean end");
        end(&reopen(&disk.fs));
        // Wherever the power goes, no row is left that the manifest does not know the columns of.
        for cut in cuts {
            let cut = reopen(&cut);
            assert_clean(&cut);
            if let Ok(table) = cut.existing_table("t") {
                assert!(table.scan().rows().expect("a scan").all(|row| row.is_ok()));
            }
        }
    });
}
