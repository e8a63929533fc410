use super::*;
use crate::model::{Disk, Index, puts};

/// The keys that a walk shows, and the error that it ends with, which must come again.
fn walk(run: &Arc<Run>, direction: Direction, bounds: &Bounds<'_>) -> (Vec<Vec<u8>>, Option<Error>) {
    let options = CursorOptions { caching: Caching::Leave, ..CursorOptions::default() };
    let mut keys = Vec::new();
    let mut cursor = match run.cursor_with(direction, bounds, options) {
        Ok(cursor) => cursor,
        Err(error) => return (keys, Some(error)),
    };
    while let Some(key) = cursor.key() {
        keys.push(key.to_vec());
        if let Err(error) = cursor.advance() {
            assert!(cursor.key().is_none() && cursor.advance().is_err(), "the error comes again");
            return (keys, Some(error));
        }
    }
    (keys, None)
}

// Cases 56 and 57.
#[test]
fn a_walk_over_damage_ends_with_its_error_wherever_it_begins() {
    let mut index = Index::new();
    index.flush(&puts(0..200));
    let run = &index.runs[0];
    assert!(run.files().len() > 1, "a walk goes from file to file");
    let (all, middle) = (Bound::Unbounded, Bound::Included(&b"000090"[..]));
    let walks = [
        (Direction::Forward, (all, all)),
        (Direction::Forward, (middle, all)),
        (Direction::Reverse, (all, all)),
        (Direction::Reverse, (all, middle)),
    ];
    let mut told = [0; 4];
    for (number, (direction, bounds)) in walks.iter().enumerate() {
        let (sound, error) = walk(run, *direction, bounds);
        assert!(error.is_none() && sound.len() > 80, "{error:?} after {}", sound.len());
        for file in run.files() {
            for at in (30..usize::try_from(file.info.len).expect("a small file")).step_by(17) {
                let flip = || index.disk.fs.damage(&Disk::path(file.id()), |bytes| bytes[at] ^= 1);
                flip().expect("the file is there");
                let (keys, error) = walk(run, *direction, bounds);
                flip().expect("the file is there");
                assert!(sound.starts_with(&keys), "byte {at} of file {}, {direction:?}", file.id());
                match error {
                    Some(error) => {
                        assert!(error.is_corruption(), "byte {at} of file {}: {error}", file.id());
                        told[number] += 1;
                    }
                    None => assert_eq!(keys.len(), sound.len(), "byte {at} of file {}", file.id()),
                }
            }
        }
    }
    assert!(told.iter().all(|&told| told > 20), "{told:?}");
}
