//! Appending and reading one block from several threads; made for ThreadSanitizer, useful without it.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

use refeed_values::append::{AppendPolicy, PersistentTensor, Reserve};
use refeed_values::{Allocator, Tensor};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::thread;
use std::time::Instant;

/// A channel of one tensor. The library's own channels and locks are compiled without instrumentation, so
/// ThreadSanitizer would not see that they order anything.
#[derive(Clone, Default)]
struct Slot(Arc<(AtomicPtr<Tensor>, AtomicBool)>);

impl Slot {
    fn send(&self, tensor: Tensor) {
        let tensor = Box::into_raw(Box::new(tensor));
        let (place, empty) = (&self.0.0, std::ptr::null_mut());
        let start = Instant::now();
        while place
            .compare_exchange(empty, tensor, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
        {
            assert!(start.elapsed().as_secs() < 20, "the reader is gone");
            thread::yield_now();
        }
    }

    fn close(&self) {
        self.0.1.store(true, Ordering::Release);
    }

    fn receive(&self) -> Option<Tensor> {
        loop {
            let closed = self.0.1.load(Ordering::Acquire);
            let tensor = self.0.0.swap(std::ptr::null_mut(), Ordering::AcqRel);
            if !tensor.is_null() {
                // SAFETY: `send` made it of a box, and the swap took it out of the slot for good.
                return Some(*unsafe { Box::from_raw(tensor) });
            }
            if closed {
                return None;
            }
            thread::yield_now();
        }
    }
}

const SLICES: usize = 3;
const WIDTH: usize = 5;

fn rows(of: impl Fn(usize) -> f32, count: usize) -> Tensor {
    let data: Vec<f32> = (0..SLICES * count * WIDTH)
        .map(|at| of(at / WIDTH % count) + (at / WIDTH / count) as f32)
        .collect();
    Tensor::from_slice(&[SLICES, count, WIDTH], &data).unwrap()
}

/// Appends one row of `value`, or abandons it half-way.
fn append(kept: &mut PersistentTensor, value: f32, keep: bool, memory: &Allocator) {
    let shape = [SLICES, kept.tensor().shape()[1] + 1, WIDTH];
    let lease = kept.lease(&AppendPolicy::default());
    let Reserve::Ready(mut reserved) = lease.reserve(&shape, 1, memory).unwrap() else {
        panic!("declined")
    };
    reserved.write_rows(0, &rows(|_| value, 1)).unwrap();
    if keep {
        *kept = reserved.seal().publish();
    }
}

fn expect(tensor: &Tensor, of: impl Fn(usize) -> f32) {
    let want = rows(of, tensor.shape()[1]);
    let (got, want) = (tensor.view::<f32>().unwrap(), want.view::<f32>().unwrap());
    assert!(got.iter().eq(want.iter()));
}

#[test]
fn one_fork_appends_while_the_other_reads() {
    let memory = Allocator::default();
    let mut kept = PersistentTensor::imported(rows(|row| row as f32, 2));
    append(&mut kept, 2., true, &memory);
    let other = kept.fork();
    let reader = thread::spawn(move || {
        for _ in 0..2000 {
            expect(other.tensor(), |row| row as f32);
        }
    });
    for row in 3..400 {
        append(&mut kept, row as f32, true, &memory);
    }
    reader.join().unwrap();
    expect(kept.tensor(), |row| row as f32);
}

#[test]
fn published_handles_are_read_on_another_thread_while_rows_are_appended() {
    let memory = Allocator::default();
    let slot = Slot::default();
    let from = slot.clone();
    let reader = thread::spawn(move || {
        let mut longest = 0;
        while let Some(tensor) = from.receive() {
            expect(&tensor, |row| row as f32);
            longest = longest.max(tensor.shape()[1]);
        }
        longest
    });
    let mut kept = PersistentTensor::imported(rows(|_| 0., 0));
    for row in 0..400 {
        append(&mut kept, row as f32, true, &memory);
        slot.send(kept.tensor().clone());
    }
    slot.close();
    assert_eq!(reader.join().unwrap(), 400);
}

#[test]
fn forks_race_for_one_tail_and_give_back() {
    let memory = Allocator::default();
    for round in 0..200 {
        let mut base = PersistentTensor::imported(rows(|row| row as f32, 1));
        append(&mut base, 1., true, &memory);
        let racers: Vec<_> = (0..3)
            .map(|racer| {
                let (mut kept, memory) = (base.fork(), memory.clone());
                thread::spawn(move || {
                    let mine = 100. * (racer + 1) as f32;
                    for step in 0..6 {
                        // each racer abandons its attempts now and then, and the rows go to another
                        append(&mut kept, mine, (step + racer + round) % 3 == 0, &memory);
                    }
                    expect(kept.tensor(), |row| if row < 2 { row as f32 } else { mine });
                    kept.tensor().shape()[1]
                })
            })
            .collect();
        for racer in racers {
            assert_eq!(racer.join().unwrap(), 4);
        }
        expect(base.tensor(), |row| row as f32);
    }
}

#[test]
fn escaped_views_of_failed_calls_stay_whole() {
    let memory = Allocator::default();
    let slot = Slot::default();
    let from = slot.clone();
    let reader = thread::spawn(move || {
        while let Some(tensor) = from.receive() {
            let last = tensor.shape()[1] - 1;
            expect(&tensor, |row| if row == last { -1. } else { row as f32 });
        }
    });
    let mut kept = PersistentTensor::imported(rows(|_| 0., 0));
    for row in 0..300 {
        if row % 3 == 1 {
            let shape = [SLICES, row + 1, WIDTH];
            let lease = kept.lease(&AppendPolicy::default());
            let Reserve::Ready(mut reserved) = lease.reserve(&shape, 1, &memory).unwrap() else {
                panic!("declined")
            };
            reserved.write_rows(0, &rows(|_| -1., 1)).unwrap();
            let candidate = reserved.seal();
            slot.send(candidate.tensor());
            candidate.discard();
        }
        append(&mut kept, row as f32, true, &memory);
    }
    slot.close();
    reader.join().unwrap();
    expect(kept.tensor(), |row| row as f32);
}
