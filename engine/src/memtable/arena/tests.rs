//! Where records land, and what is held for them.

use super::*;

fn push(arena: &mut Arena, bytes: &[u8]) -> Address {
    let (address, out) = arena.allocate(bytes.len());
    let before = (out.as_ptr(), out.capacity());
    out.extend_from_slice(bytes);
    assert_eq!((out.as_ptr(), out.capacity()), before, "a chunk never moves");
    address
}

#[test]
fn records_of_all_sizes_are_found_again() {
    let mut arena = Arena::new();
    let mut addresses = Vec::new();
    for i in 0..2000_usize {
        let len = if i % 100 == 99 { i * 700 } else { i % 300 };
        let byte = u8::try_from(i % 251).expect("small");
        addresses.push((push(&mut arena, &vec![byte; len]), len, byte));
    }
    for (address, len, byte) in addresses {
        assert!(arena.tail(address)[..len].iter().all(|found| *found == byte));
    }
}

#[test]
fn chunks_grow_from_small_to_large() {
    let mut arena = Arena::new();
    push(&mut arena, b"one");
    assert!(arena.bytes() <= CHUNK_BYTES_MIN + 4 * size_of::<Vec<u8>>());
    for _ in 0..100_000 {
        push(&mut arena, &[1; 100]);
    }
    assert!(arena.chunks.len() < 30);
    assert!(arena.bytes() < 100_000 * 104 + 2 * CHUNK_BYTES_MAX);
}

#[test]
fn a_record_larger_than_a_chunk_gets_its_own_and_leaves_the_open_one_open() {
    let mut arena = Arena::new();
    let small = push(&mut arena, b"small");
    let large = push(&mut arena, &vec![7; 3 * CHUNK_BYTES_MAX]);
    let next = push(&mut arena, b"next");
    assert_eq!(small.chunk(), next.chunk());
    assert_ne!(small.chunk(), large.chunk());
    assert_eq!(arena.tail(large).len(), 3 * CHUNK_BYTES_MAX);
    assert!(arena.bytes() < 3 * CHUNK_BYTES_MAX + 2 * CHUNK_BYTES_MIN);
}

#[test]
fn pool_items_keep_their_numbers() {
    let mut pool = Pool::new();
    for i in 0..1000_u32 {
        assert_eq!(pool.push(i), i);
        assert!(pool.bytes() >= (i as usize + 1) * size_of::<u32>());
    }
    assert!((0..1000).all(|i| *pool.get(i) == i));
    assert!(pool.bytes() <= 1024 * size_of::<u32>() + 16 * size_of::<Vec<u32>>());
}
