//! Makes views by hand: memtables, runs and rowsets as tests want them, with tiny blocks and files, and beside them a
//! model that keeps every version.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use codec::{FileId, Version};
use encoded_key::{KeyProbe, Value};
use pkindex::{Entry, IndexFile, Output, Run, RunOptions, RunWriter, WrittenFile};
use sstable::{Cache, WriterOptions};
use vfs::{Fs, SimFs};

use crate::error::{Error, ErrorKind, Result};
use crate::memtable::{MemOp, Memtable, Older};
use crate::read::{ReadPoint, Scan, ScanSource};
use crate::record::{Record, encode_key, encode_record};
use crate::row::ReadSchema;
use crate::rowset::{Rowset, RowsetOptions, RowsetWriter, Rowsets, WrittenRowset};
use crate::schema::Schema;
use crate::snapshot::{Registry, Snapshot};
use crate::view::TabletView;

/// The values of a row.
pub(crate) type Values = Vec<String>;

/// A tablet, its disk, and the model of it.
pub(crate) struct World {
    pub(crate) schema: Arc<Schema>,
    pub(crate) reads: Arc<ReadSchema>,
    pub(crate) disk: Arc<SimFs>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) closed: Arc<AtomicBool>,
    /// Each key's versions, ascending: the printed values of its row, or a deletion.
    pub(crate) model: BTreeMap<Vec<u8>, Vec<(Version, Option<Values>)>>,
    pub(crate) memtables: Vec<Arc<Memtable>>,
    pub(crate) runs: Vec<Arc<Run>>,
    pub(crate) rowsets: Rowsets,
    /// The files of rows, and those of the index.
    pub(crate) row_paths: Vec<PathBuf>,
    pub(crate) index_paths: Vec<PathBuf>,
    pub(crate) files: Arc<Numbers>,
    pub(crate) run_options: RunOptions,
    pub(crate) rowset_options: RowsetOptions,
    version: Version,
}

/// Gives file numbers and paths.
pub(crate) struct Numbers {
    disk: Arc<SimFs>,
    next: AtomicU64,
}

impl Numbers {
    pub(crate) fn new(disk: &Arc<SimFs>) -> Numbers {
        Numbers { disk: Arc::clone(disk), next: AtomicU64::new(1) }
    }

    pub(crate) fn path(id: FileId) -> PathBuf {
        PathBuf::from(format!("/db/{id}.sst"))
    }
}

impl Output for Numbers {
    fn next_file(&self) -> io::Result<(FileId, PathBuf)> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        Ok((FileId(id), Numbers::path(FileId(id))))
    }

    fn fs(&self) -> &dyn Fs {
        &*self.disk
    }
}

/// Blocks and files so small that every structure is used.
pub(crate) fn tiny_files() -> WriterOptions {
    WriterOptions {
        block_bytes: 128,
        index_block_bytes: 128,
        restart_interval: 3,
        ..WriterOptions::default()
    }
}

impl World {
    pub(crate) fn new(schema: Schema) -> World {
        let disk = World::empty_disk();
        let options = tiny_files();
        let schema = Arc::new(schema);
        World {
            reads: ReadSchema::of(&schema),
            schema,
            cache: Cache::new(64 << 10),
            registry: Arc::new(Registry::new(Version(0))),
            closed: Arc::default(),
            model: BTreeMap::new(),
            memtables: vec![Arc::new(Memtable::new(0))],
            runs: Vec::new(),
            rowsets: Rowsets::default(),
            row_paths: Vec::new(),
            index_paths: Vec::new(),
            files: Arc::new(Numbers::new(&disk)),
            disk,
            version: Version(0),
            run_options: RunOptions { file: options.clone(), file_bytes: 1 << 10, ..RunOptions::default() },
            rowset_options: RowsetOptions { rowset_bytes: 2 << 10, file: options, owner: Arc::default() },
        }
    }

    /// An empty disk with the folder that files are made in.
    pub(crate) fn empty_disk() -> Arc<SimFs> {
        let disk = SimFs::new(1);
        disk.create_dir_all("/db".as_ref()).expect("an empty disk takes a directory");
        Arc::new(disk)
    }

    fn apply(&mut self, key: &[u8], row: Option<&[u8]>) {
        self.version = self.version.next();
        let version = self.version;
        let op = match row {
            Some(row) => MemOp::Put { schema: self.schema.version(), row },
            None => MemOp::Delete,
        };
        self.memtables[0].apply(|tree| tree.insert(key, version, op));
        self.registry.publish(version);
    }

    /// Puts a row, and into the model what its columns print.
    pub(crate) fn put(&mut self, record: impl Record) {
        let mut bytes = Vec::new();
        let (key, row) = encode_record(&self.schema, &record, &mut bytes).expect("a valid record");
        let values = (0..record.columns()).map(|column| {
            let value = record.value(column).expect("a record has its columns");
            canonical(value, &self.schema, column)
        });
        let values = Some(values.collect());
        self.apply(&bytes[key.clone()], Some(&bytes[row]));
        self.model.entry(bytes[key].to_vec()).or_default().push((self.version, values));
    }

    pub(crate) fn delete(&mut self, key: impl Record) {
        let key = self.key(key);
        self.apply(&key, None);
        self.model.entry(key).or_default().push((self.version, None));
    }

    pub(crate) fn key(&self, record: impl Record) -> Vec<u8> {
        let mut key = Vec::new();
        encode_key(&self.schema, &record, &mut key).expect("a valid key");
        key
    }

