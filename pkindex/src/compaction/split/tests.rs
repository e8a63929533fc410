use super::*;
use crate::Retention;
use crate::model::{Index, put, puts};

fn plan(index: &Index) -> Plan {
    let retention = Retention { floor: index.version(), snapshots: Vec::new() };
    Plan::new(&index.compaction(0..index.runs.len(), &retention)).expect("sound files")
}

fn overlapping() -> Index {
    let mut index = Index::new();
    index.flush(&puts(0..600));
    index.flush(&puts(300..900));
    index.flush(&puts(2000..2300));
    index
}

#[test]
fn slices_are_many_and_even_and_cover_everything() {
    let plan = plan(&overlapping());
    plan.check_coverage().expect("a plan of ours");
    assert!(plan.slices().count() >= 8, "{}", plan.slices().count());
    assert!(plan.pieces.iter().any(|piece| matches!(piece, Piece::Whole(_))));
    assert_eq!(plan.pieces.iter().filter(|piece| matches!(piece, Piece::Empty(_))).count(), {
        let whole = plan.pieces.iter().filter(|piece| matches!(piece, Piece::Whole(_))).count();
        plan.pieces.len() - whole - plan.slices().count()
    });
}

#[test]
fn an_index_smaller_than_a_slice_is_one_slice() {
    let mut index = Index::new();
    index.flush(&[put("a")]);
    let plan = plan(&index);
    plan.check_coverage().expect("a plan of ours");
    assert!(matches!(
        &plan.pieces[..],
        [Piece::Slice(Range { start: Bound::Unbounded, end: Bound::Unbounded })]
    ));
}

// Case 62: what the check is there for.
#[test]
fn a_gap_an_overlap_and_a_missing_end_are_noticed() {
    let sabotage: [fn(&mut Vec<Piece>); 6] = [
        // The smallest key of a slice is forgotten.
        |pieces| {
            let range = pieces.iter_mut().find_map(|piece| match piece {
                Piece::Slice(range) if range.start != Bound::Unbounded => Some(range),
                _ => None,
            });
            let range = range.expect("several slices");
            if let Bound::Excluded(key) = &mut range.start {
                key.push(0);
            }
        },
        |pieces| drop(pieces.remove(0)),
        |pieces| drop(pieces.pop()),
        |pieces| drop(pieces.remove(1)),
        |pieces| pieces.swap(0, 1),
        |pieces| {
            let range = pieces.iter_mut().find_map(|piece| match piece {
                Piece::Slice(range) => Some(range),
                _ => None,
            });
            range.expect("several slices").end = Bound::Unbounded;
        },
    ];
    for (index, sabotage) in sabotage.iter().enumerate() {
        let mut plan = plan(&overlapping());
        sabotage(&mut plan.pieces);
        assert!(matches!(plan.check_coverage(), Err(Error::Slices { .. })), "sabotage {index}");
    }
    let mut plan = plan(&overlapping());
    for piece in &mut plan.pieces {
        if let Piece::Slice(range) = piece {
            *piece = Piece::Empty(range.clone());
        }
    }
    assert!(matches!(plan.check_coverage(), Err(Error::Slices { .. })), "keys are taken for nothing");
}
