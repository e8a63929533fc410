//! The child: opens the directory, tells what it finds, writes until it is killed, or until its disk fails.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nyala::{Engine, ErrorKind, Options};

use crate::process::ROLE;
use crate::random::Random;
use crate::report::{Message, tell};
use crate::work::{self, Content, OWN, Owned, Step, TABLES, THREADS, Tables};

/// Does nothing, unless the environment says that this process is a child.
#[test]
fn runs_as_a_child_only() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let dir = PathBuf::from(std::env::var_os("NYALA_CRASH_DIR").expect("the parent gives a directory"));
    let words: Vec<&str> = role.split(' ').collect();
    let number = |word: &str| word.parse().expect("a number");
    match words[..] {
        [kind @ ("cycle" | "pauses" | "power" | "power-pauses" | "eio"), seed, cycle] => {
            let failures = match kind {
                "power" | "power-pauses" => Failures::AreTold,
                "eio" => Failures::LeaveReads,
                _ => Failures::AreWrong,
            };
            let pace = if kind.ends_with("pauses") { Pace::Pauses } else { Pace::Steady };
            run_cycle(&dir, Life { seed: number(seed), cycle: number(cycle), failures, pace });
        }
        _ => crate::scenarios::run_child(&role, &dir),
    }
}

/// How a child lives.
#[derive(Clone, Copy, Debug)]
struct Life {
    seed: u64,
    cycle: u64,
    failures: Failures,
    pace: Pace,
}

/// What a call means that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failures {
    /// The disk is good.
    AreWrong,
    /// The power may be gone: it is told, and the child waits for its end.
    AreTold,
    /// A sync failed: it is told, reads must go on, and the child ends by itself, at the latest after so many steps.
    LeaveReads,
}

/// Whether the threads ever rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Steady,
    /// All at the same times, for so long that the log falls idle about when they go on.
    Pauses,
}

/// How many steps a thread does between two pauses.
const STEPS_OF_A_BURST: u32 = 10;

impl Pace {
    /// Rests after a step, if it is time to. `start` is when the work began.
    fn rest(self, start: Instant, random: &mut Random, steps: u32) {
        if self == Pace::Pauses && steps.is_multiple_of(STEPS_OF_A_BURST) {
            let pauses = u64::from(steps / STEPS_OF_A_BURST);
            let until = Duration::from_millis(700) * u32::try_from(pauses).expect("a short life")
                + Duration::from_millis(random.number(60));
            std::thread::sleep(until.saturating_sub(start.elapsed()));
        }
    }
}

/// How many steps a thread does of which no kill is the end.
const STEPS_MAX: u32 = 150;

impl Failures {
    /// A call failed that may fail if the disk does.
    fn tell(self, what: impl std::fmt::Display) -> ! {
        match self {
            Failures::AreWrong => wrong(what),
            Failures::AreTold => {
                tell(&Message::Failed(what.to_string()));
                loop {
                    std::thread::sleep(Duration::from_secs(60));
                }
            }
            Failures::LeaveReads => {
                tell(&Message::Failed(what.to_string()));
                std::process::exit(0);
            }
        }
    }
}

/// Says what is wrong, and ends this process.
pub(crate) fn wrong(what: impl std::fmt::Display) -> ! {
    tell(&Message::Wrong(what.to_string()));
    std::process::exit(4);
}

/// Thresholds so small that every structure is made and remade within a fraction of a second, other ones each time.
pub(crate) fn options(seed: u64, cycle: u64) -> Options {
    let mut random = Random::of(&[seed, cycle, 77]);
    let segment_bytes = 4096 << random.number(3);
    Options {
        memory_bytes: 256 << 10 << random.number(2),
        // A memtable of one row takes some 5 KiB, so that the smallest of these is flushed with every batch.
        memtable_bytes: Some(4096 << random.number(5)),
        log_segment_bytes: segment_bytes,
        log_bytes_max: segment_bytes * (2 + random.number(20)),
        index_block_bytes: 128 << random.number(2),
        row_block_bytes: 128 << random.number(3),
        index_file_bytes: 1024 << random.number(3),
        rowset_bytes: 1024 << random.number(4),
        background_threads: 2,
        background_sync_interval: Some(Duration::from_millis(1 + random.number(20))),
        ..Options::default()
    }
}

