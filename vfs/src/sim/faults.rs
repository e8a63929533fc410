//! Counts and names the operations of a simulated disk, and says which of them fail.
//!
//! Owns no data: what a failing operation leaves behind is decided by [`super`].
//!
//! Invariant: operation `n` is the one that is called when `operations()` is `n`.
//! Invariant: once halted, nothing is counted and nothing has an effect any more.

use std::io;
use std::ops::BitOr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What kind of call an operation is: the methods of [`crate::Fs`] and [`crate::File`]. (`read` is an open, a length
/// and a read; `advise` cannot fail and does not count.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum OpKind {
    /// `Fs::create_dir_all`
    CreateDir,
    /// `Fs::create`
    Create,
    /// `Fs::open`
    Open,
    /// `Fs::remove`
    Remove,
    /// `Fs::rename`
    Rename,
    /// `Fs::hard_link`
    HardLink,
    /// `Fs::list`
    List,
    /// `Fs::sync_dir`
    SyncDir,
    /// `Fs::lock`
    Lock,
    /// `File::len`
    Len,
    /// `File::read_exact_at`
    Read,
    /// `File::write_at`
    Write,
    /// `File::preallocate`
    Preallocate,
    /// `File::truncate`
    Truncate,
    /// `File::sync`
    Sync,
    /// `File::start_writeback`
    StartWriteback,
}

impl OpKind {
    /// All of them.
    pub const ALL: [OpKind; 16] = [
        OpKind::CreateDir,
        OpKind::Create,
        OpKind::Open,
        OpKind::Remove,
        OpKind::Rename,
        OpKind::HardLink,
        OpKind::List,
        OpKind::SyncDir,
        OpKind::Lock,
        OpKind::Len,
        OpKind::Read,
        OpKind::Write,
        OpKind::Preallocate,
        OpKind::Truncate,
        OpKind::Sync,
        OpKind::StartWriteback,
    ];

    /// Whether it can change what a power cut leaves.
    #[must_use]
    pub fn changes_disk(self) -> bool {
        (OpSet::CHANGES).contains(self)
    }
}

/// A set of kinds of operations.
///
/// ```
/// use nyala_vfs::sim::{OpKind, OpSet};
/// let syncs = OpSet::of(OpKind::Sync) | OpSet::of(OpKind::SyncDir);
/// assert!(syncs.contains(OpKind::Sync) && !syncs.contains(OpKind::Write));
/// assert_eq!(syncs, OpSet::SYNCS);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpSet(u32);

impl OpSet {
    /// Every kind.
    pub const ALL: OpSet = OpSet((1 << OpKind::ALL.len()) - 1);
    /// What makes things durable.
    pub const SYNCS: OpSet = OpSet::of(OpKind::Sync).and(OpKind::SyncDir);
    /// What only looks.
    pub const READS: OpSet = OpSet::of(OpKind::Open).and(OpKind::List).and(OpKind::Len).and(OpKind::Read);
    /// What takes space.
    pub const SPACE: OpSet = OpSet::of(OpKind::CreateDir)
        .and(OpKind::Create)
        .and(OpKind::HardLink)
        .and(OpKind::Write)
        .and(OpKind::Preallocate);
    /// What moves bytes, and may move fewer than asked.
    pub const TRANSFERS: OpSet = OpSet::of(OpKind::Read).and(OpKind::Write);
    /// What can change what a power cut leaves.
    pub const CHANGES: OpSet = OpSet(OpSet::ALL.0 & !OpSet::READS.and(OpKind::StartWriteback).0);

    /// The set of one kind.
    #[must_use]
    pub const fn of(kind: OpKind) -> OpSet {
        OpSet(1 << kind as u32)
    }

    /// This set with one kind more.
    #[must_use]
    pub const fn and(self, kind: OpKind) -> OpSet {
        OpSet(self.0 | 1 << kind as u32)
    }

    /// Whether `kind` is in it.
    #[must_use]
    pub const fn contains(self, kind: OpKind) -> bool {
        self.0 & (1 << kind as u32) != 0
    }
}

impl BitOr for OpSet {
    type Output = OpSet;

