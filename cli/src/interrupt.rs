//! Ctrl-C in a command that has something to finish: it ends at the next row, in order, with an exit code of its own.
//!
//! Where that takes long (standard input may be silent for ever), or at a second Ctrl-C, the process ends all the same.
//! A command that watches must therefore leave nothing undone, at any time, that its last words deny.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::failure::{Exit, Failure};
use crate::output::Format;

/// So long the command has to end by itself.
const PATIENCE: Duration = Duration::from_secs(3);

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C, SIGTERM and SIGHUP set a flag. `last_words` are said if the process is ended from here.
pub(crate) fn watch(
    format: Format,
    last_words: impl Fn() -> Failure + Clone + Send + 'static,
) -> anyhow::Result<()> {
    ctrlc::set_handler(move || {
        let last_words = last_words.clone();
        let end = move || {
            let failure = last_words();
            failure.tell(format);
            std::process::exit(i32::from(failure.exit as u8));
        };
        if IS_INTERRUPTED.swap(true, Ordering::SeqCst) {
            end();
        }
        // Not here: the next signal would wait for it.
        std::thread::spawn(move || {
            std::thread::sleep(PATIENCE);
            end();
        });
    })?;
    Ok(())
}

/// Whether it came.
pub(crate) fn has_come() -> bool {
    IS_INTERRUPTED.load(Ordering::SeqCst)
}

/// The failure that it is.
pub(crate) fn failure(what_is_left: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Interrupted, format!("interrupted; {what_is_left}"))
}
