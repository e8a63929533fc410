use std::path::Path;

use super::pace::{RUNS_HARD, RUNS_SOFT};
use super::told::STALL_OVER_AFTER;
use super::*;
use crate::events::Event;

#[test]
fn the_pace_falls_without_a_step_as_memory_fills() {
    let stall = Stall::new(1000);
    let mut before = 2.0;
    for used in 0..=1000 {
        stall.used.store(used, Ordering::Relaxed);
        let pace = stall.pressure().pace().unwrap_or(2.0);
        assert!(pace <= before && before - pace < 0.01, "{used}: {before} to {pace}");
        before = pace;
    }
    assert_eq!(before, 0.25);
}

#[test]
fn the_pace_falls_without_a_step_as_debt_grows() {
    for (runs, depth) in [(1, 0), (0, 1), (1, 1)] {
        let stall = Stall::new(1000);
        let mut before = 2.0;
        for debt in 0..100 {
            stall.set_debt(debt * runs, debt * depth);
            let pace = stall.pressure().pace().unwrap_or(2.0);
            // A step of debt takes no more than two fifths of the pace.
            assert!(pace <= before && pace > before * 0.6, "{debt}: {before} to {pace}");
            before = pace;
        }
        assert!(before < 0.02, "{before}");
    }
}

#[test]
fn compaction_yields_to_a_flush_unless_its_own_debt_presses() {
    let stall = Stall::new(1000);
    assert!(!stall.is_flush_first());
    stall.grow(600);
    assert!(stall.is_flush_first());
    stall.set_debt(RUNS_SOFT + 1, 0);
    assert!(!stall.is_flush_first());
    stall.set_debt(0, 0);
    stall.shrink(200);
    assert!(!stall.is_flush_first());
}

#[test]
fn writers_are_idle_when_the_next_flush_is_late() {
    let stall = Stall::new(1000);
    let seconds = Duration::from_secs;
    assert!(!stall.is_idle(Duration::from_millis(100)) && stall.is_idle(seconds(1)));
    for second in 0..50 {
        let start = seconds(2 * second);
        stall.note_flush(1, start, start);
        assert!(!stall.is_idle(start + Duration::from_millis(499)));
    }
    assert!(!stall.is_idle(seconds(98 + 3)), "a flush every two seconds: not late yet");
    assert!(stall.is_idle(seconds(98 + 5)));
    stall.grow(501);
    assert!(!stall.is_idle(seconds(98 + 5)), "memory is short");
}

#[test]
fn below_the_soft_mark_nobody_waits() {
    let stall = Stall::new(1 << 20);
    stall.admit(1 << 30, &Clock::manual(), &HealthCell::default(), || {}).expect("healthy");
    assert_eq!(stall.delays.load(Ordering::Relaxed), 0);
}

#[test]
fn a_stall_is_told_once_however_many_batches_wait_and_ends_after_a_second() {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let listener = {
        let heard = Arc::clone(&heard);
        move |event: &Event| heard.lock().push(format!("{event:?}"))
    };
    let events = Arc::new(Events::new(Path::new("/db"), Some(Arc::new(listener))));
    let stall = Stall::new(1000).telling(Arc::clone(&events));
    let (clock, health) = (Clock::manual(), HealthCell::default());
    // A stop lasts for longer than a stall without anybody waiting would.
    let stopped = || {
        clock.sleep(STALL_OVER_AFTER * 5);
        stall.end_if_over(clock.now());
        stall.shrink(500);
    };
    let admit = |bytes| stall.admit(bytes, &clock, &health, stopped).expect("healthy");
    let hear = || {
        events.deliver();
        std::mem::take(&mut *heard.lock())
    };
    admit(1 << 30);
    stall.grow(900);
    (0..5).for_each(|_| admit(1 << 20));
    assert_eq!(hear(), ["StallBegun { cause: Memory }"]);
    stall.end_if_over(clock.now() + STALL_OVER_AFTER / 2);
    assert_eq!(hear(), [""; 0], "others may come");
    stall.grow(100);
    admit(1);
    assert_eq!(
        hear(),
        ["StallBegun { cause: MemoryFull }"],
        "it has got worse, and is not over while one waits"
    );
    stall.set_debt(RUNS_HARD, 0);
    admit(1 << 20);
    assert_eq!(hear(), ["StallBegun { cause: Compaction }"], "it is another cause now");
    stall.set_debt(0, 0);
    stall.grow(400);
    admit(1 << 20);
    assert_eq!(hear(), [""; 0], "causes that alternate are told now and then");
    stall.shrink(400);
    stall.end_if_over(clock.now() + STALL_OVER_AFTER);
    stall.end_if_over(clock.now() + STALL_OVER_AFTER);
    let ended = hear();
    assert!(ended.len() == 1 && ended[0].starts_with("StallEnded { took: 5."), "{ended:?}");
    stall.set_debt(RUNS_HARD, 0);
    admit(1 << 20);
    stall.end();
    let heard = hear();
    assert_eq!(heard[0], "StallBegun { cause: Compaction }");
    assert!(heard.len() == 2 && heard[1].starts_with("StallEnded"), "{heard:?}");
    admit(1 << 20);
    assert_eq!(hear(), [""; 0], "there are no writers any more");
}

#[test]
fn at_the_hard_mark_a_closing_engine_wakes_the_waiter() {
    let stall = Stall::new(1000);
    stall.grow(1000);
    let health = HealthCell::default();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| stall.admit(1, &Clock::manual(), &health, || {}));
        std::thread::sleep(Duration::from_millis(10));
        health.close();
        waiter.join().expect("no panic").expect_err("closed");
    });
}
