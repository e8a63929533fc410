//! Each kind of damage that a check is for, made on purpose: the check names it.

use std::sync::Arc;

use codec::{FileId, RowId};
use pkindex::{RunWriter, WrittenFile};
use sstable::FileInfo;

use std::ops::Bound;

use pkindex::{Entry, IndexFile, Place, Run, Source};
use sstable::Direction;

use super::*;
use crate::files::{FileKind, Outputs};
use crate::rowset::{Rowset, RowsetWriter, Rowsets};
use crate::schema::Schema;
use crate::tablet::files::{open_index_files, open_rowset, rowset_info, rowset_options, run_options};
use crate::view::TabletView;
use crate::{Engine, Options, Type};

/// An engine with one table of 100 rows in one rowset and one run.
fn engine() -> (tempfile::TempDir, Engine) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let engine = Engine::open(dir.path(), Options::default()).expect("a new database");
    let schema =
        Schema::builder().key("id", Type::U64).column("name", Type::String).build().expect("a schema");
    let table = engine.create_table("t", schema).expect("a new table");
    let mut batch = engine.batch();
    for id in 0..100u64 {
        batch.upsert(&table, (id, format!("row {id}"))).expect("it fits");
    }
    batch.commit(crate::Durability::Buffered).expect("healthy");
    engine.flush().expect("healthy");
    (dir, engine)
}

fn view(engine: &Engine) -> Arc<TabletView> {
    engine.core().catalog.get("t").expect("made above").tablet.view.pin()
}

fn with(view: &TabletView, file: Arc<IndexFile>, rowset: Arc<Rowset>) -> TabletView {
    TabletView {
        memtables: view.memtables.clone(),
        runs: vec![Arc::new(Run::new(vec![file]).expect("one file"))],
        run_ids: view.run_ids.clone(),
        rowsets: Arc::new(Rowsets::new(vec![rowset])),
        flushed_through: view.flushed_through,
    }
}

fn problems(engine: &Engine, view: &TabletView) -> Vec<Problem> {
    let table = engine.core().catalog.get("t").expect("made above");
    let mut report = CheckReport::default();
    let mut findings = Findings::of(&mut report, "t");
    tablet::check(&table.schema, view, &mut findings, &|| Ok(())).expect("no I/O error");
    report.problems
}

fn only_file(view: &TabletView) -> Arc<IndexFile> {
    Arc::clone(&view.runs[0].files()[0])
}

fn only_rowset(view: &TabletView) -> Arc<Rowset> {
    Arc::clone(view.rowsets.iter().next().expect("one rowset"))
}

/// The index file again, with the entries of each key edited; a key without entries is left out.
fn rewritten(
    engine: &Engine,
    file: &Arc<IndexFile>,
    edit: impl Fn(usize, &mut Vec<Entry>),
) -> Arc<IndexFile> {
    let core = engine.core();
    let outputs = Outputs::new(&core.files, FileKind::Index);
    let options = run_options(&core.options, &Arc::default());
    let mut writer = RunWriter::new(&outputs, &options);
    let run = Arc::new(Run::new(vec![Arc::clone(file)]).expect("one file"));
    let all = (Bound::Unbounded, Bound::Unbounded);
    let mut cursor = run.cursor(Direction::Forward, &all).expect("readable");
    let mut entries = Vec::new();
    let mut at = 0;
    while let Some(key) = cursor.key().map(<[u8]>::to_vec) {
        entries.clear();
        cursor.entries(&mut entries).expect("readable");
        edit(at, &mut entries);
        if !entries.is_empty() {
            writer.add(&key, None, &entries).expect("writable");
        }
        at += 1;
        cursor.advance().expect("readable");
    }
    let written: Vec<WrittenFile> = writer.finish().expect("writable");
    let infos: Vec<FileInfo> = written.into_iter().map(|file| file.info).collect();
    open_index_files(&core.files, &core.cache, &infos).expect("just written").remove(0)
}

#[test]
fn a_healthy_view_has_no_problems() {
    let (_dir, engine) = engine();
    let report = engine.check().expect("open");
    assert!(report.is_clean(), "{:?}", report.problems);
    assert_eq!((report.entries, report.rows), (100, 100));
}

#[test]
fn a_deleted_entry_is_named() {
    let (_dir, engine) = engine();
    let view = view(&engine);
    let file = only_file(&view);
    let shorter = rewritten(&engine, &file, |at, entries| {
        if at == 50 {
            entries.clear();
        }
    });
    // The file is whole in itself; what it was said to hold is not there.
    let tampered = Arc::new(IndexFile {
        info: shorter.info.clone(),
        properties: file.properties.clone(),
        reader: Arc::clone(&shorter.reader),
    });
    let found = problems(&engine, &with(&view, tampered, only_rowset(&view)));
    assert!(
        found.iter().any(|problem| problem.file == Some(shorter.info.id.0)
            && problem.kind == ProblemKind::Counts
            && problem.what.starts_with("entries, as the file says")
            && (problem.expected.as_deref(), problem.found.as_deref()) == (Some("100"), Some("99"))),
        "{found:?}"
    );
}

