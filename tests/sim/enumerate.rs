//! Cuts the power at every operation of a run, and looks at what is left.
//!
//! Each state is opened and compared with the history; written to; cut again, in its own recovery or later; opened and
//! compared once more.
//!
//! Invariant: at a later moment nothing may be missing that an earlier cut which kept nothing unsynced still had.

use std::collections::HashMap;

use nyala::Version;
use nyala::vfs::SimFs;
use nyala::vfs::sim::PowerCut;

use crate::history::{History, hash_of};
use crate::page_states::{NAMED, page_state};
use crate::plan::Target;
use crate::random::Random;
use crate::state::State;
use crate::tally::Tally;
use crate::workloads::{Workload, second_life};
use crate::world::{Era, Moment, World};
use crate::{copies, deep};

/// Within how many operations a process stops that goes on after a power cut.
const LIFE_OPERATIONS: usize = 400;
/// An operation of a kind that a run has fewer of is rare.
const RARE: usize = 8;
/// How often the power goes in the life of one state: at the moment itself, then once more or twice more.
const CUTS: usize = 2;

/// Says how to try a state again when looking at it panics.
struct Replay<'a> {
    target: &'a Target,
    after: &'a str,
    story: Vec<String>,
}

impl Drop for Replay<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Replay { target, after, story } = self;
            let Target { workload, seed, era, operation, .. } = target;
            eprintln!(
                "\nworkload {workload}, seed {seed}, era {era}: the power went before operation {operation}, after \
                 {after:?}\n{}\nreplay: NYALA_SIM_ONLY={target} cargo test -p nyala --test sim -- --nocapture\n",
                story.join("\n")
            );
        }
    }
}

/// Says how to try a run again that panics by itself, before anything is looked at.
struct ReplayRun {
    workload: &'static str,
    seed: u64,
}

impl Drop for ReplayRun {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let ReplayRun { workload, seed } = self;
            eprintln!(
                "\nthe run of workload {workload} with seed {seed} itself failed\nreplay: NYALA_SEED={seed} \
                 NYALA_SIM_WORKLOAD={workload} cargo test -p nyala --test sim -- --nocapture\n"
            );
        }
    }
}

/// What is looked at of a run.
pub(crate) struct Visit<'a> {
    pub(crate) workload: &'static Workload,
    pub(crate) seed: u64,
    /// The page states in which each moment is looked at: so many, of those that there are in turn.
    pub(crate) page_states: usize,
    pub(crate) tally: &'a Tally,
    /// Told what is begun.
    pub(crate) begin: &'a dyn Fn(String),
    /// Whether enough is done.
    pub(crate) is_over: &'a (dyn Fn() -> bool + Sync),
}

fn mix(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0x9e37_79b9_7f4a_7c15, |mixed, &number| Random::new(mixed ^ number).next())
}

impl Visit<'_> {
    /// Every moment of a run.
    pub(crate) fn all(&self) {
        (self.begin)(format!("the run of {} with seed {}", self.workload.name, self.seed));
        let eras = self.run(self.seed);
        let mut met: HashMap<&str, usize> = HashMap::new();
        for moment in eras.iter().flat_map(|era| &era.moments) {
            *met.entry(&moment.after).or_default() += 1;
        }
        for (era_number, era) in eras.iter().enumerate() {
            self.tally.note_moments(era.moments.iter().map(|moment| moment.after.as_str()));
            // The state that a disk was found to hold, and the least that later ones must.
            let mut known: HashMap<u64, Known> = HashMap::new();
            let mut floor = 0;
            for (index, moment) in era.moments.iter().enumerate() {
                if (self.is_over)() {
                    return;
                }
                // What comes rarely is looked at from all sides.
                let is_rare = met[moment.after.as_str()] < RARE;
                let turns = if is_rare { self.page_states.max(NAMED) } else { self.page_states };
                for turn in 0..turns {
                    // Neighbours begin with different ones, so that a few turns see all of them somewhere.
                    let number = if turn < NAMED { (index * 5 + turn) % NAMED } else { turn };
                    let target = self.target(era_number, moment, number);
                    let found = self.look(&target, moment, era, floor, &mut known);
                    // An event that failed may be durable for a moment, until it is refused.
                    if number == 0 && found < era.history.len() {
                        floor = found;
                    }
                }
            }
        }
    }

    fn run(&self, seed: u64) -> Vec<Era> {
        let _replay = ReplayRun { workload: self.workload.name, seed };
        self.workload.run(seed)
    }

    fn target(&self, era: usize, moment: &Moment, page_state: usize) -> Target {
        let (workload, operation) = (self.workload.name.to_owned(), moment.operation);
        Target { workload, seed: self.seed, era, operation, page_state }
    }

    /// One state again, from the start.
    pub(crate) fn one(&self, target: &Target) {
        let eras = self.run(target.seed);
        let era = eras.get(target.era).expect("the run has this era");
        let moment = era.moments.iter().find(|moment| moment.operation == target.operation);
        let moment = moment.expect("the era has this operation, and it changes the disk");
        // What earlier cuts found durable counts here too.
        let (mut floor, mut known) = (0, HashMap::new());
        for earlier in era.moments.iter().take_while(|earlier| earlier.operation < moment.operation) {
            let place = self.look(&self.target(target.era, earlier, 0), earlier, era, floor, &mut known);
            if place < era.history.len() {
                floor = place;
            }
        }
        self.look(target, moment, era, floor, &mut HashMap::new());
    }

    /// Looks at one state. Returns its place in the history.
    fn look(
        &self,
        target: &Target,
        moment: &Moment,
        era: &Era,
        floor: usize,
        known: &mut HashMap<u64, Known>,
    ) -> usize {
        let history = &era.history;
        let seed = mix(&[target.seed, target.era as u64, target.operation, target.page_state as u64]);
        let (name, policy) = page_state(target.page_state, seed);
        let story = vec![format!("page state {} ({name}): {policy:?}", target.page_state)];
        let mut replay = Replay { target, after: &moment.after, story };
        let disk = moment.disk.power_cut(&policy);
        let fingerprint = disk.fingerprint();
        // What has just become durable need not change what is seen.
        if target.page_state == 0 || !known.contains_key(&fingerprint) {
            copies::check(&era.copies, &disk.fork(), moment.operation);
        }
        let random = Random::new(seed);
        let Known { hash, recovered_to } = match known.get(&fingerprint) {
            Some(&found) => found,
            None => {
                (self.begin)(target.to_string());
                self.tally.note(self.workload.name, fingerprint, &moment.after);
                let mut life = Life { visit: self, random, replay: &mut replay };
                let cuts = CUTS - 1 + usize::from(seed.is_multiple_of(4));
                let found =
                    life.live(disk, cuts, history.version(moment.operation), &|found, recovered_to| {
                        history.check_found(found, moment.operation, floor, recovered_to)
                    });
                known.insert(fingerprint, found);
                found
            }
        };
        let place = history.find(hash, moment.operation, floor);
        // What was durable by now may be more than at the moment at which the disk was looked at.
        if let Err(why) = history.check_ticket(hash, moment.operation, recovered_to) {
            panic!("the same disk at another moment: {why}");
        }
        place.expect("the same disk at a moment at which it holds too little, or too much")
    }
}

