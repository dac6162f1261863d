//! The protocol under loom: every order of the threads' steps (up to three preemptions), with each row a loom cell.
//!
//! Each model is run as it is, where it must pass, and with the faults that it is there to catch, where it must fail.
//! The code under test is the real one; only the rows have a shadow that loom watches.

#![allow(clippy::unwrap_used)]

use super::fault::{Fault, plant};
use super::*;
use crate::{Allocator, Tensor};
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

const POLICY: AppendPolicy = AppendPolicy {
    initial_capacity: 4,
    max_length: None,
    reuse: AppendReuse::Always,
};

/// Runs a model on every schedule, with or without a fault.
fn explore(fault: Option<Fault>, model: impl Fn() + Sync + Send + 'static) {
    plant(fault);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
    plant(None);
}

/// `[2, rows, 1]` elements with the given values in both outer slices.
fn column(values: &[u8]) -> Tensor {
    Tensor::from_slice(&[2, values.len(), 1], &[values, values].concat()).unwrap()
}

fn reserve(kept: &mut PersistentTensor, rows: usize) -> AppendReservation {
    let shape = [2, kept.tensor().shape()[1] + rows, 1];
    match kept
        .lease(&POLICY)
        .reserve(&shape, 1, &Allocator::default())
    {
        Ok(Reserve::Ready(reservation)) => reservation,
        other => panic!("no reservation: {other:?}"),
    }
}

fn candidate(kept: &mut PersistentTensor, value: u8) -> AppendCandidate {
    let mut reservation = reserve(kept, 1);
    reservation.write_rows(0, &column(&[value])).unwrap();
    reservation.seal()
}

/// Appends one row, publishes it, and says whether that was in place.
fn append(kept: &mut PersistentTensor, value: u8) -> bool {
    let candidate = candidate(kept, value);
    let in_place = candidate.outcome() == Outcome::InPlace;
    *kept = candidate.publish();
    in_place
}

fn expect(tensor: &Tensor, values: &[u8]) {
    let seen = tensor.view::<u8>().unwrap().to_vec();
    assert_eq!(seen, [values, values].concat());
}

/// A published value of a block with four rows of room.
fn published(values: &[u8]) -> PersistentTensor {
    let mut kept = PersistentTensor::imported(column(&[]));
    let mut reservation = reserve(&mut kept, values.len());
    reservation.write_rows(0, &column(values)).unwrap();
    kept = reservation.seal().publish();
    assert_eq!(kept.capacity_rows(), 4);
    kept
}

/// Two forks append at once, while a third thread reads the rows they share.
fn forks() {
    let mut one = published(&[7]);
    let mut two = one.fork();
    let old = one.tensor().clone();
    let other = thread::spawn(move || {
        let in_place = append(&mut two, 2);
        expect(two.tensor(), &[7, 2]);
        in_place
    });
    let reader = thread::spawn(move || expect(&old, &[7]));
    let in_place = append(&mut one, 1);
    expect(one.tensor(), &[7, 1]);
    reader.join().unwrap();
    assert!(in_place ^ other.join().unwrap(), "one wins the tail");
}

