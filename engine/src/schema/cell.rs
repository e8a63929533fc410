//! The schema of a table that is in force, shared by all handles of the table.
//!
//! A handle keeps the schema that it was opened with, whatever becomes of the table, so that a tuple means for ever
//! what it meant when it was written down. What it needs to know beside is in this cell: how newer rows are laid out,
//! and which of its columns are no more.
//!
//! Invariant: it is replaced under the commit's stage, after the manifest names the new schema. So a leader that looks
//! here sees what holds for its whole group, and no row is logged with a schema that the manifest does not know.
//!
//! Lock order: a leaf; held to clone or to swap a pointer. Whoever only asks whether something changed takes no lock.

use super::Schema;
use codec::SchemaVersion;
use std::sync::Arc;
use sync::RwLock;
use sync::atomic::{AtomicU32, Ordering};

#[derive(Debug)]
pub(crate) struct SchemaCell {
    newest: RwLock<Arc<Schema>>,
    version: AtomicU32,
    last_drop: AtomicU32,
}

impl SchemaCell {
    pub(crate) fn new(schema: Arc<Schema>) -> SchemaCell {
        SchemaCell {
            version: AtomicU32::new(schema.version().0),
            last_drop: AtomicU32::new(schema.last_drop().0),
            newest: RwLock::new(schema),
        }
    }

    /// The schema in force.
    pub(crate) fn newest(&self) -> Arc<Schema> {
        Arc::clone(&self.newest.read())
    }

    /// Its version.
    pub(crate) fn version(&self) -> SchemaVersion {
        SchemaVersion(self.version.load(Ordering::Acquire))
    }

    /// Whether a column was dropped since that version. It may still be one that came after it.
    #[inline]
    pub(crate) fn has_dropped_since(&self, version: SchemaVersion) -> bool {
        self.last_drop.load(Ordering::Acquire) > version.0
    }

    /// Puts the next schema in force. Call with the commit's stage.
    pub(crate) fn replace(&self, schema: Arc<Schema>) {
        let mut newest = self.newest.write();
        // The schema first: who sees the numbers finds it.
        let (version, last_drop) = (schema.version(), schema.last_drop());
        *newest = schema;
        self.version.store(version.0, Ordering::Release);
        self.last_drop.store(last_drop.0, Ordering::Release);
    }
}
