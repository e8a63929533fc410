//! Power cuts of the simulated disk, one promise at a time. Random ones against a model: `model`.

use nyala_vfs::sim::{Entries, LastWrite, Pages, PowerCut, Sizes};
use nyala_vfs::{File, Fs, SimFs};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

const PAGE: usize = 4096;
const SECTOR: usize = 512;

fn disk() -> SimFs {
    let disk = SimFs::new(1);
    disk.create_dir_all("/db".as_ref()).unwrap();
    disk.sync_dir("/".as_ref()).unwrap();
    disk
}

fn path(name: &str) -> std::path::PathBuf {
    Path::new("/db").join(name)
}

/// A file whose name and contents are durable.
fn synced(disk: &SimFs, name: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.create(&path(name)).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir("/db".as_ref()).unwrap();
    file
}

fn contents(disk: &SimFs, name: &str) -> Option<Vec<u8>> {
    match disk.read(&path(name), 1 << 30) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => panic!("{error}"),
    }
}

/// What random power cuts with these settings leave of a file.
fn outcomes(disk: &SimFs, name: &str, policy: PowerCut) -> BTreeSet<Option<Vec<u8>>> {
    (0..200).map(|seed| contents(&disk.power_cut(&PowerCut { seed, ..policy }), name)).collect()
}

const KEEP: PowerCut = PowerCut {
    pages: Pages::All,
    last_write: LastWrite::AsPages,
    sizes: Sizes::Kept,
    entries: Entries::Kept,
    seed: 0,
};

#[test]
fn what_is_synced_survives_every_power_cut() {
    let disk = disk();
    synced(&disk, "1.wal", &[7; 10_000]);
    for seed in 0..500 {
        let after = disk.power_cut(&PowerCut::random(seed));
        assert_eq!(contents(&after, "1.wal"), Some(vec![7; 10_000]));
    }
    for policy in [PowerCut::lose_all(), PowerCut::keep_all()] {
        assert_eq!(disk.power_cut(&policy).fingerprint(), disk.fingerprint());
    }
}

#[test]
fn unsynced_bytes_are_lost_or_kept_as_the_policy_says() {
    let disk = disk();
    let file = synced(&disk, "1.wal", b"old old");
    file.write_all_at(b"new", 0).unwrap();
    file.write_all_at(b"tail", 7).unwrap();
    assert_eq!(contents(&disk, "1.wal").unwrap(), b"new oldtail");
    assert_eq!(contents(&disk.power_cut(&PowerCut::lose_all()), "1.wal").unwrap(), b"old old");
    assert_eq!(contents(&disk.power_cut(&PowerCut::keep_all()), "1.wal").unwrap(), b"new oldtail");
}

#[test]
fn syncing_a_file_does_not_save_its_name() {
    let disk = disk();
    let file = disk.create(&path("1.wal")).unwrap();
    file.write_all_at(b"bytes", 0).unwrap();
    file.sync().unwrap();
    assert_eq!(contents(&disk.power_cut(&PowerCut::lose_all()), "1.wal"), None);
    disk.sync_dir("/db".as_ref()).unwrap();
    assert_eq!(contents(&disk.power_cut(&PowerCut::lose_all()), "1.wal").unwrap(), b"bytes");
}

#[test]
fn syncing_a_directory_does_not_save_the_bytes() {
    let disk = disk();
    let file = disk.create(&path("1.wal")).unwrap();
    file.write_all_at(b"bytes", 0).unwrap();
    disk.sync_dir("/db".as_ref()).unwrap();
    assert_eq!(contents(&disk.power_cut(&PowerCut::lose_all()), "1.wal").unwrap(), b"");
}

#[test]
fn a_directory_whose_parent_is_not_synced_takes_its_files_along() {
    let disk = disk();
    disk.create_dir_all(&path("sub/deep")).unwrap();
    let file = disk.create(&path("sub/deep/1.wal")).unwrap();
    file.sync().unwrap();
    disk.sync_dir(&path("sub/deep")).unwrap();
    disk.sync_dir(&path("sub")).unwrap();
    assert!(disk.power_cut(&PowerCut::lose_all()).paths().is_empty());
    disk.sync_dir("/db".as_ref()).unwrap();
    assert_eq!(disk.power_cut(&PowerCut::lose_all()).paths(), [path("sub/deep/1.wal")]);
}

