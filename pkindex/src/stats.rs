//! What a compaction did, in numbers.

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionStats {
    /// Keys merged, each counted once.
    pub keys: u64,
    /// Keys among them whose bytes passed undecoded.
    pub keys_passed: u64,
    /// Entries read. Files that moved whole are not read.
    pub entries_in: u64,
    /// Entries written.
    pub entries_out: u64,
    /// Entries left out: `entries_in` is `entries_out` and these.
    pub entries_dropped: u64,
    /// Entries whose rows were moved.
    pub entries_moved: u64,
    /// Bytes of the files that were merged.
    pub bytes_in: u64,
    /// Bytes of the files that were written.
    pub bytes_out: u64,
    /// Files that were merged.
    pub files_in: u64,
    /// Files that were written.
    pub files_out: u64,
    /// Files that moved whole.
    pub files_reused: u64,
    /// Slices that the work was cut into.
    pub slices: u64,
}
