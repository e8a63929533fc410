//! Seeds and steps from the environment, and what a failure says.

use std::cell::Cell;
use std::sync::LazyLock;

use crate::settings::Setting;

const SEED: u64 = 20_260_714;

/// The seed of this run of the test binary.
pub(crate) fn seed() -> u64 {
    static CHOSEN: LazyLock<u64> = LazyLock::new(|| match std::env::var("NYALA_SEED") {
        Err(_) => SEED,
        Ok(text) if text == "random" => {
            let now = std::time::UNIX_EPOCH.elapsed().expect("a clock after 1970");
            now.as_nanos() as u64 % 1_000_000_000
        }
        Ok(text) => text.parse().expect("NYALA_SEED is a number or `random`"),
    });
    *CHOSEN
}

/// How many steps an option set takes.
pub(crate) fn steps(setting: &Setting) -> usize {
    if let Ok(text) = std::env::var("NYALA_STEPS") {
        let steps: usize = text.parse().expect("NYALA_STEPS is a number");
        return if setting.is_inline() { steps } else { steps.div_ceil(10) };
    }
    if std::env::var_os("NYALA_LONG").is_some() { setting.steps * 30 } else { setting.steps }
}

/// Says how to replay when the test panics.
pub(crate) struct Replay {
    test: &'static str,
    seed: u64,
    is_inline: bool,
    pub(crate) step: Cell<usize>,
}

impl Replay {
    pub(crate) fn new(setting: &Setting, seed: u64) -> Replay {
        Replay { test: setting.name, seed, is_inline: setting.is_inline(), step: Cell::new(0) }
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (test, seed, step) = (self.test, self.seed, self.step.get());
            let steps = if self.is_inline { step + 1 } else { 10 * (step + 1) };
            eprintln!(
                "\noption set {test}, seed {seed}, failed in step {step}\nreplay: NYALA_SEED={seed} \
                 NYALA_STEPS={steps} cargo test -p nyala --test model {test}\n"
            );
        }
    }
}

/// How long a run is that ends by the clock.
pub(crate) fn seconds(default: f64) -> f64 {
    if std::env::var_os("NYALA_LONG").is_some() { default * 30.0 } else { default }
}

/// How many rounds a test has that is not counted in steps.
pub(crate) fn rounds(default: usize) -> usize {
    if std::env::var_os("NYALA_LONG").is_some() { default * 30 } else { default }
}
