//! What a committing thread waits on.
//!
//! Owns the way of one submission: waiting, perhaps asked to lead the next group, done. The leader that finishes it
//! gives its buffers back, so that the next batch of that thread allocates nothing.

use codec::Version;
use sync::{Condvar, Mutex};

use super::Submission;
use crate::error::Error;

/// Why a submission was not committed.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Something that the batch was checked against may have changed. Evaluate again once this version is visible.
    Stale(Version),
    /// It failed for good.
    Failed(Error),
}

#[derive(Debug)]
enum State {
    Waiting,
    Leading,
    Done(Result<Version, Refusal>, Option<Box<Submission>>),
}

/// What a thread is told.
#[derive(Debug)]
pub(crate) enum Told {
    /// It leads the next group; its submission is the first of it.
    Lead,
    /// The last version of its batch, which is visible; or why not. And its buffers.
    Done(Result<Version, Refusal>, Option<Box<Submission>>),
}

#[derive(Debug)]
pub(crate) struct Waiter {
    state: Mutex<State>,
    changed: Condvar,
}

impl Waiter {
    pub(crate) fn new() -> Waiter {
        Waiter { state: Mutex::new(State::Waiting), changed: Condvar::new() }
    }

    /// Waits until told.
    pub(crate) fn wait(&self) -> Told {
        let mut state = self.state.lock();
        loop {
            match std::mem::replace(&mut *state, State::Waiting) {
                State::Waiting => self.changed.wait(&mut state),
                State::Leading => return Told::Lead,
                State::Done(result, submission) => return Told::Done(result, submission),
            }
        }
    }

    fn tell(&self, next: State) {
        *self.state.lock() = next;
        self.changed.notify_one();
    }

    pub(crate) fn promote(&self) {
        self.tell(State::Leading);
    }

    pub(crate) fn finish(&self, result: Result<Version, Refusal>, submission: Option<Box<Submission>>) {
        self.tell(State::Done(result, submission));
    }
}
