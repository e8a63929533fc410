//! Publishes groups in commit order, although their syncs may end in any order.

use std::collections::BTreeMap;

use codec::Version;
use sync::{Condvar, Mutex};

use crate::snapshot::Registry;

#[derive(Debug, Default)]
struct Turns {
    /// The group whose turn it is.
    next: u64,
    /// Groups that are done before their turn, with their last version.
    early: BTreeMap<u64, Version>,
}

#[derive(Debug, Default)]
pub(crate) struct Publisher {
    turns: Mutex<Turns>,
    advanced: Condvar,
}

impl Publisher {
    /// Says that a group is done, and waits until it and all before it are published. Every group must call this
    /// once, also one that failed: those behind it wait.
    pub(crate) fn publish(&self, group: u64, last: Version, registry: &Registry) {
        let mut turns = self.turns.lock();
        turns.early.insert(group, last);
        let mut moved = false;
        loop {
            let next = turns.next;
            let Some(version) = turns.early.remove(&next) else { break };
            registry.publish(version);
            turns.next += 1;
            moved = true;
        }
        if moved {
            self.advanced.notify_all();
        }
        while turns.next <= group {
            self.advanced.wait(&mut turns);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_later_group_is_published_after_an_earlier_one() {
        let registry = Arc::new(Registry::new(Version(0)));
        let publisher = Publisher::default();
        std::thread::scope(|scope| {
            scope.spawn(|| publisher.publish(1, Version(20), &registry));
            std::thread::sleep(Duration::from_millis(10));
            assert_eq!(registry.visible(), Version(0));
            publisher.publish(0, Version(10), &registry);
        });
        assert_eq!(registry.visible(), Version(20));
    }
}
