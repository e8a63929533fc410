//! Turns: who may sync, and how far the log is known to be on disk.
//!
//! Syncs of one log come one after another, because the disk reports an error to one of two concurrent callers only:
//! the other would take lost data for synced. The first failure is kept here and given to everybody after.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use codec::Version;
use sync::{Condvar, Mutex};

use crate::{Error, Position, Result};

/// How far a log goes: its end, and the last version before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    pub(super) position: Position,
    pub(super) version: Version,
}

#[derive(Debug)]
pub(super) struct Turns {
    dir: Arc<Path>,
    state: Mutex<State>,
    changed: Condvar,
    failure: OnceLock<Error>,
}

#[derive(Debug)]
struct State {
    synced: Reach,
    busy: bool,
}

/// The right to sync. Dropped without an answer, by a panic, it latches that as the failure.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    answered: bool,
}

impl Turns {
    pub(super) fn new(dir: Arc<Path>, synced: Position) -> Turns {
        let synced = Reach { position: synced, version: Version(0) };
        let state = Mutex::new(State { synced, busy: false });
        Turns { dir, state, changed: Condvar::new(), failure: OnceLock::new() }
    }

    pub(super) fn synced(&self) -> Reach {
        self.state.lock().synced
    }

    pub(super) fn failure(&self) -> Option<Error> {
        self.failure.get().cloned()
    }

    /// Closes the log for good, because of `error` or an earlier one, which it gives back.
    pub(super) fn latch(&self, error: Error) -> Error {
        self.failure.get_or_init(|| error.for_good()).clone()
    }

    /// Refuses everything from now on, although nothing has failed.
    pub(super) fn latch_read_only(&self) {
        self.failure.get_or_init(|| Error::ReadOnly { dir: self.dir.clone() });
    }

    pub(super) fn latch_panic(&self) {
        self.latch(Error::Interrupted { dir: self.dir.clone() });
    }

    /// Waits until everything before `through` is synced (`None`), or it is the caller's turn to see to it.
    pub(super) fn take(&self, through: Position) -> Result<Option<Turn<'_>>> {
        self.wait(Some(through))
    }

    /// Waits for a turn, whatever is synced.
    pub(super) fn take_any(&self) -> Result<Turn<'_>> {
        Ok(self.wait(None)?.expect("only a position to reach ends the wait without a turn"))
    }

    fn wait(&self, through: Option<Position>) -> Result<Option<Turn<'_>>> {
        let mut state = self.state.lock();
        loop {
            if through.is_some_and(|through| state.synced.position >= through) {
                return Ok(None);
            }
            if let Some(error) = self.failure() {
                return Err(error);
            }
            if !state.busy {
                state.busy = true;
                return Ok(Some(Turn { turns: self, answered: false }));
            }
            self.changed.wait(&mut state);
        }
    }
}

impl Turn<'_> {
    /// Everything that `reached` speaks of is on disk.
    pub(super) fn done(mut self, reached: Reach) {
        self.answered = true;
        let synced = &mut self.turns.state.lock().synced;
        synced.position = synced.position.max(reached.position);
        synced.version = synced.version.max(reached.version);
    }

    /// It failed: closes the log for good.
    pub(super) fn fail(mut self, error: Error) -> Error {
        self.answered = true;
        self.turns.latch(error)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.turns.latch_panic();
        }
        self.turns.state.lock().busy = false;
        self.turns.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::FileId;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn at(offset: u64) -> Position {
        Position { segment: FileId(1), offset }
    }

    fn reach(offset: u64, version: u64) -> Reach {
        Reach { position: at(offset), version: Version(version) }
    }

    #[test]
    fn a_panicking_turn_fails_those_who_wait() {
        let turns = Turns::new(Path::new("log").into(), at(64));
        std::thread::scope(|scope| {
            let turn = turns.take_any().unwrap();
            let waiter = scope.spawn(|| turns.take(at(100)).map(|turn| turn.is_some()));
            let leader = scope.spawn(move || {
                let _ = catch_unwind(AssertUnwindSafe(|| {
                    let _turn = turn;
                    panic!("a bug");
                }));
            });
            leader.join().unwrap();
            assert!(matches!(waiter.join().unwrap(), Err(Error::Interrupted { .. })));
        });
        assert!(matches!(turns.take_any(), Err(Error::Interrupted { .. })));
    }

    #[test]
    fn a_turn_serves_all_that_it_reached() {
        let turns = Turns::new(Path::new("log").into(), at(64));
        assert!(turns.take(at(64)).unwrap().is_none());
        turns.take(at(65)).unwrap().expect("not synced yet").done(reach(100, 7));
        assert!(turns.take(at(100)).unwrap().is_none());
        assert_eq!(turns.synced(), reach(100, 7));
        turns.take_any().unwrap().done(Reach::default());
        assert_eq!(turns.synced(), reach(100, 7), "a turn for something else takes nothing back");
    }
}
