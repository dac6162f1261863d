//! A failure at every place of a step leaves the state as it was, and the retry gives what an undisturbed run gives.

use crate::models::{attention, concat};
use refeed_runtime::testing::{arm, disarm};
use refeed_runtime::{PersistentValueState, RuntimeContext, RuntimeSessionOptions, StateError};
use refeed_values::Tensor;

/// Values that differ in every element and step.
fn filled(shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count)
        .map(|i| ((i * 37 + seed * 101) % 61) as f32 / 16.0 - 1.5)
        .collect();
    Tensor::from_slice(shape, &values).unwrap()
}

fn bits(state: &PersistentValueState) -> Vec<(*const u8, Vec<usize>, Vec<u32>)> {
    let read = |t: &Tensor| t.view::<f32>().unwrap().iter().map(f32::to_bits).collect();
    let values = state.values().unwrap();
    values
        .iter()
        .map(|(_, value)| value.tensor().unwrap())
        .map(|t| (t.as_ptr(), t.shape().to_vec(), read(t)))
        .collect()
}

type Feeds = Vec<(&'static str, Tensor)>;
type Scenario = (
    &'static str,
    fn() -> PersistentValueState,
    fn(usize) -> Feeds,
);

fn scenarios() -> Vec<Scenario> {
    fn grow() -> PersistentValueState {
        let options = RuntimeSessionOptions {
            persistent_tensor_initial_capacity: 3,
            ..Default::default()
        };
        PersistentValueState::new(
            concat(2, 3, 5),
            [("past", filled(&[2, 3, 0, 5], 0))],
            options,
        )
        .unwrap()
    }
    fn dense() -> PersistentValueState {
        let options = RuntimeSessionOptions {
            persistent_tensor_initial_capacity: 0,
            ..Default::default()
        };
        PersistentValueState::new(
            concat(2, 3, 5),
            [("past", filled(&[2, 3, 1, 5], 0))],
            options,
        )
        .unwrap()
    }
    fn attend() -> PersistentValueState {
        let initial = [
            ("past_key", filled(&[1, 2, 0, 6], 0)),
            ("past_value", filled(&[1, 2, 0, 6], 1)),
        ];
        PersistentValueState::new(
            attention(1, 2, 6),
            initial,
            RuntimeSessionOptions::default(),
        )
        .unwrap()
    }
    fn rows(step: usize) -> Feeds {
        vec![("new", filled(&[2, 3, 1 + step % 2, 5], step))]
    }
    fn heads(step: usize) -> Feeds {
        let n = 1 + step % 3;
        vec![
            ("q", filled(&[1, 4, n, 6], step)),
            ("k", filled(&[1, 2, n, 6], step + 50)),
            ("v", filled(&[1, 2, n, 6], step + 90)),
        ]
    }
    vec![
        ("growth", grow, rows),
        ("dense", dense, rows),
        ("attention", attend, heads),
    ]
}

#[test]
fn s094_a_failure_anywhere_changes_nothing_and_the_retry_is_bit_equal() {
    let context = RuntimeContext::default();
    let steps = 6;
    let mut injected = 0;
    for (name, build, feeds) in scenarios() {
        let undisturbed = build();
        let good: Vec<_> = (0..steps)
            .map(|step| {
                undisturbed.run(&context, feeds(step)).unwrap();
                bits(&undisturbed)
                    .into_iter()
                    .map(|(_, shape, bits)| (shape, bits))
                    .collect::<Vec<_>>()
            })
            .collect();
        for at in 0..steps {
            for place in 0.. {
                let state = build();
                let mut held = Vec::new();
                for step in 0..at {
                    held.push(state.run(&context, feeds(step)).unwrap());
                }
                let before = bits(&state);
                arm(place);
                let failed = state.run(&context, feeds(at));
                let fired = disarm();
                assert_eq!(failed.is_err(), fired, "{name} step {at} place {place}");
                if !fired {
                    break;
                }
                assert!(matches!(failed, Err(StateError::Run(_))));
                injected += 1;
                assert_eq!(bits(&state), before, "{name} step {at} place {place}");
                for (step, want) in good.iter().enumerate().skip(at) {
                    state.run(&context, feeds(step)).unwrap();
                    let got: Vec<_> = bits(&state).into_iter().map(|(_, s, b)| (s, b)).collect();
                    assert_eq!(
                        &got, want,
                        "{name} failed at step {at} place {place}, then step {step}"
                    );
                }
            }
        }
    }
    assert!(injected > 60, "only {injected} failures were planted");
}

#[test]
fn rows_of_a_failed_call_are_given_back() {
    let context = RuntimeContext::default();
    let (_, build, feeds) = scenarios().remove(2);
    let state = build();
    state.run(&context, feeds(0)).unwrap();
    let pointer = state.values().unwrap()[0].1.tensor().unwrap().as_ptr();
    for place in 0..6 {
        arm(place);
        assert!(state.run(&context, feeds(1)).is_err());
        assert!(disarm());
    }
    state.run(&context, feeds(1)).unwrap();
    assert_eq!(
        state.values().unwrap()[0].1.tensor().unwrap().as_ptr(),
        pointer
    );
    let explanation = state.explain().unwrap();
    assert!(
        explanation
            .bindings
            .iter()
            .all(|b| b.outcome.to_string() == "in place"),
        "{explanation}"
    );
}
