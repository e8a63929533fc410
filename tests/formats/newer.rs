//! What a newer version wrote is refused as that, and what is damaged as damaged; neither is changed by a byte.

use codec::FileId;
use nyala::{Engine, Error, ErrorKind, Options, RepairOptions, RuntimeMode, examine};

use crate::fixtures::{Fixture, files_of, put};
use crate::forge::{self, Log};
use crate::writer::Files;

fn options() -> Options {
    Options { runtime: RuntimeMode::Inline { seed: 3 }, background_sync_interval: None, ..Options::default() }
}

/// With a log that is needed.
fn base() -> Files {
    Fixture::of_version_1("runs").files
}

/// With rows that are in no log any more.
fn flushed() -> Files {
    Fixture::of_version_1("types").files
}

/// One file of a kind.
fn file(files: &Files, ending: &str) -> (String, FileId) {
    let name = files.keys().rfind(|name| name.ends_with(ending)).expect("there is one").clone();
    let number = name.trim_end_matches(ending).parse().expect("a number");
    (name, FileId(number))
}

/// Opens the directory in every way and gives the errors, which name the file. Nothing may change.
fn refusals(files: &Files, changed: &str) -> Vec<Error> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    put(files, dir.path());
    let repair = RepairOptions { engine: options(), ..RepairOptions::default() };
    let errors = [
        Engine::open(dir.path(), options()).err(),
        Engine::open_read_only(dir.path(), options()).err(),
        examine(dir.path(), &repair).err(),
    ];
    assert!(files_of(dir.path()) == *files, "something was changed with another {changed}");
    let number = changed.split('.').next().expect("a name");
    let errors: Vec<Error> = errors.into_iter().flatten().collect();
    for error in &errors {
        assert!(error.to_string().contains(number), "{changed} is not named: {error}");
    }
    errors
}

/// What to change in a file: its name, and the change.
type Forgery = (String, Box<dyn Fn(&mut Vec<u8>)>);

/// Sets a number at a place of a segment's header, or of an sstable's header and footer.
fn in_header(files: &Files, ending: &str, number: Number, seals: bool) -> Forgery {
    let (name, id) = file(files, ending);
    let log = match ending {
        ".wal" => Some(Log::Wal),
        ".manifest" => Some(Log::Manifest),
        _ => None,
    };
    let change = move |bytes: &mut Vec<u8>| match log {
        Some(log) => {
            bytes[if number == Number::Version { 8 } else { 12 }] ^= 3;
            if seals {
                forge::seal_segment_header(log, id, bytes);
            }
        }
        None => {
            let footer = bytes.len() - 64;
            let (in_header, in_footer) = if number == Number::Version { (8, 48) } else { (12, 44) };
            bytes[in_header] ^= 3;
            bytes[footer + in_footer] ^= 3;
            if seals {
                forge::seal_sstable_header(id, bytes);
                forge::seal_footer(id, bytes);
            }
        }
    };
    (name, Box::new(change))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Version,
    Features,
}

/// The directories in which one header says something else.
fn with_another_header(seals: bool) -> Vec<(String, Files)> {
    let (base, flushed) = (base(), flushed());
    let files = [(&base, ".manifest"), (&base, ".wal"), (&flushed, ".idx"), (&flushed, ".row")];
    let one = |(files, ending)| {
        [Number::Version, Number::Features].map(|number| {
            let forgery = in_header(files, ending, number, seals);
            (forgery.0.clone(), changed(files, &forgery))
        })
    };
    files.into_iter().flat_map(one).collect()
}

fn changed(files: &Files, (name, change): &Forgery) -> Files {
    let mut files = files.clone();
    change(files.get_mut(name).expect("it is there"));
    files
}

