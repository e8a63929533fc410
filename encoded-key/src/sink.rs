//! Where encoded bytes go: the tail of something that grows. Lets one encoder write to the heap and to an arena.

/// Bytes that grow at their end.
pub(crate) trait Sink {
    /// How many bytes there are.
    fn len(&self) -> usize;
    /// Makes room for `additional` more.
    fn reserve(&mut self, additional: usize);
    /// Appends.
    fn extend(&mut self, bytes: &[u8]);
    /// Cuts back to `len` bytes.
    fn truncate(&mut self, len: usize);
    /// All of them.
    fn bytes_mut(&mut self) -> &mut [u8];
}

impl Sink for Vec<u8> {
    #[inline]
    fn len(&self) -> usize {
        self.len()
    }

    #[inline]
    fn reserve(&mut self, additional: usize) {
        self.reserve(additional);
    }

    #[inline]
    fn extend(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    #[inline]
    fn truncate(&mut self, len: usize) {
        self.truncate(len);
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl Sink for bumpalo::collections::Vec<'_, u8> {
    #[inline]
    fn len(&self) -> usize {
        (**self).len()
    }

    #[inline]
    fn reserve(&mut self, additional: usize) {
        self.reserve(additional);
    }

    #[inline]
    fn extend(&mut self, bytes: &[u8]) {
        self.extend_from_slice_copy(bytes);
    }

    #[inline]
    fn truncate(&mut self, len: usize) {
        self.truncate(len);
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}
