//! Blocks, records and files that changed places, or stand twice.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::image::Image;
use crate::judge::{Change, Damage, Outcome};
use crate::map::{Map, OBSOLETE, kind_of};
use crate::random::Random;
use crate::run::{is_long, seed, try_all};
use crate::tail;

/// A part of a file that can be put somewhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part<'a> {
    file: &'a String,
    range: Range<usize>,
}

/// New contents of files.
type Changed<'a> = Vec<(&'a String, Vec<u8>)>;

/// `one` with the bytes of `other` in the place of `part`.
fn replaced(one: &[u8], part: &Range<usize>, other: &[u8]) -> Vec<u8> {
    [&one[..part.start], other, &one[part.end..]].concat()
}

/// Exchanges two parts, of any lengths; what lies behind the first moves along if they differ.
fn exchanged<'a>(image: &Image, a: &Part<'a>, b: &Part<'a>) -> Changed<'a> {
    let (in_a, in_b) = (&image.files[a.file], &image.files[b.file]);
    let (bytes_a, bytes_b) = (&in_a[a.range.clone()], &in_b[b.range.clone()]);
    if a.file != b.file {
        let now_b = replaced(in_b, &b.range, bytes_a);
        return vec![(a.file, replaced(in_a, &a.range, bytes_b)), (b.file, now_b)];
    }
    let (first, second) = if a.range.start < b.range.start { (a, b) } else { (b, a) };
    let late = replaced(in_a, &second.range, &in_a[first.range.clone()]);
    vec![(a.file, replaced(&late, &first.range, &in_a[second.range.clone()]))]
}

/// Puts `a` where `b` is too, if it fits.
fn doubled<'a>(image: &Image, a: &Part<'a>, b: &Part<'a>) -> Changed<'a> {
    let bytes = &image.files[a.file][a.range.clone()];
    vec![(b.file, replaced(&image.files[b.file], &b.range, bytes))]
}

