//! Random schedules of writes, flushes, merges, installs, snapshots, reads and reopening.

use super::world::{Held, World};
use crate::compaction::{Eagerness, run};

const KEYS: usize = 70;

/// `NYALA_SEED` gives another seed, `NYALA_LONG=1` many more of them.
fn seeds() -> std::ops::Range<u64> {
    let first = std::env::var("NYALA_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    first..first + if std::env::var_os("NYALA_LONG").is_some() { 500 } else { 16 }
}

struct Schedule {
    world: World,
    held: Vec<Held>,
    moves: u64,
}

impl Schedule {
    fn eagerness(&self) -> Eagerness {
        match self.world.chance.below(3) {
            0 => Eagerness::Busy,
            1 => Eagerness::Idle,
            _ => Eagerness::Below(self.world.chance.below(20_000) as u64),
        }
    }

    fn step(&mut self) {
        let world = &mut self.world;
        let id = world.chance.below(KEYS) as u64;
        match world.chance.below(100) {
            0..50 => world.put(id),
            50..62 => world.delete(id),
            62..66 => {
                let ids: Vec<u64> = (0..8).map(|_| world.chance.below(KEYS) as u64).collect();
                world.put_batch(ids);
            }
            66..74 => world.flush(),
            74..77 => {
                let eagerness = self.eagerness();
                if let Some(job) = self.world.claim(eagerness) {
                    self.moves += job.work.moving.len() as u64;
                    run(self.world.core(), &job).expect("no fault");
                }
            }
            77..84 => {
                let eagerness = self.eagerness();
                if let Some(job) = self.world.claim(eagerness) {
                    self.moves += job.work.moving.len() as u64;
                    self.held.push(self.world.hold(job));
                }
            }
            84..90 if !self.held.is_empty() => {
                let at = world.chance.below(self.held.len());
                let held = self.held.swap_remove(at);
                world.install(held).expect("no fault");
            }
            90..93 if world.snapshots.len() < 5 => world.keep_snapshot(),
            93..96 if !world.snapshots.is_empty() => {
                let at = world.chance.below(world.snapshots.len());
                world.snapshots.swap_remove(at);
            }
            96..98 => {
                // A job that is dropped leaves its inputs as they were, and its files for the next open.
                self.held.clear();
                world.open();
                world.check();
            }
            98 if self.held.is_empty() => world.compact_whole(),
            _ => world.check_reads(),
        }
    }
}

#[test]
fn random_schedules_agree_with_the_model() {
    let mut moves = 0;
    for seed in seeds() {
        // Shown if something fails.
        println!("NYALA_SEED={seed}");
        let mut schedule = Schedule { world: World::new(seed), held: Vec::new(), moves: 0 };
        for _ in 0..500 {
            schedule.step();
        }
        for held in schedule.held.drain(..) {
            schedule.world.install(held).expect("no fault");
        }
        schedule.world.check();
        schedule.world.compact_all();
        schedule.world.check();
        schedule.world.open();
        schedule.world.check();
        moves += schedule.moves;
    }
    assert!(moves > 100, "rowsets did move: {moves}");
}
