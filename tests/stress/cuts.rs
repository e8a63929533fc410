//! Cuts the power of a simulated disk under the threads: the copy that it leaves must open, hold a prefix of what was
//! committed, and all that was synced.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nyala::Options;
use nyala::vfs::SimFs;
use nyala::vfs::sim::PowerCut;

use crate::bank::{Found, WRITERS};
use crate::watchdog::Beat;
use crate::world::{Chance, World};

pub(crate) struct Cutting {
    disk: SimFs,
    options: Options,
    cuts: AtomicU64,
}

impl Cutting {
    pub(crate) fn new(disk: &SimFs, options: Options) -> Cutting {
        Cutting { disk: disk.clone(), options, cuts: AtomicU64::new(0) }
    }

    pub(crate) fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::Relaxed)
    }

    pub(crate) fn cut(&self, world: &World, chance: &mut Chance, beat: &Beat) {
        while world.goes_on() {
            std::thread::sleep(Duration::from_millis(chance.below(50)));
            // What was synced before the cut survives it.
            let synced: [u64; WRITERS] =
                std::array::from_fn(|writer| world.synced[writer].load(Ordering::Acquire));
            let policy = match chance.below(3) {
                0 => PowerCut::lose_all(),
                1 => PowerCut::keep_all(),
                _ => PowerCut::random(chance.below(u64::MAX)),
            };
            beat.doing("cutting the power");
            let left = self.disk.power_cut(&policy);
            beat.doing("opening what a power cut left");
            let after = World::reopen("/db".as_ref(), Options { fs: Arc::new(left), ..self.options.clone() });
            beat.doing("reading what a power cut left");
            let found = Found::of(&after);
            for (writer, synced) in synced.iter().enumerate() {
                let last = found.last(writer);
                assert!(last >= *synced, "writer {writer}: {synced} was synced, {last} is there; {policy:?}");
            }
            after.assert_clean();
            after.close();
            self.cuts.fetch_add(1, Ordering::Relaxed);
        }
    }
}
