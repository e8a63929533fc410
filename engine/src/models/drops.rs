//! Tables that come and go while others work on them.

use std::path::PathBuf;

use super::disk::Disk;
use super::runner::check;
use super::world::{acknowledged, assert_clean, get, join, open, reopen, rows, spawn, table, tiny};
use crate::{ErrorKind, Type};

#[test]
fn a_table_dropped_under_writes_flushes_and_compactions_leaves_nothing_and_takes_nothing_along() {
    check(|| {
        let disk = Disk::new();
        let engine = open(&disk, tiny());
        let (doomed, other) = (table(&engine, "t"), table(&engine, "other"));
        for value in 1..=2u64 {
            doomed.upsert((0u64, value)).expect("healthy");
            doomed.flush().expect("healthy");
        }
        other.upsert((0u64, 1u64)).expect("healthy");
        let gone = [ErrorKind::NoSuchTable];
        let writer = spawn({
            let (engine, doomed, other) = (engine.clone(), doomed.clone(), other.clone());
            move || {
                acknowledged(doomed.upsert((0u64, 3u64)), &gone);
                let mut batch = engine.batch();
                batch.upsert(&other, (1u64, 1u64)).expect("it fits");
                if batch.upsert(&doomed, (1u64, 1u64)).is_ok() {
                    return acknowledged(batch.commit(crate::Durability::Buffered), &gone);
                }
                false
            }
        });
        let flusher = spawn({
            let (engine, doomed) = (engine.clone(), doomed.clone());
            move || {
                engine.flush().expect("healthy");
                acknowledged(doomed.compact(), &gone);
            }
        });
        let reader = spawn({
            let doomed = doomed.clone();
            move || match doomed.get((0u64,)) {
                Ok(row) => {
                    let value: u64 =
                        row.expect("a key of a table that is there").get("value").expect("a number");
                    assert!(value >= 2);
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::NoSuchTable),
            }
        });
        let dropper = spawn({
            let engine = engine.clone();
            move || {
                engine.drop_table("t").expect("it is there");
                let next = table(&engine, "t");
                assert_eq!(rows(&next), [], "a successor begins empty");
                next.upsert((5u64, 5u64)).expect("healthy");
                next.flush().expect("healthy");
            }
        });
        let killer = spawn({
            let (disk, other) = (disk.clone(), other.clone());
            move || {
                let seen = get(&other, 1);
                (seen, disk.fs.fork())
            }
        });
        let both_written = join(writer);
        [flusher, reader, dropper].into_iter().for_each(join);
        let (seen, killed) = join(killer);
        assert_eq!(doomed.get((0u64,)).expect_err("it is gone").kind(), ErrorKind::NoSuchTable);
        assert_eq!(get(&other, 1), both_written.then_some(1), "a batch over both tables is whole or refused");
        assert_eq!(rows(&table(&engine, "t")), [(5, 5)]);
        assert_clean(&engine);
        let counted: usize =
            engine.core().catalog.all().iter().map(|table| table.tablet.memory().bytes).sum();
        assert_eq!(engine.core().stall.used(), counted, "what a dropped table held is given back");
        drop(doomed);
        engine.close().expect("a clean end");
        drop((engine, other));

        let left = disk.fs.paths();
        let is_of_tables =
            |path: &&PathBuf| path.extension().is_some_and(|kind| kind == "idx" || kind == "row");
        let files = left.iter().filter(is_of_tables).count() as u64;
        let engine = reopen(&disk.fs);
        assert_eq!(rows(&table(&engine, "t")), [(5, 5)]);
        assert_eq!(get(&table(&engine, "other"), 0), Some(1));
        let report = assert_clean(&engine);
        assert_eq!(report.index_files + report.rowsets, files, "no file was left behind: {left:?}");
        drop(engine);

        // A kill at any moment: the table is there, or its successor is, or none; and all of it can be read.
        let engine = reopen(&killed);
        assert!(get(&table(&engine, "other"), 1) >= seen, "a batch that was visible");
        let doomed = table(&engine, "t");
        assert!(get(&doomed, 0).is_none_or(|value| value >= 2), "not a part of the table");
        assert_clean(&engine);
    });
}

/// By its name a table is dropped or renamed, and not both; by its handles it is one table throughout.
#[test]
fn a_table_that_is_renamed_and_dropped_at_once_is_one_of_the_two_and_whole() {
    check(|| {
        let disk = Disk::new();
        let engine = open(&disk, tiny());
        let old = table(&engine, "t");
        old.upsert((0u64, 1u64)).expect("healthy");
        let gone = [ErrorKind::NoSuchTable];
        let renamer = spawn({
            let engine = engine.clone();
            move || acknowledged(engine.rename_table("t", "u"), &gone)
        });
        let dropper = spawn({
            let engine = engine.clone();
            move || acknowledged(engine.drop_table("t"), &gone)
        });
        let alterer = spawn({
            let old = old.clone();
            move || acknowledged(old.alter().add_column("extra", Type::U64, 5u64).apply(), &gone)
        });
        let writer = spawn({
            let old = old.clone();
            move || acknowledged(old.upsert((1u64, 1u64)), &gone)
        });
        let killer = spawn({
            let disk = disk.clone();
            move || disk.fs.fork()
        });
        let (renamed, dropped) = (join(renamer), join(dropper));
        let (altered, written) = (join(alterer), join(writer));
        let killed = join(killer);
        assert_ne!(renamed, dropped);
        let end = |engine: &crate::Engine| {
            assert_eq!(engine.tables(), if renamed { vec!["u"] } else { vec![] });
            if renamed {
                let table = engine.existing_table("u").expect("it is there");
                assert!(altered && written, "its handles know no other end than a drop");
                assert_eq!((get(&table, 0), get(&table, 1)), (Some(1), Some(1)));
                assert_eq!(table.schema().columns().len(), 3, "neither change takes back the other");
            }
            assert_clean(engine);
        };
        end(&engine);
        drop(old);
        engine.close().expect("a clean end");
        end(&reopen(&disk.fs));
        let killed = reopen(&killed);
        assert!(killed.tables().len() <= 1 && (renamed || !killed.tables().contains(&"u".to_owned())));
        assert_clean(&killed);
    });
}
