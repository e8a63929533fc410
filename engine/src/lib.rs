//! Nyala: an embedded storage engine for tables with a primary key.
//!
//! A program links it, calls [`Engine::open`], and has crash-safe typed tables with composite primary keys that take
//! millions of upserts a minute and answer point reads and ordered scans at the same time.
//!
//! ```
//! # fn main() -> Result<(), nyala::Error> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path();
//! use nyala::{Durability, Engine, Options, Schema, Timestamp, Type};
//!
//! let engine = Engine::open(path, Options::default())?;
//! let metrics = engine.open_or_create_table(
//!     "metrics",
//!     Schema::builder()
//!         .key("host", Type::U32)
//!         .key("time", Type::Timestamp)
//!         .key("metric", Type::String)
//!         .column("value", Type::F64)
//!         .column("note", Type::String.nullable())
//!         .build()?,
//! )?;
//!
//! let t = Timestamp::now();
//! metrics.upsert((17, t, "cpu", 0.93, None::<&str>))?;
//! metrics.update((17, t, "cpu")).set("note", "peak").apply()?;
//!
//! let mut batch = engine.batch();
//! batch.upsert(&metrics, (17, t, "mem", 0.5, None::<&str>))?;
//! batch.delete(&metrics, (18, t, "cpu"))?;
//! batch.commit(Durability::Sync)?;
//!
//! let row = metrics.get((17, t, "cpu"))?;
//! let value: f64 = row.expect("just written").get("value")?;
//! assert_eq!(value, 0.93);
//!
//! let snapshot = engine.snapshot();
//! for row in metrics.scan().prefix((17,)).columns(["metric", "value"]).limit(100).at(&snapshot).rows()? {
//!     println!("{:?}", row?);
//! }
//! # Ok(()) }
//! ```
//!
//! A struct can be a row, too: see [`derive(Record)`](macro@Record).
//!
//! # What is where
//!
//! | to | use |
//! |---|---|
//! | open, copy, check, close a database | [`Engine`], [`Options`]; [`repair()`] of a damaged one |
//! | make, find, rename, drop a table | [`Engine::open_or_create_table`], [`existing_table`](Engine::existing_table), [`rename_table`](Engine::rename_table), [`drop_table`](Engine::drop_table) |
//! | say what a table's columns are | [`Schema::of`] a struct, or [`Schema::builder`]; [`Table::alter`] changes them |
//! | write a row | [`Table::upsert`], [`insert`](Table::insert), [`update`](Table::update), [`delete`](Table::delete) |
//! | read and write a row in one step | [`Table::insert_or_get`], [`update_with`](Table::update_with), [`delete_returning`](Table::delete_returning), [`compare_and_set`](Table::compare_and_set) |
//! | write many rows, all or none | [`WriteBatch`] |
//! | read by key | [`Table::get`], [`multi_get`](Table::multi_get), [`exists`](Table::exists) |
//! | read in order | [`Table::scan`]: a [`Scan`] with prefix, range, filter, columns, direction, limit |
//! | read everything as of one moment | [`Engine::snapshot`] |
//! | read, and write what follows from it | [`Engine::transact`], [`Transaction`] |
//! | know what is durable | [`Durability`], [`Version`], [`Engine::wait_durable`], [`Engine::recovered_to`] |
//! | back up, read beside a writer | [`Engine::checkpoint`], [`Engine::open_read_only`] |
//! | see how it is | [`Engine::stats`], [`Engine::health`], [`EventListener`] |
//!
//! # What holds everywhere
//!
//! * **Durability**: a write that returned survives the end of the process. A loss of power it survives if it asked for
//!   [`Durability::Sync`], or was synced since, which happens about once a second; what is there after one is a prefix
//!   of all commits.
//! * **Threads**: handles are cheap to clone, `Send` and `Sync`; iterators and snapshots borrow nothing. Calls block;
//!   none is asynchronous.
//! * **Errors**: one type, [`Error`], with a [kind](Error::kind) to act on and a text for people, and whether it is
//!   [worth another try](Error::is_transient). After an error the next valid call works. The texts show no keys unless
//!   [`Options::keys_in_errors`] says so.
//! * **Limits**: a key of 65,535 bytes when encoded, a row of [`ROW_BYTES_MAX`], [`COLUMNS_MAX`] columns.
//!
//! # Features
//!
//! * `metrics`: the numbers of [`Stats`] for the recorder of the crate `metrics`, about once a second.
//! * `derive` (default): the macros [`derive(Record)`](macro@Record) and [`derive(FromRow)`](macro@FromRow).
//!
//! The map of the code is in `docs/architecture.md`, what survives a crash in `docs/recovery.md`.
#![forbid(unsafe_code)]

/// The code in the page on recovery.
#[cfg(doctest)]
#[doc = include_str!("../../docs/recovery.md")]
struct RecoveryPage;

/// The code in the page on operations.
#[cfg(doctest)]
#[doc = include_str!("../../docs/operations.md")]
struct OperationsPage;

/// The code in the page on changing a table's columns.
#[cfg(doctest)]
#[doc = include_str!("../../docs/schema-evolution.md")]
struct SchemaEvolutionPage;

