//! An entry of the index: what one version of a key says about where the key's row lies.

use codec::{Location, Version};

/// What a version says of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The row lies here.
    At(Location),
    /// The key was deleted.
    Deleted,
}

/// One version of a key.
///
/// The entries of one key form a list: newest first, no two of the same version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The operation that made it. Never `Version(0)`.
    pub version: Version,
    /// What the operation left behind.
    pub place: Place,
}

impl Entry {
    /// A row at `location`.
    #[must_use]
    pub fn put(version: Version, location: Location) -> Entry {
        Entry { version, place: Place::At(location) }
    }

    /// A deletion.
    #[must_use]
    pub fn deletion(version: Version) -> Entry {
        Entry { version, place: Place::Deleted }
    }

    /// Whether it is a deletion.
    #[must_use]
    #[inline]
    pub fn is_deletion(&self) -> bool {
        matches!(self.place, Place::Deleted)
    }

    /// Where its row lies; `None` for a deletion.
    #[must_use]
    #[inline]
    pub fn location(&self) -> Option<Location> {
        match self.place {
            Place::At(location) => Some(location),
            Place::Deleted => None,
        }
    }
}
