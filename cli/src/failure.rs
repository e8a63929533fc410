//! Failures: what went wrong, what to do about it, and the exit code.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | failed: the disk, a file that is not there, anything else |
//! | 2 | the arguments make no sense |
//! | 3 | not found: no such row, table or database, or file of one |
//! | 4 | done, and something was found: problems, losses, rows set aside |
//! | 5 | another process has the database open for writing |
//! | 6 | the database is damaged, or is none, or is of a newer version |
//! | 7 | the disk is full |
//! | 130 | interrupted by Ctrl-C |

use std::fmt;
use std::io::{self, Write as _};

use nyala::ErrorKind;

use crate::output::{Format, Style, write_json_string};

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    NotFound = 3,
    Found = 4,
    Locked = 5,
    Damaged = 6,
    NoSpace = 7,
    Interrupted = 130,
}

/// A failure of the command's own.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    pub(crate) advice: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: message.into(), advice: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, message)
    }

    /// What to do about it.
    pub(crate) fn advise(self, advice: impl Into<String>) -> Failure {
        Failure { advice: Some(advice.into()), ..self }
    }

    /// Says it on standard error. If that is closed, the exit code has to do.
    pub(crate) fn tell(&self, format: Format) {
        let mut text = Vec::new();
        let written = match format {
            Format::Json => self.write_json(&mut text),
            Format::Table | Format::Csv => self.write_text(&mut text, Style::of_stderr()),
        };
        let _ = written.and_then(|()| io::stderr().lock().write_all(&text));
    }

    fn write_text(&self, out: &mut Vec<u8>, style: Style) -> io::Result<()> {
        writeln!(out, "{} {}", style.red("error:"), self.message)?;
        match &self.advice {
            Some(advice) => writeln!(out, "{} {advice}", style.bold("help:")),
            None => Ok(()),
        }
    }

    fn write_json(&self, out: &mut Vec<u8>) -> io::Result<()> {
        write!(out, "{{\"error\":{{\"exit_code\":{},\"message\":", self.exit as u8)?;
        write_json_string(out, &self.message)?;
        out.extend_from_slice(b",\"help\":");
        match &self.advice {
            Some(advice) => write_json_string(out, advice)?,
            None => out.extend_from_slice(b"null"),
        }
        writeln!(out, "}}}}")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Whether nobody reads our output any more: no failure, for a pipe may end when it has enough.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let kind = match cause.downcast_ref::<serde_json::Error>() {
            Some(json) => json.io_error_kind(),
            None => cause.downcast_ref::<io::Error>().map(io::Error::kind),
        };
        kind == Some(io::ErrorKind::BrokenPipe)
    })
}

/// Sorts an error: its exit code, its text, and what to do about it.
pub(crate) fn classify(error: &anyhow::Error) -> Failure {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        let Failure { exit, message, advice } = failure;
        return Failure { exit: *exit, message: in_context(error, message), advice: advice.clone() };
    }
    if let Some(cause) = error.downcast_ref::<nyala::Error>() {
        let (exit, advice) = of_kind(cause.kind());
        let message = in_context(error, &cause.to_string());
        return Failure { exit, message, advice: advice.map(str::to_owned) };
    }
    let io = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    let exit = match io {
        Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => Exit::NoSpace,
        _ => Exit::Failed,
    };
    Failure::new(exit, format!("{error:#}"))
}

/// The text of the cause, with what was being done in front. It already has the causes below it.
fn in_context(error: &anyhow::Error, cause: &str) -> String {
    match error.to_string() {
        own if own == cause => own,
        context => format!("{context}: {cause}"),
    }
}

/// What clap says of arguments, without what it adds for a terminal.
pub(crate) fn of_arguments(error: &clap::Error) -> Failure {
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Failure::usage("a subcommand is missing").advise("`--help` lists them");
    }
    let text = error.render().to_string();
    let (message, rest) = text.split_once("\n\n").unwrap_or((&text, ""));
    let in_one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let failure = Failure::usage(in_one_line(message.strip_prefix("error: ").unwrap_or(message)));
    match rest
        .split("\n\n")
        .find_map(|part| part.trim().strip_prefix("tip: ").or(part.strip_prefix("Usage: ")))
    {
        Some(help) => failure.advise(in_one_line(help)),
        None => failure,
    }
}

fn of_kind(kind: ErrorKind) -> (Exit, Option<&'static str>) {
    match kind {
        ErrorKind::Locked => (
            Exit::Locked,
            Some(
                "another process has the database open for writing: stop it, or use a command that only reads \
                 (inspect, get, scan, export, check, stats)",
            ),
        ),
        ErrorKind::Corruption => (
            Exit::Damaged,
            Some(
                "look with `nyala check DIR`; `nyala repair DIR NEW_DIR` writes what can be read to a new directory",
            ),
        ),
        ErrorKind::UnsupportedFormat => {
            (Exit::Damaged, Some("a newer version of Nyala wrote it: use that version of the command"))
        }
        ErrorKind::NoSpace => {
            (Exit::NoSpace, Some("free some space and run it again: what was written before is there"))
        }
        ErrorKind::ReadOnly => {
            (Exit::Failed, Some("the directory cannot be written: look at its permissions"))
        }
        ErrorKind::NoSuchTable => (Exit::NotFound, Some("`nyala inspect DIR` lists the tables")),
        ErrorKind::InvalidArgument | ErrorKind::SchemaMismatch | ErrorKind::TableExists => {
            (Exit::Usage, None)
        }
        _ => (Exit::Failed, None),
    }
}
