//! Records that were not imported: a csv file of lines, reasons and the records themselves.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::failure::{Exit, Failure};
use crate::output::write_csv_record;

/// Where they go: a file, or nowhere, and then the first ends the import.
pub(crate) struct Rejects {
    path: Option<PathBuf>,
    file: Option<BufWriter<File>>,
    count: u64,
}

impl Rejects {
    /// The file is made when the first one comes, in the place of one of an earlier run.
    pub(crate) fn new(path: Option<&Path>) -> Rejects {
        Rejects { path: path.map(Path::to_owned), file: None, count: 0 }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Sets a record aside.
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
                let mut file = BufWriter::new(File::create(path).with_context(named)?);
                write_csv_record(&mut file, ["line", "reason", "record"]).with_context(named)?;
                self.file.insert(file)
            }
        };
        write_csv_record(file, [line.to_string().as_str(), reason, record]).with_context(named)?;
        self.count += 1;
        Ok(())
    }

    pub(crate) fn finish(&mut self) -> Result<()> {
        if let (Some(file), Some(path)) = (&mut self.file, &self.path) {
            file.flush().with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}
