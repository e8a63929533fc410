//! `nyala repair`: writes what can be read of a damaged database to a new directory.

use std::path::PathBuf;

use anyhow::Result;
use nyala::{LogAfterDamage, RepairError, RepairOptions, RepairReport};

use crate::failure::Exit;
use crate::open;
use crate::output::{Document, List, Output};

/// Write what can be read of a damaged database to a new directory; the old one is not changed
///
/// If something would be lost, nothing is written unless --accept-loss is given; what it is, is printed. Exit code 4 if
/// something is lost.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory of the damaged database
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// The directory of the new one: missing or empty
    #[arg(value_name = "NEW_DIR", required_unless_present = "dry_run")]
    target: Option<PathBuf>,

    /// Only say what can be had and what is lost
    #[arg(long, conflicts_with_all = ["target", "accept_loss"])]
    dry_run: bool,

    /// Go on although something is lost
    #[arg(long)]
    accept_loss: bool,

    /// Take batches of the log that lie behind a damaged place, too. Then not all is there that was before them
    #[arg(long)]
    take_after_damage: bool,
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<Exit> {
    open::must_be_repairable(&args.dir)?;
    let options = RepairOptions {
        accept_loss: args.accept_loss,
        log_after_damage: match args.take_after_damage {
            true => LogAfterDamage::Take,
            false => LogAfterDamage::LeaveOut,
        },
        show_keys: true,
        engine: open::options(),
    };
    let report = match &args.target {
        None => nyala::examine(&args.dir, &options)?,
        Some(target) => match nyala::repair(&args.dir, target, &options) {
            Ok(report) => report,
            Err(RepairError::WouldLose(report)) => *report,
            Err(RepairError::Failed(error)) => return Err(error.into()),
            Err(error) => return Err(error.into()),
        },
    };
    out.document(&document(args, &report))?;
    Ok(if report.is_lossless() { Exit::Done } else { Exit::Found })
}

fn document(args: &Args, report: &RepairReport) -> Document {
    let mut document = Document::default();
    document.fact("is_written", report.is_written);
    document.fact("is_lossless", report.is_lossless());
    document.fact("learnt_from", report.source.to_string());
    document.fact("log_segments", report.log_segments);
    document.fact("log_batches", report.log_batches);
    document.fact("log_operations", report.log_operations);
    let mut tables =
        List::new("tables", &["table", "rows", "deleted_keys", "older_rows", "lost_rows", "read_through"]);
    for table in &report.tables {
        tables.push([
            table.name.as_str().into(),
            table.rows.into(),
            table.deleted_keys.into(),
            table.older_rows.into(),
            table.lost_rows.into(),
            table.read_through.into(),
        ]);
    }
    document.list(tables);
    let mut losses = List::new("losses", &["loss"]);
    for loss in &report.losses {
        losses.push([loss.to_string().into()]);
    }
    document.detail(losses);
    let mut notes = List::new("notes", &["note"]);
    for note in &report.notes {
        notes.push([note.as_str().into()]);
    }
    if let Some(torn) = &report.torn {
        let (offset, bytes, reason) = (torn.offset, torn.bytes, &torn.reason);
        notes.push([format!(
            "the log ends at byte {offset} of {} ({reason}); {bytes} bytes follow",
            torn.file
        )
        .into()]);
    }
    document.detail(notes);
    if !report.is_written && !report.is_lossless() && !args.dry_run {
        document.remark(
            "\nnothing was written, since something would be lost; --accept-loss goes on in spite of it",
        );
    }
    document
}
