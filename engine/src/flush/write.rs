//! Writes a sealed memtable as rowsets and one index run, in one pass over its keys.
//!
//! Owns which of its versions are kept. Never syncs the directory, and never tells anybody: until an edit names the
//! files, whoever asked for them may [discard](Flushed::discard) them.
//!
//! Invariant: of several versions of a key those are kept that `pkindex::Retention` needs, as in a compaction.
//! Invariant: when writing fails, nothing that was written stays.

use std::sync::Arc;

use codec::{TabletId, Version, hash_key};
use pkindex::{Entry, Output, Retention, RunOptions, RunWriter, WrittenFile};
use sstable::FileInfo;

use crate::compaction::{self, KeySample};
use crate::error::Error;
use crate::files::{FileKind, Files, Outputs};
use crate::manifest::{RunDesc, TabletEdit};
use crate::memtable::{MemOp, Memtable, Older};
use crate::options::Options;
use crate::rowset::{RowsetOptions, RowsetWriter, WrittenRowset};
use crate::tablet::Tablet;
use crate::tablet::files::{rowset_info, rowset_options, run_options};

/// What a memtable became on disk.
#[derive(Debug)]
pub(crate) struct Flushed {
    pub(crate) run_id: u64,
    pub(crate) index: Vec<WrittenFile>,
    pub(crate) rowsets: Vec<WrittenRowset>,
    pub(crate) through: Version,
    /// Some of its keys.
    pub(super) sample: KeySample,
}

impl Flushed {
    /// How many files it became.
    pub(crate) fn files(&self) -> u64 {
        (self.index.len() + self.rowsets.len()) as u64
    }

    /// Their bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let index: u64 = self.index.iter().map(|file| file.info.len).sum();
        let rows: u64 = self.rowsets.iter().map(|rowset| rowset.info.len).sum();
        index + rows
    }

    /// What the manifest says of its index files.
    pub(super) fn index_infos(&self) -> Vec<FileInfo> {
        self.index.iter().map(|file| file.info.clone()).collect()
    }

    /// The edit that puts it on top of its tablet.
    pub(crate) fn edit(&self, tablet: TabletId) -> TabletEdit {
        let files = self.index_infos();
        TabletEdit {
            tablet,
            flushed_through: Some(self.through),
            removed_runs: Vec::new(),
            added_runs: if files.is_empty() { Vec::new() } else { vec![RunDesc { id: self.run_id, files }] },
            added_rowsets: self.rowsets.iter().map(rowset_info).collect(),
            removed_rowsets: Vec::new(),
        }
    }

    /// Removes the files, which no edit will name.
    pub(super) fn discard(&self, files: &Files) {
        files.remove_unfinished(self.index.iter().map(|file| (file.info.id, FileKind::Index)));
        files.remove_unfinished(self.rowsets.iter().map(|rowset| (rowset.info.id, FileKind::Rows)));
    }
}

/// The options of the rowsets of a flush. Over as many others as never stay they will be moved for certain, and are
/// compressed then: twice would be once too often.
pub(super) fn flush_rowset_options(
    options: &Options,
    tablet: &Tablet,
    memtable: &Arc<Memtable>,
) -> RowsetOptions {
    let mut rows = rowset_options(options, &tablet.owner());
    if let Some((first, last)) = memtable.ends()
        && compaction::depth_under(&tablet.view.pin(), &first, &last) >= compaction::DEPTH_MAX_IDLE
    {
        rows.file.compression = sstable::Compression::None;
    }
    rows
}

/// Writes one memtable as rowsets and one run. The files are synced, the directory is not.
pub(crate) fn write_memtable(
    files: &Arc<Files>,
    options: &Options,
    owner: &Arc<[u8]>,
    rowset_options: RowsetOptions,
    memtable: &Memtable,
    retention: &Retention,
) -> Result<Flushed, Error> {
    let index_outputs = Outputs::new(files, FileKind::Index);
    let row_outputs = Outputs::new(files, FileKind::Rows);
    let write = || {
        let through = memtable.versions().map_or(Version(0), |(_, last)| last);
        let mut sample = KeySample::of(memtable.entries());
        let (index, rowsets) = write_files(
            (&index_outputs, &row_outputs),
            (&run_options(options, owner), rowset_options),
            memtable,
            retention,
            &mut sample,
        )?;
        Ok(Flushed { run_id: files.next_id().0, index, rowsets, through, sample })
    };
    let written = write();
    if written.is_err() {
        index_outputs.discard();
        row_outputs.discard();
    }
    written
}

fn write_files(
    (index_outputs, row_outputs): (&dyn Output, &dyn Output),
    (run_options, rowset_options): (&RunOptions, RowsetOptions),
    memtable: &Memtable,
    retention: &Retention,
    sample: &mut KeySample,
) -> Result<(Vec<WrittenFile>, Vec<WrittenRowset>), Error> {
    let mut runs = RunWriter::new(index_outputs, run_options);
    let mut rows = RowsetWriter::new(row_outputs, rowset_options);
    let mut key: Vec<u8> = Vec::new();
    let mut entries: Vec<Entry> = Vec::new();
    let mut newer = None;
    memtable.for_each_sorted(|next, version, op| {
        if newer.is_none() || next != key.as_slice() {
            if !entries.is_empty() {
                runs.add(&key, Some(hash_key(&key)), &entries)?;
                entries.clear();
            }
            key.clear();
            key.extend_from_slice(next);
            sample.offer(next);
            newer = None;
        }
        if retention.needs(version, newer) {
            entries.push(match op {
                MemOp::Put { schema, row } => Entry::put(version, rows.push(&key, version, schema, row)?),
                MemOp::Delete => Entry::deletion(version),
            });
        }
        newer = Some(version);
        Ok::<Older, Error>(if retention.needs_older_than(version) { Older::Wanted } else { Older::Unwanted })
    })?;
    if !entries.is_empty() {
        runs.add(&key, Some(hash_key(&key)), &entries)?;
    }
    let rowsets = rows.finish()?;
    Ok((runs.finish()?, rowsets))
}
