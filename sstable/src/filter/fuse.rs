//! Builds binary fuse filters of eight bits, in memory that it keeps from one filter to the next.
//!
//! What it builds is what `xorf` reads ([`xorf::BinaryFuse8Ref`]): the same hashes, the same cells, the same
//! descriptor. It stands here because a filter is a good part of the work of a compaction, and `xorf` takes some 35
//! bytes a key of fresh memory for each filter that it builds, wants its hashes sorted to be sure that they differ, and
//! allocates for each of them when debug assertions are on.
//!
//! A key has three cells, one in each of three neighbouring segments, and a fingerprint; a filter is a byte for each
//! cell, such that the three bytes of each key give its fingerprint. To find such bytes, keys are peeled off one by
//! one, always one that is alone in one of its cells; then, in the opposite order, that cell is set to what the other
//! two want.
//!
//! Partitions are small enough for all of this to stay in the second-level cache, so that hashes are not sorted first.
//! What comes to be alone waits in a queue: with a stack, each step would have to wait for what the one before pushed.
//!
//! Invariant: each hash that was put in is found. Hashes that come several times are put in once: they would never be
//! alone, so that peeling stops, and only then are they looked for.

/// How many seeds are tried. Peeling rarely fails twice.
const TRIES_MAX: u32 = 100;

/// Where the three cells of a key can lie, as the filter says it of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) seed: u64,
    /// Cells of a segment, a power of two.
    pub(crate) segment: u32,
    /// Cells of all segments but the last two.
    pub(crate) before_last_two: u32,
}

/// The memory that building takes.
#[derive(Debug, Default)]
pub(crate) struct FuseBuilder {
    /// The keys' hashes with the seed.
    mixed: Vec<u64>,
    /// Of each cell: all hashes of it, xored, and how many they are.
    cell_hashes: Vec<u64>,
    cell_counts: Vec<u8>,
    /// Cells that came to have one hash, in that order.
    alone: Vec<u32>,
    /// What was peeled off: a hash, and the cell that it was alone in.
    peeled: Vec<(u64, u32)>,
}

/// Why a try gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stuck;

impl FuseBuilder {
    /// Builds a filter of `hashes`, at least one, and puts its cells into `cells`. `None` if no seed is good enough.
    ///
    /// The hashes may be reordered.
    pub(crate) fn build(&mut self, hashes: &mut Vec<u64>, cells: &mut Vec<u8>) -> Option<Layout> {
        let mut random = 1;
        for try_number in 1..=TRIES_MAX {
            let seed = next_random(&mut random);
            // Just above a power of two the segments are too long for peeling to get through: every other try takes
            // shorter ones.
            let layout = Layout::new(hashes.len(), seed, try_number % 2 == 0)?;
            self.mix(hashes, layout);
            if self.fill(layout).and_then(|()| self.peel(layout)).is_ok() {
                self.assign(layout, cells);
                return Some(layout);
            }
            if try_number == 1 {
                hashes.sort_unstable();
                hashes.dedup();
            }
        }
        None
    }

    /// Mixes the hashes with the seed.
    fn mix(&mut self, hashes: &[u64], layout: Layout) {
        self.mixed.clear();
        self.mixed.extend(hashes.iter().map(|&hash| mix(hash, layout.seed)));
    }

    /// Puts each hash into its three cells.
    fn fill(&mut self, layout: Layout) -> Result<(), Stuck> {
        let cells = layout.cells();
        self.cell_hashes.clear();
        self.cell_hashes.resize(cells, 0);
        self.cell_counts.clear();
        self.cell_counts.resize(cells, 0);
        let (hashes, counts) = (&mut self.cell_hashes[..], &mut self.cell_counts[..]);
        let mut is_crowded = false;
        for &hash in &self.mixed {
            for cell in layout.cells_of(hash).map(|cell| cell as usize) {
                let (count, overflows) = counts[cell].overflowing_add(1);
                counts[cell] = count;
                hashes[cell] ^= hash;
                is_crowded |= overflows;
            }
        }
        // More than 255 hashes in a cell made for three: they are the same one.
        if is_crowded { Err(Stuck) } else { Ok(()) }
    }

