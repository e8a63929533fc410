//! The checksum at the end of `CURRENT`.

use codec::{FileId, Kind, checksum};

/// The text with its last word replaced by the checksum of what is before it.
#[must_use]
pub fn fixed(bytes: &[u8]) -> Vec<u8> {
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let sum_at = body.iter().rposition(|byte| *byte == b' ').map_or(0, |at| at + 1);
    let mut fixed = body[..sum_at].to_vec();
    let sum = checksum(Kind::Current, FileId(0), 0, &[&fixed]).0;
    fixed.extend_from_slice(format!("{sum:08x}\n").as_bytes());
    fixed
}
