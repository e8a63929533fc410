//! Listeners do no harm, whatever they do: they call, wait, panic, close the engine or let go of it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use nyala::{Engine, Event, EventListener, Health, Options, RuntimeMode};

use super::{Heard, told, write};
use crate::support::{eventually, in_time, lazy, plain_table, rows, scratch, tiny};

/// Calls what a listener can call, whatever it hears.
#[derive(Default)]
struct Caller {
    engine: OnceLock<Engine>,
    calls: AtomicU64,
}

impl EventListener for Caller {
    fn on_event(&self, event: &Event) {
        let Some(engine) = self.engine.get() else { return };
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let _ = engine.stats().to_string();
        let _ = engine.snapshot();
        // Once it is closed these are refused.
        let Ok(table) = engine.existing_table("t") else { return };
        let _ = table.upsert((1_000_000, 1, "from the listener"));
        let _ = table.count();
        // What it causes it hears of: not for ever.
        if number < 20 {
            let _ = table.flush();
            let _ = table.compact();
            let name = format!("of event {number}");
            let made = engine.create_table(&name, crate::support::plain());
            if made.is_ok() {
                let _ = engine.drop_table(&name);
            }
        }
        assert!(!number.is_multiple_of(3), "a listener that panics at {event:?}");
    }
}

#[test]
fn a_listener_may_call_the_engine_and_panic_and_is_called_under_no_lock() {
    for runtime in [RuntimeMode::Threads, RuntimeMode::Inline { seed: 3 }] {
        in_time("an engine with a busy listener", Duration::from_secs(60), move || {
            let dir = scratch();
            let caller = Arc::new(Caller::default());
            let listener = Arc::clone(&caller);
            let options = told(move |event: &Event| listener.on_event(event), Options { runtime, ..tiny() });
            let engine = Engine::open(dir.path(), options).expect("it opens");
            assert!(caller.engine.set(engine.clone()).is_ok());
            let table = plain_table(&engine);
            for round in 0..10 {
                write(&table, round * 100..round * 100 + 200);
                table.flush().expect("it is flushed");
            }
            table.delete(1_000_000).expect("deleted");
            let ids: BTreeSet<u32> = rows(&table).into_iter().map(|(id, _)| id).collect();
            assert!((0..1100).all(|id| ids.contains(&id)));
            engine.close().expect("it closes");
            assert!(caller.calls.load(Ordering::Relaxed) > 10);
            assert!(Engine::open(dir.path(), tiny()).is_ok(), "the directory is free");
        });
    }
}

#[test]
fn a_listener_that_waits_holds_up_nobody_but_the_close() {
    let dir = scratch();
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let heard = Heard::default();
    let listener = {
        let heard = heard.clone();
        move |event: &Event| {
            // An end of the channel lets everything pass.
            let _ = wait.lock().expect("no panics").recv();
            heard.on_event(event);
        }
    };
    let engine = Engine::open(dir.path(), told(listener, tiny())).expect("it opens");
    let table = plain_table(&engine);
    for round in 0..5 {
        write(&table, round * 100..round * 100 + 300);
        table.flush().expect("it is flushed");
        table.compact().expect("it is compacted");
    }
    assert!(heard.all().is_empty(), "it waits for the first");
    drop(go);
    engine.close().expect("it closes");
    let ended = |event: &&Event| matches!(event, Event::CompactionEnded { result: Ok(_), .. });
    assert_eq!(heard.all().iter().filter(ended).count() as u64, engine.stats().compactions);
}

#[test]
fn a_listener_may_close_the_engine() {
    in_time("closing from within", Duration::from_secs(30), || {
        let dir = scratch();
        let closer: Arc<OnceLock<Engine>> = Arc::default();
        let listener = {
            let closer = Arc::clone(&closer);
            move |event: &Event| {
                if let (Event::FlushEnded { .. }, Some(engine)) = (event, closer.get()) {
                    engine.close().expect("it closes");
                }
            }
        };
        let engine = Engine::open(dir.path(), told(listener, tiny())).expect("it opens");
        assert!(closer.set(engine.clone()).is_ok());
        let table = plain_table(&engine);
        write(&table, 0..10);
        // The flush may be told of a close already.
        let _ = table.flush();
        eventually("the close", || matches!(engine.health(), Health::Closed));
        engine.close().expect("again");
        let engine = Engine::open(dir.path(), tiny()).expect("the directory is free");
        assert_eq!(rows(&plain_table(&engine)).len(), 10);
    });
}

#[test]
fn a_listener_that_closes_the_engine_while_another_does_holds_nobody_up() {
    in_time("two closes", Duration::from_secs(30), || {
        let dir = scratch();
        let closer: Arc<OnceLock<Engine>> = Arc::default();
        let listener = {
            let closer = Arc::clone(&closer);
            move |event: &Event| {
                if let (Event::FlushBegun { .. }, Some(engine)) = (event, closer.get()) {
                    // The other one is closing by then, and waits for what this thread does.
                    eventually("the other close", || matches!(engine.health(), Health::Closed));
                    engine.close().expect("it closes");
                }
            }
        };
        let engine = Engine::open(dir.path(), told(listener, lazy())).expect("it opens");
        assert!(closer.set(engine.clone()).is_ok());
        let table = plain_table(&engine);
        write(&table, 0..10);
        table.flush().expect("it is flushed");
        write(&table, 10..20);
        engine.close().expect("it closes");
        let engine = Engine::open(dir.path(), tiny()).expect("the directory is free");
        assert_eq!(rows(&plain_table(&engine)).len(), 20);
    });
}

