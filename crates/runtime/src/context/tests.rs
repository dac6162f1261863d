use super::{
    ContextError, KernelContext, MapKeys, MapValue, MapValues, RuntimeContext,
    RuntimeContextOptions, ValueKind,
};
use crate::{RuntimeEventAction, RuntimeSession, RuntimeSessionOptions, StateError};
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
    assert_eq!(
        values.put("x", RuntimeSequence::default(), ValueKind::Output),
        Ok(true)
    );
    assert_eq!(values.put("y", scalar(2.0), ValueKind::Unknown), Ok(false));
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
    assert_eq!(
        (values.remove("x"), values.remove("x")),
        (Ok(true), Ok(false))
    );
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
    assert!(matches!(lacking, Err(StateError::MissingUnbound(name)) if name == "a"));
    values.put("a", pair(1.0, 2.0), ValueKind::Input).unwrap();
    values
        .put("elsewhere", scalar(1.0), ValueKind::Input)
        .unwrap();
    session.run_context(&context, None).unwrap();
    let sum = values.tensor("s").unwrap();
    assert_eq!(sum.view::<f32>().unwrap().to_vec(), [12.0, 23.0]);
    assert_eq!(values.kind("s"), Some(ValueKind::Output));
    // What the context keeps comes before a default; results replace earlier ones.
    values.put("b", pair(0.0, 0.0), ValueKind::Input).unwrap();
    session.run_context(&context, None).unwrap();
    let sum = values.tensor("s").unwrap();
    assert_eq!(sum.view::<f32>().unwrap().to_vec(), [2.0, 3.0]);
    let on_the_way = values.tensor("t").unwrap();
    assert_eq!(on_the_way.view::<f32>().unwrap().to_vec(), [1.0, 2.0]);
    assert_eq!(values.kind("t"), Some(ValueKind::Intermediate));
}

#[test]
fn a_failed_run_leaves_the_values_alone() {
    let (session, context) = (session(), RuntimeContext::default());
    let values = context.values();
    values.put("a", scalar(1.0), ValueKind::Input).unwrap();
    values
        .put("s", RuntimeValue::from(scalar(9.0)), ValueKind::Output)
        .unwrap();
    assert!(matches!(
        session.run_context(&context, None),
        Err(StateError::Conform(_))
    ));
    assert_eq!(
        values.tensor("s").unwrap().view::<f32>().unwrap().to_vec(),
        [9.0]
    );
    values.put("a", pair(1.0, 1.0), ValueKind::Input).unwrap();
    values.put("k", pair(5.0, 5.0), ValueKind::Input).unwrap();
    let refused = session.run_context(&context, None).unwrap_err();
    let text = "the context has a value `k`, which the model defines as a constant";
    assert_eq!(refused.to_string(), text);
}

/// Rule 4.4.8: also values that are no tensors.
#[test]
fn values_on_the_way_are_kept_unless_the_context_releases_them() {
    let text = r#"<ir_version: 10, opset_import: ["" : 18]>
        g (float[2] a) => (float[2] s) {
            t = Neg(a)
            l = SequenceConstruct(t, a)
            n = SequenceLength(l)
            f = Cast<to = 1>(n)
            s = Add(t, f)
        }"#;
    let model = Model::from_proto(parser::parse_model(text).unwrap(), &LoadOptions::default());
    let session = RuntimeSession::new(model.unwrap(), RuntimeSessionOptions::default()).unwrap();
    let context = RuntimeContext::default();
    let values = context.values();
    values.put("a", pair(1.0, 2.0), ValueKind::Input).unwrap();
    let names = || -> Vec<String> {
        let names = values.names(|_| true).into_iter();
        names.map(|name| name.to_string()).collect()
    };
    session.run_context(&context, None).unwrap();
    assert_eq!(names(), ["a", "f", "l", "n", "s", "t"]);
    assert_eq!(values.get("l").unwrap().elements().unwrap().len(), 2);
    assert_eq!(values.kind("l"), Some(ValueKind::Intermediate));
    assert_eq!(values.kind("s"), Some(ValueKind::Output));
    for name in ["f", "l", "n", "s", "t"] {
        values.remove(name).unwrap();
    }
    context.set_release_intermediates(true);
    assert!(context.clone().release_intermediates());
    session.run_context(&context, None).unwrap();
    assert_eq!(names(), ["a", "s"]);
    // What a call is fed and gives back is never kept.
    let context = RuntimeContext::default();
    session.run(&context, [("a", pair(1.0, 2.0))]).unwrap();
    assert!(context.values().names(|_| true).is_empty());
}

