//! The history that led to what the engine should hold.
//!
//! Owns the state after every committed event since the last one that must survive a loss of power. Never asks the
//! engine anything.

use nyala::Version;

use crate::state::{Event, State};

/// The states that may be found after a loss of power.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The state after the last event that must survive, and the ticket of the last commit in it.
    durable: (State, Version),
    /// The events since, in the order of their commits. Making and dropping a table has the ticket of the commit
    /// before.
    since: Vec<(Event, Version)>,
    /// The state now.
    now: State,
}

impl History {
    pub(crate) fn now(&self) -> &State {
        &self.now
    }

    /// The ticket of the last commit.
    pub(crate) fn last_ticket(&self) -> Version {
        self.since.last().map_or(self.durable.1, |(_, ticket)| *ticket)
    }

    pub(crate) fn commit(&mut self, event: Event, ticket: Version) {
        assert!(self.last_ticket() <= ticket, "tickets grow: {ticket} after {}", self.last_ticket());
        self.now.apply(&event);
        self.since.push((event, ticket));
    }

    /// Everything so far survives from now on.
    pub(crate) fn all_durable(&mut self) {
        self.durable = (self.now.clone(), self.last_ticket());
        self.since.clear();
    }

    /// Everything up to the last event that concerns this table survives from now on.
    pub(crate) fn durable_through(&mut self, table: &str) {
        let concerns = |(event, _): &(Event, Version)| event.concerns(table);
        let count = self.since.iter().rposition(concerns).map_or(0, |last| last + 1);
        for (event, ticket) in self.since.drain(..count) {
            self.durable.0.apply(&event);
            self.durable.1 = ticket;
        }
    }

    /// How many events a loss of power may take.
    pub(crate) fn at_risk(&self) -> usize {
        self.since.len()
    }

    /// Checks that `found` is what the commits through `recovered_to` give, and that these are allowed to be those that
    /// are there; with `undecided` as one more event that may or may not have happened. From then on that state is the
    /// present one, and durable. Gives how many events survived.
    ///
    /// # Errors
    /// It is not. Says how.
    pub(crate) fn recover(
        &mut self,
        found: &State,
        undecided: Option<Event>,
        recovered_to: Version,
    ) -> Result<usize, String> {
        let (mut state, durable) = self.durable.clone();
        let last = self.last_ticket();
        if recovered_to < durable {
            return Err(format!("{durable} was durable, and the last commit found is {recovered_to}"));
        }
        let mut survived = self.since.partition_point(|(_, ticket)| *ticket <= recovered_to);
        self.since[..survived].iter().for_each(|(event, _)| state.apply(event));
        if let Some(event) = undecided.filter(|_| survived == self.since.len()) {
            let is_there = match event {
                // It has no ticket that could tell.
                Event::Create(..) | Event::Alter(..) | Event::Rename(..) | Event::Drop(..) => state != *found,
                Event::Batch(_) => recovered_to > last,
            };
            if is_there {
                state.apply(&event);
                survived += 1;
            }
        }
        if state != *found {
            return Err(format!(
                "{recovered_to} is the last commit found, which is {survived} commits after the last durable one, and \
                 that is not what is there.\nAgainst the oldest allowed:\n{}\nAgainst what it says:\n{}",
                self.durable.0.difference(found),
                state.difference(found)
            ));
        }
        self.since.clear();
        self.durable = (state.clone(), recovered_to);
        self.now = state;
        Ok(survived)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::shape::{Part, Row, Shape};
    use crate::state::Change;

    fn put(number: i64, row: Option<i64>) -> Event {
        let row = row.map(|number| Arc::new(Row::plain(number, Vec::new(), &[])));
        Event::Batch(vec![Change { table: "t".into(), key: vec![Part::Int(number)], row }])
    }

    #[test]
    fn only_prefixes_after_the_durable_one_are_found_and_each_has_its_ticket() {
        let ticket = Version;
        let history = || {
            let mut history = History::default();
            history.commit(Event::Create("t".into(), Shape::Int), ticket(0));
            history.commit(put(1, Some(1)), ticket(10));
            history.all_durable();
            history.commit(put(2, Some(2)), ticket(20));
            history.commit(put(1, None), ticket(30));
            history
        };
        let after = |events: &[Event]| {
            let mut state = State::default();
            events.iter().for_each(|event| state.apply(event));
            state
        };
        let create = Event::Create("t".into(), Shape::Int);
        let durable = after(&[create.clone(), put(1, Some(1))]);
        assert_eq!(history().recover(&durable, None, ticket(10)), Ok(0));
        assert_eq!(history().recover(&durable, None, ticket(19)), Ok(0));
        history().recover(&durable, None, ticket(20)).expect_err("the second is said to be there");
        history().recover(&durable, None, ticket(9)).expect_err("the first is said to be lost");
        let all = after(&[create.clone(), put(2, Some(2))]);
        assert_eq!(history().recover(&all, None, ticket(30)), Ok(2));
        history().recover(&all, None, ticket(20)).expect_err("the third is said to be lost");
        let more = after(&[create.clone(), put(2, Some(2)), put(3, Some(3))]);
        assert_eq!(history().recover(&more, Some(put(3, Some(3))), ticket(31)), Ok(3));
        assert_eq!(history().recover(&all, Some(put(3, Some(3))), ticket(30)), Ok(2));
        history().recover(&more, Some(put(3, Some(3))), ticket(30)).expect_err("it is said to be lost");
        history().recover(&more, None, ticket(31)).expect_err("that was never committed");
        history().recover(&after(&[create]), None, ticket(0)).expect_err("what was durable is gone");
    }
}
