//! Snapshots: versions that readers hold, and what flushes and compactions must keep for them.
//!
//! Owns the registry of live snapshots and the visible version. A snapshot pins no view and no file: it is a number
//! in the registry, and whatever merges versions keeps those that the numbers need.
//!
//! Lock order: the registry's lock is a leaf; nothing is locked and nothing is read from disk under it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use codec::Version;
use pkindex::Retention;
use sync::Mutex;
use sync::atomic::{AtomicU64, Ordering};

/// The live snapshots, and the version up to which commits are visible.
#[derive(Debug)]
pub(crate) struct Registry {
    visible: AtomicU64,
    live: Mutex<BTreeMap<Version, usize>>,
}

impl Registry {
    pub(crate) fn new(visible: Version) -> Registry {
        Registry { visible: AtomicU64::new(visible.0), live: Mutex::default() }
    }

    /// The last version that readers see.
    pub(crate) fn visible(&self) -> Version {
        Version(self.visible.load(Ordering::Acquire))
    }

    /// Makes every version up to `version` visible. Callers publish in commit order.
    pub(crate) fn publish(&self, version: Version) {
        debug_assert!(self.visible() <= version, "the visible version only grows");
        self.visible.store(version.0, Ordering::Release);
    }

    /// Registers a snapshot of what is visible now. It must register before it pins a view: from here on nothing
    /// that it needs is dropped.
    pub(crate) fn take(self: &Arc<Registry>) -> Snapshot {
        let mut live = self.live.lock();
        let version = self.visible();
        *live.entry(version).or_default() += 1;
        drop(live);
        Snapshot(Arc::new(Registered { registry: Arc::clone(self), version }))
    }

    /// Fixes, in one step, what a flush or a compaction has to keep. A snapshot taken later reads at a version not
    /// below the floor, for which the rule keeps enough.
    pub(crate) fn retention(&self) -> Retention {
        let live = self.live.lock();
        Retention { floor: self.visible(), snapshots: live.keys().copied().collect() }
    }

    /// How many snapshots are live, and the oldest one's version.
    pub(crate) fn live(&self) -> (usize, Option<Version>) {
        let live = self.live.lock();
        (live.values().sum(), live.keys().next().copied())
    }
}

struct Registered {
    registry: Arc<Registry>,
    version: Version,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut live = self.registry.live.lock();
        if let Some(count) = live.get_mut(&self.version) {
            *count -= 1;
            if *count == 0 {
                live.remove(&self.version);
            }
        }
    }
}

/// A consistent state of all tables: reads at it see every batch that was visible when it was taken, and no later
/// one.
///
/// Cheap to take, to clone and to keep; it costs space for the versions that it holds back. Dropping the last clone
/// lets compaction drop them. It stays valid as a value after the engine is closed, but reads at it then fail.
///
/// ```
/// # fn main() -> Result<(), nyala::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// use nyala::{Engine, Options, Schema, Type};
/// let engine = Engine::open(dir.path(), Options::default())?;
/// let schema = Schema::builder().key("id", Type::U64).column("name", Type::String).build()?;
/// let people = engine.open_or_create_table("people", schema)?;
/// people.upsert((1, "Ada"))?;
/// let before = engine.snapshot();
/// people.upsert((1, "Grace"))?;
/// let row = people.get_at((1,), &before)?.expect("it was there");
/// assert_eq!(row.get::<&str>("name")?, "Ada");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Snapshot(Arc<Registered>);

impl Snapshot {
    /// The last version that it sees. Versions count operations; they grow, with gaps.
    #[must_use]
    pub fn version(&self) -> Version {
        self.0.version
    }

    pub(crate) fn at(&self) -> Version {
        self.0.version
    }

    /// Whether it was taken from the engine that this registry belongs to.
    pub(crate) fn belongs_to(&self, registry: &Arc<Registry>) -> bool {
        Arc::ptr_eq(&self.0.registry, registry)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Snapshot").field(&self.0.version).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_holds_its_version_until_the_last_clone_goes() {
        let registry = Arc::new(Registry::new(Version(5)));
        let first = registry.take();
        registry.publish(Version(9));
        let second = registry.take();
        let again = second.clone();
        assert_eq!(registry.retention().snapshots, [Version(5), Version(9)]);
        drop(second);
        assert_eq!(registry.live(), (2, Some(Version(5))));
        drop((first, again));
        assert_eq!(registry.live(), (0, None));
        assert_eq!(registry.retention().floor, Version(9));
    }
}
