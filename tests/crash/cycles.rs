//! The random test: children are killed one after the other on one directory, at any moment, also while they open it.
//!
//! Checked each time: every acknowledged step is there with the right values; a step that was under way is there whole
//! or not at all, and one that was not begun is not there; versions grow over all lives; `check()` finds nothing.

use std::path::Path;
use std::time::{Duration, Instant};

use nyala::Engine;

use crate::child::{decode_found, options};
use crate::process::{Directory, Process, environment};
use crate::random::Random;
use crate::report::Message;
use crate::work::{self, OWN, Owned, Step, THREADS};

/// What one thread was promised.
#[derive(Default)]
pub(crate) struct Promised {
    owned: Owned,
    /// The step that was begun and not acknowledged.
    under_way: Option<Step>,
}

/// The greatest numbers that were told.
#[derive(Default)]
struct Last {
    version: u64,
    /// A ticket. A kill loses nothing that was committed.
    committed: u64,
}

#[derive(Debug, Default)]
struct Tally {
    steps: u64,
    killed_opening: u32,
    under_way: u32,
    survived: u32,
    replayed: u64,
    torn: u32,
    /// Of what was under way: flushes, compactions, tables made and dropped.
    flushing: u32,
    compacting: u32,
    making: u32,
    dropping: u32,
    /// In the background too, in all lives.
    flushes: u64,
    compactions: u64,
}