#[test]
fn pages_survive_each_on_its_own() {
    let disk = disk();
    let file = synced(&disk, "1.row", &[0; 3 * PAGE]);
    file.write_all_at(&[1; 3 * PAGE], 0).unwrap();
    let seen = outcomes(&disk, "1.row", PowerCut { pages: Pages::Random, ..KEEP });
    let pages = |bytes: &Vec<u8>| -> Vec<u8> {
        bytes.chunks(PAGE).for_each(|page| assert!(page.iter().all(|byte| *byte == page[0])));
        bytes.chunks(PAGE).map(|page| page[0]).collect()
    };
    let seen: BTreeSet<Vec<u8>> = seen.iter().map(|bytes| pages(bytes.as_ref().unwrap())).collect();
    assert_eq!(seen.len(), 8, "all subsets of three pages: {seen:?}");
}

#[test]
fn a_page_may_be_as_it_was_in_between() {
    let disk = disk();
    let file = synced(&disk, "1.row", b"0");
    for value in b"1234" {
        file.write_all_at(&[*value], 0).unwrap();
    }
    let seen = outcomes(&disk, "1.row", PowerCut { pages: Pages::Random, ..KEEP });
    let seen: Vec<u8> = seen.into_iter().map(|bytes| bytes.unwrap()[0]).collect();
    assert_eq!(seen, b"01234");
}

#[test]
fn a_prefix_keeps_writes_in_order_over_all_files() {
    let disk = disk();
    let files = [synced(&disk, "a", b"00"), synced(&disk, "b", b"00")];
    for step in 1..=4u8 {
        files[usize::from(step % 2)].write_all_at(&[b'0' + step], u64::from((step - 1) / 2)).unwrap();
    }
    let states: BTreeSet<Vec<u8>> = (0..200)
        .map(|seed| {
            let after = disk.power_cut(&PowerCut { pages: Pages::Prefix, seed, ..KEEP });
            [contents(&after, "b").unwrap(), contents(&after, "a").unwrap()].concat()
        })
        .collect();
    let legal = [b"0000", b"1000", b"1020", b"1320", b"1324"];
    assert_eq!(states, legal.iter().map(|state| state.to_vec()).collect());
}

#[test]
fn a_length_may_be_kept_without_its_data() {
    let disk = disk();
    let file = synced(&disk, "1.wal", b"head");
    file.write_all_at(&[1; 9000], 4).unwrap();
    let after = disk.power_cut(&PowerCut { pages: Pages::None, ..KEEP });
    let bytes = contents(&after, "1.wal").unwrap();
    assert_eq!(bytes.len(), 9004);
    assert!(bytes.starts_with(b"head") && bytes[4..].iter().all(|byte| *byte == 0));
}

#[test]
fn data_may_be_kept_without_its_length() {
    let disk = disk();
    let file = synced(&disk, "1.wal", b"head");
    file.write_all_at(b"HEAD and more", 0).unwrap();
    let after = disk.power_cut(&PowerCut { sizes: Sizes::Lost, ..KEEP });
    assert_eq!(contents(&after, "1.wal").unwrap(), b"HEAD");
    // What lay beyond the length does not come back when the file grows again.
    let copy = disk.power_cut(&PowerCut { sizes: Sizes::Lost, ..KEEP });
    copy.damage(&path("1.wal"), |bytes| bytes.resize(8, 0)).unwrap();
    assert_eq!(contents(&copy, "1.wal").unwrap(), b"HEAD\0\0\0\0");
}

