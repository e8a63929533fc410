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
    /// A sync fails because there is no space for what was written long before.
    SyncFull,
}

impl Kind {
    pub(crate) const ALL: [Kind; 8] = [
        Kind::EioOnce,
        Kind::EioForever,
        Kind::EioForeverOnChanges,
        Kind::FullOnce,
        Kind::FullForever,
        Kind::SyncKept,
        Kind::SyncDropped,
        Kind::SyncFull,
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
            Kind::SyncFull => "sync-full",
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
            Kind::SyncFull => Fault::enospc().on(OpSet::SYNCS),
        }
    }

    /// Whether it can strike a call of this kind.
    pub(crate) fn strikes(self, op: OpKind) -> bool {
        self.fault().on.contains(op)
    }

    pub(crate) fn is_forever(self) -> bool {
        self.fault().times == Times::Forever
    }

    /// Whether it is a lack of space that more space mends.
    pub(crate) fn is_full(self) -> bool {
        matches!(self, Kind::FullOnce | Kind::FullForever)
    }

    /// Whether it takes away what was written and not synced, as a loss of power does.
    pub(crate) fn drops_pages(self) -> bool {
        self == Kind::SyncDropped
    }

    /// Whether reads fail as well, and go on failing.
    pub(crate) fn fails_all_reads(self) -> bool {
        self == Kind::EioForever
    }

    /// What a call says that failed because of it.
    pub(crate) fn error(self) -> ErrorKind {
        if self.is_full() { ErrorKind::NoSpace } else { ErrorKind::Io }
    }
}
