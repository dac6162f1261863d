use super::{RegisterError, register_kernel, unregister_kernel};
use crate::kernel::{Build, Invocation, Kernel, Kinds, OpError};
use crate::{
    AppendReuse, NodeProblem, PersistentValueState, RunError, RuntimeContext,
    RuntimeContextOptions, RuntimeEventAction, RuntimeSession, RuntimeSessionOptions, SessionError,
    StateError, StorageReport,
};
use refeed_graph::{LoadOptions, Model, parser};
use refeed_proto::PersistentBindingProto;
use refeed_values::{DType, RawBufferAllocator, RuntimeValue, StructValue, Tensor};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A kernel made of a closure.
struct Closure<F>(F);

impl<F: Fn(&mut Invocation<'_>) -> Result<(), OpError> + Send + Sync> Kernel for Closure<F> {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        (self.0)(call)
    }

    fn reads(&self) -> Kinds {
        Kinds::Any
    }
}

type Made = Result<Box<dyn Kernel>, OpError>;

fn kernel<F>(run: F) -> impl Fn(&mut Build<'_>) -> Made + Send + Sync + 'static
where
    F: Fn(&mut Invocation<'_>) -> Result<(), OpError> + Clone + Send + Sync + 'static,
{
    move |_: &mut Build<'_>| Ok(Box::new(Closure(run.clone())) as Box<dyn Kernel>)
}

/// `y = x + by`, element by element.
fn adds(by: f32) -> impl Fn(&mut Build<'_>) -> Made + Send + Sync + 'static {
    kernel(move |call| {
        let x = call.view::<f32>(0)?;
        let mut y = call.allocate(DType::Float, x.shape())?;
        for (y, x) in y.as_mut_slice::<f32>()?.iter_mut().zip(x.iter()) {
            *y = x + by;
        }
        call.set(0, y.freeze());
        Ok(())
    })
}

fn model(body: &str, bindings: &[(&str, &str)]) -> Model {
    let text = format!("<ir_version: 10, opset_import: [\"\" : 18, \"my\" : 1]> {body}");
    let mut proto = parser::parse_model(text).unwrap();
    let graph = proto.graph.as_mut().unwrap();
    let pairs = bindings
        .iter()
        .map(|(input, output)| PersistentBindingProto {
            input_name: Some((*input).to_string()),
            output_name: Some((*output).to_string()),
            ..PersistentBindingProto::default()
        });
    graph.persistent_bindings = pairs.collect();
    Model::from_proto(proto, &LoadOptions::default()).unwrap()
}

fn session(body: &str) -> RuntimeSession {
    RuntimeSession::new(model(body, &[]), RuntimeSessionOptions::default()).unwrap()
}

fn floats(values: &[f32]) -> Tensor {
    Tensor::from_slice(&[values.len()], values).unwrap()
}

fn run(session: &RuntimeSession, context: &RuntimeContext) -> Result<Vec<f32>, StateError> {
    let outputs = session.run(context, [("x", floats(&[1.0, 2.0]))])?;
    Ok(outputs["y"].view::<f32>().unwrap().to_vec())
}

const PLUS: &str = "g (float[2] x) => (float[2] y) { y = my.Plus(x) }";

fn failed(error: StateError) -> Box<RunError> {
    match error {
        StateError::Run(run) => run,
        other => panic!("expected a failed node, got {other}"),
    }
}

#[test]
fn a_context_comes_before_the_process_which_comes_before_refeeds_own() {
    let plus = model("g (float[2] x) => (float[2] y) { y = my.First(x) }", &[]);
    register_kernel("my", "First", adds(10.0)).unwrap();
    let plus = RuntimeSession::new(plus, RuntimeSessionOptions::default()).unwrap();
    let (bare, own) = (RuntimeContext::default(), RuntimeContext::default());
    own.register_kernel("my", "First", adds(100.0)).unwrap();
    assert_eq!(run(&plus, &bare).unwrap(), [11.0, 12.0]);
    assert_eq!(run(&plus, &own).unwrap(), [101.0, 102.0]);
    assert_eq!(run(&plus, &bare).unwrap(), [11.0, 12.0]);
    assert!(own.unregister_kernel("my", "First"));
    assert!(!own.unregister_kernel("my", "First"));
    assert_eq!(run(&plus, &own).unwrap(), [11.0, 12.0]);
    assert!(unregister_kernel("my", "First"));
    // The plan that has it keeps it.
    assert_eq!(run(&plus, &bare).unwrap(), [11.0, 12.0]);

    let built_in = session("g (float[2] x) => (float[2] y) { y = Add(x, x) }");
    assert_eq!(run(&built_in, &bare).unwrap(), [2.0, 4.0]);
    own.register_kernel("ai.onnx", "Add", adds(0.5)).unwrap();
    assert_eq!(run(&built_in, &own).unwrap(), [1.5, 2.5]);
    own.clear_kernels();
    assert_eq!(run(&built_in, &own).unwrap(), [2.0, 4.0]);
}

#[test]
fn a_missing_kernel_is_told_by_the_first_call_before_anything_is_computed() {
    let ran = Arc::new(AtomicUsize::new(0));
    let context = RuntimeContext::default();
    let seen = ran.clone();
    let counting = kernel(move |call: &mut Invocation<'_>| {
        seen.fetch_add(1, Ordering::Relaxed);
        let x = call.require(0)?.clone();
        call.set(0, x);
        Ok(())
    });
    context.register_kernel("my", "Seen", counting).unwrap();
    let body = "g (float[2] x) => (float[2] y) { s = my.Seen(x) y = my.Lacking(s) }";
    let session = session(body);
    let error = run(&session, &context).unwrap_err();
    let StateError::Session(SessionError::Unregistered(nodes)) = &error else {
        panic!("{error}")
    };
    assert_eq!((nodes.len(), &*nodes[0].domain), (1, "my"));
    let text = error.to_string();
    assert!(
        text.contains("node 1 (my:Lacking)") && text.contains("register"),
        "{text}"
    );
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    context.register_kernel("my", "Lacking", adds(1.0)).unwrap();
    assert_eq!(run(&session, &context).unwrap(), [2.0, 3.0]);
    assert_eq!(ran.load(Ordering::Relaxed), 1);
}

#[test]
fn a_kernel_of_the_process_may_come_after_the_session() {
    let session = session("g (float[2] x) => (float[2] y) { y = my.Late(x) }");
    let context = RuntimeContext::default();
    assert!(run(&session, &context).is_err());
    register_kernel("my", "Late", adds(2.0)).unwrap();
    assert_eq!(run(&session, &context).unwrap(), [3.0, 4.0]);
    unregister_kernel("my", "Late");
}

#[test]
fn unknown_operators_of_known_domains_are_told_at_once_unless_a_kernel_is_there() {
    let body = "g (float[2] x) => (float[2] y) { y = Sideways(x) }";
    let refused = RuntimeSession::new(model(body, &[]), RuntimeSessionOptions::default());
    let SessionError::Unsupported(problems) = refused.unwrap_err() else {
        panic!("expected a node without a kernel")
    };
    assert!(matches!(problems[0].1, NodeProblem::NoKernel));
    let context = RuntimeContext::default();
    context.register_kernel("", "Sideways", adds(3.0)).unwrap();
    let options = RuntimeSessionOptions::default();
    let session = RuntimeSession::with_context(model(body, &[]), options, &context).unwrap();
    assert_eq!(run(&session, &context).unwrap(), [4.0, 5.0]);
    let elsewhere = run(&session, &RuntimeContext::default()).unwrap_err();
    assert!(matches!(
        elsewhere,
        StateError::Session(SessionError::Unsupported(_))
    ));
}

#[test]
fn control_flow_and_nameless_operators_are_refused() {
    let context = RuntimeContext::default();
    for name in ["If", "Loop", "Scan", "SequenceMap"] {
        let refused = context.register_kernel("ai.onnx", name, adds(0.0));
        assert_eq!(refused, Err(RegisterError::ControlFlow(name.to_string())));
    }
    assert_eq!(
        context.register_kernel("my", "", adds(0.0)),
        Err(RegisterError::NoName)
    );
    assert_eq!(context.register_kernel("my", "If", adds(0.0)), Ok(()));
}

#[test]
fn functions_of_the_model_come_before_kernels() {
    let text = r#"<ir_version: 10, opset_import: ["" : 18, "my" : 1]>
        g (float[2] x) => (float[2] y) { y = my.Twice(x) }
        <domain: "my", opset_import: ["" : 18]> Twice (a) => (b) { b = Add(a, a) }"#;
    let proto = parser::parse_model(text).unwrap();
    let model = Model::from_proto(proto, &LoadOptions::default()).unwrap();
    let session = RuntimeSession::new(model, RuntimeSessionOptions::default()).unwrap();
    let context = RuntimeContext::default();
    context.register_kernel("my", "Twice", adds(50.0)).unwrap();
    assert_eq!(run(&session, &context).unwrap(), [2.0, 4.0]);
}

#[test]
fn outputs_are_held_to_their_declarations() {
    let declared = "g (float[2] x) => (float[2] y) { y = my.Wrong(x) }";
    let cases: [(Option<Tensor>, &str); 4] = [
        (
            Some(Tensor::from_slice(&[2], &[1i64, 2]).unwrap()),
            "got INT64[2]",
        ),
        (Some(floats(&[1.0, 2.0, 3.0])), "got FLOAT[3]"),
        (Some(Tensor::scalar(1f32).unwrap()), "expected FLOAT[2]"),
        (None, "output 0: expected a value, got none"),
    ];
    for (value, text) in cases {
        let context = RuntimeContext::default();
        let given = kernel(move |call: &mut Invocation<'_>| {
            if let Some(value) = &value {
                call.set(0, value.clone());
            }
            Ok(())
        });
        context.register_kernel("my", "Wrong", given).unwrap();
        let error = failed(run(&session(declared), &context).unwrap_err()).to_string();
        assert!(
            error.contains(text) && error.contains("node 0 (my:Wrong)"),
            "{error}"
        );
    }
}

/// Rule 7.4.3; S113.
#[test]
fn values_between_nodes_may_be_of_any_kind() {
    let context = RuntimeContext::default();
    let packs = kernel(|call: &mut Invocation<'_>| {
        let x = call.require_value(0)?.clone();
        call.set(0, StructValue::new([("inside", x)])?);
        Ok(())
    });
    let unpacks = kernel(|call: &mut Invocation<'_>| {
        let fields = call.require_value(0)?.fields();
        let inside = fields.and_then(|fields| fields.get("inside")).cloned();
        call.set(0, inside.ok_or(OpError::MissingInput { index: 0 })?);
        Ok(())
    });
    context.register_kernel("my", "Pack", packs).unwrap();
    context.register_kernel("my", "Unpack", unpacks).unwrap();
    let body = "g (float[2] x) => (float[2] y) { s = my.Pack(x) y = my.Unpack(s) }";
    assert_eq!(run(&session(body), &context).unwrap(), [1.0, 2.0]);
    // A kernel that reads tensors only is not handed a struct.
    let body = "g (float[2] x) => (float[2] y) { s = my.Pack(x) y = Neg(s) }";
    let error = failed(run(&session(body), &context).unwrap_err()).to_string();
    assert!(
        error.contains("expected a tensor, got a structured value"),
        "{error}"
    );
}

