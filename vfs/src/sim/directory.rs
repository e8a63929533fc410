//! The names of a simulated disk: which are durable, which are seen, and the operations between the two.
//!
//! Owns the directory trees. Knows files by number only, never their contents.
//!
//! Invariant: a directory has at most one name in a tree, a file one for its making and one for each link. A name is
//! the same one wherever a rename moves it.
//! Invariant: the durable tree with the whole journal applied, in order, is the live tree, but for operations that a
//! failed sync lost.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// A directory, for its whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DirId(pub(super) u64);

/// A file, for its whole life, whatever its name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileNumber(pub(super) u64);

/// One of a file's names: 0 is the one that it was made with, each link has a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LinkNumber(u64);

/// The root directory.
const ROOT: DirId = DirId(0);

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Dir(DirId),
    File(FileNumber, LinkNumber),
}

/// A name in a directory.
type Slot = (DirId, Arc<OsStr>);

/// All names at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    dirs: BTreeMap<DirId, BTreeMap<Arc<OsStr>, Node>>,
}

impl Tree {
    fn get(&self, dir: DirId, name: &OsStr) -> Option<Node> {
        self.dirs.get(&dir)?.get(name).copied()
    }

    fn set(&mut self, (dir, name): &Slot, node: Option<Node>) {
        let names = self.dirs.entry(*dir).or_default();
        match node {
            Some(node) => names.insert(Arc::clone(name), node),
            None => names.remove(name),
        };
    }

    fn apply(&mut self, operation: &DirOp) {
        for (slot, node) in &operation.changes {
            if operation.kind == DirOpKind::Rename && node.is_some() {
                // Its old name is among the changes, but a failed sync may have kept an older one here.
                self.dirs.values_mut().for_each(|names| names.retain(|_, named| Some(*named) != *node));
            }
            self.set(slot, *node);
        }
    }

    /// Applies the operations that `keep` wants, and those before them on the same names. `keep` is asked for each, the
    /// last one first.
    fn apply_kept(&mut self, operations: &[Arc<DirOp>], mut keep: impl FnMut(&DirOp) -> bool) {
        let mut needed: BTreeSet<&Slot> = BTreeSet::new();
        let mut kept = Vec::new();
        for operation in operations.iter().rev() {
            let wanted = keep(operation);
            if wanted || operation.changes.iter().any(|(slot, _)| needed.contains(slot)) {
                needed.extend(operation.changes.iter().map(|(slot, _)| slot));
                kept.push(operation);
            }
        }
        for operation in kept.into_iter().rev() {
            self.apply(operation);
        }
    }

    /// The files that can be reached from the root, and how many names each has.
    pub(super) fn files(&self) -> BTreeMap<FileNumber, u64> {
        let mut found = BTreeMap::new();
        let mut todo = vec![ROOT];
        while let Some(dir) = todo.pop() {
            for node in self.dirs.get(&dir).into_iter().flat_map(BTreeMap::values) {
                match node {
                    Node::File(file, _) => *found.entry(*file).or_default() += 1,
                    Node::Dir(dir) => todo.push(*dir),
                }
            }
        }
        found
    }

    /// Every name that can be reached from the root, parents first, sorted within a directory.
    pub(super) fn walk(&self, mut visit: impl FnMut(&Path, Node)) {
        let mut todo = vec![(ROOT, PathBuf::from("/"))];
        while let Some((dir, path)) = todo.pop() {
            for (name, &node) in self.dirs.get(&dir).into_iter().flatten() {
                let path = path.join(&**name);
                visit(&path, node);
                if let Node::Dir(dir) = node {
                    todo.push((dir, path));
                }
            }
        }
    }
}

/// What a directory operation was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirOpKind {
    /// A file or directory was made, or a file got one more name.
    Link,
    /// A file was removed.
    Unlink,
    /// A file or directory was renamed.
    Rename,
}

/// A directory operation that is not durable yet. Its changes are there together or not at all.
#[derive(Clone, Debug)]
pub(super) struct DirOp {
    /// Its place among all changes of the disk.
    pub(super) order: u64,
    pub(super) kind: DirOpKind,
    changes: Vec<(Slot, Option<Node>)>,
}

impl DirOp {
    fn touches_dir(&self, dirs: &BTreeSet<DirId>) -> bool {
        self.changes.iter().any(|((dir, _), _)| dirs.contains(dir))
    }
}

