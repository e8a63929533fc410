//! What was measured, as tables and as JSON.
//!
//! `ns_per_key` is processor time of the thread that merges, in the program and in the kernel, for each key that is
//! read: one that several runs have counts once for each. Time that passed while it waited for the disk or for a
//! processor is in `elapsed_ns_per_key` only.

use anyhow::{Context, ensure};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use crate::allocator::Kind;
use crate::measure::median;

use super::profile::Samples;

/// The variant that does not merge.
pub(super) const LIMIT: &str = "limit";

/// A variant with an allocator and an overlap, over all rounds.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) allocator: Kind,
    overlap: f64,
    pub(super) variant: String,
    cpu_ns: Vec<f64>,
    elapsed_ns: Vec<f64>,
    allocations: u64,
    keys_in: u64,
    keys_out: u64,
    bytes_in: u64,
    bytes_out: u64,
    pub(super) samples: Option<Samples>,
}

impl Case {
    fn ns_per_key(&self) -> f64 {
        median(self.cpu_ns.clone()) / self.keys_in.max(1) as f64
    }

    pub(super) fn elapsed_seconds(&self) -> f64 {
        median(self.elapsed_ns.clone()) / 1e9
    }

    fn elapsed_ns_per_key(&self) -> f64 {
        median(self.elapsed_ns.clone()) / self.keys_in.max(1) as f64
    }

    /// The quickest and the slowest round.
    fn range(&self) -> (f64, f64) {
        let keys = self.keys_in.max(1) as f64;
        let least = self.cpu_ns.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.cpu_ns.iter().copied().fold(0.0, f64::max);
        (least / keys, most / keys)
    }

    fn allocations_per_key(&self) -> f64 {
        self.allocations as f64 / self.keys_in.max(1) as f64
    }

    fn keys_per_second(&self) -> f64 {
        self.keys_in as f64 / self.elapsed_seconds().max(1e-9)
    }

    /// In and out.
    fn megabytes_per_second(&self) -> f64 {
        (self.bytes_in + self.bytes_out) as f64 / 1e6 / self.elapsed_seconds().max(1e-9)
    }

    fn to_json(&self) -> Value {
        let (least, most) = self.range();
        json!({
            "allocator": self.allocator.name(),
            "overlap": self.overlap,
            "variant": self.variant,
            "ns_per_key": self.ns_per_key(),
            "ns_per_key_min": least,
            "ns_per_key_max": most,
            "elapsed_ns_per_key": self.elapsed_ns_per_key(),
            "allocs_per_key": self.allocations_per_key(),
            "alloc_share": self.samples.map(Samples::share),
            "samples": self.samples.map(|samples| samples.all),
            "rounds": self.cpu_ns.len(),
            "keys_in": self.keys_in,
            "keys_out": self.keys_out,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "keys_per_s": self.keys_per_second(),
            "mb_per_s": self.megabytes_per_second(),
        })
    }
}

/// Adds what a process said of one merge to the case that it belongs to.
pub(super) fn add_line(
    cases: &mut Vec<Case>,
    allocator: Kind,
    overlap: f64,
    line: &Value,
) -> anyhow::Result<()> {
    let number = |name: &str| line[name].as_u64().with_context(|| format!("{name} is missing: {line}"));
    ensure!(line["allocator"] == allocator.name(), "another allocator was asked for: {line}");
    let variant = line["variant"].as_str().context("the variant's name is missing")?;
    let is_it = |case: &Case| case.allocator == allocator && case.variant == variant;
    let index = cases.iter().position(is_it).unwrap_or(cases.len());
    if index == cases.len() {
        cases.push(Case {
            allocator,
            overlap,
            variant: variant.to_owned(),
            cpu_ns: Vec::new(),
            elapsed_ns: Vec::new(),
            allocations: 0,
            keys_in: number("keys_in")?,
            keys_out: number("keys_out")?,
            bytes_in: number("bytes_in")?,
            bytes_out: number("bytes_out")?,
            samples: None,
        });
    }
    let case = &mut cases[index];
    case.cpu_ns.push(number("cpu_ns")? as f64);
    case.elapsed_ns.push(number("elapsed_ns")? as f64);
    case.allocations = case.allocations.max(number("allocations")?);
    Ok(())
}

/// All cases.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) cases: Vec<Case>,
}

impl Report {
    fn find(&self, like: &Case, variant: &str) -> Option<&Case> {
        let is_it = |case: &&Case| {
            case.allocator == like.allocator && case.overlap == like.overlap && case.variant == variant
        };
        self.cases.iter().find(is_it)
    }

