//! `nyala dump`: what stands in one file of a database, piece by piece.
//!
//! Owns the four kinds of files, and where their tables are learnt from. Pieces are printed by `pieces`; `text` makes
//! texts of keys, rows and edits.

mod pieces;
mod text;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::Result;
use nyala::inspect::{self, InspectedTable, LogPiece, ManifestPiece};

use self::pieces::Pieces;
use crate::failure::{Exit, Failure};
use crate::open;
use crate::output::{Document, Item, Output};

/// Print what stands in one file of a database; changes nothing
///
/// What stands in a file need not be in force: a log holds what has been flushed since, an index file what has been
/// replaced. The exit code is 4 if something could not be read.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, clap::Subcommand)]
enum Kind {
    /// A segment of the log, 17.wal: batches and their operations
    Wal(File),
    /// A segment of the manifest, 17.manifest: edits
    Manifest(File),
    /// An index file, 17.idx: keys, versions, and where their rows lie
    Idx(File),
    /// A rowset, 17.row: rows without their keys
    Row(File),
}

#[derive(Debug, clap::Args)]
struct File {
    /// The file, under the name that it has in its directory
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// At most so many pieces: operations, edits, entries or rows
    #[arg(long, value_name = "PIECES")]
    limit: Option<u64>,
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<Exit> {
    let (Kind::Wal(of) | Kind::Manifest(of) | Kind::Idx(of) | Kind::Row(of)) = &args.kind;
    let file = &of.file;
    if !file.is_file() {
        return Err(Failure::new(Exit::NotFound, format!("{} is no file", file.display())).into());
    }
    let mut pieces = Pieces::new(out, of.limit);
    match &args.kind {
        Kind::Wal(_) => wal(file, &mut pieces),
        Kind::Manifest(_) => manifest(file, &mut pieces),
        Kind::Idx(_) => idx(file, &mut pieces),
        Kind::Row(_) => row(file, &mut pieces),
    }?;
    pieces.finish()
}

/// A log does not say what its tables are. Without the directory's manifest they are shown by number, as bytes.
fn tables(file: &Path) -> Vec<InspectedTable> {
    let dir = match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    inspect::tables(dir, &open::options()).unwrap_or_default()
}

fn wal(file: &Path, pieces: &mut Pieces<'_>) -> Result<()> {
    let tables = tables(file);
    pieces.columns(&["offset", "version", "operation", "table", "key", "row"]);
    inspect::read_log(file, &open::options(), |piece| match piece {
        LogPiece::Batch(batch) => {
            for op in &batch.operations {
                let table = tables.iter().find(|table| table.id == op.table);
                pieces.piece(&[
                    batch.offset.into(),
                    op.version.into(),
                    op.row.map_or("delete", |_| "put").into(),
                    table.map_or_else(|| op.table.to_string(), |table| table.name.clone()).into(),
                    text::key(table, op.key),
                    op.row.map_or(Item::Null, |row| text::row(table, op.schema_version, row)),
                ])?;
            }
            match &batch.damage {
                Some(why) => pieces.damage(batch.offset, None, why),
                None => ControlFlow::Continue(()),
            }
        }
        LogPiece::Gap(gap) => pieces.gap(&gap),
        _ => ControlFlow::Continue(()),
    })?;
    Ok(())
}

fn manifest(file: &Path, pieces: &mut Pieces<'_>) -> Result<()> {
    pieces.columns(&["offset", "what", "of", "value"]);
    inspect::read_manifest(file, &open::options(), |piece| match piece {
        ManifestPiece::Edit(edit) => {
            for (what, of, value) in text::edit(&edit) {
                pieces.piece(&[edit.offset.into(), what.into(), of.into(), value.into()])?;
            }
            ControlFlow::Continue(())
        }
        ManifestPiece::Gap(gap) => pieces.gap(&gap),
        _ => ControlFlow::Continue(()),
    })?;
    Ok(())
}

fn idx(file: &Path, pieces: &mut Pieces<'_>) -> Result<()> {
    let index = inspect::IndexFile::open(file, &open::options())?;
    let mut head = Document::default();
    head.fact("table", index.table.name.as_str());
    head.fact("file_bytes", Item::Bytes(index.bytes));
    head.fact("keys", index.keys);
    head.fact("entries", index.entries);
    head.fact("deletions", index.deletions);
    head.fact("first_version", index.versions.0);
    head.fact("last_version", index.versions.1);
    pieces.head(&head)?;
    pieces.columns(&["key", "version", "operation", "rowset", "ordinal"]);
    index.entries(|entry| {
        pieces.piece(&[
            text::key(Some(&index.table), entry.key),
            entry.version.into(),
            entry.row.map_or("delete", |_| "put").into(),
            entry.row.map(|(rowset, _)| Item::Number(rowset.into())).into(),
            entry.row.map(|(_, ordinal)| u64::from(ordinal)).into(),
        ])
    })?;
    Ok(())
}

fn row(file: &Path, pieces: &mut Pieces<'_>) -> Result<()> {
    let rows = inspect::RowFile::open(file, &open::options())?;
    let mut head = Document::default();
    head.fact("table", rows.table.name.as_str());
    head.fact("file_bytes", Item::Bytes(rows.bytes));
    head.fact("rows", u64::from(rows.rows));
    pieces.head(&head)?;
    pieces.columns(&["ordinal", "version", "schema_version", "row"]);
    rows.rows(|row| {
        pieces.piece(&[
            u64::from(row.ordinal).into(),
            row.version.into(),
            u64::from(row.schema_version.0).into(),
            text::row(Some(&rows.table), row.schema_version, row.row),
        ])
    })?;
    Ok(())
}