#[test]
fn kernels_of_constants_run_in_every_call() {
    let ran = Arc::new(AtomicUsize::new(0));
    let seen = ran.clone();
    let counting = kernel(move |call: &mut Invocation<'_>| {
        let count = seen.fetch_add(1, Ordering::Relaxed);
        call.set(0, floats(&[count as f32; 2]));
        Ok(())
    });
    let context = RuntimeContext::default();
    context.register_kernel("my", "Next", counting).unwrap();
    let session = session("g (float[2] x) => (float[2] y) { n = my.Next() y = Add(x, n) }");
    assert_eq!(run(&session, &context).unwrap(), [1.0, 2.0]);
    assert_eq!(run(&session, &context).unwrap(), [2.0, 3.0]);
}

#[test]
fn factories_read_the_node() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = seen.clone();
    let context = RuntimeContext::default();
    context
        .register_kernel("my", "Plus", move |node: &mut Build<'_>| {
            let by = node.attributes.float("by")?.unwrap_or(0.0);
            let constant = node.constant(1).is_some();
            let dtype = node.input(0).and_then(|ty| ty.dtype);
            notes.lock().unwrap().push((
                node.node.output[0].clone(),
                node.opset,
                node.input_count(),
                dtype,
                constant,
                node.wants(0),
            ));
            (adds(by))(node)
        })
        .unwrap();
    let body = "g (float[2] x) => (float[2] y) <float[1] c = {1}> { y = my.Plus<by = 7.0>(x, c) }";
    assert_eq!(run(&session(body), &context).unwrap(), [8.0, 9.0]);
    let seen = seen.lock().unwrap();
    assert_eq!(
        *seen,
        [("y".to_string(), 1, 2, Some(DType::Float), true, true)]
    );
}

