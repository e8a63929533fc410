//! Eight threads of transactions that are in one another's way: what they leave is what some order of them would have
//! left.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use nyala::{Durability, Engine, Error, ErrorKind, Schema, Table, Transaction, Type};

use crate::support::{assert_clean, effort, scratch, tiny};

const THREADS: u64 = 8;

/// A small generator (splitmix64), one for each thread.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

#[derive(Debug, Default)]
struct Outcomes {
    committed: AtomicU64,
    conflicts: AtomicU64,
}

impl Outcomes {
    /// Every transaction commits or is a conflict. Whether it committed.
    fn note<T>(&self, result: Result<T, Error>) -> Option<T> {
        match result {
            Ok(value) => {
                self.committed.fetch_add(1, Ordering::Relaxed);
                Some(value)
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                self.conflicts.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    fn assert_both(&self) {
        println!("{self:?}");
        assert!(self.committed.load(Ordering::Relaxed) > 0 && self.conflicts.load(Ordering::Relaxed) > 0);
    }
}

fn balances(engine: &Engine) -> Table {
    let schema =
        Schema::builder().key("id", Type::U64).column("cents", Type::I64).column("text", Type::String);
    engine.create_table("balances", schema.build().expect("a schema")).expect("a table")
}

fn cents(transaction: &Transaction, table: &Table, id: u64) -> Result<i64, Error> {
    transaction.get(table, (id,))?.expect("an account").get("cents")
}

/// Runs `body` in all threads, with flushes and compactions beside it.
fn run(engine: &Engine, table: &Table, body: impl Fn(u64, &mut Chance) + Sync) {
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let maintenance = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                table.flush().expect("healthy");
                table.compact().expect("healthy");
            }
        });
        let body = &body;
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || body(thread, &mut Chance(thread)))).collect();
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        over.store(true, Ordering::Relaxed);
        maintenance.join().expect("healthy");
        ended.into_iter().for_each(|ended| ended.expect("no panic"));
    });
    assert_clean(engine);
}

/// Money moves between few accounts; all of it is always there, for whoever looks, and each account has what the
/// transfers that committed left it.
#[test]
fn transfers_between_few_accounts_lose_no_money() {
    const ACCOUNTS: u64 = 6;
    let dir = scratch();
    let engine = Engine::open(dir.path(), tiny()).expect("it opens");
    let table = balances(&engine);
    for id in 0..ACCOUNTS {
        table.upsert((id, 1000, "")).expect("healthy");
    }
    let outcomes = Outcomes::default();
    let moved = std::sync::Mutex::new(BTreeMap::<u64, i64>::new());
    let padding = "x".repeat(200);
    run(&engine, &table, |thread, chance| {
        for round in 0..150 * u64::from(effort()) {
            let (from, to) = (chance.below(ACCOUNTS), chance.below(ACCOUNTS));
            let amount = chance.below(50) as i64;
            let transfer = |transaction: &mut Transaction| {
                let balance = cents(transaction, &table, from)?;
                if balance < amount || from == to {
                    return Ok(false);
                }
                let text = &padding[..(round % 200) as usize];
                transaction.upsert(&table, (from, balance - amount, text))?;
                let other = cents(transaction, &table, to)?;
                transaction.update(&table, (to,), [("cents", other + amount)])?;
                Ok(true)
            };
            let durability = if round % 40 == 7 { Durability::Sync } else { Durability::Buffered };
            if round % 2 == 0 {
                // To the end.
                let done = engine.transact_with(durability, 10_000, transfer).expect("it gets through");
                if done {
                    let mut moved = moved.lock().expect("nobody panics with it");
                    *moved.entry(from).or_default() -= amount;
                    *moved.entry(to).or_default() += amount;
                }
            } else {
                // Once.
                let mut transaction = engine.transaction();
                let is_done = transfer(&mut transaction).expect("healthy");
                if outcomes.note(transaction.commit(durability)).is_some() && is_done {
                    let mut moved = moved.lock().expect("nobody panics with it");
                    *moved.entry(from).or_default() -= amount;
                    *moved.entry(to).or_default() += amount;
                }
            }
            if thread % 2 == 0 && round % 5 == 0 {
                let transaction = engine.transaction();
                let mut sum = 0;
                for row in transaction.scan(&table).rows().expect("a scan") {
                    sum += row.expect("a row").get::<i64>("cents").expect("a number");
                }
                assert_eq!(sum, 1000 * ACCOUNTS as i64);
                transaction.commit(Durability::Buffered).expect("it has written nothing");
            }
        }
    });
    outcomes.assert_both();
    let moved = moved.into_inner().expect("nobody panicked with it");
    for id in 0..ACCOUNTS {
        let row = table.get((id,)).expect("healthy").expect("an account");
        let expected = 1000 + moved.get(&id).copied().unwrap_or(0);
        assert_eq!(row.get::<i64>("cents").expect("a number"), expected, "account {id}");
        assert!(expected >= 0, "nobody owes anything");
    }
}

