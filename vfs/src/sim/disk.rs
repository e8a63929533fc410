//! The state of a simulated disk: files, names, space, and what is to fail.
//!
//! Owns the order of all changes. Errors here are bare; [`super`] adds the operation and the path.
//!
//! Invariant: every change of contents or names takes the next order, so that "before" means the same for all.
//! Invariant: a file is here as long as it has a name, is open, or may get its name back by a power cut.

use super::SimFs;
use super::directory::{Directories, FileNumber, Node};
use super::faults::{Control, FailedSync, Fault};
use super::image::{Fingerprint, Image};
use super::pages::Content;
use super::power::{Decisions, PowerCut};
use super::random::Random;
use crate::fs::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The longest file: what an `off_t` can say.
const FILE_BYTES_MAX: u64 = i64::MAX as u64;

#[derive(Debug)]
struct Inode {
    content: Arc<Content>,
    handles: u64,
    names: u64,
}

impl Inode {
    fn named(content: Content) -> Inode {
        Inode { content: Arc::new(content), handles: 0, names: 1 }
    }

    /// Whether it takes space: a file that only a power cut could bring back does not.
    fn is_in_use(&self) -> bool {
        self.names > 0 || self.handles > 0
    }
}

#[derive(Debug)]
pub(super) struct Disk {
    pub(super) control: Control,
    pub(super) capacity: Option<u64>,
    seed: u64,
    directories: Directories,
    files: BTreeMap<FileNumber, Inode>,
    files_made: u64,
    locked: BTreeSet<FileNumber>,
    order: u64,
    last_write: Option<u64>,
    /// The disk before each change, if that is wanted.
    pub(super) recording: Option<Vec<(u64, SimFs)>>,
}

impl Disk {
    pub(super) fn new(seed: u64) -> Disk {
        Disk {
            control: Control::default(),
            capacity: None,
            seed,
            directories: Directories::default(),
            files: BTreeMap::new(),
            files_made: 0,
            locked: BTreeSet::new(),
            order: 0,
            last_write: None,
            recording: None,
        }
    }

    fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    fn inode(&self, file: FileNumber) -> &Inode {
        self.files.get(&file).expect("a file that is named or open is kept")
    }

    fn inode_mut(&mut self, file: FileNumber) -> &mut Inode {
        self.files.get_mut(&file).expect("a file that is named or open is kept")
    }

    fn content_mut(&mut self, file: FileNumber) -> &mut Content {
        Arc::make_mut(&mut self.inode_mut(file).content)
    }

    // Names.

    pub(super) fn make_dirs(&mut self, dir: &Path) -> io::Result<()> {
        let order = &mut self.order;
        self.directories.make_dirs(dir, || {
            *order += 1;
            *order
        })
    }

    pub(super) fn create(&mut self, path: &Path) -> io::Result<FileNumber> {
        let file = FileNumber(self.files_made + 1);
        let order = self.next_order();
        self.directories.link(path, file, order)?;
        self.files_made += 1;
        self.files.insert(file, Inode::named(Content::default()));
        Ok(file)
    }

    pub(super) fn resolve_file(&self, path: &Path) -> io::Result<FileNumber> {
        self.directories.resolve_file(path)
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let file = self.directories.resolve_file(path)?;
        let order = self.next_order();
        self.directories.unlink(path, order)?;
        self.lose_name(file);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let moved = self.directories.resolve(from)?;
        let replaced = self.directories.resolve(to).ok();
        if let (Node::File(moved, _), Some(Node::File(replaced, _))) = (moved, replaced)
            && moved == replaced
        {
            // Two names of one file: both stay.
            return Ok(());
        }
        let order = self.next_order();
        self.directories.rename(from, to, order)?;
        if let Some(Node::File(file, _)) = replaced {
            self.lose_name(file);
        }
        Ok(())
    }

