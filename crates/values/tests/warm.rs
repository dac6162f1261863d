//! A warm append asks the system for no memory, whatever the caller does with the last outputs.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

#[path = "../../../tests/rust/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::{Counting, requests_of_thread};
use refeed_values::append::{AppendPolicy, AppendReuse, PersistentTensor, Reserve};
use refeed_values::{Allocator, Tensor};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Requests of `steps` appends of one row, when the caller keeps the last `held` outputs.
fn requests(steps: usize, held: usize, reuse: AppendReuse) -> usize {
    let shape = if reuse == AppendReuse::Always {
        [2, 4, 0, 48]
    } else {
        [1, 1, 0, 48]
    };
    let policy = AppendPolicy {
        initial_capacity: 64,
        max_length: None,
        reuse,
    };
    let memory = Allocator::default();
    let mut kept = PersistentTensor::imported(Tensor::from_slice::<f32>(&shape, &[]).unwrap());
    let mut row_shape = shape;
    row_shape[2] = 1;
    let elements = row_shape.iter().product();
    let row = Tensor::from_slice(&row_shape, &vec![1f32; elements]).unwrap();
    let mut outputs: Vec<Option<Tensor>> = vec![None; held.max(1)];
    let mut before = 0;
    for step in 0..4 + steps {
        if step == 4 {
            before = requests_of_thread();
        }
        let mut wanted = shape;
        wanted[2] = step + 1;
        let lease = kept.lease(&policy);
        let Ok(Reserve::Ready(mut rows)) = lease.reserve(&wanted, 2, &memory) else {
            panic!()
        };
        rows.write_rows(0, &row).unwrap();
        kept = rows.seal().publish();
        if held > 0 {
            outputs[step % held] = Some(kept.tensor().clone());
        }
    }
    assert_eq!(kept.tensor().shape()[2], 4 + steps);
    requests_of_thread() - before
}

#[test]
fn warm_appends_allocate_nothing() {
    for held in [0, 1, 2] {
        assert_eq!(
            requests(40, held, AppendReuse::Always),
            0,
            "{held} outputs held"
        );
    }
    assert_eq!(requests(40, 0, AppendReuse::Exclusive), 0);
}

#[test]
fn a_caller_who_keeps_every_output_pays_one_small_count_a_step() {
    assert_eq!(requests(40, 60, AppendReuse::Always), 40);
}