#[test]
fn a_length_goes_with_its_data_when_asked() {
    let disk = disk();
    let file = synced(&disk, "1.wal", b"");
    file.write_all_at(&[1; PAGE], 0).unwrap();
    file.write_all_at(&[2; PAGE], PAGE as u64).unwrap();
    file.write_all_at(&[3; PAGE], 2 * PAGE as u64).unwrap();
    let policy = PowerCut { pages: Pages::Random, sizes: Sizes::WithData, ..KEEP };
    for bytes in outcomes(&disk, "1.wal", policy) {
        let bytes = bytes.unwrap();
        assert_eq!(bytes.len() % PAGE, 0);
        assert!(bytes.is_empty() || bytes[bytes.len() - 1] as usize * PAGE == bytes.len());
    }
}

#[test]
fn the_last_write_tears_at_sectors_of_512_bytes() {
    let disk = disk();
    let file = synced(&disk, "1.wal", &[0; 4 * SECTOR]);
    file.write_all_at(&[1; 2 * SECTOR], 100).unwrap();
    for last_write in [LastWrite::TornPrefix, LastWrite::TornSectors] {
        let seen = outcomes(&disk, "1.wal", PowerCut { last_write, ..KEEP });
        let mut masks = BTreeSet::new();
        for bytes in seen {
            let bytes = bytes.unwrap();
            let spans = [100..SECTOR, SECTOR..2 * SECTOR, 2 * SECTOR..2 * SECTOR + 100];
            masks.insert(spans.map(|span| {
                let first = bytes[span.start];
                assert!(bytes[span].iter().all(|byte| *byte == first), "a tear within a sector");
                first
            }));
            assert!(bytes[..100].iter().chain(&bytes[2 * SECTOR + 100..]).all(|byte| *byte == 0));
        }
        let expected = if last_write == LastWrite::TornPrefix { 4 } else { 8 };
        assert_eq!(masks.len(), expected, "{last_write:?}: {masks:?}");
    }
}

#[test]
fn only_the_last_write_tears_and_not_after_its_sync() {
    let disk = disk();
    let first = synced(&disk, "1.wal", &[0; PAGE]);
    let last = synced(&disk, "2.wal", &[0; PAGE]);
    first.write_all_at(&[1; PAGE], 0).unwrap();
    last.write_all_at(&[1; PAGE], 0).unwrap();
    let torn = PowerCut { last_write: LastWrite::TornSectors, ..KEEP };
    assert_eq!(outcomes(&disk, "1.wal", torn).len(), 1);
    assert!(outcomes(&disk, "2.wal", torn).len() > 10);
    last.sync().unwrap();
    assert_eq!(outcomes(&disk, "2.wal", torn).len(), 1);
}

#[test]
fn a_rename_is_whole_or_absent() {
    let disk = disk();
    synced(&disk, "CURRENT", b"old");
    synced(&disk, "CURRENT.tmp", b"new");
    disk.rename(&path("CURRENT.tmp"), &path("CURRENT")).unwrap();
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let after = disk.power_cut(&PowerCut::random(seed));
        let state = (contents(&after, "CURRENT"), contents(&after, "CURRENT.tmp"));
        let undone = (Some(b"old".to_vec()), Some(b"new".to_vec()));
        assert!(state == (Some(b"new".to_vec()), None) || state == undone, "{state:?}");
        seen.insert(state);
    }
    assert_eq!(seen.len(), 2);
    disk.sync_dir("/db".as_ref()).unwrap();
    assert_eq!(contents(&disk.power_cut(&PowerCut::lose_all()), "CURRENT").unwrap(), b"new");
}

#[test]
fn a_rename_over_a_file_may_expose_unsynced_contents() {
    // The classic mistake: rename without a sync of the new file.
    let disk = disk();
    synced(&disk, "CURRENT", b"old");
    disk.create(&path("CURRENT.tmp")).unwrap().write_all_at(b"new", 0).unwrap();
    disk.rename(&path("CURRENT.tmp"), &path("CURRENT")).unwrap();
    disk.sync_dir("/db".as_ref()).unwrap();
    assert_eq!(contents(&disk.power_cut(&PowerCut::lose_all()), "CURRENT").unwrap(), b"");
}

