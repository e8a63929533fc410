//! Which files the manifest names, by the fields of `engine/proto/manifest.proto` that are needed for that.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;

use super::Position;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Edit {
    #[prost(message, optional, tag = "4")]
    attested: Option<At>,
    #[prost(message, repeated, tag = "7")]
    tables: Vec<Table>,
    #[prost(uint32, repeated, tag = "8")]
    dropped_tables: Vec<u32>,
    #[prost(message, repeated, tag = "9")]
    tablets: Vec<Tablet>,
}

#[derive(Clone, PartialEq, Message)]
struct At {
    #[prost(uint64, optional, tag = "1")]
    segment: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    offset: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Table {
    #[prost(uint32, optional, tag = "1")]
    id: Option<u32>,
    #[prost(uint32, repeated, tag = "4")]
    tablets: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct Tablet {
    #[prost(uint32, optional, tag = "1")]
    tablet: Option<u32>,
    #[prost(uint64, repeated, tag = "3")]
    removed_runs: Vec<u64>,
    #[prost(message, repeated, tag = "4")]
    added_runs: Vec<Run>,
    #[prost(message, repeated, tag = "5")]
    added_rowsets: Vec<Rowset>,
    #[prost(uint64, repeated, tag = "6")]
    removed_rowsets: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Run {
    #[prost(uint64, optional, tag = "1")]
    number: Option<u64>,
    #[prost(message, repeated, tag = "2")]
    files: Vec<File>,
}

#[derive(Clone, PartialEq, Message)]
struct Rowset {
    #[prost(message, optional, tag = "1")]
    file: Option<File>,
}

#[derive(Clone, PartialEq, Message)]
struct File {
    #[prost(uint64, optional, tag = "1")]
    id: Option<u64>,
}

/// The numbers of the index and row files that edits name, one after the other.
#[derive(Debug, Default)]
pub(super) struct Named {
    tables: BTreeMap<u32, Vec<u32>>,
    tablets: BTreeMap<u32, TabletFiles>,
    /// How far the edits say that the log was synced.
    pub(super) attested: Vec<Position>,
}

#[derive(Debug, Default)]
struct TabletFiles {
    runs: BTreeMap<u64, Vec<u64>>,
    rowsets: BTreeSet<u64>,
}

impl Named {
    pub(super) fn apply(&mut self, body: &[u8]) {
        let edit = Edit::decode(body).expect("an edit");
        let at = edit.attested.map(|at| (at.segment.unwrap_or(0), at.offset.unwrap_or(0)));
        self.attested.extend(at);
        for table in edit.tables {
            self.tables.insert(table.id.unwrap_or(0), table.tablets);
        }
        for tablet in edit.tablets {
            let files = self.tablets.entry(tablet.tablet.unwrap_or(0)).or_default();
            files.runs.retain(|run, _| !tablet.removed_runs.contains(run));
            files.rowsets.retain(|rowset| !tablet.removed_rowsets.contains(rowset));
            for run in tablet.added_runs {
                let numbers = run.files.iter().filter_map(|file| file.id).collect();
                files.runs.insert(run.number.unwrap_or(0), numbers);
            }
            files.rowsets.extend(tablet.added_rowsets.iter().filter_map(|rowset| rowset.file.as_ref()?.id));
        }
        for table in edit.dropped_tables {
            for tablet in self.tables.remove(&table).into_iter().flatten() {
                self.tablets.remove(&tablet);
            }
        }
    }

    pub(super) fn has(&self, number: u64) -> bool {
        self.tablets.values().any(|files| {
            files.rowsets.contains(&number) || files.runs.values().flatten().any(|file| *file == number)
        })
    }
}
