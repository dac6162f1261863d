use super::{ContextError, RuntimeContext, ValueKind};
use crate::{RuntimeSession, RuntimeSessionOptions, StateError};
use refeed_graph::{LoadOptions, Model, parser};
use refeed_values::{RuntimeSequence, RuntimeValue, Tensor};

fn scalar(value: f32) -> Tensor {
    Tensor::scalar(value).unwrap()
}

#[test]
fn a_name_has_one_value_of_whatever_kind() {
    let context = RuntimeContext::default();
    let values = context.values();
    values.set("x", scalar(1.0), ValueKind::Input).unwrap();
    let taken = values.set("x", RuntimeSequence::default(), ValueKind::Input);
    assert_eq!(taken, Err(ContextError::Taken("x".to_string())));
    assert!(values.put("x", RuntimeSequence::default(), ValueKind::Output));
    assert!(!values.put("y", scalar(2.0), ValueKind::Unknown));
    assert_eq!(values.kind("x"), Some(ValueKind::Output));
    let other = values.tensor("x").unwrap_err();
    assert_eq!(
        other.to_string(),
        "value `x`: expected a tensor, got a sequence"
    );
    let missing = values.tensor("z").unwrap_err();
    assert_eq!(missing.to_string(), "the context has no value `z`");
    let tensors = values.names(|value| value.tensor().is_some());
    assert_eq!(
        tensors.iter().map(|name| &**name).collect::<Vec<_>>(),
        ["y"]
    );
    assert_eq!(values.names(|_| true).len(), 2);
    assert!(values.remove("x").is_some() && values.remove("x").is_none());
    // Handles of one context see the same values.
    let handle = context.clone();
    handle.values().clear();
    assert!(context.values().get("y").is_none());
}

#[test]
fn kinds_have_names() {
    for text in ["unknown", "initializer", "input", "intermediate", "output"] {
        assert_eq!(text.parse::<ValueKind>().unwrap().as_str(), text);
    }
    assert_eq!(
        "inputs".parse::<ValueKind>(),
        Err(ContextError::Kind("inputs".to_string()))
    );
}

fn session() -> RuntimeSession {
    let text = r#"<ir_version: 10, opset_import: ["" : 18]>
        g (float[2] a, float[2] b) => (float[2] s) <float[2] b = {10, 20}, float[2] k = {1, 1}> {
            t = Add(a, b)
            s = Add(t, k)
        }"#;
    let model = Model::from_proto(parser::parse_model(text).unwrap(), &LoadOptions::default());
    RuntimeSession::new(model.unwrap(), RuntimeSessionOptions::default()).unwrap()
}

fn pair(a: f32, b: f32) -> Tensor {
    Tensor::from_slice(&[2], &[a, b]).unwrap()
}

#[test]
fn a_session_runs_on_what_a_context_keeps() {
    let (session, context) = (session(), RuntimeContext::default());
    let values = context.values();
    let lacking = session.run_context(&context, None);
    assert!(matches!(lacking, Err(StateError::MissingInput(name)) if name == "a"));
    values.put("a", pair(1.0, 2.0), ValueKind::Input);
    values.put("elsewhere", scalar(1.0), ValueKind::Input);
    session.run_context(&context, None).unwrap();
    let sum = values.tensor("s").unwrap();
    assert_eq!(sum.view::<f32>().unwrap().to_vec(), [12.0, 23.0]);
    assert_eq!(values.kind("s"), Some(ValueKind::Output));
    // What the context keeps comes before a default; results replace earlier ones.
    values.put("b", pair(0.0, 0.0), ValueKind::Input);
    session.run_context(&context, None).unwrap();
    let sum = values.tensor("s").unwrap();
    assert_eq!(sum.view::<f32>().unwrap().to_vec(), [2.0, 3.0]);
    assert!(values.get("t").is_none());
}

#[test]
fn a_failed_run_leaves_the_values_alone() {
    let (session, context) = (session(), RuntimeContext::default());
    let values = context.values();
    values.put("a", scalar(1.0), ValueKind::Input);
    values.put("s", RuntimeValue::from(scalar(9.0)), ValueKind::Output);
    assert!(matches!(
        session.run_context(&context, None),
        Err(StateError::Conform(_))
    ));
    assert_eq!(
        values.tensor("s").unwrap().view::<f32>().unwrap().to_vec(),
        [9.0]
    );
    values.put("a", pair(1.0, 1.0), ValueKind::Input);
    values.put("k", pair(5.0, 5.0), ValueKind::Input);
    let refused = session.run_context(&context, None).unwrap_err();
    let text = "the context has a value `k`, which the model defines as a constant";
    assert_eq!(refused.to_string(), text);
}
