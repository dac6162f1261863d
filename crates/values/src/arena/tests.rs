use super::RawBufferAllocator;
use crate::append::{AppendPolicy, PersistentTensor, Reserve};
use crate::{AllocError, Allocator, DType, Pool, Tensor};

#[test]
fn a_simple_allocator_counts_and_keeps_nothing() {
    let simple = RawBufferAllocator::simple(2);
    let memory = Allocator::default().over(&simple);
    let (a, b) = (memory.allocate(70).unwrap(), memory.allocate(31).unwrap());
    assert_eq!((simple.live_bytes(), simple.live_count()), (101, 2));
    let refused = memory.allocate(5).unwrap_err();
    let (requested, capacity) = (5, 2);
    assert_eq!(
        refused,
        AllocError::Buffers {
            requested,
            capacity
        }
    );
    drop(a);
    assert_eq!((simple.live_bytes(), simple.peak_bytes()), (31, 101));
    simple.reset_peak();
    assert_eq!((simple.peak_bytes(), simple.retained_count()), (31, 0));
    drop(b);
    assert_eq!((simple.live_bytes(), memory.live_bytes()), (0, 0));
}

#[test]
fn an_arena_hands_out_zeroed_what_came_back() {
    let arena = RawBufferAllocator::execution_arena(4, usize::MAX);
    let memory = Allocator::default().over(&arena);
    let mut first = memory.allocate(100).unwrap();
    let address = first.as_ptr();
    first.bytes_mut().unwrap().fill(7);
    drop(first);
    assert_eq!((arena.retained_count(), arena.retained_bytes()), (1, 128));
    let mut again = memory.allocate(120).unwrap();
    assert_eq!((again.as_ptr(), again.len()), (address, 120));
    assert!(again.bytes_mut().unwrap().iter().all(|&byte| byte == 0));
    assert_eq!((arena.live_bytes(), arena.retained_count()), (120, 0));
}

#[test]
fn retention_has_a_cap_and_ends_on_request() {
    let arena = RawBufferAllocator::io_arena(8, 200);
    let memory = Allocator::default().over(&arena);
    let held: Vec<_> = [64, 128, 96].map(|n| memory.allocate(n).unwrap()).into();
    drop(held);
    // The third would have made 288 bytes.
    assert_eq!((arena.retained_bytes(), arena.retained_count()), (192, 2));
    arena.set_retention_cap(100);
    assert_eq!((arena.retained_bytes(), arena.retention_cap()), (64, 100));
    arena.trim();
    assert_eq!((arena.retained_bytes(), arena.retained_count()), (0, 0));
}

#[test]
fn absurd_requests_leave_the_books_as_they_were() {
    let arena = RawBufferAllocator::io_arena(8, usize::MAX);
    let memory = Allocator::default().over(&arena);
    for bytes in [usize::MAX, isize::MAX as usize, isize::MAX as usize - 63] {
        assert!(memory.allocate(bytes).is_err());
    }
    assert_eq!((arena.live_bytes(), arena.live_count()), (0, 0));
    assert_eq!((arena.peak_bytes(), memory.live_bytes()), (0, 0));
    assert_eq!(memory.allocate(0).unwrap().len(), 0);
    assert_eq!(arena.retained_count(), 0);
}

#[test]
fn the_budget_of_the_session_holds_over_an_arena() {
    let arena = RawBufferAllocator::io_arena(8, usize::MAX);
    let memory = Allocator::with_limit(100).over(&arena);
    let held = memory.allocate(60).unwrap();
    assert!(matches!(
        memory.allocate(41),
        Err(AllocError::Budget { .. })
    ));
    assert_eq!((arena.live_count(), memory.live_bytes()), (1, 60));
    drop(held);
}

#[test]
fn a_tensor_keeps_its_arena() {
    let arena = RawBufferAllocator::io_arena(8, usize::MAX);
    let mut pool = Pool::with_output(
        Allocator::default(),
        Some(Allocator::default().over(&arena)),
    );
    assert!(pool.is_publishing());
    let mut made = pool.tensor(DType::Float, &[3]).unwrap();
    made.as_mut_slice::<f32>().unwrap().fill(2.0);
    pool.set_publishing(false);
    let inside = pool.tensor(DType::Float, &[5]).unwrap().freeze();
    let (tensor, watched) = (made.freeze(), arena.clone());
    drop(arena);
    assert_eq!((watched.live_bytes(), watched.live_count()), (12, 1));
    pool.give(inside);
    pool.give(tensor.clone());
    assert_eq!(pool.retained_bytes(), 64);
    assert_eq!(tensor.view::<f32>().unwrap().to_vec(), [2.0; 3]);
    pool.give(tensor);
    assert_eq!((watched.live_count(), watched.retained_count()), (0, 1));
    assert_eq!(pool.retained_bytes(), 64);
}

/// Rule 5.2.6; S153.
#[test]
fn each_growth_of_an_append_is_one_request_and_rows_start_at_zero() {
    let arena = RawBufferAllocator::io_arena(8, usize::MAX);
    let memory = Allocator::default().over(&arena);
    let policy = AppendPolicy {
        initial_capacity: 2,
        ..AppendPolicy::default()
    };
    // Memory that comes back dirty.
    for bytes in [24, 48] {
        memory.allocate(bytes).unwrap().bytes_mut().unwrap().fill(9);
    }
    let mut kept = PersistentTensor::imported(Tensor::from_slice::<f32>(&[0, 3], &[]).unwrap());
    let mut counts = Vec::new();
    for step in 1..4 {
        let lease = kept.lease(&policy);
        let Reserve::Ready(mut rows) = lease.reserve(&[step, 3], 0, &memory).unwrap() else {
            panic!("declined")
        };
        assert!(rows.span_mut(0).unwrap().iter().all(|&byte| byte == 0));
        let row = Tensor::from_slice(&[1, 3], &[step as f32; 3]).unwrap();
        rows.write_rows(0, &row).unwrap();
        kept = rows.seal().publish();
        counts.push((arena.live_count(), arena.live_bytes()));
    }
    assert_eq!(counts, [(1, 24), (1, 24), (1, 48)]);
    let values = kept.tensor().view::<f32>().unwrap().to_vec();
    assert_eq!(values, [1., 1., 1., 2., 2., 2., 3., 3., 3.]);
}
