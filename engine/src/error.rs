//! The one error of the engine: a kind for the program, a sentence for the person.
//!
//! Owns how failures of the layers below are sorted into kinds. Never holds key or row bytes: the text of a key
//! gets in only through [`Error::with_key`], which callers use when the options allow it.
//!
//! Invariant: an `Error` is one pointer wide, so that `Result<T, Error>` costs the good path nothing.

mod convert;
#[cfg(test)]
mod tests;

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;

/// A result of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, as far as a program can act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An insert of a key that is there already.
    DuplicateKey,
    /// An update of a key that is not there.
    MissingRow,
    /// Something that a transaction had read was changed before it could commit; or a row has another version than
    /// [`WriteBatch::compare_and_set`](crate::WriteBatch::compare_and_set) or
    /// [`WriteBatch::compare_and_delete`](crate::WriteBatch::compare_and_delete) was told.
    Conflict,
    /// An argument that can never work: a wrong type, a null in a key, an oversized row, a bad option or name.
    InvalidArgument,
    /// The table has another schema than the one asked for.
    SchemaMismatch,
    /// There is no table of that name, or it was dropped meanwhile.
    NoSuchTable,
    /// There is a table of that name already.
    TableExists,
    /// The directory is in use by another engine, in this process or another.
    Locked,
    /// The engine was closed, by [`Engine::close`](crate::Engine::close) or because its last handle was dropped.
    Closed,
    /// Writes are not possible: opened read-only, or the file system or the permissions do not let us.
    ReadOnly,
    /// The disk or its quota is full. Reads go on; writes come back with [`Engine::resume`](crate::Engine::resume),
    /// once there is space.
    NoSpace,
    /// Bytes on disk are not what was written there.
    Corruption,
    /// The files were written by a newer version, or need a feature that this one lacks.
    UnsupportedFormat,
    /// The operating system failed a disk operation. If that leaves open what is on the disk, writes are refused from
    /// then on, see [`Health::Poisoned`](crate::Health::Poisoned).
    Io,
}

impl ErrorKind {
    fn words(self) -> &'static str {
        match self {
            ErrorKind::DuplicateKey => "duplicate key",
            ErrorKind::MissingRow => "missing row",
            ErrorKind::Conflict => "conflict",
            ErrorKind::InvalidArgument => "invalid argument",
            ErrorKind::SchemaMismatch => "schema mismatch",
            ErrorKind::NoSuchTable => "no such table",
            ErrorKind::TableExists => "table exists",
            ErrorKind::Locked => "locked",
            ErrorKind::Closed => "closed",
            ErrorKind::ReadOnly => "read-only",
            ErrorKind::NoSpace => "no space",
            ErrorKind::Corruption => "corruption",
            ErrorKind::UnsupportedFormat => "unsupported format",
            ErrorKind::Io => "I/O",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// An error of the engine. Cheap to clone: the first cause of a failure is told to everybody that it stops.
///
/// Its text is one line that names the place (file and offset, table, column, operation) and tells the causes
/// too; [`source`](std::error::Error::source) is for programs that look for a certain cause, not for printing.
///
/// ```
/// use nyala::{ErrorKind, Schema, Type};
///
/// let error = Schema::builder().column("note", Type::String).build().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidArgument);
/// assert_eq!(error.to_string(), "invalid argument: a schema needs at least one key column");
/// ```
#[derive(Clone)]
pub struct Error {
    inner: Arc<Inner>,
}

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    text: String,
    operation: Option<usize>,
    key: Option<String>,
    /// Nothing was done for a lack that may pass, and it may work a moment later.
    is_passing: bool,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// What went wrong, as far as a program can act on it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Which operation of the batch failed, counted from 0, if the error speaks of one.
    #[must_use]
    pub fn operation(&self) -> Option<usize> {
        self.inner.operation
    }

    /// Whether it may work if it is tried again, although nobody has mended anything: nothing was done, and what was in
    /// the way may be gone a moment later. So it is for
    ///
    /// * [`ErrorKind::Conflict`]: somebody else was first. What rests on what was read is to be done again from the
    ///   reading on, as [`Engine::transact`](crate::Engine::transact) does; the same commit once more would meet the
    ///   same conflict.
    /// * an [`ErrorKind::Io`] for want of file descriptors, of the process or the machine: the same call may be
    ///   repeated, best after a pause.
    ///
    /// Everything else stays until somebody does something: chooses other arguments, frees space and calls
    /// [`Engine::resume`](crate::Engine::resume), opens the database again.
    ///
    /// ```
    /// # fn main() -> Result<(), nyala::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use nyala::{Durability, Engine, Options, Schema, Type};
    /// let engine = Engine::open(dir.path(), Options::default())?;
    /// let schema = Schema::builder().key("id", Type::U64).column("stock", Type::U32).build()?;
    /// let goods = engine.open_or_create_table("goods", schema)?;
    /// goods.upsert((1, 3))?;
    /// let sell = || {
    ///     let mut sale = engine.transaction();
    ///     let stock: u32 = sale.get(&goods, (1,))?.expect("it is there").get("stock")?;
    ///     sale.update(&goods, (1,), [("stock", stock - 1)])?;
    /// #   goods.insert_ignore((2, 0)).and_then(|is_first| if is_first { goods.upsert((1, 2)) } else { Ok(()) })?;
    ///     sale.commit(Durability::Buffered)
    /// };
    /// let mut sold = sell();
    /// # assert!(sold.is_err());
    /// while sold.as_ref().is_err_and(|error| error.is_transient()) {
    ///     sold = sell();
    /// }
    /// sold?;
    /// # assert_eq!(goods.get((1,))?.unwrap().get::<u32>("stock")?, 1);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.inner.is_passing || self.inner.kind == ErrorKind::Conflict
    }

