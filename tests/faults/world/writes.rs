//! Writes: each is acknowledged, refused for what the model says, or fails because of the failure; then the engine's
//! health says what became of it.

use nyala::{Durability, Error, ErrorKind, Health, Table, Type, Value};

use super::{Flow, World, schema};
use crate::model::{Event, Op, Row, Verb};
use crate::workload::Width;

/// A row as the table takes it: what was added to it has its default.
fn record<'a>(table: &'a Table, id: u32, row: &'a Row) -> Vec<Value<'a>> {
    let text = row.text.as_deref().map_or(Value::Null, Value::String);
    let added = table.schema().columns().iter().skip(3);
    let added = added.map(|column| column.default_value().unwrap_or(Value::Null));
    [Value::UInt(id.into()), Value::Int(row.number), text].into_iter().chain(added).collect()
}

fn single(table: &Table, op: &Op) -> Result<(), Error> {
    let id = op.id;
    match &op.verb {
        Verb::Upsert(row) => table.upsert(record(table, id, row)),
        Verb::Insert(row) => table.insert(record(table, id, row)),
        Verb::InsertIgnore(row) => table.insert_ignore(record(table, id, row)).map(|_| ()),
        Verb::Update(number) => table.update((id,)).set("number", *number).apply(),
        Verb::Delete => table.delete((id,)),
    }
}

