//! Rows: how their bytes are laid out, and the handles that read them.
//!
//! Owns the row format ([`RowLayout`], [`RowWriter`]) and the batches that scans and gets answer with. A row's bytes
//! hold the value columns only; the key columns are in the key. Never decides which version of a row is read.

mod batch;
mod display;
mod fixed;
mod handle;
mod layout;
mod projection;
mod reading;
#[cfg(test)]
pub(crate) mod tests;
mod translation;
mod writer;

pub(crate) use batch::RowBatchBuilder;
pub use batch::{RowBatch, RowRefs};
pub(crate) use display::{show_key, write_row};
pub(crate) use fixed::decode_value;
pub use handle::{ColumnRef, Row, RowRef};
pub use layout::ROW_BYTES_MAX;
pub(crate) use layout::RowLayout;
pub use projection::Projection;
pub(crate) use reading::{ReadSchema, Translator, column_is_gone};
pub(crate) use writer::RowWriter;
