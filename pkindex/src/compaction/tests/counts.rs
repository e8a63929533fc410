//! What the checks of a compaction are there for: bugs are planted into what its slices say of themselves.

use super::*;

/// Has the slices of a compaction run, without the check that follows.
fn slices(index: &Index, compaction: &Compaction) -> (Plan, Vec<SliceOutcome>) {
    let plan = Plan::new(compaction).expect("sound files");
    let output = NotedOutput { output: &index.disk, paths: Mutex::default() };
    let moves = Arc::clone(&index.moves);
    let hook = move |_: usize| moves.hook();
    let shared = Shared {
        compaction,
        output: &output,
        relocate: &hook,
        cancel: &AtomicBool::new(false),
        failed: AtomicBool::new(false),
        scratch: Mutex::default(),
    };
    let outcomes = run_slices(&plan, &shared, &InlineExecutor);
    let outcomes = outcomes.unwrap_or_else(|_| panic!("no slice panics")).expect("sound files");
    (plan, outcomes)
}

type Sabotage = fn(&mut SliceOutcome);

// Case 62: a row counted dead once is not counted twice, and none is forgotten.
#[test]
fn a_count_that_is_wrong_by_one_is_noticed_whichever_it_is() {
    let mut index =
        index_of(&[puts(0..400), [puts(100..200), vec![delete("000250")]].concat(), puts(500..600)]);
    let retention = everyone_reads_the_newest(&index);
    let mut compaction = index.compaction(0..3, &retention);
    compaction.options.reuse_bytes_min = u64::MAX;
    let (plan, mut outcomes) = slices(&index, &compaction);
    compaction.check(&plan, &outcomes).expect("nothing is wrong yet");
    let planted: [(&str, Sabotage); 8] = [
        ("a dropped entry is counted twice", |slice| slice.counts.entries_dropped += 1),
        ("a dropped entry is forgotten", |slice| slice.counts.entries_dropped -= 1),
        ("a key is not read", |slice| slice.counts.lists_in -= 1),
        ("an entry is not read", |slice| slice.counts.entries_in -= 1),
        ("an entry is not read, nor written", |slice| {
            slice.counts.entries_in -= 1;
            slice.files[0].properties.entries -= 1;
        }),
        ("a deletion is read that is none", |slice| slice.counts.deletions_in += 1),
        ("a rowset has an entry too many", |slice| slice.counts.rowsets_in.add(RowsetId(0), 1)),
        ("a file is lost", |slice| slice.files.truncate(0)),
    ];
    for (what, sabotage) in planted {
        // Which slice it is does not matter; the counts of this one are large enough for all.
        let at = outcomes.iter().position(|slice| slice.counts.entries_dropped > 1).expect("entries go");
        let sound = SliceOutcome { files: outcomes[at].files.clone(), counts: outcomes[at].counts.clone() };
        sabotage(&mut outcomes[at]);
        let error = compaction.check(&plan, &outcomes).expect_err(what);
        assert!(matches!(error, Error::Count { .. } | Error::RowsetCount { .. }), "{what}: {error}");
        outcomes[at] = sound;
    }
    // Slices that are exchanged have all the right counts.
    outcomes.swap(0, 1);
    assert!(matches!(compaction.check(&plan, &outcomes), Err(Error::Slices { .. })));
    outcomes.swap(0, 1);
    let stats = compaction.check(&plan, &outcomes).expect("all is as it was");
    let files = outcomes.into_iter().flat_map(|outcome| outcome.files).collect();
    index.install(0..3, &Outcome { files, reused: Vec::new(), stats });
    index.check([index.version()]);
}

// Case 62: the smallest key of a slice, here and in the whole input.
#[test]
fn each_slice_holds_its_smallest_key_and_its_greatest() {
    let mut index = index_of(&[puts(0..600), puts(0..600)]);
    let compaction = index.compaction(0..2, &everyone_reads_the_newest(&index));
    let (plan, outcomes) = slices(&index, &compaction);
    assert!(outcomes.len() >= 4);
    let mut next = 0;
    for outcome in &outcomes {
        let first = &outcome.files.first().expect("each slice has keys").info.first_key;
        let last = &outcome.files.last().expect("each slice has keys").info.last_key;
        let number =
            |key: &[u8]| -> u32 { std::str::from_utf8(key).expect("digits").parse().expect("digits") };
        assert_eq!(number(first), next, "nothing between two slices is lost, and nothing is there twice");
        next = number(last) + 1;
    }
    assert_eq!(next, 600);
    let stats = compaction.check(&plan, &outcomes).expect("sound");
    let files = outcomes.into_iter().flat_map(|outcome| outcome.files).collect();
    index.install(0..2, &Outcome { files, reused: Vec::new(), stats });
    index.check([index.version()]);
}
