//! Sees to it that every thread goes on; if one does not, says what each was doing, and ends the process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A thread's sign of life.
pub(crate) struct Beat {
    name: String,
    steps: AtomicU64,
    doing: Mutex<(&'static str, Instant)>,
}

impl Beat {
    pub(crate) fn new(name: &str) -> Arc<Beat> {
        let doing = Mutex::new(("starting", Instant::now()));
        Arc::new(Beat { name: name.to_owned(), steps: AtomicU64::new(0), doing })
    }

    /// Says what comes next.
    pub(crate) fn doing(&self, what: &'static str) {
        *self.doing.lock().expect("nobody panics with it") = (what, Instant::now());
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    fn report(&self) -> (Duration, String) {
        let (what, since) = *self.doing.lock().expect("nobody panics with it");
        (
            since.elapsed(),
            format!("{:12} {:>8} steps, for {:.1?}: {what}", self.name, self.steps(), since.elapsed()),
        )
    }
}

/// Watches over `beats` until `is_over`. `state` is asked for what else is worth knowing, after everything that cannot
/// hang has been printed.
pub(crate) fn watch(beats: &[Arc<Beat>], is_over: impl Fn() -> bool, state: impl FnOnce() -> String) {
    let patience = Duration::from_secs(crate::world::number("NYALA_STRESS_PATIENCE").unwrap_or(60));
    while !is_over() {
        std::thread::sleep(Duration::from_millis(50));
        let stands_still = beats.iter().any(|beat| {
            let (since, _) = beat.report();
            since > patience && !is_over()
        });
        if stands_still {
            eprintln!("a thread stands still:");
            for beat in beats {
                eprintln!("  {}", beat.report().1);
            }
            eprintln!("the threads of the process, and in which call of the system each waits:");
            for (thread, waits) in system_threads() {
                eprintln!("  {thread}: {waits}");
            }
            eprintln!("{}", state());
            std::process::abort();
        }
    }
}

/// What the system says of the threads, where it says anything.
fn system_threads() -> BTreeMap<String, String> {
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return BTreeMap::new() };
    tasks
        .flatten()
        .map(|task| {
            let dir = task.path();
            let name = format!("{} {}", task.file_name().to_string_lossy(), read(dir.join("comm")));
            let state = read(dir.join("stat"))
                .rsplit_once(") ")
                .map_or(String::new(), |(_, rest)| rest[..1].to_owned());
            (name, format!("{state} {} {}", read(dir.join("wchan")), read(dir.join("syscall"))))
        })
        .collect()
}
