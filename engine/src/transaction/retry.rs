//! Runs a transaction again after what may pass: a conflict, a want of file descriptors.

use std::sync::Arc;
use std::time::Duration;

use super::Transaction;
use crate::core::{Core, Handle};
use crate::error::{Error, Result};
use crate::options::Durability;

/// How often [`Engine::transact`](crate::Engine::transact) tries.
pub(crate) const ATTEMPTS: u32 = 100;

/// Runs a transaction again and again until it commits, or fails for a reason that stays.
pub(crate) fn transact<T>(
    handle: &Arc<Handle>,
    durability: Durability,
    attempts: u32,
    mut run: impl FnMut(&mut Transaction) -> Result<T>,
) -> Result<T> {
    let core = &handle.core;
    for attempt in 1..=attempts {
        let mut transaction = Transaction::new(Arc::clone(handle));
        let value = run(&mut transaction)?;
        match transaction.commit(durability) {
            Ok(_) => return Ok(value),
            Err(error) if error.is_transient() => {
                if attempt == attempts {
                    return Err(error.context(format!("given up after {attempts} attempts")));
                }
                give_way(core, attempt);
            }
            Err(error) => return Err(error),
        }
    }
    Err(Error::invalid("a transaction needs at least one attempt"))
}

/// Those who want the same thing should not try again all at the same moment. The first retry goes at once.
fn give_way(core: &Core, attempt: u32) {
    const PAUSE_MIN_MICROS: usize = 20;
    const DOUBLINGS_MAX: u32 = 7;
    if attempt > 1 {
        let most = PAUSE_MIN_MICROS << attempt.min(DOUBLINGS_MAX);
        core.clock.sleep(Duration::from_micros(1 + core.chance.below(most) as u64));
    }
}
