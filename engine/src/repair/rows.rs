//! The row of a version.
//!
//! By its ordinal where the rowset's block index can be read, and by its version where not: no other row has it. Either
//! way the version stored with the row must be the one that was asked for, so that none is taken for another.

use std::collections::BTreeMap;
use std::sync::Arc;

use codec::{FileId, Location, RowId, RowsetId, SchemaVersion, Version};
use sstable::{Cache, Caching, Direction, FileInfo, OrdinalCursor, OrdinalReader, OrdinalSalvage, RowBlock};

use super::Patient;
use crate::files::{FileKind, path};
use crate::rowset::stored_row;

/// Enough for the block indexes of the rowsets that are read; rows are not kept.
const CACHE_BYTES: usize = 32 << 20;

/// All rowsets, opened as they are needed.
pub(super) struct RowSources<'a> {
    patient: &'a Patient<'a>,
    known: BTreeMap<RowsetId, Option<FileInfo>>,
    open: BTreeMap<RowsetId, RowSource>,
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
    /// Reads by version; made when a row cannot be read otherwise.
    by_version: Option<ByVersion>,
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
        RowSources { patient, known, open: BTreeMap::new(), cache: Cache::new(CACHE_BYTES) }
    }

    /// The row that was written as `version`, which an entry says lies at `location`.
    pub(super) fn get(&mut self, location: Location, version: Version) -> Result<FoundRow, String> {
        let Some(expected) = self.known.get(&location.rowset) else {
            return Err("no such rowset is known".to_owned());
        };
        let (patient, cache) = (self.patient, &self.cache);
        let source = self
            .open
            .entry(location.rowset)
            .or_insert_with(|| RowSource::open(patient, location.rowset, expected.as_ref(), cache));
        source.get(patient, location, version)
    }
}

impl RowSource {
    fn open(
        patient: &Patient<'_>,
        id: RowsetId,
        expected: Option<&FileInfo>,
        cache: &Arc<Cache>,
    ) -> RowSource {
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
            Err(error) => Err(error.to_string()),
        };
        RowSource { rows, by_version: None }
    }

    fn get(&mut self, patient: &Patient<'_>, at: Location, version: Version) -> Result<FoundRow, String> {
        let why = match &mut self.rows {
            Err(why) => return Err(why.clone()),
            Ok(None) => "the file has no end that can be read".to_owned(),
            Ok(Some(rows)) => match by_ordinal(rows, at, version) {
                Ok(found) => return Ok(found),
                Err(why) => why,
            },
        };
        if self.by_version.is_none() {
            self.by_version = Some(ByVersion::learn(patient, at.rowset).map_err(|_| why.clone())?);
        }
        let by_version = self.by_version.as_mut().expect("just made");
        by_version.get(at, version).ok_or(why)
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
