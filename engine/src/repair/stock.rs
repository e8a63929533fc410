//! Takes stock: the index files and rowsets of each table.
//!
//! With a whole manifest these are the files that it names, and no others. Without one, every file counts that says
//! whose it is, or that points into a rowset which says so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use codec::{FileId, RowsetId, TableId, TabletId, Version};
use pkindex::{Place, Properties, wire};
use sstable::{FileInfo, KeyedSalvage, OrdinalSalvage};

use super::report::{KeyRange, Loss, LossKind, RepairReport};
use super::root::Root;
use super::{Patient, fails_repair};
use crate::catalog::NAME_BYTES_MAX;
use crate::error::{Error, ErrorKind};
use crate::files::{FileKind, file_name, path};
use crate::manifest::{Owner, TableDesc};
use crate::rowset::rowset_id;
use crate::schema::Schema;

/// The tables, and where their rows may be.
#[derive(Default)]
pub(super) struct Stock {
    pub(super) tables: Vec<Table>,
    /// Every rowset that may be read, with its description if there is one.
    pub(super) rowsets: BTreeMap<RowsetId, Option<FileInfo>>,
}

/// A table and its index files.
pub(super) struct Table {
    pub(super) desc: TableDesc,
    pub(super) tablet: TabletId,
    pub(super) schema: Arc<Schema>,
    /// Everything up to here is in its index files, as far as the manifest can be read.
    pub(super) flushed_through: Version,
    pub(super) index: Vec<IndexSource>,
    /// What was written from this number on knows a newer name than this one.
    named_by: FileId,
}

/// An index file to read.
#[derive(Clone)]
pub(super) struct IndexSource {
    pub(super) id: FileId,
    /// What the manifest says of it.
    pub(super) expected: Option<FileInfo>,
    /// The versions that its run has, if that is known.
    pub(super) versions: Option<(Version, Version)>,
}

/// Takes stock.
///
/// # Errors
/// `UnsupportedFormat` for a schema of a newer version.
pub(super) fn take(patient: &Patient<'_>, root: &Root, report: &mut RepairReport) -> Result<Stock, Error> {
    let next_file = root.state.next_file;
    let mut finder = Finder { patient, tables: BTreeMap::new(), owners: BTreeMap::new() };
    let mut stock = Stock::default();
    for desc in root.state.tables.values() {
        let Some(tablet) = finder.add(desc.clone(), next_file, report)? else { continue };
        let Some(state) = root.state.tablets.get(&tablet) else { continue };
        if let Some(table) = finder.tables.get_mut(&desc.id) {
            table.flushed_through = state.flushed_through;
        }
        for info in state.runs.iter().flat_map(|run| &run.files) {
            finder.put(desc.id, IndexSource::named(info));
        }
        stock.rowsets.extend(state.rowsets.iter().map(|(id, info)| (*id, Some(info.clone()))));
    }
    if !root.is_whole {
        for id in patient.listing.of(FileKind::Rows) {
            if let Ok(id) = rowset_id(id) {
                stock.rowsets.entry(id).or_insert(None);
            }
        }
        finder.unnamed(&stock, report)?;
        finder.rename_namesakes(report);
    }
    stock.tables = finder.tables.into_values().collect();
    Ok(stock)
}

impl IndexSource {
    fn named(info: &FileInfo) -> IndexSource {
        IndexSource { id: info.id, expected: Some(info.clone()), versions: None }
    }
}

/// Whose an index file is, and which file says so.
struct Told {
    owner: Owner,
    by: FileId,
    /// The versions that it holds, if it can be read.
    versions: Option<(Version, Version)>,
}

struct Finder<'a> {
    patient: &'a Patient<'a>,
    tables: BTreeMap<TableId, Table>,
    /// Whose a rowset is, as it says itself.
    owners: BTreeMap<RowsetId, Option<Owner>>,
}

