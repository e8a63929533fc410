//! What `docs/recovery.md` allows for damage to a log: at the end, above everything that is attested, what looks
//! unwritten ends it.
//!
//! Worked out from the bytes before and after the damage and from [`crate::map`], not from what the engine says.

use crate::image::{Files, Image};
use crate::judge::Damage;
use crate::map::{Map, Position, kind_of};

/// Notes in `damage` what may come of it that the file `name` is now `now` (`None`: it is gone). `looks_unwritten`:
/// whether the damage may be taken for a write that was interrupted at all.
pub(crate) fn allow(
    mut damage: Damage,
    image: &Image,
    map: &Map,
    name: &str,
    now: Option<&[u8]>,
    looks_unwritten: bool,
) -> Damage {
    let log = match kind_of(name) {
        "wal" => &map.wal,
        "manifest" => &map.manifest,
        _ => return damage,
    };
    let before = &image.files[name];
    let is_intact = |range: std::ops::Range<usize>| {
        now.is_some_and(|now| now.get(range.clone()).is_some_and(|bytes| *bytes == before[range]))
    };
    let mut attested: Option<Position> = map.attested_by_manifest(name);
    let mut broken: Option<Position> = None;
    let mut last_version = None;
    for segment in &log.segments {
        let is_hit = segment.name == name;
        if is_hit && !is_intact(0..64) {
            broken = broken.or(Some((segment.number, 0)));
        }
        for record in &segment.records {
            if is_hit && !is_intact(record.range.clone()) {
                broken = broken.or(Some((segment.number, record.range.start as u64)));
                continue;
            }
            attested = attested.max(Some(record.attested));
            if broken.is_none() && record.is_data {
                last_version = Some(record.first_version);
            }
        }
    }
    let Some(broken) = broken else { return damage };
    if kind_of(name) == "manifest" {
        // An older manifest is noticed by what it says of other files.
        damage.may_name.extend(image.earlier.iter().flat_map(|earlier| earlier.files.keys().cloned()));
        damage.may_name.extend(image.files.keys().cloned());
    }
    if attested > Some(broken) {
        damage.must_be_detected = true;
    } else if looks_unwritten && kind_of(name) == "wal" {
        let moment =
            last_version.map_or(0, |version| image.moment_of(nyala::Version(version))).max(image.flushed);
        damage.legal.push(moment);
        damage.tells = is_written_from(&image.files, map, name, now, broken);
    }
    damage
}

/// Whether bytes that are not zero stand in the log from `at` on.
fn is_written_from(files: &Files, map: &Map, name: &str, now: Option<&[u8]>, at: Position) -> bool {
    map.wal.segments.iter().any(|segment| {
        let bytes = if segment.name == name { now.unwrap_or_default() } else { &files[&segment.name] };
        let from = match segment.number.cmp(&at.0) {
            std::cmp::Ordering::Less => return false,
            // What is left of a header is nobody's data.
            std::cmp::Ordering::Equal => (at.1 as usize).max(64),
            std::cmp::Ordering::Greater => 0,
        };
        bytes.get(from..).is_some_and(|rest| rest.iter().any(|byte| *byte != 0))
    })
}