#[test]
fn a_state_keeps_its_values_when_contexts_change() {
    let body = "g (float[2] x, float[2] past) => (float[2] y) { s = my.Plus(x) y = Add(s, past) }";
    let model = model(body, &[("past", "y")]);
    let initial = [("past", floats(&[0.0, 0.0]))];
    let state =
        PersistentValueState::new(model, initial, RuntimeSessionOptions::default()).unwrap();
    let contexts: Vec<RuntimeContext> = (0..12)
        .map(|by| {
            let context = RuntimeContext::default();
            context
                .register_kernel("my", "Plus", adds(by as f32))
                .unwrap();
            context
        })
        .collect();
    let mut expected = 0.0;
    for round in 0..3 {
        for (by, context) in contexts.iter().enumerate() {
            let outputs = state.run(context, [("x", floats(&[1.0, 1.0]))]).unwrap();
            expected += 1.0 + by as f32;
            let y = outputs["y"].view::<f32>().unwrap().to_vec();
            assert_eq!(y, [expected; 2], "round {round}");
        }
    }
    let lacking = state.run(&RuntimeContext::default(), [("x", floats(&[1.0, 1.0]))]);
    assert!(matches!(
        lacking,
        Err(StateError::Session(SessionError::Unregistered(_)))
    ));
    let held = state.values().unwrap().remove(0).1;
    let held = held.tensor().unwrap().view::<f32>().unwrap().to_vec();
    assert_eq!(held, [expected; 2]);
}

