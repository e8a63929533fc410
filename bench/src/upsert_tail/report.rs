//! The outcome as tables, and as JSON.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Map, Value};

use super::outcome::{Outcome, size};

pub(super) fn to_json(outcomes: &[Outcome]) -> Value {
    let entry = |outcome: &Outcome| (outcome.distribution.name().to_owned(), outcome.to_json());
    Value::Object(outcomes.iter().map(entry).collect::<Map<_, _>>())
}

pub(super) fn print(outcomes: &[Outcome]) {
    println!("{}\n\n{}", summary(outcomes), slowest(outcomes));
}

/// A row for each number, a column for each distribution.
fn summary(outcomes: &[Outcome]) -> Table {
    type Show = (&'static str, fn(&Outcome) -> String);
    const ROWS: [Show; 20] = [
        ("load, rows/s", |o| format!("{:.0}", o.load_rows_per_second)),
        ("upserts, rows/s", |o| format!("{:.0}", o.rows_per_second)),
        ("upserts / load", |o| format!("{:.2}", o.load_ratio())),
        ("batch p50, us", |o| format!("{:.0}", o.micros(0.5))),
        ("batch p99, us", |o| format!("{:.0}", o.micros(0.99))),
        ("batch p99.9, us", |o| format!("{:.0}", o.micros(0.999))),
        ("batch max, us", |o| format!("{:.0}", o.micros(1.0))),
        ("delayed, s of all threads", |o| {
            format!("{:.2}, {:.0} %", o.stall_seconds, 100.0 * o.stall_share())
        }),
        ("batches delayed, stopped", |o| format!("{}, {}", o.delayed_batches, o.stopped_batches)),
        ("index runs, most", |o| o.runs_max().to_string()),
        ("overlap depth, most", |o| o.depth_max().to_string()),
        ("rowsets, most", |o| o.rowsets_max().to_string()),
        ("live data", |o| size(o.live_bytes)),
        ("disk / live, most", |o| format!("{:.2}", o.disk_ratio_max())),
        ("disk / live, idle", |o| {
            format!("{:.2}{}", o.disk_ratio_idle(), if o.is_idle { "" } else { " (not idle)" })
        }),
        ("written by flushes", |o| size(o.flushed_bytes)),
        ("index written by compactions", |o| {
            format!("{} in {}", size(o.compaction_bytes_out), o.compactions)
        }),
        ("rows moved by compactions", |o| size(o.moved_bytes)),
        ("time of compactions, s", |o| format!("{:.1}", o.compaction_seconds)),
        ("memory, most", |o| size(o.resident_max())),
    ];
    let mut table = Table::new();
    let names = outcomes.iter().map(|outcome| outcome.distribution.name());
    table.load_style(presets::ASCII_MARKDOWN).set_header(std::iter::once("").chain(names));
    for (name, show) in ROWS {
        table.add_row(std::iter::once(name.to_owned()).chain(outcomes.iter().map(show)));
    }
    align_right(&mut table);
    table
}

/// The slowest batches, and what they are made of.
fn slowest(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header([
        "slowest batches",
        "at, s",
        "took, ms",
        "on a processor",
        "waiting for one",
        "blocked: delays, locks, disk",
    ]);
    let ms = |duration: std::time::Duration| format!("{:.2}", duration.as_secs_f64() * 1e3);
    for outcome in outcomes {
        for batch in outcome.upserts.slowest.iter().take(5) {
            table.add_row([
                outcome.distribution.name().to_owned(),
                format!("{:.2}", batch.at),
                ms(batch.took),
                ms(batch.cpu),
                ms(batch.wait_for_cpu),
                ms(batch.blocked()),
            ]);
        }
    }
    align_right(&mut table);
    table
}

/// Numbers stand at the right; the first column is a name.
fn align_right(table: &mut Table) {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}