#[test]
fn a_removal_may_come_undone_with_the_contents_that_were_synced() {
    let disk = disk();
    drop(synced(&disk, "1.row", b"bytes"));
    disk.remove(&path("1.row")).unwrap();
    disk.create(&path("2.row")).unwrap();
    let after = disk.power_cut(&PowerCut { entries: Entries::UnlinksUndone, ..KEEP });
    assert_eq!(contents(&after, "1.row").unwrap(), b"bytes");
    assert_eq!(contents(&after, "2.row").unwrap(), b"");
    disk.sync_dir("/db".as_ref()).unwrap();
    for seed in 0..100 {
        assert_eq!(contents(&disk.power_cut(&PowerCut::random(seed)), "1.row"), None);
    }
}

#[test]
fn directory_operations_are_lost_from_the_end_or_at_random() {
    let disk = disk();
    for name in ["1", "2", "3"] {
        disk.create(&path(name)).unwrap();
    }
    let states = |entries| -> BTreeSet<Vec<std::path::PathBuf>> {
        (0..200).map(|seed| disk.power_cut(&PowerCut { entries, seed, ..KEEP }).paths()).collect()
    };
    let prefixes =
        [vec![], vec![path("1")], vec![path("1"), path("2")], vec![path("1"), path("2"), path("3")]];
    assert_eq!(states(Entries::Prefix), prefixes.into_iter().collect());
    assert_eq!(states(Entries::Random).len(), 8);
}

#[test]
fn operations_on_one_name_stay_in_order() {
    let disk = disk();
    synced(&disk, "log", b"first");
    disk.rename(&path("log"), &path("log.old")).unwrap();
    synced_contents_only(&disk, "log", b"second");
    for seed in 0..300 {
        let after = disk.power_cut(&PowerCut { entries: Entries::Random, seed, ..KEEP });
        let names = (contents(&after, "log.old"), contents(&after, "log"));
        // The first file is there under one of its names, always.
        let firsts =
            [&names.0, &names.1].into_iter().filter(|bytes| bytes.as_deref() == Some(b"first")).count();
        assert_eq!(firsts, 1, "{names:?}");
    }
}

fn synced_contents_only(disk: &SimFs, name: &str, bytes: &[u8]) {
    let file = disk.create(&path(name)).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync().unwrap();
}

#[test]
fn a_move_between_directories_is_synced_by_either() {
    for synced_dir in ["/db/a", "/db/b"] {
        let disk = disk();
        disk.create_dir_all(&path("a")).unwrap();
        disk.create_dir_all(&path("b")).unwrap();
        disk.sync_dir("/db".as_ref()).unwrap();
        synced_contents_only(&disk, "a/x", b"moved");
        disk.rename(&path("a/x"), &path("b/x")).unwrap();
        disk.sync_dir(synced_dir.as_ref()).unwrap();
        assert_eq!(disk.power_cut(&PowerCut::lose_all()).paths(), [path("b/x")]);
    }
}

#[test]
fn a_truncation_shows_neither_half_nor_what_came_before() {
    let disk = disk();
    let file = synced(&disk, "1.wal", &[1; 2 * PAGE]);
    file.truncate(100).unwrap();
    file.write_all_at(&[2; 50], PAGE as u64).unwrap();
    let policy = PowerCut { pages: Pages::Random, sizes: Sizes::Random, ..KEEP };
    for bytes in outcomes(&disk, "1.wal", policy) {
        let bytes = bytes.unwrap();
        match bytes.len() {
            8192 => assert!(
                bytes.iter().all(|byte| *byte == 1),
                "the truncation is not there, so nothing after it"
            ),
            100 => assert!(bytes.iter().all(|byte| *byte == 1)),
            4146 => {
                assert!(bytes[..100].iter().all(|byte| *byte == 1));
                assert!(bytes[100..PAGE].iter().all(|byte| *byte == 0), "bytes that were cut off came back");
                assert!(
                    bytes[PAGE..].iter().all(|byte| *byte == 2)
                        || bytes[PAGE..].iter().all(|byte| *byte == 0)
                );
            }
            len => panic!("a length of {len} that never was"),
        }
    }
}

