//! Publication against cancellation under loom: a run swaps two handles, K and V, while another thread cancels and then
//! reads them.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::append::fault::plant;
use crate::sync::Arc;
use loom::sync::atomic::AtomicUsize as Handle;
use loom::thread;

/// Runs a model on every schedule, with or without a fault.
fn explore(fault: Option<Fault>, model: impl Fn() + Sync + Send + 'static) {
    plant(fault);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
    plant(None);
}

/// The retained handles, with the lock of the state as a run holds it.
struct State {
    cell: CompletionCell,
    busy: loom::sync::Mutex<()>,
    k: Handle,
    v: Handle,
}

impl State {
    fn new() -> Arc<State> {
        Arc::new(State {
            cell: CompletionCell::new(),
            busy: loom::sync::Mutex::new(()),
            k: Handle::new(0),
            v: Handle::new(0),
        })
    }

    /// A run: true when it published.
    fn run(&self) -> bool {
        let _busy = self.busy.lock().unwrap();
        if self.cell.begin().is_err() {
            return false;
        }
        let published = self.cell.publish();
        if published {
            self.k.store(1, Ordering::Relaxed);
            self.v.store(1, Ordering::Relaxed);
        }
        self.cell.release();
        published
    }

    fn values(&self) -> (usize, usize) {
        let _busy = self.busy.lock().unwrap();
        (
            self.k.load(Ordering::Relaxed),
            self.v.load(Ordering::Relaxed),
        )
    }
}

fn publication_against_cancellation() {
    let state = State::new();
    let runner = {
        let state = Arc::clone(&state);
        thread::spawn(move || state.run())
    };
    let cancelled = state.cell.cancel().is_ok();
    let (k, v) = state.values();
    assert_eq!(k, v, "K and V change together");
    if cancelled {
        assert_eq!((k, v), (0, 0), "cancelled, yet published");
    }
    let published = runner.join().unwrap();
    assert!(published ^ cancelled, "exactly one wins");
    assert_eq!(
        state.values(),
        (usize::from(published), usize::from(published))
    );
}

#[test]
fn loom_publication_or_cancellation_wins() {
    explore(None, publication_against_cancellation);
}

#[test]
#[should_panic(expected = "cancelled, yet published")]
fn loom_catches_a_publication_that_does_not_compare() {
    explore(
        Some(Fault::PublicationByStore),
        publication_against_cancellation,
    );
}

/// Two threads cancel while a run fails and gives its cell back.
fn cancellation_against_failure() {
    let cell = Arc::new(CompletionCell::new());
    let canceller = {
        let cell = Arc::clone(&cell);
        thread::spawn(move || cell.cancel().is_ok())
    };
    let ran = cell.begin().is_ok();
    if ran {
        cell.release();
    }
    let mine = cell.cancel().is_ok();
    let other = canceller.join().unwrap();
    assert!(mine ^ other, "exactly one cancels");
    assert_eq!(cell.status(), TaskStatus::Cancelled);
}

#[test]
fn loom_one_of_two_cancellers_wins() {
    explore(None, cancellation_against_failure);
}
