//! Files as they once were: a disk that lost writes, or a backup of one file put back.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use nyala::vfs::SimFs;
use nyala::{Durability, Engine, Error, ErrorKind};

use crate::image::{self, DIR, Earlier, Image, files_of};
use crate::judge::{Change, Damage, Outcome};
use crate::map::{Map, kind_of};
use crate::rows::{self, KEYS};
use crate::run::{seed, try_all};
use crate::tail;

/// The files of `earlier` that are others now, or that are gone.
fn old_files<'a>(image: &Image, earlier: &'a Earlier) -> Vec<&'a String> {
    earlier
        .files
        .iter()
        .filter(|(name, old)| image.files.get(*name) != Some(old))
        .map(|(name, _)| name)
        .collect()
}

#[test]
fn every_old_version_of_a_file_is_detected_or_harmless() {
    println!("seed {}", seed());
    let image = Image::make(seed(), 1);
    let map = Map::of(&image);
    let mut damages: Vec<(&Earlier, &'static str, Vec<&String>)> = Vec::new();
    for earlier in &image.earlier {
        let old = old_files(&image, earlier);
        damages.extend(old.iter().map(|name| (earlier, "old version of one file", vec![*name])));
        for kinds in [&["manifest", "CURRENT"][..], &["wal"], &["idx", "row"], &["idx"], &["row"]] {
            let of_kinds: Vec<_> =
                old.iter().copied().filter(|name| kinds.contains(&kind_of(name))).collect();
            if of_kinds.len() > 1 {
                damages.push((earlier, "old versions of a kind", of_kinds));
            }
        }
        // All but the log: then it is the log that knows better.
        let others: Vec<_> = old.iter().copied().filter(|name| kind_of(name) != "wal").collect();
        if !others.is_empty() {
            damages.push((earlier, "all but the log are old", others));
        }
    }
    assert!(damages.len() > 40, "{} damages", damages.len());
    let tally = try_all("every_old_version", &image, damages.len(), |number| {
        let (earlier, how, names) = &damages[number];
        let what = format!("{names:?} as they were {}", earlier.when);
        let mut damage = Damage::new(what, (kind_of(names[0]), how));
        let mut changed: Vec<tail::Changed<'_>> = Vec::new();
        for name in names {
            let old = &earlier.files[*name];
            damage = damage.change(name, Change::Put(old.clone()));
            changed.push((name, Some(old)));
        }
        damage = tail::allow(damage, &image, &map, &changed, true);
        // An old file is noticed by what it says of others.
        damage.may_name = image.files.keys().chain(earlier.files.keys()).cloned().collect();
        Some(damage)
    });
    println!("{tally}");
    let kinds: BTreeSet<_> = tally.regions().into_iter().map(|(kind, _)| kind).collect();
    assert!(kinds.is_superset(&BTreeSet::from(["idx", "manifest", "row", "wal"])), "{kinds:?}");
    assert!(tally.of(Outcome::ByOpen) > 5);
}

/// What the last edit of a manifest was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastEdit {
    Made,
    MadeAndFilled,
    Dropped,
    Flushed,
    Compacted,
}

/// An edit is synced when it is made, and the next one attests it. A disk that loses the last one all the same is found
/// out by the log or by the files that are gone; else the database is as it was before that edit, and no row is
/// missing of the tables that are there.
#[test]
fn a_manifest_that_lost_its_last_edit_loses_no_row_of_a_table() {
    use LastEdit::{Compacted, Dropped, Flushed, Made, MadeAndFilled};
    for edit in [Made, MadeAndFilled, Dropped, Flushed, Compacted] {
        for is_housekept in [false, true] {
            let disk = life_up_to(edit, is_housekept);
            let found = open_and_read(&disk);
            match (edit, found) {
                (Made, Ok(rows)) => assert_eq!(rows, [Some(20), None]),
                (MadeAndFilled, Err(error)) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                    assert!(error.to_string().contains("the manifest knows tables below"), "{error}");
                }
                (Dropped, Ok(rows)) => assert_eq!(rows, [Some(20), Some(5)]),
                (Flushed | Compacted, Ok(rows)) => assert_eq!(rows, [Some(20), None], "{edit:?}"),
                (Dropped | Flushed | Compacted, Err(error)) => {
                    assert!(is_housekept, "{edit:?}: everything is there still, but {error}");
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                }
                (_, found) => panic!("{edit:?}: {found:?}"),
            }
        }
    }
}

/// A database whose manifest has lost its last edit.
fn life_up_to(edit: LastEdit, is_housekept: bool) -> SimFs {
    let disk = SimFs::new(1);
    let engine = Engine::open(DIR, image::options(&disk, 1)).expect("a new directory");
    let table = engine.create_table("first", rows::schema(KEYS)).expect("a new table");
    let put = |table: &nyala::Table, ids: std::ops::Range<u64>| {
        for id in ids {
            let mut batch = engine.batch();
            batch.upsert(table, (id,)).expect("a row");
            batch.commit(Durability::Sync).expect("a good disk");
        }
    };
    let second = || engine.create_table("second", rows::schema(KEYS)).expect("a new table");
    match edit {
        LastEdit::Made | LastEdit::MadeAndFilled => {
            put(&table, 0..20);
            let second = second();
            if edit == LastEdit::MadeAndFilled {
                put(&second, 0..5);
            }
        }
        LastEdit::Dropped => {
            put(&second(), 0..5);
            put(&table, 0..20);
            engine.drop_table("second").expect("it is there");
        }
        LastEdit::Flushed => {
            put(&table, 0..20);
            engine.flush().expect("a good disk");
        }
        LastEdit::Compacted => {
            put(&table, 0..10);
            engine.flush().expect("a good disk");
            put(&table, 5..20);
            engine.flush().expect("a good disk");
            table.compact().expect("a good disk");
        }
    }
    if is_housekept {
        // Each call does some of the work that waits.
        for _ in 0..40 {
            engine.batch().commit(Durability::Buffered).expect("nothing");
            put(&table, 19..20);
        }
    }
    let after = disk.fork();
    disk.halt_at(0);
    let files = files_of(&after);
    let map = Map::of_files(&files);
    let segment = map.manifest.segments.last().expect("a manifest");
    let last = segment.records.last().expect("edits").range.clone();
    let path = Path::new(DIR).join(&segment.name);
    after.damage(&path, |bytes| bytes[last].fill(0)).expect("it is there");
    after
}

/// How many rows the two tables have.
fn open_and_read(disk: &SimFs) -> Result<[Option<u64>; 2], Error> {
    let options = nyala::Options { fs: Arc::new(disk.clone()), ..image::options(disk, 1) };
    let engine = Engine::open(DIR, options)?;
    let report = engine.check()?;
    assert!(report.is_clean(), "{:?}", report.problems);
    let count = |name: &str| match engine.existing_table(name) {
        Ok(table) => table.count().map(Some),
        Err(error) if error.kind() == ErrorKind::NoSuchTable => Ok(None),
        Err(error) => Err(error),
    };
    Ok([count("first")?, count("second")?])
}
