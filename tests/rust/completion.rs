//! Publication against cancellation on real threads.

use crate::models::{bound, graph, int, node, value};
use refeed_graph::BindingUses;
use refeed_runtime::{
    PersistentValueState, RuntimeContext, RuntimeSessionOptions, StateError, TaskCompletion,
    TaskStatus,
};
use refeed_values::{DType, Tensor};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

/// K and V, each with new rows behind it.
fn two_caches() -> PersistentValueState {
    let nodes = vec![
        int(node("Concat", "pk k", "ok"), "axis", 0),
        int(node("Concat", "pv v", "ov"), "axis", 0),
    ];
    let inputs =
        ["k", "v", "pk", "pv"].map(|name| value(name, DType::Float, &format!("{name}n 3")));
    let outputs = ["ok", "ov"].map(|name| value(name, DType::Float, &format!("{name}n 3")));
    let pairs = [("pk", "ok"), ("pv", "ov")];
    let model = bound(
        graph(nodes, inputs.to_vec(), outputs.to_vec()),
        &pairs,
        BindingUses::One,
    );
    PersistentValueState::new(model, empty(), RuntimeSessionOptions::default()).unwrap()
}

fn empty() -> [(&'static str, Tensor); 2] {
    let none = || Tensor::from_slice::<f32>(&[0, 3], &[]).unwrap();
    [("pk", none()), ("pv", none())]
}

fn lengths(state: &PersistentValueState) -> [usize; 2] {
    let values = state.values().unwrap();
    [0, 1].map(|index: usize| values[index].1.tensor().unwrap().shape()[0])
}

/// Rule 4.3.2.
#[test]
fn s105_of_a_race_exactly_one_wins_and_k_and_v_agree() {
    const RACES: usize = 20_000;
    let state = two_caches();
    let context = RuntimeContext::default();
    let row = Tensor::from_slice(&[1, 3], &[1f32, 2.0, 3.0]).unwrap();
    let completions: Vec<TaskCompletion> = (0..RACES as i64).map(TaskCompletion::new).collect();
    let (begin, end) = (Barrier::new(2), Barrier::new(2));
    let cancelled = AtomicBool::new(false);
    let (mut published, mut lost, mut length) = (0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (race, completion) in completions.iter().enumerate() {
                begin.wait();
                // From far too early to far too late.
                for _ in 0..race % 97 * 30 {
                    std::hint::spin_loop();
                }
                cancelled.store(completion.cancel("").is_ok(), Ordering::SeqCst);
                end.wait();
            }
        });
        for completion in &completions {
            begin.wait();
            let feeds = [("k", row.clone()), ("v", row.clone())];
            let result = state.run_until(&context, feeds, completion);
            end.wait();
            let won = match result {
                Ok(_) => true,
                Err(StateError::Cancelled { .. }) => false,
                Err(other) => panic!("{other}"),
            };
            assert_ne!(won, cancelled.load(Ordering::SeqCst), "exactly one wins");
            let status = [TaskStatus::Cancelled, TaskStatus::Succeeded][usize::from(won)];
            assert_eq!(completion.status(), status);
            published += usize::from(won);
            lost += usize::from(!won);
            length += usize::from(won);
            assert_eq!(lengths(&state), [length; 2]);
            if length == 100 {
                state.truncate(0).unwrap();
                length = 0;
            }
        }
    });
    assert_eq!(published + lost, RACES);
}

/// Rules 4.3.3, 4.3.4.
#[test]
fn s103_a_completion_serves_one_run_and_a_failure_leaves_it_pending() {
    let state = two_caches();
    let context = RuntimeContext::default();
    let row = Tensor::from_slice(&[1, 3], &[1f32, 2.0, 3.0]).unwrap();
    let completion = TaskCompletion::new(4);
    let wrong = Tensor::from_slice(&[1, 2], &[1f32, 2.0]).unwrap();
    let feeds = [("k", row.clone()), ("v", wrong)];
    assert!(state.run_until(&context, feeds, &completion).is_err());
    assert_eq!(completion.status(), TaskStatus::Pending);
    let feeds = || [("k", row.clone()), ("v", row.clone())];
    state.run_until(&context, feeds(), &completion).unwrap();
    let again = state.run_until(&context, feeds(), &completion).unwrap_err();
    assert!(matches!(again, StateError::Completion(_)), "{again}");
    assert!(completion.cancel("late").is_err());
    assert_eq!(lengths(&state), [1, 1]);
}
