//! Construct, run, reset, close, values: the life of a state.

use crate::models::{accumulate, bound, concat, graph, graph_attribute, node, unbound, value};
use refeed_graph::BindingUses;
use refeed_runtime::{
    Outcome, PersistentValueState, RuntimeContext, RuntimeSession, RuntimeSessionOptions,
    StateError,
};
use refeed_values::{DType, Tensor};

fn floats(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_slice(shape, values).unwrap()
}

fn read(tensor: &Tensor) -> Vec<f32> {
    tensor.view::<f32>().unwrap().to_vec()
}

fn accumulating() -> PersistentValueState {
    let initial = [("past", floats(&[2], &[0.0, 10.0]))];
    PersistentValueState::new(accumulate(), initial, RuntimeSessionOptions::default()).unwrap()
}

#[test]
fn s056_two_runs_accumulate_and_earlier_outputs_stay() {
    let (state, context) = (accumulating(), RuntimeContext::default());
    let delta = floats(&[2], &[1.0, 2.0]);
    let first = state.run(&context, [("delta", delta.clone())]).unwrap();
    let second = state.run(&context, [("delta", delta)]).unwrap();
    assert_eq!(read(&first["present"]), [1.0, 12.0]);
    assert_eq!(read(&second["present"]), [2.0, 14.0]);
    let values = state.values().unwrap();
    assert_eq!(&*values[0].0, "past");
    assert_eq!(
        values[0].1.tensor().unwrap().as_ptr(),
        second["present"].as_ptr()
    );
    state.reset([("past", floats(&[2], &[5.0, 5.0]))]).unwrap();
    assert_eq!(read(values[0].1.tensor().unwrap()), [2.0, 14.0]);
    state.close().unwrap();
    state.close().unwrap();
    assert!(matches!(state.values(), Err(StateError::Closed)));
    assert!(matches!(state.explain(), Err(StateError::Closed)));
    assert!(matches!(
        state.reset([("past", floats(&[2], &[0.0; 2]))]),
        Err(StateError::Closed)
    ));
    assert_eq!(read(&second["present"]), [2.0, 14.0]);
}

