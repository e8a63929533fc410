//! What the process has used so far: processor time and memory.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time of all threads, in the program and in the kernel.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The memory that the process has now, in bytes. None where the system does not say.
pub(crate) fn resident_memory() -> Option<u64> {
    status("VmRSS:")
}

/// The most memory that the process had at any time, in bytes. None where the system does not say.
pub(crate) fn peak_memory() -> Option<u64> {
    status("VmHWM:")
}

fn status(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
