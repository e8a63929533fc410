//! What was measured, as tables, as JSON and as plots.

mod numbers;

use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Map, Value, json};

use crate::measure::median;
use crate::plot::{self, Bar, Bars, Line, Panel};

use super::args::WorkloadArgs;
use super::meter::Point;
use super::store::{Engine, Setting};

/// How a phase went.
#[derive(Clone, Debug)]
pub(super) struct Series {
    phase: String,
    points: Vec<Point>,
}

impl Series {
    /// Reads `[[seconds, rows/s, slowest ms], ..]`.
    pub(super) fn parse(phase: &str, points: &Value) -> anyhow::Result<Series> {
        let point = |point: &Value| {
            let number =
                |index: usize| point.get(index).and_then(Value::as_f64).context("a point of a series");
            anyhow::Ok(Point { at: number(0)?, rows_per_second: number(1)?, slowest_ms: number(2)? })
        };
        let points = points.as_array().context("a series has points")?;
        Ok(Series { phase: phase.to_owned(), points: points.iter().map(point).collect::<Result<_, _>>()? })
    }
}

/// A number of an engine, over all rounds.
#[derive(Clone, Debug)]
struct Measured {
    engine: Engine,
    phase: String,
    metric: String,
    values: Vec<f64>,
}

impl Measured {
    fn median(&self) -> f64 {
        median(self.values.clone())
    }

