//! Whether two variants wrote the same: the same keys, with the same entries.

use std::sync::Arc;

use anyhow::{bail, ensure};
use pkindex::Entry;
use sstable::{Cache, FileInfo, KeyedIter};

use super::output::Folder;

/// Walks files that follow each other.
struct Walk<'a> {
    folder: &'a Folder,
    files: std::slice::Iter<'a, FileInfo>,
    cache: Arc<Cache>,
    iter: Option<KeyedIter>,
}

impl<'a> Walk<'a> {
    fn new(folder: &'a Folder, files: &'a [FileInfo]) -> anyhow::Result<Walk<'a>> {
        let mut walk = Walk { folder, files: files.iter(), cache: Cache::new(8 << 20), iter: None };
        walk.open_next()?;
        Ok(walk)
    }

    fn open_next(&mut self) -> anyhow::Result<()> {
        self.iter = None;
        for file in self.files.by_ref() {
            let mut iter = self.folder.open(file, &self.cache)?.iter();
            iter.set_readahead(256 << 10);
            iter.seek_to_first()?;
            if iter.valid() {
                self.iter = Some(iter);
                break;
            }
        }
        Ok(())
    }

    fn advance(&mut self) -> anyhow::Result<()> {
        if let Some(iter) = &mut self.iter {
            iter.next()?;
            if !iter.valid() {
                self.open_next()?;
            }
        }
        Ok(())
    }
}

/// Compares what two variants wrote, and gives how many keys that is.
pub(super) fn compare(folder: &Folder, left: &[FileInfo], right: &[FileInfo]) -> anyhow::Result<u64> {
    let (mut left, mut right) = (Walk::new(folder, left)?, Walk::new(folder, right)?);
    let (mut a, mut b): (Vec<Entry>, Vec<Entry>) = (Vec::new(), Vec::new());
    let mut keys = 0;
    loop {
        match (&left.iter, &right.iter) {
            (None, None) => return Ok(keys),
            (Some(_), None) | (None, Some(_)) => bail!("one has {keys} keys, the other more"),
            (Some(left), Some(right)) => {
                ensure!(left.key() == right.key(), "key number {keys} differs");
                a.clear();
                b.clear();
                pkindex::wire::decode(left.value(), &mut a)?;
                pkindex::wire::decode(right.value(), &mut b)?;
                ensure!(a == b, "the entries of key number {keys} differ");
            }
        }
        keys += 1;
        left.advance()?;
        right.advance()?;
    }
}
