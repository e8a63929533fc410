//! Takes what the log has: of each key the newest operation.
//!
//! A log that recovery would read is read as recovery does. Otherwise record by record: up to the first damaged place
//! everything is taken; what lies behind it as the options say, and either way it is told.

use std::collections::BTreeMap;

use codec::{FileId, SchemaVersion, TableId, Version};
use encoded_key::KeyDecoder;

use super::report::{KeyRange, Loss, LossKind, RepairReport, TornLog};
use super::root::Root;
use super::stock::{Stock, Table};
use super::{LogAfterDamage, Patient, VERSION_MAX};
use crate::batch::ops::{Op, OpKind, Ops};
use crate::error::{Error, ErrorKind};
use crate::files::{FileKind, file_name};
use crate::recovery::log_options;
use crate::schema::RowLayouts;

/// The newest operation on a key.
pub(super) struct LogOp {
    pub(super) version: Version,
    /// The row, unless it is a deletion.
    pub(super) row: Option<(SchemaVersion, Vec<u8>)>,
}

/// Of each table, the newest operation of each key.
pub(super) type LogOps = BTreeMap<TableId, BTreeMap<Vec<u8>, LogOp>>;

/// What was taken of the log.
pub(super) struct LogTaken {
    pub(super) ops: LogOps,
    /// The last version that was read.
    pub(super) last_version: Version,
    /// Why the manifest, which can be read whole, is not all there was.
    pub(super) lost_edits: Option<String>,
}

/// Reads the log.
///
/// # Errors
/// `UnsupportedFormat`.
pub(super) fn read(
    patient: &Patient<'_>,
    root: &Root,
    stock: &Stock,
    report: &mut RepairReport,
) -> Result<LogTaken, Error> {
    let options = log_options(&patient.options.engine, patient.dir);
    let present = patient.listing.of(FileKind::Log);
    let mut taker = Taker {
        tables: stock.tables.iter().map(|table| (table.desc.id, table)).collect(),
        root,
        lost_edits: None,
        ops: LogOps::new(),
        last_version: Version(0),
        gap: None,
        left_out: BTreeMap::new(),
        unknown: BTreeMap::new(),
        after_damage: patient.options.log_after_damage,
        report,
    };
    let mut strict = None;
    if root.is_whole {
        let attested = root.state.attested.unwrap_or_default();
        match wal::scan_attested(&options, root.state.log_start, &present, attested) {
            Ok(scan) => {
                taker.whole(&scan)?;
                return Ok(taker.finish());
            }
            Err(error) if error.is_unsupported_format() => return Err(error.into()),
            Err(error) => strict = Some(error.to_string()),
        }
    }
    let start = root.state.log_start;
    let segments: Vec<FileId> = present.into_iter().filter(|id| *id >= start).collect();
    taker.report.log_segments = segments.len() as u64;
    if root.is_whole && !segments.contains(&start) {
        let at = wal::Position { segment: start, offset: 0 };
        let why = "the segment is missing".to_owned();
        taker.gap(wal::Gap { at, bytes: 0, is_tail: false, hides_records: true, why });
    }
    wal::salvage(&options, &segments, &mut |piece| match piece {
        wal::Piece::Record(record) => taker.record(&record),
        wal::Piece::Gap(gap) => taker.gap(gap),
    })?;
    if let Some(why) = strict
        && taker.gap.is_none()
    {
        // What is damaged is all there is behind the last record.
        let at = segments.last().map_or(start, |last| *last);
        let at = wal::Position { segment: at, offset: 0 };
        taker.gap(wal::Gap { at, bytes: 0, is_tail: true, hides_records: true, why });
    }
    Ok(taker.finish())
}

/// Operations behind a damaged place.
#[derive(Default)]
struct LeftOut {
    operations: u64,
    versions: Option<(Version, Version)>,
    keys: Option<(Vec<u8>, Vec<u8>)>,
}

struct Taker<'a> {
    tables: BTreeMap<TableId, &'a Table>,
    root: &'a Root,
    lost_edits: Option<String>,
    ops: LogOps,
    last_version: Version,
    /// The first damaged place that hides records.
    gap: Option<wal::Gap>,
    left_out: BTreeMap<TableId, LeftOut>,
    /// Operations on tables of which nothing else is known.
    unknown: BTreeMap<TableId, u64>,
    after_damage: LogAfterDamage,
    report: &'a mut RepairReport,
}

