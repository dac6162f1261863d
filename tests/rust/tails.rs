//! What becomes of reserved rows that a step does not publish, of appends that cannot be in place, and of old bytes.

use crate::models::{attention, concat, text};
use refeed_graph::{BindRequest, BindingUses, Model, bind};
use refeed_runtime::testing::{Mode, Site, arm, disarm};
use refeed_runtime::{PersistentValueState, RunControl, RuntimeContext, RuntimeSessionOptions};
use refeed_values::{RuntimeValue, Tensor};

fn filled(shape: &[usize], first: f32) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|i| first + i as f32).collect();
    Tensor::from_slice(shape, &values).unwrap()
}

fn rows(tensor: &Tensor) -> Vec<f32> {
    tensor.view::<f32>().unwrap().to_vec()
}

/// A cache `[2, 3, rows, 5]` of one row with room for more.
fn cache() -> PersistentValueState {
    let past = filled(&[2, 3, 0, 5], 0.0);
    let options = RuntimeSessionOptions::default();
    let state = PersistentValueState::new(concat(2, 3, 5), [("past", past)], options).unwrap();
    step(&state, 1.0);
    state
}

fn step(state: &PersistentValueState, first: f32) -> Tensor {
    let new = filled(&[2, 3, 1, 5], first);
    let outputs = state.run(&RuntimeContext::default(), [("new", new)]);
    outputs.unwrap()["present"].clone()
}

fn outcome(state: &PersistentValueState) -> String {
    state.explain().unwrap().bindings[0].outcome.to_string()
}

fn prepared<'a>(state: &'a PersistentValueState, first: f32) -> refeed_runtime::Prepared<'a> {
    let feeds = [(
        state.input_position("new").unwrap(),
        filled(&[2, 3, 1, 5], first).into(),
    )];
    let context = RuntimeContext::default();
    state
        .prepare(&context, &feeds, RunControl::default())
        .unwrap()
}

/// Rule 5.2.8; S167.
#[test]
fn a_tail_that_nobody_sees_is_given_back() {
    let state = cache();
    let address = step(&state, 2.0).as_ptr();
    for _ in 0..3 {
        drop(prepared(&state, 900.0));
    }
    let next = step(&state, 3.0);
    assert_eq!(
        (next.as_ptr(), outcome(&state)),
        (address, "in place".to_string())
    );
    assert_eq!(next.shape(), [2, 3, 3, 5]);
}

/// Rule 5.2.8; S167.
#[test]
fn a_tail_that_somebody_sees_is_burnt() {
    let state = cache();
    let address = step(&state, 2.0).as_ptr();
    let unpublished = prepared(&state, 900.0);
    let escaped = unpublished.outputs()[0].tensor().unwrap().clone();
    let seen = rows(&escaped);
    drop(unpublished);
    assert_eq!(
        escaped.as_ptr(),
        address,
        "the rows lie in the state's own block"
    );
    let next = step(&state, 3.0);
    assert_ne!(next.as_ptr(), address);
    let why = outcome(&state);
    assert!(
        why.contains("the rows behind the old value are taken"),
        "{why}"
    );
    assert_eq!(rows(&escaped), seen, "who sees rows sees them for ever");
    assert!(seen.contains(&900.0) && !rows(&next).contains(&900.0));
    step(&state, 4.0);
    assert_eq!(outcome(&state), "in place");
}

#[test]
fn a_prepared_step_makes_the_state_busy_and_is_published_once() {
    let state = cache();
    let unpublished = prepared(&state, 7.0);
    assert!(matches!(
        state.values(),
        Err(refeed_runtime::StateError::Busy)
    ));
    let outputs = unpublished.publish().unwrap();
    let (_, held) = state.values().unwrap().remove(0);
    assert_eq!(rows(held.tensor().unwrap()), rows(&outputs["present"]));
    assert_eq!(held.tensor().unwrap().shape(), [2, 3, 2, 5]);
}

fn bound(text_of_graph: &Model) -> Model {
    let request = BindRequest::pairs([("past", "present")]).with_uses(BindingUses::Any);
    bind(text_of_graph, &request).unwrap().0
}

/// Runs three steps and compares each with the rows joined by hand.
fn check_joined(model: Model, pick: bool) -> PersistentValueState {
    let past = filled(&[1, 2, 1, 3], 0.0);
    let state =
        PersistentValueState::new(model, [("past", past)], RuntimeSessionOptions::default())
            .unwrap();
    let mut heads = [vec![0.0, 1.0, 2.0], vec![3.0, 4.0, 5.0]];
    for turn in 1..4 {
        let new = filled(&[1, 2, 1, 3], 100.0 * turn as f32);
        for (head, values) in heads.iter_mut().enumerate() {
            values.extend((0..3).map(|i| 100.0 * turn as f32 + (3 * head + i) as f32));
        }
        let mut feeds = vec![("new", RuntimeValue::from(new))];
        if pick {
            let go = Tensor::from_slice(&[], &[1u8]).unwrap();
            let go = go.reinterpret(refeed_values::DType::Bool).unwrap();
            feeds.push(("go", go.into()));
        }
        let outputs = state.run(&RuntimeContext::default(), feeds).unwrap();
        assert_eq!(rows(&outputs["present"]), heads.concat());
        assert_eq!(outputs["present"].shape(), [1, 2, 1 + turn, 3]);
    }
    state
}

