//! The body of a log record: the operations of a batch.
//!
//! Input: the bytes.
//!
//! Asked: what decodes is what encoding the operations gives, to the byte.

use nyala::fuzzing;

use crate::Verdict;

/// Reads an input.
pub fn run(data: &[u8]) -> Verdict {
    let decoded = fuzzing::decode_batch(data);
    if let Ok(ops) = &decoded {
        assert_eq!(fuzzing::encode_batch(ops), data, "there is one form for a batch");
        assert!(ops.iter().all(|op| op.kind != 2 || op.row.is_empty()), "a delete has no row");
    }
    Verdict::of(&decoded)
}