    pub(super) fn hard_link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let Node::File(file, _) = self.directories.resolve(from)? else {
            return Err(rustix::io::Errno::PERM.into());
        };
        let order = self.next_order();
        self.directories.link_again(to, file, order)?;
        self.inode_mut(file).names += 1;
        Ok(())
    }

    fn lose_name(&mut self, file: FileNumber) {
        self.inode_mut(file).names -= 1;
        self.forget_unreachable();
    }

    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let names = self.directories.list(dir)?;
        let entry = |(name, node)| match node {
            Node::File(file, _) => Entry { name, len: self.len(file), is_file: true },
            Node::Dir(_) => Entry { name, len: 0, is_file: false },
        };
        Ok(names.into_iter().map(entry).collect())
    }

    pub(super) fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        let dir = self.directories.resolve_dir(dir)?;
        self.directories.sync(dir);
        self.forget_unreachable();
        Ok(())
    }

    pub(super) fn fail_sync_dir(&mut self, dir: &Path, fault: Fault) {
        if let Ok(dir) = self.directories.resolve_dir(dir) {
            let mut random = self.random();
            self.directories.fail_sync(dir, |_| fault.sync == FailedSync::PagesMixed && random.coin());
            self.forget_unreachable();
        }
    }

    fn forget_unreachable(&mut self) {
        if self.files.values().all(Inode::is_in_use) {
            return;
        }
        let returning = self.directories.may_return();
        self.files.retain(|file, inode| inode.is_in_use() || returning.contains(file));
    }

    // Open files.

    pub(super) fn take_handle(&mut self, file: FileNumber) {
        self.inode_mut(file).handles += 1;
    }

    pub(super) fn drop_handle(&mut self, file: FileNumber) {
        // What has no name any more goes with the next sync of a directory.
        self.inode_mut(file).handles -= 1;
    }

    pub(super) fn lock(&mut self, path: &Path) -> io::Result<FileNumber> {
        let file = match self.directories.resolve_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create(path)?,
            found => found?,
        };
        if !self.locked.insert(file) {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "it is held in this process"));
        }
        self.take_handle(file);
        Ok(file)
    }

    pub(super) fn unlock(&mut self, file: FileNumber) {
        self.locked.remove(&file);
        self.drop_handle(file);
    }

    // Contents.

    pub(super) fn len(&self, file: FileNumber) -> u64 {
        self.inode(file).content.live().len()
    }

    /// Reads as far as the file goes. Tells how far.
    pub(super) fn read(&self, file: FileNumber, buf: &mut [u8], offset: u64) -> usize {
        self.inode(file).content.live().read(buf, offset)
    }

    /// Writes what fits, and says how much that is; an error if nothing does.
    pub(super) fn write(&mut self, file: FileNumber, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= FILE_BYTES_MAX);
        let end = end.ok_or(io::ErrorKind::FileTooLarge)?;
        let end_max = self.len(file).saturating_add(self.free());
        let fitting = if end > end_max {
            &bytes[..usize::try_from(end_max.saturating_sub(offset)).expect("less than the bytes given")]
        } else {
            bytes
        };
        let order = self.next_order();
        self.content_mut(file).write(fitting, offset, order);
        if !fitting.is_empty() {
            self.last_write = Some(order);
        }
        if fitting.is_empty() && !bytes.is_empty() {
            return Err(rustix::io::Errno::NOSPC.into());
        }
        Ok(fitting.len())
    }

    /// What a write that fails in between leaves: some prefix, of less than all.
    pub(super) fn write_some(&mut self, file: FileNumber, bytes: &[u8], offset: u64) {
        let some = self.random().below(bytes.len() as u64) as usize;
        // That even the prefix may not fit changes nothing: the operation fails already.
        let _ = self.write(file, &bytes[..some], offset);
    }

    pub(super) fn preallocate(&mut self, file: FileNumber, len: u64) -> io::Result<()> {
        let len_now = self.len(file);
        if len <= len_now {
            return Ok(());
        }
        self.set_len_checked(file, len)
    }

    /// What a preallocation that fails in between leaves.
    pub(super) fn preallocate_some(&mut self, file: FileNumber, len: u64) {
        let missing = len.saturating_sub(self.len(file));
        let some = self.len(file) + self.random().below(missing);
        let _ = self.preallocate(file, some);
    }

    pub(super) fn truncate(&mut self, file: FileNumber, len: u64) -> io::Result<()> {
        self.set_len_checked(file, len)
    }

    fn set_len_checked(&mut self, file: FileNumber, len: u64) -> io::Result<()> {
        if len > FILE_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if len.saturating_sub(self.len(file)) > self.free() {
            return Err(rustix::io::Errno::NOSPC.into());
        }
        let order = self.next_order();
        self.content_mut(file).set_len(len, order);
        Ok(())
    }

    pub(super) fn sync(&mut self, file: FileNumber) {
        self.content_mut(file).sync();
    }

    pub(super) fn fail_sync(&mut self, file: FileNumber, fault: Fault) {
        let mut random = self.random();
        self.content_mut(file).fail_sync(fault.sync, &mut random);
    }

    /// The lengths of all files that have a name or are open.
    pub(super) fn used(&self) -> u64 {
        let in_use = self.files.values().filter(|inode| inode.is_in_use());
        in_use.map(|inode| inode.content.live().len()).fold(0, u64::saturating_add)
    }

    fn free(&self) -> u64 {
        self.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.used()))
    }

    /// Lots for the operation under way.
    pub(super) fn random(&self) -> Random {
        Random::new(self.seed, self.control.operations())
    }

    // Whole disks.

    /// The same disk for another process.
    pub(super) fn fork(&self) -> Disk {
        let mut fork = Disk {
            control: Control::default(),
            capacity: self.capacity,
            seed: self.seed,
            directories: self.directories.clone(),
            files: BTreeMap::new(),
            files_made: self.files_made,
            locked: BTreeSet::new(),
            order: self.order,
            last_write: self.last_write,
            recording: None,
        };
        let files = self.files.iter().map(|(file, inode)| {
            let content = Arc::clone(&inode.content);
            (*file, Inode { content, handles: 0, names: inode.names })
        });
        fork.files = files.collect();
        fork.forget_unreachable();
        fork
    }

    /// The disk as the next process finds it after a power cut.
    pub(super) fn after_power_cut(&self, policy: &PowerCut) -> Disk {
        let contents = self.files.values().flat_map(|inode| inode.content.changes());
        let orders = contents.map(|change| change.order);
        let orders = orders.chain(self.directories.journal().iter().map(|operation| operation.order));
        let order_first = orders.min().unwrap_or(self.order + 1);
        let mut decisions = Decisions::new(policy, order_first, self.order + 1, self.last_write);

        let tree = self.directories.after_power_cut(|operation| decisions.keeps(operation));
        let mut files = BTreeMap::new();
        for (file, names) in tree.files() {
            let content = &self.inode(file).content;
            let content = if content.is_durable() {
                Arc::clone(content)
            } else {
                Arc::new(Content::durable(content.after_power_cut(&decisions.survival(content))))
            };
            files.insert(file, Inode { content, handles: 0, names });
        }
        Disk {
            control: Control::default(),
            capacity: self.capacity,
            seed: self.seed,
            directories: Directories::durable(tree, &self.directories),
            files,
            files_made: self.files_made,
            locked: BTreeSet::new(),
            order: self.order,
            last_write: None,
            recording: None,
        }
    }

    /// A hash of all names and contents, as seen.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = Fingerprint::default();
        self.directories.live().walk(|path, node| {
            hasher.add(path.as_os_str().as_encoded_bytes());
            match node {
                Node::Dir(_) => hasher.add(b"d"),
                Node::File(file, _) => {
                    hasher.add(&self.inode(file).content.live().fingerprint().to_le_bytes())
                }
            }
        });
        hasher.finish()
    }

    /// The paths of all files, as seen.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        self.directories.live().walk(|path, node| {
            if matches!(node, Node::File(..)) {
                paths.push(path.to_owned());
            }
        });
        paths.sort();
        paths
    }

    /// Changes the bytes of a file behind everybody's back, durably.
    pub(super) fn damage(&mut self, path: &Path, edit: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let file = self.directories.resolve_file(path)?;
        let mut bytes = self.inode(file).content.live().to_vec();
        edit(&mut bytes);
        *self.content_mut(file) = Content::durable(Image::from_bytes(&bytes));
        Ok(())
    }
}