impl Taker<'_> {
    /// Takes a log that recovery would take.
    fn whole(&mut self, scan: &wal::Scan) -> Result<(), Error> {
        self.report.log_segments = scan.segments.len() as u64;
        if let Some(torn) = &scan.torn {
            self.report.torn = Some(TornLog {
                file: file_name(torn.at.segment, FileKind::Log),
                offset: torn.at.offset,
                bytes: torn.bytes,
                reason: torn.reason.clone(),
            });
        }
        let mut replay = scan.replay();
        loop {
            match replay.next() {
                Ok(Some(record)) => self.record(&record),
                Ok(None) => return Ok(()),
                Err(error) => {
                    let error = Error::from(error);
                    if error.kind() == ErrorKind::UnsupportedFormat {
                        return Err(error);
                    }
                    let (at, why) = (scan.end, error.to_string());
                    self.gap(wal::Gap { at, bytes: 0, is_tail: false, hides_records: true, why });
                    return Ok(());
                }
            }
        }
    }

    fn gap(&mut self, gap: wal::Gap) {
        let name = file_name(gap.at.segment, FileKind::Log);
        if !gap.hides_records {
            self.report.note(format!("{name}: the header is damaged ({}); its records are read", gap.why));
            return;
        }
        let mut loss = Loss::new(LossKind::Log, gap.why.clone()).in_file(name);
        (loss.offset, loss.bytes) = (Some(gap.at.offset), Some(gap.bytes));
        // Up to where is learnt from the next record.
        loss.versions = Some((self.last_version.next(), Version::MAX));
        self.report.lose(loss);
        self.gap.get_or_insert(gap);
    }

    fn record(&mut self, record: &wal::ReplayRecord<'_>) {
        if self.gap.is_some()
            && let Some(loss) = self.report.losses.iter_mut().rev().find(|loss| loss.kind == LossKind::Log)
            && let Some((first, last)) = &mut loss.versions
            && *last == Version::MAX
        {
            *last = Version(record.first_version.0.saturating_sub(1)).max(*first);
        }
        self.look_for_lost_schemas(record);
        // All of a batch or nothing.
        if let Err(why) = self.check_batch(record) {
            let (at, bytes) = (record.position, record.end.offset.saturating_sub(record.position.offset));
            let why = format!("the batch at {at}: {why}");
            self.gap(wal::Gap { at, bytes, is_tail: false, hides_records: true, why });
            return;
        }
        let is_taken = self.gap.is_none() || self.after_damage == LogAfterDamage::Take;
        let mut version = record.first_version;
        for op in Ops::new(record.body).flatten() {
            self.look_for_lost_edits(&op, version);
            if self.gap.is_some() {
                self.note_behind(&op, version);
            }
            if is_taken {
                self.op(&op, version);
            }
            self.last_version = self.last_version.max(version);
            version = version.next();
        }
        self.report.log_batches += u64::from(is_taken);
    }

    fn check_batch(&self, record: &wal::ReplayRecord<'_>) -> Result<(), String> {
        let mut last = record.first_version;
        for op in Ops::new(record.body) {
            self.check(&op.map_err(|error| error.to_string())?)?;
            if last.0 == 0 || last > VERSION_MAX {
                return Err(format!("version {last} was never given out"));
            }
            last = last.next();
        }
        Ok(())
    }

    /// The manifest names a table, and a ceiling of versions, before the log may speak of them.
    fn look_for_lost_edits(&mut self, op: &Op<'_>, version: Version) {
        let state = &self.root.state;
        let is_known = op.table < state.next_table && version <= state.version_ceiling;
        if self.root.is_whole && !is_known && self.lost_edits.is_none() {
            self.lost_edits = Some(format!(
                "it has lost edits: the log holds version {version} of table {}, and it knows tables below {} and versions \
                 up to {} only",
                op.table, state.next_table, state.version_ceiling
            ));
        }
    }

    /// It names a schema, too. Its rows may be readable by what files say of themselves.
    fn look_for_lost_schemas(&mut self, record: &wal::ReplayRecord<'_>) {
        if !self.root.is_whole || self.lost_edits.is_some() {
            return;
        }
        for op in Ops::new(record.body).flatten().filter(|op| op.kind == OpKind::Put) {
            let Some(table) = self.tables.get(&op.table) else { continue };
            let newest = table.schema.version();
            if op.schema > newest {
                self.lost_edits = Some(format!(
                    "it has lost edits: the log holds a row of schema version {} of table {}, and it knows versions up to \
                     {newest} only",
                    op.schema, op.table
                ));
                return;
            }
        }
    }

    fn check(&self, op: &Op<'_>) -> Result<(), String> {
        if op.kind == OpKind::Update {
            return Err("an update, which is never logged".to_owned());
        }
        let Some(table) = self.tables.get(&op.table) else { return Ok(()) };
        is_key(table, op.key)?;
        if op.kind == OpKind::Put {
            is_row(table, op.schema, op.row)?;
        }
        Ok(())
    }

    fn op(&mut self, op: &Op<'_>, version: Version) {
        if !self.tables.contains_key(&op.table) {
            // With a whole manifest it was dropped.
            if !self.root.is_whole {
                *self.unknown.entry(op.table).or_default() += 1;
            }
            return;
        }
        self.report.log_operations += 1;
        let row = (op.kind == OpKind::Put).then(|| (op.schema, op.row.to_vec()));
        let ops = self.ops.entry(op.table).or_default();
        match ops.get_mut(op.key) {
            Some(known) if known.version >= version => {}
            Some(known) => *known = LogOp { version, row },
            None => {
                ops.insert(op.key.to_vec(), LogOp { version, row });
            }
        }
    }

    fn note_behind(&mut self, op: &Op<'_>, version: Version) {
        if !self.tables.contains_key(&op.table) {
            return;
        }
        let behind = self.left_out.entry(op.table).or_default();
        behind.operations += 1;
        let (first, last) = behind.versions.unwrap_or((version, version));
        behind.versions = Some((first.min(version), last.max(version)));
        match &mut behind.keys {
            None => behind.keys = Some((op.key.to_vec(), op.key.to_vec())),
            Some((first, last)) => {
                if op.key < first.as_slice() {
                    *first = op.key.to_vec();
                }
                if op.key > last.as_slice() {
                    *last = op.key.to_vec();
                }
            }
        }
    }

    fn finish(self) -> LogTaken {
        let Taker { tables, left_out, unknown, after_damage, report, ops, last_version, lost_edits, .. } =
            self;
        for (id, behind) in left_out {
            let Some(table) = tables.get(&id) else { continue };
            let why = match after_damage {
                LogAfterDamage::LeaveOut => "they are left out",
                LogAfterDamage::Take => "they are taken, although what came before them is not all there",
            };
            let mut loss = Loss::new(LossKind::LogAfterDamage, why).of_table(&table.desc.name);
            loss.count = Some(behind.operations);
            loss.versions = behind.versions;
            if let Some((first, last)) = behind.keys {
                use std::ops::Bound::Included;
                loss.keys = KeyRange { lower: Included(first), upper: Included(last) };
            }
            report.lose_keys(loss, &table.schema);
        }
        for (id, operations) in unknown {
            let why = format!("the log has operations on table {id}, and no file says what it is");
            let mut loss = Loss::new(LossKind::Table, why);
            // It is no table that is known.
            loss.table = Some(format!("table {id}"));
            loss.count = Some(operations);
            report.lose(loss);
        }
        LogTaken { ops, last_version, lost_edits }
    }
}

/// Whether bytes are a key of a table.
pub(super) fn is_key(table: &Table, key: &[u8]) -> Result<(), String> {
    let mut decoder = KeyDecoder::new(table.schema.key_layout(), key);
    let mut scratch = Vec::new();
    (0..table.schema.key_columns())
        .try_for_each(|_| decoder.next_column(&mut scratch).map(drop))
        .and_then(|()| decoder.finish())
        .map_err(|error| format!("a key does not decode: {error}"))
}

/// Whether bytes are a row of a table.
pub(super) fn is_row(table: &Table, schema: SchemaVersion, row: &[u8]) -> Result<(), String> {
    RowLayouts::new(&table.schema).verify(schema, row).map_err(|error| error.to_string())
}
