//! Tickets: places in the order of all commits, for programs that want to know what is durable.

use std::fmt;

use codec::Version;

/// A place in the order of all commits of a database: greater is later.
///
/// Each commit has one: [`WriteBatch::commit`](crate::WriteBatch::commit) and
/// [`Transaction::commit`](crate::Transaction::commit) return theirs, and
/// [`Engine::last_committed`](crate::Engine::last_committed) gives one that covers every write of a table's handle that
/// has returned. A commit is durable once its ticket is at or below
/// [`Engine::last_durable`](crate::Engine::last_durable), and it has survived whatever happened if it is at or below
/// [`Engine::recovered_to`](crate::Engine::recovered_to) of the next open. Tickets are never used again in the life of
/// a database, so that they can be kept elsewhere, as numbers, and compared then.
///
/// **Those of two databases cannot be compared**, and a [checkpoint](crate::Engine::checkpoint) is a database of its
/// own. Commits up to it have the same tickets in both; later ones of either have nothing to do with those of the
/// other, although their numbers may be the same. So keep with a ticket which database it is of.
///
/// ```
/// # fn main() -> Result<(), nyala::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// use nyala::{Durability, Engine, Options, Schema, Ticket, Type};
/// let engine = Engine::open(dir.path(), Options::default())?;
/// let schema = Schema::builder().key("id", Type::U64).column("cents", Type::I64).build()?;
/// let accounts = engine.open_or_create_table("accounts", schema)?;
/// let mut batch = engine.batch();
/// batch.upsert(&accounts, (1, 900))?;
/// let ticket = batch.commit(Durability::Buffered)?;
/// // ... other work; and before this write is told to the world:
/// engine.wait_durable(ticket)?;
/// assert!(ticket <= engine.last_durable());
/// let kept: u64 = ticket.to_u64();
/// engine.close()?;
///
/// let engine = Engine::open(dir.path(), Options::default())?;
/// assert!(Ticket::from_u64(kept) <= engine.recovered_to(), "it has survived");
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(Version);

impl Ticket {
    pub(crate) fn new(version: Version) -> Ticket {
        Ticket(version)
    }

    pub(crate) fn version(self) -> Version {
        self.0
    }

    /// The ticket as a number, to be kept elsewhere. Numbers compare as their tickets do; 0 is before every commit.
    #[must_use]
    pub fn to_u64(self) -> u64 {
        self.0.0
    }

    /// The ticket of a number that [`Ticket::to_u64`] gave.
    #[must_use]
    pub fn from_u64(number: u64) -> Ticket {
        Ticket(Version(number))
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