#[test]
fn what_a_truncation_cut_off_stays_away_after_a_sync() {
    let disk = disk();
    let file = synced(&disk, "1.wal", &[1; 2 * PAGE]);
    file.truncate(100).unwrap();
    file.write_all_at(b"end", 2 * PAGE as u64).unwrap();
    file.sync().unwrap();
    let bytes = contents(&disk.power_cut(&PowerCut::lose_all()), "1.wal").unwrap();
    assert!(bytes[..100].iter().all(|byte| *byte == 1));
    assert!(bytes[100..2 * PAGE].iter().all(|byte| *byte == 0));
    assert_eq!(&bytes[2 * PAGE..], b"end");
}

#[test]
fn preallocated_space_reads_as_zeros_and_may_be_lost() {
    let disk = disk();
    let file = synced(&disk, "1.wal", b"head");
    file.preallocate(10_000).unwrap();
    assert_eq!(contents(&disk.power_cut(&PowerCut::lose_all()), "1.wal").unwrap(), b"head");
    let kept = contents(&disk.power_cut(&PowerCut { pages: Pages::None, ..KEEP }), "1.wal").unwrap();
    assert_eq!(kept.len(), 10_000);
    file.sync().unwrap();
    let kept = contents(&disk.power_cut(&PowerCut::lose_all()), "1.wal").unwrap();
    assert!(kept.len() == 10_000 && kept[4..].iter().all(|byte| *byte == 0));
}

#[test]
fn the_original_goes_on_and_the_copy_is_its_own() {
    let disk = disk();
    let file = synced(&disk, "1.wal", b"one");
    let (cut, fork) = (disk.power_cut(&PowerCut::lose_all()), disk.fork());
    file.write_all_at(b"two", 0).unwrap();
    cut.remove(&path("1.wal")).unwrap();
    fork.damage(&path("1.wal"), |bytes| bytes[0] ^= 1).unwrap();
    assert_eq!(contents(&disk, "1.wal").unwrap(), b"two");
    assert_eq!(contents(&cut, "1.wal"), None);
    assert_eq!(contents(&fork, "1.wal").unwrap(), b"nne");
    assert_eq!(SimFs::clone(&disk).fingerprint(), disk.fingerprint());
}

#[test]
fn a_fork_keeps_what_is_not_durable_apart() {
    let disk = disk();
    let file = synced(&disk, "1.wal", b"one");
    file.write_all_at(b"two", 0).unwrap();
    let fork = disk.fork();
    assert_eq!(contents(&fork, "1.wal").unwrap(), b"two");
    assert_eq!(contents(&fork.power_cut(&PowerCut::lose_all()), "1.wal").unwrap(), b"one");
    assert_eq!(fork.operations(), 1 + 2, "the read above, and no more");
}

