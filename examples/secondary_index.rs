//! Secondary indexes: tables of one's own, written in the same batch or transaction as the rows that they lead to.
//!
//! ```text
//! cargo run --example secondary_index
//! ```

use nyala::{Durability, Engine, ErrorKind, Options, Record, Schema, Table};

#[derive(Clone, Debug, PartialEq, Record)]
struct User {
    #[nyala(key)]
    id: u64,
    email: String,
    city: Option<String>,
}

/// Leads from an address to the one user who has it.
#[derive(Record)]
struct ByEmail<'a> {
    #[nyala(key)]
    email: &'a str,
    id: u64,
}

/// Leads from a city to its users: there may be many, so the user's key is a part of the index's key.
#[derive(Record)]
struct ByCity<'a> {
    #[nyala(key)]
    city: &'a str,
    #[nyala(key)]
    id: u64,
}

struct Users {
    engine: Engine,
    rows: Table,
    by_email: Table,
    by_city: Table,
}

impl Users {
    fn open(directory: &std::path::Path) -> nyala::Result<Users> {
        let engine = Engine::open(directory, Options::default())?;
        let rows = engine.open_or_create_table("users", Schema::of::<User>()?)?;
        let by_email = engine.open_or_create_table("users_by_email", Schema::of::<ByEmail>()?)?;
        let by_city = engine.open_or_create_table("users_by_city", Schema::of::<ByCity>()?)?;
        Ok(Users { engine, rows, by_email, by_city })
    }

    /// A user who is new: one batch, all of it or nothing. `DuplicateKey` if the id or the address is taken.
    fn add(&self, user: &User) -> nyala::Result<()> {
        let mut batch = self.engine.batch();
        batch.insert(&self.rows, user)?;
        batch.insert(&self.by_email, ByEmail { email: &user.email, id: user.id })?;
        if let Some(city) = &user.city {
            batch.upsert(&self.by_city, ByCity { city, id: user.id })?;
        }
        batch.commit(Durability::Buffered)?;
        Ok(())
    }

    /// Puts a user in the place of what is there. What the old row led to has to go, so it is read first; that makes it
    /// a transaction.
    fn put(&self, user: &User) -> nyala::Result<()> {
        self.engine.transact(|transaction| {
            if let Some(row) = transaction.get(&self.rows, (user.id,))? {
                let old: User = row.to()?;
                transaction.delete(&self.by_email, (&old.email,))?;
                if let Some(city) = &old.city {
                    transaction.delete(&self.by_city, ByCity { city, id: old.id })?;
                }
            }
            transaction.upsert(&self.rows, user)?;
            // It sees the deletion above, so keeping one's own address is fine.
            transaction.insert(&self.by_email, ByEmail { email: &user.email, id: user.id })?;
            if let Some(city) = &user.city {
                transaction.upsert(&self.by_city, ByCity { city, id: user.id })?;
            }
            Ok(())
        })
    }

    /// The user with this address. Both reads are of one moment.
    fn with_email(&self, email: &str) -> nyala::Result<Option<User>> {
        let now = self.engine.snapshot();
        let Some(entry) = self.by_email.get_at((email,), &now)? else { return Ok(None) };
        self.rows.get_at((entry.get::<u64>("id")?,), &now)?.map(|row| row.to()).transpose()
    }

    /// The users of a city, by id. The keys come from the index alone, the rows in one read that shares its work.
    fn in_city(&self, city: &str) -> nyala::Result<Vec<User>> {
        let now = self.engine.snapshot();
        let entries = self.by_city.scan().prefix((city,)).columns(["id"]).at(&now).rows()?;
        let ids = entries.map(|entry| Ok((entry?.get::<u64>("id")?,))).collect::<nyala::Result<Vec<_>>>()?;
        self.rows.multi_get_at(ids, &now)?.into_iter().flatten().map(|row| row.to()).collect()
    }
}

fn main() -> nyala::Result<()> {
    let directory = tempfile::tempdir().expect("a directory for the example");
    let users = Users::open(directory.path())?;
    let user =
        |id, email: &str, city: Option<&str>| User { id, email: email.into(), city: city.map(Into::into) };
    let (ada, bert) = (user(1, "ada@example.org", Some("Turin")), user(2, "bert@example.org", Some("Turin")));
    users.add(&ada)?;
    users.add(&bert)?;
    users.add(&user(3, "cleo@example.org", None))?;

    // An address that is taken: nothing of the batch is written.
    let error = users.add(&user(4, "ada@example.org", Some("Lima"))).expect_err("the address is taken");
    assert_eq!(error.kind(), ErrorKind::DuplicateKey);
    assert!(users.rows.get((4,))?.is_none() && users.in_city("Lima")?.is_empty());

    assert_eq!(users.with_email("bert@example.org")?.as_ref(), Some(&bert));
    assert_eq!(users.in_city("Turin")?, [ada.clone(), bert.clone()]);

    // Ada moves, and takes another address. The old entries are gone; the old address can be had.
    let moved = user(1, "ada@example.com", Some("Lima"));
    users.put(&moved)?;
    assert_eq!(users.with_email("ada@example.org")?, None);
    assert_eq!(users.with_email("ada@example.com")?, Some(moved.clone()));
    assert_eq!((users.in_city("Turin")?, users.in_city("Lima")?), (vec![bert.clone()], vec![moved]));
    users.put(&user(3, "ada@example.org", None))?;
    users.put(&bert)?;
    assert_eq!(users.by_email.count()?, users.rows.count()?);

    for row in users.by_email.scan().rows()? {
        println!("{}", row?);
    }
    users.engine.close()
}

#[test]
fn what_it_asserts_holds() -> nyala::Result<()> {
    main()
}
