//! The contents of one simulated file: what is durable, what is written, and how the one became the other.
//!
//! Owns the bytes and the length. Never decides what survives a power cut: [`super::power`] does, and hands the
//! decision in as a [`Survival`].
//!
//! Invariant: bytes at and above an image's length are zero, so that growing it shows zeros.
//! Invariant: `changes` holds all that was done since the last sync, in order; a page that differs between the two
//! images without a change was lost by a failed sync.

use super::faults::FailedSync;
use super::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The unit in which the system writes back.
pub(super) const PAGE_BYTES: usize = 4096;
/// The unit in which a disk writes: whole or not at all.
pub(super) const SECTOR_BYTES: usize = 512;
pub(super) const SECTORS_PER_PAGE: usize = PAGE_BYTES / SECTOR_BYTES;

type Page = [u8; PAGE_BYTES];
static ZERO_PAGE: Page = [0; PAGE_BYTES];

/// Bytes at one moment. Pages that are missing are zero.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    pages: BTreeMap<u64, Arc<Page>>,
    len: u64,
}

impl Image {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    fn page(&self, number: u64) -> &Page {
        self.pages.get(&number).map_or(&ZERO_PAGE, |page| page)
    }

    fn page_mut(&mut self, number: u64) -> &mut Page {
        Arc::make_mut(self.pages.entry(number).or_insert_with(|| Arc::new(ZERO_PAGE)))
    }

    /// Takes over a page of another image, absence included.
    fn copy_page(&mut self, number: u64, from: &Image) {
        match from.pages.get(&number) {
            Some(page) => self.pages.insert(number, Arc::clone(page)),
            None => self.pages.remove(&number),
        };
    }

    /// Fills `buf` as far as the image goes. Tells how far.
    pub(super) fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let len = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        for part in parts(offset, len) {
            buf[part.from.clone()].copy_from_slice(&self.page(part.page)[part.within(offset)]);
        }
        len
    }

    fn write(&mut self, bytes: &[u8], offset: u64) {
        for part in parts(offset, bytes.len()) {
            self.page_mut(part.page)[part.within(offset)].copy_from_slice(&bytes[part.from.clone()]);
        }
        self.len = self.len.max(offset + bytes.len() as u64);
    }

    fn set_len(&mut self, len: u64) {
        self.len = len;
        self.pages.split_off(&len.div_ceil(PAGE_BYTES as u64));
        let tail = (len % PAGE_BYTES as u64) as usize;
        if tail > 0 && self.pages.contains_key(&(len / PAGE_BYTES as u64)) {
            self.page_mut(len / PAGE_BYTES as u64)[tail..].fill(0);
        }
    }

    /// All its bytes. Only for files that a test made.
    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.len).expect("a simulated file fits the memory")];
        self.read(&mut bytes, 0);
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Image {
        let mut image = Image::default();
        image.write(bytes, 0);
        image
    }

    /// Feeds the length and all pages that are not zero to `put`.
    pub(super) fn digest(&self, mut put: impl FnMut(&[u8])) {
        put(&self.len.to_le_bytes());
        for (number, page) in &self.pages {
            if page.as_slice() != ZERO_PAGE {
                put(&number.to_le_bytes());
                put(page.as_slice());
            }
        }
    }
}

/// The part of a write that lies in one page.
struct Part {
    page: u64,
    /// Where in the written bytes.
    from: std::ops::Range<usize>,
}

impl Part {
    /// Where in the page.
    fn within(&self, offset: u64) -> std::ops::Range<usize> {
        let start = ((offset + self.from.start as u64) % PAGE_BYTES as u64) as usize;
        start..start + self.from.len()
    }
}

fn parts(offset: u64, len: usize) -> impl Iterator<Item = Part> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == len {
            return None;
        }
        let here = offset + at as u64;
        let room = PAGE_BYTES - (here % PAGE_BYTES as u64) as usize;
        let from = at..len.min(at + room);
        at = from.end;
        Some(Part { page: here / PAGE_BYTES as u64, from })
    })
}

