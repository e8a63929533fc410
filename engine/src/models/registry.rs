//! The registry of snapshots alone: whatever a flush or a compaction keeps, no snapshot misses its versions.

use std::sync::Arc;

use codec::Version;
use sync::thread;

use super::runner::check;
use crate::snapshot::Registry;

/// A snapshot that is live when a flush fixes what to keep, or that is taken later, is either at or above the floor, or
/// in the list. Else the flush drops the version that it reads.
#[test]
fn what_a_flush_keeps_covers_every_snapshot_that_is_live_or_comes() {
    check(|| {
        let registry = Arc::new(Registry::new(Version(1)));
        let publisher = thread::spawn({
            let registry = Arc::clone(&registry);
            move || (2..=4).for_each(|version| registry.publish(Version(version)))
        });
        let flush = thread::spawn({
            let registry = Arc::clone(&registry);
            move || registry.retention()
        });
        let taken: Vec<_> = (0..2)
            .map(|_| {
                let registry = Arc::clone(&registry);
                thread::spawn(move || {
                    let first = registry.take();
                    let again = registry.take();
                    assert!(first.at() <= again.at(), "a later snapshot sees no less");
                    // The first stays, the other goes: only what is live counts.
                    first
                })
            })
            .collect();
        let snapshots: Vec<_> = taken.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        let kept = flush.join().expect("no panic");
        publisher.join().expect("no panic");
        for snapshot in &snapshots {
            assert!(
                snapshot.at() >= kept.floor || kept.snapshots.contains(&snapshot.at()),
                "{snapshot:?} is lost to {kept:?}"
            );
        }
        assert_eq!(registry.live().0, 2);
        drop(snapshots);
        assert_eq!(registry.live(), (0, None));
        assert_eq!(registry.visible(), Version(4));
    });
}