/// Rule 5.3.2; S138.
#[test]
fn an_append_inside_a_branch_is_in_place_and_a_branch_without_one_says_so() {
    let model = text(
        "declined (bool go, float[1, 2, n, 3] new, float[1, 2, p, 3] past) => (float[1, 2, t, 3] present) {
            present = If (go) <then_branch = a () => (float[1, 2, u, 3] joined)
                { joined = Concat <axis = 2> (past, new) },
                else_branch = b () => (float[1, 2, v, 3] kept) { kept = Identity (past) }>
        }",
    );
    let state = check_joined(bound(&model), true);
    assert_eq!(outcome(&state), "in place");
    let still = Tensor::from_slice(&[], &[0u8]).unwrap();
    let still = still.reinterpret(refeed_values::DType::Bool).unwrap();
    let kept = state.run(
        &RuntimeContext::default(),
        [("new", filled(&[1, 2, 1, 3], 7.0)), ("go", still)],
    );
    assert_eq!(kept.unwrap()["present"].shape(), [1, 2, 4, 3]);
    assert_eq!(
        outcome(&state),
        "computed by a branch of `If` that does not append to it"
    );
    // The seeds' own rules know no append inside of a branch.
    let options = RuntimeSessionOptions {
        append_reuse: refeed_runtime::AppendReuse::Exclusive,
        ..RuntimeSessionOptions::default()
    };
    let past = filled(&[1, 2, 1, 3], 0.0);
    let state = PersistentValueState::new(bound(&model), [("past", past)], options).unwrap();
    let go = Tensor::from_slice(&[], &[1u8]).unwrap();
    let go = go.reinterpret(refeed_values::DType::Bool).unwrap();
    let feeds = [("new", filled(&[1, 2, 1, 3], 7.0)), ("go", go)];
    state.run(&RuntimeContext::default(), feeds).unwrap();
    assert_eq!(outcome(&state), "computed by a branch of `If`");
}

#[test]
fn an_append_inside_a_function_is_in_place_and_declined_for_its_own_reasons() {
    let function = "<domain: \"own\", opset_import: [\"\" : 24]> grow (old, fresh) => (grown) \
        { grown = Concat <axis = 2> (old, fresh) }";
    let model = |reads: &str| {
        let graph = format!(
            "<ir_version: 10, opset_import: [\"\" : 24, \"own\" : 1]> called \
                (float[1, 2, n, 3] new, float[1, 2, p, 3] past) => (float[1, 2, t, 3] present) {{ {reads} }} {function}"
        );
        let proto = refeed_graph::parser::parse_model(graph).unwrap();
        bound(&Model::from_proto(proto, &refeed_graph::LoadOptions::default()).unwrap())
    };
    let state = check_joined(model("present = own.grow (past, new)"), false);
    assert_eq!(outcome(&state), "in place");
    let state = check_joined(
        model("middle = Neg (past) again = Neg (middle) present = own.grow (again, new)"),
        false,
    );
    assert_eq!(
        outcome(&state),
        "copied because `past` does not reach this Concat directly"
    );
}

#[test]
fn old_bytes_are_never_seen() {
    // The bit pattern of every fed element of a failing step; no step that succeeds computes it.
    let pattern = f32::from_bits(0xA5A5_A5A5);
    let (n, before) = (3, 2);
    let feeds = |value: Option<f32>, seed: usize| {
        ["q", "k", "v"].map(|name| {
            let shape = [1, if name == "q" { 4 } else { 2 }, n, 6];
            let fed = match value {
                Some(value) => {
                    Tensor::from_slice(&shape, &vec![value; shape.iter().product()]).unwrap()
                }
                None => filled(&shape, seed as f32 / 64.0),
            };
            (name, fed)
        })
    };
    let none = || {
        [
            ("past_key", filled(&[1, 2, 0, 6], 0.0)),
            ("past_value", filled(&[1, 2, 0, 6], 0.0)),
        ]
    };
    let options = RuntimeSessionOptions {
        persistent_tensor_initial_capacity: 32,
        ..Default::default()
    };
    let make = || PersistentValueState::new(attention(1, 2, 6), none(), options.clone()).unwrap();
    let (state, clean) = (make(), make());
    let context = RuntimeContext::default();
    let file = std::env::temp_dir().join(format!("refeed-tails-{}", std::process::id()));
    let needle = [0xA5u8; 8];
    for seed in 0..6 {
        if seed >= before {
            // The rows are written, then the step fails: the spare capacity is full of the pattern.
            arm(Site::Publication, 0, Mode::Once);
            assert!(state.run(&context, feeds(Some(pattern), 0)).is_err());
            assert!(disarm());
        }
        let outputs = state.run(&context, feeds(None, seed)).unwrap();
        let want = clean.run(&context, feeds(None, seed)).unwrap();
        for (got, want) in outputs.values().iter().zip(want.values()) {
            let (got, want) = (got.tensor().unwrap(), want.tensor().unwrap());
            let bits = |tensor: &Tensor| -> Vec<u32> {
                rows(tensor).into_iter().map(f32::to_bits).collect()
            };
            assert_eq!(bits(got), bits(want));
        }
        state.save(&file).unwrap();
        let written = std::fs::read(&file).unwrap();
        assert!(
            !written.windows(needle.len()).any(|bytes| bytes == needle),
            "the file of step {seed} has bytes of a failed step"
        );
    }
    std::fs::remove_file(&file).unwrap();
    assert_eq!(outcome(&state), "in place");
}