/// Rules 3.5.2, 3.5.3, 3.6.1, 3.6.2, 3.6.3.
#[test]
fn s090_to_s092_names_and_values_that_do_not_fit() {
    let (state, context) = (accumulating(), RuntimeContext::default());
    let delta = || floats(&[2], &[1.0, 1.0]);
    let fault =
        |feeds: Vec<(&'static str, Tensor)>| state.run(&context, feeds).unwrap_err().to_string();
    assert_eq!(fault(vec![]), "missing current input `delta`");
    assert_eq!(
        fault(vec![("delta", delta()), ("dleta", delta())]),
        "unknown graph input `dleta`"
    );
    assert_eq!(
        fault(vec![("delta", delta()), ("past", delta())]),
        "feeds must not override retained input `past`"
    );
    assert_eq!(
        fault(vec![("delta", floats(&[3], &[0.0; 3]))]),
        "input `delta`: shape mismatch, expected FLOAT[2], got [3] (axis 0)"
    );
    let ints = Tensor::from_slice(&[2], &[1i32, 2]).unwrap();
    assert_eq!(
        fault(vec![("delta", ints)]),
        "input `delta`: dtype mismatch, expected FLOAT, got INT32"
    );
    assert_eq!(
        read(state.values().unwrap()[0].1.tensor().unwrap()),
        [0.0, 10.0]
    );
    let made = |initial: Vec<(&'static str, Tensor)>| {
        PersistentValueState::new(accumulate(), initial, RuntimeSessionOptions::default())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(made(vec![]), "missing initial whole input `past`");
    assert!(
        made(vec![("past", delta()), ("delta", delta())])
            .contains("exactly the retained whole inputs")
    );
}

#[test]
fn a_failed_reset_changes_nothing() {
    let state = accumulating();
    let before = state.values().unwrap()[0].1.tensor().unwrap().clone();
    assert!(state.reset([("past", floats(&[3], &[0.0; 3]))]).is_err());
    assert!(state.reset([("other", floats(&[2], &[0.0; 2]))]).is_err());
    assert_eq!(
        state.values().unwrap()[0].1.tensor().unwrap().as_ptr(),
        before.as_ptr()
    );
}

#[test]
fn an_opset_from_the_future_is_refused() {
    let mut proto = accumulate().proto().clone();
    proto.opset_import[0].version = Some(29);
    let model = refeed_graph::Model::from_proto(proto, &refeed_graph::LoadOptions::default());
    let error = RuntimeSession::new(model.unwrap(), RuntimeSessionOptions::default()).unwrap_err();
    let text = "opset 29 of ai.onnx is newer than the newest that refeed reads, 28";
    assert_eq!(error.to_string(), text);
}

/// Rule 3.1.7.
#[test]
fn a_model_without_bindings_has_no_state() {
    let plain = unbound(graph(
        vec![node("Add", "x x", "y")],
        vec![value("x", DType::Float, "n")],
        vec![value("y", DType::Float, "n")],
    ));
    let none: [(&str, Tensor); 0] = [];
    let error = PersistentValueState::new(plain.clone(), none, RuntimeSessionOptions::default())
        .unwrap_err();
    assert!(matches!(error, StateError::NoBindings));
    let session = RuntimeSession::new(plain, RuntimeSessionOptions::default()).unwrap();
    let out = session
        .run(
            &RuntimeContext::default(),
            [("x", floats(&[3], &[1.0, 2.0, 3.0]))],
        )
        .unwrap();
    assert_eq!(read(&out["y"]), [2.0, 4.0, 6.0]);
}

#[test]
fn a_session_of_a_bound_model_remembers_nothing() {
    let session = RuntimeSession::new(accumulate(), RuntimeSessionOptions::default()).unwrap();
    let context = RuntimeContext::default();
    for _ in 0..3 {
        let feeds = [
            ("delta", floats(&[2], &[1.0, 1.0])),
            ("past", floats(&[2], &[4.0, 5.0])),
        ];
        assert_eq!(
            read(&session.run(&context, feeds).unwrap()["present"]),
            [5.0, 6.0]
        );
    }
}

#[test]
fn states_of_one_session_share_weights_and_not_values() {
    let session = RuntimeSession::new(accumulate(), RuntimeSessionOptions::default()).unwrap();
    let start = floats(&[2], &[0.0, 0.0]);
    let a = PersistentValueState::of_session(&session, [("past", start.clone())]).unwrap();
    let b = PersistentValueState::of_session(&session, [("past", start.clone())]).unwrap();
    let context = RuntimeContext::default();
    for _ in 0..3 {
        a.run(&context, [("delta", floats(&[2], &[1.0, 1.0]))])
            .unwrap();
    }
    assert_eq!(read(b.values().unwrap()[0].1.tensor().unwrap()), [0.0, 0.0]);
    assert_eq!(
        b.values().unwrap()[0].1.tensor().unwrap().as_ptr(),
        start.as_ptr()
    );
}

#[test]
fn a_branch_of_if_may_produce_a_bound_output_in_place_or_by_copy() {
    let concat = |axis: &str| {
        graph(
            vec![crate::models::int(
                node("Concat", axis, "joined"),
                "axis",
                0,
            )],
            vec![],
            vec![value("joined", DType::Float, "t")],
        )
    };
    let choose = node("If", "front", "present");
    let choose = graph_attribute(choose, "then_branch", concat("new past"));
    let choose = graph_attribute(choose, "else_branch", concat("past new"));
    let model = bound(
        graph(
            vec![choose],
            vec![
                value("front", DType::Bool, ""),
                value("new", DType::Float, "n"),
                value("past", DType::Float, "p"),
            ],
            vec![value("present", DType::Float, "t")],
        ),
        &[("past", "present")],
        BindingUses::Any,
    );
    let initial = [("past", floats(&[1], &[0.0]))];
    let state =
        PersistentValueState::new(model, initial, RuntimeSessionOptions::default()).unwrap();
    let mut flag = refeed_values::TensorMut::new(&Default::default(), DType::Bool, &[]).unwrap();
    let context = RuntimeContext::default();
    let mut outcomes = Vec::new();
    for (front, new) in [(0u8, 1.0), (1, 2.0), (1, 3.0), (0, 4.0)] {
        flag.as_mut_slice::<u8>().unwrap()[0] = front;
        let front = std::mem::replace(
            &mut flag,
            refeed_values::TensorMut::new(&Default::default(), DType::Bool, &[]).unwrap(),
        );
        state
            .run(
                &context,
                [("front", front.freeze()), ("new", floats(&[1], &[new]))],
            )
            .unwrap();
        let outcome = state.explain().unwrap().bindings[0].outcome.to_string();
        outcomes.push(outcome);
    }
    assert_eq!(
        read(state.values().unwrap()[0].1.tensor().unwrap()),
        [3.0, 2.0, 0.0, 1.0, 4.0]
    );
    let copied = "copied because Concat does not put the retained value first";
    assert_eq!(outcomes[1..3], [copied, copied]);
    for appended in [&outcomes[0], &outcomes[3]] {
        assert!(!appended.contains("Concat"), "{appended}");
    }
}

#[test]
fn a_view_of_a_feed_is_materialised_and_named() {
    let graph = graph(
        vec![
            node("Transpose", "x", "turned"),
            node("Add", "past one", "present"),
        ],
        vec![
            value("x", DType::Float, "2 3"),
            value("one", DType::Float, "1"),
            value("past", DType::Float, "1"),
        ],
        vec![
            value("turned", DType::Float, "3 2"),
            value("present", DType::Float, "1"),
        ],
    );
    let model = bound(graph, &[("past", "present")], BindingUses::One);
    let initial = [("past", floats(&[1], &[0.0]))];
    let state =
        PersistentValueState::new(model, initial, RuntimeSessionOptions::default()).unwrap();
    let x = floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let feeds = [("x", x.clone()), ("one", floats(&[1], &[1.0]))];
    let out = state.run(&RuntimeContext::default(), feeds).unwrap();
    assert!(!out["turned"].buffer().same_allocation(x.buffer()));
    assert_eq!(read(&out["turned"]), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    let told = state.explain().unwrap().materialised;
    assert_eq!((&*told[0].0, told[0].1), ("turned", 24));
}

#[test]
fn an_input_handed_straight_through_is_shared() {
    let graph = graph(
        vec![node("Add", "past one", "present")],
        vec![
            value("one", DType::Float, "1"),
            value("past", DType::Float, "1"),
        ],
        vec![
            value("present", DType::Float, "1"),
            value("one", DType::Float, "1"),
        ],
    );
    let model = bound(graph, &[("past", "present")], BindingUses::One);
    let initial = [("past", floats(&[1], &[0.0]))];
    let state =
        PersistentValueState::new(model, initial, RuntimeSessionOptions::default()).unwrap();
    let one = floats(&[1], &[1.0]);
    let out = state
        .run(&RuntimeContext::default(), [("one", one.clone())])
        .unwrap();
    assert_eq!(out["one"].as_ptr(), one.as_ptr());
}

/// Rule 4.1.1; S097.
#[test]
fn operations_of_one_state_do_not_overlap() {
    let state = PersistentValueState::new(
        concat(1, 1, 1),
        [("past", floats(&[1, 1, 0, 1], &[]))],
        RuntimeSessionOptions::default(),
    )
    .unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let busy = std::sync::atomic::AtomicUsize::new(0);
    let ran = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let context = RuntimeContext::default();
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    match state.run(&context, [("new", floats(&[1, 1, 1, 1], &[1.0]))]) {
                        Ok(_) => ran.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
                        Err(StateError::Busy) => {
                            busy.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
                        }
                        Err(other) => panic!("{other}"),
                    };
                }
            });
        }
        while ran.load(std::sync::atomic::Ordering::Relaxed) < 200 {
            match state.values() {
                Ok(_) | Err(StateError::Busy) => {}
                Err(other) => panic!("{other}"),
            }
            std::thread::yield_now();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    // Whatever was refused had no effect: the length is the number of calls that ran.
    let length = state.values().unwrap()[0].1.tensor().unwrap().shape()[2];
    assert_eq!(length, ran.load(std::sync::atomic::Ordering::Relaxed));
    assert!(matches!(
        state.explain().unwrap().bindings[0].outcome,
        Outcome::InPlace | Outcome::Grown(_)
    ));
}