/// The names as seen and as durable.
#[derive(Clone, Debug, Default)]
pub(super) struct Directories {
    live: Arc<Tree>,
    durable: Arc<Tree>,
    journal: Vec<Arc<DirOp>>,
    dirs_made: u64,
    links_made: u64,
}

impl Directories {
    /// Durable as it is. Numbers go on from those of `before`.
    pub(super) fn durable(tree: Tree, before: &Directories) -> Directories {
        let tree = Arc::new(tree);
        Directories {
            live: Arc::clone(&tree),
            durable: tree,
            journal: Vec::new(),
            dirs_made: before.dirs_made,
            links_made: before.links_made,
        }
    }

    pub(super) fn live(&self) -> &Tree {
        &self.live
    }

    pub(super) fn journal(&self) -> &[Arc<DirOp>] {
        &self.journal
    }

    /// What a path names.
    pub(super) fn resolve(&self, path: &Path) -> io::Result<Node> {
        let mut node = Node::Dir(ROOT);
        for name in names(path) {
            let Node::Dir(dir) = node else { return Err(io::ErrorKind::NotADirectory.into()) };
            node = self.live.get(dir, name).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(node)
    }

    pub(super) fn resolve_dir(&self, path: &Path) -> io::Result<DirId> {
        match self.resolve(path)? {
            Node::Dir(dir) => Ok(dir),
            Node::File(..) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    pub(super) fn resolve_file(&self, path: &Path) -> io::Result<FileNumber> {
        match self.resolve(path)? {
            Node::File(file, _) => Ok(file),
            Node::Dir(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn slot(&self, path: &Path) -> io::Result<Slot> {
        let mut all = names(path);
        let name = all.pop().ok_or(io::ErrorKind::InvalidInput)?;
        let dir: PathBuf = all.into_iter().collect();
        Ok((self.resolve_dir(&dir)?, name.into()))
    }

    /// The names in a directory, sorted.
    pub(super) fn list(&self, path: &Path) -> io::Result<Vec<(OsString, Node)>> {
        let dir = self.resolve_dir(path)?;
        let names = self.live.dirs.get(&dir).into_iter().flatten();
        Ok(names.map(|(name, node)| (name.to_os_string(), *node)).collect())
    }

    fn perform(&mut self, operation: DirOp) {
        Arc::make_mut(&mut self.live).apply(&operation);
        self.journal.push(Arc::new(operation));
    }

    /// Makes a directory and what is missing above it. `order` is asked once for each.
    pub(super) fn make_dirs(&mut self, path: &Path, mut order: impl FnMut() -> u64) -> io::Result<()> {
        let mut dir = ROOT;
        for name in names(path) {
            dir = match self.live.get(dir, name) {
                Some(Node::Dir(found)) => found,
                Some(Node::File(..)) => return Err(io::ErrorKind::NotADirectory.into()),
                None => {
                    self.dirs_made += 1;
                    let made = DirId(self.dirs_made);
                    let changes = vec![((dir, name.into()), Some(Node::Dir(made)))];
                    self.perform(DirOp { order: order(), kind: DirOpKind::Link, changes });
                    made
                }
            };
        }
        Ok(())
    }

    /// Gives a new file its name.
    pub(super) fn link(&mut self, path: &Path, file: FileNumber, order: u64) -> io::Result<()> {
        self.name(path, Node::File(file, LinkNumber(0)), order)
    }

    /// Gives a file one more name.
    pub(super) fn link_again(&mut self, path: &Path, file: FileNumber, order: u64) -> io::Result<()> {
        let link = LinkNumber(self.links_made + 1);
        self.name(path, Node::File(file, link), order)?;
        self.links_made += 1;
        Ok(())
    }

    fn name(&mut self, path: &Path, node: Node, order: u64) -> io::Result<()> {
        let slot = self.slot(path)?;
        if self.live.get(slot.0, &slot.1).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.perform(DirOp { order, kind: DirOpKind::Link, changes: vec![(slot, Some(node))] });
        Ok(())
    }

    /// Takes a file's name away.
    pub(super) fn unlink(&mut self, path: &Path, order: u64) -> io::Result<()> {
        self.resolve_file(path)?;
        let slot = self.slot(path)?;
        self.perform(DirOp { order, kind: DirOpKind::Unlink, changes: vec![(slot, None)] });
        Ok(())
    }

    /// Renames a file, over another one if there is one, or a directory, to a free name.
    pub(super) fn rename(&mut self, from: &Path, to: &Path, order: u64) -> io::Result<()> {
        let node = self.resolve(from)?;
        let (from, to) = (self.slot(from)?, self.slot(to)?);
        if from == to {
            return Ok(());
        }
        match (node, self.live.get(to.0, &to.1)) {
            (Node::File(..), None | Some(Node::File(..))) | (Node::Dir(_), None) => {}
            (Node::File(..), Some(Node::Dir(_))) => return Err(io::ErrorKind::IsADirectory.into()),
            (Node::Dir(_), Some(Node::File(..))) => return Err(io::ErrorKind::NotADirectory.into()),
            (Node::Dir(_), Some(Node::Dir(_))) => return Err(io::ErrorKind::DirectoryNotEmpty.into()),
        }
        if let Node::Dir(dir) = node
            && self.is_within(to.0, dir)
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let changes = vec![(from, None), (to, Some(node))];
        self.perform(DirOp { order, kind: DirOpKind::Rename, changes });
        Ok(())
    }

    /// Whether `inner` is `outer`, or somewhere below it.
    fn is_within(&self, inner: DirId, outer: DirId) -> bool {
        let mut todo = vec![outer];
        while let Some(dir) = todo.pop() {
            if dir == inner {
                return true;
            }
            let nodes = self.live.dirs.get(&dir).into_iter().flat_map(BTreeMap::values);
            todo.extend(nodes.filter_map(|node| match node {
                Node::Dir(dir) => Some(*dir),
                Node::File(..) => None,
            }));
        }
        false
    }

    /// Takes the operations of a directory out of the journal: those that touch it, and for one that moved something
    /// between two directories also what came before it in the other one.
    fn take_operations(&mut self, dir: DirId) -> Vec<Arc<DirOp>> {
        let mut dirs = BTreeSet::from([dir]);
        let mut taken = Vec::new();
        let mut left = Vec::new();
        for operation in std::mem::take(&mut self.journal).into_iter().rev() {
            if operation.touches_dir(&dirs) {
                dirs.extend(operation.changes.iter().map(|((dir, _), _)| *dir));
                taken.push(operation);
            } else {
                left.push(operation);
            }
        }
        left.reverse();
        taken.reverse();
        self.journal = left;
        taken
    }

    pub(super) fn sync(&mut self, dir: DirId) {
        let operations = self.take_operations(dir);
        if operations.is_empty() {
            return;
        }
        let durable = Arc::make_mut(&mut self.durable);
        for operation in operations {
            durable.apply(&operation);
        }
    }

    /// The operations stay visible. Those that `keep` wants are durable after all, with what came before them on the
    /// same names; no later sync makes the others so.
    pub(super) fn fail_sync(&mut self, dir: DirId, keep: impl FnMut(&DirOp) -> bool) {
        let operations = self.take_operations(dir);
        Arc::make_mut(&mut self.durable).apply_kept(&operations, keep);
    }

    /// The tree after a power cut. `keep` is asked for each operation, the last one first; one that is kept keeps the
    /// earlier ones on the same names, so that a name never skips back over what it was in between.
    pub(super) fn after_power_cut(&self, keep: impl FnMut(&DirOp) -> bool) -> Tree {
        let mut tree = Tree::clone(&self.durable);
        tree.apply_kept(&self.journal, keep);
        tree
    }

    /// The files that some power cut could still bring back, or leave.
    pub(super) fn may_return(&self) -> BTreeSet<FileNumber> {
        let durable = self.durable.dirs.values().flat_map(|names| names.values().copied());
        let journal = self.journal.iter().flat_map(|operation| &operation.changes);
        let file = |node| match node {
            Node::File(file, _) => Some(file),
            Node::Dir(_) => None,
        };
        durable.chain(journal.filter_map(|(_, named)| *named)).filter_map(file).collect()
    }
}

/// A path's names from the root. Relative paths start there too; `..` is taken literally, there being no links.
fn names(path: &Path) -> Vec<&OsStr> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::ParentDir => {
                names.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    names
}
