//! Writers: transfers between accounts of two tables, each a batch with a row in the journal; and keys that several
//! threads try to insert.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use nyala::{Durability, ErrorKind, Snapshot};

use crate::watchdog::Beat;
use crate::world::{Chance, World};

pub(crate) const WRITERS: usize = 3;
/// Accounts of each writer. Nobody else writes to them.
pub(crate) const ACCOUNTS: usize = 8;
pub(crate) const START: i64 = 1000;
/// How many rows of the journal a writer keeps.
const JOURNAL_ROWS: u64 = 300;

/// What a writer wrote last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    /// The number of its last batch; 0 before the first.
    pub(crate) number: u64,
    pub(crate) balances: BTreeMap<u64, i64>,
}

/// Moves money between two accounts of one writer.
pub(crate) fn transfer(world: &World, chance: &mut Chance, beat: &Beat) {
    let writer = world.become_writer();
    let first = (writer * ACCOUNTS) as u64;
    let mut written = Written::default();
    written.balances.extend((first..first + ACCOUNTS as u64).map(|account| (account, START)));
    let padding = "x".repeat(200);
    while world.goes_on() {
        let from = first + chance.below(ACCOUNTS as u64);
        let to = first + (from - first + 1 + chance.below(ACCOUNTS as u64 - 1)) % ACCOUNTS as u64;
        let amount = chance.below(100) as i64;
        let durability = if chance.below(8) == 0 { Durability::Sync } else { Durability::Buffered };
        let number = written.number + 1;
        *written.balances.get_mut(&from).expect("its own") -= amount;
        *written.balances.get_mut(&to).expect("its own") += amount;
        let mut batch = world.engine().batch();
        for account in [from, to] {
            batch.upsert(world.bank_of(account), (account, written.balances[&account])).expect("it fits");
        }
        let text = &padding[..chance.below(200) as usize];
        batch.insert(&world.journal, (writer as u32, number, text)).expect("it fits");
        if let Some(old) = number.checked_sub(JOURNAL_ROWS).filter(|&old| old > 0) {
            batch.delete(&world.journal, (writer as u32, old)).expect("it fits");
        }
        beat.doing(if durability == Durability::Sync { "a synced batch" } else { "a batch" });
        batch.commit(durability).expect("nobody else writes here");
        written.number = number;
        world.did("batches");
        if durability == Durability::Sync {
            world.synced[writer].store(number, Ordering::Release);
            world.did("synced batches");
        }
        if chance.below(4) == 0 {
            beat.doing("reading what it wrote");
            let row = world.bank_of(from).get((from,)).expect("reads go on").expect("an account");
            assert_eq!(row.get::<i64>("balance").expect("a number"), written.balances[&from]);
            assert!(world.journal.exists((writer as u32, number)).expect("reads go on"));
        }
    }
    *world.written[writer].lock().expect("nobody panics with it") = written;
}

/// Inserts keys that others want as well.
pub(crate) fn claim(world: &World, chance: &mut Chance, beat: &Beat) {
    while world.goes_on() {
        let key = world.claim_front.load(Ordering::Relaxed);
        beat.doing("a claim");
        match world.claims.insert((key, chance.below(1 << 40))) {
            Ok(()) => {
                world.claims_won.fetch_add(1, Ordering::Relaxed);
                world.did("claims won");
            }
            Err(error) if error.kind() == ErrorKind::DuplicateKey => {
                assert!(world.claims.exists((key,)).expect("reads go on"), "a duplicate of what is visible");
                world.did("claims lost");
            }
            Err(error) => panic!("{error}"),
        }
        world.claim_front.fetch_max(key + 1, Ordering::Relaxed);
    }
}

/// What is there, seen at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) balances: BTreeMap<u64, i64>,
    /// The first and last number of each writer's rows in the journal.
    pub(crate) journal: BTreeMap<u32, (u64, u64)>,
    pub(crate) claims: u64,
}

impl Found {
    pub(crate) fn of(world: &World) -> Found {
        Found::at(world, &world.engine().snapshot())
    }

    /// What a snapshot sees, after every check of it that needs no other.
    pub(crate) fn at(world: &World, snapshot: &Snapshot) -> Found {
        let mut balances = BTreeMap::new();
        for table in &world.bank {
            for row in table.scan().at(snapshot).rows().expect("a scan") {
                let row = row.expect("a row");
                balances.insert(row.get("account").expect("a number"), row.get("balance").expect("a number"));
            }
        }
        assert_eq!(balances.len(), WRITERS * ACCOUNTS, "no account is missing");
        let sum: i64 = balances.values().sum();
        assert_eq!(
            sum,
            START * (WRITERS * ACCOUNTS) as i64,
            "a transfer is whole or not there: {balances:?}"
        );
        let mut journal: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for row in world.journal.scan().columns(["writer", "number"]).at(snapshot).rows().expect("a scan") {
            let row = row.expect("a row");
            let number: u64 = row.get("number").expect("a number");
            let range = journal.entry(row.get("writer").expect("a number")).or_insert((number, number - 1));
            assert_eq!(range.1 + 1, number, "the journal has no gaps and is in order");
            range.1 = number;
        }
        for (first, last) in journal.values() {
            assert_eq!(*first, last.saturating_sub(JOURNAL_ROWS) + 1, "as many rows as are kept");
        }
        let claims = world.claims.scan().at(snapshot).count().expect("a scan");
        Found { balances, journal, claims }
    }

    pub(crate) fn last(&self, writer: usize) -> u64 {
        self.journal.get(&(writer as u32)).map_or(0, |range| range.1)
    }

    /// That nothing is missing of what the writers of `world` wrote until they ended.
    pub(crate) fn assert_is_all_of(&self, world: &World) {
        for (writer, written) in world.written.iter().enumerate() {
            let written = written.lock().expect("nobody panics with it");
            assert_eq!(self.last(writer), written.number);
            for (account, balance) in &written.balances {
                assert_eq!(self.balances[account], *balance);
            }
        }
        assert_eq!(self.claims, world.claims_won.load(Ordering::Relaxed), "each key was won once");
        assert_eq!(self.claims, world.claim_front.load(Ordering::Relaxed), "and none was left out");
    }
}
