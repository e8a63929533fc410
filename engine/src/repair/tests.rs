//! Directories that say, under checksums that hold, what no engine ever wrote: neither an open nor a repair panics, and
//! what a repair makes of them is sound.

use std::path::Path;
use std::sync::Arc;

use codec::{FileId, TableId, TabletId, Version};
use vfs::{Fs, SimFs};

use super::*;
use crate::files::{FileKind, Files};
use crate::manifest::{Manifest, State, TableDesc};
use crate::{Durability, Schema, Table, Type};

const DIR: &str = "/db";
const TARGET: &str = "/new";

fn options(disk: &SimFs) -> Options {
    Options {
        fs: Arc::new(disk.clone()),
        memory_bytes: 1 << 20,
        runtime: RuntimeMode::Inline { seed: 1 },
        ..Options::default()
    }
}

fn accepting(disk: &SimFs) -> RepairOptions {
    RepairOptions { accept_loss: true, engine: options(disk), ..RepairOptions::default() }
}

fn write(engine: &Engine, table: &Table, ids: std::ops::Range<u64>) {
    let mut batch = engine.batch();
    for id in ids {
        batch.upsert(table, (id, format!("row {id}"))).expect("it fits");
    }
    batch.commit(Durability::Sync).expect("a good disk");
}

/// A table with two runs, each with its rowset, and some rows in the log only: 120 in all.
fn killed() -> SimFs {
    let disk = SimFs::new(1);
    let schema =
        || Schema::builder().key("id", Type::U64).column("text", Type::String).build().expect("a schema");
    let open = || {
        let engine = Engine::open(DIR, options(&disk)).expect("a sound database");
        let table = engine.open_or_create_table("t", schema()).expect("a table");
        (engine, table)
    };
    for ids in [0..50, 100..150] {
        let (engine, table) = open();
        write(&engine, &table, ids);
        engine.close().expect("a good disk");
    }
    let (engine, table) = open();
    write(&engine, &table, 20..60);
    write(&engine, &table, 140..160);
    assert_eq!(engine.core().catalog.get("t").expect("just made").tablet.view.pin().runs.len(), 2);
    disk.fork()
}

/// Puts a manifest in force that says something else.
fn forge(disk: &SimFs, edit: impl FnOnce(&mut State)) {
    let (fs, dir): (Arc<dyn Fs>, _) = (Arc::new(disk.clone()), Path::new(DIR));
    let listing = Listing::read(&*fs, dir).expect("a good disk");
    let current = manifest::read_current(&*fs, dir).expect("sound").expect("it is there");
    let mut state =
        manifest::load(&fs, dir, current, &listing.of(FileKind::Manifest)).expect("it was just written");
    let files = Arc::new(Files::new(fs, dir, listing.next_number().max(state.next_file)));
    edit(&mut state);
    Manifest::prepare(&files, state).and_then(|manifest| manifest.put_in_force()).expect("a good disk");
}

fn tablet(state: &mut State) -> &mut crate::manifest::TabletState {
    state.tablets.values_mut().next().expect("a tablet")
}

fn reverse(state: &mut State, count: usize) {
    for info in tablet(state).rowsets.values_mut().take(count) {
        std::mem::swap(&mut info.first_key, &mut info.last_key);
    }
}

type Forgery = fn(&mut State);

/// What is forged, and whether an open must refuse it.
const FORGERIES: [(&str, Forgery, bool); 24] = [
    ("nothing", |_| {}, false),
    ("a rowset ends before it begins", |state| reverse(state, 1), true),
    ("two rowsets end before they begin", |state| reverse(state, 2), true),
    ("all rowsets end before they begin", |state| reverse(state, 3), true),
    ("runs in another order", |state| tablet(state).runs.reverse(), true),
    ("a run is missing", |state| drop(tablet(state).runs.remove(1)), false),
    (
        "a run twice",
        |state| {
            let mut run = tablet(state).runs[0].clone();
            run.id = 1;
            tablet(state).runs.push(run);
        },
        true,
    ),
    ("a run without files", |state| tablet(state).runs[0].files.clear(), true),
    (
        "a run of two",
        |state| {
            let files = tablet(state).runs.remove(1).files;
            tablet(state).runs[0].files.extend(files);
        },
        true,
    ),
    ("a rowset is missing", |state| drop(tablet(state).rowsets.pop_first()), true),
    ("no rowset", |state| tablet(state).rowsets.clear(), true),
    ("fewer rows", |state| tablet(state).rowsets.values_mut().for_each(|info| info.entries = 1), true),
    ("a file that is not there", |state| tablet(state).runs[0].files[0].id = FileId(3), true),
    ("another length", |state| tablet(state).runs[0].files[0].len += 1, true),
    ("flushed through less", |state| tablet(state).flushed_through = Version(60), true),
    ("flushed through nothing", |state| tablet(state).flushed_through = Version(0), true),
    ("flushed through more", |state| tablet(state).flushed_through = state.version_ceiling.next(), true),
    ("the greatest version", |state| state.version_ceiling = Version(u64::MAX), true),
    ("the last version that may be", |state| state.version_ceiling = manifest::VERSION_MAX, false),
    ("the greatest file number", |state| state.next_file = FileId(u64::MAX), true),
    ("the last file number that may be", |state| state.next_file = FileId(crate::files::NUMBER_MAX), false),
    (
        "two tablets",
        |state| {
            let (id, tablet) = (state.next_tablet, tablet(state).clone());
            state.next_tablet = TabletId(id.0 + 1);
            state.tablets.insert(id, tablet);
            state.tables.values_mut().for_each(|table| table.tablets.push(id));
        },
        true,
    ),
    (
        "the greatest ids",
        |state| {
            let (tablet, table) = (state.tablets.pop_first(), state.tables.pop_first());
            let (tablet, table) = (tablet.expect("a tablet").1, table.expect("a table").1);
            state.tablets.insert(TabletId(u32::MAX), tablet);
            let tablets = vec![TabletId(u32::MAX)];
            let table = TableDesc { id: TableId(u32::MAX), tablets, ..table };
            state.tables.insert(TableId(u32::MAX), table);
            (state.next_table, state.next_tablet) = (TableId(u32::MAX), TabletId(u32::MAX));
        },
        true,
    ),
    (
        "two tables of one tablet",
        |state| {
            let (id, table) = (state.next_table, state.tables.values().next().expect("a table").clone());
            state.next_table = TableId(id.0 + 1);
            state.tables.insert(id, TableDesc { id, name: "other".into(), ..table });
        },
        true,
    ),
];

