//! Readers: snapshots that are looked at whole, at once and again later; and iterators that take their time.

use std::time::Duration;

use nyala::Snapshot;

use crate::bank::{Found, WRITERS};
use crate::watchdog::Beat;
use crate::world::{Chance, World};

pub(crate) fn read(world: &World, chance: &mut Chance, beat: &Beat) {
    let mut last = [0; WRITERS];
    let mut held: Vec<(Snapshot, Found)> = Vec::new();
    while world.goes_on() {
        beat.doing("reading a snapshot");
        let snapshot = world.engine().snapshot();
        let found = Found::at(world, &snapshot);
        for (writer, before) in last.iter_mut().enumerate() {
            assert!(*before <= found.last(writer), "writer {writer} was seen further before");
            *before = found.last(writer);
        }
        let account =
            *found.balances.keys().nth(chance.below(found.balances.len() as u64) as usize).expect("some");
        let row =
            world.bank_of(account).get_at((account,), &snapshot).expect("reads go on").expect("an account");
        assert_eq!(
            row.get::<i64>("balance").expect("a number"),
            found.balances[&account],
            "get and scan agree"
        );
        world.did("snapshots read");

        beat.doing("scanning in reverse");
        let writer = chance.below(WRITERS as u64) as u32;
        let backwards =
            world.journal.scan().prefix((writer,)).at(&snapshot).reverse().rows().expect("a scan");
        let mut next = found.last(writer as usize);
        for row in backwards {
            assert_eq!(row.expect("a row").get::<u64>("number").expect("a number"), next);
            next -= 1;
        }
        assert_eq!(next + 1, found.journal.get(&writer).map_or(1, |range| range.0), "both directions agree");
        world.did("scans in reverse");

        held.push((snapshot, found));
        if held.len() > 4 {
            beat.doing("reading a held snapshot again");
            let (snapshot, found) = held.swap_remove(chance.below(4) as usize);
            assert_eq!(Found::at(world, &snapshot), found, "{snapshot:?} has changed");
            world.did("held snapshots read again");
        }
    }
}

/// Goes through the journal slowly, while what it reads is overwritten, flushed and merged.
pub(crate) fn walk(world: &World, chance: &mut Chance, beat: &Beat) {
    while world.goes_on() {
        beat.doing("walking");
        let mut before: Option<(u32, u64)> = None;
        for row in world.journal.scan().rows().expect("a scan") {
            let row = row.expect("a row");
            let key = (row.get("writer").expect("a number"), row.get("number").expect("a number"));
            if let Some(before) = before {
                let follows = if key.0 == before.0 { key.1 == before.1 + 1 } else { key.0 > before.0 };
                assert!(follows, "{key:?} came after {before:?}");
            }
            before = Some(key);
            if chance.below(16) == 0 {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        world.did("iterators walked");
    }
}
