//! Real file systems of a test's own: an ext4 on a loop device whose power can be cut, a tmpfs that can be full.
//!
//! All of it happens in a mount namespace of its own: the test runs this binary again under `unshare`. When the last
//! process in there ends, however it ends, the kernel takes the mounts away, and with them the loop devices, which are
//! made to go with their mounts.
//!
//! The power is cut with ext4's shutdown ioctl: from that moment on nothing reaches the device any more, and what the
//! page cache or the journal in memory held is gone. `perl` or `python3` calls it, whichever there is, so that
//! no unsafe code is needed here.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Says in which of its own mount namespaces a test runs.
const INSIDE: &str = "NYALA_CRASH_MOUNTS";

/// Says something that is seen although the test passes.
fn aloud(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Whether a command runs and ends well.
fn works(command: &str, arguments: &[&str]) -> bool {
    let status = Command::new(command)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// Runs a command that must end well.
fn run(command: &str, arguments: &[&str]) {
    let output = Command::new(command).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{command} does not run: {error}"));
    assert!(
        output.status.success(),
        "{command} {arguments:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the paths of tests are text")
}

/// Whether the test `name` runs in a mount namespace of its own, and may mount. If not, it is run again in one, and
/// there is nothing left to do; or it is skipped, aloud, where that is not possible.
///
/// # Panics
/// If the test fails in there.
pub(crate) fn are_our_own(name: &str) -> bool {
    if std::env::var(INSIDE).is_ok_and(|inside| inside == name) {
        return true;
    }
    if !works("unshare", &["--mount", "mount", "-t", "tmpfs", "nyala", "/mnt"]) {
        aloud(&format!("SKIPPED: {name} needs root (to mount file systems) and util-linux"));
        return false;
    }
    let exe = std::env::current_exe().expect("this binary");
    let status = Command::new("unshare")
        .args(["--mount", "--propagation", "private", text(&exe), "--exact", name])
        .args(["--nocapture", "--test-threads=1"])
        .env(INSIDE, name)
        .status()
        .expect("it has just worked");
    assert!(status.success(), "{name} failed in its own mount namespace: {status}");
    false
}

/// Something that is mounted, until this is dropped.
#[derive(Debug)]
struct Mounted(PathBuf);

impl Mounted {
    fn unmount(self) {
        let path = self.0.clone();
        std::mem::forget(self);
        // A child that was just killed may hold it for a moment longer.
        for _ in 0..200 {
            if works("umount", &[text(&path)]) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        run("umount", &[text(&path)]);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        works("umount", &["--lazy", text(&self.0)]);
    }
}

/// A tmpfs of so many bytes on `at`, which is made.
pub(crate) struct Tmpfs(#[expect(dead_code, reason = "held for its end")] Mounted);

impl Tmpfs {
    pub(crate) fn mount(at: &Path, bytes: u64) -> Tmpfs {
        std::fs::create_dir_all(at).expect("a directory to mount on");
        run("mount", &["-t", "tmpfs", "-o", &format!("size={bytes}"), "nyala", text(at)]);
        Tmpfs(Mounted(at.to_owned()))
    }
}

/// An ext4 in a file, on a loop device.
pub(crate) struct Ext4 {
    image: PathBuf,
    at: PathBuf,
    mounted: Option<Mounted>,
}

impl Ext4 {
    /// Makes one of `megabytes` in the directory `dir`, which is mounted nowhere yet. `None`, with a word to the user,
    /// where that does not work.
    pub(crate) fn make(dir: &Path, megabytes: u64) -> Option<Ext4> {
        let (image, at) = (dir.join("disk.img"), dir.join("disk"));
        std::fs::create_dir_all(&at).expect("a directory to mount on");
        let file = std::fs::File::create(&image).expect("an image");
        file.set_len(megabytes << 20).expect("a sparse file");
        let journal = ["-q", "-F", "-m", "0", "-J", "size=4", "-E", "lazy_itable_init=0"];
        if !works("mkfs.ext4", &[&journal[..], &[text(&image)]].concat()) {
            aloud("SKIPPED: power cuts need mkfs.ext4");
            return None;
        }
        let mut disk = Ext4 { image, at, mounted: None };
        if !works("mount", &["-o", "loop", text(&disk.image), text(&disk.at)]) {
            aloud("SKIPPED: power cuts need loop devices and an ext4 in the kernel");
            return None;
        }
        disk.mounted = Some(Mounted(disk.at.clone()));
        if Shutdown::prepare(&disk.at, Journal::Lost).is_none() {
            aloud("SKIPPED: power cuts need perl or python3, to call the shutdown ioctl");
            return None;
        }
        disk.unmount();
        Some(disk)
    }

    /// Mounts it, as after the power is back: the journal is replayed.
    pub(crate) fn mount(&mut self, data: &str) {
        run("mount", &["-o", &format!("loop,data={data}"), text(&self.image), text(&self.at)]);
        self.mounted = Some(Mounted(self.at.clone()));
    }

    pub(crate) fn unmount(&mut self) {
        if let Some(mounted) = self.mounted.take() {
            mounted.unmount();
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.at
    }
}

/// What becomes of the journal that is still in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Journal {
    Lost,
    /// It still reaches the device, without the data that it speaks of.
    Written,
}

/// A process that is ready to cut the power of a file system, and waits for the word.
pub(crate) struct Shutdown(Child);

impl Shutdown {
    /// `None` if nothing here can call the ioctl.
    pub(crate) fn prepare(at: &Path, journal: Journal) -> Option<Shutdown> {
        // EXT4_IOC_SHUTDOWN, _IOR('X', 125, __u32), with the flags LOGFLUSH and NOLOGFLUSH.
        let flags = match journal {
            Journal::Lost => "2",
            Journal::Written => "1",
        };
        let perl = "open(my $dir, '<', $ARGV[0]) or die; my $flags = pack('L', $ARGV[1]); defined(<STDIN>) or exit; \
                    ioctl($dir, 0x8004587d, $flags) or die $!;";
        let python = "import fcntl, os, struct, sys; dir = os.open(sys.argv[1], os.O_RDONLY); \
                      flags = struct.pack('I', int(sys.argv[2])); sys.stdin.readline() and \
                      fcntl.ioctl(dir, 0x8004587d, flags)";
        let ways: [(&str, Vec<&str>); 2] =
            [("perl", vec!["-e", perl, text(at), flags]), ("python3", vec!["-c", python, text(at), flags])];
        let (command, arguments) = ways.into_iter().find(|(command, _)| works(command, &["--version"]))?;
        let child = Command::new(command).args(arguments).stdin(Stdio::piped()).spawn().ok()?;
        Some(Shutdown(child))
    }

    /// Cuts the power, now.
    pub(crate) fn now(mut self) {
        let mut word = self.0.stdin.take().expect("piped");
        word.write_all(b"now\n").expect("it waits");
        drop(word);
        let status = self.0.wait().expect("it is ours");
        assert!(status.success(), "the shutdown ioctl failed: {status}");
    }
}

impl Drop for Shutdown {
    fn drop(&mut self) {
        // It holds the directory open until its input ends.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
