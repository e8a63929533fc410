//! The manifest, and `CURRENT`.
//!
//! Input: a byte of flags, then what they say. The lowest two bits: 0 segments, as [`fix::log::files`]; 1 the bodies of
//! edits, each with a length of two bytes before; 2 `CURRENT`. 4: checksums are put right. 8: in segments, also places
//! and marks. 16: also lengths that reach too far.
//!
//! Asked: what is accepted says the same, and all of it, when it is encoded and read again; segments say what their
//! edits say; reading writes nothing; a `CURRENT` that is accepted is the line that is written for this manifest, to
//! the byte.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nyala::fuzzing;
use nyala::vfs::Fs;
use prost::Message;

use crate::Verdict;
use crate::disk::Disk;
use crate::fix;
use crate::fix::log::{DATA, Flavor, OwnedRecord, Segment, Wishes};
use crate::input::Input;
use crate::pb;

const DIR: &str = "/db";

/// Reads an input.
pub fn run(data: &[u8]) -> Verdict {
    let mut input = Input::new(data);
    let flags = input.u8();
    match flags & 3 {
        2 | 3 => current(input.rest(), flags & 4 != 0),
        1 => edits(input),
        _ => segments(input, flags),
    }
}

fn current(bytes: &[u8], fixes: bool) -> Verdict {
    let bytes = if fixes { fix::current::fixed(bytes) } else { bytes.to_vec() };
    let parsed = fuzzing::parse_current(&bytes);
    if let Ok(manifest) = &parsed {
        assert_eq!(fuzzing::current_line(*manifest).as_bytes(), bytes, "there is one line for a manifest");
    }
    Verdict::of(&parsed)
}

fn edits(mut input: Input<'_>) -> Verdict {
    let mut bodies = Vec::new();
    while !input.is_empty() {
        bodies.push(input.short_bytes());
    }
    for body in &bodies {
        if let Ok(edit) = fuzzing::recode_edit(body) {
            let again = fuzzing::recode_edit(&edit).expect("what was encoded can be decoded");
            assert_eq!(again, edit, "an edit says the same when it is read again");
            assert_eq!(edit.len(), body.len(), "nothing that an edit says is left out");
        }
    }
    let sum = fuzzing::add_up_edits(bodies.iter().copied());
    if let Ok(sum) = &sum {
        check_sum(sum);
        compare(&bodies, sum);
    }
    Verdict::of(&sum)
}

/// Numbers only grow, and a tablet that is left is flushed as far as any edit says.
fn compare(bodies: &[&[u8]], sum: &[u8]) {
    let decode = |body: &[u8]| pb::Edit::decode(body).expect("what adds up can be decoded");
    let sum = decode(sum);
    let edits: Vec<pb::Edit> = bodies.iter().map(|body| decode(body)).collect();
    let greatest = |of: fn(&pb::Edit) -> Option<u64>| edits.iter().filter_map(of).max().unwrap_or(0);
    for of in [
        |edit: &pb::Edit| edit.log_start,
        |edit: &pb::Edit| edit.next_file,
        |edit: &pb::Edit| edit.version_ceiling,
        |edit: &pb::Edit| edit.durable_through,
        |edit: &pb::Edit| edit.next_table.map(u64::from),
        |edit: &pb::Edit| edit.next_tablet.map(u64::from),
    ] {
        assert_eq!(of(&sum), Some(greatest(of)), "numbers only grow");
    }
    for tablet in &sum.tablets {
        let of = |edit: &pb::TabletEdit| (edit.tablet == tablet.tablet).then_some(edit.flushed_through)?;
        // A tablet may be dropped, and another one come to have its id.
        let said = edits.iter().flat_map(|edit| &edit.tablets).filter_map(of).max().unwrap_or(0);
        let dropped = edits.iter().any(|edit| !edit.dropped_tables.is_empty());
        assert!(dropped || tablet.flushed_through == Some(said), "tablet {}", tablet.tablet);
    }
}

/// The one edit that says what others add up to is complete.
fn check_sum(sum: &[u8]) {
    let again = fuzzing::add_up_edits([sum]).expect("a sum is an edit");
    assert_eq!(again, sum, "one edit says all that the edits say");
}

fn segments(input: Input<'_>, flags: u8) -> Verdict {
    let mut files = fix::log::files(input);
    if flags & 4 != 0 {
        let wishes = Wishes { places: flags & 8 != 0, lengths: flags & 16 != 0 };
        for (id, bytes) in &mut files {
            fix::log::fix(bytes, Flavor::Manifest, *id, wishes);
        }
    }
    let Some(start) = files.iter().map(|(id, _)| *id).min() else { return Verdict::Refused };
    let path = |id: u64| -> PathBuf { Path::new(DIR).join(format!("{id}.manifest")) };
    let disk = Disk::with(files.iter().map(|(id, bytes)| (path(*id), bytes.clone())));
    let present: Vec<u64> = files.iter().map(|(id, _)| *id).collect();
    let fs: Arc<dyn Fs> = Arc::new(disk.clone());
    let loaded = fuzzing::load_manifest(&fs, Path::new(DIR), start, &present);
    if let Ok(sum) = &loaded {
        check_sum(sum);
        let again = fuzzing::load_manifest(&fs, Path::new(DIR), start, &present).expect("nothing changed");
        assert_eq!(&again, sum);
        // Written as one record of another manifest, it is the same.
        let record = OwnedRecord { kind: DATA, first_version: 0, attested: (0, 0), body: sum.clone() };
        let segment = Segment { predecessor: (0, 0), records: vec![record], tail: Vec::new() };
        let other = Disk::with([(path(99), segment.put_together(Flavor::Manifest, 99))]);
        let fs: Arc<dyn Fs> = Arc::new(other);
        let moved = fuzzing::load_manifest(&fs, Path::new(DIR), 99, &[99]).expect("a sum is an edit");
        assert_eq!(&moved, sum);
    }
    for (id, bytes) in &files {
        assert_eq!(disk.files().get(&path(*id)), Some(bytes), "reading writes nothing");
    }
    Verdict::of(&loaded)
}
