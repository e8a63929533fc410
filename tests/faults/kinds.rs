//! The kinds of failures that are tried at each call.

use nyala::ErrorKind;
use nyala::vfs::sim::{FailedSync, Fault, OpKind, OpSet, Times};

/// A kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// The call fails.
    EioOnce,
    /// This call and all after it fail.
    EioForever,
    /// This call and all after it that change the disk fail; reads go on.
    EioForeverOnChanges,
    /// The disk is full for one call.
    FullOnce,
    /// The disk is full until somebody makes space.
    FullForever,
    /// A sync fails; the pages stay readable and count as clean.
    SyncKept,
    /// A sync fails; the pages are what they were at the last one.
    SyncDropped,
    /// A sync fails; of each page it is open which of the two holds, or whether it is durable after all.
    SyncMixed,
    /// A sync fails because there is no space for what was written long before.
    SyncFull,
    /// A read or write moves some of its bytes.
    ShortOnce,
    /// All of them do, as on a disk that stays about to be full: the log, which writes a record by one call, can write
    /// none.
    ShortForever,
    /// Every second read or write is interrupted by a signal.
    InterruptedForever,
    /// A read or write moves nothing and says that all is well.
    NothingOnce,
}

impl Kind {
    pub(crate) const ALL: [Kind; 13] = [
        Kind::EioOnce,
        Kind::EioForever,
        Kind::EioForeverOnChanges,
        Kind::FullOnce,
        Kind::FullForever,
        Kind::SyncKept,
        Kind::SyncDropped,
        Kind::SyncMixed,
        Kind::SyncFull,
        Kind::ShortOnce,
        Kind::ShortForever,
        Kind::InterruptedForever,
        Kind::NothingOnce,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::EioOnce => "eio-once",
            Kind::EioForever => "eio-forever",
            Kind::EioForeverOnChanges => "eio-forever-on-changes",
            Kind::FullOnce => "full-once",
            Kind::FullForever => "full-forever",
            Kind::SyncKept => "sync-kept",
            Kind::SyncDropped => "sync-dropped",
            Kind::SyncMixed => "sync-mixed",
            Kind::SyncFull => "sync-full",
            Kind::ShortOnce => "short-once",
            Kind::ShortForever => "short-forever",
            Kind::InterruptedForever => "interrupted-forever",
            Kind::NothingOnce => "nothing-once",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub(crate) fn fault(self) -> Fault {
        match self {
            Kind::EioOnce => Fault::eio(),
            Kind::EioForever => Fault::eio().forever(),
            Kind::EioForeverOnChanges => Fault::eio().on(OpSet::CHANGES).forever(),
            // A new name may need a block of its directory too.
            Kind::FullOnce => Fault::enospc().on(OpSet::SPACE.and(OpKind::Rename)),
            Kind::FullForever => Fault::enospc().on(OpSet::SPACE.and(OpKind::Rename)).forever(),
            Kind::SyncKept => Fault::eio().on(OpSet::SYNCS),
            Kind::SyncDropped => Fault::eio().on(OpSet::SYNCS).sync(FailedSync::PagesDropped),
            Kind::SyncMixed => Fault::eio().on(OpSet::SYNCS).sync(FailedSync::PagesMixed),
            Kind::SyncFull => Fault::enospc().on(OpSet::SYNCS),
            Kind::ShortOnce => Fault::short(),
            Kind::ShortForever => Fault::short().forever(),
            Kind::InterruptedForever => Fault::interrupted().forever(),
            Kind::NothingOnce => Fault::nothing(),
        }
    }

    /// Whether it can strike a call of this kind.
    pub(crate) fn strikes(self, op: OpKind) -> bool {
        self.fault().on.contains(op)
    }

    pub(crate) fn is_forever(self) -> bool {
        self.fault().times == Times::Forever
    }

    /// Whether the others of its sort differ from it in what comes after.
    pub(crate) fn is_first_of_its_sort(self) -> bool {
        matches!(self, Kind::EioOnce | Kind::FullOnce | Kind::SyncKept)
    }

    /// Whether it is a lack of space that more space mends.
    pub(crate) fn is_full(self) -> bool {
        matches!(self, Kind::FullOnce | Kind::FullForever | Kind::ShortForever)
    }

    /// Whether it takes away what was written and not synced, as a loss of power does.
    pub(crate) fn drops_pages(self) -> bool {
        matches!(self, Kind::SyncDropped | Kind::SyncMixed)
    }

    /// Whether it must not be noticed at all: whoever reads or writes goes on with the rest.
    pub(crate) fn is_harmless(self) -> bool {
        matches!(self, Kind::ShortOnce | Kind::InterruptedForever)
    }

    /// Whether reads fail as well, and go on failing.
    pub(crate) fn fails_all_reads(self) -> bool {
        self == Kind::EioForever
    }

    /// Whether a call that failed because of it may say this.
    pub(crate) fn may_give(self, error: ErrorKind) -> bool {
        match self {
            Kind::FullOnce | Kind::FullForever | Kind::ShortForever => error == ErrorKind::NoSpace,
            // A file whose sync failed for lack of space is given up, and the space is what the caller hears of.
            Kind::SyncFull => matches!(error, ErrorKind::Io | ErrorKind::NoSpace),
            // A file that ends before its end is damaged.
            Kind::NothingOnce => matches!(error, ErrorKind::Io | ErrorKind::Corruption),
            _ => error == ErrorKind::Io && !self.is_harmless(),
        }
    }
}
