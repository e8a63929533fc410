//! Records that were not imported: a csv file of lines, reasons and the records themselves.
//!
//! Invariant: a file that was there is neither cut short nor written to, unless that was asked for.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Source;
use crate::failure::{Exit, Failure};
use crate::output::write_csv_record;

/// Where they go: a file, or nowhere, and then the first ends the import.
pub(crate) struct Rejects {
    path: Option<PathBuf>,
    existing: Existing,
    file: Option<BufWriter<File>>,
    count: u64,
}

/// What becomes of a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It is an error.
    Keep,
    /// It is written anew.
    Replace,
}

impl Rejects {
    /// The file is made when the first record comes; whether it can be is looked at now.
    pub(crate) fn new(path: Option<&Path>, existing: Existing, source: &Source) -> Result<Rejects> {
        if let Some(path) = path {
            if source.is_file(path) {
                return Err(Failure::usage(format!("--rejects: {} is the file to import", path.display()))
                    .advise("give another file")
                    .into());
            }
            if let Some(dir) = path.parent()
                && !dir.as_os_str().is_empty()
                && !dir.is_dir()
            {
                let text = format!("{}: {} is no directory", path.display(), dir.display());
                return Err(Failure::new(Exit::Failed, text).into());
            }
            if existing == Existing::Keep && is_precious(path) {
                return Err(is_there(path).into());
            }
        }
        Ok(Rejects { path: path.map(Path::to_owned), existing, file: None, count: 0 })
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Sets a record aside. It is in the file after [`flush`](Rejects::flush).
    pub(crate) fn reject(&mut self, line: u64, reason: &str, record: &str) -> Result<()> {
        let Some(path) = &self.path else {
            return Err(Failure::new(Exit::Failed, format!("line {line}: {reason}"))
                .advise(
                    "correct it and run the import again; or give --rejects FILE, which sets such records aside and \
                     goes on",
                )
                .into());
        };
        let named = || path.display().to_string();
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let mut file = BufWriter::new(create(path, self.existing)?);
                write_csv_record(&mut file, ["line", "reason", "record"]).with_context(named)?;
                self.file.insert(file)
            }
        };
        write_csv_record(file, [line.to_string().as_str(), reason, record]).with_context(named)?;
        self.count += 1;
        Ok(())
    }

    /// Hands the records to the operating system: the file has them even if this process ends.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if let (Some(file), Some(path)) = (&mut self.file, &self.path) {
            file.flush().with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// As `flush`, and the file has them even if the power fails.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.flush()?;
        if let (Some(file), Some(path)) = (&self.file, &self.path)
            && path.is_file()
        {
            file.get_ref().sync_all().with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}

fn create(path: &Path, existing: Existing) -> Result<File> {
    let mut options = File::options();
    match existing {
        Existing::Replace => options.write(true).create(true).truncate(true),
        Existing::Keep if path.exists() && !is_precious(path) => options.write(true),
        Existing::Keep => options.write(true).create_new(true),
    };
    options.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => is_there(path).into(),
        _ => anyhow::Error::from(error).context(path.display().to_string()),
    })
}

/// Whether something would be lost with it: an empty file or a device has nothing to lose.
fn is_precious(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.len() > 0)
}

fn is_there(path: &Path) -> Failure {
    Failure::new(Exit::Failed, format!("{} is there already", path.display()))
        .advise("--force replaces it; or give --rejects another file")
}
