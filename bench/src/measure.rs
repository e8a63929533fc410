//! Clocks, memory, medians, and where files go.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Processor time of the calling thread so far, in the program and in the kernel.
pub(crate) fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Processor time of the whole process so far, in the program and in the kernel: all threads, also those that ended.
pub(crate) fn process_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// What a piece of work took on its thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Took {
    pub(crate) cpu: Duration,
    pub(crate) elapsed: Duration,
}

/// Runs `work` and measures it.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Took) {
    let (start, cpu) = (Instant::now(), thread_cpu_time());
    let result = work();
    let took = Took { cpu: thread_cpu_time().saturating_sub(cpu), elapsed: start.elapsed() };
    (result, took)
}

/// Memory of the process that is resident now, in bytes; `None` where the system does not say.
#[expect(clippy::disallowed_methods, reason = "/proc is no file of the engine")]
pub(crate) fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read("/proc/self/statm").ok()?;
    let pages: u64 = std::str::from_utf8(&statm).ok()?.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// A line of `/proc/self/status` that is given in kB, in bytes; `None` where the system does not say.
#[expect(clippy::disallowed_methods, reason = "/proc is no file of the engine")]
pub(crate) fn status_bytes(name: &str) -> Option<u64> {
    let status = String::from_utf8(std::fs::read("/proc/self/status").ok()?).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// From now on the peak of resident memory, `VmHWM`, is what is resident now or later. Nothing happens where the system
/// cannot do that.
#[expect(clippy::disallowed_methods, reason = "/proc is no file of the engine")]
pub(crate) fn reset_peak_memory() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// How many bytes the process had the disk write so far, as the kernel counts them: a page counts when it gets dirty;
/// `None` where the system does not say.
#[expect(clippy::disallowed_methods, reason = "/proc is no file of the engine")]
pub(crate) fn written_bytes() -> Option<u64> {
    let io = String::from_utf8(std::fs::read("/proc/self/io").ok()?).ok()?;
    io.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.trim().parse().ok()
}

/// The middle of some numbers, the upper one of two; 0 of none.
pub(crate) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(0.0)
}

/// `target/bench`, wherever cargo's target folder is.
pub(crate) fn default_folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    target.join("bench")
}

/// How many bytes the files of a folder have together, by their lengths, if `count` wants them.
///
/// Files that vanish while this runs are not counted.
#[expect(clippy::disallowed_methods, reason = "looks at a folder from outside, beside the engine")]
pub(crate) fn folder_bytes(folder: &Path, count: impl Fn(&Path) -> bool) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries
        .filter_map(Result::ok)
        .filter(|entry| count(&entry.path()))
        .filter_map(|entry| entry.metadata().ok())
        .filter(std::fs::Metadata::is_file)
        .map(|metadata| metadata.len())
        .sum()
}

/// How much room the files of a folder and of those in it take on the disk, if `count` wants them: holes take none.
///
/// Files that vanish while this runs are not counted.
#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "looks at a folder from outside, beside the engine")]
pub(crate) fn allocated_bytes(folder: &Path, count: &dyn Fn(&Path) -> bool) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let size = |entry: std::fs::DirEntry| {
        let metadata = entry.metadata().ok()?;
        match metadata.is_dir() {
            true => Some(allocated_bytes(&entry.path(), count)),
            // The unit is 512 bytes, whatever the disk's is.
            false => Some(metadata.blocks() * 512).filter(|_| count(&entry.path())),
        }
    };
    entries.filter_map(Result::ok).filter_map(size).sum()
}

/// Removes a folder with all that is in it, if it is there.
#[expect(clippy::disallowed_methods, reason = "clears away what this program made")]
pub(crate) fn remove_folder(folder: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Makes a folder and what is missing above it.
#[expect(clippy::disallowed_methods, reason = "beside the engine")]
pub(crate) fn make_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)
}

/// Writes a small file.
#[expect(clippy::disallowed_methods, reason = "a report, no file of the engine")]
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    std::fs::write(path, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0]), 4.0);
        assert_eq!(median(Vec::new()), 0.0);
    }

    #[test]
    fn the_system_tells_of_the_process() {
        let peak = status_bytes("VmHWM").expect("a peak");
        assert!(peak > 1 << 20 && status_bytes("RssAnon").expect("memory") <= peak);
        assert_eq!(status_bytes("VmH"), None);
        let (cpu, written) = (process_cpu_time(), written_bytes().expect("it is counted"));
        let folder = tempfile::tempdir().expect("a folder");
        make_folder(&folder.path().join("inner")).expect("a folder");
        write_file(&folder.path().join("inner/file"), &vec![1; 100_000]).expect("a sound disk");
        assert!(process_cpu_time() > cpu && written_bytes().expect("it is counted") >= written);
        assert!(allocated_bytes(folder.path(), &|_| true) < 10 << 20);
        assert_eq!(allocated_bytes(folder.path(), &|_| false), 0);
    }

    #[test]
    fn a_thread_that_works_uses_time() {
        let (sum, took) = timed(|| (0..5_000_000u64).fold(0, |sum, i| std::hint::black_box(sum ^ i)));
        assert!(sum < u64::MAX && !took.cpu.is_zero() && !took.elapsed.is_zero());
    }
}