    /// An error without a cause below it.
    #[cold]
    pub(crate) fn new(kind: ErrorKind, text: impl Into<String>) -> Error {
        Error::with_source(kind, text.into(), None)
    }

    /// An argument that can never work.
    #[cold]
    pub(crate) fn invalid(text: impl Into<String>) -> Error {
        Error::new(ErrorKind::InvalidArgument, text)
    }

    /// Bytes on disk that are not what was written there. The text names the place and the evidence.
    #[cold]
    pub(crate) fn corruption(text: impl Into<String>) -> Error {
        Error::new(ErrorKind::Corruption, text)
    }

    /// Files that a newer version wrote. The text says what they ask for, and what is known here.
    #[cold]
    pub(crate) fn newer(what: impl fmt::Display) -> Error {
        let advice = "a newer version of Nyala wrote it: open it with that one, or one later still";
        Error::new(ErrorKind::UnsupportedFormat, format!("{what}; {advice}"))
    }

    /// An error of `kind` that `source` caused; the text of `source` becomes part of this one's.
    #[cold]
    pub(crate) fn caused(kind: ErrorKind, source: impl StdError + Send + Sync + 'static) -> Error {
        let text = source.to_string();
        Error::with_source(kind, text, Some(Arc::new(source)))
    }

    fn with_source(kind: ErrorKind, text: String, source: Option<Arc<dyn StdError + Send + Sync>>) -> Error {
        Error { inner: Arc::new(Inner { kind, text, operation: None, key: None, is_passing: false, source }) }
    }

    /// A failed disk operation; `context` says what was tried, as in "cannot create the log". A full disk or quota
    /// is [`ErrorKind::NoSpace`], a read-only file system [`ErrorKind::ReadOnly`], all else [`ErrorKind::Io`].
    #[cold]
    pub(crate) fn io(context: impl fmt::Display, source: io::Error) -> Error {
        let is_passing = vfs::is_out_of_descriptors(&source);
        Error::caused(io_kind(&source), source).passing(is_passing).context(context)
    }

    /// Like [`Error::io`] for an operation that writes: there a refused permission is [`ErrorKind::ReadOnly`].
    #[cold]
    pub(crate) fn io_write(context: impl fmt::Display, source: io::Error) -> Error {
        let kind = match source.kind() {
            io::ErrorKind::PermissionDenied => ErrorKind::ReadOnly,
            _ => io_kind(&source),
        };
        let is_passing = vfs::is_out_of_descriptors(&source);
        Error::caused(kind, source).passing(is_passing).context(context)
    }

    /// A failed sync. Nobody knows what it left, so more space does not mend it, even if it was space that was short.
    #[cold]
    pub(crate) fn sync(context: impl fmt::Display, source: io::Error) -> Error {
        Error::caused(ErrorKind::Io, source).context(context)
    }

    /// The same error, as one of a lack that may pass: of file descriptors. Nothing was done then; it may work a moment
    /// later.
    #[cold]
    #[must_use]
    fn passing(mut self, is_passing: bool) -> Error {
        if is_passing {
            Arc::make_mut(&mut self.inner).is_passing = true;
        }
        self
    }

    /// The same error, with what was being done before its text.
    #[cold]
    #[must_use]
    pub(crate) fn context(mut self, context: impl fmt::Display) -> Error {
        let inner = Arc::make_mut(&mut self.inner);
        inner.text = format!("{context}: {}", inner.text);
        self
    }

    /// The same error as another kind: what is a bad argument at the door is damage when it comes from a file.
    #[cold]
    #[must_use]
    pub(crate) fn with_kind(mut self, kind: ErrorKind) -> Error {
        Arc::make_mut(&mut self.inner).kind = kind;
        self
    }

    /// The same error, told to be of the batch's operation at `position`.
    #[cold]
    #[must_use]
    pub(crate) fn with_operation(mut self, position: usize) -> Error {
        Arc::make_mut(&mut self.inner).operation = Some(position);
        self
    }

    /// The same error with the text of the key that it speaks of. Only if the options allow keys in errors.
    #[cold]
    #[must_use]
    pub(crate) fn with_key(mut self, key: impl Into<String>) -> Error {
        Arc::make_mut(&mut self.inner).key = Some(key.into());
        self
    }
}

pub(crate) fn io_kind(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
        io::ErrorKind::ReadOnlyFilesystem => ErrorKind::ReadOnly,
        _ => ErrorKind::Io,
    }
}

/// Two errors are equal if they say the same: kind, operation, text and key. What caused them is in the text.
impl PartialEq for Error {
    fn eq(&self, other: &Error) -> bool {
        let said = |error: &Inner| (error.kind, error.operation);
        said(&self.inner) == said(&other.inner)
            && self.inner.text == other.inner.text
            && self.inner.key == other.inner.key
    }
}

impl Eq for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.inner;
        f.write_str(inner.kind.words())?;
        if let Some(operation) = inner.operation {
            write!(f, " in operation {operation}")?;
        }
        if !inner.text.is_empty() {
            write!(f, ": {}", inner.text)?;
        }
        if let Some(key) = &inner.key {
            write!(f, " (key {key})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What `main` prints when it returns an error, and what `expect` prints: the sentence is what helps.
        write!(f, "{self}")?;
        if let Some(source) = &self.inner.source {
            write!(f, " [{source:?}]")?;
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.inner.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}
