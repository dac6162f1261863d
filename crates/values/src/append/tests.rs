//! Appends against plain vectors, the accounting of the seeds, and the protocol seen from one thread.

#![allow(clippy::unwrap_used)]

mod arithmetic;
mod sharing;
mod values;

use super::*;
use crate::{Allocator, DType, Layout, Tensor, TensorMut};

fn policy(initial_capacity: usize, reuse: AppendReuse) -> AppendPolicy {
    AppendPolicy {
        initial_capacity,
        reuse,
        ..AppendPolicy::default()
    }
}

const BOTH: [AppendReuse; 2] = [AppendReuse::Always, AppendReuse::Exclusive];

/// A dense FLOAT tensor whose element `[o, r, i]` is `100 * o + 10 * (row + r) + i`.
fn rows(outer: &[usize], row: usize, count: usize, width: usize) -> Tensor {
    let slices: usize = outer.iter().product();
    let mut data = vec![];
    for o in 0..slices {
        for r in 0..count {
            data.extend((0..width).map(|i| (100 * o + 10 * (row + r) + i) as f32));
        }
    }
    let mut shape = outer.to_vec();
    shape.extend([count, width]);
    Tensor::from_slice(&shape, &data).unwrap()
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    tensor
        .view::<f32>()
        .unwrap()
        .iter()
        .map(f32::to_bits)
        .collect()
}

fn longer(kept: &PersistentTensor, axis: usize, by: usize) -> Vec<usize> {
    let mut shape = kept.tensor().shape().to_vec();
    shape[axis] += by;
    shape
}

fn reserve(
    kept: &mut PersistentTensor,
    axis: usize,
    by: usize,
    policy: &AppendPolicy,
    memory: &Allocator,
) -> AppendReservation {
    let shape = longer(kept, axis, by);
    match kept.lease(policy).reserve(&shape, axis, memory).unwrap() {
        Reserve::Ready(reservation) => reservation,
        Reserve::Declined(reason) => panic!("declined: {reason}"),
    }
}

/// Appends rows that continue [`rows`] and publishes them.
fn append(
    kept: &mut PersistentTensor,
    by: usize,
    policy: &AppendPolicy,
) -> (AppendCounters, Outcome) {
    let axis = kept.tensor().rank() - 2;
    let row = kept.tensor().shape()[axis];
    let width = kept.tensor().shape()[axis + 1];
    let outer = kept.tensor().shape()[..axis].to_vec();
    let mut reservation = reserve(kept, axis, by, policy, &Allocator::default());
    reservation
        .write_rows(0, &rows(&outer, row, by, width))
        .unwrap();
    let candidate = reservation.seal();
    let report = (candidate.counters(), candidate.outcome());
    *kept = candidate.publish();
    report
}

fn sum(total: &mut AppendCounters, one: AppendCounters) {
    total.allocations += one.allocations;
    total.allocated_bytes += one.allocated_bytes;
    total.prefix_copied_bytes += one.prefix_copied_bytes;
    total.append_copied_bytes += one.append_copied_bytes;
    total.reuse_count += one.reuse_count;
}

#[test]
fn vector_a_four_rows_then_eight() {
    for reuse in BOTH {
        let policy = policy(4, reuse);
        let mut pair = [0, 1].map(|_| PersistentTensor::imported(rows(&[1, 1], 0, 1, 2)));
        for (step, capacity) in [(1u64, 4u64), (2, 0), (3, 0), (4, 8)] {
            let mut total = AppendCounters::default();
            for kept in &mut pair {
                sum(&mut total, append(kept, 1, &policy).0);
            }
            let want = AppendCounters {
                allocations: if capacity > 0 { 2 } else { 0 },
                allocated_bytes: capacity * 16,
                prefix_copied_bytes: if capacity > 0 { step * 16 } else { 0 },
                append_copied_bytes: 16,
                reuse_count: if capacity > 0 { 0 } else { 2 },
            };
            assert_eq!(total, want, "{reuse:?} step {step}");
            assert_eq!(
                bits(pair[0].tensor()),
                bits(&rows(&[1, 1], 0, step as usize + 1, 2))
            );
        }
        assert_eq!(pair[1].capacity_rows(), 8);
    }
}

#[test]
fn vector_a_without_capacity_declines_every_step() {
    for reuse in BOTH {
        let mut kept = PersistentTensor::imported(rows(&[1, 1], 0, 1, 2));
        let lease = kept.lease(&policy(0, reuse));
        let declined = lease
            .reserve(&[1, 1, 2, 2], 2, &Allocator::default())
            .unwrap();
        assert!(matches!(
            declined,
            Reserve::Declined(DeclineReason::CapacityZero)
        ));
    }
}

