//! Real power cuts: children on an ext4 whose device stops at a random moment, in the middle of writes, syncs, flushes,
//! compactions and opens.
//!
//! Checked after each: what was acknowledged with `Sync`, or before it, is there; what is there is a prefix of the
//! commits over all threads and tables; a step is there whole or not at all; `check()` finds nothing; and the next
//! child writes on.
//!
//! Which commits came before which is known from the pipe: a step that was acknowledged before another was begun.
//!
//! Only what the pipe gave before the ioctl is called counts as synced. The kernel is no device without power: a sync
//! under way when it shuts a file system down may report success although the blocks it wrote stay marked as unwritten
//! (the flag that stops new transactions is set well before the journal is given up). What is there must be a prefix
//! all the same.

use std::time::{Duration, Instant};

use nyala::Engine;

use crate::child::{decode_found, options};
use crate::mounts::{self, Ext4, Journal, Shutdown};
use crate::process::{Directory, Process, environment};
use crate::random::Random;
use crate::report::Message;
use crate::work::{self, DONE, OWN, Owned, Step, THREADS, Verb};

const NAME: &str = "power::a_power_cut_on_ext4_leaves_a_prefix_with_all_that_was_synced";

/// What the steps of one thread were in one life, in order.
#[derive(Default)]
struct Told {
    /// When each was begun: the place of the message among all of this life.
    begun: Vec<usize>,
    /// When each was acknowledged, and how it ended. The last one that was begun may not have been.
    done: Vec<(usize, u8)>,
}

/// A life that ended with a power cut, of which the next child tells what is left.
struct Life {
    cycle: u64,
    threads: Vec<Told>,
    /// How many messages had come before the power was cut.
    before_cut: usize,
}

#[derive(Debug, Default)]
struct Tally {
    cuts: u64,
    while_opening: u64,
    steps: u64,
    synced: u64,
    /// Steps that make durable, but were acknowledged while the power was being cut.
    synced_late: u64,
    lost: u64,
    lives_that_lost: u64,
    torn: u64,
    flushes: u64,
    compactions: u64,
}

// docs/testing.md, fault 60
#[test]
fn a_power_cut_on_ext4_leaves_a_prefix_with_all_that_was_synced() {
    let cuts = environment("NYALA_POWER_CUTS").unwrap_or(3);
    if cuts == 0 || !mounts::are_our_own(NAME) {
        return;
    }
    let seed = environment("NYALA_SEED").unwrap_or(20_261_130);
    println!("seed {seed}, {cuts} power cuts; replay with NYALA_SEED={seed} NYALA_POWER_CUTS={cuts}");
    let dir = Directory::new();
    let Some(mut disk) = Ext4::make(dir.path(), 64) else { return };
    let mut random = Random::of(&[seed, 60]);
    let mut known = vec![Owned::default(); usize::from(THREADS)];
    let mut pending: Option<Life> = None;
    let mut last = Last::default();
    let mut tally = Tally::default();
    let start = Instant::now();
    // On a busy machine the power may be cut again and again before anything is done.
    let mut cycles = 0..10 * cuts;
    while (tally.cuts < cuts || tally.steps == 0)
        && let Some(cycle) = cycles.next()
    {
        let data = ["ordered", "writeback", "journal"][random.number(3) as usize];
        disk.mount(data);
        if cycle % 10 == 9 {
            visit(&disk, seed, cycle, &mut known, &mut pending, &mut tally);
        }
        let (told, before_cut) = live_until_the_cut(&disk, seed, cycle, &mut random);
        tally.cuts += 1;
        disk.unmount();
        account((&told, before_cut), seed, cycle, &mut known, &mut pending, &mut last, &mut tally);
    }
    disk.mount("ordered");
    visit(&disk, seed, tally.cuts, &mut known, &mut pending, &mut tally);
    disk.unmount();
    println!("{tally:?} in {:.1?}", start.elapsed());
    assert!(tally.steps > 0 && tally.cuts >= cuts);
    if cuts >= 20 {
        assert!(tally.synced > 0 && tally.flushes > 0, "{tally:?}");
        assert!(
            tally.lives_that_lost > 0,
            "no power cut cost a buffered write: is the power cut at all? {tally:?}"
        );
    }
}

/// The greatest numbers that were told.
#[derive(Default)]
struct Last {
    version: u64,
    /// A ticket. What was said to be durable before the cut is there after it.
    durable: u64,
}

