//! Writes a database on a simulated disk, and notes beside it what it holds: the same bytes every time.
//!
//! Never reads what it wrote: what the database should hold is known from what was asked of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use nyala::vfs::{Fs, SimFs};
use nyala::{Durability, Engine, Options, RuntimeMode, Schema, Table, Value, WriteBatch};

use crate::expected::{Column, Contents, Kind, TableContents, words};

/// The files of a directory, by name.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

pub(crate) type Row = Vec<Value<'static>>;

const DIR: &str = "/db";

/// A database that was written.
pub(crate) struct Written {
    pub(crate) files: Files,
    pub(crate) contents: Contents,
}

pub(crate) struct Writer {
    disk: SimFs,
    options: Options,
    engine: Option<Engine>,
    tables: BTreeMap<String, Table>,
    contents: Contents,
}

/// One change of a batch.
pub(crate) enum Change {
    Put(&'static str, Row),
    Delete(&'static str, Row),
}

/// One change of a table's columns.
pub(crate) enum Alteration {
    Add(Column),
    Rename(String, String),
    Drop(String),
}

/// Small blocks and files, and no work but within the calls.
fn small(disk: &SimFs) -> Options {
    Options {
        fs: Arc::new(disk.clone()),
        runtime: RuntimeMode::Inline { seed: 1 },
        memory_bytes: 4 << 20,
        memtable_bytes: Some(1 << 20),
        background_sync_interval: None,
        log_segment_bytes: 16 << 10,
        log_bytes_max: 1 << 20,
        index_block_bytes: 256,
        row_block_bytes: 256,
        ..Options::default()
    }
}

impl Writer {
    pub(crate) fn begin(change: impl FnOnce(&mut Options)) -> Writer {
        let disk = SimFs::new(1);
        let mut options = small(&disk);
        change(&mut options);
        let engine = Engine::open(DIR, options.clone()).expect("a new directory");
        Writer { disk, options, engine: Some(engine), tables: BTreeMap::new(), contents: Contents::default() }
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("open until the end")
    }

    pub(crate) fn create(&mut self, name: &str, columns: &[Column]) {
        let mut schema = Schema::builder();
        for Column { name, ty, kind, default } in columns {
            schema = match (kind, default) {
                (Kind::Key, _) => schema.key(name, *ty),
                (Kind::KeyDescending, _) => schema.key(name, ty.descending()),
                (Kind::Plain, None) => schema.column(name, *ty),
                (Kind::Nullable, None) => schema.column(name, ty.nullable()),
                (Kind::Plain, Some(value)) => schema.column_with_default(name, *ty, *value),
                (Kind::Nullable, Some(value)) => schema.column_with_default(name, ty.nullable(), *value),
            };
        }
        let schema = schema.build().expect("a legal schema");
        let table = self.engine().create_table(name, schema).expect("a new name");
        self.tables.insert(name.to_owned(), table);
        let columns = columns.iter().map(Column::words).collect();
        self.contents.tables.insert(name.to_owned(), TableContents { columns, rows: BTreeMap::new() });
    }

    pub(crate) fn drop_table(&mut self, name: &str) {
        self.engine().drop_table(name).expect("it is there");
        self.tables.remove(name);
        self.contents.tables.remove(name);
    }

    pub(crate) fn alter(&mut self, name: &str, changes: &[Alteration]) {
        let mut alter = self.tables[name].alter();
        let contents = self.contents.tables.get_mut(name).expect("it is there");
        let position = |contents: &TableContents, column: &str| {
            let start = format!("{column}: ");
            contents.columns.iter().position(|words| words.starts_with(&start)).expect("it is there")
        };
        for change in changes {
            alter = match change {
                Alteration::Add(column) => {
                    contents.columns.push(column.words());
                    let value = column.default.unwrap_or(Value::Null);
                    contents.rows.values_mut().for_each(|row| row.push(words(value)));
                    match column.kind {
                        Kind::Nullable => alter.add_column(&column.name, column.ty.nullable(), value),
                        _ => alter.add_column(&column.name, column.ty, value),
                    }
                }
                Alteration::Rename(from, to) => {
                    let at = position(contents, from);
                    let rest = contents.columns[at][from.len()..].to_owned();
                    contents.columns[at] = format!("{to}{rest}");
                    alter.rename_column(from, to)
                }
                Alteration::Drop(column) => {
                    let at = position(contents, column);
                    contents.columns.remove(at);
                    contents.rows.values_mut().for_each(|row| drop(row.remove(at)));
                    alter.drop_column(column)
                }
            };
        }
        self.tables.insert(name.to_owned(), alter.apply().expect("a legal change"));
    }

    fn keys(&self, table: &str) -> usize {
        self.tables[table].schema().key_columns()
    }

    fn note(&mut self, change: Change) {
        let cells = |row: Row| row.into_iter().map(words).collect::<Vec<_>>();
        match change {
            Change::Put(table, row) => {
                let (keys, row) = (self.keys(table), cells(row));
                let contents = self.contents.tables.get_mut(table).expect("it is there");
                contents.rows.insert(row[..keys].to_vec(), row);
            }
            Change::Delete(table, key) => {
                let contents = self.contents.tables.get_mut(table).expect("it is there");
                contents.rows.remove(&cells(key));
            }
        }
    }

    /// Commits changes as one batch.
    pub(crate) fn batch(&mut self, durability: Durability, changes: Vec<Change>) {
        let mut batch: WriteBatch = self.engine().batch();
        for change in &changes {
            match change {
                Change::Put(table, row) => batch.upsert(&self.tables[*table], row),
                Change::Delete(table, key) => batch.delete(&self.tables[*table], key),
            }
            .expect("it fits");
        }
        batch.commit(durability).expect("a good disk");
        changes.into_iter().for_each(|change| self.note(change));
    }

    /// Commits changes as a transaction that has read the rows it changes.
    pub(crate) fn transaction(&mut self, changes: Vec<Change>) {
        let mut transaction = self.engine().transaction();
        for change in &changes {
            match change {
                Change::Put(table, row) => {
                    let key = row[..self.keys(table)].to_vec();
                    transaction.exists(&self.tables[*table], key).expect("a good disk");
                    transaction.upsert(&self.tables[*table], row)
                }
                Change::Delete(table, key) => transaction.delete(&self.tables[*table], key),
            }
            .expect("it fits");
        }
        transaction.commit(Durability::Buffered).expect("nobody else writes");
        changes.into_iter().for_each(|change| self.note(change));
    }

    pub(crate) fn put(&mut self, table: &'static str, row: Row) {
        self.batch(Durability::Buffered, vec![Change::Put(table, row)]);
    }

    pub(crate) fn delete(&mut self, table: &'static str, key: Row) {
        self.batch(Durability::Buffered, vec![Change::Delete(table, key)]);
    }

    pub(crate) fn flush(&mut self) {
        self.engine().flush().expect("a good disk");
    }

    pub(crate) fn compact(&mut self, table: &str) {
        self.tables[table].compact().expect("a good disk");
    }

    /// What it would hold if nothing were written from here on.
    pub(crate) fn contents_now(&self) -> Contents {
        self.contents.clone()
    }

    pub(crate) fn reopen(&mut self) {
        self.engine().close().expect("a good disk");
        self.engine = Some(Engine::open(DIR, self.options.clone()).expect("a healthy directory"));
        for (name, table) in &mut self.tables {
            *table = self.engine.as_ref().expect("just opened").existing_table(name).expect("it is there");
        }
    }

    pub(crate) fn close(self) -> Written {
        self.engine().close().expect("a good disk");
        Written { files: files_of(&self.disk, DIR), contents: self.contents }
    }

    /// Leaves the directory as a process does that is killed.
    pub(crate) fn kill(self) -> Written {
        Written { files: files_of(&self.disk.fork(), DIR), contents: self.contents }
    }

    /// The checkpoint of now, without the database.
    pub(crate) fn checkpoint(self) -> Written {
        self.engine().checkpoint("/copy").expect("a good disk");
        Written { files: files_of(&self.disk.fork(), "/copy"), contents: self.contents }
    }
}

fn files_of(disk: &SimFs, dir: &str) -> Files {
    let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).expect("our names").to_owned();
    let read = |path: &Path| disk.read(path, 1 << 30).expect("a good disk");
    let paths = disk.paths();
    paths.iter().filter(|path| path.starts_with(dir)).map(|path| (name(path), read(path))).collect()
}
