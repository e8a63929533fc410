//! Tables that come and go, and whoever asks for flushes, compactions and checks.

use nyala::{Error, ErrorKind, Schema, Type};

use crate::watchdog::Beat;
use crate::world::{Chance, World};

/// How many names there are for all who make and drop tables.
const NAMES: u64 = 3;

/// An error that another thread's drop or creation brings about is none.
fn unless<T>(result: Result<T, Error>, kinds: &[ErrorKind]) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) if kinds.contains(&error.kind()) => None,
        Err(error) => panic!("{error}"),
    }
}

pub(crate) fn churn(world: &World, chance: &mut Chance, beat: &Beat) {
    let gone = [ErrorKind::NoSuchTable];
    let schema = || {
        let columns = Schema::builder().key("by", Type::U64).key("number", Type::U64);
        columns.column("text", Type::String).build().expect("a schema")
    };
    let me = chance.below(u64::MAX);
    let mut number = 0;
    while world.goes_on() {
        let name = format!("passing {}", chance.below(NAMES));
        beat.doing("making a table");
        // Between its look and its making another thread may come, and one more with a drop.
        let made = world.engine().open_or_create_table(&name, schema());
        let Some(table) = unless(made, &gone) else { continue };
        world.did("tables made");
        let before = table.scan().rows();
        for _ in 0..chance.below(60) {
            number += 1;
            beat.doing("writing to a passing table");
            if unless(table.upsert((me, number, "text")), &gone).is_none() {
                break;
            }
            let row = unless(table.get((me, number)), &gone);
            assert!(row.is_none_or(|row| row.is_some()), "a row that was just written is not there");
        }
        if chance.below(3) == 0 {
            beat.doing("flushing a passing table");
            unless(table.flush(), &gone);
        }
        if chance.below(6) == 0 {
            beat.doing("compacting a passing table");
            unless(table.compact(), &gone);
        }
        beat.doing("dropping a table");
        if unless(world.engine().drop_table(&name), &gone).is_some() {
            world.did("tables dropped");
        }
        // This handle is of the table that was opened above; a successor has the name perhaps.
        if let Err(error) = table.upsert((me, 0u64, "")) {
            assert_eq!(error.kind(), ErrorKind::NoSuchTable);
            for refused in [table.get((me, 0u64)).err(), table.scan().rows().err(), table.flush().err()] {
                assert_eq!(refused.expect("it is dropped").kind(), ErrorKind::NoSuchTable);
            }
            world.did("handles of dropped tables refused");
        }
        beat.doing("reading on after a drop");
        for row in before.into_iter().flatten() {
            row.expect("an iterator that runs goes on to its end");
        }
    }
}

pub(crate) fn maintain(world: &World, chance: &mut Chance, beat: &Beat) {
    let tables = [&world.bank[0], &world.bank[1], &world.journal, &world.claims];
    while world.goes_on() {
        let table = tables[chance.below(4) as usize];
        match chance.below(16) {
            0..4 => {
                beat.doing("flushing a table");
                table.flush().expect("healthy");
                world.did("flushes");
            }
            4 => {
                beat.doing("flushing all");
                world.engine().flush().expect("healthy");
            }
            5..8 => {
                beat.doing("compacting");
                table.compact().expect("healthy");
                world.did("compactions");
            }
            8 => {
                beat.doing("checking");
                world.assert_clean();
                world.did("checks");
            }
            9 => {
                beat.doing("syncing");
                world.engine().sync().expect("healthy");
            }
            _ => {
                beat.doing("asking for numbers");
                let stats = world.engine().stats();
                assert!(stats.tables.iter().any(|table| table.name == "journal"));
                std::thread::sleep(std::time::Duration::from_millis(chance.below(10)));
            }
        }
    }
}
