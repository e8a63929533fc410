//! The engines, each behind its feature.

#[cfg(feature = "fjall")]
pub(super) mod fjall;
#[cfg(feature = "lmdb")]
pub(super) mod lmdb;
pub(super) mod nyala;
#[cfg(feature = "redb")]
pub(super) mod redb;
#[cfg(feature = "rocksdb")]
pub(super) mod rocksdb;
#[cfg(feature = "sqlite")]
pub(super) mod sqlite;

#[cfg(test)]
mod tests;
