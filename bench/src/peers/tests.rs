//! Small runs of every engine that is built, in this process.

use super::args::{PeersOnceArgs, WorkloadArgs};
use super::*;

use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    workload: WorkloadArgs,
}

fn workload(more: &str) -> WorkloadArgs {
    let line = "b --rows 4000 --memory 1MiB --seconds 1 --idle-seconds 5";
    Line::parse_from(line.split(' ').chain(more.split_whitespace())).workload
}

fn run_here(
    workload: &WorkloadArgs,
    engine: Engine,
    group: Group,
    folder: &Path,
    acknowledged: &[u64],
) -> Vec<Value> {
    let args = PeersOnceArgs {
        workload: workload.clone(),
        engine,
        group,
        folder: folder.to_owned(),
        acknowledged: acknowledged.to_vec(),
    };
    let mut lines = Vec::new();
    process::run_group(&args, &mut |line| {
        lines.push(line);
        Ok(())
    })
    .unwrap_or_else(|error| panic!("{}, {group:?}: {error:#}", engine.name()));
    lines
}

fn number(lines: &[Value], phase: &str, metric: &str) -> f64 {
    let is_it = |line: &&Value| line["phase"] == phase && line["metric"] == metric;
    let line = lines.iter().find(is_it).unwrap_or_else(|| panic!("{phase} {metric} is missing: {lines:?}"));
    line["value"].as_f64().expect("a number")
}

#[test]
fn every_phase_gives_its_numbers() {
    let workload = workload("");
    for engine in Engine::built() {
        let folder = tempfile::tempdir().expect("a folder");
        let database = folder.path().join("database");
        let mut lines = run_here(&workload, engine, Group::Load, &database, &[]);
        for group in [Group::Read, Group::Mixed, Group::Synced] {
            lines.extend(run_here(&workload, engine, group, &database, &[]));
        }
        let other = folder.path().join("sequential");
        lines.extend(run_here(&workload, engine, Group::Sequential, &other, &[]));
        for phase in ["P1", "P1-sequential", "P2", "P3-existing", "P3-missing", "P3-zipfian", "P4-short"] {
            let latencies =
                ["p50_us", "p99_us", "p999_us", "max_us"].map(|metric| number(&lines, phase, metric));
            assert!(latencies[0] > 0.0 && latencies.is_sorted(), "{} {phase}: {latencies:?}", engine.name());
        }
        for phase in ["P4-forward", "P4-reverse", "P4-keys", "P5-2-threads", "P5-8-threads", "P6"] {
            for metric in ["rows_per_s", "cpu_ns_per_row", "peak_memory_bytes", "peak_anonymous_bytes"] {
                assert!(number(&lines, phase, metric) > 0.0, "{} {phase} {metric}", engine.name());
            }
        }
        for phase in ["P1", "P2", "P6"] {
            assert!(number(&lines, phase, "disk_bytes") > 100.0 * 1000.0, "{} {phase}", engine.name());
            assert!(number(&lines, phase, "write_amplification") >= 0.0);
            assert!(number(&lines, phase, "idle_after_s") >= 0.0);
        }
        assert!(number(&lines, "P6", "read_p50_us") > 0.0 && number(&lines, "P6", "upsert_p50_us") > 0.0);
        assert!(number(&lines, "P7-clean", "open_ms") > 0.0 && number(&lines, "P7-clean", "close_ms") > 0.0);
        let series: Vec<&Value> = lines.iter().filter(|line| line["series"].is_string()).collect();
        assert_eq!(series.len(), 3, "of loads and upserts");
        for line in series {
            Series::parse("P1", &line["points"]).expect("points");
        }
    }
}

#[test]
fn only_what_was_asked_for_is_told() {
    let workload = workload("--phases P4");
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(groups(&workload), [Group::Load, Group::Read]);
    assert!(run_here(&workload, Engine::Nyala, Group::Load, folder.path(), &[]).is_empty());
    let lines = run_here(&workload, Engine::Nyala, Group::Read, folder.path(), &[]);
    assert!(!lines.is_empty());
    assert!(lines.iter().all(|line| line["phase"].as_str().is_some_and(|phase| phase.starts_with("P4"))));
}

#[test]
fn what_was_acknowledged_is_looked_for_and_missed_if_it_is_not_there() {
    let workload = workload("--phases P7");
    let folder = tempfile::tempdir().expect("a folder");
    run_here(&workload, Engine::Nyala, Group::Load, folder.path(), &[]);
    // Stops, since nobody takes its lines any more, instead of being killed.
    let args = PeersOnceArgs {
        workload: workload.clone(),
        engine: Engine::Nyala,
        group: Group::Killed,
        folder: folder.path().to_owned(),
        acknowledged: Vec::new(),
    };
    let mut acknowledged = Vec::new();
    let stopped = process::run_group(&args, &mut |line| {
        let batches = line["acknowledged"].as_array().expect("counts");
        acknowledged = batches.iter().filter_map(Value::as_u64).collect();
        ensure!(acknowledged.iter().sum::<u64>() < 50, "enough");
        Ok(())
    });
    assert_eq!(stopped.expect_err("the end").to_string(), "enough");
    let lines = run_here(&workload, Engine::Nyala, Group::Reopen, folder.path(), &acknowledged);
    assert_eq!(number(&lines, "P7-killed", "acknowledged_rows_lost"), 0.0);
    assert!(number(&lines, "P7-killed", "acknowledged_rows_looked_for") > 100.0);
    let beyond: Vec<u64> = acknowledged.iter().map(|batches| batches + 100_000).collect();
    let lines = run_here(&workload, Engine::Nyala, Group::Reopen, folder.path(), &beyond);
    assert!(number(&lines, "P7-killed", "acknowledged_rows_lost") > 100.0);
}
