//! What a phase costs the process: time, processor time, memory, and bytes for the disk.
//!
//! Invariant: what the meter itself uses is not counted, but for the samples that its thread takes, some 0.05 % of a
//! processor.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::measure;

use super::store::Store;

/// Between two looks at memory and latencies.
const PERIOD: Duration = Duration::from_millis(100);
/// An engine is idle after it has used next to no processor time for so long.
const QUIET: Duration = Duration::from_secs(1);
/// Next to none: threads that wake and sleep again.
const QUIET_CPU: Duration = Duration::from_millis(10);

/// What writers or readers tell while they are at it.
#[derive(Debug, Default)]
pub(super) struct Live {
    rows: AtomicU64,
    /// The slowest since the last sample, in nanoseconds.
    slowest: AtomicU64,
}

impl Live {
    pub(super) fn note(&self, rows: u64, took: Duration) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.slowest.fetch_max(nanos(took), Ordering::Relaxed);
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }
}

/// A moment of a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// In seconds since the phase began.
    pub(super) at: f64,
    /// Since the point before.
    pub(super) rows_per_second: f64,
    /// Since the point before.
    pub(super) slowest_ms: f64,
}

/// What a phase cost.
#[derive(Debug, Default)]
pub(super) struct Cost {
    /// Until the threads of the benchmark were done.
    pub(super) elapsed: Duration,
    /// All of it: of the benchmark's threads and of the engine's, until the engine was idle if that was waited for.
    pub(super) cpu: Duration,
    /// Resident, file pages that are mapped included; zero where the system does not say.
    pub(super) peak_memory: u64,
    /// Without file pages.
    pub(super) peak_anonymous: u64,
    /// That the disk was given to write.
    pub(super) written: u64,
    pub(super) idle: Option<Idle>,
    pub(super) series: Vec<Point>,
}

/// How the engine became idle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    /// How long that took, from when the threads of the benchmark were done, the flush included.
    pub(super) after: Duration,
    /// False if the time was up before.
    pub(super) reached: bool,
}

/// Runs the work of a phase and measures it; then, if `store` is given, flushes and waits until it is idle.
pub(super) fn measure<T>(
    live: &Live,
    idle: Option<(&dyn Store, Duration)>,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<(T, Cost)> {
    measure::reset_peak_memory();
    let stop = AtomicBool::new(false);
    let written = measure::written_bytes().unwrap_or(0);
    let (start, cpu) = (Instant::now(), measure::process_cpu_time());
    std::thread::scope(|scope| {
        let sampler = scope.spawn(|| sample(live, &stop, start));
        let result = (|| {
            let result = work()?;
            let elapsed = start.elapsed();
            let mut own = Duration::ZERO;
            let idle = match idle {
                Some((store, most)) => Some(wait_until_idle(store, most, &mut own)?),
                None => None,
            };
            let cpu = measure::process_cpu_time().saturating_sub(cpu).saturating_sub(own);
            anyhow::Ok((result, Cost { elapsed, cpu, idle, ..Cost::default() }))
        })();
        stop.store(true, Ordering::Relaxed);
        sampler.thread().unpark();
        let (series, peak_anonymous) = sampler.join().ok().context("the thread that samples panicked")?;
        let (result, cost) = result?;
        let peak_memory = measure::status_bytes("VmHWM").unwrap_or(0);
        let written = measure::written_bytes().unwrap_or(0).saturating_sub(written);
        Ok((result, Cost { series, peak_memory, peak_anonymous, written, ..cost }))
    })
}

fn sample(live: &Live, stop: &AtomicBool, start: Instant) -> (Vec<Point>, u64) {
    let mut points = Vec::new();
    let mut peak = 0;
    let (mut rows, mut at) = (live.rows(), 0.0);
    loop {
        let is_last = stop.load(Ordering::Relaxed);
        peak = peak.max(measure::status_bytes("RssAnon").unwrap_or(0));
        let (rows_now, now) = (live.rows(), start.elapsed().as_secs_f64());
        let slowest = live.slowest.swap(0, Ordering::Relaxed);
        // Nothing is written while the engine becomes idle.
        if rows_now > rows || slowest > 0 {
            points.push(Point {
                at: now,
                rows_per_second: (rows_now - rows) as f64 / (now - at).max(1e-9),
                slowest_ms: slowest as f64 / 1e6,
            });
        }
        (rows, at) = (rows_now, now);
        if is_last {
            return (points, peak);
        }
        std::thread::park_timeout(PERIOD);
    }
}

/// Flushes, and waits until the engine says that it is idle and the process uses no processor time. Adds the time that
/// asking takes to `own`.
fn wait_until_idle(store: &dyn Store, most: Duration, own: &mut Duration) -> anyhow::Result<Idle> {
    let start = Instant::now();
    store.flush()?;
    let own_before = measure::thread_cpu_time();
    let others = || {
        let own = measure::thread_cpu_time().saturating_sub(own_before);
        (measure::process_cpu_time().saturating_sub(own), own)
    };
    let (mut cpu_before, _) = others();
    let mut quiet_since = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(50));
        let is_idle = store.is_idle()?;
        let cpu;
        (cpu, *own) = others();
        if !is_idle || cpu.saturating_sub(cpu_before) > QUIET_CPU {
            (quiet_since, cpu_before) = (Instant::now(), cpu);
        }
        let reached = quiet_since.elapsed() >= QUIET;
        if reached || start.elapsed() >= most {
            let after = if reached { quiet_since.duration_since(start) } else { start.elapsed() };
            return Ok(Idle { after, reached });
        }
    }
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_measured_and_sampled() {
        let live = Live::default();
        let work = || {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(250) {
                std::hint::black_box(vec![0u8; 1 << 16]);
                live.note(10, Duration::from_micros(7));
            }
            Ok(3)
        };
        let (result, cost) = measure(&live, None, work).expect("no error");
        assert_eq!(result, 3);
        assert!(
            cost.elapsed >= Duration::from_millis(250) && cost.cpu > Duration::from_millis(10),
            "{cost:?}"
        );
        assert!(cost.peak_memory >= cost.peak_anonymous && cost.peak_anonymous > 1 << 16);
        assert!(cost.series.len() >= 2 && cost.series.iter().all(|point| point.slowest_ms <= 0.007));
        assert!(cost.idle.is_none());
        measure(&live, None, || -> anyhow::Result<()> { anyhow::bail!("no") }).expect_err("what work says");
    }
}
