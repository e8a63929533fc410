//! Checkpoints of a run, and an open for reading only of what a power cut leaves.

use std::path::PathBuf;

use nyala::vfs::SimFs;
use nyala::{Engine, Options};

use crate::rows::read_all;
use crate::settings;
use crate::state::State;
use crate::world::directory;

/// A checkpoint that a run made, or tried to.
pub(crate) struct Copy {
    pub(crate) dir: PathBuf,
    /// What is in it.
    pub(crate) state: State,
    pub(crate) options: Options,
    /// The operation with which it began.
    pub(crate) begun: u64,
    /// From which on it is durable; none if it failed.
    pub(crate) ended: Option<u64>,
}

/// After a power cut before operation `moment`: a checkpoint that was made is there, whole; one that was under way does
/// not open, or is whole.
pub(crate) fn check(copies: &[Copy], disk: &SimFs, moment: u64) {
    for copy in copies.iter().filter(|copy| copy.begun < moment) {
        let is_made = copy.ended.is_some_and(|ended| ended <= moment);
        let options = Options { create_if_missing: false, ..settings::on(&copy.options, disk, 1) };
        let name = copy.dir.display();
        match Engine::open(&copy.dir, options) {
            Ok(engine) => {
                let found = read_all(&engine).unwrap_or_else(|error| panic!("reading {name}: {error}"));
                assert!(found == copy.state, "{name} differs:\n{}", copy.state.difference(&found));
                let report = engine.check().unwrap_or_else(|error| panic!("checking {name}: {error}"));
                assert!(report.is_clean() && engine.recovery_report().torn.is_none(), "{name}: {report:?}");
                // What is dropped need not be written out.
                disk.halt_at(0);
                drop(engine);
                disk.halt_at(u64::MAX);
            }
            Err(error) => assert!(!is_made, "{name} was made, and does not open: {error}"),
        }
    }
}

/// What an open for reading only finds, which changes nothing; none if it finds no database.
pub(crate) fn look(disk: &SimFs, options: &Options) -> Option<State> {
    let before = disk.fingerprint();
    let reader = Engine::open_read_only(directory(), settings::on(options, disk, 1)).ok()?;
    let found = read_all(&reader).unwrap_or_else(|error| panic!("reading beside nobody: {error}"));
    drop(reader);
    assert_eq!(disk.fingerprint(), before, "an open for reading only has changed something");
    assert!(disk.log().iter().all(|call| !call.changes_disk()), "{:?}", disk.log());
    Some(found)
}