/// One child, until the power goes. Gives all that it told, and how many messages came before the cut began.
fn live_until_the_cut(disk: &Ext4, seed: u64, cycle: u64, random: &mut Random) -> (Vec<Message>, usize) {
    let journal = if random.one_in(4) { Journal::Written } else { Journal::Lost };
    let shutdown = Shutdown::prepare(disk.path(), journal).expect("it could before");
    let rests = cycle % 3 == 2;
    let kind = if rests { "power-pauses" } else { "power" };
    let mut child = Process::start(&format!("{kind} {seed} {cycle}"), &disk.path().join("db"));
    let failed = |message: &Message| matches!(message, Message::Failed(_));
    let moment = if random.one_in(4) {
        child.wait_until(None, |message| *message == Message::Opening || failed(message));
        Duration::from_micros(random.number(40_000))
    } else {
        child.wait_until(None, |message| matches!(message, Message::Ready { .. }) || failed(message));
        let micros_max = if random.one_in(5) { 500_000 } else { 150_000 };
        // Where the log is shrunk, and goes on.
        let least = if rests { 600_000 } else { 0 };
        Duration::from_micros(least + random.number(micros_max))
    };
    child.wait_until(Some(Instant::now() + moment), failed);
    let too_early = child.told().iter().find(|message| failed(message)).cloned();
    assert_eq!(too_early, None, "cycle {cycle}: before the power was cut");
    let before_cut = child.told().len();
    shutdown.now();
    (child.kill(), before_cut)
}

/// Compares what the child found with what the life before it may have left, and notes its own life.
fn account(
    (told, before_cut): (&[Message], usize),
    seed: u64,
    cycle: u64,
    known: &mut Vec<Owned>,
    pending: &mut Option<Life>,
    last: &mut Last,
    tally: &mut Tally,
) {
    let ready = told.iter().position(|message| matches!(message, Message::Ready { .. }));
    let Some(ready) = ready else {
        // What it found it never said; the next one will.
        tally.while_opening += 1;
        return;
    };
    let Message::Ready { version, torn, recovered, .. } = told[ready] else { unreachable!("just found") };
    assert!(version >= last.version, "cycle {cycle}: version {version} after {}", last.version);
    last.version = version;
    assert!(recovered >= last.durable, "cycle {cycle}: {} was durable, {recovered} found", last.durable);
    last.durable = recovered;
    tally.torn += u64::from(torn);
    settle(decode_found(&told[..ready]), seed, cycle, known, pending, tally);
    let mut life = Life { cycle, threads: (0..THREADS).map(|_| Told::default()).collect(), before_cut };
    let (mut flushes, mut compactions) = (0, 0);
    for (at, message) in told.iter().enumerate() {
        match *message {
            Message::Intent { thread, .. } => life.threads[usize::from(thread)].begun.push(at),
            Message::Done { thread, outcome, version, durable, .. } => {
                life.threads[usize::from(thread)].done.push((at, outcome));
                last.version = last.version.max(version);
                if at < before_cut {
                    last.durable = last.durable.max(durable);
                }
                tally.steps += 1;
            }
            Message::Work { flushes: f, compactions: c } => (flushes, compactions) = (f, c),
            _ => {}
        }
    }
    tally.flushes += flushes;
    tally.compactions += compactions;
    *pending = Some(life);
}

/// What was found becomes what is known, if it is what the pending life may have left.
fn settle(
    found: Vec<Owned>,
    seed: u64,
    cycle: u64,
    known: &mut Vec<Owned>,
    pending: &mut Option<Life>,
    tally: &mut Tally,
) {
    match pending.take() {
        // It was made durable by the open that found it.
        None => assert!(found == *known, "cycle {cycle}: what was found once is gone"),
        Some(life) => match left(&life, seed, known, &found) {
            Ok((kept, late)) => {
                tally.synced_late += late;
                let lost: u64 = life
                    .threads
                    .iter()
                    .zip(&kept)
                    .map(|(told, kept)| told.done.len().saturating_sub(*kept) as u64)
                    .sum();
                tally.lost += lost;
                tally.lives_that_lost += u64::from(lost > 0);
                let all_synced = life.threads.iter().flat_map(|told| &told.done).count() as u64;
                tally.synced += all_synced - lost;
            }
            Err(how) => panic!("cycle {cycle}: after the power cut of cycle {}: {how}", life.cycle),
        },
    }
    *known = found;
}

