//! Checkpoints, and opens for reading only beside the engine that writes.

use std::path::{Path, PathBuf};

use nyala::vfs::Fs;
use nyala::{Engine, Options};

use crate::rows;
use crate::world::{Halted, Step, World};

impl World {
    /// Another engine opens the same directory for reading only, and sees what is there now.
    pub(crate) fn look_beside(&mut self) -> Step {
        let options = self.options();
        let before = self.disk.as_ref().map(nyala::vfs::SimFs::fingerprint);
        let reader = Engine::open_read_only(&self.dir, options);
        let reader = self.done("open for reading only", reader)?;
        let found = rows::read_all(&reader);
        let found = self.done("read everything beside the writer", found)?;
        let expected = self.history.now();
        assert!(found == *expected, "a reader beside it differs:\n{}", expected.difference(&found));
        if self.random.one_in(3) {
            let report = reader.check();
            let report = self.done("check beside the writer", report)?;
            assert!(report.is_clean(), "check beside the writer: {:#?}", report.problems);
        }
        if self.is_inline() {
            assert_eq!(
                before,
                self.disk.as_ref().map(nyala::vfs::SimFs::fingerprint),
                "it has changed something"
            );
        }
        self.tally.looks += 1;
        Ok(())
    }

    /// A copy, which must hold what is there now, and which goes again.
    pub(crate) fn checkpoint(&mut self) -> Step {
        self.checkpoints += 1;
        let target = self.dir.with_file_name(format!("copy{}", self.checkpoints));
        let made = self.engine().checkpoint(&target);
        if self.done("checkpoint", made).is_err() {
            self.unfinished_copy = Some((target, self.history.now().clone()));
            return Err(Halted);
        }
        let options = Options { create_if_missing: false, ..self.options() };
        let copy = Engine::open(&target, options);
        let copy = self.done("open a checkpoint", copy)?;
        let found = rows::read_all(&copy);
        let found = self.done("read a checkpoint", found)?;
        let expected = self.history.now();
        assert!(found == *expected, "a checkpoint differs:\n{}", expected.difference(&found));
        assert!(copy.recovery_report().torn.is_none(), "{:?}", copy.recovery_report());
        let report = copy.check();
        let report = self.done("check a checkpoint", report)?;
        assert!(report.is_clean(), "check of a checkpoint: {:#?}", report.problems);
        // What is done to it is nothing to the source.
        for name in copy.tables() {
            let dropped = copy.drop_table(&name);
            self.done("drop a table of a checkpoint", dropped)?;
        }
        drop(copy);
        self.remove_copy(&target);
        self.tally.copies += 1;
        Ok(())
    }

    /// After a power cut: a checkpoint that was under way does not open, unless it is whole.
    pub(crate) fn check_unfinished_copy(&mut self) {
        let Some((target, expected)) = self.unfinished_copy.take() else { return };
        let options = Options { create_if_missing: false, ..self.options() };
        if let Ok(copy) = Engine::open(&target, options) {
            let found = rows::read_all(&copy).expect("what was opened can be read");
            assert!(found == expected, "half a checkpoint opens:\n{}", expected.difference(&found));
        }
        self.remove_copy(&target);
    }

    fn remove_copy(&self, target: &Path) {
        match &self.disk {
            None => std::fs::remove_dir_all(target).expect("a good disk"),
            Some(disk) => {
                let in_it = |path: &PathBuf| path.parent() == Some(target);
                for path in disk.paths().into_iter().filter(in_it) {
                    // The disk may halt meanwhile.
                    let _ = disk.remove(&path);
                }
            }
        }
    }
}
