//! The row of a version.
//!
//! By its ordinal where the rowset's block index can be read, and by its version where not: no other row has it. Either
//! way the version stored with the row must be the one that was asked for, so that none is taken for another.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use codec::{FileId, Location, RowId, RowsetId, SchemaVersion, Version};
use sstable::{Cache, Caching, Direction, FileInfo, OrdinalCursor, OrdinalReader, OrdinalSalvage, RowBlock};

use super::report::{Loss, LossKind, RepairReport};
use super::{Patient, fails_repair};
use crate::error::Error;
use crate::files::{FileKind, file_name, path};
use crate::rowset::stored_row;

/// Enough for the block indexes of the rowsets that are read; rows are not kept.
const CACHE_BYTES: usize = 32 << 20;

/// All rowsets, opened as they are needed.
pub(super) struct RowSources<'a> {
    patient: &'a Patient<'a>,
    known: BTreeMap<RowsetId, Option<FileInfo>>,
    open: BTreeMap<RowsetId, RowSource>,
    /// The rowsets that some entry led to.
    asked: BTreeSet<RowsetId>,
    cache: Arc<Cache>,
}

/// A row that was found.
pub(super) struct FoundRow {
    pub(super) schema: SchemaVersion,
    pub(super) row: Vec<u8>,
}

/// One rowset, as far as it can be read.
struct RowSource {
    /// Reads by ordinal, if the file's end can be read; or why nothing of the file is taken.
    rows: Result<Option<OrdinalCursor>, String>,
    /// Reads by version; made when a row cannot be read otherwise. `Some(None)` if that cannot be.
    by_version: Option<Option<ByVersion>>,
}

struct ByVersion {
    salvage: OrdinalSalvage,
    /// Version, block and index in the block, ascending.
    places: Vec<(Version, u32, u32)>,
    block: Option<(u32, RowBlock)>,
}

impl<'a> RowSources<'a> {
    pub(super) fn new(
        patient: &'a Patient<'a>,
        known: BTreeMap<RowsetId, Option<FileInfo>>,
    ) -> RowSources<'a> {
        let (open, asked) = (BTreeMap::new(), BTreeSet::new());
        RowSources { patient, known, open, asked, cache: Cache::new(CACHE_BYTES) }
    }

    /// Closes the rowsets of a table that is done.
    pub(super) fn close(&mut self) {
        self.open.clear();
    }

    /// Tells of rowsets that nothing has led to, if no manifest says what belongs together: they may be left over, or
    /// the index file that led to them may be gone.
    pub(super) fn tell_unread(&self, report: &mut RepairReport) {
        for (&id, info) in &self.known {
            if info.is_none() && !self.asked.contains(&id) {
                let why =
                    "no index file leads to its rows: they are missing, unless it is left over from before";
                report.lose(Loss::new(LossKind::File, why).in_file(file_name(id.into(), FileKind::Rows)));
            }
        }
    }

    /// The row that was written as `version`, which an entry says lies at `location`; or why it cannot be read.
    ///
    /// # Errors
    /// Those that say nothing of the file; `UnsupportedFormat`.
    pub(super) fn get(
        &mut self,
        location: Location,
        version: Version,
    ) -> Result<Result<FoundRow, String>, Error> {
        let Some(expected) = self.known.get(&location.rowset) else {
            return Ok(Err("no such rowset is known".to_owned()));
        };
        let source = match self.open.entry(location.rowset) {
            Entry::Occupied(source) => source.into_mut(),
            Entry::Vacant(place) => {
                self.asked.insert(location.rowset);
                let opened = RowSource::open(self.patient, location.rowset, expected.as_ref(), &self.cache)?;
                place.insert(opened)
            }
        };
        source.get(self.patient, location, version)
    }
}

