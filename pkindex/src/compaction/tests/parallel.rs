//! Slices that run at the same time, on threads.

use super::*;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::AtomicUsize;

/// Runs jobs on so many threads, each of which takes the next job when it is done with one; the last comes first, so
/// that nothing can rest on the order.
struct Threads(usize);

impl Executor for Threads {
    fn run<'a>(&self, jobs: Vec<Box<dyn FnOnce() + Send + 'a>>) {
        let jobs = Mutex::new(VecDeque::from(jobs));
        std::thread::scope(|scope| {
            for _ in 0..self.0 {
                scope.spawn(|| {
                    loop {
                        let Some(job) = lock(&jobs).pop_back() else { return };
                        job();
                    }
                });
            }
        });
    }
}

/// An index whose newer run overwrites every other key, and a compaction of it that moves rows.
fn halves() -> (Index, Compaction) {
    let even = (0..1500).filter(|n| n % 2 == 0).map(|n| put(format!("{n:06}"))).collect::<Vec<_>>();
    let index = index_of(&[puts(0..1500), even]);
    let mut compaction = index.compaction(0..2, &everyone_reads_the_newest(&index));
    // Of the older run, the half that is not overwritten.
    compaction.moving = index.rowsets().into_iter().skip(1).take(1).collect();
    (index, compaction)
}

fn run_on(index: &Index, compaction: &Compaction, executor: &dyn Executor) -> Result<Outcome> {
    let moves = Arc::clone(&index.moves);
    let hook = move |_: usize| moves.hook();
    compaction.run(&index.disk, executor, &hook, &AtomicBool::new(false))
}

#[test]
fn a_compaction_is_cut_into_slices_which_may_run_at_the_same_time() {
    let (mut index, compaction) = halves();
    let outcome = run_on(&index, &compaction, &Threads(4)).expect("sound inputs");
    assert!(outcome.stats.slices >= 6, "{:?}", outcome.stats);
    assert_eq!(index.moves.finished.load(Ordering::Relaxed), outcome.stats.slices);
    assert_eq!(outcome.stats.entries_moved, 750);
    index.install(0..2, &outcome);
    index.check([index.version()]);
}

/// What a run says, whatever its files are called.
fn contents(index: &Index, outcome: &Outcome) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut lists = Vec::new();
    for file in &outcome.files {
        let file = index.disk.open(file).expect("what was written");
        let mut iter = file.reader.iter();
        iter.seek_to_first().expect("sound file");
        while iter.valid() {
            lists.push((iter.key().to_vec(), iter.value().to_vec()));
            iter.next().expect("sound file");
        }
    }
    lists
}

#[test]
fn threads_change_nothing_of_what_comes_out() {
    let (index, mut compaction) = halves();
    // Where a row is moved to is up to the hook.
    compaction.moving.clear();
    let inline = run_on(&index, &compaction, &InlineExecutor).expect("sound inputs");
    let wanted = contents(&index, &inline);
    let shape = |outcome: &Outcome| {
        let files = outcome.files.iter().map(|file| {
            (file.info.len, file.info.first_key.clone(), file.info.last_key.clone(), file.properties.clone())
        });
        (files.collect::<Vec<_>>(), outcome.stats)
    };
    for threads in [1, 2, 7] {
        let outcome = run_on(&index, &compaction, &Threads(threads)).expect("sound inputs");
        assert_eq!(shape(&outcome), shape(&inline), "{threads} threads");
        assert_eq!(contents(&index, &outcome), wanted, "{threads} threads");
    }
}

