//! Each kind of damage that a check is for, planted and seen.
//!
//! What lies within files is forged while the database is closed, and it opens then as if nothing were wrong. What lies
//! between them is done to an open one.

use std::collections::BTreeSet;
use std::path::Path;

use nyala::vfs::{Fs, SimFs};
use nyala::{CheckReport, Engine, Options, Problem, ProblemKind};

use crate::forge::{Block, Entry, Part, Sstable, entries, forge, forge_log, records};
use crate::support::{DIR, files, number, only, open, options, read, sixty_rows, write};

fn check(engine: &Engine) -> CheckReport {
    engine.check().expect("the disk is good")
}

/// The check names this kind, in this file, and nothing is wrong with any other.
#[track_caller]
fn assert_names(engine: &Engine, kind: ProblemKind, file: Option<&Path>) -> Problem {
    let report = check(engine);
    let found = report
        .problems
        .iter()
        .find(|problem| problem.kind == kind && problem.file == file.map(number))
        .unwrap_or_else(|| panic!("{kind:?} in {file:?} is not among {:#?}", report.problems));
    for problem in &report.problems {
        assert!(!problem.to_string().contains("key \""), "no key is shown: {problem}");
        assert_eq!(problem.expected.is_some(), problem.found.is_some(), "{problem:?}");
    }
    found.clone()
}

/// The place of an entry's value in an index file's data block.
struct Found {
    block: Block,
    entries: Vec<Entry>,
}

/// A data block in the middle of an index file, with several entries.
fn middle(table: &Sstable) -> Found {
    let blocks = table.of(Part::Data);
    let block = blocks[blocks.len() / 2];
    let entries = entries(table.payload(&block));
    assert!(entries.len() >= 4, "{entries:?}");
    Found { block, entries }
}

/// Changes the middle block of an index file, given its entries.
fn in_the_middle(table: &mut Sstable, edit: impl FnOnce(&mut [u8], &[Entry])) {
    let Found { block, entries } = middle(table);
    table.edit(&block, |payload| edit(payload, &entries));
}

type Plant = fn(&mut Sstable);

/// Damage within an index file. Versions, numbers of rowsets and rows are small enough to take one byte each: an entry
/// is `0a 06 08 version 10 rowset 18 row`.
const IN_INDEX_FILES: [(ProblemKind, Plant); 11] = [
    (ProblemKind::NoRow, |table| {
        in_the_middle(table, |payload, entries| payload[entries[1].value.start + 7] = 127);
    }),
    (ProblemKind::NoRow, |table| {
        in_the_middle(table, |payload, entries| payload[entries[1].value.start + 5] = 126);
    }),
    (ProblemKind::SharedRow, |table| {
        in_the_middle(table, |payload, entries| {
            payload[entries[2].value.start + 7] = payload[entries[1].value.start + 7];
        });
    }),
    (ProblemKind::RowOrder, |table| {
        in_the_middle(table, |payload, entries| {
            let (a, b) = (entries[1].value.start, entries[2].value.start);
            payload.swap(a + 3, b + 3);
            payload.swap(a + 7, b + 7);
        });
    }),
    (ProblemKind::Versions, |table| {
        in_the_middle(table, |payload, entries| payload[entries[1].value.start + 3] = 127);
    }),
    (ProblemKind::Entries, |table| {
        in_the_middle(table, |payload, entries| payload[entries[1].value.start + 2] = 0x09);
    }),
    (ProblemKind::Key, |table| {
        // The second letter of a key: no text any more, and still in order.
        in_the_middle(table, |payload, entries| {
            let last = entries.iter().rposition(|entry| entry.key[1] == b'z').unwrap_or(entries.len() - 1);
            payload[entries[last].rest.end - 1] = 0xff;
        });
    }),
    (ProblemKind::KeyOrder, |table| {
        in_the_middle(table, |payload, entries| {
            payload.swap(entries[1].rest.end - 1, entries[2].rest.end - 1);
        });
    }),
    (ProblemKind::Filter, |table| {
        let filter = table.of(Part::Filter)[0];
        table.edit(&filter, |payload| payload[20..].fill(0));
    }),
    (ProblemKind::BlockIndex, |table| {
        // The first separator, below the keys of its block.
        let index = table.of(Part::Index)[0];
        let first = entries(table.payload(&index))[0].rest.start;
        table.edit(&index, |payload| payload[first] = b'!');
    }),
    (ProblemKind::Counts, |table| {
        // 60 keys, 60 entries, the smallest version 1.
        let properties = table.of(Part::Properties)[0];
        table.edit(&properties, |payload| {
            let says = [0x08, 60, 0x10, 60, 0x20, 1];
            let at = payload.windows(6).position(|window| window == says).expect("as it was written");
            payload[at + 5] = 2;
        });
    }),
];

