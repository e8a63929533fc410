//! Runs `nyala-bench peers` as its users do, with the engines that this build has: processes, a kill, tables, plots.

use std::process::Command;

use serde_json::Value;

const ENGINES: [(&str, bool); 7] = [
    ("nyala", true),
    ("nyala-typed", true),
    ("rocksdb", cfg!(feature = "rocksdb")),
    ("fjall", cfg!(feature = "fjall")),
    ("redb", cfg!(feature = "redb")),
    ("lmdb", cfg!(feature = "lmdb")),
    ("sqlite", cfg!(feature = "sqlite")),
];

#[test]
fn a_small_run_gives_every_number_of_every_engine() {
    let folder = tempfile::tempdir().expect("a folder");
    let plots = folder.path().join("plots");
    let output = Command::new(env!("CARGO_BIN_EXE_nyala-bench"))
        .args(["peers", "--rows", "20000", "--memory", "4MiB", "--rounds", "1", "--seconds", "1", "--json"])
        .args(["--idle-seconds", "20", "--dir"])
        .arg(folder.path())
        .arg("--plots")
        .arg(&plots)
        .output()
        .expect("the program");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{errors}\n{text}");
    let json: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
    let built = || ENGINES.iter().filter(|engine| engine.1).map(|engine| engine.0);
    for engine in built() {
        let median = |phase: &str, metric: &str| {
            let results = json["results"].as_array().expect("results");
            let is_it = |entry: &&Value| {
                entry["engine"] == engine && entry["phase"] == phase && entry["metric"] == metric
            };
            let entry = results.iter().find(is_it);
            let entry = entry.unwrap_or_else(|| panic!("{engine} {phase} {metric} is missing in {text}"));
            let [min, median, max] =
                ["min", "median", "max"].map(|name| entry[name].as_f64().expect("a number"));
            assert!(min <= median && median <= max);
            median
        };
        for phase in ["P1", "P1-sequential", "P2", "P3-existing", "P4-keys", "P5-8-threads", "P6"] {
            assert!(median(phase, "cpu_ns_per_row") > 0.0, "{engine} {phase}");
        }
        assert!(median("P7-clean", "open_ms") > 0.0 && median("P7-killed", "open_ms") > 0.0);
        let lost = median("P7-killed", "acknowledged_rows_lost");
        // redb has no log: what was not committed durably is gone.
        assert!(engine == "redb" || lost == 0.0, "{engine} lost {lost}");
        assert!(json["engines"][engine]["settings"].as_array().is_some_and(|settings| settings.len() > 2));
        assert!(text.contains(&format!("| {engine} ")), "{text}");
    }
    for plot in ["p1-latency.svg", "p2-latency.svg", "p2-rate.svg", "cpu.svg"] {
        let svg = std::fs::read_to_string(plots.join(plot)).expect(plot);
        assert!(built().all(|engine| svg.contains(engine)), "{plot}");
    }
    assert!(!folder.path().join("peers/nyala").exists(), "databases are removed");
}

#[test]
fn an_engine_that_is_not_built_is_named() {
    for (engine, built) in ENGINES {
        if !built {
            let output = Command::new(env!("CARGO_BIN_EXE_nyala-bench"))
                .args(["peers", "--rows", "1000", "--engines", engine])
                .output()
                .expect("the program");
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && errors.contains(&format!("--features {engine}")), "{errors}");
        }
    }
}