mod alter;
mod background;
mod batch;
mod catalog;
mod check;
mod checkpoint;
mod commit;
mod compaction;
mod core;
mod disk_usage;
mod engine;
mod error;
mod events;
mod files;
mod flush;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod health;
pub mod inspect;
mod manifest;
mod memtable;
mod metrics;
#[cfg(all(test, nyala_shuttle))]
mod models;
mod options;
mod read;
mod record;
mod recovery;
mod repair;
mod row;
mod rowset;
mod runtime;
mod schema;
mod snapshot;
mod stall;
mod stats;
mod table;
mod tablet;
mod transaction;
mod value;
mod view;

pub use alter::Alter;
pub use batch::WriteBatch;
pub use check::{CheckReport, Problem, ProblemKind};
pub use checkpoint::CheckpointReport;
/// A version is a place in the order of all writes of a database. Each operation has its own, and a commit has that of
/// its last one: [`WriteBatch::commit`] and [`Transaction::commit`] return it, and [`Engine::last_committed`] gives one
/// that covers every write of a table's handle that has returned. A row [tells](Row::version) that of the operation
/// that wrote it.
///
/// A commit is durable once its version is at or below [`Engine::last_durable`], and it has survived whatever happened
/// if it is at or below [`Engine::recovered_to`] of the next open. Versions grow, with gaps, and are never used again
/// in the life of a database, so that they can be kept elsewhere, as numbers, and compared then.
///
/// **Those of two databases cannot be compared**, and a [checkpoint](Engine::checkpoint) is a database of its own.
/// Commits up to it have the same versions in both; later ones of either have nothing to do with those of the other,
/// although their numbers may be the same. So keep with a version which database it is of.
///
/// ```
/// # fn main() -> Result<(), nyala::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// use nyala::{Durability, Engine, Options, Schema, Type, Version};
/// let engine = Engine::open(dir.path(), Options::default())?;
/// let schema = Schema::builder().key("id", Type::U64).column("cents", Type::I64).build()?;
/// let accounts = engine.open_or_create_table("accounts", schema)?;
/// let mut batch = engine.batch();
/// batch.upsert(&accounts, (1, 900))?;
/// let version = batch.commit(Durability::Buffered)?;
/// // ... other work; and before this write is told to the world:
/// engine.wait_durable(version)?;
/// assert!(version <= engine.last_durable());
/// let kept = u64::from(version);
/// engine.close()?;
///
/// let engine = Engine::open(dir.path(), Options::default())?;
/// assert!(Version::from(kept) <= engine.recovered_to(), "it has survived");
/// # Ok(()) }
/// ```
pub use codec::Version;
pub use codec::{ColumnId, SchemaVersion};
#[cfg(feature = "derive")]
pub use derive::FromRow;
/// ```
/// # fn main() -> Result<(), nyala::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// use nyala::{Date, Decimal, Engine, KeyOf, Options, Record, Schema};
///
/// #[derive(Debug, PartialEq, Record)]
/// struct Order<'a> {
///     #[nyala(key)]
///     customer: &'a str,
///     #[nyala(key, desc)]
///     placed: Date,
///     #[nyala(decimal(12, 2))]
///     total: Decimal,
///     #[nyala(name = "remark")]
///     note: Option<String>,
/// }
/// let engine = Engine::open(dir.path(), Options::default())?;
/// // Fails with `SchemaMismatch` if the table is there and has other columns.
/// let orders = engine.open_or_create_table("orders", Schema::of::<Order>()?)?;
///
/// let order = Order { customer: "Ada", placed: Date::from_days(20_000), total: Decimal::new(12_950, 2), note: None };
/// orders.upsert(&order)?;
/// let row = orders.get(KeyOf(&order))?.expect("just written");
/// assert_eq!(row.to::<Order>()?, order);
/// # Ok(()) }
/// ```
#[cfg(feature = "derive")]
pub use derive::Record;
pub use disk_usage::DiskUsage;
pub use encoded_key::{
    ColumnType, DECIMAL_PRECISION_MAX, Date, Decimal, Misfit, ParseDecimalError, Timestamp, Type, Value,
};
pub use engine::Engine;
pub use error::{Error, ErrorKind, Result};
pub use events::{CompactionSummary, Event, EventListener, FlushSummary};
pub use health::Health;
pub use options::{Compression, Durability, Options, RuntimeMode};
pub use read::{Batches, ColumnExpr, Cursor, Predicate, Records, Rows, Scan, column};
#[doc(hidden)]
pub use record::generated as __private;
pub use record::{ColumnShape, FromRow, KeyOf, Origin, Record, RowBuilder, Shape, TypedRecord};
pub use recovery::{RecoveryReport, TornTail};
pub use repair::{
    KeyRange, LogAfterDamage, Loss, LossKind, RepairError, RepairOptions, RepairReport, RepairSource,
    RepairedTable, TornLog, examine, repair,
};
pub use row::{ColumnRef, Projection, ROW_BYTES_MAX, Row, RowBatch, RowRef, RowRefs};
pub use schema::{
    COLUMN_NAME_BYTES_MAX, COLUMNS_EVER_MAX, COLUMNS_MAX, Column, DEFAULT_BYTES_MAX, Schema, SchemaBuilder,
};
pub use snapshot::Snapshot;
pub use stall::StallCause;
pub use stats::{Stats, TableStats};
pub use table::{RowChange, Table, Update};
pub use transaction::Transaction;
pub use value::{AsValue, FromValue, ValueType};
pub use vfs;