fn run_cycle(dir: &std::path::Path, life: Life) {
    let Life { seed, cycle, failures, .. } = life;
    tell(&Message::Opening);
    let engine = Engine::open(dir, options(seed, cycle))
        .unwrap_or_else(|error| failures.tell(format!("open: {error}")));
    let report = engine.recovery_report().clone();
    let mut owned = tell_found(&engine).unwrap_or_else(|error| failures.tell(error));
    // Before the work: the parent must not take it for a step that a drop was under way.
    tell(&Message::Ready {
        version: engine.snapshot().version().0,
        replayed: report.replayed_operations,
        torn: report.torn.is_some(),
        recovered: engine.recovered_to().0,
    });
    let engine = Arc::new(engine);
    let tables: Vec<_> = (0..TABLES.len())
        .map(|table| {
            let opened = engine.open_or_create_table(TABLES[table], work::schema(table));
            opened.unwrap_or_else(|error| failures.tell(error))
        })
        .collect();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let owned = std::mem::take(&mut owned[usize::from(thread)]);
            let own = owned.own.as_ref().map(|_| {
                engine.existing_table(&work::own_name(thread)).unwrap_or_else(|error| failures.tell(error))
            });
            let tables = Tables { tables: tables.clone(), own };
            let engine = Arc::clone(&engine);
            scope.spawn(move || write(&engine, tables, life, start, thread, owned));
        }
    });
    // As sudden as a kill.
    std::process::exit(0);
}

/// Steps until the process is killed, or until a step fails that may fail.
fn write(engine: &Engine, mut tables: Tables, life: Life, start: Instant, thread: u8, mut owned: Owned) {
    let Life { seed, cycle, failures, pace } = life;
    let mut random = Random::of(&[seed, cycle, 78, u64::from(thread)]);
    for number in 0.. {
        if failures == Failures::LeaveReads && number == STEPS_MAX {
            return;
        }
        let step = work::step(seed, cycle, thread, number, &owned);
        tell(&Message::Intent { thread, step: number });
        let outcome = match work::attempt(engine, &mut tables, thread, &step, &owned) {
            Ok(outcome) => outcome,
            // It gives up what it wrote, its inputs stay in force, and everything goes on.
            Err(text)
                if failures == Failures::LeaveReads
                    && matches!(step, Step::Compact(_))
                    && matches!(engine.health(), nyala::Health::Healthy) =>
            {
                tell(&Message::Failed(text));
                work::DONE
            }
            Err(text) if failures == Failures::LeaveReads => {
                tell(&Message::Failed(text));
                return read_on(engine, &tables, thread, &step, &owned);
            }
            Err(text) => failures.tell(text),
        };
        tell(&Message::Done {
            thread,
            step: number,
            outcome,
            version: engine.snapshot().version().0,
            committed: engine.last_committed().0,
            durable: engine.last_durable().0,
        });
        if thread == 0 && number % 8 == 0 {
            let stats = engine.stats();
            tell(&Message::Work { flushes: stats.flushes, compactions: stats.compactions });
        }
        let expected = owned.apply(&step);
        if outcome != expected {
            wrong(format!(
                "thread {thread}, step {number}: outcome {outcome}, must be {expected}: {step:.300?}"
            ));
        }
        pace.rest(start, &mut random, number + 1);
    }
}

/// A poisoned engine refuses every write with its cause, and reads what it read before. Of the step that failed nobody
/// knows yet.
fn read_on(engine: &Engine, tables: &Tables, thread: u8, failed: &Step, owned: &Owned) {
    if !matches!(engine.health(), nyala::Health::Poisoned(_)) {
        wrong(format!("thread {thread}: {failed:.300?} failed, and the engine is {:?}", engine.health()));
    }
    let refused = engine.batch().commit(nyala::Durability::Sync).err().or_else(|| engine.sync().err());
    if refused.is_none() {
        wrong(format!("thread {thread}: a poisoned engine takes a sync"));
    }
    let undecided: Vec<(usize, u32)> = match failed {
        Step::Single(operation) => vec![(operation.table, operation.key)],
        Step::Batch { operations, .. } => {
            operations.iter().map(|operation| (operation.table, operation.key)).collect()
        }
        _ => Vec::new(),
    };
    for place in 0..TABLES.len() {
        let ids: Vec<u32> = (0..120).filter(|id| !undecided.contains(&(place, *id))).collect();
        work::look(tables.get(place), thread, place, &ids, owned).unwrap_or_else(|text| wrong(text));
    }
}

