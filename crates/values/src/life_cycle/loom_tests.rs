//! The life of a state under loom: a run, a reset, a reader and a closing on three threads, in every order.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::append::fault::plant;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// A retained value that loom watches: keys and values that only ever change together.
struct Retained {
    keys: UnsafeCell<usize>,
    values: UnsafeCell<usize>,
}

impl Retained {
    fn new() -> LifeCycle<Retained> {
        LifeCycle::new(Retained {
            keys: UnsafeCell::new(0),
            values: UnsafeCell::new(0),
        })
    }

    fn set(&self, value: usize) {
        // SAFETY: loom runs one thread at a time and reports accesses that are not ordered.
        self.keys.with_mut(|keys| unsafe { *keys = value });
        thread::yield_now();
        // SAFETY: as above.
        self.values.with_mut(|values| unsafe { *values = value });
    }

    fn get(&self) -> usize {
        // SAFETY: as in `set`.
        let keys = self.keys.with(|keys| unsafe { *keys });
        // SAFETY: as in `set`.
        let values = self.values.with(|values| unsafe { *values });
        assert_eq!(keys, values, "keys and values of one moment");
        keys
    }
}

fn explore(fault: Option<Fault>, model: impl Fn() + Sync + Send + 'static) {
    plant(fault);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
    plant(None);
}

/// Two steps and a reader: no operation sees another one's work half done, and every successful one counts.
fn steps() {
    let cell = Arc::new(Retained::new());
    let (one, two) = (cell.clone(), cell.clone());
    let run = |cell: Arc<LifeCycle<Retained>>| {
        thread::spawn(move || match cell.take() {
            Ok(taken) => {
                taken.set(taken.get() + 1);
                1
            }
            Err(refusal) => {
                assert_eq!(refusal, Refusal::Busy);
                0
            }
        })
    };
    let (one, two) = (run(one), run(two));
    if let Ok(taken) = cell.take() {
        assert!(taken.get() <= 2);
    }
    let done = one.join().unwrap() + two.join().unwrap();
    let taken = cell.take().unwrap();
    assert_eq!(taken.get(), done);
}

#[test]
fn loom_operations_never_overlap() {
    explore(None, steps);
}

/// A run and a closing: whoever is told that the state is closed never meets an open one again.
fn closing() {
    let cell = Arc::new(Retained::new());
    let (running, reading) = (cell.clone(), cell.clone());
    let run = thread::spawn(move || {
        if let Ok(taken) = running.take() {
            taken.set(1);
        }
    });
    let reader = thread::spawn(move || match reading.take().map(|taken| taken.get()) {
        Ok(value) => assert!(value <= 1),
        Err(Refusal::Closed) => {
            // Somebody else may just look, and is told apart from an open state.
            assert!(reading.take().is_err());
        }
        Err(Refusal::Busy) => {}
    });
    let closed = cell.close();
    run.join().unwrap();
    reader.join().unwrap();
    match closed {
        Ok(Some(value)) => {
            assert!(value.get() <= 1);
            assert_eq!(cell.take().err(), Some(Refusal::Closed), "closed for good");
        }
        Ok(None) => panic!("closed twice"),
        Err(refusal) => {
            assert_eq!(refusal, Refusal::Busy);
            assert!(cell.take().is_ok(), "a refused closing changes nothing");
        }
    }
}

#[test]
fn loom_a_closed_state_stays_closed() {
    explore(None, closing);
}

#[test]
#[should_panic(expected = "closed twice")]
fn loom_catches_a_closing_that_does_not_look_for_an_operation() {
    explore(Some(Fault::CloseWhileBusy), closing);
}
