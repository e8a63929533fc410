//! A watchdog: a run that stands still says where, and ends.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a state may take. A thousand take a second.
const PATIENCE: Duration = Duration::from_secs(120);

/// What each thread is at, and how often it said so.
#[derive(Debug)]
pub(crate) struct Watch {
    steps: AtomicU64,
    at: Vec<Mutex<String>>,
    is_over: AtomicBool,
}

impl Watch {
    pub(crate) fn new(threads: usize) -> Watch {
        let at = (0..threads).map(|_| Mutex::default()).collect();
        Watch { steps: AtomicU64::new(0), at, is_over: AtomicBool::new(false) }
    }

    /// A thread begins with something.
    pub(crate) fn begin(&self, thread: usize, what: String) {
        *self.at[thread].lock().expect("no panics") = what;
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Nobody has to be watched any more.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Watches until the end. Ends the process if for long nobody has begun anything: a thread that hangs cannot be
    /// made to panic.
    pub(crate) fn run(&self) {
        let (mut steps, mut since) = (0, Instant::now());
        while !self.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
            let now = self.steps.load(Ordering::Relaxed);
            if now != steps {
                (steps, since) = (now, Instant::now());
            } else if since.elapsed() > PATIENCE {
                eprintln!("nothing has moved for {PATIENCE:?}; the threads are at {:?}", self.at);
                std::process::exit(101);
            }
        }
    }
}