/// Uses an engine in every way. What comes of it is open; that it does not panic, and ends, is not.
fn use_up(engine: &Engine) {
    let Ok(table) = engine.existing_table("t") else { return };
    let _ = engine.check();
    let _ = table.scan().rows().map(|rows| rows.map(drop).count());
    for id in [0u64, 30, 110, 155] {
        let _ = table.get((id,));
    }
    let mut batch = engine.batch();
    for id in 30..170u64 {
        batch.upsert(&table, (id, "anew")).expect("it fits");
    }
    let _ = batch.commit(Durability::Sync);
    let _ = engine.flush();
    let _ = table.compact();
    let _ = table.compact();
    assert!(!format!("{:?}", engine.health()).contains("panic"), "{:?}", engine.health());
    let _ = engine.close();
}

#[test]
fn a_manifest_that_contradicts_itself_or_the_files_is_refused_and_nobody_panics() {
    for (what, forgery, is_refused) in FORGERIES {
        let disk = killed();
        forge(&disk, forgery);
        let forged = disk.fork();
        match Engine::open(DIR, options(&disk)) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}"),
            Ok(engine) => {
                assert!(!is_refused, "{what}: it opens");
                use_up(&engine);
            }
        }
        let report =
            repair(DIR, TARGET, &accepting(&forged)).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(report.is_written, "{what}");
        let engine = Engine::open(TARGET, options(&forged)).unwrap_or_else(|error| panic!("{what}: {error}"));
        if what == "nothing" {
            assert!(report.is_lossless(), "{report}");
            let table = engine.existing_table("t").expect("it is there");
            assert_eq!(table.count().expect("sound"), 120);
        }
        use_up(&engine);
        // Later opens find nothing to complain about either.
        drop(engine);
        for _ in 0..2 {
            Engine::open(TARGET, options(&forged)).unwrap_or_else(|error| panic!("{what}, again: {error}"));
        }
    }
}

#[test]
fn files_that_name_numbers_which_were_never_given_out_are_no_table() {
    let desc = |table: u32, tablet: u32| TableDesc {
        id: TableId(table),
        name: format!("{table} {tablet}"),
        schema: Schema::builder().key("id", Type::U64).build().expect("a schema").encode_to_vec(),
        tablets: vec![TabletId(tablet)],
    };
    for (descs, lost) in [
        (vec![desc(1, 1), desc(2, 2)], 0),
        (vec![desc(u32::MAX, 1), desc(2, u32::MAX)], 2),
        (vec![desc(1, 7), desc(2, 7)], 1),
    ] {
        let mut state = State::default();
        for desc in descs {
            state.tables.insert(desc.id, desc);
        }
        let disk = killed();
        let options = accepting(&disk);
        let patient = Patient::open(Path::new(DIR), &options).expect("a database");
        let mut report = RepairReport::new(false);
        let root = root::Root { state, is_whole: true };
        let stock = stock::take(&patient, &root, &mut report).expect("no newer version");
        let told = report.losses.iter().filter(|loss| loss.kind == LossKind::Table).count();
        assert_eq!((told, stock.tables.len() + told), (lost, 2), "{report}");
    }
}

#[test]
fn what_is_repaired_is_as_small_as_what_is_compacted() {
    let disk = SimFs::new(1);
    let engine = Engine::open(DIR, options(&disk)).expect("a new database");
    let schema = Schema::builder().key("id", Type::U64).column("text", Type::String).build();
    let table = engine.create_table("t", schema.expect("a schema")).expect("it is new");
    for _ in 0..2 {
        write(&engine, &table, 0..5000);
        table.flush().expect("a good disk");
    }
    table.compact().expect("a good disk");
    let compacted = table.stats();
    engine.close().expect("a good disk");
    let report = repair(DIR, TARGET, &accepting(&disk)).expect("a sound database");
    assert!(report.is_lossless(), "{report}");
    let engine = Engine::open(TARGET, options(&disk)).expect("just repaired");
    let repaired = engine.existing_table("t").expect("it is there").stats();
    assert_eq!(repaired.index_entries, compacted.index_entries);
    // But for the cut of the files.
    assert!(repaired.index_bytes <= compacted.index_bytes * 11 / 10, "{repaired}\n{compacted}");
    assert!(repaired.row_bytes <= compacted.row_bytes * 11 / 10, "{repaired}\n{compacted}");
}
