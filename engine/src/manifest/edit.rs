//! Edits: what a change of the view looks like in the manifest.
//!
//! Owns the typed form of `proto/manifest.proto` and its strict decoding. Never touches a file.

use codec::{FileId, RowsetId, TableId, TabletId, Version};
use prost::Message;
use sstable::FileInfo;
use wal::Position;

use super::pb;
use crate::error::Error;
use crate::rowset::rowset_id;

/// One change of what is on disk, atomic as one record of the manifest.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Edit {
    pub(crate) log_start: Option<FileId>,
    pub(crate) next_file: Option<FileId>,
    pub(crate) version_ceiling: Option<Version>,
    pub(crate) attested: Option<Position>,
    pub(crate) durable_through: Option<Version>,
    pub(crate) next_table: Option<TableId>,
    pub(crate) next_tablet: Option<TabletId>,
    pub(crate) tables: Vec<TableDesc>,
    pub(crate) dropped_tables: Vec<TableId>,
    pub(crate) tablets: Vec<TabletEdit>,
}

/// A table as the manifest knows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TableDesc {
    pub(crate) id: TableId,
    pub(crate) name: String,
    /// The schema's own encoding.
    pub(crate) schema: Vec<u8>,
    pub(crate) tablets: Vec<TabletId>,
}

/// What changes in one tablet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TabletEdit {
    pub(crate) tablet: TabletId,
    pub(crate) flushed_through: Option<Version>,
    pub(crate) removed_runs: Vec<u64>,
    /// Newest first. They take the place of `removed_runs`, or go on top.
    pub(crate) added_runs: Vec<RunDesc>,
    pub(crate) added_rowsets: Vec<FileInfo>,
    pub(crate) removed_rowsets: Vec<RowsetId>,
}

/// An index run: its files in key order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunDesc {
    pub(crate) id: u64,
    pub(crate) files: Vec<FileInfo>,
}

fn damaged(what: impl std::fmt::Display) -> Error {
    Error::corruption(format!("a manifest edit cannot be read: {what}"))
}

fn file_to_pb(info: &FileInfo) -> pb::File {
    pb::File {
        id: info.id.0,
        length: info.len,
        footer_checksum: info.footer_checksum,
        entries: info.entries,
        first_key: info.first_key.clone(),
        last_key: info.last_key.clone(),
    }
}

fn file_from_pb(file: pb::File) -> FileInfo {
    FileInfo {
        id: FileId(file.id),
        len: file.length,
        footer_checksum: file.footer_checksum,
        entries: file.entries,
        first_key: file.first_key,
        last_key: file.last_key,
    }
}

impl Edit {
    /// Whether it may be the first of a manifest, which says all there is.
    pub(crate) fn is_complete(&self) -> bool {
        self.log_start.is_some()
            && self.next_file.is_some()
            && self.version_ceiling.is_some()
            && self.next_table.is_some()
            && self.next_tablet.is_some()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        pb::Edit {
            log_start: self.log_start.map(|id| id.0),
            next_file: self.next_file.map(|id| id.0),
            version_ceiling: self.version_ceiling.map(|version| version.0),
            attested: self.attested.map(|at| pb::LogPosition { segment: at.segment.0, offset: at.offset }),
            durable_through: self.durable_through.map(|version| version.0),
            next_table: self.next_table.map(|id| id.0),
            next_tablet: self.next_tablet.map(|id| id.0),
            tables: self
                .tables
                .iter()
                .map(|table| pb::Table {
                    id: table.id.0,
                    name: table.name.clone(),
                    schema: table.schema.clone(),
                    tablets: table.tablets.iter().map(|id| id.0).collect(),
                })
                .collect(),
            dropped_tables: self.dropped_tables.iter().map(|id| id.0).collect(),
            tablets: self.tablets.iter().map(TabletEdit::to_pb).collect(),
        }
        .encode_to_vec()
    }

