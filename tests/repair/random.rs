//! Damage at random places, and what a repair makes of it.

use std::path::Path;

use nyala::vfs::{Fs, SimFs};
use nyala::{RepairOptions, repair};

use crate::choices::Random;
use crate::history::killed;
use crate::support::{DIR, options, read};

fn rounds() -> u64 {
    let of = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let long = if std::env::var_os("NYALA_LONG").is_some() { 3000 } else { 60 };
    of("NYALA_REPAIR_ROUNDS").unwrap_or(long)
}

fn first_seed() -> u64 {
    std::env::var("NYALA_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Damages one place. Gives what was done.
fn damage(disk: &SimFs, random: &mut Random) -> String {
    let mut paths: Vec<_> = disk.paths().into_iter().filter(|path| path.starts_with(DIR)).collect();
    paths.retain(|path| !read(disk, path).is_empty());
    let path = paths[random.below(paths.len())].clone();
    let len = read(disk, &path).len();
    // The beginning of a preallocated log, not its zeros.
    let written = read(disk, &path).iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
    let at = random.below(written);
    let name = path.display().to_string();
    match random.below(10) {
        0 => {
            disk.remove(&path).expect("it is there");
            format!("{name} removed")
        }
        1 => {
            disk.damage(&path, |bytes| bytes.truncate(at)).expect("it is there");
            format!("{name} cut at {at} of {len}")
        }
        2 | 3 => {
            let end = (at + 512).min(len);
            disk.damage(&path, |bytes| bytes[at..end].fill(0)).expect("it is there");
            format!("{name}: zeros from {at} to {end}")
        }
        4 => {
            let other = paths[random.below(paths.len())].clone();
            let (one, two) = (read(disk, &path), read(disk, &other));
            disk.damage(&path, |bytes| *bytes = two).expect("it is there");
            disk.damage(&other, |bytes| *bytes = one).expect("it is there");
            format!("{name} and {} exchanged", other.display())
        }
        _ => {
            let bit = random.below(8);
            disk.damage(&path, |bytes| bytes[at] ^= 1 << bit).expect("it is there");
            format!("{name}: bit {bit} of byte {at} of {len}")
        }
    }
}

#[test]
fn whatever_is_damaged_no_row_is_made_up_and_what_is_missing_is_told() {
    let (mut whole, mut lossy, mut changed_keys) = (0, 0, 0);
    let mut failed = Vec::new();
    for seed in first_seed()..first_seed() + rounds() {
        let mut random = Random::new(seed.wrapping_mul(7919));
        let (disk, history) = killed(seed);
        let count = 1 + random.below(4);
        let damages: Vec<String> = (0..count).map(|_| damage(&disk, &mut random)).collect();
        let context = format!(
            "seed {seed} ({}); replay with NYALA_SEED={seed} NYALA_REPAIR_ROUNDS=1 cargo test -p nyala --test repair \
             random -- --nocapture",
            damages.join("; ")
        );
        let engine = options(&disk);
        let accepting = RepairOptions { accept_loss: true, engine, ..RepairOptions::default() };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let report = repair(DIR, "/new", &accepting).unwrap_or_else(|error| panic!("{context}: {error}"));
            let changed = history.assert_repaired(&disk, Path::new("/new"), &report, &context);
            (changed, report.is_lossless())
        }));
        match outcome {
            Ok((changed, is_lossless)) => {
                changed_keys += changed;
                if is_lossless { whole += 1 } else { lossy += 1 }
            }
            Err(_) => failed.push(seed),
        }
    }
    assert!(failed.is_empty(), "seeds {failed:?}; what went wrong is told above");
    println!("{whole} whole, {lossy} with losses, {changed_keys} keys changed");
    if rounds() >= 60 {
        assert!(whole > 1 && lossy > 20 && changed_keys > 100, "{whole} {lossy} {changed_keys}");
    }
}
