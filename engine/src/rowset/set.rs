//! The rowsets of a view, found by their number.

use std::sync::Arc;

use codec::RowsetId;

use super::Rowset;

/// An immutable set of rowsets. A changed set is a new one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rowsets {
    /// Ascending; beside `rowsets`, so that a search touches few cache lines.
    ids: Vec<RowsetId>,
    rowsets: Vec<Arc<Rowset>>,
}

impl Rowsets {
    /// The set of `rowsets`, in whatever order they come.
    ///
    /// # Panics
    /// If two have the same number: numbers are never used twice.
    pub(crate) fn new(mut rowsets: Vec<Arc<Rowset>>) -> Rowsets {
        rowsets.sort_unstable_by_key(|rowset| rowset.id());
        let ids: Vec<RowsetId> = rowsets.iter().map(|rowset| rowset.id()).collect();
        assert!(ids.is_sorted_by(|a, b| a < b), "a rowset number stands for one rowset");
        Rowsets { ids, rowsets }
    }

    /// This set without the `removed` ones and with the `added` ones.
    pub(crate) fn with(&self, removed: &[RowsetId], added: impl IntoIterator<Item = Arc<Rowset>>) -> Rowsets {
        let kept = self.rowsets.iter().filter(|rowset| !removed.contains(&rowset.id())).cloned();
        Rowsets::new(kept.chain(added).collect())
    }

    /// The rowset of that number.
    #[inline]
    pub(crate) fn get(&self, id: RowsetId) -> Option<&Arc<Rowset>> {
        self.ids.binary_search(&id).ok().map(|at| &self.rowsets[at])
    }

    /// All, by number.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Rowset>> {
        self.rowsets.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.rowsets.len()
    }
}