impl Finder<'_> {
    /// Adds a table, if its schema can be read. If it is known already, the newer schema and the newer name count: the
    /// table was altered or renamed, and that edit of the manifest is lost. `written` is the file that says it, or, of
    /// the manifest, the first that it does not know of.
    fn add(
        &mut self,
        desc: TableDesc,
        written: FileId,
        report: &mut RepairReport,
    ) -> Result<Option<TabletId>, Error> {
        if let Some(known) = self.tables.get_mut(&desc.id) {
            if written >= known.named_by {
                (known.desc.name, known.named_by) = (desc.name, written);
            }
            if let Ok(schema) = Schema::decode(&desc.schema)
                && schema.version() > known.schema.version()
                && schema.comes_of(&known.schema)
            {
                (known.desc.schema, known.schema) = (desc.schema, Arc::new(schema));
            }
            return Ok(Some(known.tablet));
        }
        let schema = match Schema::decode(&desc.schema) {
            Ok(schema) => Arc::new(schema),
            Err(error) if error.kind() == ErrorKind::UnsupportedFormat => return Err(error),
            Err(error) => {
                report.lose(Loss::new(LossKind::Table, error.to_string()).of_table(&desc.name));
                return Ok(None);
            }
        };
        let [tablet] = desc.tablets[..] else {
            let why = format!("the table has {} tablets", desc.tablets.len());
            report.lose(Loss::new(LossKind::Table, why).of_table(&desc.name));
            return Ok(None);
        };
        let id = desc.id;
        let is_taken = self.tables.values().any(|other| other.tablet == tablet && other.desc.id != id);
        if is_taken || id.0 == u32::MAX || tablet.0 == u32::MAX {
            let why = format!("tablet {tablet} of table {id} is another table's, or was never given out");
            report.lose(Loss::new(LossKind::Table, why).of_table(&desc.name));
            return Ok(None);
        }
        let flushed_through = Version(0);
        let named_by = written;
        self.tables.insert(id, Table { desc, tablet, schema, flushed_through, index: Vec::new(), named_by });
        Ok(Some(tablet))
    }

    fn put(&mut self, table: TableId, source: IndexSource) {
        if let Some(table) = self.tables.get_mut(&table)
            && !table.index.iter().any(|known| known.id == source.id)
        {
            table.index.push(source);
        }
    }

    /// Finds out whose the files are that no manifest names.
    fn unnamed(&mut self, stock: &Stock, report: &mut RepairReport) -> Result<(), Error> {
        let named: Vec<FileId> =
            self.tables.values().flat_map(|table| table.index.iter().map(|source| source.id)).collect();
        let mut is_exact = named.iter().all(|id| self.patient.listing.has(*id, FileKind::Index));
        for id in self.patient.listing.of(FileKind::Index) {
            if named.contains(&id) {
                continue;
            }
            is_exact = false;
            let file = path(self.patient.dir, id, FileKind::Index);
            let found = match KeyedSalvage::open(&**self.patient.fs(), &file, id) {
                Ok(salvage) => self.owner_of(id, salvage),
                Err(error) if error.is_unsupported() || fails_repair(error.io()) => return Err(error.into()),
                Err(error) => Err(error.to_string()),
            };
            let lost = |why: String| {
                let mut loss = Loss::new(LossKind::File, why).in_file(file_name(id, FileKind::Index));
                loss.keys = KeyRange::all();
                loss
            };
            match found {
                Err(why) => report.lose(lost(why)),
                Ok(Told { owner, by, versions }) => {
                    let desc = TableDesc {
                        id: owner.table,
                        name: owner.name,
                        schema: owner.schema,
                        tablets: vec![owner.tablet],
                    };
                    let table = desc.id;
                    if self.add(desc, by, report)?.is_some() {
                        self.put(table, IndexSource { id, expected: None, versions });
                    }
                }
            }
        }
        // A rowset that is not known of belongs to an edit that is not known of.
        is_exact &= stock.rowsets.iter().all(|(id, info)| {
            info.is_some() == self.patient.listing.has((*id).into(), FileKind::Rows) && info.is_some()
        });
        if !is_exact {
            for table in self.tables.values() {
                let why = "without the manifest it is not known which files were merged into others";
                report.lose(Loss::new(LossKind::Deletions, why).of_table(&table.desc.name));
            }
        }
        Ok(())
    }

    /// Whose an index file is: as it says itself, or as a rowset says that it points into; and which of them said so.
    fn owner_of(&mut self, id: FileId, mut salvage: KeyedSalvage) -> Result<Told, String> {
        let properties = salvage.user_properties().and_then(|bytes| Properties::decode(id, bytes).ok());
        if let Some(properties) = properties
            && let Ok(owner) = Owner::decode(&properties.owner)
        {
            return Ok(Told { owner, by: id, versions: Some(properties.versions) });
        }
        let mut entries = Vec::new();
        while salvage.key().is_some() {
            entries.clear();
            if wire::decode(salvage.value(), &mut entries).is_ok() {
                for entry in &entries {
                    if let Place::At(location) = entry.place
                        && let Some(owner) = self.owner_of_rowset(location.rowset)
                    {
                        return Ok(Told { owner, by: location.rowset.into(), versions: None });
                    }
                }
            }
            salvage.advance();
        }
        Err("it cannot be read whose it is, and it points into no rowset that says so".to_owned())
    }

    fn owner_of_rowset(&mut self, id: RowsetId) -> Option<Owner> {
        let patient = self.patient;
        let look = || {
            let file = FileId::from(id);
            let salvage =
                OrdinalSalvage::open(&**patient.fs(), &path(patient.dir, file, FileKind::Rows), file).ok()?;
            Owner::decode(salvage.user_properties()?).ok()
        };
        self.owners.entry(id).or_insert_with(look).clone()
    }

    /// Of several tables of one name the last one has it. The others had it before, and were dropped or renamed since:
    /// which of the two is not known, so what there is of them is kept, under names that say where it comes from.
    fn rename_namesakes(&mut self, report: &mut RepairReport) {
        let mut taken: BTreeSet<String> = BTreeSet::new();
        for (id, table) in self.tables.iter_mut().rev() {
            let name = table.desc.name.clone();
            let mut number = id.0;
            while !taken.insert(table.desc.name.clone()) {
                table.desc.name = numbered(&name, number);
                number = number.wrapping_add(1);
            }
            if table.desc.name != name {
                report.note(format!(
                    "table {id} had the name {name:?} before a later one got it; whether it was dropped or renamed is not \
                     known: what there is of it is in {:?}",
                    table.desc.name
                ));
            }
        }
    }
}

/// A name with a number behind it, no longer than names may be.
fn numbered(name: &str, number: u32) -> String {
    let number = format!(" (table {number})");
    let mut end = name.len().min(NAME_BYTES_MAX - number.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{number}", &name[..end])
}