/// What a disk was found to hold, and the last commit that its opening told.
#[derive(Clone, Copy)]
struct Known {
    hash: u64,
    recovered_to: Version,
}

/// A state, from its first opening to its last.
struct Life<'a, 'b> {
    visit: &'a Visit<'a>,
    random: Random,
    replay: &'a mut Replay<'b>,
}

impl Life<'_, '_> {
    /// Opens a disk, compares it, and goes on living on it if the power is to go `cuts` times more. Returns what
    /// was found. Versions up to `used_version` must not be given out again.
    fn live(
        &mut self,
        disk: SimFs,
        cuts: usize,
        used_version: u64,
        permit: &dyn Fn(&State, Version) -> Result<(), String>,
    ) -> Known {
        disk.set_capacity(None);
        let options = (self.visit.workload.options)();
        let again = disk.fork();
        let looked = copies::look(&disk.fork(), &options);
        let mut world = World::on(disk, self.random.clone(), options.clone());
        let found = world.open_found();
        let changes = world.changes_of_open();
        let recovered_to = world.engine().recovered_to();
        if let Err(why) = permit(&found, recovered_to) {
            panic!("{why}");
        }
        match looked {
            Some(looked) => {
                assert!(looked == found, "for reading only it was:\n{}", found.difference(&looked))
            }
            None => assert!(found == State::default(), "for reading only there was nothing"),
        }
        let version = world.version();
        assert!(
            version >= used_version,
            "version {used_version} was seen, and {version} is the last that is used up"
        );
        deep::compare(world.engine(), &found, &mut self.random);
        let known = Known { hash: hash_of(&found), recovered_to };
        if cuts == 0 {
            world.stop();
            return known;
        }
        let (moment, history) = if self.random.one_in(3) {
            world.stop();
            // The same once more, and not to the end.
            again.halt_at(1 + *self.random.pick(&changes));
            let world = World::on(again, self.random.clone(), options);
            let (moment, _) = world.open_halted().stop();
            (moment, History::new(found, recovered_to))
        } else {
            world.halt_after(self.random.below(LIFE_OPERATIONS) as u64);
            for _ in 0..3 {
                second_life(&mut world);
            }
            world.stop()
        };
        let seed = self.random.next();
        let (name, policy) = match self.random.below(2) {
            0 => page_state(self.random.below(NAMED), seed),
            _ => ("random", PowerCut::random(seed)),
        };
        self.replay.story.push(format!(
            "then the power went before operation {} of the next process, after {:?}, page state {name}: {policy:?}",
            moment.operation, moment.after
        ));
        let disk = moment.disk.power_cut(&policy);
        self.visit.tally.note(self.visit.workload.name, disk.fingerprint(), &moment.after);
        self.live(disk, cuts - 1, version, &|found, recovered_to| {
            history.check_found(found, moment.operation, 0, recovered_to)
        });
        known
    }
}
