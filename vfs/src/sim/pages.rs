//! The contents of one simulated file: what is durable, what is written, and how the one became the other.
//!
//! Owns the bytes and the length. Never decides what survives a power cut: [`super::power`] does, and hands the
//! decision in as a [`Survival`].
//!
//! Invariant: `changes` holds all that was done since the last sync, in order; a page that differs between the two
//! images without a change was lost by a failed sync.

use super::faults::FailedSync;
use super::image::{Image, SECTOR_BYTES, SECTORS_PER_PAGE, parts};
use super::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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
    /// Shared with the durable image, and with other disks, as long as they are the same.
    live: Arc<Image>,
    durable: Arc<Image>,
    changes: Vec<Change>,
    /// A sync has failed: the images may differ without a change.
    has_failed: bool,
}

impl Content {
    /// Durable as it is.
    pub(super) fn durable(image: Image) -> Content {
        let image = Arc::new(image);
        Content { live: Arc::clone(&image), durable: image, changes: Vec::new(), has_failed: false }
    }

    /// Whether a power cut would leave exactly what is seen.
    pub(super) fn is_durable(&self) -> bool {
        self.changes.is_empty() && !self.has_failed
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
        Arc::make_mut(&mut self.live).write(bytes, offset);
        self.changes.push(Change { order, effect: Effect::Write { offset, bytes: bytes.into() } });
    }

    pub(super) fn set_len(&mut self, len: u64, order: u64) {
        let effect = match len {
            len if len > self.live.len() => Effect::Grow { len },
            len if len < self.live.len() => Effect::Shrink { len },
            _ => return,
        };
        Arc::make_mut(&mut self.live).set_len(len);
        self.changes.push(Change { order, effect });
    }

    /// The pages that were written since the last sync.
    pub(super) fn dirty_pages(&self) -> BTreeSet<u64> {
        self.changes.iter().flat_map(Change::pages).collect()
    }

    pub(super) fn sync(&mut self) {
        if !self.has_failed {
            self.durable = Arc::clone(&self.live);
            self.changes.clear();
            return;
        }
        let dirty = self.dirty_pages();
        let durable = Arc::make_mut(&mut self.durable);
        // Shrinks first, then the pages as they are now: those may have been written again since.
        for change in &self.changes {
            if let Effect::Shrink { len } = change.effect {
                durable.set_len(len.min(durable.len()));
            }
        }
        for page in dirty {
            durable.copy_page(page, &self.live);
        }
        durable.set_len(self.live.len());
        self.changes.clear();
    }

    pub(super) fn fail_sync(&mut self, kind: FailedSync, random: &mut Random) {
        let dirty = self.dirty_pages();
        let changes = std::mem::take(&mut self.changes);
        self.has_failed = true;
        let (live, durable) = (Arc::make_mut(&mut self.live), Arc::make_mut(&mut self.durable));
        match kind {
            FailedSync::PagesClean => {}
            FailedSync::PagesDropped => {
                for page in dirty {
                    live.copy_page(page, durable);
                }
            }
            FailedSync::PagesMixed => {
                let has_len = random.coin();
                if has_len {
                    for change in changes.iter().filter(|change| change.is_shrink()) {
                        durable.set_len(change.len_after(durable.len()).min(durable.len()));
                    }
                    durable.set_len(live.len());
                }
                // What was written after a shrink that is not there is not there either.
                let may_be_durable = has_len || !changes.iter().any(Change::is_shrink);
                for page in dirty {
                    match random.below(3) {
                        0 if may_be_durable => durable.copy_page(page, live),
                        1 => live.copy_page(page, durable),
                        _ => {}
                    }
                }
                durable.set_len(durable.len());
            }
        }
        live.set_len(live.len());
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
            self.changes[..len_through].iter().fold(self.durable.len(), |len, change| change.len_after(len));
        image.set_len(len);
        image
    }

    /// The durable image, with each page's writes through `page_through` of it and the shrinks through `len_through`.
    /// Its length means nothing.
    fn replay(&self, len_through: usize, page_through: impl Fn(u64) -> usize) -> Image {
        let mut image = Image::clone(&self.durable);
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
