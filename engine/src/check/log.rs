//! Checks the write-ahead log: its segments are one chain, whole up to where the writer says that it ends, and every
//! batch in it decodes.
//!
//! Writers go on. What they append meanwhile is not looked at; a segment that is deleted meanwhile is not missed.

use std::collections::BTreeMap;

use codec::{FileId, TableId, Version};
use encoded_key::KeyDecoder;
use wal::{ReplayRecord, Verifier};

use super::report::{CheckReport, Findings, ProblemKind};
use crate::batch::ops::{Op, OpKind, Ops};
use crate::core::Core;
use crate::error::Error;
use crate::recovery::log_options;
use crate::schema::{RowLayouts, Schema};

/// Checks the log.
pub(super) fn check(core: &Core, report: &mut CheckReport) -> Result<(), Error> {
    // After a failed write or sync nobody knows what is on disk of what was not synced before.
    let segments: Vec<(FileId, u64)> = match core.health.is_poisoned() {
        true => core.log.synced_segments(),
        false => core.log.segments().into_iter().map(|segment| (segment.id, segment.bytes)).collect(),
    };
    // After the end of the log was fixed: a row before it has a schema that its table has had by now.
    let schemas: Vec<_> = core.catalog.all().iter().map(|table| (table.id, table.newest.newest())).collect();
    let layouts = schemas.iter().map(|(id, schema)| (*id, (&**schema, RowLayouts::new(schema)))).collect();
    report.log_segments += segments.len() as u64;
    let mut walk = Walk {
        findings: Findings::new(report),
        layouts,
        last_version: Version(0),
        scratch: Vec::new(),
        damaged: Vec::new(),
    };
    let bytes = wal::verify(&log_options(&core.options, &core.files.dir), &segments, &mut walk)?;
    let Walk { mut findings, damaged, .. } = walk;
    findings.report.bytes += bytes;
    let kept = core.log.segments();
    for (segment, error) in damaged {
        // A flush may have freed the segment since.
        if kept.iter().any(|kept| kept.id == segment) {
            findings.log(ProblemKind::Log, &error);
        }
    }
    Ok(())
}

struct Walk<'a> {
    findings: Findings<'a>,
    layouts: BTreeMap<TableId, (&'a Schema, RowLayouts<'a>)>,
    last_version: Version,
    scratch: Vec<u8>,
    damaged: Vec<(FileId, wal::Error)>,
}

impl Verifier for Walk<'_> {
    fn record(&mut self, record: ReplayRecord<'_>) {
        self.findings.report.log_batches += 1;
        let (at, file) = (record.position, Some(record.position.segment));
        if record.first_version <= self.last_version {
            let what = format_args!("the first version of the batch at {at}, above the one before");
            self.findings.differs(
                ProblemKind::Log,
                file,
                what,
                self.last_version.next(),
                record.first_version,
            );
        }
        let mut version = record.first_version;
        for op in Ops::new(record.body) {
            let checked = op.map_err(|error| error.to_string()).and_then(|op| self.op(&op));
            if let Err(error) = checked {
                let what = format_args!("the operation of version {version} in the batch at {at}: {error}");
                self.findings.found(ProblemKind::Log, file, what);
                break;
            }
            self.last_version = version;
            version = version.next();
        }
    }

    fn found(&mut self, segment: FileId, error: wal::Error) {
        self.damaged.push((segment, error));
    }
}

impl Walk<'_> {
    fn op(&mut self, op: &Op<'_>) -> Result<(), String> {
        if op.kind == OpKind::Update {
            return Err("an update, which is never logged".to_owned());
        }
        // The table may have been dropped since.
        let Some((schema, layouts)) = self.layouts.get_mut(&op.table) else { return Ok(()) };
        let mut decoder = KeyDecoder::new(schema.key_layout(), op.key);
        (0..schema.key_columns())
            .try_for_each(|_| decoder.next_column(&mut self.scratch).map(drop))
            .and_then(|()| decoder.finish())
            .map_err(|error| format!("its key does not decode: {error}"))?;
        if op.kind == OpKind::Put {
            layouts.verify(op.schema, op.row).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}