    fn min(&self) -> f64 {
        self.values.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn max(&self) -> f64 {
        self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    /// How far the rounds lie apart, as a part of the median.
    fn spread(&self) -> f64 {
        (self.max() - self.min()) / self.median().abs().max(f64::MIN_POSITIVE)
    }
}

/// All numbers of all engines.
#[derive(Debug)]
pub(super) struct Report {
    engines: Vec<Engine>,
    /// In the order in which they first came.
    measured: Vec<Measured>,
    /// Of the last round.
    series: Vec<(Engine, Series)>,
    settings: Vec<(Engine, Vec<Setting>)>,
}

impl Report {
    pub(super) fn new(engines: &[Engine]) -> Report {
        Report { engines: engines.to_vec(), measured: Vec::new(), series: Vec::new(), settings: Vec::new() }
    }

    pub(super) fn add(&mut self, engine: Engine, phase: &str, metric: &str, value: f64) {
        let is_it =
            |other: &&mut Measured| other.engine == engine && other.phase == phase && other.metric == metric;
        match self.measured.iter_mut().find(is_it) {
            Some(measured) => measured.values.push(value),
            None => self.measured.push(Measured {
                engine,
                phase: phase.to_owned(),
                metric: metric.to_owned(),
                values: vec![value],
            }),
        }
    }

    pub(super) fn set_series(&mut self, engine: Engine, series: Series) {
        self.series.retain(|(other, old)| *other != engine || old.phase != series.phase);
        self.series.push((engine, series));
    }

    pub(super) fn set_settings(&mut self, engine: Engine, settings: Vec<Setting>) {
        self.settings.push((engine, settings));
    }

    fn find(&self, engine: Engine, phase: &str, metric: &str) -> Option<&Measured> {
        let is_it =
            |other: &&Measured| other.engine == engine && other.phase == phase && other.metric == metric;
        self.measured.iter().find(is_it)
    }

    /// Phases and metrics, each pair once, by phase.
    fn lines(&self) -> Vec<(&str, &str)> {
        let mut lines: Vec<(&str, &str)> = Vec::new();
        for measured in &self.measured {
            let line = (measured.phase.as_str(), measured.metric.as_str());
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        // Stable, so that metrics of a phase stay in their order.
        lines.sort_by_key(|line| line.0);
        lines
    }

    pub(super) fn print(&self) {
        println!("{}\n", self.settings_table());
        println!("{}", self.table());
        println!(
            "\nMedians; ± half of what lies between the rounds. In brackets: nyala's median over the engine's."
        );
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        let names = self.engines.iter().map(|engine| engine.name());
        table.load_style(presets::ASCII_MARKDOWN).set_header(["phase", "metric"].into_iter().chain(names));
        for (phase, metric) in self.lines() {
            let nyala = self.find(Engine::Nyala, phase, metric).map(Measured::median);
            let cell = |&engine: &Engine| {
                let Some(measured) = self.find(engine, phase, metric) else { return "-".to_owned() };
                let mut text = numbers::show(metric, measured.median());
                if measured.values.len() > 1 {
                    text += &format!(" ±{:.0} %", 50.0 * measured.spread());
                }
                match nyala {
                    Some(nyala)
                        if engine != Engine::Nyala && numbers::compares(metric, measured.median()) =>
                    {
                        format!("{text} ({:.2})", nyala / measured.median())
                    }
                    _ => text,
                }
            };
            let name = numbers::name(metric);
            table.add_row([phase.to_owned(), name].into_iter().chain(self.engines.iter().map(cell)));
        }
        align_right(&mut table, 2);
        table
    }

    fn settings_table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_header(["engine", "setting", "value", "source"]);
        for (engine, settings) in &self.settings {
            table.add_row([engine.name(), "version", &engine.version(), "Cargo.lock"]);
            for setting in settings {
                table.add_row([engine.name(), setting.name, &setting.value, setting.source]);
            }
        }
        table
    }

    pub(super) fn to_json(&self, workload: &WorkloadArgs, rounds: u64) -> Value {
        let results: Vec<Value> = self
            .measured
            .iter()
            .map(|measured| {
                json!({
                    "engine": measured.engine.name(),
                    "phase": measured.phase,
                    "metric": measured.metric,
                    "median": measured.median(),
                    "min": measured.min(),
                    "max": measured.max(),
                })
            })
            .collect();
        let engine = |(engine, settings): &(Engine, Vec<Setting>)| {
            let setting = |setting: &Setting| json!({ "name": setting.name, "value": setting.value, "source": setting.source });
            let settings: Vec<Value> = settings.iter().map(setting).collect();
            (engine.name().to_owned(), json!({ "version": engine.version(), "settings": settings }))
        };
        json!({
            "results": results,
            "engines": self.settings.iter().map(engine).collect::<Map<_, _>>(),
            "rows": workload.rows,
            "value_bytes": workload.value_bytes,
            "threads": workload.threads,
            "batch": workload.batch,
            "memory_bytes": workload.memory.as_u64(),
            "settings": workload.settings.name(),
            "rounds": rounds,
        })
    }

    /// Names of files and what is in them.
    pub(super) fn plots(&self, title: &str) -> Vec<(String, String)> {
        let mut plots = Vec::new();
        for phase in ["P1", "P1-sequential", "P2"] {
            let of = |value: fn(&Point) -> f64, name| -> Vec<Panel> {
                let of_phase = self.series.iter().filter(|(_, series)| series.phase == phase);
                let panel = |(engine, series): &(Engine, Series)| Panel {
                    title: engine.name(),
                    lines: vec![Line {
                        name,
                        points: series.points.iter().map(|point| (point.at, value(point))).collect(),
                    }],
                };
                of_phase.map(panel).collect()
            };
            let latency = of(|point| point.slowest_ms, "slowest batch in 100 ms, ms");
            if latency.is_empty() {
                continue;
            }
            let name = phase.to_lowercase();
            plots.push((
                format!("{name}-latency.svg"),
                plot::draw(&format!("{phase}: {title}"), &latency, &[]),
            ));
            let rate = of(|point| point.rows_per_second, "rows/s");
            plots.push((format!("{name}-rate.svg"), plot::draw(&format!("{phase}: {title}"), &rate, &[])));
        }
        let cpu = self.bars("cpu_ns_per_row");
        plots.push(("cpu.svg".to_owned(), plot::draw_bars(&format!("CPU, ns a row: {title}"), &cpu)));
        plots
    }

    /// A group of bars for each phase that has the metric, a bar for each engine.
    fn bars(&self, metric: &str) -> Vec<Bars> {
        let phases = self.lines().into_iter().filter(|line| line.1 == metric).map(|line| line.0);
        let bars = |phase: &str| {
            let bar = |&engine: &Engine| {
                let measured = self.find(engine, phase, metric)?;
                Some(Bar { name: engine.name(), value: measured.median() })
            };
            Bars { title: phase.to_owned(), bars: self.engines.iter().filter_map(bar).collect() }
        };
        phases.map(bars).collect()
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

    fn report() -> Report {
        let mut report = Report::new(&[Engine::Nyala, Engine::Redb]);
        for (engine, values) in [(Engine::Nyala, [900.0, 1100.0, 1000.0]), (Engine::Redb, [4000.0; 3])] {
            for value in values {
                report.add(engine, "P2", "cpu_ns_per_row", value);
                report.add(engine, "P1", "cpu_ns_per_row", value / 2.0);
            }
        }
        report
    }

    #[test]
    fn medians_ranges_and_ratios_are_told() {
        let report = report();
        assert_eq!(report.lines(), [("P1", "cpu_ns_per_row"), ("P2", "cpu_ns_per_row")]);
        let text = report.table().to_string();
        assert!(text.contains("1000 ±10 %") && text.contains("4000 ±0 % (0.25)"), "{text}");
        let first = &report.to_json(&workload(), 3)["results"][0];
        assert_eq!((&first["engine"], &first["phase"]), (&json!("nyala"), &json!("P2")));
        assert_eq!(
            (&first["median"], &first["min"], &first["max"]),
            (&json!(1000.0), &json!(900.0), &json!(1100.0))
        );
    }

    #[test]
    fn plots_have_a_panel_and_a_bar_for_each_engine() {
        let mut report = report();
        for engine in [Engine::Nyala, Engine::Redb] {
            let series = Series::parse("P2", &json!([[0.1, 5e5, 2.0], [0.2, 6e5, 3.0]])).expect("points");
            report.set_series(engine, series.clone());
            report.set_series(engine, series);
        }
        assert!(Series::parse("P2", &json!([[0.1, 5e5]])).is_err());
        let plots = report.plots("a title");
        let names: Vec<&str> = plots.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["p2-latency.svg", "p2-rate.svg", "cpu.svg"]);
        for (_, svg) in &plots {
            assert!(svg.contains("nyala") && svg.contains("redb") && svg.ends_with("</svg>\n"));
        }
        assert_eq!(plots[0].1.matches(">redb<").count(), 1, "the last round's only");
    }

    fn workload() -> WorkloadArgs {
        use clap::Parser;
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            workload: WorkloadArgs,
        }
        Line::parse_from(["b"]).workload
    }
}
