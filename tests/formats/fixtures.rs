//! The fixtures as they are kept: reading them, and writing those that are not there yet.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::scenarios::SCENARIOS;
use crate::writer::{Files, Written};

/// A database that was kept.
pub(crate) struct Fixture {
    pub(crate) name: String,
    pub(crate) files: Files,
    /// Its contents, as [`crate::expected::Contents::lines`] gives them.
    pub(crate) lines: Vec<String>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures")
}

/// Too small to be packed, and of use to whoever looks into the folder.
fn is_plain(name: &str) -> bool {
    name == "CURRENT" || name == "LOCK"
}

impl Fixture {
    /// The fixtures of all format versions.
    pub(crate) fn all() -> Vec<Fixture> {
        let list = |path: &Path| -> Vec<PathBuf> {
            let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let mut paths: Vec<PathBuf> =
                entries.map(|entry| entry.expect("it can be read").path()).collect();
            paths.sort_unstable();
            paths
        };
        let versions = list(&folder()).into_iter().filter(|path| path.is_dir());
        let databases = versions.flat_map(|version| list(&version)).filter(|path| path.is_dir());
        let fixtures: Vec<Fixture> = databases.map(|path| Fixture::read(&path)).collect();
        assert!(fixtures.len() >= SCENARIOS.len(), "only {} fixtures are there", fixtures.len());
        fixtures
    }

    /// One of format version 1.
    pub(crate) fn of_version_1(name: &str) -> Fixture {
        Fixture::read(&folder().join("v1").join(name))
    }

    fn read(path: &Path) -> Fixture {
        let lines = fs::read_to_string(path.with_extension("jsonl"))
            .unwrap_or_else(|error| panic!("what {} holds: {error}", path.display()));
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(path).expect("it can be listed") {
            let file = entry.expect("it can be listed").path();
            let bytes = fs::read(&file).expect("it can be read");
            let stored = file.file_name().and_then(|name| name.to_str()).expect("our names");
            let (name, bytes) = match stored.strip_suffix(".gz") {
                None => (stored, bytes),
                Some(name) => {
                    let mut unpacked = Vec::new();
                    GzDecoder::new(&bytes[..]).read_to_end(&mut unpacked).expect("gzip");
                    (name, unpacked)
                }
            };
            files.insert(name.to_owned(), bytes);
        }
        let name = path.file_name().and_then(|name| name.to_str()).expect("our names").to_owned();
        Fixture { name, files, lines: lines.lines().map(str::to_owned).collect() }
    }

    /// Puts the files into a folder of the real disk.
    pub(crate) fn unpack(&self) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a temporary folder");
        put(&self.files, dir.path());
        dir
    }

    pub(crate) fn names_with<'a>(&'a self, ending: &'a str) -> impl Iterator<Item = &'a String> {
        self.files.keys().filter(move |name| name.ends_with(ending))
    }
}

/// Writes files into a folder.
pub(crate) fn put(files: &Files, dir: &Path) {
    for (name, bytes) in files {
        fs::write(dir.join(name), bytes).expect("a good disk");
    }
}

/// The files of a folder.
pub(crate) fn files_of(dir: &Path) -> Files {
    let entries = fs::read_dir(dir).expect("it can be listed").map(|entry| entry.expect("it can be listed"));
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().expect("our names");
            (name, fs::read(entry.path()).expect("it can be read"))
        })
        .collect()
}

fn keep(name: &str, written: &Written) {
    let dir = folder().join("v1").join(name);
    fs::create_dir_all(&dir).expect("a good disk");
    for (name, bytes) in &written.files {
        if is_plain(name) {
            fs::write(dir.join(name), bytes).expect("a good disk");
            continue;
        }
        let file = fs::File::create(dir.join(format!("{name}.gz"))).expect("a good disk");
        let mut packer = GzEncoder::new(file, Compression::best());
        packer.write_all(bytes).and_then(|()| packer.finish().map(drop)).expect("a good disk");
    }
    let mut lines = written.contents.lines().join("\n");
    if !lines.is_empty() {
        lines.push('\n');
    }
    fs::write(dir.with_extension("jsonl"), lines).expect("a good disk");
}

/// With `NYALA_FIXTURES_WRITE` set, writes what is missing. What is there stays as it is, whatever happens: it is what
/// was promised.
#[test]
fn every_scenario_has_its_fixture() {
    for (name, write) in SCENARIOS {
        let is_there = folder().join("v1").join(name).with_extension("jsonl").exists();
        if !is_there && std::env::var_os("NYALA_FIXTURES_WRITE").is_some() {
            keep(name, &write());
            continue;
        }
        assert!(is_there, "the fixture {name:?} is missing; NYALA_FIXTURES_WRITE=1 writes it");
    }
}