/// Appends the rows of input 1 to input 0 by reservation; notes what it was given.
fn appends(
    pairs: &'static [(usize, usize)],
    notes: Arc<Mutex<Vec<String>>>,
) -> impl Fn(&mut Build<'_>) -> Made + Send + Sync + 'static {
    kernel(move |call: &mut Invocation<'_>| {
        let (past, rows) = (call.require(0)?.clone(), call.require(1)?.clone());
        let mut shape = past.shape().to_vec();
        shape[0] += rows.shape()[0];
        for &(input, output) in pairs {
            match call.reserve(input, output, &shape, 0) {
                Ok(Some(mut reservation)) => {
                    let bytes = rows.as_bytes().unwrap_or_default().to_vec();
                    reservation.span_mut(0).unwrap().copy_from_slice(&bytes);
                    notes
                        .lock()
                        .unwrap()
                        .push(format!("{}", reservation.outcome()));
                    call.commit_bytes(output, reservation, bytes.len())?;
                    call.report(StorageReport {
                        append_copied_bytes: bytes.len() as u64,
                        ..StorageReport::default()
                    });
                }
                Ok(None) => notes.lock().unwrap().push("declined".to_string()),
                Err(error) => notes.lock().unwrap().push(error.to_string()),
            }
        }
        if call.outputs.first().is_some_and(Option::is_none) {
            let mut all = past.view::<f32>()?.to_vec();
            all.extend(rows.view::<f32>()?.to_vec());
            let dense = Tensor::from_slice(&shape, &all)?;
            call.set(0, dense);
        }
        Ok(())
    })
}

fn cache(rows: usize) -> Tensor {
    let values: Vec<f32> = (0..rows * 3).map(|value| value as f32).collect();
    Tensor::from_slice(&[rows, 3], &values).unwrap()
}