#[test]
fn the_last_handle_may_be_dropped_in_a_listener() {
    for runtime in [RuntimeMode::Threads, RuntimeMode::Inline { seed: 3 }] {
        in_time("an engine that goes in its listener", Duration::from_secs(30), move || {
            let dir = scratch();
            let last: Arc<Mutex<Option<Engine>>> = Arc::default();
            let (gone, wait) = mpsc::channel();
            let listener = {
                let last = Arc::clone(&last);
                move |event: &Event| {
                    if matches!(event, Event::FlushEnded { .. }) {
                        let taken = last.lock().expect("no panics").take();
                        if taken.is_some() {
                            drop(taken);
                            let _ = gone.send(());
                        }
                    }
                }
            };
            let options = told(listener, Options { runtime, ..lazy() });
            let engine = Engine::open(dir.path(), options).expect("it opens");
            let table = plain_table(&engine);
            write(&table, 0..10);
            *last.lock().expect("no panics") = Some(engine);
            let _ = table.flush();
            drop(table);
            wait.recv().expect("it is dropped there");
            eventually("the directory is free", || Engine::open(dir.path(), tiny()).is_ok());
            let engine = Engine::open(dir.path(), tiny()).expect("it is free");
            assert_eq!(rows(&plain_table(&engine)).len(), 10);
        });
    }
}

#[test]
fn an_engine_that_is_closed_lets_go_of_a_listener_that_holds_it() {
    let dir = scratch();
    let caller = Arc::new(Caller::default());
    let options = Options { listener: Some(Arc::clone(&caller) as Arc<dyn EventListener>), ..lazy() };
    let engine = Engine::open(dir.path(), options).expect("it opens");
    assert!(caller.engine.set(engine.clone()).is_ok());
    let listener = Arc::downgrade(&caller);
    drop(caller);
    engine.close().expect("it closes");
    assert!(listener.upgrade().is_none(), "nobody else has it");
}

/// Closing tells of a change of health, and waits until the listener has heard of it.
#[test]
fn a_listener_may_close_the_engine_when_it_hears_of_a_close() {
    in_time("closing from within a close", Duration::from_secs(30), || {
        for options in [tiny(), Options { runtime: RuntimeMode::Inline { seed: 1 }, ..tiny() }] {
            let dir = scratch();
            let closer: Arc<OnceLock<Engine>> = Arc::default();
            let closed = Arc::new(AtomicU64::new(0));
            let listener = {
                let (closer, closed) = (Arc::clone(&closer), Arc::clone(&closed));
                move |event: &Event| {
                    if let (Event::HealthChanged { .. }, Some(engine)) = (event, closer.get()) {
                        engine.close().expect("somebody else does it");
                        closed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            };
            let engine = Engine::open(dir.path(), told(listener, options)).expect("it opens");
            assert!(closer.set(engine.clone()).is_ok());
            write(&plain_table(&engine), 0..10);
            engine.close().expect("a clean end");
            assert_eq!(closed.load(Ordering::Relaxed), 1);
            let engine = Engine::open(dir.path(), tiny()).expect("the directory is free");
            assert_eq!(engine.recovery_report().batches, 0, "a clean end leaves nothing to replay");
            assert_eq!(rows(&plain_table(&engine)).len(), 10);
        }
    });
}

#[test]
fn whoever_closes_first_the_listener_or_another_both_return() {
    in_time("closing from within and without", Duration::from_secs(60), || {
        for round in 0..20 {
            let dir = scratch();
            let closer: Arc<OnceLock<Engine>> = Arc::default();
            let listener = {
                let closer = Arc::clone(&closer);
                move |event: &Event| {
                    if let (Event::FlushBegun { .. } | Event::HealthChanged { .. }, Some(engine)) =
                        (event, closer.get())
                    {
                        engine.close().expect("it closes");
                    }
                }
            };
            let engine = Engine::open(dir.path(), told(listener, tiny())).expect("it opens");
            assert!(closer.set(engine.clone()).is_ok());
            let table = plain_table(&engine);
            write(&table, 0..10);
            let flusher = std::thread::spawn(move || drop(table.flush()));
            if round % 2 == 1 {
                eventually("the flush", || engine.stats().flushes > 0 || engine.existing_table("t").is_err());
            }
            engine.close().expect("it closes");
            flusher.join().expect("no panics");
            let engine = Engine::open(dir.path(), tiny()).expect("the directory is free");
            assert_eq!(rows(&plain_table(&engine)).len(), 10);
        }
    });
}