    fn bitor(self, other: OpSet) -> OpSet {
        OpSet(self.0 | other.0)
    }
}

/// An injected failure. What it leaves behind: a failed write has written some prefix of its bytes, a failed
/// preallocation some of its length, a failed sync see [`FailedSync`]; all else has not happened.
///
/// The kinds that are no errors of the disk ([`FaultKind::is_of_transfers`]) strike reads and writes only, whatever
/// `on` says beyond.
///
/// ```
/// use nyala_vfs::sim::{Fault, FailedSync, OpSet};
/// let once = Fault::eio().on(OpSet::SYNCS).sync(FailedSync::PagesDropped);
/// let full = Fault::enospc().on(OpSet::SPACE).forever();
/// let halting = Fault::short().forever();
/// # let _ = (once, full, halting);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The error.
    pub kind: FaultKind,
    /// How often.
    pub times: Times,
    /// Which operations fail.
    pub on: OpSet,
    /// What a failing sync does to the pages.
    pub sync: FailedSync,
}

/// The error that an injected failure gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The disk does not answer.
    Eio,
    /// No space is left.
    Enospc,
    /// The two names of a link would lie on different file systems. Strikes [`OpKind::HardLink`] only.
    Exdev,
    /// No error: a read or write moves some of its bytes, but not all; of a single byte, that one. Who asked has to
    /// ask again for the rest, which is an operation of its own.
    Short,
    /// A read or write is interrupted by a signal before it has moved anything. For ever means every second one, for
    /// else nobody could go on.
    Interrupted,
    /// No error: a read or write moves nothing. So it is at the end of a file that has become shorter behind
    /// everybody's back, or on a device that takes no more.
    Nothing,
}

impl FaultKind {
    /// Whether it is about how many bytes a read or write moves, and not an error of the disk.
    #[must_use]
    pub fn is_of_transfers(self) -> bool {
        matches!(self, FaultKind::Short | FaultKind::Interrupted | FaultKind::Nothing)
    }
}

/// How often an injected failure strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Times {
    /// One operation.
    Once,
    /// That operation and all later ones of its kinds, until [`super::SimFs::clear_faults`].
    Forever,
}

/// What a failed sync does to pages that were not durable yet. Both kinds are seen on real systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailedSync {
    /// They stay readable but count as clean: a later sync succeeds without making them durable.
    PagesClean,
    /// They are dropped: reads give what was durable before. Of a directory nothing is dropped; its operations are as
    /// with `PagesClean`.
    PagesDropped,
    /// Each page, the length and each operation of a directory on its own, by lot: made durable after all, as with
    /// `PagesClean`, or as with `PagesDropped`.
    PagesMixed,
}

impl Fault {
    /// An I/O error of one operation of any kind.
    #[must_use]
    pub fn eio() -> Fault {
        Fault { kind: FaultKind::Eio, times: Times::Once, on: OpSet::ALL, sync: FailedSync::PagesClean }
    }

    /// A full disk, for one operation that takes space.
    #[must_use]
    pub fn enospc() -> Fault {
        Fault { kind: FaultKind::Enospc, on: OpSet::SPACE, ..Fault::eio() }
    }

    /// A link that cannot be, since its two names would lie on different file systems.
    #[must_use]
    pub fn exdev() -> Fault {
        Fault { kind: FaultKind::Exdev, on: OpSet::of(OpKind::HardLink), ..Fault::eio() }
    }

    /// A read or write that moves only some of its bytes.
    #[must_use]
    pub fn short() -> Fault {
        Fault { kind: FaultKind::Short, on: OpSet::TRANSFERS, ..Fault::eio() }
    }

    /// A read or write that a signal interrupts.
    #[must_use]
    pub fn interrupted() -> Fault {
        Fault { kind: FaultKind::Interrupted, on: OpSet::TRANSFERS, ..Fault::eio() }
    }

    /// A read or write that moves nothing.
    #[must_use]
    pub fn nothing() -> Fault {
        Fault { kind: FaultKind::Nothing, on: OpSet::TRANSFERS, ..Fault::eio() }
    }

    /// The same on these operations only.
    #[must_use]
    pub fn on(self, on: OpSet) -> Fault {
        Fault { on, ..self }
    }