#[test]
fn locks_and_open_files_end_with_the_power() {
    let disk = disk();
    let _guard = disk.lock(&path("LOCK")).unwrap();
    let open = synced(&disk, "1.row", b"bytes");
    disk.remove(&path("1.row")).unwrap();
    disk.sync_dir("/db".as_ref()).unwrap();
    for after in [disk.power_cut(&PowerCut::lose_all()), disk.fork()] {
        assert_eq!(after.used_bytes(), 0);
        after.lock(&path("LOCK")).unwrap();
    }
    assert_eq!(open.len().unwrap(), 5);
    assert_eq!(disk.lock(&path("LOCK")).unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn the_same_seed_gives_the_same_disk() {
    let run = |seed| {
        let disk = disk();
        let file = synced(&disk, "1.wal", &[0; 5 * PAGE]);
        file.write_all_at(&[1; 5 * PAGE], 0).unwrap();
        disk.rename(&path("1.wal"), &path("2.wal")).unwrap();
        disk.power_cut(&PowerCut::random(seed)).fingerprint()
    };
    let prints: BTreeSet<u64> = (0..100).map(run).collect();
    assert!(prints.len() > 10, "different seeds give different disks");
    assert!((0..100).all(|seed| run(seed) == run(seed)));
}

#[test]
fn a_rename_may_come_undone_although_all_else_stays() {
    let disk = disk();
    synced(&disk, "CURRENT", b"old");
    synced_contents_only(&disk, "CURRENT.tmp", b"new");
    disk.rename(&path("CURRENT.tmp"), &path("CURRENT")).unwrap();
    disk.create(&path("2.row")).unwrap();
    let undone = PowerCut { entries: Entries::RenamesUndone, ..KEEP };
    let after = disk.power_cut(&undone);
    assert_eq!(contents(&after, "CURRENT").unwrap(), b"old");
    assert_eq!(contents(&after, "CURRENT.tmp").unwrap(), b"new");
    assert_eq!(contents(&after, "2.row").unwrap(), b"");
    disk.sync_dir("/db".as_ref()).unwrap();
    assert_eq!(contents(&disk.power_cut(&undone), "CURRENT").unwrap(), b"new");
}

#[test]
fn a_recording_has_the_disk_before_each_change_and_after_the_last() {
    let run = |disk: &SimFs| -> std::io::Result<()> {
        let file = disk.create(&path("1.wal"))?;
        file.write_all_at(b"one", 0)?;
        file.sync()?;
        disk.sync_dir("/db".as_ref())?;
        file.write_all_at(b"two", 0)?;
        disk.read(&path("1.wal"), 100)?;
        disk.rename(&path("1.wal"), &path("2.wal"))?;
        disk.remove(&path("2.wal"))
    };
    let recorded = disk();
    recorded.record();
    run(&recorded).unwrap();
    let recording = recorded.take_recording();
    let changes: Vec<u64> = (0..)
        .zip(recorded.log())
        .filter(|(n, kind)| *n >= 2 && kind.changes_disk())
        .map(|(n, _)| n)
        .collect();
    assert_eq!(recording.iter().map(|(n, _)| *n).collect::<Vec<_>>(), changes);
    assert_eq!(changes.len(), 7);
    for (n, before) in recording {
        // The same as when everything stops there.
        let halted = disk();
        halted.halt_at(n);
        run(&halted).unwrap_err();
        for policy in (0..20).map(PowerCut::random).chain([PowerCut::lose_all(), PowerCut::keep_all()]) {
            assert_eq!(before.power_cut(&policy).fingerprint(), halted.power_cut(&policy).fingerprint());
        }
    }
    run(&recorded).unwrap();
    assert!(recorded.take_recording().is_empty(), "it was ended");
}

#[test]
fn a_link_survives_once_its_directory_is_synced_and_without_the_first_name() {
    let disk = disk();
    disk.create_dir_all("/db/sub".as_ref()).unwrap();
    disk.sync_dir("/db".as_ref()).unwrap();
    synced(&disk, "1.row", b"bytes");
    disk.hard_link(&path("1.row"), &path("sub/1.row")).unwrap();
    let linked = |disk: &SimFs| disk.read(&path("sub/1.row"), 10).ok();
    assert_eq!(linked(&disk.power_cut(&PowerCut::lose_all())), None);
    assert_eq!(linked(&disk.power_cut(&PowerCut::keep_all())).as_deref(), Some(&b"bytes"[..]));
    disk.sync_dir(&path("sub")).unwrap();
    disk.remove(&path("1.row")).unwrap();
    disk.sync_dir("/db".as_ref()).unwrap();
    let cut = disk.power_cut(&PowerCut::lose_all());
    assert_eq!(contents(&cut, "1.row"), None);
    assert_eq!(linked(&cut).as_deref(), Some(&b"bytes"[..]));
    // The name is all that is new: what was not synced of the file is lost with the power under either name.
    cut.remove(&path("sub/1.row")).unwrap();
    assert_eq!(linked(&cut.power_cut(&PowerCut::lose_all())).as_deref(), Some(&b"bytes"[..]));
}
