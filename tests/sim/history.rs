//! What may be found after a power cut, by the operation of the disk before which the power goes.
//!
//! Owns the state after each event, when each began, and up to where everything had to be durable when. "Moment `n`" is
//! before operation `n`, with everything that a caller was told up to then.
//!
//! Invariant: what may be found at a moment are states along one line, the order of commits, from the last that must be
//! durable to the last that had begun; and beside its end the events that failed, as long as they are undecided.

use std::hash::{DefaultHasher, Hash, Hasher};

use nyala::Version;

use crate::state::{Event, State};

/// One state along the line.
#[derive(Clone, Debug)]
struct Point {
    state: State,
    hash: u64,
    /// The operation with which its event began; 0 for the first.
    begun: u64,
    /// What led to it; none for the first.
    event: Option<Event>,
    /// The ticket of the last commit in it.
    ticket: Version,
}

/// An event that failed, on top of the line as it was then.
#[derive(Clone, Debug)]
struct Failed {
    point: Point,
    /// From here on it must be absent. None if it is undecided for ever.
    absent_from: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct History {
    line: Vec<Point>,
    failed: Vec<Failed>,
    /// From a moment on, the first place of the line that may be found. Both ascend.
    floors: Vec<(u64, usize)>,
    /// From a moment on, a version that is used up. Both ascend.
    versions: Vec<(u64, u64)>,
    /// From a moment on, a commit that was said to be durable. Both ascend.
    durable: Vec<(u64, Version)>,
}

/// A hash of a state, to find it among others.
pub(crate) fn hash_of(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

impl Point {
    fn new(state: State, begun: u64, event: Option<Event>) -> Point {
        Point { hash: hash_of(&state), state, begun, event, ticket: Version::default() }
    }
}

impl History {
    /// One that begins with a state that is durable, up to the commit with this ticket.
    pub(crate) fn new(state: State, ticket: Version) -> History {
        let line = vec![Point { ticket, ..Point::new(state, 0, None) }];
        let (floors, versions, durable) = (vec![(0, 0)], vec![(0, 0)], vec![(0, ticket)]);
        History { line, failed: Vec::new(), floors, versions, durable }
    }

    pub(crate) fn now(&self) -> &State {
        &self.line.last().expect("there is a first").state
    }

    /// How many places the line has.
    pub(crate) fn len(&self) -> usize {
        self.line.len()
    }

    /// An event begins, with the next operation.
    pub(crate) fn begin(&mut self, event: Event, next_operation: u64) {
        let mut state = self.now().clone();
        state.apply(&event);
        self.line.push(Point::new(state, next_operation, Some(event)));
    }

    /// The event that has begun last failed: `absent_from` that operation on, or for ever undecided.
    pub(crate) fn fail(&mut self, absent_from: Option<u64>) {
        let point = self.line.pop().expect("an event has begun");
        assert!(!self.line.is_empty(), "an event has begun");
        self.failed.push(Failed { point, absent_from });
    }

    /// All that is there now is durable from this moment on.
    pub(crate) fn all_durable(&mut self, moment: u64) {
        self.durable_through(moment, self.line.len() - 1);
    }

    /// All up to the last event that concerns a table is durable from this moment on.
    pub(crate) fn table_durable(&mut self, moment: u64, table: &str) {
        let concerns = |point: &Point| point.event.as_ref().is_some_and(|event| event.concerns(table));
        if let Some(at) = self.line.iter().rposition(concerns) {
            self.durable_through(moment, at);
        }
    }

    fn durable_through(&mut self, moment: u64, at: usize) {
        let &(last_moment, last) = self.floors.last().expect("there is a first");
        assert!(last_moment <= moment, "time goes on");
        if last < at {
            self.floors.push((moment, at));
        }
    }

    /// This version was seen at this moment.
    pub(crate) fn note_version(&mut self, moment: u64, version: u64) {
        let &(_, last) = self.versions.last().expect("there is a first");
        assert!(last <= version, "versions grow: {last}, then {version}");
        self.versions.push((moment, version));
    }

    /// The last event has succeeded; this is the ticket of the last commit now.
    pub(crate) fn note_ticket(&mut self, ticket: Version) {
        let last = self.line.last_mut().expect("there is a first");
        last.ticket = ticket;
    }

    /// A commit was said to be durable at this moment.
    pub(crate) fn note_durable(&mut self, moment: u64, ticket: Version) {
        let &(_, last) = self.durable.last().expect("there is a first");
        assert!(last <= ticket, "what is durable stays so: {last}, then {ticket}");
        self.durable.push((moment, ticket));
    }

    /// Whether this may be what is found at this moment, with `recovered_to` said of it.
    ///
    /// # Errors
    /// Says why not.
    pub(crate) fn check_found(
        &self,
        found: &State,
        moment: u64,
        floor: usize,
        recovered_to: Version,
    ) -> Result<(), String> {
        let hash = hash_of(found);
        self.find(hash, moment, floor).ok_or_else(|| self.explain(found, moment, floor))?;
        self.check_ticket(hash, moment, recovered_to)
    }

    /// Whether `recovered_to` may be said of a state that was found: it is not below what was said to be durable, and
    /// the commits through it are those that are there.
    ///
    /// # Errors
    /// Says why not.
    pub(crate) fn check_ticket(&self, hash: u64, moment: u64, recovered_to: Version) -> Result<(), String> {
        let known = self.durable.partition_point(|(from, _)| *from <= moment);
        let durable = self.durable[known - 1].1;
        if recovered_to < durable {
            return Err(format!(
                "{durable} was said to be durable, and the last commit found is {recovered_to}"
            ));
        }
        let mut places = self.line.iter().enumerate().filter(|(_, point)| point.hash == hash).peekable();
        // An event that failed has a ticket that nobody knows; it may lead back to a state that was there before, as a
        // column does that comes and goes.
        let is_unknown =
            places.peek().is_none() || self.failed.iter().any(|failed| failed.point.hash == hash);
        let fits = |(place, point): (usize, &Point)| {
            let next = self.line[place + 1..].iter().find(|next| next.ticket > point.ticket);
            point.ticket <= recovered_to && next.is_none_or(|next| recovered_to < next.ticket)
        };
        if is_unknown || places.any(fits) {
            return Ok(());
        }
        Err(format!("the last commit found is {recovered_to}, and what is there is what others give"))
    }

    /// The greatest version that was seen up to this moment. Lost or not, it is never given out again.
    pub(crate) fn version(&self, moment: u64) -> u64 {
        let known = self.versions.partition_point(|(from, _)| *from <= moment);
        self.versions[known - 1].1
    }

    /// The last place that was durable at this moment.
    pub(crate) fn floor(&self, moment: u64) -> usize {
        let known = self.floors.partition_point(|(from, _)| *from <= moment);
        self.floors[known - 1].1
    }

    fn is_permitted(&self, place: usize, moment: u64, floor: usize) -> bool {
        place >= floor && (place == 0 || self.line[place].begun < moment)
    }

    /// The first place from `floor` on at which the state is permitted at this moment; one past the line for an event
    /// that failed.
    pub(crate) fn find(&self, hash: u64, moment: u64, floor: usize) -> Option<usize> {
        let floor = floor.max(self.floor(moment));
        let on_line = (0..self.line.len())
            .find(|&place| self.line[place].hash == hash && self.is_permitted(place, moment, floor));
        let may_be_there = |failed: &&Failed| {
            let undecided = failed.absent_from.is_none_or(|from| moment < from);
            failed.point.hash == hash && failed.point.begun < moment && undecided
        };
        on_line.or_else(|| self.failed.iter().find(may_be_there).map(|_| self.line.len()))
    }

    /// Why a state is not permitted: how it differs from the oldest and from the newest that is.
    pub(crate) fn explain(&self, found: &State, moment: u64, floor: usize) -> String {
        let floor = floor.max(self.floor(moment));
        let newest = (floor..self.line.len())
            .rev()
            .find(|&place| self.is_permitted(place, moment, floor))
            .unwrap_or(floor);
        let hash = hash_of(found);
        let is_old = self.line[..floor].iter().any(|point| point.hash == hash);
        let is_new = self.line[newest + 1..].iter().any(|point| point.hash == hash);
        let was_refused = self.failed.iter().any(|failed| failed.point.hash == hash);
        let remark = match (is_old, is_new, was_refused) {
            (true, ..) => "\nIt is an older state: something durable was lost.",
            (_, true, _) => "\nIt is a newer state: an event that had not begun.",
            (.., true) => "\nIt has an event that was refused.",
            _ => "",
        };
        format!(
            "what was found is none of the {} states that are permitted.{remark}\nAgainst the oldest:\n{}\nAgainst \
             the newest:\n{}",
            newest + 1 - floor,
            self.line[floor].state.difference(found),
            self.line[newest].state.difference(found),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::shape::{Part, Row, Shape};
    use crate::state::Change;

    fn put(number: i64) -> Event {
        let row = Arc::new(Row::plain(number, Vec::new(), &[]));
        Event::Batch(vec![Change { table: "t".into(), key: vec![Part::Int(number)], row: Some(row) }])
    }

    fn after(numbers: &[i64]) -> u64 {
        let mut state = State::default();
        state.apply(&Event::Create("t".into(), Shape::Int));
        numbers.iter().for_each(|&number| state.apply(&put(number)));
        hash_of(&state)
    }

    /// A table, then rows 1 to 3; the second is durable when operation 8 begins.
    fn history() -> History {
        let mut history = History::new(State::default(), Version::default());
        history.begin(Event::Create("t".into(), Shape::Int), 0);
        history.all_durable(4);
        history.begin(put(1), 4);
        history.begin(put(2), 6);
        history.all_durable(8);
        history.begin(put(3), 10);
        history
    }

    #[test]
    fn only_states_between_the_durable_and_the_begun_are_permitted() {
        let history = history();
        assert_eq!(history.find(hash_of(&State::default()), 0, 0), Some(0));
        assert_eq!(history.find(after(&[]), 0, 0), None, "its first operation is not done");
        assert_eq!(history.find(after(&[]), 1, 0), Some(1));
        assert_eq!(history.find(hash_of(&State::default()), 4, 0), None, "it was acknowledged");
        assert_eq!(history.find(after(&[1]), 4, 0), None);
        assert_eq!(history.find(after(&[1]), 7, 0), Some(2));
        assert_eq!(history.find(after(&[2]), 7, 0), None, "the first is missing");
        assert_eq!(history.find(after(&[1]), 8, 0), None, "the second was synced");
        assert_eq!(history.find(after(&[1, 2]), 12, 0), Some(3));
        assert_eq!(history.find(after(&[1, 2, 3]), 12, 0), Some(4));
        assert_eq!(history.find(after(&[1, 2]), 12, 4), None, "more was found earlier");
    }

    #[test]
    fn what_failed_is_permitted_until_it_was_refused() {
        let mut history = history();
        history.begin(put(4), 12);
        history.fail(Some(15));
        history.begin(put(5), 16);
        assert!(history.find(after(&[1, 2, 3, 4]), 13, 0).is_some());
        assert_eq!(history.find(after(&[1, 2, 3, 4]), 15, 0), None);
        assert_eq!(history.find(after(&[1, 2, 3, 5]), 17, 0), Some(5));
        history.begin(put(6), 18);
        history.fail(None);
        assert!(history.find(after(&[1, 2, 3, 5, 6]), 100, 0).is_some());
        assert!(history.find(after(&[1, 2, 3, 4, 5, 6]), 100, 0).is_none());
    }

    #[test]
    fn a_flush_makes_what_concerns_its_table_durable() {
        let mut history = history();
        history.begin(Event::Create("u".into(), Shape::Int), 12);
        history.table_durable(14, "t");
        assert_eq!((history.floor(13), history.floor(14)), (3, 4));
    }

    #[test]
    fn the_last_commit_found_is_the_last_that_is_there_and_not_below_what_was_durable() {
        let ticket = Version;
        let mut history = History::new(State::default(), Version::default());
        history.begin(Event::Create("t".into(), Shape::Int), 0);
        history.note_ticket(ticket(0));
        for number in 1..=3 {
            history.begin(put(number), 4 * number as u64);
            history.note_ticket(ticket(10 * number as u64));
        }
        history.note_durable(9, ticket(10));
        let check =
            |numbers: &[i64], moment, found| history.check_ticket(after(numbers), moment, ticket(found));
        check(&[1], 9, 10).expect("the first is there, and no other");
        check(&[1], 9, 19).expect("there is nothing in between");
        check(&[1], 9, 20).expect_err("the second is not there");
        check(&[1, 2], 9, 10).expect_err("the second is there");
        check(&[], 8, 0).expect("nothing was durable yet");
        check(&[], 9, 0).expect_err("the first was durable");
        check(&[1, 2, 3], 20, 30).expect("all are there");
        check(&[9], 20, 5).expect_err("below what was durable");
    }

    #[test]
    fn a_failure_says_what_kind_it_is() {
        let history = history();
        let mut state = State::default();
        state.apply(&Event::Create("t".into(), Shape::Int));
        assert!(history.explain(&state, 12, 0).contains("something durable was lost"));
    }
}