    /// The same for ever.
    #[must_use]
    pub fn forever(self) -> Fault {
        Fault { times: Times::Forever, ..self }
    }

    /// The same with another effect on syncs.
    #[must_use]
    pub fn sync(self, sync: FailedSync) -> Fault {
        Fault { sync, ..self }
    }

    fn strikes(self, kind: OpKind) -> bool {
        let may = match self.kind {
            FaultKind::Exdev => kind == OpKind::HardLink,
            other => !other.is_of_transfers() || OpSet::TRANSFERS.contains(kind),
        };
        self.on.contains(kind) && may
    }

    /// The error of the operation, or how many of `asked` bytes it moves without one. `below` draws lots.
    pub(super) fn transfer(self, asked: usize, below: impl FnOnce(u64) -> u64) -> io::Result<usize> {
        match self.kind {
            FaultKind::Short if asked > 1 => Ok(1 + below(asked as u64 - 1) as usize),
            FaultKind::Short => Ok(asked),
            FaultKind::Nothing => Ok(0),
            FaultKind::Eio | FaultKind::Enospc | FaultKind::Exdev | FaultKind::Interrupted => {
                Err(self.error())
            }
        }
    }

    pub(super) fn error(self) -> io::Error {
        match self.kind {
            FaultKind::Eio => rustix::io::Errno::IO.into(),
            FaultKind::Enospc => rustix::io::Errno::NOSPC.into(),
            FaultKind::Exdev => rustix::io::Errno::XDEV.into(),
            FaultKind::Interrupted => rustix::io::Errno::INTR.into(),
            FaultKind::Short | FaultKind::Nothing => unreachable!("strikes transfers only, and is no error"),
        }
    }
}

/// The count, the log, and what is to fail.
#[derive(Debug, Default)]
pub(super) struct Control {
    log: Vec<(OpKind, Arc<Path>)>,
    halt_at: Option<u64>,
    faults: Vec<(u64, Fault)>,
    /// The last operation was interrupted, so that the next one is not.
    was_interrupted: bool,
}

impl Control {
    pub(super) fn operations(&self) -> u64 {
        self.log.len() as u64
    }

    pub(super) fn kinds(&self) -> Vec<OpKind> {
        self.log.iter().map(|(kind, _)| *kind).collect()
    }

    pub(super) fn operation(&self, n: u64) -> Option<(OpKind, PathBuf)> {
        let (kind, path) = self.log.get(usize::try_from(n).ok()?)?;
        Some((*kind, path.to_path_buf()))
    }

    pub(super) fn last_change(&self) -> Option<(OpKind, PathBuf)> {
        let (kind, path) = self.log.iter().rev().find(|(kind, _)| kind.changes_disk())?;
        Some((*kind, path.to_path_buf()))
    }

    pub(super) fn halt_at(&mut self, n: u64) {
        self.halt_at = Some(n);
    }

    pub(super) fn is_halted(&self) -> bool {
        self.halt_at.is_some_and(|n| self.operations() >= n)
    }

    pub(super) fn add_fault(&mut self, n: u64, fault: Fault) {
        self.faults.push((n, fault));
    }

    pub(super) fn clear_faults(&mut self) {
        self.faults.clear();
    }

    /// Counts an operation. Tells the fault that it must fail with.
    pub(super) fn begin(&mut self, kind: OpKind, path: &Arc<Path>) -> io::Result<Option<Fault>> {
        if self.is_halted() {
            return Err(io::Error::other("the simulated process has halted"));
        }
        let n = self.operations();
        self.log.push((kind, Arc::clone(path)));
        let was_interrupted = std::mem::take(&mut self.was_interrupted);
        let hit = self.faults.iter().position(|(from, fault)| {
            let is_over = fault.kind == FaultKind::Interrupted && was_interrupted;
            *from <= n && fault.strikes(kind) && !is_over
        });
        let Some(hit) = hit else { return Ok(None) };
        let (_, fault) = self.faults[hit];
        if fault.times == Times::Once {
            self.faults.remove(hit);
        }
        self.was_interrupted = fault.kind == FaultKind::Interrupted;
        Ok(Some(fault))
    }
}