fn listening() -> RuntimeContext {
    let options = RuntimeContextOptions {
        events_enabled: true,
        ..RuntimeContextOptions::default()
    };
    RuntimeContext::with_options(KernelContext::default(), options)
}

#[test]
fn edits_of_values_are_recorded() {
    let context = listening();
    let values = context.values();
    values.set("x", scalar(1.0), ValueKind::Input).unwrap();
    assert!(values.set("x", scalar(1.0), ValueKind::Input).is_err());
    values.put("x", scalar(2.0), ValueKind::Unknown).unwrap();
    values
        .put("w", pair(3.0, 4.0), ValueKind::Initializer)
        .unwrap();
    values
        .put("l", RuntimeSequence::default(), ValueKind::Output)
        .unwrap();
    values.remove("l").unwrap();
    values.remove("x").unwrap();
    values.remove("nothing").unwrap();
    let told: Vec<_> = context
        .events()
        .iter()
        .map(|event| {
            let numbers = event.captured.reals.clone();
            (
                event.action,
                event.kind.name(),
                event.name.to_string(),
                event.node_index,
                numbers,
            )
        })
        .collect();
    let (add, replace, remove) = (
        RuntimeEventAction::Add,
        RuntimeEventAction::Replace,
        RuntimeEventAction::Remove,
    );
    let expected = [
        (add, "input", "x".to_string(), -1, vec![1.0]),
        (replace, "result", "x".to_string(), -1, vec![2.0]),
        (add, "initializer", "w".to_string(), -2, vec![3.0, 4.0]),
        (add, "result", "l".to_string(), -1, vec![]),
        // Only the removal of a tensor is told.
        (remove, "result", "x".to_string(), -1, vec![2.0]),
    ];
    assert_eq!(told, expected);
}

/// Rule 5.5.8; S178: an edit whose event finds no memory is not made.
#[cfg(feature = "testing")]
#[test]
fn an_edit_that_cannot_be_recorded_is_not_made() {
    use crate::testing::{Mode, Site, arm, disarm};
    let context = listening();
    let values = context.values();
    values.put("x", scalar(1.0), ValueKind::Input).unwrap();
    let refused = |attempt: &dyn Fn() -> Result<(), ContextError>| {
        arm(Site::Event, 0, Mode::Once);
        let got = attempt();
        disarm();
        assert!(matches!(got, Err(ContextError::Event(_))), "{got:?}");
    };
    refused(&|| values.put("x", scalar(2.0), ValueKind::Input).map(drop));
    refused(&|| values.set("y", scalar(2.0), ValueKind::Input));
    refused(&|| values.remove("x").map(drop));
    refused(&|| {
        let report = crate::StorageReport::default();
        context.record_event(RuntimeEventAction::PersistentStorage, "mine", report)
    });
    assert_eq!(
        values.tensor("x").unwrap().view::<f32>().unwrap().to_vec(),
        [1.0]
    );
    assert!(values.get("y").is_none());
    assert_eq!(context.events().len(), 1);
}

#[test]
fn maps_have_names_of_the_same_store() {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).into()).collect::<Vec<_>>();
    let keys = MapKeys::Texts(texts(&["cat", "dog"]));
    let map = MapValue::new(keys.clone(), MapValues::Reals(vec![0.25, 0.75])).unwrap();
    assert!(MapValue::new(keys.clone(), MapValues::Integers(vec![1])).is_err());
    let twice = MapKeys::Integers(vec![3, 3]);
    assert!(MapValue::new(twice, MapValues::Integers(vec![1, 2])).is_err());
    let context = listening();
    let values = context.values();
    values.put("m", scalar(1.0), ValueKind::Input).unwrap();
    assert_eq!(values.put_map("m", map.clone()), Ok(true));
    assert_eq!((values.map("m"), values.map_names().len()), (Ok(map), 1));
    assert!(values.get("m").is_none() && values.names(|_| true).is_empty());
    assert!(matches!(
        values.tensor("m"),
        Err(ContextError::Other { got: "a map", .. })
    ));
    let taken = values.set("m", scalar(1.0), ValueKind::Input);
    assert_eq!(taken, Err(ContextError::Taken("m".to_string())));
    assert_eq!(context.events().last().unwrap().captured.value_count, 2);
    values.put("m", scalar(1.0), ValueKind::Input).unwrap();
    assert!(matches!(
        values.map("m"),
        Err(ContextError::Other {
            expected: "a map",
            ..
        })
    ));
    assert!(matches!(values.map("n"), Err(ContextError::Missing(_))));
}