    /// The last version.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    pub(crate) fn seal(&mut self) {
        if !self.memtables[0].is_empty() {
            let id = self.memtables[0].id() + 1;
            self.memtables.insert(0, Arc::new(Memtable::new(id)));
        }
    }

    /// Makes the oldest sealed memtable a run, with all its versions.
    pub(crate) fn flush_one(&mut self) {
        if self.memtables.len() == 1 {
            return;
        }
        let memtable = self.memtables.pop().expect("there is a sealed one");
        let output = Arc::clone(&self.files);
        let mut rows = RowsetWriter::new(&*output, self.rowset_options.clone());
        let mut run = RunWriter::new(&*output, &self.run_options);
        let mut key_now: Vec<u8> = Vec::new();
        let mut entries: Vec<Entry> = Vec::new();
        memtable
            .for_each_sorted(|key, version, op| {
                if key != key_now || entries.is_empty() {
                    run.add(&key_now, None, &entries)?;
                    entries.clear();
                    key_now = key.to_vec();
                }
                entries.push(match op {
                    MemOp::Put { schema, row } => Entry::put(version, rows.push(key, version, schema, row)?),
                    MemOp::Delete => Entry::deletion(version),
                });
                Ok::<_, Error>(Older::Wanted)
            })
            .expect("the simulated disk has no fault");
        run.add(&key_now, None, &entries).expect("the simulated disk has no fault");
        let rowsets = rows.finish().expect("the simulated disk has no fault");
        let files = run.finish().expect("the simulated disk has no fault");
        self.install(rowsets, &files);
    }

    /// Takes rowsets and the files of a run that is newer than all others into the view.
    pub(crate) fn install(&mut self, rowsets: Vec<WrittenRowset>, files: &[WrittenFile]) {
        self.row_paths.extend(rowsets.iter().map(|rowset| Numbers::path(rowset.info.id)));
        self.index_paths.extend(files.iter().map(|file| file.path.clone()));
        let opened = rowsets.into_iter().map(|WrittenRowset { info, first_key, last_key }| {
            Rowset::open(
                &*self.disk,
                &Numbers::path(info.id),
                info,
                first_key,
                last_key,
                Arc::clone(&self.cache),
            )
            .expect("a rowset just written opens")
        });
        self.rowsets = self.rowsets.with(&[], opened.collect::<Vec<_>>());
        let files = files.iter().map(|file| {
            let expect = (file.info.len, file.info.footer_checksum);
            IndexFile::open(&*self.disk, &file.path, file.info.id, Arc::clone(&self.cache), expect)
                .expect("an index file just written opens")
        });
        let run = Run::new(files.collect()).expect("files come in key order");
        self.runs.insert(0, Arc::new(run));
    }

    /// Seals and flushes everything.
    pub(crate) fn flush(&mut self) {
        self.seal();
        while self.memtables.len() > 1 {
            self.flush_one();
        }
    }

    pub(crate) fn view(&self) -> Arc<TabletView> {
        Arc::new(TabletView {
            memtables: self.memtables.clone(),
            runs: self.runs.clone(),
            run_ids: (0..self.runs.len() as u64).collect(),
            rowsets: Arc::new(self.rowsets.clone()),
            flushed_through: self.runs.first().map_or(Version(0), |run| run.versions().1),
        })
    }

    pub(crate) fn point(&self, at: Version) -> ReadPoint {
        ReadPoint::new(self.view(), at)
    }

    pub(crate) fn scan(&self) -> Scan {
        self.scan_at(Version::MAX)
    }

    /// A scan that sees nothing above `at`.
    pub(crate) fn scan_at(&self, at: Version) -> Scan {
        Scan::new(Arc::new(Source {
            reads: Arc::clone(&self.reads),
            view: self.view(),
            registry: Arc::clone(&self.registry),
            closed: Arc::clone(&self.closed),
            at,
        }))
    }

    /// A point read, printed.
    pub(crate) fn get(&self, key: &[u8], at: Version) -> Result<Option<Values>> {
        let projection = crate::row::Projection::all(&self.schema);
        let row = crate::read::get(&self.point(at), &self.reads, &projection, &KeyProbe::new(key))?;
        row.map(|row| Ok(printed(&row.to_values()?))).transpose()
    }
}

/// A table's side of a scan.
struct Source {
    reads: Arc<ReadSchema>,
    view: Arc<TabletView>,
    registry: Arc<Registry>,
    closed: Arc<AtomicBool>,
    at: Version,
}

impl ScanSource for Source {
    fn reads(&self) -> &Arc<ReadSchema> {
        &self.reads
    }

    fn pin(&self, snapshot: Option<&Snapshot>) -> Result<ReadPoint> {
        self.check()?;
        let at = snapshot.map_or_else(|| self.registry.visible(), Snapshot::at).min(self.at);
        Ok(ReadPoint::new(Arc::clone(&self.view), at))
    }

    fn check(&self) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Closed, "closed by the test"));
        }
        Ok(())
    }
}

fn canonical(value: Value<'_>, schema: &Schema, column: usize) -> String {
    match value {
        Value::Null => value.to_string(),
        value => value.fit(schema.columns()[column].ty).expect("the value was encoded").to_string(),
    }
}

/// Values as the model keeps them.
pub(crate) fn printed(values: &[Value<'_>]) -> Values {
    values.iter().map(Value::to_string).collect()
}

/// The rows of a scan, printed, each with all columns asked for.
pub(crate) fn scanned(scan: Scan) -> Result<Vec<Values>> {
    scan.rows()?.map(|row| Ok(printed(&row?.to_values()?))).collect()
}