/// Checks the engine, and tells every row.
fn tell_found(engine: &Engine) -> Result<Vec<Owned>, String> {
    let told = |error: nyala::Error| error.to_string();
    let report = engine.check().map_err(told)?;
    if !report.is_clean() {
        return Err(format!("check: {:.2000?}", report.problems));
    }
    let mut all = vec![Owned::default(); usize::from(THREADS)];
    let mut message = Vec::new();
    for name in engine.tables() {
        let place = TABLES.iter().position(|table| *table == name).unwrap_or(OWN);
        let of_thread = (0..THREADS).find(|thread| work::own_name(*thread) == name);
        if place == OWN && of_thread.is_none() {
            return Err(format!("there is a table {name:?}"));
        }
        let table = work::open(engine, &name, place).map_err(told)?;
        if let Some(thread) = of_thread {
            all[usize::from(thread)].own = Some(work::Rows::new());
            tell(&Message::Own { thread });
        }
        let rows = work::found_rows(&table, place).map_err(told)?;
        let count = table.count().map_err(told)?;
        if count != rows.len() as u64 {
            return Err(format!("table {name:?}: a scan gives {} rows, the count is {count}", rows.len()));
        }
        for (owner, id, content) in rows {
            let owner = of_thread.unwrap_or(owner);
            encode_found(&mut message, place, owner, id, &content);
            let owned = &mut all[usize::from(owner)];
            let rows =
                if place == OWN { owned.own.as_mut().expect("just made") } else { &mut owned.tables[place] };
            if rows.insert(id, content).is_some() {
                return Err(format!("table {name:?} has key {id} of {owner} twice"));
            }
        }
    }
    flush_found(&mut message);
    look_again(engine, &all)?;
    Ok(all)
}

/// The same rows must be found by their keys.
fn look_again(engine: &Engine, all: &[Owned]) -> Result<(), String> {
    for (place, name) in TABLES.iter().enumerate() {
        let table = match work::open(engine, name, place) {
            Ok(table) => table,
            Err(error) if error.kind() == ErrorKind::NoSuchTable => continue,
            Err(error) => return Err(error.to_string()),
        };
        for (owner, owned) in (0u8..).zip(all) {
            let keys: Vec<_> = (0..130).map(|id| work::key(place, owner, id)).collect();
            let rows =
                table.multi_get(keys.iter().map(work::Key::values)).map_err(|error| error.to_string())?;
            for (id, row) in (0..).zip(rows) {
                let found =
                    row.map(|row| work::read(place, &row)).transpose().map_err(|error| error.to_string())?;
                let found = found.map(|(.., content)| content);
                if found.as_ref() != owned.tables[place].get(&id) {
                    return Err(format!("key {id} of {owner} in {name:?}: the scan and multi_get disagree"));
                }
            }
        }
    }
    Ok(())
}

/// `'R' table u8 owner u8 id u32 count i64 bytes u32 text`; a text that is null has the length `u32::MAX`. A row may be
/// cut over several messages.
fn encode_found(message: &mut Vec<u8>, place: usize, owner: u8, id: u32, content: &Content) {
    message.push(b'R');
    message.push(u8::try_from(place).expect("four tables"));
    message.push(owner);
    message.extend_from_slice(&id.to_le_bytes());
    message.extend_from_slice(&content.count.to_le_bytes());
    let bytes =
        content.text.as_ref().map_or(u32::MAX, |text| u32::try_from(text.len()).expect("short texts"));
    message.extend_from_slice(&bytes.to_le_bytes());
    message.extend_from_slice(content.text.as_deref().unwrap_or("").as_bytes());
    if message.len() > 60_000 {
        flush_found(message);
    }
}

fn flush_found(message: &mut Vec<u8>) {
    for part in message.chunks(4000) {
        tell(&Message::Found(part.to_vec()));
    }
    message.clear();
}

/// Puts together what `tell_found` told.
pub(crate) fn decode_found(told: &[Message]) -> Vec<Owned> {
    let mut all = vec![Owned::default(); usize::from(THREADS)];
    let mut bytes = Vec::new();
    for message in told {
        match message {
            Message::Own { thread } => {
                all[usize::from(*thread)].own.get_or_insert_default();
            }
            Message::Found(part) => bytes.extend_from_slice(part),
            _ => {}
        }
    }
    let mut rest = &bytes[..];
    let mut take = |count: usize| {
        let (head, tail) = rest.split_at_checked(count)?;
        rest = tail;
        Some(head)
    };
    while let Some(head) = take(19) {
        assert_eq!(head[0], b'R');
        let id = u32::from_le_bytes(head[3..7].try_into().expect("four bytes"));
        let count = i64::from_le_bytes(head[7..15].try_into().expect("eight bytes"));
        let text_bytes = u32::from_le_bytes(head[15..19].try_into().expect("four bytes"));
        let text = (text_bytes != u32::MAX).then(|| {
            let text = take(text_bytes as usize).expect("the whole row");
            String::from_utf8(text.to_vec()).expect("text")
        });
        let owned = &mut all[usize::from(head[2])];
        let place = usize::from(head[1]);
        let rows = if place == OWN { owned.own.get_or_insert_default() } else { &mut owned.tables[place] };
        rows.insert(id, Content { count, text });
    }
    all
}