/// How many steps of each thread are left, if that can be: all that had to be durable, and a prefix over all threads.
/// And how many steps that make durable were acknowledged too late to count.
fn left(life: &Life, seed: u64, known: &[Owned], found: &[Owned]) -> Result<(Vec<usize>, u64), String> {
    let mut late = 0;
    let mut candidates: Vec<Vec<usize>> = Vec::new();
    let mut kept = vec![0; life.threads.len()];
    let mut differences = Vec::new();
    for (thread, told) in life.threads.iter().enumerate() {
        let number = u8::try_from(thread).expect("few threads");
        let mut owned = known[thread].clone();
        let mut fits = Vec::new();
        for count in 0..=told.begun.len() {
            if owned == found[thread] {
                fits.push(count);
            }
            if count == told.begun.len() {
                break;
            }
            let step = work::step(seed, life.cycle, number, count as u32, &owned);
            let outcome = owned.apply(&step);
            if let Some((at, told_outcome)) = told.done.get(count) {
                assert_eq!(outcome, *told_outcome, "thread {thread}, step {count}: {step:.300?}");
                let is_durable = outcome == DONE && is_durable(&step);
                late += u64::from(is_durable && *at >= life.before_cut);
                if is_durable && *at < life.before_cut {
                    // With everything that was acknowledged before it was begun.
                    kept[thread] = count + 1;
                    for (other, told) in life.threads.iter().enumerate() {
                        kept[other] = kept[other].max(done_before(told, life.threads[thread].begun[count]));
                    }
                }
            }
        }
        differences.push(
            (0..=OWN)
                .filter_map(|place| {
                    let how = work::differ(owned.rows(place), found[thread].rows(place))?;
                    Some(format!("table {place}, against all steps: {how}"))
                })
                .collect::<Vec<_>>(),
        );
        candidates.push(fits);
    }
    let required = kept.clone();
    // The fewest steps that explain what is there; each may demand more of the others.
    loop {
        let before = kept.clone();
        for thread in 0..kept.len() {
            let fit = candidates[thread].iter().copied().find(|count| *count >= kept[thread]);
            kept[thread] = fit.ok_or_else(|| {
                format!(
                    "thread {thread} must have {} steps at least (synced: {}) of {} begun, and what is there is that after \
                     {:?} steps; {:?}",
                    kept[thread],
                    required[thread],
                    life.threads[thread].begun.len(),
                    candidates[thread],
                    differences[thread]
                )
            })?;
            if let Some(last) = kept[thread].checked_sub(1) {
                let begun = life.threads[thread].begun[last];
                for (other, told) in life.threads.iter().enumerate() {
                    kept[other] = kept[other].max(done_before(told, begun));
                }
            }
        }
        if kept == before {
            return Ok((kept, late));
        }
    }
}

/// How many of a thread's steps were acknowledged before this moment.
fn done_before(told: &Told, moment: usize) -> usize {
    told.done.partition_point(|(at, _)| *at < moment)
}

/// Whether a step that succeeded makes everything durable that was visible before it.
fn is_durable(step: &Step) -> bool {
    match step {
        // One that only ignores writes nothing.
        Step::Batch { operations, is_synced } => {
            *is_synced && operations.iter().any(|operation| operation.verb != Verb::InsertIgnore)
        }
        Step::Sync | Step::FlushAll | Step::MakeOwn | Step::AlterOwn | Step::DropOwn => true,
        Step::Single(_) | Step::FlushTable(_) | Step::Compact(_) | Step::Look(..) | Step::Scan(_) => false,
    }
}

/// The parent looks for itself, and closes properly.
fn visit(
    disk: &Ext4,
    seed: u64,
    cycle: u64,
    known: &mut Vec<Owned>,
    pending: &mut Option<Life>,
    tally: &mut Tally,
) {
    let dir = disk.path().join("db");
    let engine = Engine::open(&dir, options(seed, cycle + 1000)).expect("it opens");
    let report = engine.check().expect("it can be read");
    assert!(report.is_clean(), "{:?}", report.problems);
    let found = crate::cycles::found_by(&engine, known.len());
    settle(found, seed, cycle, known, pending, tally);
    engine.close().expect("a clean end");
    drop(engine);
    let engine = Engine::open(&dir, options(seed, cycle + 2000)).expect("it opens");
    assert_eq!(engine.recovery_report().replayed_operations, 0);
    engine.close().expect("a clean end");
}
