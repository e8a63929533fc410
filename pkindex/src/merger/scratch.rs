//! Buffers that are kept from key to key.

/// Empties a buffer for the next use and keeps its memory, except for what an outlier left behind: a buffer that
/// outgrew `kept` elements shrinks to that many once its last use took a quarter of them or less.
#[inline]
pub(crate) fn recycle<T>(buffer: &mut Vec<T>, kept: usize) {
    let used = buffer.len();
    buffer.clear();
    if buffer.capacity() > kept && used <= kept / 4 {
        buffer.shrink_to(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::recycle;

    #[test]
    fn memory_is_kept_except_that_of_an_outlier() {
        let mut buffer = Vec::with_capacity(100);
        buffer.resize(60, 0u8);
        recycle(&mut buffer, 128);
        assert!(buffer.is_empty() && buffer.capacity() >= 100);
        buffer.resize(10_000, 0);
        recycle(&mut buffer, 128);
        assert!(buffer.capacity() >= 10_000, "the next may be as long");
        buffer.resize(3, 0);
        recycle(&mut buffer, 128);
        assert!((128..1000).contains(&buffer.capacity()));
    }
}
