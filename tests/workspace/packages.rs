//! The packages: their arrows, and what a registry needs to know of them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::tree::{root, text};

/// Which crate may know which. No other arrows, and none of these missing.
const ARROWS: &[(&str, &[&str])] = &[
    ("nyala-codec", &[]),
    ("nyala-sync", &[]),
    ("nyala-vfs", &[]),
    ("nyala-encoded-key", &["nyala-codec"]),
    ("nyala-wal", &["nyala-codec", "nyala-sync", "nyala-vfs"]),
    ("nyala-sstable", &["nyala-codec", "nyala-sync", "nyala-vfs"]),
    ("nyala-pkindex", &["nyala-codec", "nyala-sstable", "nyala-vfs"]),
    ("nyala-derive", &[]),
    (
        "nyala",
        &[
            "nyala-codec",
            "nyala-derive",
            "nyala-encoded-key",
            "nyala-pkindex",
            "nyala-sstable",
            "nyala-sync",
            "nyala-vfs",
            "nyala-wal",
        ],
    ),
    // The command knows what any program knows.
    ("nyala-cli", &["nyala"]),
    // Not a part of the engine: it measures the engine's parts side by side.
    (
        "nyala-bench",
        &["nyala", "nyala-codec", "nyala-encoded-key", "nyala-pkindex", "nyala-sstable", "nyala-vfs"],
    ),
    // Nor this: it gives each format's decoder bytes that nobody wrote.
    (
        "nyala-fuzz",
        &[
            "nyala",
            "nyala-codec",
            "nyala-encoded-key",
            "nyala-pkindex",
            "nyala-sstable",
            "nyala-vfs",
            "nyala-wal",
        ],
    ),
];

/// The packages of the workspace, as cargo describes them. Needs no network: dependencies are not resolved.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    match metadata["packages"].take() {
        Value::Array(packages) => packages,
        other => panic!("packages: {other}"),
    }
}

fn name(package: &Value) -> &str {
    package["name"].as_str().expect("a package has a name")
}

/// The workspace members that a package depends on. `kind` is cargo's word: `null` for a normal dependency.
fn members_below<'a>(package: &'a Value, members: &BTreeSet<&str>, kinds: &[&str]) -> BTreeSet<&'a str> {
    let dependencies = package["dependencies"].as_array().expect("a list");
    dependencies
        .iter()
        .filter(|dependency| kinds.contains(&dependency["kind"].as_str().unwrap_or("normal")))
        .map(name)
        .filter(|name| members.contains(name))
        .collect()
}

#[test]
fn crates_know_exactly_the_crates_they_may() {
    let packages = packages();
    let members: BTreeSet<&str> = packages.iter().map(name).collect();
    let arrows: BTreeMap<&str, BTreeSet<&str>> =
        ARROWS.iter().map(|(from, to)| (*from, to.iter().copied().collect())).collect();
    for package in &packages {
        let Some(allowed) = arrows.get(name(package)) else {
            assert!(
                members_below(package, &members, &["normal", "build", "dev"]).is_empty(),
                "{} is not in the table of arrows",
                name(package)
            );
            continue;
        };
        let normal = members_below(package, &members, &["normal"]);
        assert_eq!(&normal, allowed, "the arrows from {}", name(package));
        let tests = members_below(package, &members, &["build", "dev"]);
        assert!(tests.is_subset(allowed), "tests of {} know {tests:?}", name(package));
    }
    for from in arrows.keys() {
        assert!(members.contains(from), "{from} is gone");
    }
}

#[test]
fn published_packages_say_what_they_are() {
    for package in packages() {
        let is_published = package["publish"].as_array().is_none_or(|registries| !registries.is_empty());
        if !is_published {
            continue;
        }
        let of = name(&package).to_owned();
        let description = package["description"].as_str().unwrap_or_default();
        assert!(description.len() > 20, "{of} has no description");
        assert_eq!(package["license"].as_str(), Some("MIT OR Apache-2.0"), "{of}");
        assert_eq!(package["edition"].as_str(), Some("2024"), "{of}");
        assert_eq!(package["rust_version"].as_str(), Some("1.95"), "{of}");
        assert!(package["repository"].as_str().is_some_and(|url| url.starts_with("https://")), "{of}");
    }
}

#[test]
fn both_licences_are_there_in_full() {
    let mit = text("LICENSE-MIT");
    assert!(mit.contains("Permission is hereby granted, free of charge"));
    assert!(mit.contains("IN NO EVENT SHALL THE"));
    let apache = text("LICENSE-APACHE");
    assert!(apache.contains("Version 2.0, January 2004"));
    assert!(apache.contains("END OF TERMS AND CONDITIONS"));
}

#[test]
fn every_crate_forbids_unsafe_code() {
    for package in packages() {
        let targets = package["targets"].as_array().expect("a list");
        for target in targets.iter().filter(|target| {
            target["kind"] == serde_json::json!(["lib"])
                || target["kind"] == serde_json::json!(["proc-macro"])
        }) {
            let path = target["src_path"].as_str().expect("a path");
            let source = std::fs::read_to_string(path).expect("a library has a root");
            assert!(
                source.lines().any(|line| line == "#![forbid(unsafe_code)]"),
                "{path} does not forbid unsafe code"
            );
        }
    }
}

#[test]
fn the_documents_name_the_compiler_that_the_packages_ask_for() {
    let asked = packages()
        .iter()
        .find(|package| name(package) == "nyala")
        .and_then(|package| package["rust_version"].as_str().map(str::to_owned))
        .expect("the engine says which compiler it needs");
    for document in ["README.md", "CONTRIBUTING.md"] {
        assert!(text(document).contains(&asked), "{document} does not name Rust {asked}");
    }
}
