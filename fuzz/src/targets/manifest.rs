//! The manifest, and `CURRENT`.
//!
//! Input: a byte of flags, then what they say. The lowest two bits: 0 segments, as [`fix::log::files`]; 1 the bodies of
//! edits, each with a length of two bytes before; 2 `CURRENT`. 4: checksums are put right. 8: in segments, also places
//! and marks. 16: also lengths that reach too far.
//!
//! Asked: what is accepted says the same when it is encoded and read again; segments say what their edits say; reading
//! writes nothing; a `CURRENT` that is accepted is the line that is written for this manifest, to the byte.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nyala::fuzzing;
use nyala::vfs::Fs;

use crate::Verdict;
use crate::disk::Disk;
use crate::fix;
use crate::fix::log::{Flavor, OwnedRecord, Segment, Wishes};
use crate::input::Input;

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
        }
    }
    let sum = fuzzing::add_up_edits(bodies.iter().copied());
    if let Ok(sum) = &sum {
        check_sum(sum);
    }
    Verdict::of(&sum)
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
        let record = OwnedRecord { kind: 1, first_version: 0, attested: (0, 0), body: sum.clone() };
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