#[test]
fn vector_b_default_capacity() {
    for reuse in BOTH {
        let policy = AppendPolicy {
            reuse,
            ..AppendPolicy::default()
        };
        let mut total = AppendCounters::default();
        let mut pair = [0, 1].map(|_| PersistentTensor::imported(rows(&[1, 1], 0, 1, 2)));
        for kept in &mut pair {
            for _ in 0..3 {
                sum(&mut total, append(kept, 1, &policy).0);
            }
        }
        assert_eq!(
            (
                total.allocations,
                total.prefix_copied_bytes,
                total.append_copied_bytes,
                total.reuse_count
            ),
            (2, 16, 48, 4)
        );
    }
}

/// Rule 5.5.2; S025.
#[test]
fn vector_c_computed_scalars_and_one_failure() {
    for reuse in BOTH {
        let (policy, memory) = (policy(4, reuse), Allocator::default());
        let mut kept = PersistentTensor::imported(Tensor::from_slice::<f32>(&[0], &[]).unwrap());
        let mut total = AppendCounters::default();
        let mut addresses = vec![];
        for step in 0..5usize {
            if step == 2 {
                // a failing attempt: it writes, and its rows come back
                let mut failing = reserve(&mut kept, 0, 1, &policy, &memory);
                failing.span_mut(0).unwrap().fill(0xee);
                sum(&mut total, failing.counters());
                drop(failing);
            }
            let mut reservation = reserve(&mut kept, 0, 1, &policy, &memory);
            let mut count = 0;
            for span in reservation.spans_mut() {
                assert_eq!(span, [0; 4], "a row nobody wrote is zero");
                span.copy_from_slice(&(step as f32).to_ne_bytes());
                count += 1;
            }
            assert_eq!(count, 1);
            let candidate = reservation.seal();
            sum(&mut total, candidate.counters());
            kept = candidate.publish();
            addresses.push(kept.tensor().as_ptr());
        }
        let want = AppendCounters {
            allocations: 2,
            allocated_bytes: 12 * 4,
            prefix_copied_bytes: 4 * 4,
            append_copied_bytes: 0,
            reuse_count: 4,
        };
        assert_eq!(total, want, "{reuse:?}");
        assert!(addresses[..4].iter().all(|&at| at == addresses[0]));
        assert_ne!(addresses[4], addresses[0]);
        assert_eq!(
            kept.tensor().view::<f32>().unwrap().to_vec(),
            [0., 1., 2., 3., 4.]
        );
    }
}

#[test]
fn vector_d_from_empty_with_the_final_capacity() {
    for reuse in BOTH {
        let policy = policy(4, reuse);
        let mut pair = [0, 1].map(|_| PersistentTensor::imported(rows(&[1, 1], 0, 0, 2)));
        for token in 1..=4u64 {
            let mut total = AppendCounters::default();
            for kept in &mut pair {
                sum(&mut total, append(kept, 1, &policy).0);
            }
            let first = token == 1;
            let want = AppendCounters {
                allocations: if first { 2 } else { 0 },
                allocated_bytes: if first { 64 } else { 0 },
                prefix_copied_bytes: 0,
                append_copied_bytes: 16,
                reuse_count: if first { 0 } else { 2 },
            };
            assert_eq!(total, want);
        }
    }
}

#[test]
fn two_hundred_steps_with_every_handle_kept() {
    let policy = AppendPolicy::default();
    let mut kept = PersistentTensor::imported(rows(&[2, 4], 0, 3, 48));
    let mut total = AppendCounters::default();
    let mut held = vec![];
    for _ in 0..200 {
        sum(&mut total, append(&mut kept, 1, &policy).0);
        held.push((kept.tensor().clone(), bits(kept.tensor())));
    }
    for (step, (tensor, then)) in held.iter().enumerate() {
        assert_eq!(&bits(tensor), then, "step {step}");
        assert_eq!(then, &bits(&rows(&[2, 4], 0, step + 4, 48)));
    }
    assert!(total.prefix_copied_bytes <= 2 * total.append_copied_bytes);
    assert!(total.allocations <= 8, "{total:?}");
    assert_eq!(total.allocations + total.reuse_count, 200);
}

#[test]
fn a_held_view_moves_an_exclusive_append_and_keeps_its_capacity() {
    let policy = policy(4, AppendReuse::Exclusive);
    let mut kept = PersistentTensor::imported(rows(&[1, 1], 0, 1, 3));
    append(&mut kept, 1, &policy);
    let held = kept.tensor().clone();
    let (counters, outcome) = append(&mut kept, 1, &policy);
    let reason = MoveReason::Shared;
    assert_eq!(
        outcome,
        Outcome::Moved {
            reason,
            capacity_rows: 4,
            allocated_bytes: 48,
            prefix_bytes: 24
        }
    );
    assert_eq!((counters.allocations, counters.reuse_count), (1, 0));
    assert_eq!(bits(&held), bits(&rows(&[1, 1], 0, 2, 3)));
    drop(held);
    assert_eq!(append(&mut kept, 1, &policy).1, Outcome::InPlace);
}