/// Something done to a file since its last sync.
#[derive(Clone, Debug)]
pub(super) struct Change {
    /// Its place among all changes of the disk.
    pub(super) order: u64,
    effect: Effect,
}

#[derive(Clone, Debug)]
enum Effect {
    Write { offset: u64, bytes: Arc<[u8]> },
    Grow { len: u64 },
    Shrink { len: u64 },
}

impl Change {
    fn len_after(&self, len: u64) -> u64 {
        match &self.effect {
            Effect::Write { offset, bytes } => len.max(offset + bytes.len() as u64),
            Effect::Grow { len } | Effect::Shrink { len } => *len,
        }
    }

    fn pages(&self) -> impl Iterator<Item = u64> {
        let (offset, len) = match &self.effect {
            Effect::Write { offset, bytes } => (*offset, bytes.len()),
            Effect::Grow { .. } | Effect::Shrink { .. } => (0, 0),
        };
        parts(offset, len).map(|part| part.page)
    }

    pub(super) fn is_write(&self) -> bool {
        matches!(self.effect, Effect::Write { .. })
    }

    fn is_shrink(&self) -> bool {
        matches!(self.effect, Effect::Shrink { .. })
    }
}

/// What a power cut leaves of a file's changes. "Through `n`" speaks of the first `n` changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Survival {
    /// The length is as it was through so many changes.
    pub(super) len_through: usize,
    /// The page is as it was through so many changes, each page on its own. Pages not named are as durable.
    pub(super) pages: BTreeMap<u64, usize>,
    /// The write that was torn, if one was.
    pub(super) torn: Option<Torn>,
}

/// Sectors of one write that are on the disk, whatever became of their pages.
#[derive(Clone, Debug)]
pub(super) struct Torn {
    /// They are as they were through so many changes.
    pub(super) through: usize,
    /// Numbered through the file.
    pub(super) sectors: BTreeSet<u64>,
}

/// A file's bytes, as read and as durable.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    live: Image,
    durable: Image,
    changes: Vec<Change>,
}

impl Content {
    /// Durable as it is.
    pub(super) fn durable(image: Image) -> Content {
        Content { live: image.clone(), durable: image, changes: Vec::new() }
    }

    pub(super) fn live(&self) -> &Image {
        &self.live
    }

    pub(super) fn changes(&self) -> &[Change] {
        &self.changes
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64, order: u64) {
        if bytes.is_empty() {
            return;
        }
        self.live.write(bytes, offset);
        self.changes.push(Change { order, effect: Effect::Write { offset, bytes: bytes.into() } });
    }

    pub(super) fn set_len(&mut self, len: u64, order: u64) {
        let effect = match len {
            len if len > self.live.len => Effect::Grow { len },
            len if len < self.live.len => Effect::Shrink { len },
            _ => return,
        };
        self.live.set_len(len);
        self.changes.push(Change { order, effect });
    }

    /// The pages that were written since the last sync.
    pub(super) fn dirty_pages(&self) -> BTreeSet<u64> {
        self.changes.iter().flat_map(Change::pages).collect()
    }

    pub(super) fn sync(&mut self) {
        let dirty = self.dirty_pages();
        // Shrinks first, then the pages as they are now: those may have been written again since.
        for change in &self.changes {
            if let Effect::Shrink { len } = change.effect {
                self.durable.set_len(len.min(self.durable.len));
            }
        }
        for page in dirty {
            self.durable.copy_page(page, &self.live);
        }
        self.durable.set_len(self.live.len);
        self.changes.clear();
    }