#[test]
fn a_compaction_that_is_cancelled_while_slices_run_stops_all_and_leaves_nothing() {
    let (index, compaction) = halves();
    let before = index.disk.fs.paths();
    for after in [0, 1, 3] {
        let cancel = AtomicBool::new(false);
        let begun = AtomicUsize::new(0);
        let moves = Arc::clone(&index.moves);
        let hook = |_: usize| {
            if begun.fetch_add(1, Ordering::Relaxed) >= after {
                cancel.store(true, Ordering::Relaxed);
            }
            moves.moved.lock().expect("no panic").clear();
            moves.hook()
        };
        let result = compaction.run(&index.disk, &Threads(2), &hook, &cancel);
        assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
        assert!(begun.load(Ordering::Relaxed) < 6, "no slice begins any more");
        assert_eq!(index.disk.fs.paths(), before);
    }
}

/// Waits with all threads in the middle of a slice, then lets one of them fail.
struct FailsAmong<'a> {
    together: &'a Barrier,
    asked: u32,
    fails: Option<fn() -> crate::BoxError>,
}

impl Relocate for FailsAmong<'_> {
    fn relocate(
        &mut self,
        _key: &[u8],
        _entry: Entry,
        from: Location,
    ) -> std::result::Result<Location, crate::BoxError> {
        self.asked += 1;
        if self.asked == 5 {
            self.together.wait();
            if let Some(fails) = self.fails {
                return Err(fails());
            }
        }
        Ok(Location { rowset: RowsetId(9000), ..from })
    }

    fn finish(self: Box<Self>) -> std::result::Result<(), crate::BoxError> {
        Ok(())
    }
}

/// Two slices are at work at the same time when one of them fails. Gives what came out of it.
fn one_of_two_fails(
    index: &Index,
    compaction: &Compaction,
    fails: fn() -> crate::BoxError,
) -> Result<Outcome> {
    // Leaked, because hooks outlive this function as far as their type tells.
    let together: &'static Barrier = Box::leak(Box::new(Barrier::new(2)));
    let made = AtomicUsize::new(0);
    let hook = |_: usize| -> Box<dyn Relocate> {
        let number = made.fetch_add(1, Ordering::Relaxed);
        let asked = if number < 2 { 0 } else { 100 };
        Box::new(FailsAmong { together, asked, fails: (number == 1).then_some(fails) })
    };
    compaction.run(&index.disk, &Threads(2), &hook, &AtomicBool::new(false))
}

#[test]
fn an_error_in_one_of_several_slices_removes_the_outputs_of_all() {
    let (mut index, compaction) = halves();
    let before = index.disk.fs.paths();
    let error =
        one_of_two_fails(&index, &compaction, || "no room for rows".into()).expect_err("a hook fails");
    assert!(error.relocate().is_some_and(|source| source.to_string() == "no room for rows"), "{error}");
    assert_eq!(index.disk.fs.paths(), before);
    index.check([index.version()]);
    index.compact(0..2, &everyone_reads_the_newest(&index));
    index.check([index.version()]);
}

#[test]
fn a_panic_in_one_of_several_slices_removes_the_outputs_of_all_and_goes_on() {
    let (mut index, compaction) = halves();
    let before = index.disk.fs.paths();
    let result =
        catch_unwind(AssertUnwindSafe(|| one_of_two_fails(&index, &compaction, || panic!("a broken hook"))));
    let panic = result.expect_err("the panic reaches who asked");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"a broken hook"));
    assert_eq!(index.disk.fs.paths(), before);
    index.check([index.version()]);
    index.compact(0..2, &everyone_reads_the_newest(&index));
    index.check([index.version()]);
}

#[test]
fn an_executor_that_panics_leaves_nothing_behind_either() {
    struct Broken;
    impl Executor for Broken {
        fn run<'a>(&self, jobs: Vec<Box<dyn FnOnce() + Send + 'a>>) {
            jobs.into_iter().take(3).for_each(|job| job());
            panic!("no threads");
        }
    }
    let (index, compaction) = halves();
    let before = index.disk.fs.paths();
    let result = catch_unwind(AssertUnwindSafe(|| run_on(&index, &compaction, &Broken)));
    assert!(result.is_err());
    assert_eq!(index.disk.fs.paths(), before);
}
