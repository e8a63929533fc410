//! What each byte of a database is, read from the files by what `docs/file-formats.md` says and by nothing of the
//! engine.
//!
//! Invariant: the regions of a file cover each of its bytes once. So there is no byte of which nobody knows what it is
//! for, and what is harmless is known by its region.

mod log;
mod manifest;
mod sstable;

use std::collections::BTreeMap;
use std::ops::Range;

pub(crate) use self::log::{Log, Position};
use self::manifest::Named;
use crate::image::{Files, Image};

/// A part of a file with one purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) range: Range<usize>,
    pub(crate) what: &'static str,
}

/// What all of a file is that no edit names any more and that was not removed yet.
pub(crate) const OBSOLETE: &str = "obsolete file";

/// What kind of file has this name.
pub(crate) fn kind_of(name: &str) -> &'static str {
    match name.rsplit_once('.') {
        Some((_, "wal")) => "wal",
        Some((_, "manifest")) => "manifest",
        Some((_, "idx")) => "idx",
        Some((_, "row")) => "row",
        None if name == "CURRENT" => "CURRENT",
        None if name == "LOCK" => "LOCK",
        _ => panic!("{name} is no file of ours"),
    }
}

/// The number in a file's name.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    name.split_once('.').and_then(|(number, _)| number.parse().ok())
}

/// The regions of all files.
pub(crate) struct Map {
    pub(crate) regions: BTreeMap<String, Vec<Region>>,
    /// The blocks of each sstable, trailers included.
    pub(crate) blocks: BTreeMap<String, Vec<Range<usize>>>,
    pub(crate) wal: Log,
    pub(crate) manifest: Log,
    named: Named,
    /// Keys that have several versions in one index file.
    pub(crate) several_versions: usize,
    /// Entries that are deletions.
    pub(crate) deletions: usize,
}

impl Map {
    pub(crate) fn of(image: &Image) -> Map {
        Map::of_files(&image.files)
    }

    pub(crate) fn of_files(files: &Files) -> Map {
        let mut map = Map {
            regions: BTreeMap::new(),
            blocks: BTreeMap::new(),
            wal: Log::read(files, "wal"),
            manifest: Log::read(files, "manifest"),
            named: Named::default(),
            several_versions: 0,
            deletions: 0,
        };
        map.manifest.bodies(files).for_each(|body| map.named.apply(body));
        for (name, bytes) in files {
            let regions = match kind_of(name) {
                "wal" => map.wal.regions(name, bytes),
                "manifest" => map.manifest.regions(name, bytes),
                "idx" | "row" if !map.is_named(name) => {
                    vec![Region { range: 0..bytes.len(), what: OBSOLETE }]
                }
                kind @ ("idx" | "row") => {
                    let table = sstable::Sstable::read(bytes, kind == "idx");
                    map.several_versions += table.several_versions;
                    map.deletions += table.deletions;
                    map.blocks.insert(name.clone(), table.blocks);
                    table.regions
                }
                _ if bytes.is_empty() => Vec::new(),
                _ => vec![Region { range: 0..bytes.len(), what: "all of it" }],
            };
            let mut end = 0;
            for region in &regions {
                assert_eq!(region.range.start, end, "{name}: {regions:?}");
                end = region.range.end;
            }
            assert_eq!(end, bytes.len(), "{name}: {regions:?}");
            map.regions.insert(name.clone(), regions);
        }
        map
    }

    /// Up to where the manifest says that the log was synced.
    pub(crate) fn attested_by_manifest(&self) -> Option<Position> {
        self.named.attested.iter().copied().max()
    }

    /// Whether the manifest names this index or row file. The others are obsolete: nobody reads them.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        number_of(name).is_some_and(|number| self.named.has(number))
    }

    /// What damage to a whole file is counted under: `how`, unless nobody needs the file.
    pub(crate) fn how(&self, name: &str, how: &'static str) -> &'static str {
        if ["idx", "row"].contains(&kind_of(name)) && !self.is_named(name) { OBSOLETE } else { how }
    }

    /// What the byte is part of.
    pub(crate) fn region(&self, name: &str, at: usize) -> &Region {
        let regions = &self.regions[name];
        &regions[regions.partition_point(|region| region.range.end <= at)]
    }

    /// How many bytes nobody has written yet, or nobody reads any more.
    pub(crate) fn unused(&self) -> usize {
        let is_unused = |region: &&Region| region.what.starts_with("zeros") || region.what == OBSOLETE;
        self.regions.values().flatten().filter(is_unused).map(|region| region.range.len()).sum()
    }

    /// How many bytes of this kind of region there are.
    pub(crate) fn bytes_of(&self, kind: &str, what: &str) -> usize {
        let files = self.regions.iter().filter(|(name, _)| kind_of(name) == kind);
        let regions = files.flat_map(|(_, regions)| regions).filter(|region| region.what == what);
        regions.map(|region| region.range.len()).sum()
    }
}

/// Little-endian numbers.
fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    (0..N).rev().fold(0, |number, index| number << 8 | u64::from(bytes[at + index]))
}

/// A varint at the front of `bytes`, which moves behind it.
fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    number
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (head, rest) = bytes.split_at(count);
    *bytes = rest;
    head
}
