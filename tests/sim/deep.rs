//! Compares everything that can be read with what should be there, beyond the forward scan by which a state was found.

use std::sync::Arc;

use nyala::{Engine, Error};

use crate::random::Random;
use crate::rows::{check_row, split};
use crate::shape::{Key, Row, values};
use crate::state::State;

/// Absent keys that are asked for, for each table.
const STRANGERS: usize = 6;

/// # Panics
/// A scan in reverse, a get, a count or the engine's own check says anything else than `state`.
pub(crate) fn compare(engine: &Engine, state: &State, random: &mut Random) {
    for name in state.tables.keys() {
        compare_table(engine, name, state, random)
            .unwrap_or_else(|error| panic!("reading table {name}: {error}"));
    }
    let report = engine.check().unwrap_or_else(|error| panic!("checking: {error}"));
    assert!(report.is_clean(), "the check finds: {:#?}", report.problems);
}

fn compare_table(engine: &Engine, name: &str, state: &State, random: &mut Random) -> Result<(), Error> {
    let state = &state.tables[name];
    let table = engine.existing_table(name)?;

    let mut expected = state.rows.iter().rev();
    for row in table.scan().reverse().rows()? {
        let (key, row) = split(state.shape, &state.extra, &row?.to_values()?);
        let next = expected.next();
        let is_next = next.is_some_and(|(next, expected)| (next, &**expected) == (&key, &row));
        assert!(is_next, "in reverse, table {name} gives {key:?}: {row:?}, expected {next:?}");
    }
    assert_eq!(expected.next(), None, "in reverse, table {name} ends early");
    assert_eq!(table.count()?, state.rows.len() as u64, "the count of table {name}");

    let strangers = (0..STRANGERS).map(|_| state.shape.random_key(random));
    let keys: Vec<Key> = state.rows.keys().cloned().chain(strangers).collect();
    let found = table.multi_get(keys.iter().map(|key| values(key)))?;
    for (key, found) in keys.iter().zip(&found) {
        check_row(key, state.rows.get(key), found.as_ref());
    }
    for _ in 0..STRANGERS {
        let key = random.pick(&keys);
        let expected: Option<&Arc<Row>> = state.rows.get(key);
        check_row(key, expected, table.get(values(key))?.as_ref());
        assert_eq!(table.exists(values(key))?, expected.is_some(), "whether {key:?} exists in table {name}");
    }
    Ok(())
}
