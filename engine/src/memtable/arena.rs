//! Memory in chunks: bytes for records ([`Arena`]) and slots for tree nodes ([`Pool`]).
//!
//! Both only grow, and never move what they hold once a chunk has its full size, so that a load neither copies nor
//! asks the allocator for each entry, and a memtable with a handful of rows stays small.
//!
//! Invariant: a record lies whole in one chunk, on a boundary of 8 bytes.
//! Never looks into the bytes.

/// The first chunk of an arena, in bytes; each later one is twice as large, up to [`CHUNK_BYTES_MAX`].
const CHUNK_BYTES_MIN: usize = 4 << 10;
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// A record above this gets a chunk of its own, and the open chunk stays open.
const OWN_CHUNK_BYTES: usize = CHUNK_BYTES_MAX / 4;

/// Records start at multiples of this.
const UNIT_BYTES: usize = 8;
/// An address is a chunk's number above this many bits of offset, counted in units.
const OFFSET_BITS: u32 = (CHUNK_BYTES_MAX / UNIT_BYTES).ilog2();
const CHUNKS_MAX: usize = 1 << (u32::BITS - OFFSET_BITS);

// Every chunk but the last stands for at least a quarter of the largest one.
const _: () = assert!(CHUNKS_MAX * OWN_CHUNK_BYTES >= super::MEMTABLE_BYTES_MAX);

/// Where a record begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address(u32);

impl Address {
    /// For slots that are not in use.
    pub(super) const NONE: Address = Address(u32::MAX);

    fn chunk(self) -> usize {
        (self.0 >> OFFSET_BITS) as usize
    }

    fn offset(self) -> usize {
        (self.0 & ((1 << OFFSET_BITS) - 1)) as usize * UNIT_BYTES
    }

    pub(super) fn to_bytes(self) -> [u8; 4] {
        self.0.to_le_bytes()
    }

    pub(super) fn from_bytes(bytes: [u8; 4]) -> Address {
        Address(u32::from_le_bytes(bytes))
    }
}

/// A bump allocator of records.
pub(super) struct Arena {
    chunks: Vec<Vec<u8>>,
    /// The chunk that small records go to.
    open: usize,
    /// The sum of the chunks' capacities.
    bytes_held: usize,
}

impl Arena {
    pub(super) fn new() -> Arena {
        Arena { chunks: Vec::new(), open: 0, bytes_held: 0 }
    }

    /// The memory held, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes_held + self.chunks.capacity() * size_of::<Vec<u8>>()
    }

    /// A place for `len` bytes, which the caller pushes to the end of the chunk given, all of them and at once.
    #[inline]
    pub(super) fn allocate(&mut self, len: usize) -> (Address, &mut Vec<u8>) {
        let fits = self.chunks.get(self.open).is_some_and(|chunk| {
            let start = chunk.len().next_multiple_of(UNIT_BYTES);
            start + len <= chunk.capacity()
        });
        let chunk_no = if fits { self.open } else { self.grow(len) };
        let chunk = &mut self.chunks[chunk_no];
        let start = chunk.len().next_multiple_of(UNIT_BYTES);
        chunk.resize(start, 0);
        let address = (chunk_no << OFFSET_BITS) | (start / UNIT_BYTES);
        let address =
            u32::try_from(address).expect("fewer than CHUNKS_MAX chunks of at most CHUNK_BYTES_MAX");
        (Address(address), chunk)
    }

    /// Makes a chunk with room for `len` bytes.
    #[cold]
    fn grow(&mut self, len: usize) -> usize {
        let own = len > OWN_CHUNK_BYTES;
        let bytes = if own {
            len
        } else {
            let previous = self.chunks.get(self.open).map_or(0, Vec::capacity);
            // Four records at least, so that what is left over at a chunk's end stays a small part of it.
            let wanted = (len * 4).next_power_of_two().max(previous * 2);
            wanted.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX)
        };
        // The last number is not given out, so that no record is at `Address::NONE`.
        assert!(self.chunks.len() < CHUNKS_MAX - 1, "a memtable is sealed before MEMTABLE_BYTES_MAX");
        let chunk = Vec::with_capacity(bytes);
        self.bytes_held += chunk.capacity();
        self.chunks.push(chunk);
        let chunk_no = self.chunks.len() - 1;
        if !own {
            self.open = chunk_no;
        }
        chunk_no
    }

    /// The bytes from a record's begin to the end of what its chunk holds.
    #[inline]
    pub(super) fn tail(&self, address: Address) -> &[u8] {
        &self.chunks[address.chunk()][address.offset()..]
    }

    /// Loads the first bytes at `address`, as far as most records go, and gives something of them.
    #[inline]
    pub(super) fn touch(&self, address: Address) -> u8 {
        let tail = self.tail(address);
        let byte = |at: usize| tail.get(at).copied().unwrap_or(0);
        byte(0) ^ byte(64) ^ byte(128)
    }

    /// [`Arena::tail`], to be changed.
    #[inline]
    pub(super) fn tail_mut(&mut self, address: Address) -> &mut [u8] {
        &mut self.chunks[address.chunk()][address.offset()..]
    }
}

/// Items by number, in chunks of a fixed count.
pub(super) struct Pool<T> {
    chunks: Vec<Vec<T>>,
    len: u32,
    /// The sum of the chunks' capacities, in items.
    capacity: usize,
}

const POOL_CHUNK: usize = 64;

impl<T> Pool<T> {
    pub(super) fn new() -> Pool<T> {
        Pool { chunks: Vec::new(), len: 0, capacity: 0 }
    }

    /// The memory held, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.capacity * size_of::<T>() + self.chunks.capacity() * size_of::<Vec<T>>()
    }

    /// Adds an item and returns its number.
    pub(super) fn push(&mut self, item: T) -> u32 {
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < chunk.capacity() => chunk.push(item),
            // Only the first chunk grows in steps: it is all that a small memtable needs.
            Some(chunk) if chunk.len() < POOL_CHUNK => {
                self.capacity -= chunk.capacity();
                chunk.reserve_exact(chunk.len().min(POOL_CHUNK - chunk.len()));
                self.capacity += chunk.capacity();
                chunk.push(item);
            }
            last => {
                let mut chunk = Vec::with_capacity(if last.is_some() { POOL_CHUNK } else { 1 });
                self.capacity += chunk.capacity();
                chunk.push(item);
                self.chunks.push(chunk);
            }
        }
        let id = self.len;
        self.len = id.checked_add(1).expect("nodes are fewer than records, which have addresses of 32 bits");
        id
    }

    #[inline]
    pub(super) fn get(&self, id: u32) -> &T {
        &self.chunks[id as usize / POOL_CHUNK][id as usize % POOL_CHUNK]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> &mut T {
        &mut self.chunks[id as usize / POOL_CHUNK][id as usize % POOL_CHUNK]
    }
}

#[cfg(test)]
mod tests;
