//! How much is tried, from the environment, and how a single state is tried again.

use std::fmt;
use std::str::FromStr;

/// The seed of the first run of each workload.
const SEED: u64 = 20_260_714;
/// How many distinct states `cargo test` looks for.
const STATES: u64 = 5_000;

/// Reads a variable that is a number.
fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Err(_) => default,
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")),
    }
}

pub(crate) fn seed() -> u64 {
    number("NYALA_SEED", SEED)
}

/// How many distinct states are wanted at least.
pub(crate) fn states() -> u64 {
    let default = if std::env::var_os("NYALA_LONG").is_some() { 2_000_000 } else { STATES };
    number("NYALA_SIM_STATES", default)
}

/// The name of the only workload that is wanted.
pub(crate) fn workload() -> Option<String> {
    std::env::var("NYALA_SIM_WORKLOAD").ok()
}

pub(crate) fn threads() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    usize::try_from(number("NYALA_SIM_THREADS", processors as u64)).expect("a small number")
}

/// The one state that is wanted.
pub(crate) fn only() -> Option<Target> {
    let text = std::env::var("NYALA_SIM_ONLY").ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|()| panic!("NYALA_SIM_ONLY is workload/seed/era/operation/state, not {text:?}")),
    )
}

/// Names a state: where the power goes, and what it leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) workload: String,
    pub(crate) seed: u64,
    pub(crate) era: usize,
    pub(crate) operation: u64,
    /// The number of the page state.
    pub(crate) page_state: usize,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Target { workload, seed, era, operation, page_state } = self;
        write!(f, "{workload}/{seed}/{era}/{operation}/{page_state}")
    }
}

impl FromStr for Target {
    type Err = ();

    fn from_str(text: &str) -> Result<Target, ()> {
        let [workload, seed, era, operation, page_state] = text.split('/').collect::<Vec<_>>()[..] else {
            return Err(());
        };
        Ok(Target {
            workload: workload.to_owned(),
            seed: seed.parse().map_err(drop)?,
            era: era.parse().map_err(drop)?,
            operation: operation.parse().map_err(drop)?,
            page_state: page_state.parse().map_err(drop)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_reads_as_it_is_written() {
        let target = Target { workload: "verbs".to_owned(), seed: 7, era: 0, operation: 123, page_state: 4 };
        assert_eq!(target.to_string().parse(), Ok(target));
        assert_eq!("verbs/7/0/x/4".parse::<Target>(), Err(()));
        assert_eq!("verbs/7".parse::<Target>(), Err(()));
    }
}
