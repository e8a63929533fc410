//! What was measured, as a table and as JSON.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use crate::measure::median;

use super::Variant;

/// A number of a variant, over all rounds.
#[derive(Debug)]
struct Measured {
    variant: Variant,
    threads: u64,
    metric: &'static str,
    values: Vec<f64>,
}

/// All numbers.
#[derive(Debug, Default)]
pub(super) struct Report {
    measured: Vec<Measured>,
}

impl Report {
    pub(super) fn add(&mut self, variant: Variant, threads: u64, metric: &'static str, value: f64) {
        let is_it = |other: &&mut Measured| {
            other.variant == variant && other.threads == threads && other.metric == metric
        };
        match self.measured.iter_mut().find(is_it) {
            Some(measured) => measured.values.push(value),
            None => self.measured.push(Measured { variant, threads, metric, values: vec![value] }),
        }
    }

    fn median(&self, variant: Variant, threads: u64, metric: &str) -> Option<f64> {
        let is_it = |other: &&Measured| {
            other.variant == variant && other.threads == threads && other.metric == metric
        };
        self.measured.iter().find(is_it).map(|measured| median(measured.values.clone()))
    }

    /// Metrics and threads, each pair once.
    fn lines(&self) -> Vec<(&'static str, u64)> {
        let mut lines: Vec<(&'static str, u64)> = Vec::new();
        for measured in &self.measured {
            if !lines.contains(&(measured.metric, measured.threads)) {
                lines.push((measured.metric, measured.threads));
            }
        }
        lines
    }

    /// Which part of a load's processor time is saved, at these threads.
    fn saved(&self, threads: u64) -> Option<f64> {
        let cpu = |variant| self.median(variant, threads, "load_cpu_ns_per_row");
        let (heap, arena) = (cpu(Variant::Heap)?, cpu(Variant::Arena)?);
        Some((heap - arena) / heap)
    }

    /// Which part of a load's processor time the keys are, at these threads.
    fn share(&self, variant: Variant, threads: u64) -> Option<f64> {
        let keys = self.median(variant, threads, "ns_per_key")?;
        Some(keys / self.median(variant, threads, "load_cpu_ns_per_row")?)
    }

    pub(super) fn print(&self) {
        let mut table = Table::new();
        let names = Variant::ALL.map(Variant::name);
        table
            .load_style(presets::ASCII_MARKDOWN)
            .set_header(["metric", "threads"].into_iter().chain(names).chain(["arena / heap"]));
        for (metric, threads) in self.lines() {
            let show = |number: Option<f64>| match number {
                None => "-".to_owned(),
                Some(number) if number >= 1000.0 => format!("{number:.0}"),
                Some(number) => format!("{number:.3}"),
            };
            let [heap, arena] = Variant::ALL.map(|variant| self.median(variant, threads, metric));
            let ratio = heap.zip(arena).filter(|(heap, _)| *heap > 0.0).map(|(heap, arena)| arena / heap);
            table.add_row([metric.to_owned(), threads.to_string(), show(heap), show(arena), show(ratio)]);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        println!("{table}");
        for (_, threads) in self.lines().into_iter().filter(|line| line.0 == "load_cpu_ns_per_row") {
            if let Some(saved) = self.saved(threads) {
                println!("\nA load with {threads} threads takes {:.1} % less CPU with arena.", 100.0 * saved);
            }
            for variant in Variant::ALL {
                if let Some(share) = self.share(variant, threads) {
                    println!("Keys are {:.1} % of the CPU of a load with {variant}.", 100.0 * share);
                }
            }
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let results: Vec<Value> = self
            .measured
            .iter()
            .map(|measured| {
                json!({
                    "variant": measured.variant.name(),
                    "threads": measured.threads,
                    "metric": measured.metric,
                    "median": median(measured.values.clone()),
                    "min": measured.values.iter().copied().fold(f64::INFINITY, f64::min),
                    "max": measured.values.iter().copied().fold(0.0, f64::max),
                })
            })
            .collect();
        let loads: Vec<Value> = self
            .lines()
            .into_iter()
            .filter(|line| line.0 == "load_cpu_ns_per_row")
            .map(|(_, threads)| {
                json!({
                    "threads": threads,
                    "saved_share": self.saved(threads),
                    "heap_key_share": self.share(Variant::Heap, threads),
                    "arena_key_share": self.share(Variant::Arena, threads),
                })
            })
            .collect();
        json!({ "results": results, "loads": loads })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_come_from_medians() {
        let mut report = Report::default();
        for (variant, load, keys) in [(Variant::Heap, 2000.0, 200.0), (Variant::Arena, 1500.0, 30.0)] {
            for value in [load, load * 3.0, load / 2.0] {
                report.add(variant, 8, "load_cpu_ns_per_row", value);
            }
            report.add(variant, 8, "ns_per_key", keys);
        }
        assert_eq!(report.saved(8), Some(0.25));
        assert_eq!(report.saved(1), None);
        let json = report.to_json();
        assert_eq!(
            (&json["loads"][0]["heap_key_share"], &json["loads"][0]["arena_key_share"]),
            (&json!(0.1), &json!(0.02))
        );
        assert_eq!(json["results"].as_array().expect("results").len(), 4);
        assert_eq!(json["results"][0]["median"], 2000.0);
    }
}