/// Each looks for free places by scanning, in both directions, and takes one if there are fewer than two taken:
/// phantoms would let a third one in. And of two that must not both be off duty, one stays.
#[test]
fn neither_phantoms_nor_write_skew() {
    const ROOMS: u64 = 3;
    const PLACES: u64 = 2;
    let dir = scratch();
    let engine = Engine::open(dir.path(), tiny()).expect("it opens");
    let schema =
        Schema::builder().key("room", Type::U64).key("place", Type::U64).column("who", Type::U64).build();
    let places = engine.create_table("places", schema.expect("a schema")).expect("a table");
    let duty = balances(&engine);
    for id in 0..2 * ROOMS {
        duty.upsert((id, 1, "on duty")).expect("healthy");
    }
    let outcomes = Outcomes::default();
    run(&engine, &places, |thread, chance| {
        for round in 0..150 * u64::from(effort()) {
            let room = chance.below(ROOMS);
            let mut transaction = engine.transaction();
            let scan = transaction.scan(&places).prefix((room,));
            let scan = if chance.below(2) == 0 { scan.reverse() } else { scan };
            let taken: Vec<(u64, u64)> = scan
                .rows()
                .expect("a scan")
                .map(|row| row.and_then(|row| Ok((row.get("place")?, row.get("who")?))).expect("a row"))
                .collect();
            assert!(taken.len() as u64 <= PLACES, "room {room} has {taken:?}");
            match taken.iter().find(|(_, who)| *who == thread) {
                Some((place, _)) => transaction.delete(&places, (room, *place)).expect("it fits"),
                None if taken.len() as u64 == PLACES => {}
                // Each in a place of its own, so that no key is in two transactions.
                None => {
                    transaction.upsert(&places, (room, thread * 1_000_000 + round, thread)).expect("it fits")
                }
            }
            outcomes.note(transaction.commit(Durability::Buffered));

            let (own, other) = (2 * room + thread % 2, 2 * room + 1 - thread % 2);
            let mut transaction = engine.transaction();
            let both = [own, other].map(|id| cents(&transaction, &duty, id).expect("healthy"));
            assert!(both != [0, 0], "nobody is on duty in room {room}");
            match both {
                [1, 1] => transaction.update(&duty, (own,), [("cents", 0)]).expect("it is there"),
                [0, _] => transaction.update(&duty, (own,), [("cents", 1)]).expect("it is there"),
                _ => {}
            }
            outcomes.note(transaction.commit(Durability::Buffered));
        }
    });
    outcomes.assert_both();
    for room in 0..ROOMS {
        assert!(places.scan().prefix((room,)).count().expect("healthy") <= PLACES);
    }
}

/// Numbers that are given out by counting what is there: no two are equal, and none is left out.
#[test]
fn numbers_given_out_by_counting_have_no_gaps() {
    let dir = scratch();
    let engine = Engine::open(dir.path(), tiny()).expect("it opens");
    let table = balances(&engine);
    run(&engine, &table, |thread, _| {
        for round in 0..25 * u64::from(effort()) {
            let taken = engine.transact_with(Durability::Buffered, 10_000, |transaction| {
                let next = match (thread + round) % 3 {
                    0 => transaction.count(&table)?,
                    1 => transaction.scan(&table).columns(["id"]).rows()?.count() as u64,
                    _ => match transaction.scan(&table).reverse().limit(1).rows()?.next() {
                        Some(row) => row?.get::<u64>("id")? + 1,
                        None => 0,
                    },
                };
                transaction.upsert(&table, (next, thread as i64, ""))?;
                Ok(next)
            });
            taken.expect("it gets through");
        }
    });
    let ids: Vec<u64> = table
        .scan()
        .rows()
        .expect("a scan")
        .map(|row| row.and_then(|row| row.get("id")).expect("a row"))
        .collect();
    assert!(ids.iter().copied().eq(0..THREADS * 25 * u64::from(effort())), "{ids:?}");
}