#[test]
fn a_deleted_row_is_named() {
    let (_dir, engine) = engine();
    let view = view(&engine);
    let rowset = only_rowset(&view);
    let core = engine.core();
    let outputs = Outputs::new(&core.files, FileKind::Rows);
    let mut writer = RowsetWriter::new(&outputs, rowset_options(&core.options, &Arc::default()));
    let mut cursor = only_file_cursor(&view);
    let mut entries = Vec::new();
    let mut row = 0;
    while let Some(key) = cursor.key().map(<[u8]>::to_vec) {
        entries.clear();
        cursor.entries(&mut entries).expect("readable");
        let handle = rowset.get(RowId(row), entries[0].version).expect("readable");
        if row != 50 {
            writer.push(&key, entries[0].version, handle.schema(), handle.bytes()).expect("writable");
        }
        row += 1;
        cursor.advance().expect("readable");
    }
    let written = writer.finish().expect("writable").remove(0);
    let shorter = open_rowset(&core.files, &core.cache, &rowset_info(&written)).expect("just written");
    // The entries name the shorter rowset, as if the row had gone from under them.
    let renamed = rewritten(&engine, &only_file(&view), |_, entries| {
        for entry in entries {
            if let Place::At(location) = &mut entry.place {
                location.rowset = shorter.id();
            }
        }
    });
    let found = problems(&engine, &with(&view, renamed, Arc::clone(&shorter)));
    let file = Some(u64::from(shorter.id().0));
    // Each row from the missing one on stands one too early, and the last entry leads past the end.
    let of = |kind| found.iter().filter(move |problem| problem.kind == kind);
    assert_eq!(of(ProblemKind::RowVersion).filter(|problem| problem.file == file).count(), 49, "{found:?}");
    assert_eq!(of(ProblemKind::NoRow).count(), 1, "{found:?}");
    assert!(found.iter().any(|problem| problem.what.contains("row 50")), "{found:?}");
}

fn only_file_cursor(view: &TabletView) -> pkindex::RunCursor {
    view.runs[0].cursor(Direction::Forward, &(Bound::Unbounded, Bound::Unbounded)).expect("readable")
}

#[test]
fn a_wrong_count_is_named() {
    let (_dir, engine) = engine();
    let view = view(&engine);
    let file = only_file(&view);
    let mut properties = file.properties.clone();
    properties.per_rowset[0].1 -= 1;
    let tampered =
        Arc::new(IndexFile { info: file.info.clone(), properties, reader: Arc::clone(&file.reader) });
    let found = problems(&engine, &with(&view, tampered, only_rowset(&view)));
    assert!(
        found
            .iter()
            .any(|problem| problem.file == Some(file.info.id.0) && problem.kind == ProblemKind::Counts),
        "{found:?}"
    );
}

#[test]
fn an_entry_that_names_no_rowset_is_named() {
    let (_dir, engine) = engine();
    let view = view(&engine);
    let stripped =
        TabletView { rowsets: Arc::default(), ..with(&view, only_file(&view), only_rowset(&view)) };
    let found = problems(&engine, &stripped);
    assert_eq!(found.iter().filter(|problem| problem.kind == ProblemKind::NoRow).count(), 100);
    assert!(found[0].what.contains("not in the view"), "{}", found[0]);
}

#[test]
fn a_flipped_byte_in_a_file_is_named() {
    let (dir, engine) = engine();
    let view = view(&engine);
    let id: FileId = only_rowset(&view).id().into();
    let path = dir.path().join(format!("{id}.row"));
    #[expect(clippy::disallowed_methods, reason = "the damage is done behind the engine's back")]
    {
        let mut bytes = std::fs::read(&path).expect("readable");
        bytes[100] ^= 1;
        std::fs::write(&path, bytes).expect("writable");
    }
    let report = engine.check().expect("open");
    assert!(report.problems.iter().any(|problem| problem.file == Some(id.0)), "{:?}", report.problems);
}