    fn variants(&self) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(|case| case.variant != LIMIT)
    }

    fn limits(&self) -> impl Iterator<Item = (&Case, &Case)> {
        let limits = self.cases.iter().filter(|case| case.variant == LIMIT);
        limits.filter_map(|limit| Some((limit, self.find(limit, "nyala")?)))
    }

    pub(super) fn print(&self) {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_header([
            "overlap",
            "allocator",
            "variant",
            "ns/key",
            "min..max",
            "elapsed",
            "of fresh",
            "allocs/key",
            "in allocator",
            "keys out",
        ]);
        for case in self.variants() {
            let (least, most) = case.range();
            let of_fresh = self.find(case, "fresh").map(|fresh| case.ns_per_key() / fresh.ns_per_key());
            table.add_row([
                case.overlap.to_string(),
                case.allocator.to_string(),
                case.variant.clone(),
                format!("{:.1}", case.ns_per_key()),
                format!("{least:.1}..{most:.1}"),
                format!("{:.1}", case.elapsed_ns_per_key()),
                of_fresh.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
                format!("{:.5}", case.allocations_per_key()),
                case.samples.map_or_else(|| "-".to_owned(), |s| format!("{:.1} %", 100.0 * s.share())),
                case.keys_out.to_string(),
            ]);
        }
        align_right(&mut table, 3);
        println!("{table}");
        if self.limits().next().is_some() {
            println!("\n{}", self.limit_table());
        }
    }

    fn limit_table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_header([
            "overlap",
            "allocator",
            "keys/s",
            "MB/s in and out",
            "compaction ns/key",
            "limit ns/key",
            "compaction / limit",
            "elapsed / limit's",
        ]);
        for (limit, nyala) in self.limits() {
            table.add_row([
                nyala.overlap.to_string(),
                nyala.allocator.to_string(),
                format!("{:.0}", nyala.keys_per_second()),
                format!("{:.0}", nyala.megabytes_per_second()),
                format!("{:.1}", nyala.ns_per_key()),
                format!("{:.1}", limit.ns_per_key()),
                format!("{:.2}", nyala.ns_per_key() / limit.ns_per_key()),
                format!("{:.2}", nyala.elapsed_ns_per_key() / limit.elapsed_ns_per_key()),
            ]);
        }
        align_right(&mut table, 2);
        table
    }

    pub(super) fn to_json(&self) -> Value {
        let results: Vec<Value> = self.variants().map(Case::to_json).collect();
        let limits: Vec<Value> = self
            .limits()
            .map(|(limit, nyala)| {
                json!({
                    "allocator": nyala.allocator.name(),
                    "overlap": nyala.overlap,
                    "keys_per_s": nyala.keys_per_second(),
                    "mb_per_s": nyala.megabytes_per_second(),
                    "ns_per_key": nyala.ns_per_key(),
                    "limit_ns_per_key": limit.ns_per_key(),
                    "ratio": nyala.ns_per_key() / limit.ns_per_key(),
                    "elapsed_ratio": nyala.elapsed_ns_per_key() / limit.elapsed_ns_per_key(),
                })
            })
            .collect();
        match limits.is_empty() {
            true => json!({ "results": results }),
            false => json!({ "results": results, "limits": limits }),
        }
    }
}

/// Numbers stand at the right, from this column on.
fn align_right(table: &mut Table, from: usize) {
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(variant: &str, cpu_ns: u64) -> Value {
        json!({
            "allocator": "system", "variant": variant, "cpu_ns": cpu_ns, "elapsed_ns": 2 * cpu_ns, "allocations": 5, "keys_in": 10,
            "keys_out": 8, "bytes_in": 310, "bytes_out": 250,
        })
    }

    #[test]
    fn the_median_of_the_rounds_counts() {
        let mut report = Report::default();
        for (variant, times) in [("fresh", [900, 3000, 1000]), ("nyala", [300, 310, 290]), (LIMIT, [200; 3])]
        {
            for time in times {
                add_line(&mut report.cases, Kind::System, 0.3, &line(variant, time)).expect("a whole line");
            }
        }
        let json = report.to_json();
        assert_eq!(json["results"].as_array().expect("results").len(), 2);
        assert_eq!(json["results"][0]["ns_per_key"], 100.0);
        assert_eq!(json["results"][1]["variant"], "nyala");
        assert_eq!(json["results"][1]["allocs_per_key"], 0.5);
        assert_eq!(json["limits"][0]["ratio"], 1.5);
        assert!(
            add_line(
                &mut report.cases,
                Kind::System,
                0.3,
                &json!({"allocator": "system", "variant": "fresh"})
            )
            .is_err()
        );
    }
}
