//! The history that led to what the engine should hold.
//!
//! Owns the state after every committed event since the last one that must survive a loss of power. Never asks the
//! engine anything.

use crate::state::{Event, State};

/// The states that may be found after a loss of power.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The state after the last event that must survive.
    durable: State,
    /// The events since, in the order of their commits.
    since: Vec<Event>,
    /// The state now.
    now: State,
}

impl History {
    pub(crate) fn now(&self) -> &State {
        &self.now
    }

    pub(crate) fn commit(&mut self, event: Event) {
        self.now.apply(&event);
        self.since.push(event);
    }

    /// Everything so far survives from now on.
    pub(crate) fn all_durable(&mut self) {
        self.durable = self.now.clone();
        self.since.clear();
    }

    /// Everything up to the last event that concerns this table survives from now on.
    pub(crate) fn durable_through(&mut self, table: &str) {
        let count = self.since.iter().rposition(|event| event.concerns(table)).map_or(0, |last| last + 1);
        for event in self.since.drain(..count) {
            self.durable.apply(&event);
        }
    }

    /// How many events a loss of power may take.
    pub(crate) fn at_risk(&self) -> usize {
        self.since.len()
    }

    /// Finds `found` among the states that are allowed, with `undecided` as one more event that may or may not have
    /// happened. From then on that state is the present one, and durable.
    ///
    /// # Errors
    /// It is none of them. Says how it differs from the first and from the last.
    pub(crate) fn recover(&mut self, found: &State, undecided: Option<Event>) -> Result<usize, String> {
        let mut state = self.durable.clone();
        let events = std::mem::take(&mut self.since).into_iter().chain(undecided);
        let mut passed = 0;
        let mut events = events.peekable();
        while state != *found {
            let Some(event) = events.next() else {
                return Err(format!(
                    "no prefix of the {passed} commits since the last durable one gives what was found.\n\
                     Against the oldest allowed:\n{}\nAgainst the newest:\n{}",
                    self.durable.difference(found),
                    state.difference(found)
                ));
            };
            state.apply(&event);
            passed += 1;
        }
        self.now = state;
        self.all_durable();
        Ok(passed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::shape::{Part, Row, Shape};
    use crate::state::Change;

    fn put(number: i64, row: Option<i64>) -> Event {
        let row = row.map(|number| Arc::new(Row { number, note: None, blob: Vec::new() }));
        Event::Batch(vec![Change { table: "t".into(), key: vec![Part::Int(number)], row }])
    }

    #[test]
    fn only_prefixes_after_the_durable_one_are_found() {
        let history = || {
            let mut history = History::default();
            history.commit(Event::Create("t".into(), Shape::Int));
            history.commit(put(1, Some(1)));
            history.all_durable();
            history.commit(put(2, Some(2)));
            history.commit(put(1, None));
            history
        };
        let after = |events: &[Event]| {
            let mut state = State::default();
            events.iter().for_each(|event| state.apply(event));
            state
        };
        let create = Event::Create("t".into(), Shape::Int);
        let durable = [create.clone(), put(1, Some(1))];
        assert_eq!(history().recover(&after(&durable), None), Ok(0));
        assert_eq!(history().recover(&after(&[create.clone(), put(2, Some(2))]), None), Ok(2));
        let more = after(&[create.clone(), put(2, Some(2)), put(3, Some(3))]);
        assert_eq!(history().recover(&more, Some(put(3, Some(3)))), Ok(3));
        history().recover(&more, None).expect_err("that was never committed");
        history().recover(&after(&[create]), None).expect_err("what was durable is gone");
    }
}
