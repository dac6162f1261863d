use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn a_taken_value_is_refused_to_everybody_else_at_once() {
    let cell = LifeCycle::new(vec![1]);
    let mut taken = cell.take().unwrap();
    assert_eq!(cell.take().err(), Some(Refusal::Busy));
    assert_eq!(cell.close().err(), Some(Refusal::Busy));
    taken.push(2);
    drop(taken);
    assert_eq!(*cell.take().unwrap(), [1, 2]);
}

#[test]
fn closing_hands_the_value_out_once() {
    let cell = LifeCycle::new("value".to_string());
    assert_eq!(cell.close(), Ok(Some("value".to_string())));
    assert_eq!(cell.close(), Ok(None));
    assert_eq!(cell.take().err(), Some(Refusal::Closed));
    assert_eq!(
        cell.take().err(),
        Some(Refusal::Closed),
        "a refusal changes nothing"
    );
}

#[test]
fn what_is_taken_may_go_to_another_thread() {
    let cell = LifeCycle::new(1);
    let mut taken = cell.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || *taken += 1);
    });
    assert_eq!(*cell.take().unwrap(), 2);
}

#[test]
fn a_panic_puts_the_value_back_and_the_next_operation_is_told_once() {
    let cell = LifeCycle::new(1);
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut taken = cell.take().unwrap();
        *taken = 5;
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(ended.is_err());
    let taken = cell.take().unwrap();
    assert_eq!((*taken, taken.was_interrupted()), (5, true));
    drop(taken);
    assert!(!cell.take().unwrap().was_interrupted());
}

#[test]
fn one_of_many_threads_has_it_at_a_time() {
    let (cell, inside) = (LifeCycle::new(0u64), AtomicUsize::new(0));
    let done: u64 = std::thread::scope(|scope| {
        let work = || {
            let mut done = 0;
            for _ in 0..5_000 {
                let Ok(mut taken) = cell.take() else { continue };
                assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                *taken += 1;
                done += 1;
                inside.fetch_sub(1, Ordering::Relaxed);
            }
            done
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert!(done > 0);
    assert_eq!(*cell.take().unwrap(), done);
}