#[test]
fn a_retained_feed_is_no_longer_the_callers_memory() {
    use refeed_values::{Buffer, Provenance};
    // A delay line: the bound output is the graph input itself.
    let graph = graph(
        vec![node("Identity", "before", "out")],
        vec![
            value("x", DType::Uint8, "2"),
            value("before", DType::Uint8, "2"),
        ],
        vec![
            value("x", DType::Uint8, "2"),
            value("out", DType::Uint8, "2"),
        ],
    );
    let model = bound(graph, &[("before", "x")], BindingUses::One);
    let zeros = Tensor::from_slice(&[2], &[0u8; 2]).unwrap();
    let state =
        PersistentValueState::new(model, [("before", zeros)], RuntimeSessionOptions::default())
            .unwrap();
    let lent = Buffer::from_owner(vec![5u8, 6], Provenance::Foreign);
    let x = Tensor::dense(DType::Uint8, &[2], lent).unwrap();
    let out = state
        .run(&RuntimeContext::default(), [("x", x.clone())])
        .unwrap();
    let retained = state.values().unwrap()[0].1.tensor().unwrap().clone();
    assert!(!retained.buffer().same_allocation(x.buffer()));
    assert_eq!(retained.as_ptr(), out["x"].as_ptr());
    let told = state.explain().unwrap().bindings[0].outcome.to_string();
    assert_eq!(told, "computed by nothing: it is the graph input `x`");
}

#[test]
fn ranks_beyond_the_limit_are_refused_at_once() {
    let dims = "1 ".repeat(65);
    let error = refeed_graph::Model::from_proto(
        refeed_proto::ModelProto {
            graph: Some(graph(
                vec![node("Identity", "x", "y")],
                vec![value("x", DType::Float, &dims)],
                vec![value("y", DType::Float, &dims)],
            )),
            ..accumulate().proto().clone()
        },
        &refeed_graph::LoadOptions::default(),
    );
    assert!(error.unwrap_err().to_string().contains("64"));
}