#[test]
fn damage_within_an_index_file_is_named_although_every_checksum_is_right() {
    let mut kinds = BTreeSet::new();
    for (kind, plant) in IN_INDEX_FILES {
        let disk = sixty_rows();
        let path = only(&disk, "idx");
        forge(&disk, &path, plant);
        let engine = Engine::open(DIR, options(&disk)).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        assert_names(&engine, kind, Some(&path));
        kinds.insert(kind);
    }
    assert_eq!(kinds.len(), 10);
}

#[test]
fn damage_within_a_rowset_is_named_although_every_checksum_is_right() {
    let plants: [(ProblemKind, Plant); 3] = [
        (ProblemKind::RowVersion, |table| {
            let block = table.of(Part::Data)[1];
            // The version of the block's first row.
            table.edit(&block, |payload| payload[0] += 1);
        }),
        (ProblemKind::Row, |table| {
            let block = table.of(Part::Data)[1];
            table.edit(&block, |payload| {
                let at = payload.windows(4).position(|window| window == b"text").expect("a text");
                payload[at] = 0xff;
            });
        }),
        (ProblemKind::Row, |table| {
            let block = table.of(Part::Data)[1];
            // Its schema version.
            table.edit(&block, |payload| payload[1] = 9);
        }),
    ];
    for (kind, plant) in plants {
        let disk = sixty_rows();
        let path = only(&disk, "row");
        forge(&disk, &path, plant);
        assert_names(&open(&disk), kind, Some(&path));
    }
}

#[test]
fn each_damaged_block_of_a_file_is_named_once_with_its_place() {
    for extension in ["idx", "row"] {
        let disk = sixty_rows();
        let path = only(&disk, extension);
        let data = Sstable::load(&disk, &path).of(Part::Data);
        assert!(data.len() > 4, "{}", data.len());
        let engine = open(&disk);
        for block in [data[1], data[3]] {
            disk.damage(&path, |bytes| bytes[block.offset + 2] ^= 0x10).expect("it is there");
        }
        let report = check(&engine);
        let blocks: Vec<u64> = report
            .problems
            .iter()
            .filter(|problem| problem.kind == ProblemKind::Block && problem.file == Some(number(&path)))
            .filter_map(|problem| problem.offset)
            .collect();
        assert_eq!(blocks, [data[1].offset as u64, data[3].offset as u64], "{:#?}", report.problems);
        assert!(report.problems.iter().all(|problem| problem.kind == ProblemKind::Block), "{report}");
        let problem = &report.problems[0];
        assert!(problem.expected.is_some() && problem.found.is_some(), "{problem:?}");
    }
}

/// Every block of every kind, header and footer too.
#[test]
fn no_part_of_a_file_is_left_out() {
    for extension in ["idx", "row"] {
        let disk = sixty_rows();
        let path = only(&disk, extension);
        let table = Sstable::load(&disk, &path);
        let engine = open(&disk);
        let mut places: Vec<usize> = table.blocks.iter().map(|block| block.offset + 1).collect();
        places.extend([0, table.bytes.len() - 30]);
        let parts: BTreeSet<String> = table.blocks.iter().map(|block| format!("{:?}", block.part)).collect();
        assert_eq!(parts.len(), if extension == "idx" { 5 } else { 4 }, "{parts:?}");
        for at in places {
            disk.damage(&path, |bytes| bytes[at] ^= 0x40).expect("it is there");
            let found = assert_names(&engine, ProblemKind::Block, Some(&path));
            assert!(found.offset.is_some(), "{found}");
            disk.damage(&path, |bytes| bytes[at] ^= 0x40).expect("it is there");
        }
        assert!(check(&engine).is_clean());
    }
}

#[test]
fn files_that_are_missing_or_others_are_named() {
    for extension in ["idx", "row"] {
        let disk = sixty_rows();
        let path = only(&disk, extension);
        let engine = open(&disk);
        disk.damage(&path, |bytes| bytes.truncate(bytes.len() - 1)).expect("it is there");
        let found = assert_names(&engine, ProblemKind::WrongFile, Some(&path));
        assert!(found.expected > found.found, "{found}");
        disk.remove(&path).expect("it is there");
        assert_names(&engine, ProblemKind::MissingFile, Some(&path));
    }
    // A sound file of the same number and length, with other bytes in it.
    let disk = sixty_rows();
    let path = only(&disk, "row");
    let engine = open(&disk);
    forge(&disk, &path, |table| {
        let block = table.of(Part::Data)[1];
        table.edit(&block, |payload| {
            let at = payload.windows(4).position(|window| window == b"text").expect("a text");
            payload[at] = b'T';
        });
    });
    assert_names(&engine, ProblemKind::WrongFile, Some(&path));
}

#[test]
fn what_nothing_names_is_told_and_is_no_problem() {
    let disk = sixty_rows();
    let engine = open(&disk);
    let old = Path::new(DIR).join("1.idx");
    assert!(!disk.paths().contains(&old));
    for path in [old.as_path(), Path::new("/db/CURRENT.tmp"), Path::new("/db/notes.txt")] {
        disk.create(path).expect("a new name");
    }
    let report = check(&engine);
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.extra_files, ["1.idx", "CURRENT.tmp"]);
}