const APPEND: &str =
    "g (float[n, 3] past, float[k, 3] rows) => (float[m, 3] next) { next = my.Append(past, rows) }";

fn append_state(body: &str, capacity: usize) -> PersistentValueState {
    let options = RuntimeSessionOptions {
        persistent_tensor_initial_capacity: capacity,
        append_reuse: AppendReuse::Always,
        ..RuntimeSessionOptions::default()
    };
    let model = model(body, &[("past", "next")]);
    PersistentValueState::new(model, [("past", cache(0))], options).unwrap()
}

/// Rules 5.1.3, 5.2.4, 5.2.5, 5.3.1, 5.5.9; S139, S140, S141, S143, S162, S173.
#[test]
fn the_reservation_contract() {
    let notes: Arc<Mutex<Vec<String>>> = Arc::default();
    let options = RuntimeContextOptions {
        events_enabled: true,
        ..RuntimeContextOptions::default()
    };
    let context = RuntimeContext::with_options(crate::KernelContext::default(), options);
    // A wrong pair of slots declines and costs nothing; a second attempt is an error.
    let pairs: &[(usize, usize)] = &[(1, 0), (0, 1), (0, 0), (0, 0)];
    context
        .register_kernel("my", "Append", appends(pairs, notes.clone()))
        .unwrap();
    let state = append_state(APPEND, 4);
    for step in 0..5 {
        let rows = Tensor::from_slice(&[1, 3], &[step as f32; 3]).unwrap();
        let outputs = state.run(&context, [("rows", rows)]).unwrap();
        assert_eq!(outputs["next"].shape(), [step + 1, 3]);
        let last = outputs["next"].view::<f32>().unwrap().to_vec()[step * 3];
        assert_eq!(last, step as f32);
    }
    let seen = std::mem::take(&mut *notes.lock().unwrap());
    let of_step: Vec<&[String]> = seen.chunks(4).collect();
    assert_eq!(of_step.len(), 5);
    for notes in &of_step {
        assert_eq!((&*notes[0], &*notes[1]), ("declined", "declined"));
        assert!(
            notes[3].contains("append lease has already been consumed"),
            "{}",
            notes[3]
        );
    }
    let places: Vec<bool> = of_step.iter().map(|notes| notes[2] == "in place").collect();
    assert_eq!(places, [false, true, true, true, false]);
    let events = context.events();
    let mut total = StorageReport::default();
    let storage = RuntimeEventAction::PersistentStorage;
    for event in events.iter().filter(|event| event.action == storage) {
        assert_eq!((&*event.op_domain, &*event.op_type), ("my", "Append"));
        total.add(&event.storage);
    }
    // Rows of 12 bytes: 4 and then 8 of them, 4 of which moved.
    assert_eq!((total.allocations, total.allocated_bytes), (2, 12 * 12));
    assert_eq!(
        (total.prefix_copied_bytes, total.append_copied_bytes),
        (48, 60)
    );
    assert_eq!(total.reuse_count, 3);
}

/// Rules 5.2.7, 5.2.8; S144, S145.
#[test]
fn the_bytes_that_a_commit_says_must_be_those_reserved() {
    let context = RuntimeContext::default();
    let short = kernel(|call: &mut Invocation<'_>| {
        let rows = call.require(0)?.shape()[0];
        let reservation = call.reserve(0, 0, &[rows + 2, 3], 0)?;
        let reservation = reservation.ok_or_else(|| OpError::Shape("declined".to_string()))?;
        assert_eq!(reservation.bytes(), 24);
        call.commit_bytes(0, reservation, 12)?;
        Ok(())
    });
    context.register_kernel("my", "Append", short).unwrap();
    let state = append_state(APPEND, 4);
    let error = failed(state.run(&context, [("rows", cache(1))]).unwrap_err()).to_string();
    assert!(
        error.contains("initialised bytes: expected 24, got 12"),
        "{error}"
    );
    // The rows are free again: the next append finds its own place.
    context
        .register_kernel("my", "Append", appends(&[(0, 0)], Arc::default()))
        .unwrap();
    let outputs = state.run(&context, [("rows", cache(2))]).unwrap();
    assert_eq!(outputs["next"].shape(), [2, 3]);
}

