//! A bank: transfers between accounts by several threads at once, with a journal. No money is lost, no account goes
//! below zero, and what was told to a customer as done survives a loss of power.
//!
//! ```text
//! cargo run --example transactions [DIRECTORY]
//! ```

use nyala::{Durability, Engine, Options, Schema, Table, Transaction, Type, Version};

const ACCOUNTS: u64 = 20;
const THREADS: u64 = 4;
const TRANSFERS: u64 = 500;

struct Bank {
    engine: Engine,
    accounts: Table,
    journal: Table,
}

/// What became of a transfer that was asked for.
#[derive(Debug, PartialEq)]
enum Transfer {
    Done { number: u64 },
    NotEnoughMoney,
}

impl Bank {
    fn open(directory: &std::path::Path) -> nyala::Result<Bank> {
        let engine = Engine::open(directory, Options::default())?;
        let account = Schema::builder().key("id", Type::U64).column("cents", Type::I64).build()?;
        let entry = Schema::builder()
            .key("number", Type::U64)
            .column("from", Type::U64)
            .column("to", Type::U64)
            .column("cents", Type::I64)
            .build()?;
        let accounts = engine.open_or_create_table("accounts", account)?;
        let journal = engine.open_or_create_table("journal", entry)?;
        // Whether there are any, and their making, are one transaction: they are never made twice.
        engine.transact(|transaction| {
            if transaction.count(&accounts)? == 0 {
                for id in 0..ACCOUNTS {
                    transaction.insert(&accounts, (id, 100_000))?;
                }
            }
            Ok(())
        })?;
        Ok(Bank { engine, accounts, journal })
    }

    /// Moves money, if there is enough of it, and writes it down. Run again from the start if somebody else was quicker
    /// with one of the two accounts, or with the number in the journal.
    fn transfer(&self, from: u64, to: u64, cents: i64) -> nyala::Result<Transfer> {
        self.engine.transact(|transaction| {
            let left = self.balance(transaction, from)? - cents;
            if left < 0 {
                // Nothing is written, so that nothing has to be taken back.
                return Ok(Transfer::NotEnoughMoney);
            }
            transaction.upsert(&self.accounts, (from, left))?;
            // It sees what it has just written, also if the two are one account.
            let received = self.balance(transaction, to)? + cents;
            transaction.upsert(&self.accounts, (to, received))?;
            let last = transaction.scan(&self.journal).reverse().limit(1).rows()?.next().transpose()?;
            let number = last.map_or(Ok(0), |row| row.get::<u64>("number"))? + 1;
            transaction.insert(&self.journal, (number, from, to, cents))?;
            Ok(Transfer::Done { number })
        })
    }

    fn balance(&self, transaction: &Transaction, id: u64) -> nyala::Result<i64> {
        transaction.get(&self.accounts, (id,))?.map_or(Ok(0), |row| row.get("cents"))
    }

    /// All money, at one moment.
    fn sum(&self) -> nyala::Result<i64> {
        let mut sum = 0;
        for row in self.accounts.scan().rows()? {
            sum += row?.get::<i64>("cents")?;
        }
        Ok(sum)
    }
}

fn main() -> nyala::Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or("target/transactions".into());
    let bank = Bank::open(directory.as_ref())?;
    println!(
        "recovered to commit {}, {} transfers from before",
        bank.engine.recovered_to(),
        bank.journal.count()?
    );

    let done = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let bank = &bank;
                scope.spawn(move || {
                    let mut done = 0;
                    for round in 0..TRANSFERS {
                        let (from, to) =
                            ((thread * 7 + round * 3) % ACCOUNTS, (thread + round * 11) % ACCOUNTS);
                        let transfer = bank.transfer(from, to, (round % 97) as i64 * 100)?;
                        done += u64::from(transfer != Transfer::NotEnoughMoney);
                    }
                    nyala::Result::Ok(done)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<nyala::Result<u64>>()
    })?;

    // Before the customers are told: everything so far survives a loss of power from here on.
    let last: Version = bank.engine.last_committed();
    bank.engine.wait_durable(last)?;
    println!(
        "{done} transfers done, the last is commit {last}; all through {} are durable",
        bank.engine.last_durable()
    );
    println!("{} cents in {} accounts, as at the beginning", bank.sum()?, bank.accounts.count()?);

    // By hand: whoever reads and then writes meets a conflict if what was read has changed meanwhile.
    let mut slow = bank.engine.transaction();
    let cents = bank.balance(&slow, 0)?;
    slow.upsert(&bank.accounts, (0, cents * 101 / 100))?;
    bank.transfer(1, 0, 1)?;
    match slow.commit(Durability::Sync) {
        Ok(version) => println!("interest was paid in commit {version}"),
        Err(error) => println!("no interest was paid: {error}"),
    }
    bank.engine.close()
}
