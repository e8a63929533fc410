//! Files that end too early, and files that are missing, empty or too long; sectors and pages that are zeros, all ones,
//! another place's, or what they were before.

use std::collections::BTreeSet;

use crate::image::Image;
use crate::judge::{Change, Damage, Outcome};
use crate::map::{Map, OBSOLETE, kind_of};
use crate::run::{is_chosen, is_long, seed, share, try_all};
use crate::tail;
use crate::tally::Tally;

/// Every file cut at every length.
fn cut(image: &Image, share: u64) {
    let map = Map::of(image);
    let seed = seed();
    let lengths: Vec<(&String, usize)> =
        image.files.iter().flat_map(|(name, bytes)| (0..bytes.len()).map(move |len| (name, len))).collect();
    // At the edges of regions, which are those of records and blocks, always.
    let edges: BTreeSet<(&String, usize)> = map
        .regions
        .iter()
        .flat_map(|(name, regions)| regions.iter().map(move |region| (name, region.range.start)))
        .flat_map(|(name, at)| [(name, at.saturating_sub(1)), (name, at), (name, at + 1)])
        .collect();
    let tally = try_all("every_file_cut", image, lengths.len(), |number| {
        let (name, len) = lengths[number];
        let what = map.region(name, len).what;
        let is_plain = [OBSOLETE, "zeros after the last record"].contains(&what);
        let share = if share > 1 && is_plain { share * 16 } else { share };
        if !(is_chosen(seed, number, share) || edges.contains(&(name, len))) {
            return None;
        }
        let damage = Damage::new(format!("{name} cut to {len} bytes"), (kind_of(name), what));
        let damage = damage.change(name, Change::Cut { len });
        Some(tail::allow(damage, image, &map, &[(name, Some(&image.files[name][..len]))], true))
    });
    println!("{tally}");
    expect_harmless(&tally, &[]);
    let legal = tally.regions_with(Outcome::Legal);
    assert!(legal.iter().all(|(kind, _)| *kind == "wal"), "{legal:?}");
    assert!(tally.of(Outcome::Legal) > 10, "the tail that is not attested is cut too");
}

#[test]
fn every_file_cut_at_every_length_is_detected_or_harmless() {
    let (seed, share) = (seed(), share());
    println!("seed {seed}, one length in {}", share.div_ceil(4));
    cut(&Image::make(seed, 1), share.div_ceil(4));
    if is_long() {
        cut(&Image::make(seed, 16), 199);
    }
}

/// Nothing is harmless but damage to logs above what is attested, and to files that nobody needs.
fn expect_harmless(tally: &Tally, unneeded: &[&str]) {
    let harmless = tally.regions_with(Outcome::Harmless);
    let is_known = |(kind, region): &(&str, &str)| {
        ["wal", "manifest"].contains(kind) || *region == OBSOLETE || unneeded.contains(kind)
    };
    assert!(harmless.iter().all(is_known), "{harmless:?}");
}

/// What can become of a sector or page.
fn sectors(image: &Image, share: u64) {
    let map = Map::of(image);
    let seed = seed();
    let mut damages = Vec::new();
    for (name, before) in &image.files {
        for (unit, unit_name) in [(512, "sector"), (4096, "page")] {
            for (index, part) in before.chunks(unit).enumerate() {
                let range = index * unit..index * unit + part.len();
                let other = before.chunks(unit).nth(index + 1).or_else(|| before.chunks(unit).next());
                let mut fill = |how: &'static str, bytes: Vec<u8>, looks_unwritten| {
                    if bytes != *part && bytes.len() == part.len() {
                        let mut now = before.clone();
                        now[range.clone()].copy_from_slice(&bytes);
                        damages.push((
                            name,
                            format!("{unit_name} {index} of {name} is {how}"),
                            how,
                            now,
                            looks_unwritten,
                        ));
                    }
                };
                fill("zeros", vec![0; part.len()], true);
                fill("all ones", vec![0xff; part.len()], false);
                fill("another one", other.map(<[u8]>::to_vec).unwrap_or_default(), true);
                for earlier in &image.earlier {
                    let old = earlier.files.get(name).and_then(|old| old.get(range.clone()));
                    fill("what it was before", old.map(<[u8]>::to_vec).unwrap_or_default(), true);
                }
            }
        }
    }
    assert!(damages.len() > 600, "{} damages", damages.len());
    let tally = try_all("every_sector", image, damages.len(), |number| {
        let (name, what, how, now, looks_unwritten) = &damages[number];
        if !is_chosen(seed, number, share) {
            return None;
        }
        let damage = Damage::new(what.clone(), (kind_of(name), map.how(name, how)));
        let damage = damage.change(name, Change::Put(now.clone()));
        Some(tail::allow(damage, image, &map, &[(name, Some(now))], *looks_unwritten))
    });
    println!("{tally}");
    expect_harmless(&tally, &[]);
    assert!(tally.of(Outcome::Legal) > 0, "the tail that is not attested is hit too");
    assert!(tally.of(Outcome::ByRead) > 100 / share, "blocks are hit too");
}

#[test]
fn every_sector_and_page_zeroed_or_exchanged_is_detected_or_harmless() {
    println!("seed {}", seed());
    sectors(&Image::make(seed(), 1), 1);
    if is_long() {
        sectors(&Image::make(seed(), 16), 7);
    }
}

#[test]
fn every_file_missing_empty_or_longer_is_detected_or_harmless() {
    let image = Image::make(seed(), 1);
    let map = Map::of(&image);
    let mut damages = Vec::new();
    for (name, bytes) in &image.files {
        let mut put = |how: &'static str, now: Option<Vec<u8>>| damages.push((name, how, now));
        put("missing", None);
        put("empty", Some(Vec::new()));
        put("all zeros", Some(vec![0; bytes.len()]));
        put("longer by a zero", Some([&bytes[..], &[0]].concat()));
        put("longer by a page", Some([&bytes[..], &[0x5a; 4096]].concat()));
    }
    let tally = try_all("every_file_missing", &image, damages.len(), |number| {
        let (name, how, now) = &damages[number];
        let damage = Damage::new(format!("{name} is {how}"), (kind_of(name), map.how(name, how)));
        let damage = damage.change(name, now.clone().map_or(Change::Remove, Change::Put));
        Some(tail::allow(damage, &image, &map, &[(name, now.as_deref())], true))
    });
    println!("{tally}");
    // It is empty, and locked whatever is in it.
    expect_harmless(&tally, &["LOCK"]);
}
