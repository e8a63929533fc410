//! Writes: every verb, alone and in batches, with what the model says should come of them.

use nyala::{Durability, Error, ErrorKind};

use crate::shape::values;
use crate::state::{Change, Event};
use crate::verbs::{Op, evaluate};
use crate::world::{Step, World};

impl World {
    fn random_op(&mut self, table: &str, checked: bool) -> Op {
        self.next_number += 1;
        Op::random(&mut self.random, self.history.now(), table, self.next_number, checked)
    }

    /// One verb of a table's handle.
    pub(crate) fn write_one(&mut self) -> Step {
        let Some(name) = self.table_name() else { return self.first_table() };
        let op = self.random_op(&name, true).answering(&mut self.random);
        let expected = evaluate(self.history.now(), std::slice::from_ref(&op));
        let writes = expected.as_ref().is_ok_and(|changes| !changes.is_empty());
        let result = op.perform(&self.tables[&name], writes);
        self.settle(&[op], expected, self.default_durability(), result)
    }

    /// A batch over any tables.
    pub(crate) fn write_batch(&mut self) -> Step {
        let Some(first) = self.table_name() else { return self.first_table() };
        let many = if self.random.one_in(12) { 120 } else { 12 };
        let count = 1 + self.random.below(many);
        // A batch of many checked operations would nearly always fail.
        let checked = self.random.one_in(3);
        let mut ops = Vec::new();
        for _ in 0..count {
            let table = if self.random.one_in(2) {
                first.clone()
            } else {
                self.table_name().expect("there are some")
            };
            let checked = checked && self.random.one_in(4);
            ops.push(self.random_op(&table, checked));
        }
        let expected = evaluate(self.history.now(), &ops);
        let durability = *self.random.pick(&[Durability::Buffered, Durability::Buffered, Durability::Sync]);
        let mut batch = self.engine().batch();
        for op in &ops {
            op.add_to(&mut batch, &self.tables[&op.table]);
        }
        assert_eq!(ops.len(), batch.len());
        let result = batch.commit(durability).map(drop);
        let left = if result.is_ok() { 0 } else { ops.len() };
        assert_eq!(left, batch.len(), "a batch is empty after a commit, and as it was after a failure");
        self.settle(&ops, expected, durability, result)
    }

    /// The rows from a key on, some of them.
    pub(crate) fn delete_range(&mut self) -> Step {
        let Some(name) = self.table_name() else { return self.first_table() };
        let state = self.history.now().tables[&name].clone();
        let from = state.shape.random_key(&mut self.random);
        let limit = 1 + self.random.below(20);
        let gone: Vec<Change> = state
            .rows
            .range(from.clone()..)
            .take(limit)
            .map(|(key, _)| Change { table: name.clone(), key: key.clone(), row: None })
            .collect();
        let count = gone.len();
        let result = self.tables[&name].delete_range(values(&from).., limit);
        let is_durable = self.default_durability() == Durability::Sync && count > 0;
        let deleted = self.decide(Event::Batch(gone), "delete a range", result)?;
        assert_eq!(count, deleted, "rows from {from:?} on, at most {limit}");
        if is_durable {
            self.history.all_durable();
        }
        Ok(())
    }

    /// Compares what came of a write with what should have, and commits it to the model.
    fn settle(
        &mut self,
        ops: &[Op],
        expected: Result<Vec<Change>, (usize, ErrorKind)>,
        durability: Durability,
        result: Result<(), Error>,
    ) -> Step {
        match (expected, result) {
            (Err((position, kind)), Err(error)) if error.kind() == kind => {
                assert_eq!(Some(position), error.operation(), "{error}");
                Ok(())
            }
            (Err((position, kind)), result) => {
                self.done("a write", result)?;
                panic!("operation {position} of {ops:?} should have failed: {kind:?}");
            }
            (Ok(changes), result) => {
                let is_durable = durability == Durability::Sync && !changes.is_empty();
                self.decide(Event::Batch(changes), "a write", result)?;
                if is_durable {
                    self.history.all_durable();
                }
                Ok(())
            }
        }
    }

    /// Without a table there is nothing to write to.
    fn first_table(&mut self) -> Step {
        self.create_table()
    }
}