    pub(super) fn fail_sync(&mut self, kind: FailedSync, random: &mut Random) {
        let dirty = self.dirty_pages();
        let changes = std::mem::take(&mut self.changes);
        match kind {
            FailedSync::PagesClean => {}
            FailedSync::PagesDropped => {
                for page in dirty {
                    self.live.copy_page(page, &self.durable);
                }
            }
            FailedSync::PagesMixed => {
                let has_len = random.coin();
                if has_len {
                    for change in changes.iter().filter(|change| change.is_shrink()) {
                        self.durable.set_len(change.len_after(self.durable.len).min(self.durable.len));
                    }
                    self.durable.set_len(self.live.len);
                }
                // What was written after a shrink that is not there is not there either.
                let may_be_durable = has_len || !changes.iter().any(Change::is_shrink);
                for page in dirty {
                    match random.below(3) {
                        0 if may_be_durable => self.durable.copy_page(page, &self.live),
                        1 => self.live.copy_page(page, &self.durable),
                        _ => {}
                    }
                }
                self.durable.set_len(self.durable.len);
            }
        }
        self.live.set_len(self.live.len);
    }

    /// What is on the disk after a power cut.
    ///
    /// A shrink goes with the length: it is there if the length is from after it, and what was written after a shrink
    /// that is not there is not there either, since its space was not its own yet.
    pub(super) fn after_power_cut(&self, survival: &Survival) -> Image {
        let all = self.changes.len();
        let len_through = survival.len_through.min(all);
        let lost_from = self.changes[len_through..].iter().position(Change::is_shrink);
        let lost_from = lost_from.map_or(all, |at| len_through + at);
        let page_through = |page| survival.pages.get(&page).map_or(0, |&through| through.min(lost_from));

        let mut image = self.replay(len_through, page_through);
        if let Some(torn) = &survival.torn {
            let through = torn.through.min(lost_from);
            let pages: BTreeSet<u64> =
                torn.sectors.iter().map(|sector| sector / SECTORS_PER_PAGE as u64).collect();
            let written = self.replay(len_through, |page| if pages.contains(&page) { through } else { 0 });
            for sector in &torn.sectors {
                let start = (sector % SECTORS_PER_PAGE as u64) as usize * SECTOR_BYTES;
                let range = start..start + SECTOR_BYTES;
                let page = sector / SECTORS_PER_PAGE as u64;
                image.page_mut(page)[range.clone()].copy_from_slice(&written.page(page)[range]);
            }
        }
        let len =
            self.changes[..len_through].iter().fold(self.durable.len, |len, change| change.len_after(len));
        image.set_len(len);
        image
    }

    /// The durable image, with each page's writes through `page_through` of it and the shrinks through `len_through`.
    /// Its length means nothing.
    fn replay(&self, len_through: usize, page_through: impl Fn(u64) -> usize) -> Image {
        let mut image = self.durable.clone();
        for (at, change) in self.changes.iter().enumerate() {
            match &change.effect {
                Effect::Write { offset, bytes } => {
                    for part in parts(*offset, bytes.len()) {
                        if at < page_through(part.page) {
                            image.page_mut(part.page)[part.within(*offset)]
                                .copy_from_slice(&bytes[part.from.clone()]);
                        }
                    }
                }
                Effect::Shrink { len } if at < len_through => image.set_len(*len),
                Effect::Shrink { .. } | Effect::Grow { .. } => {}
            }
        }
        if len_through == self.changes.len() {
            for page in self.dirty_pages() {
                if page_through(page) == self.changes.len() {
                    // The same bytes, unless an earlier failed sync left this page unlike its durable form: then the
                    // page is written back as it is in the cache.
                    image.copy_page(page, &self.live);
                }
            }
        }
        image
    }

    /// The sectors that change `at` writes to.
    pub(super) fn sectors_of(&self, at: usize) -> std::ops::Range<u64> {
        match &self.changes[at].effect {
            Effect::Write { offset, bytes } => {
                let end = offset + bytes.len() as u64;
                offset / SECTOR_BYTES as u64..end.div_ceil(SECTOR_BYTES as u64)
            }
            Effect::Grow { .. } | Effect::Shrink { .. } => 0..0,
        }
    }

    /// For each change that is a write, the pages it touches.
    pub(super) fn pages_of(&self, at: usize) -> impl Iterator<Item = u64> {
        self.changes[at].pages()
    }
}