#[test]
fn a_damaged_root_is_named() {
    let disk = sixty_rows();
    let engine = open(&disk);
    let current = Path::new("/db/CURRENT");
    disk.damage(current, |bytes| bytes[3] ^= 1).expect("it is there");
    assert_names(&engine, ProblemKind::Current, None);
    disk.damage(current, |bytes| bytes[3] ^= 1).expect("it is there");

    let manifest = only(&disk, "manifest");
    for at in [20, 64 + 10, 64 + 60] {
        disk.damage(&manifest, |bytes| bytes[at] ^= 1).expect("it is there");
        let found = assert_names(&engine, ProblemKind::Manifest, Some(&manifest));
        assert!(found.offset.is_some(), "{found}");
        disk.damage(&manifest, |bytes| bytes[at] ^= 1).expect("it is there");
    }
    // A name in it is another one, and its checksums are right.
    forge_log(&disk, &manifest, |body| {
        if let Some(at) = body.windows(4).position(|window| window == b"name") {
            body[at] = b'N';
        }
    });
    assert_names(&engine, ProblemKind::Manifest, Some(&manifest));
    disk.remove(&manifest).expect("it is there");
    assert_names(&engine, ProblemKind::Manifest, Some(&manifest));
    disk.remove(current).expect("it is there");
    assert_names(&engine, ProblemKind::Current, None);
}

#[test]
fn a_damaged_log_is_named() {
    let disk = sixty_rows();
    let engine = Engine::open(DIR, Options { background_sync_interval: None, ..options(&disk) })
        .expect("a sound database");
    for n in 0..100 {
        write(&engine, n, n + 1);
    }
    let log = files(&disk, "wal");
    assert!(log.len() >= 3, "{log:?}");
    let report = check(&engine);
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.log_batches, 100);
    // The last may have been made ahead, and is none yet.
    let segments = log.len() as u64;
    assert!([segments, segments - 1].contains(&report.log_segments), "{segments}: {report}");

    let bytes = read(&disk, &log[1]);
    let third = records(&bytes)[2];
    for at in [8, third.offset + 6, third.body + 5] {
        disk.damage(&log[1], |bytes| bytes[at] ^= 1).expect("it is there");
        let found = assert_names(&engine, ProblemKind::Log, Some(&log[1]));
        assert!(found.offset.is_some(), "{found}");
        disk.damage(&log[1], |bytes| bytes[at] ^= 1).expect("it is there");
    }
    // An operation of a kind that is never logged, an unknown one, and a row that is none.
    let forgeries: [fn(&mut [u8]); 3] =
        [|body| body[0] = 3, |body| body[0] = 7, |body| *body.last_mut().expect("a row") = 0xff];
    for forgery in forgeries {
        forge_log(&disk, &log[1], forgery);
        assert_names(&engine, ProblemKind::Log, Some(&log[1]));
        disk.damage(&log[1], |now| now.copy_from_slice(&bytes)).expect("it is there");
    }
    assert!(check(&engine).is_clean());
    disk.remove(&log[1]).expect("it is there");
    let found = assert_names(&engine, ProblemKind::Log, Some(&log[1]));
    assert!(found.what.contains("missing"), "{found}");
}

#[test]
fn keys_are_shown_only_if_the_options_say_so() {
    let text = |keys_in_errors| {
        let disk = sixty_rows();
        let path = only(&disk, "idx");
        forge(&disk, &path, |table| {
            in_the_middle(table, |payload, entries| payload[entries[1].value.start + 2] = 0x09);
        });
        let engine = Engine::open(DIR, Options { keys_in_errors, ..options(&disk) }).expect("it opens");
        check(&engine).to_string()
    };
    assert!(text(true).contains("key (\""), "{}", text(true));
    assert!(!text(false).contains("key ("), "{}", text(false));
}

/// Reads go on from a view that a check holds against the disk.
#[test]
fn a_sound_database_is_clean_whatever_is_in_it() {
    let disk = SimFs::new(3);
    let engine = open(&disk);
    for round in 0..6 {
        write(&engine, round * 7, 200 + round);
        let table = crate::support::table(&engine);
        for n in (0..200).step_by(9) {
            table.delete((crate::support::name(n + round),)).expect("a good disk");
        }
        engine.flush().expect("a good disk");
    }
    write(&engine, 0, 30);
    let report = check(&engine);
    assert!(report.is_clean(), "{report}");
    assert!(
        report.rows >= 200 && report.edits > 3 && report.log_batches > 0 && report.bytes > 20_000,
        "{report}"
    );
    assert_eq!((report.tables, report.extra_files.len()), (1, 0));
    assert!(report.to_string().ends_with("all is well"), "{report}");
}