/// Tries each pair of parts of files of one kind, or `most` pairs of equal length and as many others, by seed. Only
/// files of the kinds `ending_early` may not need what changed places.
fn pairs(test: &str, image: &Image, parts: &[Part<'_>], most: usize, ending_early: &[&str]) {
    let map = Map::of(image);
    let mut damages = Vec::new();
    let mut equal = 0;
    for (index, a) in parts.iter().enumerate() {
        for b in parts[index + 1..].iter().filter(|b| kind_of(b.file) == kind_of(a.file)) {
            if image.files[a.file][a.range.clone()] == image.files[b.file][b.range.clone()] {
                continue;
            }
            let is_equal = a.range.len() == b.range.len();
            equal += usize::from(is_equal);
            damages.push((a, b, if is_equal { "exchanged" } else { "exchanged, other lengths" }, is_equal));
            if is_equal {
                damages.push((a, b, "there twice", is_equal));
            }
        }
    }
    // Those of equal length are the ones that are hard to see.
    assert!(equal > 5, "{test}: {equal} pairs of equal length");
    let mut random = Random::of(&[seed(), 58]);
    let chance = |count: usize| count.div_ceil(most) as u64;
    let (for_equal, for_others) = (chance(2 * equal), chance(damages.len()));
    damages.retain(|(.., is_equal)| random.number(if *is_equal { for_equal } else { for_others }) == 0);
    let tally = try_all(test, image, damages.len(), |number| {
        let (a, b, how, _) = &damages[number];
        let changed = if *how == "there twice" { doubled(image, a, b) } else { exchanged(image, a, b) };
        let what = format!("{:?} of {} and {:?} of {} {how}", a.range, a.file, b.range, b.file);
        Some(damage(image, &map, what, how, &changed))
    });
    println!("{tally}");
    assert!(tally.of(Outcome::ByOpen) + tally.of(Outcome::ByRead) > 20);
    let harmless = tally.regions_with(Outcome::Harmless);
    let is_known = |(kind, region): &(&str, &str)| *region == OBSOLETE || ending_early.contains(kind);
    assert!(harmless.iter().all(is_known), "{harmless:?}");
}

fn damage(image: &Image, map: &Map, what: String, how: &'static str, changed: &Changed<'_>) -> Damage {
    // If one of them is in force, it must be noticed.
    let in_force = changed.iter().map(|(name, _)| *name).find(|name| map.how(name, how) != OBSOLETE);
    let first = in_force.unwrap_or(changed[0].0);
    let mut damage = Damage::new(what, (kind_of(first), map.how(first, how)));
    for (name, now) in changed {
        damage = damage.change(name, Change::Put(now.clone()));
    }
    // What was written for another place looks as if nobody had written here since.
    let changed: Vec<_> = changed.iter().map(|(name, now)| (name.as_str(), Some(&now[..]))).collect();
    tail::allow(damage, image, map, &changed, true)
}

#[test]
fn every_two_blocks_of_sstables_exchanged_are_detected() {
    println!("seed {}", seed());
    for (scale, most) in [(1, 3000), (16, 4000)] {
        if scale == 1 || is_long() {
            let image = Image::make(seed(), scale);
            let map = Map::of(&image);
            let blocks: Vec<_> = map
                .blocks
                .iter()
                .flat_map(|(file, blocks)| {
                    blocks.iter().map(move |block| Part { file, range: block.clone() })
                })
                .collect();
            pairs("every_two_blocks", &image, &blocks, most, &[]);
        }
    }
}

/// Blocks that differ in nothing but the versions of their entries and the places of their rows.
#[test]
fn every_two_blocks_of_runs_over_the_same_keys_exchanged_are_detected() {
    println!("seed {}", seed());
    let image = Image::twins(seed());
    let map = Map::of(&image);
    let mut by_place: BTreeMap<(&str, usize, usize), Vec<Part<'_>>> = BTreeMap::new();
    for (file, blocks) in map.blocks.iter().filter(|(file, _)| map.is_named(file)) {
        for range in blocks {
            let place = (kind_of(file), range.start, range.len());
            by_place.entry(place).or_default().push(Part { file, range: range.clone() });
        }
    }
    // Of rows, which say their version themselves, the first of each file are enough.
    by_place.retain(|(kind, start, _), parts| parts.len() > 1 && (*kind == "idx" || *start == 28));
    let twins: Vec<Part<'_>> = by_place.into_values().flatten().collect();
    assert!(twins.iter().any(|part| kind_of(part.file) == "idx"), "{twins:?}");
    pairs("every_two_blocks_of_runs", &image, &twins, 500, &[]);
}

#[test]
fn every_two_records_of_logs_exchanged_are_detected_or_look_unwritten() {
    println!("seed {}", seed());
    let image = Image::make(seed(), 1);
    let map = Map::of(&image);
    let mut records = Vec::new();
    for segment in map.wal.segments.iter().chain(&map.manifest.segments) {
        for record in &segment.records {
            records.push(Part { file: &segment.name, range: record.range.clone() });
        }
        // Headers too: a segment under another's header.
        records.push(Part { file: &segment.name, range: 0..64 });
    }
    // An edit that is not attested may be lost, and what it said may follow from the log.
    pairs("every_two_records", &image, &records, 3000, &["manifest"]);
}

#[test]
fn every_two_files_of_a_kind_exchanged_are_detected() {
    println!("seed {}", seed());
    for scale in [1, 16] {
        if scale == 1 || is_long() {
            files(&Image::make(seed(), scale));
        }
    }
}

fn files(image: &Image) {
    let map = Map::of(image);
    let names: Vec<&String> = image.files.keys().filter(|name| !image.files[*name].is_empty()).collect();
    let mut damages = Vec::new();
    for (index, a) in names.iter().enumerate() {
        for b in &names[index + 1..] {
            let is_a_kind = kind_of(a) == kind_of(b);
            let exchange = if is_a_kind { "exchanged" } else { "exchanged with another kind" };
            damages.push((exchange, vec![(*a, image.files[*b].clone()), (*b, image.files[*a].clone())]));
            if is_a_kind {
                damages.push(("is another one", vec![(*a, image.files[*b].clone())]));
                damages.push(("is another one", vec![(*b, image.files[*a].clone())]));
            }
        }
    }
    assert!(damages.len() > 300, "{} damages", damages.len());
    let tally = try_all("every_two_files", image, damages.len(), |number| {
        let (how, changed) = &damages[number];
        let names: Vec<_> = changed.iter().map(|(name, _)| name.as_str()).collect();
        Some(damage(image, &map, format!("{} {how}", names.join(" and ")), how, changed))
    });
    println!("{tally}");
    let harmless = tally.regions_with(Outcome::Harmless);
    assert!(harmless.iter().all(|(_, region)| *region == OBSOLETE), "{harmless:?}");
}
