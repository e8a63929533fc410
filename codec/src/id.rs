//! Newtypes for the numbers that name things, so that none is taken for another.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id! {
    /// The number of one operation in the order of all. Greater is later; 0 is before every operation.
    Version(u64)
}
id! {
    /// The number in a file's name. One counter serves all kinds of files, and no number is used twice.
    FileId(u64)
}
id! {
    /// A table, for its whole life. Never reused.
    TableId(u32)
}
id! {
    /// A part of a table with memtables, runs and rowsets of its own. Never reused.
    TabletId(u32)
}
id! {
    /// A file of rows: its `FileId`, which is kept below 2^32. Never reused.
    RowsetId(u32)
}
id! {
    /// The ordinal of a row in its rowset.
    RowId(u32)
}
id! {
    /// A column of a table, for its whole life. Never reused within the table.
    ColumnId(u32)
}
id! {
    /// Which schema of its table a row was written with. The first is 1.
    SchemaVersion(u32)
}

impl Version {
    /// Above every version that is ever given out.
    pub const MAX: Version = Version(u64::MAX);

    /// The version after this one; of the greatest number that same one.
    #[must_use]
    pub fn next(self) -> Version {
        Version(self.0.saturating_add(1))
    }
}

impl From<u64> for Version {
    fn from(number: u64) -> Version {
        Version(number)
    }
}

impl From<Version> for u64 {
    fn from(version: Version) -> u64 {
        version.0
    }
}

impl From<RowsetId> for FileId {
    fn from(id: RowsetId) -> FileId {
        FileId(u64::from(id.0))
    }
}

/// Where a row lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    /// The file.
    pub rowset: RowsetId,
    /// The ordinal in it.
    pub rowid: RowId,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {} of rowset {}", self.rowid, self.rowset)
    }
}
