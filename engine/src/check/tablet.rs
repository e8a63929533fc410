//! Checks the runs and rowsets of one view.
//!
//! Owns what holds between files: the order of runs and of the files in a run, their versions, and that each row has at
//! most one entry. What holds within a file is in `check/index_file.rs` and `check/rows.rs`.

use std::collections::BTreeMap;

use codec::{RowsetId, Version};

use super::report::{Findings, ProblemKind};
use super::{index_file, rows};
use crate::error::Error;
use crate::schema::Schema;
use crate::view::TabletView;

/// Checks one view. `go_on` says now and then whether to.
pub(crate) fn check(
    schema: &Schema,
    view: &TabletView,
    findings: &mut Findings<'_>,
    go_on: &dyn Fn() -> Result<(), Error>,
) -> Result<(), Error> {
    let mut taken = TakenRows::default();
    check_runs(view, findings);
    for run in &view.runs {
        let mut followed = index_file::Followed::default();
        for file in run.files() {
            go_on()?;
            index_file::check(schema, view, file, &mut taken, &mut followed, findings)?;
        }
    }
    for rowset in view.rowsets.iter() {
        go_on()?;
        rows::check(schema, view, rowset, findings)?;
        check_pointers(view, rowset.id(), rowset.info().entries, findings);
    }
    Ok(())
}

fn check_runs(view: &TabletView, findings: &mut Findings<'_>) {
    let ranges: Vec<(Version, Version)> = view.runs.iter().map(|run| run.versions()).collect();
    for (pair, runs) in ranges.windows(2).zip(view.runs.windows(2)) {
        let (newer, older) = (pair[0], pair[1]);
        if newer.0 <= older.1 {
            let file = runs[0].files().first().map(|file| file.info.id);
            findings.found(
                ProblemKind::Versions,
                file,
                format_args!(
                    "the run of versions {} to {} lies on the run of versions {} to {}",
                    newer.0, newer.1, older.0, older.1
                ),
            );
        }
    }
    if let Some((_, last)) = ranges.first()
        && *last > view.flushed_through
    {
        let what = "the greatest version in a run, at most the flushed one";
        findings.differs(ProblemKind::Versions, None, what, view.flushed_through, last);
    }
    for run in &view.runs {
        for pair in run.files().windows(2) {
            if pair[0].properties.last_key >= pair[1].properties.first_key {
                let what = format_args!("its keys do not come after those of file {}", pair[0].info.id);
                findings.found(ProblemKind::KeyOrder, Some(pair[1].info.id), what);
            }
        }
    }
    if view.run_ids.len() != view.runs.len() {
        let (expected, found) = (view.runs.len(), view.run_ids.len());
        findings.differs(ProblemKind::Manifest, None, "numbers of runs", expected, found);
    }
}

/// A rowset lies under exactly one run, which points to some of its rows.
fn check_pointers(view: &TabletView, rowset: RowsetId, rows: u64, findings: &mut Findings<'_>) {
    let counts =
        || view.runs.iter().map(|run| run.files().iter().map(|file| file.properties.entries_in(rowset)));
    let pointing = counts().filter(|files| files.clone().any(|entries| entries > 0)).count();
    let live = counts().flatten().fold(0, u64::saturating_add);
    let file = Some(rowset.into());
    if pointing != 1 {
        findings.differs(ProblemKind::Rowset, file, "index runs that point into the rowset", 1, pointing);
    }
    if live > rows {
        let what = format_args!("{live} index entries point to {rows} rows");
        findings.found(ProblemKind::Counts, file, what);
    }
}

/// Which rows some entry leads to. Its memory grows with what entries lead to, not with what a file says of itself.
#[derive(Default)]
pub(super) struct TakenRows(BTreeMap<(RowsetId, u32), Box<[u64; WORDS]>>);

const WORDS: usize = 64;

impl TakenRows {
    /// Notes that an entry leads to a row; false if another one does already.
    pub(super) fn take(&mut self, rowset: RowsetId, row: u32) -> bool {
        let page = (rowset, row / (64 * WORDS as u32));
        let bits = self.0.entry(page).or_insert_with(|| Box::new([0; WORDS]));
        let (word, bit) = (row as usize / 64 % WORDS, 1 << (row % 64));
        let is_free = bits[word] & bit == 0;
        bits[word] |= bit;
        is_free
    }
}
