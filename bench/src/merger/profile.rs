//! How much of the time goes to the allocator, told by samples: `perf record -e cpu-clock` of a process that does
//! nothing but merge in one way.
//!
//! Counts the functions that take and give back memory, in the program and in the C library; not what the kernel does
//! for them, and not the code around them. Where there is no perf, or it may not be used, nothing is said and that is
//! said aloud.

use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::allocator;

use super::Task;

/// Samples a second of processor time: a number that is no multiple of what the machine does anyway.
const FREQUENCY: &str = "997";
/// How long to sample, about.
const SECONDS: f64 = 3.0;

/// What was seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Samples {
    pub(super) all: u64,
    pub(super) in_allocator: u64,
}

impl Samples {
    pub(super) fn share(self) -> f64 {
        self.in_allocator as f64 / self.all.max(1) as f64
    }
}

/// A perf that works here.
pub(super) struct Perf;

/// Looks for perf, and says so if there is none.
pub(super) fn find() -> Option<Perf> {
    let trial = Command::new("perf")
        .args(["record", "-q", "-e", "cpu-clock", "-o", "/dev/null", "--", "true"])
        .stdin(Stdio::null())
        .output();
    match trial {
        Ok(output) if output.status.success() => Some(Perf),
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            eprintln!(
                "skipped: the share of samples in the allocator; perf does not work here: {}",
                why.trim()
            );
            None
        }
        Err(error) => {
            eprintln!("skipped: the share of samples in the allocator; perf is not here: {error}");
            None
        }
    }
}

/// Samples a process that merges in one way, which takes about `seconds` for once.
pub(super) fn sample(_: &Perf, task: &Task<'_>, variant: &str, seconds: f64) -> anyhow::Result<Samples> {
    let recording = tempfile::NamedTempFile::new_in(task.folder)?;
    let repeat = (SECONDS / seconds.max(0.001)).ceil().clamp(1.0, 1000.0) as u64;
    let recorded = Command::new("perf")
        .args(["record", "-q", "-e", "cpu-clock", "-F", FREQUENCY, "-o"])
        .arg(recording.path())
        .arg("--")
        .arg(std::env::current_exe()?)
        .args(task.arguments(variant))
        .args(["--repeat", &repeat.to_string()])
        .env(allocator::VARIABLE, task.allocator.name())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .status()
        .context("running perf record")?;
    ensure!(recorded.success(), "perf record ended with {recorded}");
    let report = Command::new("perf")
        .args(["report", "--stdio", "-q", "-F", "sample,sym", "-t", "|", "-i"])
        .arg(recording.path())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .context("running perf report")?;
    ensure!(report.status.success(), "perf report ended with {}", report.status);
    let samples = parse(&String::from_utf8_lossy(&report.stdout));
    ensure!(samples.all > 0, "perf report tells of no samples");
    Ok(samples)
}

/// Reads lines of "samples|[.] symbol" (`[k]` for the kernel's).
fn parse(report: &str) -> Samples {
    let mut samples = Samples::default();
    for line in report.lines() {
        let mut fields = line.split('|').map(str::trim);
        let Some(count) = fields.next().and_then(|count| count.parse::<u64>().ok()) else { continue };
        samples.all += count;
        if fields.next().and_then(|symbol| symbol.strip_prefix("[.] ")).is_some_and(is_allocator) {
            samples.in_allocator += count;
        }
    }
    samples
}

/// Whether a function takes or gives back memory.
fn is_allocator(symbol: &str) -> bool {
    const NAMES: [&str; 22] = [
        "malloc",
        "calloc",
        "realloc",
        "free",
        "cfree",
        "memalign",
        "aligned_alloc",
        "posix_memalign",
        "_int_malloc",
        "_int_free",
        "_int_realloc",
        "_int_memalign",
        "_mid_memalign",
        "sysmalloc",
        "systrim",
        "malloc_consolidate",
        "unlink_chunk",
        "mremap_chunk",
        "munmap_chunk",
        "tcache_init",
        "alloc_perturb",
        "checked_request2size",
    ];
    const PREFIXES: [&str; 11] = [
        "mi_",
        "_mi_",
        "__libc_malloc",
        "__libc_calloc",
        "__libc_realloc",
        "__libc_free",
        "__rust_alloc",
        "__rust_dealloc",
        "__rust_realloc",
        "__rustc::__rust_",
        "__rdl_",
    ];
    // "cfree@GLIBC_2.2.5", "unlink_chunk.constprop.0"
    let name = symbol.split(['@', '.']).next().unwrap_or(symbol);
    NAMES.contains(&name)
        || PREFIXES.iter().any(|prefix| symbol.starts_with(prefix))
        || symbol.contains("as core::alloc::global::GlobalAlloc>")
        || symbol.contains("as alloc::alloc::GlobalAlloc>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let report = "\n# a comment\n      200|[.] malloc\n 50|[.] cfree@GLIBC_2.2.5  \n10|[k] free_pcppages_bulk\n\
                      700|[.] <nyala_pkindex::merger::KeyValueMerger>::merge\n\
                      30|[.] unlink_chunk.constprop.0\n10|[.] mi_free\n";
        let samples = parse(report);
        assert_eq!((samples.all, samples.in_allocator), (1000, 290));
        assert!((samples.share() - 0.29).abs() < 1e-9);
    }

    #[test]
    fn what_only_sounds_like_an_allocator_is_none() {
        for symbol in ["free_list::push", "__memmove_avx512_unaligned_erms", "malloc_free_report", "minimal"]
        {
            assert!(!is_allocator(symbol), "{symbol}");
        }
        for symbol in ["__rustc::__rust_alloc", "_int_free", "_mi_page_free_collect", "__libc_malloc2"] {
            assert!(is_allocator(symbol), "{symbol}");
        }
    }
}
