//! Random histories of a state against a naive model that always copies.

use crate::models::concat;
use proptest::prelude::*;
use refeed_runtime::testing::{Mode, Site, arm, disarm};
use refeed_runtime::{
    AppendReuse, PersistentValueState, RuntimeContext, RuntimeSessionOptions, StateError,
};
use refeed_values::Tensor;

const OUTER: [usize; 2] = [2, 3];
const SIZE: usize = 4;

#[derive(Debug, Clone)]
enum Action {
    Append { rows: usize, hold: bool },
    Fail { rows: usize, place: usize },
    Drop { at: usize },
    Reset { rows: usize },
    ResetToHeld { at: usize },
    Close,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => (0usize..4, any::<bool>()).prop_map(|(rows, hold)| Action::Append { rows, hold }),
        3 => (0usize..4, 0usize..3).prop_map(|(rows, place)| Action::Fail { rows, place }),
        2 => any::<usize>().prop_map(|at| Action::Drop { at }),
        1 => (0usize..3).prop_map(|rows| Action::Reset { rows }),
        1 => any::<usize>().prop_map(|at| Action::ResetToHeld { at }),
        1 => Just(Action::Close),
    ]
}

/// Rows of one cache, each `outer x SIZE` values: what the naive model keeps.
type Rows = Vec<Vec<f32>>;

fn rows(count: usize, seed: &mut f32) -> Rows {
    let width = OUTER[0] * OUTER[1] * SIZE;
    (0..count)
        .map(|_| {
            *seed += 1.0;
            (0..width).map(|i| *seed + i as f32 / 64.0).collect()
        })
        .collect()
}

/// `[batch, heads, length, size]` of rows.
fn tensor(rows: &Rows) -> Tensor {
    let mut data = Vec::new();
    for outer in 0..OUTER[0] * OUTER[1] {
        for row in rows {
            data.extend_from_slice(&row[outer * SIZE..][..SIZE]);
        }
    }
    Tensor::from_slice(&[OUTER[0], OUTER[1], rows.len(), SIZE], &data).unwrap()
}

fn same(got: &Tensor, want: &Rows) {
    assert_eq!(got.shape()[2], want.len());
    assert_eq!(
        got.view::<f32>().unwrap().to_vec(),
        tensor(want).view::<f32>().unwrap().to_vec()
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_history_gives_what_copying_gives(
        actions in prop::collection::vec(action(), 1..40),
        capacity in 0usize..6,
        exclusive in any::<bool>(),
    ) {
        let reuse = if exclusive { AppendReuse::Exclusive } else { AppendReuse::Always };
        let options = RuntimeSessionOptions {
            persistent_tensor_initial_capacity: capacity,
            append_reuse: reuse,
            ..Default::default()
        };
        let context = RuntimeContext::default();
        let mut seed = 0.0;
        let mut naive: Option<Rows> = Some(rows(1, &mut seed));
        let state = PersistentValueState::new(
            concat(OUTER[0], OUTER[1], SIZE),
            [("past", tensor(&rows(0, &mut seed)))],
            options,
        ).unwrap();
        state.reset([("past", tensor(naive.as_ref().unwrap()))]).unwrap();
        let mut held: Vec<(Tensor, Rows)> = Vec::new();
        for action in actions {
            match action {
                Action::Append { rows: count, hold } => {
                    let new = rows(count, &mut seed);
                    let result = state.run(&context, [("new", tensor(&new))]);
                    match &mut naive {
                        None => prop_assert!(matches!(result, Err(StateError::Closed))),
                        Some(all) => {
                            all.extend(new);
                            let out = result.unwrap();
                            same(&out["present"], all);
                            if hold {
                                held.push((out["present"].clone(), all.clone()));
                            }
                        }
                    }
                }
                Action::Fail { rows: count, place } => {
                    let (site, number) = match place {
                        0 => (Site::Kernel, 0),
                        1 => (Site::Kernel, 1),
                        _ => (Site::Publication, 0),
                    };
                    arm(site, number, Mode::Once);
                    let result = state.run(&context, [("new", tensor(&rows(count, &mut seed)))]);
                    prop_assert_eq!(disarm(), naive.is_some());
                    prop_assert!(result.is_err());
                }
                Action::Drop { at } => {
                    if !held.is_empty() {
                        held.swap_remove(at % held.len());
                    }
                }
                Action::Reset { rows: count } => {
                    let fresh = rows(count, &mut seed);
                    let result = state.reset([("past", tensor(&fresh))]);
                    prop_assert_eq!(result.is_ok(), naive.is_some());
                    if let Some(all) = &mut naive {
                        *all = fresh;
                    }
                }
                Action::ResetToHeld { at } => {
                    if !held.is_empty() {
                        let (tensor, rows) = held[at % held.len()].clone();
                        if state.reset([("past", tensor)]).is_ok() {
                            naive = Some(rows);
                        }
                    }
                }
                Action::Close => {
                    state.close().unwrap();
                    naive = None;
                }
            }
            match &naive {
                None => prop_assert!(matches!(state.values(), Err(StateError::Closed))),
                Some(all) => same(state.values().unwrap()[0].1.tensor().unwrap(), all),
            }
            for (tensor, rows) in &held {
                same(tensor, rows);
            }
        }
    }
}
