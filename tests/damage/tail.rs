//! What `docs/recovery.md` allows for damage to a log: at the end, above everything that is attested, what looks
//! unwritten ends it.
//!
//! Worked out from the bytes before and after the damage and from [`crate::map`], not from what the engine says.

use std::ops::Range;

use crate::image::{Files, Image};
use crate::judge::Damage;
use crate::map::{Log, Map, Position, kind_of};

/// A file, and what it is now; `None` if it is gone.
pub(crate) type Changed<'a> = (&'a str, Option<&'a [u8]>);

/// Notes in `damage` what may come of it that all of these files of the image are others now. `looks_unwritten`: whether
/// the damage may be taken for a write that was interrupted at all.
pub(crate) fn allow(
    damage: Damage,
    image: &Image,
    map: &Map,
    changed: &[Changed<'_>],
    looks_unwritten: bool,
) -> Damage {
    let of_kind =
        |kind| changed.iter().copied().filter(|(name, _)| kind_of(name) == kind).collect::<Vec<_>>();
    let damage = in_wal(damage, image, map, &of_kind("wal"), looks_unwritten);
    in_manifest(damage, image, map, &of_kind("manifest"))
}

fn in_wal(
    mut damage: Damage,
    image: &Image,
    map: &Map,
    changed: &[Changed<'_>],
    looks_unwritten: bool,
) -> Damage {
    let left = Left::of(&map.wal, &image.files, changed);
    let Some(broken) = left.broken else { return damage };
    if left.attested.max(map.attested_by_manifest()) > Some(broken) {
        damage.must_be_detected = true;
    } else if looks_unwritten {
        let moment = left
            .last_version
            .map_or(0, |version| image.moment_of(nyala::Version(version)))
            .max(image.flushed);
        damage.legal.push(moment);
        damage.tells = is_written_from(&image.files, map, changed, broken);
    }
    damage
}

fn in_manifest(mut damage: Damage, image: &Image, map: &Map, changed: &[Changed<'_>]) -> Damage {
    let left = Left::of(&map.manifest, &image.files, changed);
    let Some(broken) = left.broken else { return damage };
    // An older manifest is noticed by what it says of other files.
    damage.may_name.extend(image.earlier.iter().flat_map(|earlier| earlier.files.keys().cloned()));
    damage.may_name.extend(image.files.keys().cloned());
    damage.must_be_detected |= left.attested > Some(broken);
    damage
}

/// What is left of a log.
#[derive(Default)]
struct Left {
    /// The first place that is not as it was.
    broken: Option<Position>,
    /// The greatest position that a record attests which is whole, wherever it stands.
    attested: Option<Position>,
    /// The first version of the last batch before `broken`.
    last_version: Option<u64>,
}

impl Left {
    fn of(log: &Log, files: &Files, changed: &[Changed<'_>]) -> Left {
        let mut left = Left::default();
        for segment in &log.segments {
            let (before, now) = (&files[&segment.name], bytes_now(files, changed, &segment.name));
            let is_intact = |range: Range<usize>| now.get(range.clone()) == before.get(range);
            if !is_intact(0..64) {
                left.broken = left.broken.or(Some((segment.number, 0)));
            }
            for record in &segment.records {
                if !is_intact(record.range.clone()) {
                    left.broken = left.broken.or(Some((segment.number, record.range.start as u64)));
                    continue;
                }
                left.attested = left.attested.max(Some(record.attested));
                if left.broken.is_none() && record.is_data {
                    left.last_version = Some(record.first_version);
                }
            }
        }
        left
    }
}

/// What a file of the image is now; nothing if it is gone.
fn bytes_now<'a>(files: &'a Files, changed: &[Changed<'a>], name: &str) -> &'a [u8] {
    let change = changed.iter().find(|(found, _)| *found == name);
    change.map_or(&files[name], |(_, now)| now.unwrap_or_default())
}

/// Whether bytes that are not zero stand in the log from `at` on.
fn is_written_from(files: &Files, map: &Map, changed: &[Changed<'_>], at: Position) -> bool {
    map.wal.segments.iter().any(|segment| {
        let bytes = bytes_now(files, changed, &segment.name);
        let from = match segment.number.cmp(&at.0) {
            std::cmp::Ordering::Less => return false,
            // What is left of a header is nobody's data.
            std::cmp::Ordering::Equal => (at.1 as usize).max(64),
            std::cmp::Ordering::Greater => 0,
        };
        bytes.get(from..).is_some_and(|rest| rest.iter().any(|byte| *byte != 0))
    })
}
