//! Every single bit.

use std::collections::BTreeSet;

use crate::image::Image;
use crate::judge::{Change, Damage, Outcome};
use crate::map::{Map, OBSOLETE, kind_of};
use crate::run::{is_chosen, is_long, seed, share, try_all};

/// The only places where a flipped bit changes nothing: nobody has written there yet, or nobody reads there any more.
const HARMLESS: [(&str, &str); 7] = [
    ("idx", OBSOLETE),
    ("row", OBSOLETE),
    ("manifest", "zeros after the last record"),
    ("manifest", "zeros right after the last record"),
    ("wal", "header of an unused segment"),
    ("wal", "zeros after the last record"),
    ("wal", "zeros right after the last record"),
];

#[test]
fn every_flipped_bit_is_detected_or_harmless() {
    let (seed, share) = (seed(), share());
    println!("seed {seed}, one bit in {share}");
    let image = Image::make(seed, 1);
    let map = Map::of(&image);
    let files: Vec<(&String, usize)> =
        image.files.iter().map(|(name, bytes)| (name, bytes.len() * 8)).collect();
    let bits: usize = files.iter().map(|(_, bits)| bits).sum();
    let tally = try_all("every_flipped_bit", &image, bits, |number| {
        let mut bit = number;
        let (name, _) = files.iter().find(|(_, bits)| {
            let is_here = bit < *bits;
            bit -= if is_here { 0 } else { *bits };
            is_here
        })?;
        let region = (kind_of(name), map.region(name, bit / 8).what);
        // Where nothing can happen, few will do.
        let is_plain = [OBSOLETE, "zeros after the last record"].contains(&region.1);
        let share = if share > 1 && is_plain { share * 16 } else { share };
        if !is_chosen(seed, number, share) {
            return None;
        }
        let what = format!("bit {} of byte {} of {name}", bit % 8, bit / 8);
        Some(Damage::new(what, region).change(name, Change::Flip { bit }))
    });
    println!("{tally}");
    let harmless = tally.regions_with(Outcome::Harmless);
    let known = BTreeSet::from(HARMLESS);
    assert!(harmless.is_subset(&known), "harmless beyond what is known: {:?}", &harmless - &known);
    assert_eq!(tally.of(Outcome::Legal), 0, "a flipped bit is never taken for an interrupted write");
    let written = (bits - 8 * map.unused()) as u64;
    assert!(tally.total() >= written / share, "{} of {written}", tally.total());
    let all: BTreeSet<_> = map
        .regions
        .iter()
        .flat_map(|(name, regions)| regions.iter().map(|region| (kind_of(name), region.what)))
        .collect();
    if is_long() {
        assert_eq!(tally.regions(), all, "every region is damaged");
    }
}