impl World<'_> {
    pub(super) fn write(&mut self, op: &Op) -> Flow {
        let Some(table) = self.tables.get(&op.table).cloned() else { return Ok(()) };
        let result = single(&table, op);
        let durability = self.workload.options.default_durability;
        self.settle_write(std::slice::from_ref(op), durability, result)
    }

    pub(super) fn batch(&mut self, ops: &[Op], durability: Durability) -> Flow {
        // A table may be missing because its making failed.
        let ops: Vec<Op> = ops.iter().filter(|op| self.tables.contains_key(&op.table)).cloned().collect();
        let mut batch = self.engine().batch();
        for Op { table, id, verb } in &ops {
            let table = &self.tables[table];
            let added = match verb {
                Verb::Upsert(row) => batch.upsert(table, record(table, *id, row)),
                Verb::Insert(row) => batch.insert(table, record(table, *id, row)),
                Verb::InsertIgnore(row) => batch.insert_ignore(table, record(table, *id, row)),
                Verb::Update(number) => batch.update(table, (*id,), [("number", *number)]),
                Verb::Delete => batch.delete(table, (*id,)),
            };
            added.unwrap_or_else(|error| panic!("{verb:?} is legal: {error}"));
        }
        let result = batch.commit(durability).map(drop);
        self.settle_write(&ops, durability, result)
    }

    fn settle_write(&mut self, ops: &[Op], durability: Durability, result: Result<(), Error>) -> Flow {
        let expected = self.history.now().evaluate(ops);
        match (expected, result) {
            (Err((position, kind)), Err(error)) if error.kind() == kind => {
                assert_eq!(Some(position), error.operation(), "{error}");
            }
            (Err((position, kind)), Ok(())) => {
                panic!("operation {position} of {ops:?} should fail: {kind:?}")
            }
            (Err(_), Err(error)) => self.failed("a write that would be refused", &error, None),
            (Ok(changes), Ok(())) => {
                assert!(self.cause.is_none() || changes.is_empty(), "a poisoned engine acknowledges a write");
                if !changes.is_empty() {
                    self.history.commit(Event::Batch(changes));
                    if durability == Durability::Sync {
                        self.history.all_durable();
                    }
                }
            }
            (Ok(changes), Err(error)) => self.failed("a write", &error, Some(Event::Batch(changes))),
        }
        Ok(())
    }

    /// A call that changes something failed. Its event is refused for good, unless it met the failure that poisoned
    /// the engine: then nobody knows.
    pub(super) fn failed(&mut self, what: &str, error: &Error, event: Option<Event>) {
        if let Some(cause) = &self.cause {
            assert_eq!(*cause, error.to_string(), "{what}: the first cause is told");
            self.seen.refused += 1;
            return;
        }
        self.explained(what, error);
        match self.engine().health() {
            Health::Poisoned(_) => {
                if let Some(event) = event {
                    self.history.leave_undecided(event);
                    self.seen.undecided = true;
                }
            }
            Health::NoSpace(_) => {
                assert_eq!(error.kind(), ErrorKind::NoSpace, "{what}: {error}");
                self.seen.refused += 1;
            }
            // Nothing but what reads can fail like this.
            Health::Healthy => self.seen.refused += 1,
            other => panic!("nobody closed it: {other:?}"),
        }
    }

    pub(super) fn sync(&mut self) -> Flow {
        match self.engine().sync() {
            Ok(()) => {
                assert!(self.cause.is_none(), "a poisoned engine says that it synced");
                self.history.all_durable();
            }
            Err(error) => self.failed("sync", &error, None),
        }
        Ok(())
    }

    pub(super) fn flush(&mut self, name: Option<&str>) -> Flow {
        let result = match name {
            None => self.engine().flush(),
            Some(name) => match self.tables.get(name) {
                Some(table) => table.flush(),
                None => return Ok(()),
            },
        };
        match (result, name) {
            (Ok(()), None) => self.history.all_durable(),
            (Ok(()), Some(name)) => self.history.durable_through(name),
            (Err(error), _) => self.failed("flush", &error, None),
        }
        Ok(())
    }

    pub(super) fn compact(&mut self, name: &str) -> Flow {
        let Some(table) = self.tables.get(name) else { return Ok(()) };
        match table.compact() {
            Ok(()) => self.history.durable_through(name),
            Err(error) => self.failed("compact", &error, None),
        }
        Ok(())
    }

    pub(super) fn create(&mut self, name: &str, width: Width) -> Flow {
        if self.tables.contains_key(name) {
            // Its drop was refused, or is undecided.
            let error = self.engine().create_table(name, schema(width)).expect_err("it is there");
            let is_told = self.cause.as_ref().is_some_and(|cause| *cause == error.to_string());
            assert!(is_told || error.kind() == ErrorKind::TableExists, "{error}");
            return Ok(());
        }
        match self.engine().create_table(name, schema(width)) {
            Ok(table) => {
                assert!(self.cause.is_none(), "a poisoned engine makes a table");
                self.history.commit(Event::Create(name.to_owned()));
                self.history.all_durable();
                self.tables.insert(name.to_owned(), table);
            }
            Err(error) => {
                self.failed("create a table", &error, Some(Event::Create(name.to_owned())));
                let found = self.engine().existing_table(name);
                assert_eq!(found.expect_err("it was not made").kind(), ErrorKind::NoSuchTable);
            }
        }
        Ok(())
    }

    /// A column is added, or dropped again; rows keep what the model knows of.
    pub(super) fn alter(&mut self, name: &str) -> Flow {
        let Some(table) = self.tables.get(name).cloned() else { return Ok(()) };
        let alter = match table.schema().column_index("added") {
            None => table.alter().add_column("added", Type::String, "what was added"),
            Some(_) => table.alter().drop_column("added"),
        };
        match alter.apply() {
            Ok(altered) => {
                assert!(self.cause.is_none(), "a poisoned engine alters a table");
                self.history.all_durable();
                self.tables.insert(name.to_owned(), altered);
            }
            Err(error) => self.failed("alter a table", &error, None),
        }
        Ok(())
    }

    pub(super) fn drop_table(&mut self, name: &str) -> Flow {
        let Some(table) = self.tables.get(name).cloned() else { return Ok(()) };
        match self.engine().drop_table(name) {
            Ok(()) => {
                assert!(self.cause.is_none(), "a poisoned engine drops a table");
                self.history.commit(Event::Drop(name.to_owned()));
                self.history.all_durable();
                self.forget_table(name);
                assert_eq!(table.count().expect_err("it is gone").kind(), ErrorKind::NoSuchTable);
            }
            Err(error) => self.failed("drop a table", &error, Some(Event::Drop(name.to_owned()))),
        }
        Ok(())
    }

    // Rows that prove that writes work, or do not.

    fn probe_op(&mut self) -> Option<Op> {
        let table = self.tables.keys().next()?.clone();
        self.probes += 1;
        let row = Row { number: 1_000_000 + self.probes, text: Some("a probe".into()) };
        Some(Op { table, id: 1000, verb: Verb::Upsert(row) })
    }

    /// A write that must be acknowledged, or refused.
    pub(super) fn probe(&mut self, succeeds: bool) -> Flow {
        let Some(op) = self.probe_op() else { return Ok(()) };
        let result = single(&self.tables[&op.table], &op);
        // Where the disk is full, some other failure may still come, and the failure itself may come as late as this.
        let is_other = self.strike.is_some_and(|strike| !strike.kind.is_full()) && self.is_struck();
        let may_fail = !succeeds || is_other || self.is_striking();
        assert!(if result.is_ok() { succeeds } else { may_fail }, "a probe: {result:?}");
        self.settle_write(std::slice::from_ref(&op), self.workload.options.default_durability, result)
    }

    /// A write of which it is open whether it is refused.
    pub(super) fn probe_either(&mut self) -> Flow {
        let Some(op) = self.probe_op() else { return Ok(()) };
        let result = single(&self.tables[&op.table], &op);
        self.settle_write(std::slice::from_ref(&op), self.workload.options.default_durability, result)
    }

    /// A write that must reach the disk: a failure that nobody was told of yet comes out.
    pub(super) fn probe_sync(&mut self) -> Flow {
        if let Some(op) = self.probe_op() {
            self.batch(&[op], Durability::Sync)?;
            self.settle()?;
        }
        Ok(())
    }
}
