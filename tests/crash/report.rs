//! What a child tells its parent, through the pipe that is the child's standard error.
//!
//! One message is one write, so that messages of several threads do not mix: a write to a pipe of up to 4,096 bytes is
//! atomic. What is not a message is text: a panic of the child, most likely.
//!
//! ```text
//! mark a5 | kind u8 | bytes u16 | payload
//! ```

use std::fs::File;
use std::io::Write;
use std::sync::OnceLock;

const MARK: u8 = 0xa5;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The child calls `Engine::open` next.
    Opening,
    /// The thread's own table was found.
    Own { thread: u8 },
    /// Part of the rows that were found, see `child::encode_found`.
    Found(Vec<u8>),
    /// All that was found was told; the work begins. The visible version, operations that were replayed, and the ticket
    /// of the last commit that was found.
    Ready { version: u64, replayed: u64, torn: bool, recovered: u64 },
    /// A thread begins a step.
    Intent { thread: u8, step: u32 },
    /// The step was acknowledged with this outcome. The version is visible, the first ticket is committed, the second
    /// durable.
    Done { thread: u8, step: u32, outcome: u8, version: u64, committed: u64, durable: u64 },
    /// Something is wrong. The child ends.
    Wrong(String),
    /// A call failed, as it may when the disk fails.
    Failed(String),
    /// How many flushes and compactions there were in this life.
    Work { flushes: u64, compactions: u64 },
}

/// The end that the child writes to.
fn pipe() -> &'static File {
    static PIPE: OnceLock<File> = OnceLock::new();
    PIPE.get_or_init(|| File::options().write(true).open("/dev/stderr").expect("the pipe of the parent"))
}

/// Tells the parent. If the parent is gone, so is the child.
pub(crate) fn tell(message: &Message) {
    let mut payload = Vec::new();
    let kind = match message {
        Message::Opening => 0,
        Message::Found(bytes) => {
            payload.extend_from_slice(bytes);
            1
        }
        Message::Ready { version, replayed, torn, recovered } => {
            payload.extend_from_slice(&version.to_le_bytes());
            payload.extend_from_slice(&replayed.to_le_bytes());
            payload.push(u8::from(*torn));
            payload.extend_from_slice(&recovered.to_le_bytes());
            2
        }
        Message::Intent { thread, step } => {
            payload.push(*thread);
            payload.extend_from_slice(&step.to_le_bytes());
            3
        }
        Message::Done { thread, step, outcome, version, committed, durable } => {
            payload.push(*thread);
            payload.extend_from_slice(&step.to_le_bytes());
            payload.push(*outcome);
            for number in [version, committed, durable] {
                payload.extend_from_slice(&number.to_le_bytes());
            }
            4
        }
        Message::Wrong(text) => {
            payload.extend_from_slice(&text.as_bytes()[..text.len().min(4000)]);
            5
        }
        Message::Own { thread } => {
            payload.push(*thread);
            6
        }
        Message::Failed(text) => {
            payload.extend_from_slice(&text.as_bytes()[..text.len().min(4000)]);
            7
        }
        Message::Work { flushes, compactions } => {
            payload.extend_from_slice(&flushes.to_le_bytes());
            payload.extend_from_slice(&compactions.to_le_bytes());
            8
        }
    };
    let bytes = u16::try_from(payload.len()).expect("messages are small");
    assert!(payload.len() + 4 <= 4096, "larger writes are not atomic");
    let mut frame = vec![MARK, kind];
    frame.extend_from_slice(&bytes.to_le_bytes());
    frame.extend_from_slice(&payload);
    if pipe().write_all(&frame).is_err() {
        std::process::exit(3);
    }
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a whole payload")
}

/// Takes the next message off the front of `bytes`. `None` if there is no whole one.
///
/// # Errors
/// The text that stands there instead.
pub(crate) fn take(bytes: &mut &[u8]) -> Result<Option<Message>, String> {
    if bytes.first().is_some_and(|first| *first != MARK) {
        return Err(String::from_utf8_lossy(bytes).into_owned());
    }
    if bytes.len() < 4 {
        return Ok(None);
    }
    let payload_bytes = usize::from(u16::from_le_bytes(number(bytes, 2)));
    let Some(payload) = bytes.get(4..4 + payload_bytes) else { return Ok(None) };
    let message = match bytes[1] {
        0 => Message::Opening,
        1 => Message::Found(payload.to_vec()),
        2 => Message::Ready {
            version: u64::from_le_bytes(number(payload, 0)),
            replayed: u64::from_le_bytes(number(payload, 8)),
            torn: payload[16] == 1,
            recovered: u64::from_le_bytes(number(payload, 17)),
        },
        3 => Message::Intent { thread: payload[0], step: u32::from_le_bytes(number(payload, 1)) },
        4 => Message::Done {
            thread: payload[0],
            step: u32::from_le_bytes(number(payload, 1)),
            outcome: payload[5],
            version: u64::from_le_bytes(number(payload, 6)),
            committed: u64::from_le_bytes(number(payload, 14)),
            durable: u64::from_le_bytes(number(payload, 22)),
        },
        5 => Message::Wrong(String::from_utf8_lossy(payload).into_owned()),
        6 => Message::Own { thread: payload[0] },
        7 => Message::Failed(String::from_utf8_lossy(payload).into_owned()),
        8 => Message::Work {
            flushes: u64::from_le_bytes(number(payload, 0)),
            compactions: u64::from_le_bytes(number(payload, 8)),
        },
        kind => return Err(format!("a message of the unknown kind {kind}")),
    };
    *bytes = &bytes[4 + payload_bytes..];
    Ok(Some(message))
}

#[test]
fn messages_are_read_as_they_were_told() {
    // `tell` writes to the pipe; here the layout of the one with the most parts is checked.
    let numbers = [3_u64, 4, 5].map(u64::to_le_bytes).concat();
    let frame = [&[MARK, 4, 30, 0, 7, 1, 0, 0, 0, 2][..], &numbers].concat();
    let mut frame = frame.as_slice();
    let done = Message::Done { thread: 7, step: 1, outcome: 2, version: 3, committed: 4, durable: 5 };
    assert_eq!(take(&mut frame), Ok(Some(done)));
    assert_eq!(take(&mut frame), Ok(None));
    assert_eq!(take(&mut &[MARK, 3, 5, 0, 1][..]), Ok(None));
    assert!(take(&mut &b"thread panicked"[..]).is_err());
}
