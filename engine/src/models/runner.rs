//! Runs a model under many schedules, and one schedule again.
//!
//! Three schedulers share the schedules, because each finds what the others hardly find. A random one makes all threads
//! advance alike. PCT lets the one with the highest priority go on until it waits, and changes priorities at a few
//! moments. Between them are *bursts*: a thread goes on for a while, mostly, so that a thread that stops at a bad
//! moment sees others do whole flushes.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use shuttle::scheduler::{
    DataSource, PctScheduler, RandomDataSource, RandomScheduler, ReplayScheduler, Schedule, Scheduler, Task,
    TaskId,
};
use shuttle::{Config, MaxSteps, Runner};

/// How many schedules a model runs by default.
const SCHEDULES: usize = 1000;
/// A schedule this long goes round in circles.
const STEPS_MAX: usize = 200_000;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}, which is no number")))
}

/// Runs `model` under as many schedules as the environment asks for, or again under the one that it names.
pub(super) fn check(model: impl Fn() + Send + Sync + 'static) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("models").to_owned();
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    if let Ok(schedule) = std::env::var("NYALA_SHUTTLE_REPLAY") {
        Runner::new(ReplayScheduler::new_from_encoded(schedule.trim()), config).run(model);
        return;
    }
    let schedules =
        number("NYALA_SHUTTLE_SCHEDULES").map_or(SCHEDULES, |n| usize::try_from(n).expect("a number"));
    let seed = number("NYALA_SEED").unwrap_or(1);
    let (random, pct) = (schedules / 4, schedules / 4);
    let model = std::sync::Arc::new(model);
    let start = std::time::Instant::now();
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let run = |scheduler: Box<dyn Scheduler + Send>| {
            let model = std::sync::Arc::clone(&model);
            Runner::new(scheduler, config.clone()).run(move || model())
        };
        run(Box::new(Bursts::new(seed, schedules - random - pct)))
            + run(Box::new(PctScheduler::new_from_seed(seed, 3, pct)))
            + run(Box::new(RandomScheduler::new_from_seed(seed, random)))
    }));
    match ran {
        Ok(ran) => {
            assert_eq!(ran, schedules, "as many schedules as were asked for");
            println!("{name}: {ran} schedules from seed {seed} in {:.1?}", start.elapsed());
        }
        Err(panic) => {
            eprintln!(
                "the failing schedule stands above; it is run again by\n  NYALA_SHUTTLE_REPLAY=<schedule> \
                 RUSTFLAGS=\"--cfg nyala_shuttle\" cargo test -p nyala --lib {name} -- --exact --nocapture\n\
                 and all of them by NYALA_SEED={seed} NYALA_SHUTTLE_SCHEDULES={schedules} in its place"
            );
            resume_unwind(panic);
        }
    }
}

/// Lets a thread go on for a while, of another usual length in each schedule, and then picks any.
struct Bursts {
    left: usize,
    random: RandomDataSource,
    /// The choices; apart from the data that a model asks for, so that a replay gives it the same.
    state: u64,
    /// A thread is left with a chance of one in two to this power.
    shift: u32,
}

impl Bursts {
    fn new(seed: u64, schedules: usize) -> Bursts {
        Bursts { left: schedules, random: RandomDataSource::initialize(seed), state: seed, shift: 0 }
    }

    /// splitmix64. Not the engine's own, which takes a lock of the model.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Scheduler for Bursts {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.left = self.left.checked_sub(1)?;
        self.shift = 1 + (self.next() % 7) as u32;
        Some(Schedule::new(self.random.reinitialize()))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        if let Some(current) = current
            && !is_yielding
            && self.next() >> (64 - self.shift) != 0
            && runnable.iter().any(|task| task.id() == current)
        {
            return Some(current);
        }
        let at = (self.next() % runnable.len() as u64) as usize;
        Some(runnable[at].id())
    }

    fn next_u64(&mut self) -> u64 {
        self.random.next_u64()
    }
}
