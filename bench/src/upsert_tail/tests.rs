use super::*;

use crate::args::{Args, Command};
use clap::Parser;

#[test]
fn a_small_run_gives_every_number() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = "b upsert-tail --rows 5000 --upserts 20000 --memory 1MiB --idle-seconds 2 --check --dir";
    let line = line.split(' ').map(std::ffi::OsStr::new).chain([folder.path().as_os_str()]);
    let Command::UpsertTail(args) = Args::parse_from(line).command else { panic!("another command") };
    run(&args).expect("a sound run");
    let database = folder.path().join("database-zipfian");
    let outcome = run_one(&args, Distribution::Zipfian, &database).expect("a sound run");
    let json = outcome.to_json();
    for name in
        ["rows_per_s", "p50_us", "p99_us", "p999_us", "max_us", "disk_ratio_max", "runs_max", "depth_max"]
    {
        assert!(json[name].as_f64().is_some_and(|number| number > 0.0), "{name}: {json}");
    }
    let number = |value: &serde_json::Value| value.as_f64().expect("a number");
    let (max, slowest) = (number(&json["max_us"]), number(&json["slowest"][0]["took_us"]));
    assert!((max / slowest - 1.0).abs() < 0.01, "the slowest batch is the maximum: {max} {slowest}");
    assert!(number(&json["p50_us"]) > 1.0 && number(&json["p50_us"]) <= number(&json["p99_us"]));
    assert!(json["stall_seconds"].is_number());
    assert_eq!(outcome.upserts.latencies.len(), 200);
    for distribution in ["zipfian", "uniform"] {
        let text = std::fs::read_to_string(folder.path().join(format!("upsert-tail/{distribution}.csv")));
        let text = text.expect("a time series");
        assert!(text.lines().count() > 3 && text.contains(",idle,"), "{text}");
        let svg = folder.path().join(format!("upsert-tail/{distribution}.svg"));
        assert!(std::fs::read_to_string(svg).expect("a plot").ends_with("</svg>\n"));
    }
}
