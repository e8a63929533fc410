//! Whole transfers out of calls that may be short or interrupted.
//!
//! The real and the simulated disk go through these same loops, so that what the simulated one makes short tries what
//! the real one relies on. Knows no file: the call is handed in, and its errors are handed back bare.

use std::io;

/// Fills `buf` from `offset` on by as many calls of `read` as it takes.
pub(crate) fn read_exact(
    buf: &mut [u8],
    offset: u64,
    mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<()> {
    let mut done = 0;
    loop {
        match read(&mut buf[done..], offset + done as u64) {
            Ok(len) if done + len == buf.len() => return Ok(()),
            // Only a call that gives nothing at all says that there is no more.
            Ok(0) => {
                let text = format!("the file ends at or before {}", offset + done as u64);
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
            Ok(len) => done += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Writes what one call of `write` takes of `buf`, at least something. A call that was interrupted has taken nothing.
pub(crate) fn write_once(
    buf: &[u8],
    offset: u64,
    mut write: impl FnMut(&[u8], u64) -> io::Result<usize>,
) -> io::Result<usize> {
    loop {
        match write(buf, offset) {
            Ok(0) if !buf.is_empty() => return Err(io::ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Writes all of `buf` at `offset` by as many calls of `write` as it takes, each of which takes something.
pub(crate) fn write_all(
    buf: &[u8],
    offset: u64,
    mut write: impl FnMut(&[u8], u64) -> io::Result<usize>,
) -> io::Result<()> {
    let mut done = 0;
    loop {
        match write(&buf[done..], offset + done as u64) {
            Ok(len) if done + len == buf.len() => return Ok(()),
            Ok(len) => done += len,
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    /// Answers of the system, in turn: so many bytes, or an error.
    fn answers<const N: usize>(list: [Result<usize, ErrorKind>; N]) -> impl FnMut() -> io::Result<usize> {
        let mut list = list.into_iter();
        move || list.next().expect("no more calls than answers").map_err(io::Error::from)
    }

    #[test]
    fn short_and_interrupted_reads_are_gone_on_with() {
        let mut next = answers([Ok(1), Err(ErrorKind::Interrupted), Ok(2), Ok(3)]);
        let mut buf = [0; 6];
        let mut at = Vec::new();
        read_exact(&mut buf, 10, |part, offset| {
            at.push(offset);
            let len = next()?;
            part[..len].fill(at.len() as u8);
            Ok(len)
        })
        .unwrap();
        assert_eq!((buf, at), ([1, 3, 3, 4, 4, 4], vec![10, 11, 11, 13]));
    }

    #[test]
    fn a_read_ends_at_the_first_call_that_gives_nothing_or_fails() {
        for (last, kind) in [(Ok(0), ErrorKind::UnexpectedEof), (Err(ErrorKind::Other), ErrorKind::Other)] {
            let mut next = answers([Ok(2), last]);
            assert_eq!(read_exact(&mut [0; 6], 0, |_, _| next()).unwrap_err().kind(), kind);
        }
    }

    #[test]
    fn short_writes_are_gone_on_with() {
        let mut next = answers([Ok(4), Ok(1), Ok(1)]);
        let mut written = Vec::new();
        write_all(b"abcdef", 10, |part, offset| {
            let len = next()?;
            written.push((offset, part[..len].to_vec()));
            Ok(len)
        })
        .unwrap();
        assert_eq!(written, [(10, b"abcd".to_vec()), (14, b"e".to_vec()), (15, b"f".to_vec())]);
    }

    #[test]
    fn one_write_is_repeated_if_it_was_interrupted_and_not_if_it_was_short() {
        let mut next = answers([Err(ErrorKind::Interrupted), Err(ErrorKind::Interrupted), Ok(4)]);
        assert_eq!(write_once(b"abcdef", 10, |_, _| next()).unwrap(), 4);
        let mut next = answers([Err(ErrorKind::StorageFull)]);
        assert_eq!(write_once(b"abcdef", 10, |_, _| next()).unwrap_err().kind(), ErrorKind::StorageFull);
    }

    #[test]
    fn a_write_ends_at_the_first_call_that_takes_nothing_or_fails() {
        for (last, kind) in [(Ok(0), ErrorKind::WriteZero), (Err(ErrorKind::Other), ErrorKind::Other)] {
            let mut next = answers([Ok(2), last]);
            let write = |_: &[u8], _| write_once(&[0; 4], 0, |_, _| next());
            assert_eq!(write_all(&[0; 6], 0, write).unwrap_err().kind(), kind);
        }
    }
}