impl RowSource {
    fn open(
        patient: &Patient<'_>,
        id: RowsetId,
        expected: Option<&FileInfo>,
        cache: &Arc<Cache>,
    ) -> Result<RowSource, Error> {
        let file = FileId::from(id);
        let path = path(patient.dir, file, FileKind::Rows);
        let rows = match OrdinalReader::open(&**patient.fs(), &path, file, Arc::clone(cache), None) {
            Ok(reader) => {
                let info = reader.info();
                match expected {
                    // It is whole, and not the one that belongs here.
                    Some(expected)
                        if (expected.len, expected.footer_checksum) != (info.len, info.footer_checksum) =>
                    {
                        Err("the file is another one than the manifest names".to_owned())
                    }
                    _ => {
                        let mut rows = reader.cursor(Direction::Forward);
                        rows.set_caching(Caching::Leave);
                        Ok(Some(rows))
                    }
                }
            }
            Err(error) if error.is_corruption() => Ok(None),
            Err(error) if error.is_unsupported() || fails_repair(error.io()) => return Err(error.into()),
            // The disk may not give the end of the file only.
            Err(error) if error.io().is_some_and(|error| error.kind() != std::io::ErrorKind::NotFound) => {
                Ok(None)
            }
            Err(error) => Err(error.to_string()),
        };
        Ok(RowSource { rows, by_version: None })
    }

    fn get(
        &mut self,
        patient: &Patient<'_>,
        at: Location,
        version: Version,
    ) -> Result<Result<FoundRow, String>, Error> {
        let why = match &mut self.rows {
            Err(why) => return Ok(Err(why.clone())),
            Ok(None) => "the file has no end that can be read".to_owned(),
            Ok(Some(rows)) => match by_ordinal(rows, at, version) {
                Ok(found) => return Ok(Ok(found)),
                Err(why) => why,
            },
        };
        let by_version = match &mut self.by_version {
            Some(by_version) => by_version,
            None => self.by_version.insert(match ByVersion::learn(patient, at.rowset) {
                Ok(learnt) => Some(learnt),
                Err(error) if error.is_unsupported() || fails_repair(error.io()) => return Err(error.into()),
                Err(_) => None,
            }),
        };
        Ok(by_version.as_mut().and_then(|by_version| by_version.get(at, version)).ok_or(why))
    }
}

fn by_ordinal(rows: &mut OrdinalCursor, at: Location, version: Version) -> Result<FoundRow, String> {
    let bytes = rows.get(at.rowid.0).map_err(|error| error.to_string())?;
    let (found, schema, row) = stored_row(bytes, at).map_err(|error| error.to_string())?;
    if found != version {
        return Err(format!("{at}: version {version} expected, {found} found"));
    }
    Ok(FoundRow { schema, row: row.to_vec() })
}

impl ByVersion {
    /// Reads all of a rowset once, to know where each version lies.
    fn learn(patient: &Patient<'_>, id: RowsetId) -> Result<ByVersion, sstable::Error> {
        let file = FileId::from(id);
        let salvage = OrdinalSalvage::open(&**patient.fs(), &path(patient.dir, file, FileKind::Rows), file)?;
        let mut places = Vec::new();
        for number in 0..salvage.blocks() {
            let Ok(block) = salvage.block(number) else { continue };
            for index in 0..block.len() {
                let at = Location { rowset: id, rowid: RowId(0) };
                let parts = block.row(index).and_then(|bytes| stored_row(bytes, at).ok());
                if let (Some((version, _, _)), Ok(number), Ok(index)) =
                    (parts, u32::try_from(number), u32::try_from(index))
                {
                    places.push((version, number, index));
                }
            }
        }
        places.sort_unstable();
        Ok(ByVersion { salvage, places, block: None })
    }

    fn get(&mut self, at: Location, version: Version) -> Option<FoundRow> {
        let first = self.places.partition_point(|place| place.0 < version);
        let &(found, number, index) = self.places.get(first)?;
        // A version that two rows claim belongs to neither.
        let is_only = self.places.get(first + 1).is_none_or(|next| next.0 != version);
        if found != version || !is_only {
            return None;
        }
        if self.block.as_ref().is_none_or(|(held, _)| *held != number) {
            self.block = Some((number, self.salvage.block(number as usize).ok()?));
        }
        let (_, block) = self.block.as_ref()?;
        let (_, schema, row) = stored_row(block.row(index as usize)?, at).ok()?;
        Some(FoundRow { schema, row: row.to_vec() })
    }
}
