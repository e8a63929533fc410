//! Starts children, reads what they tell, and kills them.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::report::{Message, take};

/// Says to the child what it is.
pub(crate) const ROLE: &str = "NYALA_CRASH_CHILD";
/// A child that says nothing for so long hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// A number from the environment.
pub(crate) fn environment(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

/// A temporary directory, kept after a failure if the environment says so.
pub(crate) struct Directory(Option<tempfile::TempDir>);

impl Directory {
    pub(crate) fn new() -> Directory {
        Directory(Some(tempfile::tempdir().expect("a directory")))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.as_ref().expect("kept only in the end").path()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if std::thread::panicking() && environment("NYALA_CRASH_KEEP").is_some() {
            let kept = self.0.take().expect("kept only in the end").keep();
            eprintln!("the directory is kept: {}", kept.display());
        }
    }
}

/// A child process, killed at the latest when this is dropped.
pub(crate) struct Process {
    child: Child,
    messages: Receiver<Result<Message, String>>,
    reader: Option<JoinHandle<()>>,
    told: Vec<Message>,
}

impl Process {
    /// Starts this binary again, in a role, on a directory.
    pub(crate) fn start(role: &str, dir: &Path) -> Process {
        Process::start_under(&[], role, dir)
    }

    /// The same, by a command that runs the command that follows it.
    pub(crate) fn start_under(runner: &[&str], role: &str, dir: &Path) -> Process {
        let exe = std::env::current_exe().expect("this binary");
        let mut command = match runner.split_first() {
            Some((first, others)) => {
                let mut command = Command::new(first);
                command.args(others).arg(exe);
                command
            }
            None => Command::new(exe),
        };
        let mut child = command
            .args(["--exact", "child::runs_as_a_child_only", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env("NYALA_CRASH_DIR", dir)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a second process of this binary");
        let mut pipe = child.stderr.take().expect("piped");
        let (sender, messages) = channel();
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let mut part = vec![0; 64 << 10];
            loop {
                let read = pipe.read(&mut part).unwrap_or(0);
                bytes.extend_from_slice(&part[..read]);
                let mut rest = &bytes[..];
                loop {
                    match take(&mut rest) {
                        Ok(Some(message)) => drop(sender.send(Ok(message))),
                        Ok(None) => break,
                        // Text: all of it is told at the end.
                        Err(text) if read == 0 => {
                            let _ = sender.send(Err(text));
                            return;
                        }
                        Err(_) => break,
                    }
                }
                let used = bytes.len() - rest.len();
                bytes.drain(..used);
                if read == 0 {
                    return;
                }
            }
        });
        Process { child, messages, reader: Some(reader), told: Vec::new() }
    }

    /// Waits for a message that `is_it`, at most until `deadline`.
    ///
    /// # Panics
    /// If the child says that something is wrong, or ends by itself.
    pub(crate) fn wait_until(&mut self, deadline: Option<Instant>, is_it: impl Fn(&Message) -> bool) -> bool {
        loop {
            let patience = deadline.map_or(PATIENCE, |at| at.saturating_duration_since(Instant::now()));
            match self.messages.recv_timeout(patience) {
                Ok(message) => {
                    let found = message.as_ref().is_ok_and(&is_it);
                    self.note(message);
                    if found {
                        return true;
                    }
                }
                Err(RecvTimeoutError::Timeout) if deadline.is_some() => return false,
                Err(RecvTimeoutError::Timeout) => panic!("the child hangs: it said nothing for {PATIENCE:?}"),
                Err(RecvTimeoutError::Disconnected) => panic!("the child ended by itself"),
            }
        }
    }

    /// All that it has told so far.
    pub(crate) fn told(&self) -> &[Message] {
        &self.told
    }

    /// Waits until it ends by itself, and gives all that it told.
    ///
    /// # Panics
    /// If it does not end.
    pub(crate) fn wait_for_its_end(mut self) -> Vec<Message> {
        loop {
            match self.messages.recv_timeout(PATIENCE) {
                Ok(message) => self.note(message),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the child hangs, after {:?}", self.told.last()),
            }
        }
        self.child.wait().expect("it is ours");
        std::mem::take(&mut self.told)
    }

    fn note(&mut self, message: Result<Message, String>) {
        match message {
            Ok(Message::Wrong(text)) => panic!("the child found: {text}"),
            Ok(message) => self.told.push(message),
            Err(text) => panic!("the child ended with: {text}"),
        }
    }

    /// Kills it at once and gives all that it told, up to its last moment.
    pub(crate) fn kill(mut self) -> Vec<Message> {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it is ours");
        self.reader.take().expect("one reader").join().expect("it does not panic");
        while let Ok(message) = self.messages.try_recv() {
            self.note(message);
        }
        std::mem::take(&mut self.told)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail if it is dead already, as it should be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
