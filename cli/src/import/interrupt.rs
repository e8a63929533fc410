//! Ctrl-C while rows are imported: the batch under way is finished, what was written is made durable, and the command
//! ends with its own exit code.
//!
//! Where that takes long (standard input may be silent for ever) the process ends all the same. That loses nothing that
//! was written either: the next open finds it in the log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::failure::Exit;

/// So long the command has to end by itself.
const PATIENCE: Duration = Duration::from_secs(3);

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C, SIGTERM and SIGHUP set a flag.
pub(crate) fn watch() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        IS_INTERRUPTED.store(true, Ordering::SeqCst);
        std::thread::sleep(PATIENCE);
        eprintln!("interrupted; what was written stays: run it again, rows replace those of the same key");
        std::process::exit(i32::from(Exit::Interrupted as u8));
    })?;
    Ok(())
}

/// Whether it came.
pub(crate) fn has_come() -> bool {
    IS_INTERRUPTED.load(Ordering::SeqCst)
}