    /// # Errors
    /// `Corruption`; `UnsupportedFormat` for an edit that says more than this version knows: the next manifest would be
    /// written without it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Edit, Error> {
        let edit = pb::Edit::decode(bytes).map_err(damaged)?;
        let (known, len) = (edit.encoded_len(), bytes.len());
        if known != len {
            return Err(Error::newer(format_args!(
                "a manifest edit of {len} bytes, of which {known} are known"
            )));
        }
        Ok(Edit {
            log_start: edit.log_start.map(FileId),
            next_file: edit.next_file.map(FileId),
            version_ceiling: edit.version_ceiling.map(Version),
            attested: edit.attested.map(|at| Position { segment: FileId(at.segment), offset: at.offset }),
            durable_through: edit.durable_through.map(Version),
            next_table: edit.next_table.map(TableId),
            next_tablet: edit.next_tablet.map(TabletId),
            tables: edit
                .tables
                .into_iter()
                .map(|table| TableDesc {
                    id: TableId(table.id),
                    name: table.name,
                    schema: table.schema,
                    tablets: table.tablets.into_iter().map(TabletId).collect(),
                })
                .collect(),
            dropped_tables: edit.dropped_tables.into_iter().map(TableId).collect(),
            tablets: edit.tablets.into_iter().map(TabletEdit::from_pb).collect::<Result<_, _>>()?,
        })
    }
}

impl TabletEdit {
    fn to_pb(&self) -> pb::TabletEdit {
        pb::TabletEdit {
            tablet: self.tablet.0,
            flushed_through: self.flushed_through.map(|version| version.0),
            removed_runs: self.removed_runs.clone(),
            added_runs: self
                .added_runs
                .iter()
                .map(|run| pb::Run { id: run.id, files: run.files.iter().map(file_to_pb).collect() })
                .collect(),
            added_rowsets: self
                .added_rowsets
                .iter()
                .map(|info| pb::Rowset { file: Some(file_to_pb(info)) })
                .collect(),
            removed_rowsets: self.removed_rowsets.iter().map(|id| u64::from(id.0)).collect(),
        }
    }

    fn from_pb(edit: pb::TabletEdit) -> Result<TabletEdit, Error> {
        Ok(TabletEdit {
            tablet: TabletId(edit.tablet),
            flushed_through: edit.flushed_through.map(Version),
            removed_runs: edit.removed_runs,
            added_runs: edit
                .added_runs
                .into_iter()
                .map(|run| RunDesc { id: run.id, files: run.files.into_iter().map(file_from_pb).collect() })
                .collect(),
            added_rowsets: edit
                .added_rowsets
                .into_iter()
                .map(|rowset| {
                    let info = file_from_pb(rowset.file.ok_or_else(|| damaged("a rowset without a file"))?);
                    rowset_id(info.id)?;
                    Ok(info)
                })
                .collect::<Result<_, Error>>()?,
            removed_rowsets: edit
                .removed_rowsets
                .into_iter()
                .map(|id| rowset_id(FileId(id)))
                .collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn edit() -> Edit {
        let info = FileInfo {
            id: FileId(7),
            len: 900,
            footer_checksum: 1,
            entries: 2,
            first_key: vec![1],
            last_key: vec![2],
        };
        let table =
            TableDesc { id: TableId(1), name: "t".into(), schema: vec![8, 1], tablets: vec![TabletId(1)] };
        let tablet = TabletEdit {
            tablet: TabletId(1),
            flushed_through: Some(Version(9)),
            added_runs: vec![RunDesc { id: 6, files: vec![info.clone()] }],
            added_rowsets: vec![info],
            ..TabletEdit::default()
        };
        Edit { log_start: Some(FileId(0)), tables: vec![table], tablets: vec![tablet], ..Edit::default() }
    }

    #[test]
    fn an_edit_that_says_more_than_is_known_is_refused_as_newer() {
        const FIELD_99: [u8; 3] = [0x98, 0x06, 1];
        let plain = edit().encode();
        Edit::decode(&plain).expect("just encoded");
        let at_the_end = [&plain[..], &FIELD_99].concat();
        let mut message = pb::Edit::decode(&plain[..]).expect("just encoded");
        let table = [&message.tables.remove(0).encode_to_vec()[..], &FIELD_99].concat();
        let mut in_the_table = message.encode_to_vec();
        in_the_table.extend([7 << 3 | 2, u8::try_from(table.len()).expect("a short table")]);
        in_the_table.extend(table);
        for bytes in [at_the_end, in_the_table] {
            let error = Edit::decode(&bytes).expect_err("there is more than is known");
            assert_eq!(error.kind(), ErrorKind::UnsupportedFormat, "{error}");
        }
    }
}