#[test]
fn what_a_newer_version_wrote_is_refused_as_newer_and_no_byte_changes() {
    let files = base();
    let manifest = file(&files, ".manifest");
    let mut forgeries: Vec<Forgery> = Vec::new();
    for text in [
        format!("nyala 2 0 {} ", manifest.1),
        format!("nyala 1 4 {} ", manifest.1),
        "nyala 4000000000 ffff and whatever they write then ".to_owned(),
    ] {
        forgeries.push(("CURRENT".to_owned(), Box::new(move |bytes| *bytes = forge::current(&text))));
    }
    // An edit with a field that nobody knows: 99, a number.
    let (name, id) = manifest;
    forgeries.push((
        name,
        Box::new(move |bytes| forge::append_record(Log::Manifest, id, bytes, 0xd1, &[0x98, 0x06, 1])),
    ));
    let of_one_file = forgeries.iter().map(|forgery| (forgery.0.clone(), changed(&files, forgery)));
    for (name, files) in of_one_file.chain(with_another_header(true)) {
        let errors = refusals(&files, &name);
        assert_eq!(errors.len(), 3, "{name}: it was taken");
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::UnsupportedFormat, "{name}: {error}");
            assert!(error.to_string().contains("a newer version of Nyala wrote it"), "{error}");
        }
    }
}

#[test]
fn a_damaged_version_or_feature_is_damage() {
    let files = base();
    let of_current: [Forgery; 2] = [
        ("CURRENT".to_owned(), Box::new(|bytes| bytes[6] ^= 3)),
        ("CURRENT".to_owned(), Box::new(|bytes| bytes[8] ^= 1)),
    ];
    let of_current = of_current.iter().map(|forgery| (forgery.0.clone(), changed(&files, forgery)));
    for (name, files) in of_current.chain(with_another_header(false)) {
        let errors = refusals(&files, &name);
        // A repair takes what it can read.
        assert_eq!(errors.len(), 2, "{name}: it was taken");
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Corruption, "{name}: {error}");
        }
    }
}

/// Who writes other kinds of records or operations sets a feature. Without it they are damage, and are never skipped.
#[test]
fn unknown_records_and_operations_are_damage_and_no_end_of_the_log() {
    let files = base();
    let (name, id) = file(&files, ".wal");
    let records = forge::records(&files[&name]);
    let record = *records.iter().rfind(|record| record.end > record.body + 1).expect("a batch");
    let in_the_record = |change: fn(&mut [u8])| -> Forgery {
        let change = move |bytes: &mut Vec<u8>| {
            change(&mut bytes[record.offset..record.end]);
            forge::seal_record(Log::Wal, id, bytes, record);
        };
        (name.clone(), Box::new(change))
    };
    let forgeries = [
        in_the_record(|record| record[0] = 0xd2),
        in_the_record(|record| record[54] = 9),
        // An update that is not resolved yet stands in memory only.
        in_the_record(|record| record[54] = 3),
        (name.clone(), Box::new(move |bytes| forge::append_record(Log::Wal, id, bytes, 0xd2, b"later"))),
    ];
    for forgery in &forgeries {
        let errors = refusals(&changed(&files, forgery), &forgery.0);
        assert_eq!(errors.len(), 2, "{}: it was taken", forgery.0);
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Corruption, "{}: {error}", forgery.0);
        }
    }
}

/// What is kept for later is zeros, and not looked at: a later version may say there what nobody needs to know.
#[test]
fn bytes_kept_for_later_are_not_looked_at() {
    let fixture = Fixture::of_version_1("checkpoint");
    let mut files = fixture.files.clone();
    for (ending, log) in [(".wal", Log::Wal), (".manifest", Log::Manifest)] {
        let (name, id) = file(&files, ending);
        let bytes = files.get_mut(&name).expect("it is there");
        assert_eq!(bytes[40..60], [0; 20]);
        bytes[40..60].fill(7);
        forge::seal_segment_header(log, id, bytes);
    }
    let (name, id) = file(&files, ".idx");
    let bytes = files.get_mut(&name).expect("it is there");
    assert_eq!((bytes[11], bytes[bytes.len() - 64 + 51]), (0, 0));
    bytes[11] = 7;
    forge::seal_sstable_header(id, bytes);
    let dir = tempfile::tempdir().expect("a temporary folder");
    put(&files, dir.path());
    let engine = Engine::open_read_only(dir.path(), options()).expect("nothing is wrong");
    assert_eq!(crate::expected::Contents::read(&engine).lines(), fixture.lines);
}