    /// Takes hashes off that are alone in a cell, until none is left.
    fn peel(&mut self, layout: Layout) -> Result<(), Stuck> {
        // A cell comes to be alone once at most; the place behind the last takes a write that does not count.
        self.alone.resize(layout.cells() + 1, 0);
        self.peeled.resize(self.mixed.len(), (0, 0));
        let (hashes, counts) = (&mut self.cell_hashes[..], &mut self.cell_counts[..]);
        let (alone, peeled) = (&mut self.alone[..], &mut self.peeled[..]);
        let mut waiting = 0;
        for (cell, &count) in counts.iter().enumerate() {
            alone[waiting] = cell as u32;
            waiting += usize::from(count == 1);
        }
        let (mut next, mut done) = (0, 0);
        while next < waiting {
            let cell = alone[next];
            next += 1;
            // The hash may have been taken off by way of another of its cells meanwhile.
            if counts[cell as usize] != 1 {
                continue;
            }
            let hash = hashes[cell as usize];
            peeled[done] = (hash, cell);
            done += 1;
            for cell in layout.cells_of(hash) {
                let count = counts[cell as usize].wrapping_sub(1);
                counts[cell as usize] = count;
                hashes[cell as usize] ^= hash;
                alone[waiting] = cell;
                waiting += usize::from(count == 1);
            }
        }
        if done == peeled.len() { Ok(()) } else { Err(Stuck) }
    }

    /// Sets the cells, last peeled first: whatever is set later is no cell of a hash that is done.
    fn assign(&self, layout: Layout, cells: &mut Vec<u8>) {
        let start = cells.len();
        cells.resize(start + layout.cells(), 0);
        let cells = &mut cells[start..];
        for &(hash, cell) in self.peeled.iter().rev() {
            let [a, b, c] = layout.cells_of(hash);
            // Its own cell is still 0.
            let others = cells[a as usize] ^ cells[b as usize] ^ cells[c as usize];
            cells[cell as usize] = fingerprint(hash) ^ others;
        }
    }
}

impl Layout {
    /// For so many hashes; `None` for more than cells can be counted for.
    fn new(hashes: usize, seed: u64, is_shorter: bool) -> Option<Layout> {
        let count = u32::try_from(hashes).ok().filter(|&count| count <= 1 << 28)?;
        let count = f64::from(count.max(2));
        // Both formulas are the authors', found by trying.
        let power = (count.ln() / 3.33_f64.ln() + 2.25).floor() as u32;
        let segment = 1u32 << power.saturating_sub(u32::from(is_shorter)).clamp(2, 18);
        let factor = (0.875 + 0.25 * 1e6_f64.ln() / count.ln()).max(1.125);
        let segments = ((count * factor).round() as u32).div_ceil(segment).saturating_sub(2).max(1);
        Some(Layout { seed, segment, before_last_two: segments * segment })
    }

    /// How many cells the filter has.
    pub(crate) fn cells(&self) -> usize {
        self.before_last_two as usize + 2 * self.segment as usize
    }

    /// The cells of a hash that is mixed with the seed: in three neighbouring segments, so that they differ.
    #[inline]
    fn cells_of(&self, hash: u64) -> [u32; 3] {
        let first = ((u128::from(hash) * u128::from(self.before_last_two)) >> 64) as u32;
        let mask = self.segment - 1;
        let second = (first + self.segment) ^ ((hash >> 18) as u32 & mask);
        let third = (first + 2 * self.segment) ^ (hash as u32 & mask);
        [first, second, third]
    }
}

#[inline]
fn mix(hash: u64, seed: u64) -> u64 {
    let mut mixed = hash.wrapping_add(seed);
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ (mixed >> 33)
}

