//! The pages show what the command prints: each `console` block is run, and compared.
//!
//! Commands other than `nyala` and a few of every shell are shown only.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::mask;
use crate::world::flights;

const WRITE: &str = "NYALA_KEPT_WRITE";

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name)
}

/// Runs the blocks of a page in one directory, and gives the page with what was printed.
fn with_real_output(page: &str) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("examples/flights/data");
    fs::create_dir_all(&data).expect("a directory");
    fs::copy(flights(), data.join("flights.csv.gz")).expect("the sample");
    let mut out = String::new();
    let mut is_console = false;
    let mut is_ours = false;
    let mut last_code = 0;
    for line in page.lines() {
        if line.starts_with("```") {
            (is_console, is_ours) = (line == "```console", false);
        } else if is_console && let Some(typed) = line.strip_prefix("$ ") {
            is_ours = ["nyala ", "printf ", "cat ", "echo "].iter().any(|start| typed.starts_with(start));
            out.push_str(line);
            out.push('\n');
            if typed == "echo $?" {
                out.push_str(&format!("{last_code}\n"));
            } else if is_ours {
                let (code, printed) = run(dir.path(), typed);
                last_code = code;
                out.push_str(&printed);
            }
            continue;
        } else if is_console && is_ours {
            continue;
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

fn run(dir: &Path, typed: &str) -> (i32, String) {
    let folder = Path::new(env!("CARGO_BIN_EXE_nyala")).parent().expect("a folder");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-c", &format!("{typed} 2>&1")])
        .current_dir(dir)
        .env("PATH", path)
        .env("NO_COLOR", "1")
        .output()
        .expect("sh runs");
    (output.status.code().expect("it ends by itself"), String::from_utf8(output.stdout).expect("text"))
}

/// Each command's lines with the sizes taken out.
fn masked(page: &str) -> String {
    page.split("\n$ ").map(mask::sizes).collect::<Vec<_>>().join("\n$ ")
}

fn shows_what_is_printed(name: &str) {
    let page = page(name);
    let text = fs::read_to_string(&page).expect("the page");
    let real = with_real_output(&text);
    if std::env::var_os(WRITE).is_some() {
        fs::write(&page, real).expect("the page");
        return;
    }
    assert!(
        masked(&text) == masked(&real),
        "docs/{name} does not show what is printed; if that is meant, run again with {WRITE}=1:\n{real}"
    );
}

#[test]
fn the_page_on_the_command_shows_what_it_prints() {
    shows_what_is_printed("command.md");
}

#[test]
fn the_transcript_shows_what_is_printed() {
    shows_what_is_printed("transcript.md");
}
