//! Checks everything on disk.
//!
//! Owns the order of the checks and what goes on between them. Reads every byte of every file under the view, past the
//! cache, and believes none; follows entries to rows as readers do; holds the manifest against the directory and the
//! log against its chain. Changes nothing, and goes on after a finding, so that one report names all damage that can be
//! reached.
//!
//! | what | where |
//! |---|---|
//! | the findings and their words | `check/report.rs` |
//! | runs, index files and rowsets of a table | `check/tablet.rs` and below |
//! | `CURRENT`, the manifest, the directory, the tables | `check/directory.rs` |
//! | the write-ahead log | `check/log.rs` |
//!
//! Memory: one bit a row, and the blocks that are being read.

mod directory;
mod index_file;
mod log;
mod report;
mod rows;
mod tablet;
#[cfg(test)]
mod tests;

pub(crate) use report::Findings;
pub use report::{CheckReport, Problem, ProblemKind};

use crate::core::Core;
use crate::error::Error;

/// Checks the directory, the log and every table.
pub(crate) fn check(core: &Core) -> Result<CheckReport, Error> {
    core.health.check_open()?;
    let mut report = CheckReport::default();
    directory::check(core, &mut report)?;
    log::check(core, &mut report)?;
    for table in core.catalog.all() {
        // The schema after the view: it knows that of every row there.
        let view = table.tablet.view.pin();
        let schema = table.newest.newest();
        let mut findings = Findings::of(&mut report, &table.name);
        if core.options.keys_in_errors {
            findings.show_keys(&schema);
        }
        tablet::check(&schema, &view, &mut findings, &|| core.health.check_open())?;
        report.tables += 1;
    }
    Ok(report)
}