impl Tally {
    fn note_under_way(&mut self, step: &Step) {
        self.under_way += 1;
        match step {
            Step::FlushAll | Step::FlushTable(_) => self.flushing += 1,
            Step::Compact(_) => self.compacting += 1,
            Step::MakeOwn => self.making += 1,
            Step::DropOwn => self.dropping += 1,
            _ => {}
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_by_a_kill() {
    let cycles = environment("NYALA_CRASH_CYCLES").unwrap_or(50);
    let seed = environment("NYALA_SEED").unwrap_or(20_261_130);
    println!("seed {seed}, {cycles} cycles; replay with NYALA_SEED={seed} NYALA_CRASH_CYCLES={cycles}");
    let dir = Directory::new();
    let dir = dir.path();
    let mut promised: Vec<Promised> = (0..THREADS).map(|_| Promised::default()).collect();
    let mut last = Last::default();
    let mut tally = Tally::default();
    let mut random = Random::of(&[seed, 4711]);
    let start = Instant::now();
    for cycle in 0..cycles {
        if cycle % 10 == 9 {
            visit(dir, seed, cycle, &mut promised);
        }
        let told = live_and_die(dir, seed, cycle, &mut random);
        account(&told, seed, cycle, &mut promised, &mut last, &mut tally);
    }
    visit(dir, seed, cycles, &mut promised);
    println!("{tally:?} in {:.1?}", start.elapsed());
    if cycles >= 50 {
        let kinds = [tally.killed_opening, tally.flushing + tally.compacting, tally.making + tally.dropping];
        assert!(kinds.iter().all(|count| *count > 0), "kills must meet everything: {tally:?}");
        assert!(tally.survived > 0 && tally.replayed > 0, "{tally:?}");
        assert!(tally.flushes > 0 && tally.compactions > 0, "{tally:?}");
    }
}

/// Children that rest now and then, and are killed about when their log falls idle and is shrunk.
#[test]
fn nothing_acknowledged_is_lost_by_a_kill_around_a_pause() {
    let cycles = environment("NYALA_CRASH_PAUSES").unwrap_or(5);
    let seed = environment("NYALA_SEED").unwrap_or(20_261_201);
    println!("seed {seed}, {cycles} cycles; replay with NYALA_SEED={seed} NYALA_CRASH_PAUSES={cycles}");
    let dir = Directory::new();
    let dir = dir.path();
    let mut promised: Vec<Promised> = (0..THREADS).map(|_| Promised::default()).collect();
    let (mut last, mut tally, mut shrunk) = (Last::default(), Tally::default(), 0);
    let mut random = Random::of(&[seed, 4712]);
    for cycle in 0..cycles {
        let mut child = Process::start(&format!("pauses {seed} {cycle}"), dir);
        child.wait_until(None, |message| matches!(message, Message::Ready { .. }));
        let moment = Instant::now() + Duration::from_micros(600_000 + random.number(900_000));
        child.wait_until(Some(moment), |_| false);
        let told = child.kill();
        let segment_bytes = options(seed, cycle).log_segment_bytes;
        shrunk += u32::from(is_log_shrunk(dir, segment_bytes));
        account(&told, seed, cycle, &mut promised, &mut last, &mut tally);
    }
    visit(dir, seed, cycles, &mut promised);
    println!("{tally:?}, {shrunk} with a log that was shrunk");
    if cycles >= 20 {
        assert!(tally.steps > 0 && shrunk > 0, "{tally:?}, {shrunk}");
    }
}

/// Whether the newest segment takes less than a segment does that was made ahead.
fn is_log_shrunk(dir: &Path, segment_bytes: u64) -> bool {
    let entries = std::fs::read_dir(dir).expect("it is there").map(|entry| entry.expect("an entry"));
    let number = |path: &Path| path.file_stem()?.to_str()?.parse::<u64>().ok();
    let segments = entries.filter(|entry| entry.path().extension().is_some_and(|found| found == "wal"));
    let newest = segments.max_by_key(|entry| number(&entry.path())).expect("a log");
    newest.metadata().expect("it is there").len() < segment_bytes / 2
}

/// One child, from its start to its kill.
fn live_and_die(dir: &Path, seed: u64, cycle: u64, random: &mut Random) -> Vec<Message> {
    let mut child = Process::start(&format!("cycle {seed} {cycle}"), dir);
    if random.one_in(4) {
        // While it opens the directory, or shortly after.
        child.wait_until(None, |message| *message == Message::Opening);
        let moment = Instant::now() + Duration::from_micros(random.number(20_000));
        child.wait_until(Some(moment), |_| false);
    } else {
        child.wait_until(None, |message| matches!(message, Message::Ready { .. }));
        let millis = if random.one_in(5) { 400 } else { 120 };
        let moment = Instant::now() + Duration::from_micros(random.number(millis * 1000));
        child.wait_until(Some(moment), |_| false);
    }
    child.kill()
}

/// Compares what the child found with what the ones before it were promised, and notes what it was promised itself.
fn account(
    told: &[Message],
    seed: u64,
    cycle: u64,
    promised: &mut [Promised],
    last: &mut Last,
    tally: &mut Tally,
) {
    let ready = told.iter().find_map(|message| match message {
        Message::Ready { version, replayed, torn, recovered } => {
            Some((*version, *replayed, *torn, *recovered))
        }
        _ => None,
    });
    let Some((found_version, replayed, torn, recovered)) = ready else {
        tally.killed_opening += 1;
        return;
    };
    tally.replayed += replayed;
    tally.torn += u32::from(torn);
    assert!(found_version >= last.version, "cycle {cycle}: version {found_version} after {}", last.version);
    last.version = found_version;
    assert!(
        recovered >= last.committed,
        "cycle {cycle}: {} was committed, {recovered} found",
        last.committed
    );
    last.committed = recovered;
    tally.survived += compare(decode_found(told), cycle, promised);
    tally.steps += begun_and_done(told, seed, cycle, promised);
    for message in told {
        if let Message::Done { version, committed, durable, .. } = message {
            last.version = last.version.max(*version);
            last.committed = last.committed.max(*committed).max(*durable);
        }
    }
    for step in promised.iter().filter_map(|promised| promised.under_way.as_ref()) {
        tally.note_under_way(step);
    }
    if let Some((flushes, compactions)) = told.iter().rev().find_map(|message| match message {
        Message::Work { flushes, compactions } => Some((*flushes, *compactions)),
        _ => None,
    }) {
        tally.flushes += flushes;
        tally.compactions += compactions;
    }
}

/// Notes what the steps of one life promise, and which was under way at its end. Gives how many were acknowledged.
pub(crate) fn begun_and_done(told: &[Message], seed: u64, cycle: u64, promised: &mut [Promised]) -> u64 {
    let mut steps = 0;
    let mut begun = vec![0u32; promised.len()];
    let mut done = vec![0u32; promised.len()];
    for message in told {
        match *message {
            Message::Intent { thread, step } => {
                let thread = usize::from(thread);
                assert_eq!(
                    (begun[thread], done[thread]),
                    (step, step),
                    "cycle {cycle}: steps come one after the other"
                );
                begun[thread] += 1;
            }
            Message::Done { thread, step: number, outcome, .. } => {
                let index = usize::from(thread);
                assert_eq!(
                    (begun[index], done[index]),
                    (number + 1, number),
                    "cycle {cycle}: what is done was begun"
                );
                done[index] += 1;
                let owned = &mut promised[index].owned;
                let step = work::step(seed, cycle, thread, number, owned);
                let expected = owned.apply(&step);
                assert_eq!(outcome, expected, "cycle {cycle}, thread {thread}, step {number}: {step:.300?}");
                steps += 1;
            }
            _ => {}
        }
    }
    for (thread, promised) in (0u8..).zip(promised) {
        let index = usize::from(thread);
        if begun[index] > done[index] {
            promised.under_way = Some(work::step(seed, cycle, thread, done[index], &promised.owned));
        }
    }
    steps
}

/// Each thread's rows are those that it was promised, with the step that was under way or without it.
/// Gives how many steps that were under way are there.
pub(crate) fn compare(found: Vec<Owned>, cycle: u64, promised: &mut [Promised]) -> u32 {
    let mut survived = 0;
    for (thread, (found, promised)) in found.into_iter().zip(promised).enumerate() {
        let mut with = promised.owned.clone();
        let under_way = promised.under_way.take();
        if let Some(step) = &under_way {
            with.apply(step);
        }
        if found == promised.owned {
            continue;
        }
        if found == with {
            promised.owned = with;
            survived += 1;
            continue;
        }
        let mut text = format!("cycle {cycle}, thread {thread} lost something.\n");
        for place in 0..=OWN {
            for (name, expected) in [("without", &promised.owned), ("with", &with)] {
                if let Some(how) = work::differ(expected.rows(place), found.rows(place)) {
                    text.push_str(&format!("table {place}, {name} the step under way: {how}\n"));
                }
            }
        }
        panic!("{text}under way: {:.500?}", under_way);
    }
    survived
}

/// The parent opens the directory itself, reads it in other ways, and closes it properly.
fn visit(dir: &Path, seed: u64, cycle: u64, promised: &mut [Promised]) {
    let engine = Engine::open(dir, options(seed, cycle + 1000)).expect("it opens");
    let report = engine.check().expect("it can be read");
    assert!(report.is_clean(), "{:?}", report.problems);
    let found = found_by(&engine, promised.len());
    compare(found, cycle, promised);
    engine.close().expect("a clean end");
    drop(engine);
    // A clean end leaves nothing to replay.
    let engine = Engine::open(dir, options(seed, cycle + 2000)).expect("it opens");
    assert_eq!(engine.recovery_report().replayed_operations, 0);
    assert_eq!(engine.recovery_report().torn, None);
}

/// Reads all tables, from both ends.
pub(crate) fn found_by(engine: &Engine, threads: usize) -> Vec<Owned> {
    let mut found = vec![Owned::default(); threads];
    for name in engine.tables() {
        let place = work::TABLES.iter().position(|table| *table == name).unwrap_or(OWN);
        let table = work::open(engine, &name, place).expect("the same schema");
        let own = (0..THREADS).find(|thread| work::own_name(*thread) == name);
        if let Some(thread) = own {
            found[usize::from(thread)].own = Some(work::Rows::new());
        }
        let mut rows: Vec<_> =
            table.scan().reverse().rows().expect("a scan").collect::<Result<_, _>>().expect("rows");
        rows.reverse();
        let forward: Vec<_> = work::found_rows(&table, place).expect("rows");
        let backward: Vec<_> = rows.iter().map(|row| work::read(place, row).expect("a row")).collect();
        assert_eq!(forward, backward, "table {name:?} from both ends");
        for (owner, id, content) in forward {
            let owned = &mut found[usize::from(own.unwrap_or(owner))];
            let rows =
                if place == OWN { owned.own.as_mut().expect("made") } else { &mut owned.tables[place] };
            rows.insert(id, content);
        }
    }
    found
}
