//! Checks one rowset: its bytes, and that each of its rows, live or not, decodes.

use std::sync::Arc;

use codec::{Location, RowId};
use sstable::{FindingKind, Verifier};

use super::report::{Findings, ProblemKind};
use crate::error::Error;
use crate::rowset::{Rowset, stored_row};
use crate::schema::{RowLayouts, Schema};
use crate::view::TabletView;

/// Checks one rowset.
pub(super) fn check(
    schema: &Schema,
    view: &TabletView,
    rowset: &Arc<Rowset>,
    findings: &mut Findings<'_>,
) -> Result<(), Error> {
    findings.report.rowsets += 1;
    let (id, info) = (rowset.id().into(), rowset.info());
    let layouts = RowLayouts::new(schema);
    let mut walk = Walk { layouts, view, rowset, findings, is_whole: true };
    let report = rowset.reader().verify_with(&mut walk)?;
    let Walk { findings, is_whole, .. } = walk;
    findings.report.bytes += report.bytes;
    if is_whole {
        if (info.len, info.footer_checksum) != (report.bytes, report.footer_checksum) {
            let what = "length and footer checksum";
            let expected = format!("{}, {:08x}", info.len, info.footer_checksum);
            let found = format!("{}, {:08x}", report.bytes, report.footer_checksum);
            findings.differs(ProblemKind::WrongFile, Some(id), what, expected, found);
        }
        if info.entries != report.entries {
            findings.differs(ProblemKind::Counts, Some(id), "rows", info.entries, report.entries);
        }
    }
    if rowset.first_key() > rowset.last_key() {
        findings.found(ProblemKind::RowOrder, Some(id), "its first key is not before its last");
    }
    Ok(())
}

struct Walk<'a, 'r> {
    layouts: RowLayouts<'a>,
    view: &'a TabletView,
    rowset: &'a Rowset,
    findings: &'a mut Findings<'r>,
    is_whole: bool,
}

impl Verifier for Walk<'_, '_> {
    fn row(&mut self, ordinal: u32, row: &[u8]) {
        self.findings.report.rows += 1;
        let at = Location { rowset: self.rowset.id(), rowid: RowId(ordinal) };
        let file = Some(at.rowset.into());
        let (version, schema, row) = match stored_row(row, at) {
            Ok(parts) => parts,
            Err(error) => return self.findings.found(ProblemKind::Row, file, error),
        };
        if version.0 == 0 || version > self.view.flushed_through {
            let what = format_args!("{at}: the version of the row, at most the flushed one");
            self.findings.differs(ProblemKind::Versions, file, what, self.view.flushed_through, version);
        }
        if let Err(error) = self.layouts.verify(schema, row) {
            self.findings.found(ProblemKind::Row, file, format_args!("{at}: {error}"));
        }
    }

    fn found(&mut self, kind: FindingKind, error: sstable::Error) {
        self.is_whole &= !matches!(kind, FindingKind::Block | FindingKind::BlockIndex);
        self.findings.in_sstable(kind, &error);
    }
}
