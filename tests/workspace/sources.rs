//! The sources of the libraries: who may call the disk, who may start threads and ask for the time.
//!
//! Clippy forbids most of these calls by their path; here they are looked for as text too, so that no new function of
//! the standard library slips through.

use std::path::PathBuf;

use crate::tree::{files, text};

/// The crates whose disk calls all go through `vfs`.
const LIBRARIES: &[&str] = &["codec", "sync", "encoded-key", "wal", "sstable", "pkindex", "derive", "engine"];

/// The lines of a library's source that are code outside tests, with their numbers.
///
/// Unit tests stand at the end of a file below `#[cfg(test)] mod tests {`, or in files of their own.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let tests = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text[..tests]
        .lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line.trim_start()))
        .filter(|(_, line)| !line.starts_with("//"))
}

/// The test files of the libraries, and what helps them.
fn is_for_tests(path: &std::path::Path) -> bool {
    let words =
        ["tests", "tests.rs", "testing.rs", "model.rs", "models", "models.rs", "golden.rs", "properties.rs"];
    // `sstable` and `pkindex` have a `properties.rs` that is no test.
    let is_library_code =
        path.ends_with("sstable/src/properties.rs") || path.ends_with("pkindex/src/properties.rs");
    !is_library_code && path.iter().any(|part| words.iter().any(|word| part == *word))
}

/// The lines that contain one of `words`, in all library code but the files that may.
fn offenders(words: &[&str], allowed: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for library in LIBRARIES {
        let sources: Vec<PathBuf> = files(&format!("{library}/src"), &[".rs"]);
        assert!(!sources.is_empty(), "{library} has no sources");
        for path in sources {
            if is_for_tests(&path) || allowed.iter().any(|allowed| path.ends_with(allowed)) {
                continue;
            }
            for (line, code) in code_lines(&text(&path)) {
                if let Some(word) = words.iter().find(|word| code.contains(**word)) {
                    found.push(format!("{}:{line}: {word}", path.display()));
                }
            }
        }
    }
    found
}

#[test]
fn only_vfs_touches_files() {
    let words = ["std::fs", "OpenOptions", "rustix::", "std::os::", "std::net", "std::process"];
    assert_eq!(offenders(&words, &[]), [""; 0]);
}

#[test]
fn threads_and_clocks_stand_behind_the_runtime() {
    let words = [
        "thread::spawn",
        "thread::Builder",
        "thread::scope",
        "thread::sleep",
        "Instant::now",
        "SystemTime::now",
    ];
    // A timestamp of now is a value that a user asks for. What a model puts in the place of `std::thread` starts none.
    let allowed = ["engine/src/runtime.rs", "encoded-key/src/time.rs", "sync/src/model/thread.rs"];
    assert_eq!(offenders(&words, &allowed), [""; 0]);
}

#[test]
fn locks_and_threads_come_from_where_a_model_can_exchange_them() {
    let words = [
        "parking_lot",
        "std::thread",
        "sync::Barrier",
        "sync::mpsc",
        "std::sync::RwLock",
        "std::sync::Condvar",
    ];
    // How many processors there are decides no order.
    assert_eq!(offenders(&words, &["sync/src/lib.rs", "engine/src/options.rs"]), [""; 0]);
}

#[test]
fn libraries_do_not_print() {
    assert_eq!(offenders(&["println!", "print!(", "eprint", "dbg!"], &[]), [""; 0]);
}

#[test]
fn the_search_would_find_a_call() {
    let source = "//! std::fs is named here\nfn f() {\n    std::fs::read(p);\n}\n#[cfg(test)]\nmod tests {\n  std::fs\n}\n";
    let found: Vec<_> = code_lines(source).filter(|(_, line)| line.contains("std::fs")).collect();
    assert_eq!(found, [(3, "std::fs::read(p);")]);
}
