//! The file of counts that are expected, one path a line.

use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use crate::measure;

/// Instructions of each path, for each time it runs, and what they were counted with.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Counts {
    pub(super) rustc: String,
    pub(super) valgrind: String,
    pub(super) paths: Vec<(String, f64)>,
}

impl Counts {
    pub(super) fn of(&self, name: &str) -> Option<f64> {
        self.paths.iter().find(|(path, _)| path == name).map(|(_, count)| *count)
    }

    #[expect(clippy::disallowed_methods, reason = "a file of this program's own")]
    pub(super) fn read(file: &Path) -> anyhow::Result<Counts> {
        let bytes = std::fs::read(file).with_context(|| format!("reading {}", file.display()))?;
        Counts::parse(&bytes).with_context(|| format!("{} is damaged", file.display()))
    }

    fn parse(bytes: &[u8]) -> anyhow::Result<Counts> {
        let value: Value = serde_json::from_slice(bytes)?;
        let text = |name: &str| value[name].as_str().map(str::to_owned).with_context(|| format!("no {name}"));
        let paths = value["instructions"].as_object().context("no instructions")?;
        let paths = paths
            .iter()
            .map(|(name, count)| Ok((name.clone(), count.as_f64().context("a count is no number")?)))
            .collect::<anyhow::Result<_>>()?;
        Ok(Counts { rustc: text("rustc")?, valgrind: text("valgrind")?, paths })
    }

    pub(super) fn write(&self, file: &Path) -> anyhow::Result<()> {
        measure::write_file(file, self.text()?.as_bytes())
            .with_context(|| format!("writing {}", file.display()))
    }

    fn text(&self) -> anyhow::Result<String> {
        let paths: serde_json::Map<String, Value> =
            self.paths.iter().map(|(name, count)| (name.clone(), json!(count.round()))).collect();
        let value = json!({ "rustc": self.rustc, "valgrind": self.valgrind, "instructions": paths });
        Ok(serde_json::to_string_pretty(&value)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let paths = vec![("commit".to_owned(), 1234.0), ("encode".to_owned(), 56.0)];
        let counts = Counts { rustc: "rustc 1".to_owned(), valgrind: "valgrind-3".to_owned(), paths };
        assert_eq!(Counts::parse(counts.text().unwrap().as_bytes()).unwrap(), counts);
        assert!(Counts::parse(b"{}").is_err() && Counts::parse(b"").is_err());
    }
}