/// Rule 5.2.1.
#[test]
fn shapes_that_do_not_extend_the_past_are_errors() {
    for (shape, axis) in [(&[1usize, 4][..], 0), (&[1, 3], 2), (&[0, 3, 1], 0)] {
        let context = RuntimeContext::default();
        let bad = kernel(move |call: &mut Invocation<'_>| {
            call.reserve(0, 0, shape, axis)?;
            Ok(())
        });
        context.register_kernel("my", "Append", bad).unwrap();
        let state = append_state(APPEND, 4);
        let error = failed(state.run(&context, [("rows", cache(1))]).unwrap_err());
        assert!(matches!(error.source, OpError::Append(_)), "{error}");
    }
}

/// Rule 5.3.2; S138.
#[test]
fn children_decline() {
    let branch = "g (float[n, 3] past, float[k, 3] rows, bool c) => (float[m, 3] next) {
        next = If (c) <then_branch = t () => (float[m, 3] a) { a = my.Append(past, rows) },
                       else_branch = e () => (float[m, 3] b) { b = Identity(rows) }>
    }";
    let notes: Arc<Mutex<Vec<String>>> = Arc::default();
    let context = RuntimeContext::default();
    context
        .register_kernel("my", "Append", appends(&[(0, 0)], notes.clone()))
        .unwrap();
    let state = append_state(branch, 4);
    let condition = Tensor::scalar(1u8)
        .unwrap()
        .reinterpret(DType::Bool)
        .unwrap();
    let feeds = [("rows", cache(2)), ("c", condition)];
    assert_eq!(state.run(&context, feeds).unwrap()["next"].shape(), [2, 3]);

    let text = r#"<ir_version: 10, opset_import: ["" : 18, "my" : 1]>
        g (float[n, 3] past, float[k, 3] rows) => (float[m, 3] next) { next = my.Outer(past, rows) }
        <domain: "my", opset_import: ["" : 18, "my" : 1]> Outer (a, b) => (c) { c = my.Append(a, b) }"#;
    let mut proto = parser::parse_model(text).unwrap();
    proto.graph.as_mut().unwrap().persistent_bindings = vec![PersistentBindingProto {
        input_name: Some("past".to_string()),
        output_name: Some("next".to_string()),
        ..PersistentBindingProto::default()
    }];
    let model = Model::from_proto(proto, &LoadOptions::default()).unwrap();
    let initial = [("past", cache(1))];
    let state =
        PersistentValueState::new(model, initial, RuntimeSessionOptions::default()).unwrap();
    assert_eq!(
        state.run(&context, [("rows", cache(2))]).unwrap()["next"].shape(),
        [3, 3]
    );
    assert_eq!(*notes.lock().unwrap(), ["declined", "declined"]);
}

#[test]
fn an_invocation_can_be_lent_and_taken_back() {
    let context = RuntimeContext::default();
    let lends = kernel(|call: &mut Invocation<'_>| {
        let mut lent = call.lend();
        // What is lent is not there twice.
        assert!(call.reserve(0, 0, &[1, 3], 0)?.is_none());
        let rows = lent.value(1).and_then(RuntimeValue::tensor).cloned();
        let rows = rows.ok_or(OpError::MissingInput { index: 1 })?;
        let past = lent
            .value(0)
            .and_then(RuntimeValue::tensor)
            .map_or(0, |past| past.shape()[0]);
        let reserved = lent.reserve(0, 0, &[past + 1, 3], 0)?;
        let mut reservation = reserved.ok_or_else(|| OpError::Shape("declined".into()))?;
        reservation.write_rows(0, &rows)?;
        let bytes = reservation.bytes();
        lent.commit_bytes(0, reservation, bytes)?;
        call.take_back(lent);
        Ok(())
    });
    context.register_kernel("my", "Append", lends).unwrap();
    let state = append_state(APPEND, 4);
    for step in 1..4 {
        let outputs = state.run(&context, [("rows", cache(1))]).unwrap();
        assert_eq!(outputs["next"].shape(), [step, 3]);
    }
    let explained = state.explain().unwrap().bindings.remove(0);
    assert_eq!(explained.outcome, crate::Outcome::InPlace);
}

