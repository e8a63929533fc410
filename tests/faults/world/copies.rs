//! Checkpoints: each is a database that holds everything, or is told to have failed and does not open, or all the same
//! is whole. Nothing that fails in it concerns the engine.

use std::path::Path;
use std::sync::Arc;

use nyala::{Engine, Health, Options};

use super::reads::read_all;
use super::{Flow, Phase, World};

impl World<'_> {
    pub(super) fn checkpoint(&mut self) -> Flow {
        self.checkpoints += 1;
        let target = format!("/copies/{}", self.checkpoints);
        let was_healthy = matches!(self.engine().health(), Health::Healthy);
        let result = self.engine().checkpoint(&target);
        self.note_calls(Phase::Copying);
        let is_healthy = matches!(self.engine().health(), Health::Healthy);
        assert_eq!(was_healthy, is_healthy, "a checkpoint changes nothing of the engine's health");
        let is_whole = self.copy_is_whole(target.as_ref());
        match result {
            Ok(_) => {
                assert!(self.cause.is_none(), "a poisoned engine makes a checkpoint");
                assert!(is_whole, "a checkpoint that was made does not open");
            }
            Err(error) => {
                // A disk that does nothing any more may leave what was whole before the last call.
                let lasts = self.strike.is_some_and(|strike| strike.kind.is_forever());
                assert!(!is_whole || lasts, "a checkpoint that failed opens: {error}");
                self.failed("checkpoint", &error, None);
            }
        }
        Ok(())
    }

    /// Whether there is a checkpoint, as another process finds it later; then it holds everything.
    fn copy_is_whole(&self, target: &Path) -> bool {
        // Nothing fails on the copy of a disk.
        let disk = self.disk.fork();
        disk.set_capacity(None);
        let options = Options { fs: Arc::new(disk), create_if_missing: false, ..self.options() };
        let Ok(engine) = Engine::open(target, options) else { return false };
        let found = read_all(&engine).expect("nothing fails any more");
        assert!(
            self.history.is_legal_now(&found),
            "a checkpoint holds other rows: {}",
            self.history.now().difference(&found)
        );
        let report = engine.check().expect("nothing fails any more");
        assert!(report.is_clean(), "{:?}", report.problems);
        true
    }
}
