//! Bytes at one moment, in pages that are shared by all who hold the same.
//!
//! Owns the unit of everything: the page. Knows neither changes nor durability.
//!
//! Invariant: bytes at and above an image's length are zero, so that growing it shows zeros.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

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
    /// Of length and contents, once somebody has asked for it.
    fingerprint: OnceLock<u64>,
}

impl Image {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn page(&self, number: u64) -> &Page {
        self.pages.get(&number).map_or(&ZERO_PAGE, |page| page)
    }

    pub(super) fn page_mut(&mut self, number: u64) -> &mut Page {
        self.fingerprint.take();
        Arc::make_mut(self.pages.entry(number).or_insert_with(|| Arc::new(ZERO_PAGE)))
    }

    /// Takes over a page of another image, absence included.
    pub(super) fn copy_page(&mut self, number: u64, from: &Image) {
        self.fingerprint.take();
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

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        for part in parts(offset, bytes.len()) {
            self.page_mut(part.page)[part.within(offset)].copy_from_slice(&bytes[part.from.clone()]);
        }
        self.len = self.len.max(offset + bytes.len() as u64);
    }

    pub(super) fn set_len(&mut self, len: u64) {
        self.fingerprint.take();
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

    /// A hash of the length and of all pages that are not zero.
    pub(super) fn fingerprint(&self) -> u64 {
        *self.fingerprint.get_or_init(|| {
            let mut hasher = Fingerprint::default();
            hasher.add(&self.len.to_le_bytes());
            for (number, page) in &self.pages {
                if page.as_slice() != ZERO_PAGE {
                    hasher.add(&number.to_le_bytes());
                    hasher.add(page.as_slice());
                }
            }
            hasher.finish()
        })
    }
}

/// Mixes bytes quickly. Nobody chooses them to collide.
#[derive(Default)]
pub(super) struct Fingerprint(u64);

impl Fingerprint {
    /// Adds bytes and how many they are.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.mix(bytes.len() as u64);
        for word in bytes.chunks(8) {
            let mut padded = [0; 8];
            padded[..word.len()].copy_from_slice(word);
            self.mix(u64::from_le_bytes(padded));
        }
    }

    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.0 = (product as u64) ^ (product >> 64) as u64 ^ self.0.rotate_left(23);
    }

    pub(super) fn finish(&self) -> u64 {
        self.0
    }
}

/// The part of a write that lies in one page.
pub(super) struct Part {
    pub(super) page: u64,
    /// Where in the written bytes.
    pub(super) from: std::ops::Range<usize>,
}

impl Part {
    /// Where in the page.
    pub(super) fn within(&self, offset: u64) -> std::ops::Range<usize> {
        let start = ((offset + self.from.start as u64) % PAGE_BYTES as u64) as usize;
        start..start + self.from.len()
    }
}

/// The parts of a write of `len` bytes at `offset`, page by page.
pub(super) fn parts(offset: u64, len: usize) -> impl Iterator<Item = Part> {
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