#[test]
fn an_error_of_the_callers_own_comes_out_with_the_node() {
    #[derive(Debug, thiserror::Error)]
    #[error("no such weather")]
    struct Weather;
    let context = RuntimeContext::default();
    let fails = kernel(|_: &mut Invocation<'_>| Err(OpError::Custom(Box::new(Weather))));
    context.register_kernel("my", "Plus", fails).unwrap();
    let error = failed(run(&session(PLUS), &context).unwrap_err());
    assert_eq!(error.to_string(), "node 0 (my:Plus): no such weather");
    let OpError::Custom(own) = error.source else {
        panic!("{:?}", error.source)
    };
    assert!(own.is::<Weather>());
}

#[test]
fn outputs_and_appends_come_from_the_io_allocator_and_the_rest_from_the_other() {
    let execution = RawBufferAllocator::execution_arena(64, usize::MAX);
    let io = RawBufferAllocator::io_arena(64, usize::MAX);
    let options = RuntimeContextOptions {
        allocator: Some(execution.clone()),
        io_allocator: Some(io.clone()),
        ..RuntimeContextOptions::default()
    };
    let context = RuntimeContext::with_options(crate::KernelContext::default(), options);
    let body = "g (float[n, 3] past, float[k, 3] rows) => (float[m, 3] next, float[k, 3] out) {
        a = Neg(rows)
        b = Abs(a)
        out = Sqrt(b)
        next = Concat<axis = 0>(past, rows)
    }";
    let state = append_state(body, 4);
    let outputs = state.run(&context, [("rows", cache(2))]).unwrap();
    // The block of 4 rows, and the plain output.
    assert_eq!((io.live_count(), io.live_bytes()), (2, 4 * 12 + 2 * 12));
    assert_eq!((execution.live_count(), execution.retained_count()), (0, 2));
    drop(outputs);
    assert_eq!((io.live_count(), io.retained_count()), (1, 1));
    let held = state.values().unwrap();
    state.close().unwrap();
    assert_eq!(io.live_count(), 1);
    drop(held);
    assert_eq!((io.live_count(), io.live_bytes()), (0, 0));
}

#[test]
fn a_state_stays_with_the_allocators_of_its_first_call() {
    let io = RawBufferAllocator::io_arena(64, usize::MAX);
    let with = |io: &RawBufferAllocator| {
        let options = RuntimeContextOptions {
            io_allocator: Some(io.clone()),
            ..RuntimeContextOptions::default()
        };
        RuntimeContext::with_options(crate::KernelContext::default(), options)
    };
    let body = "g (float[2] x, float[2] past) => (float[2] y) { y = Add(x, past) }";
    let model = model(body, &[("past", "y")]);
    let initial = [("past", floats(&[0.0, 0.0]))];
    let state = PersistentValueState::new(model.clone(), initial, RuntimeSessionOptions::default());
    let state = state.unwrap();
    let feed = || [("x", floats(&[1.0, 2.0]))];
    state.run(&with(&io), feed()).unwrap();
    state.run(&with(&io), feed()).unwrap();
    let other = with(&RawBufferAllocator::simple(4));
    for context in [RuntimeContext::default(), other] {
        let refused = state.run(&context, feed());
        assert!(matches!(refused, Err(StateError::AllocatorsChanged)));
    }
    let outputs = state.run(&with(&io), feed()).unwrap();
    assert_eq!(outputs["y"].view::<f32>().unwrap().to_vec(), [3.0, 6.0]);
    // A session has no memory of earlier calls.
    let session = RuntimeSession::new(model, RuntimeSessionOptions::default()).unwrap();
    let feeds = || [("x", floats(&[1.0, 2.0])), ("past", floats(&[5.0, 5.0]))];
    for context in [with(&io), RuntimeContext::default(), with(&io)] {
        let outputs = session.run(&context, feeds()).unwrap();
        assert_eq!(outputs["y"].view::<f32>().unwrap().to_vec(), [6.0, 7.0]);
    }
}