#[inline]
fn fingerprint(hash: u64) -> u8 {
    (hash ^ (hash >> 32)) as u8
}

/// Splitmix64.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut number = *state;
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use xorf::{BinaryFuse8, DmaSerializable, Filter};

    fn hashes(count: u64) -> Vec<u64> {
        (0..count).map(|i| codec::hash_key(&i.to_le_bytes()).0).collect()
    }

    fn build(builder: &mut FuseBuilder, hashes: &[u64]) -> (Layout, Vec<u8>) {
        let mut cells = Vec::new();
        let layout = builder.build(&mut hashes.to_vec(), &mut cells).expect("it builds");
        assert_eq!(cells.len(), layout.cells());
        (layout, cells)
    }

    fn holds(layout: Layout, cells: &[u8], hash: u64) -> bool {
        let hash = mix(hash, layout.seed);
        layout.cells_of(hash).iter().fold(fingerprint(hash), |sum, &cell| sum ^ cells[cell as usize]) == 0
    }

    #[test]
    fn each_hash_is_found_at_every_size_and_few_others() {
        let mut builder = FuseBuilder::default();
        let others: Vec<u64> = hashes(120_000)[100_000..].to_vec();
        for count in (1..200).chain([1000, 5000, 16_000, 37_000, 38_000, 65_536, 70_000, 3]) {
            let hashes = hashes(count);
            let (layout, cells) = build(&mut builder, &hashes);
            assert!(hashes.iter().all(|&hash| holds(layout, &cells, hash)), "{count}");
            let wrong = others.iter().filter(|&&hash| holds(layout, &cells, hash)).count();
            assert!(wrong < 150, "{wrong} of 20000 with {count}");
            assert!(count < 1000 || cells.len() as u64 * 100 < count * 150, "{} for {count}", cells.len());
        }
    }

    #[test]
    fn the_library_finds_what_was_built_here_at_the_same_cells() {
        let hashes = hashes(10_000);
        let theirs = BinaryFuse8::try_from(&hashes).expect("it builds");
        let mut descriptor = [0; 20];
        theirs.dma_copy_descriptor_to(&mut descriptor);
        let number = |at: usize| u32::from_le_bytes(descriptor[at..at + 4].try_into().expect("four bytes"));
        let seed = u64::from_le_bytes(descriptor[..8].try_into().expect("eight bytes"));
        let layout = Layout { seed, segment: number(8), before_last_two: number(16) };
        let cells = theirs.dma_fingerprints();
        assert_eq!(cells.len(), layout.cells());
        // Ours reads theirs, so that theirs, which is the same code for both, reads ours.
        for hash in 0..20_000u64 {
            let hash = codec::hash_key(&hash.to_le_bytes()).0;
            assert_eq!(holds(layout, cells, hash), theirs.contains(&hash));
        }
    }

    #[test]
    fn hashes_that_come_often_are_put_in_once() {
        let mut builder = FuseBuilder::default();
        let mut many = hashes(3000);
        for times in [1, 2, 255, 256, 257, 5000] {
            many.extend(vec![many[17]; times]);
            let (layout, cells) = build(&mut builder, &many);
            assert!(many.iter().all(|&hash| holds(layout, &cells, hash)), "{times}");
        }
        let (layout, cells) = build(&mut builder, &[0; 70_000]);
        assert!(holds(layout, &cells, 0));
        assert!(cells.len() < 100);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_hashes_are_found(
            mut some in proptest::collection::vec(prop_oneof![any::<u64>(), 0u64..9], 1..400),
        ) {
            let mut builder = FuseBuilder::default();
            let mut cells = Vec::new();
            let layout = builder.build(&mut some, &mut cells).expect("it builds");
            for &hash in &some {
                prop_assert!(holds(layout, &cells, hash));
            }
        }
    }
}
