//! Does the steps of a child on the engine, and looks at what is there.
//!
//! Owns a child's handles. What must be there is the business of `work`.

use nyala::{Engine, Error, ErrorKind, Table, Type};

use super::{
    ADDED, Content, DONE, DUPLICATE, MISSING, OWN, Operation, Owned, Rows, Step, Verb, differ, key, own_name,
    read, schema,
};

/// Tries a step on the engine. The outcome, or what is wrong.
pub(crate) fn attempt(
    engine: &Engine,
    tables: &mut Tables,
    thread: u8,
    step: &Step,
    owned: &Owned,
) -> Result<u8, String> {
    let outcome = match step {
        Step::Single(operation) => single(tables.get(operation.table), thread, operation),
        Step::Batch { operations, is_synced } if operations.len().is_multiple_of(2) => {
            let durability = if *is_synced { nyala::Durability::Sync } else { nyala::Durability::Buffered };
            // Nobody else writes what it looks at, so that one attempt will do.
            engine.transact_with(durability, 1, |transaction| {
                operations.iter().try_for_each(|operation| {
                    in_transaction(transaction, tables.get(operation.table), thread, operation)
                })
            })
        }
        Step::Batch { operations, is_synced } => {
            let mut batch = engine.batch();
            let mut filled = Ok(());
            for operation in operations {
                filled =
                    filled.and_then(|()| fill(&mut batch, tables.get(operation.table), thread, operation));
            }
            let durability = if *is_synced { nyala::Durability::Sync } else { nyala::Durability::Buffered };
            filled.and_then(|()| batch.commit(durability).map(drop))
        }
        Step::MakeOwn => {
            engine.create_table(&own_name(thread), schema(OWN)).map(|table| tables.own = Some(table))
        }
        Step::AlterOwn => {
            let own = tables.get(OWN);
            let alter = match own.schema().column_index(ADDED) {
                None => own.alter().add_column(ADDED, Type::I64, -7),
                Some(_) => own.alter().drop_column(ADDED),
            };
            alter.apply().map(|table| tables.own = Some(table))
        }
        Step::DropOwn => engine.drop_table(&own_name(thread)).map(|()| tables.own = None),
        Step::FlushTable(table) => tables.get(*table).flush(),
        Step::FlushAll => engine.flush(),
        Step::Compact(table) => compact(tables.get(*table)),
        Step::Sync => engine.sync(),
        Step::Look(table, keys) => {
            return look(tables.get(*table), thread, *table, keys, owned).map(|()| DONE);
        }
        Step::Scan(table) => {
            let found = found_rows(tables.get(*table), *table).map_err(|error| error.to_string())?;
            let found = found.into_iter().filter(|(owner, ..)| *table == OWN || *owner == thread);
            let found: Rows = found.map(|(_, id, content)| (id, content)).collect();
            return match differ(owned.rows(*table), Some(&found)) {
                None => Ok(DONE),
                Some(how) => Err(format!("thread {thread} scans table {table}: {how}")),
            };
        }
    };
    match outcome {
        Ok(()) => Ok(DONE),
        Err(error) if error.kind() == ErrorKind::DuplicateKey => Ok(DUPLICATE),
        Err(error) if error.kind() == ErrorKind::MissingRow => Ok(MISSING),
        Err(error) => {
            let step: String = format!("{step:?}").chars().take(300).collect();
            Err(format!("thread {thread}: {error}: {step}"))
        }
    }
}

/// A compaction that somebody else's drop interrupts is no failure.
fn compact(table: &Table) -> Result<(), Error> {
    match table.compact() {
        Err(error) if error.kind() == ErrorKind::NoSuchTable => Ok(()),
        done => done,
    }
}

fn single(table: &Table, thread: u8, operation: &Operation) -> Result<(), Error> {
    let key = key(operation.table, thread, operation.key);
    match operation.verb {
        Verb::Upsert => table.upsert(key.row(table, &operation.content)),
        Verb::Insert => table.insert(key.row(table, &operation.content)),
        Verb::InsertIgnore => table.insert_ignore(key.row(table, &operation.content)).map(|_| ()),
        Verb::UpdateCount => table.update(key.values()).set("count", operation.content.count).apply(),
        Verb::UpdateText => table.update(key.values()).set("text", operation.content.text.as_deref()).apply(),
        Verb::Delete => table.delete(key.values()),
    }
}

fn fill(
    batch: &mut nyala::WriteBatch,
    table: &Table,
    thread: u8,
    operation: &Operation,
) -> Result<(), Error> {
    let key = key(operation.table, thread, operation.key);
    match operation.verb {
        Verb::Upsert => batch.upsert(table, key.row(table, &operation.content)),
        Verb::Insert => batch.insert(table, key.row(table, &operation.content)),
        Verb::InsertIgnore => batch.insert_ignore(table, key.row(table, &operation.content)),
        Verb::UpdateCount => batch.update(table, key.values(), [("count", operation.content.count)]),
        Verb::UpdateText => batch.update(table, key.values(), [("text", operation.content.text.as_deref())]),
        Verb::Delete => batch.delete(table, key.values()),
    }
}

fn in_transaction(
    transaction: &mut nyala::Transaction,
    table: &Table,
    thread: u8,
    operation: &Operation,
) -> Result<(), Error> {
    let key = key(operation.table, thread, operation.key);
    let text = operation.content.text.as_deref();
    match operation.verb {
        Verb::Upsert => transaction.upsert(table, key.row(table, &operation.content)),
        Verb::Insert => transaction.insert(table, key.row(table, &operation.content)),
        Verb::InsertIgnore => transaction.insert_ignore(table, key.row(table, &operation.content)).map(drop),
        Verb::UpdateCount => transaction.update(table, key.values(), [("count", operation.content.count)]),
        Verb::UpdateText => transaction.update(table, key.values(), [("text", text)]),
        Verb::Delete => transaction.delete(table, key.values()),
    }
}

/// Gets some rows of a thread by their keys.
pub(crate) fn look(
    table: &Table,
    thread: u8,
    place: usize,
    keys: &[u32],
    owned: &Owned,
) -> Result<(), String> {
    for &id in keys {
        let row = table.get(key(place, thread, id).values()).map_err(|error| error.to_string())?;
        let found = row.map(|row| read(place, &row).map(|(.., content)| content)).transpose();
        let found = found.map_err(|error| error.to_string())?;
        let expected = owned.rows(place).and_then(|rows| rows.get(&id));
        if found.as_ref() != expected {
            return Err(format!(
                "thread {thread} looks for key {id} of table {place}: found {found:.200?}, wrote {expected:.200?}"
            ));
        }
    }
    Ok(())
}

/// All rows of a table.
pub(crate) fn found_rows(table: &Table, place: usize) -> Result<Vec<(u8, u32, Content)>, Error> {
    table.scan().rows()?.map(|row| read(place, &row?)).collect()
}

/// A child's handles.
pub(crate) struct Tables {
    pub(crate) tables: Vec<Table>,
    pub(crate) own: Option<Table>,
}

impl Tables {
    pub(crate) fn get(&self, table: usize) -> &Table {
        if table == OWN {
            self.own.as_ref().expect("steps name tables that are there")
        } else {
            &self.tables[table]
        }
    }
}