#[test]
fn runs_whose_versions_overlap_are_named() {
    let (_dir, engine) = engine();
    let view = view(&engine);
    let twice = TabletView {
        runs: vec![Arc::clone(&view.runs[0]), Arc::clone(&view.runs[0])],
        run_ids: vec![1, 2],
        ..with(&view, only_file(&view), only_rowset(&view))
    };
    let found = problems(&engine, &twice);
    let of = |kind| found.iter().filter(move |problem| problem.kind == kind).count();
    assert_eq!(of(ProblemKind::Versions), 1, "{found:?}");
    // And the rowset lies under two runs, each row with an entry in both.
    assert_eq!(of(ProblemKind::Rowset), 1, "{found:?}");
    assert_eq!(of(ProblemKind::SharedRow), 100, "{found:?}");
}

#[test]
fn a_rowset_that_nothing_points_into_is_named() {
    let (_dir, engine) = engine();
    let view = view(&engine);
    let bare = TabletView {
        runs: Vec::new(),
        run_ids: Vec::new(),
        ..with(&view, only_file(&view), only_rowset(&view))
    };
    let found = problems(&engine, &bare);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].kind, found[0].found.as_deref()), (ProblemKind::Rowset, Some("0")));
    assert_eq!(found[0].file, Some(u64::from(only_rowset(&view).id().0)));
}

#[test]
fn rows_outside_of_what_the_manifest_says_of_their_rowset_are_named() {
    let (_dir, engine) = engine();
    let view = view(&engine);
    let rowset = only_rowset(&view);
    let core = engine.core();
    let mut info = core.manifest.with_state(|state| {
        let tablet = state.tablets.values().next().expect("one table");
        tablet.rowsets[&rowset.id()].clone()
    });
    // The key of the last row is said to be that of the first.
    info.last_key.clone_from(&info.first_key);
    let narrow = open_rowset(&core.files, &core.cache, &info).expect("the file is sound");
    let found = problems(&engine, &with(&view, only_file(&view), narrow));
    assert_eq!(found.iter().filter(|problem| problem.kind == ProblemKind::RowOrder).count(), 99, "{found:?}");
}

#[test]
fn a_table_whose_schema_or_tablet_is_another_is_named() {
    let (_dir, engine) = engine();
    let core = engine.core();
    let table = core.catalog.get("t").expect("made above");
    let kinds = |change: &dyn Fn(&mut crate::manifest::TableDesc)| {
        let mut state = core.manifest.with_state(Clone::clone);
        change(state.tables.get_mut(&table.id).expect("made above"));
        let mut report = CheckReport::default();
        directory::check_table(&state, &table, &mut Findings::of(&mut report, "t"));
        report.problems.iter().map(|problem| problem.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&|_| {}), []);
    let other = Schema::builder().key("id", Type::U64).column("name", Type::Binary).build().expect("legal");
    assert_eq!(kinds(&|desc| desc.schema = other.encode_to_vec()), [ProblemKind::Schema]);
    assert_eq!(kinds(&|desc| desc.schema = vec![1, 2, 3]), [ProblemKind::Schema]);
    assert_eq!(kinds(&|desc| desc.tablets = vec![codec::TabletId(77)]), [ProblemKind::Schema]);
}

#[test]
fn a_manifest_that_contradicts_itself_or_what_is_in_force_is_named() {
    let (_dir, engine) = engine();
    let core = engine.core();
    let sound = core.manifest.with_state(Clone::clone);
    assert_eq!(sound.contradictions(), Vec::<String>::new());
    let told = |change: &dyn Fn(&mut crate::manifest::State)| {
        let mut state = sound.clone();
        change(&mut state);
        state.contradictions().join("; ")
    };
    let tablet = *sound.tablets.keys().next().expect("one tablet");
    assert!(told(&|state| state.next_file = FileId(1)).contains("numbers end below 1"));
    assert!(told(&|state| state.next_table = codec::TableId(0)).contains("the id that the next one gets"));
    assert!(told(&|state| state.next_tablet = codec::TabletId(0)).contains("the id that the next one gets"));
    assert!(told(&|state| state.version_ceiling = codec::Version(1)).contains("above the ceiling 1"));
    assert!(told(&|state| drop(state.tablets.remove(&tablet))).contains("is not there"));
    assert!(told(&|state| state.tables.clear()).contains("has no table"));
    let twice = |state: &mut crate::manifest::State| {
        let tablet = state.tablets.get_mut(&tablet).expect("one tablet");
        tablet.runs.push(tablet.runs[0].clone());
    };
    assert!(told(&twice).contains("run ") && told(&twice).contains("is named twice"));

    let table = core.catalog.get("t").expect("made above");
    let mut state = sound.clone();
    state.tablets.get_mut(&tablet).expect("one tablet").runs.clear();
    let mut report = CheckReport::default();
    directory::check_table(&state, &table, &mut Findings::of(&mut report, "t"));
    assert_eq!(report.problems.len(), 1, "{report}");
    assert_eq!(report.problems[0].kind, ProblemKind::Manifest);
}