#[test]
fn loom_one_of_two_forks_wins() {
    explore(None, forks);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_catches_a_claim_that_does_not_compare() {
    explore(Some(Fault::UncheckedClaim), forks);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_catches_a_reference_over_the_gap_between_slices() {
    explore(Some(Fault::SpanningReference), forks);
}

/// One fork writes and gives back, the other may then claim the same rows.
fn giving_back() {
    let mut one = published(&[7]);
    let mut two = one.fork();
    let other = thread::spawn(move || {
        let mut failing = reserve(&mut two, 2);
        failing.write_rows(0, &column(&[8, 9])).unwrap();
        drop(failing);
        append(&mut two, 2);
        expect(two.tensor(), &[7, 2]);
    });
    append(&mut one, 1);
    append(&mut one, 3);
    expect(one.tensor(), &[7, 1, 3]);
    other.join().unwrap();
}

#[test]
fn loom_rows_given_back_are_claimed_again() {
    explore(None, giving_back);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_catches_a_relaxed_watermark() {
    explore(Some(Fault::RelaxedWatermark), giving_back);
}

/// An empty append is abandoned while another fork publishes a row; then the first fork appends.
fn empty() {
    let mut one = published(&[7]);
    let mut two = one.fork();
    let other = thread::spawn(move || {
        append(&mut two, 2);
        expect(two.tensor(), &[7, 2]);
    });
    let nothing = reserve(&mut one, 0);
    assert_eq!(nothing.outcome(), Outcome::InPlace);
    drop(nothing);
    append(&mut one, 1);
    expect(one.tensor(), &[7, 1]);
    other.join().unwrap();
}

#[test]
fn loom_an_empty_append_leaves_the_watermark() {
    explore(None, empty);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_catches_a_rollback_by_store() {
    explore(Some(Fault::RollbackByStore), empty);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_catches_an_empty_claim() {
    explore(Some(Fault::EmptyClaim), empty);
}

/// A window whose first row was sliced off appends while the whole value is read.
fn window() {
    let whole = published(&[7, 8, 9]);
    let mut slid = whole.slice_rows(1, 2).unwrap();
    let reader = thread::spawn(move || expect(whole.tensor(), &[7, 8, 9]));
    assert!(append(&mut slid, 1));
    reader.join().unwrap();
    expect(slid.tensor(), &[8, 9, 1]);
}

#[test]
fn loom_a_window_appends_behind_its_end_row() {
    explore(None, window);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_catches_rows_placed_by_length() {
    explore(Some(Fault::ClaimByLength), window);
}

/// A failed call's result is still read by somebody when the call takes its rows back and a fork appends.
fn escape() {
    let mut one = published(&[7]);
    let mut two = one.fork();
    let failed = candidate(&mut one, 1);
    let escaped = failed.tensor();
    let reader = thread::spawn(move || expect(&escaped, &[7, 1]));
    let other = thread::spawn(move || {
        append(&mut two, 2);
        expect(two.tensor(), &[7, 2]);
    });
    failed.discard();
    append(&mut one, 3);
    expect(one.tensor(), &[7, 3]);
    reader.join().unwrap();
    other.join().unwrap();
}

#[test]
fn loom_an_escaped_view_burns_its_rows() {
    explore(None, escape);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_catches_rows_taken_from_a_view() {
    explore(Some(Fault::ForgottenView), escape);
}

/// The other fork's rows are free again only when everything that saw them is gone.
fn rewinding() {
    let mut one = published(&[7]);
    let mut two = one.fork();
    let other = thread::spawn(move || {
        append(&mut two, 2);
        expect(two.tensor(), &[7, 2]);
    });
    append(&mut one, 1);
    expect(one.tensor(), &[7, 1]);
    other.join().unwrap();
    let mut short = one.slice_rows(0, 1).unwrap();
    let long = thread::spawn(move || expect(one.tensor(), &[7, 1]));
    append(&mut short, 3);
    expect(short.tensor(), &[7, 3]);
    long.join().unwrap();
}

#[test]
fn loom_rows_are_rewound_by_the_last_holder() {
    explore(None, rewinding);
}

/// A published value is handed to a reader that never shared a handle. The slot is invisible to loom, so only `flag` orders.
fn handing_over(done: Ordering, seen: Ordering) {
    let slot = std::sync::Arc::new(std::sync::Mutex::new(None));
    let flag = Arc::new(AtomicUsize::new(0));
    let (to, ready) = (slot.clone(), flag.clone());
    let mut kept = published(&[7]);
    let writer = thread::spawn(move || {
        assert!(append(&mut kept, 1));
        *to.lock().unwrap() = Some(kept);
        ready.store(1, done);
    });
    if flag.load(seen) == 1 {
        let kept = slot.lock().unwrap().take();
        expect(kept.unwrap().tensor(), &[7, 1]);
    }
    writer.join().unwrap();
    drop(slot.lock().unwrap().take());
}

#[test]
fn loom_a_published_value_is_handed_over() {
    explore(None, || handing_over(Ordering::Release, Ordering::Acquire));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn loom_catches_a_relaxed_publication() {
    explore(None, || handing_over(Ordering::Relaxed, Ordering::Relaxed));
}
