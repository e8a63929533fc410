//! LEB128 varints, the same bytes as protobuf's. Reading one is [`crate::Reader::varint`].

/// The longest varint of a `u64`.
pub const VARINT_BYTES_MAX: usize = 10;

/// Appends `value`, seven bits a byte, lowest first.
///
/// ```
/// let mut bytes = Vec::new();
/// nyala_codec::put_varint(&mut bytes, 300);
/// assert_eq!(bytes, [0xac, 0x02]);
/// ```
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// How many bytes [`put_varint`] appends.
#[must_use]
#[inline]
pub fn varint_len(value: u64) -> usize {
    ((64 - (value | 1).leading_zeros()) as usize).div_ceil(7)
}
