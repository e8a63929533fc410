//! Tries many damages, on two threads, with an eye on memory and time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::allocator::most_held;
use crate::image::Image;
use crate::judge::{Damage, Outcome, judge};
use crate::random::Random;
use crate::tally::Tally;

const THREADS: usize = 2;
/// No damage takes longer than this, or something hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// What opening and reading a database of 64 KiB may hold at most.
const HELD_BYTES_MAX: usize = 4 << 20;
/// As many failures are told before a test gives up.
const FAILURES_MAX: usize = 8;

/// A number from the environment.
pub(crate) fn environment(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

pub(crate) fn seed() -> u64 {
    environment("NYALA_SEED").unwrap_or(20_261_130)
}

pub(crate) fn is_long() -> bool {
    std::env::var_os("NYALA_LONG").is_some()
}

/// One in so many is tried.
pub(crate) fn share() -> u64 {
    environment("NYALA_DAMAGE_SHARE").unwrap_or(if is_long() { 1 } else { 40 }).max(1)
}

/// Whether one of many is tried: of each group of neighbours of the size of the share one, by seed.
pub(crate) fn is_chosen(seed: u64, number: usize, share: u64) -> bool {
    let number = number as u64;
    number % share == Random::of(&[seed, number / share]).number(share)
}

/// Tries the damages `0 .. count` that `make` makes.
///
/// # Panics
/// If one of them is neither detected nor harmless nor legal; tells the first few.
pub(crate) fn try_all(
    test: &str,
    image: &Image,
    count: usize,
    make: impl Fn(usize) -> Option<Damage> + Sync,
) -> Tally {
    let scale = image.files.values().map(Vec::len).sum::<usize>().div_ceil(256 << 10);
    let only = environment("NYALA_DAMAGE_ONLY").map(|number| number as usize);
    let numbers = only.map_or(0..count, |number| number..number + 1);
    let (next, is_done) = (AtomicUsize::new(numbers.start), AtomicBool::new(false));
    let failures = Mutex::new(Vec::new());
    let tally = Mutex::new(Tally::default());
    let busy: [Mutex<Option<(usize, Instant)>>; THREADS] = Default::default();
    let start = Instant::now();
    let work = |slot: usize| {
        let mut own = Tally::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end || failures.lock().expect("no panics").len() >= FAILURES_MAX {
                break;
            }
            let Some(damage) = make(number) else { continue };
            *busy[slot].lock().expect("no panics") = Some((number, Instant::now()));
            let tried = try_one(image, &damage, number, HELD_BYTES_MAX * scale);
            if only.is_some() {
                println!("{test}, damage {number}: {}: {tried:?}", damage.what);
            }
            match tried {
                Ok(outcome) => own.note(&damage, outcome),
                Err(why) => failures.lock().expect("no panics").push(format!(
                    "damage {number}, {}: {why}\n  replay: NYALA_SEED={} NYALA_DAMAGE_ONLY={number} cargo test --test \
                     damage -- --nocapture {test}",
                    damage.what,
                    seed()
                )),
            }
            *busy[slot].lock().expect("no panics") = None;
        }
        tally.lock().expect("no panics").add(own);
    };
    std::thread::scope(|scope| {
        let _end = EndWatch(&is_done);
        scope.spawn(|| watch(test, &busy, &is_done));
        let others: Vec<_> = (1..THREADS).map(|slot| scope.spawn(move || work(slot))).collect();
        work(0);
        for other in others {
            other.join().expect("panics are caught");
        }
    });
    let failures = failures.into_inner().expect("no panics");
    assert!(failures.is_empty(), "{test}:\n{}", failures.join("\n"));
    let tally = tally.into_inner().expect("no panics");
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{test}: {} damages in {seconds:.1} s, {:.0} a second",
        tally.total(),
        tally.total() as f64 / seconds
    );
    tally
}

fn try_one(image: &Image, damage: &Damage, number: usize, held_max: usize) -> Result<Outcome, String> {
    let goes_on = number.is_multiple_of(16);
    let (caught, held) = most_held(|| catch_unwind(AssertUnwindSafe(|| judge(image, damage, goes_on))));
    let outcome = match caught {
        Ok(outcome) => outcome?,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
            return Err(format!("a panic: {text}"));
        }
    };
    if held > held_max {
        return Err(format!("it takes {held} bytes of memory, must be at most {held_max}"));
    }
    Ok(outcome)
}

/// Ends the watch, also when a damage could not be made: else the test would hang instead of failing.
struct EndWatch<'a>(&'a AtomicBool);

impl Drop for EndWatch<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Ends the process if one damage takes too long: a hang cannot be unwound.
fn watch(test: &str, busy: &[Mutex<Option<(usize, Instant)>>], is_done: &AtomicBool) {
    while !is_done.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(20));
        for slot in busy {
            if let Some((number, since)) = *slot.lock().expect("no panics")
                && since.elapsed() > PATIENCE
            {
                eprintln!("{test}: damage {number} hangs (NYALA_SEED={})", seed());
                std::process::abort();
            }
        }
    }
}
