use super::*;
use crate::testing::*;
use crate::{BindingError, LoadOptions, ModelError};
use refeed_proto::StringStringEntryProto;

/// A model whose outputs are made from the inputs of the same position.
fn mapped(inputs: &str, outputs: &str) -> Model {
    let nodes = inputs
        .split_whitespace()
        .zip(outputs.split_whitespace())
        .map(|(i, o)| node("Neg", i, o))
        .collect();
    Model::from_proto(
        model(graph(inputs, nodes, outputs)),
        &LoadOptions::default(),
    )
    .unwrap()
}

fn pairs(model: &Model) -> Vec<(String, String)> {
    model
        .bindings()
        .iter()
        .map(|binding| (binding.input.to_string(), binding.output.to_string()))
        .collect()
}

fn owned(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter()
        .map(|(a, b)| (a.to_string(), b.to_string()))
        .collect()
}

#[track_caller]
fn refused(model: &Model, request: &BindRequest, parts: &[&str]) {
    let text = bind(model, request)
        .expect_err("the request must be refused")
        .to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

#[test]
fn pairs_are_written_into_the_graph() {
    let model = mapped("past delta", "present y");
    let (bound, report) = bind(&model, &BindRequest::pairs([("past", "present")])).unwrap();
    assert_eq!(pairs(&bound), owned(&[("past", "present")]));
    assert_eq!(
        bound.graph().persistent_bindings,
        [binding("past", "present")]
    );
    assert_eq!(
        (report.pairs[0].uses.count, report.uses),
        (1, BindingUses::One)
    );
    assert!(model.bindings().is_empty());
    let again = Model::from_bytes(bound.to_bytes().unwrap(), &LoadOptions::default()).unwrap();
    assert_eq!(again.bindings(), bound.bindings());
}

#[test]
fn pairs_are_exact_and_a_near_name_is_named() {
    let model = mapped("past_key delta", "present y");
    refused(
        &model,
        &BindRequest::pairs([("past.key", "present")]),
        &["no input of that exact name", "nearest: `past_key`"],
    );
    refused(
        &model,
        &BindRequest::pairs([("past_key", "nothing")]),
        &["`past_key` -> `nothing`", "no output"],
    );
    refused(&model, &BindRequest::default(), &["nothing to bind"]);
}

#[test]
fn templates_bind_what_fits_on_both_sides() {
    let inputs = "past.0.key past.0.value past.10.key ids past.0.a.b";
    let outputs = "present.0.key present.0.value present.10.key logits other";
    let model = mapped(inputs, outputs);
    let (bound, report) = bind(
        &model,
        &BindRequest::patterns(["past.{i}.{kv} -> present.{i}.{kv}"]),
    )
    .unwrap();
    let expected = [
        ("past.0.key", "present.0.key"),
        ("past.0.value", "present.0.value"),
        ("past.10.key", "present.10.key"),
    ];
    assert_eq!(pairs(&bound), owned(&expected));
    let by = MatchedBy::Template("past.{i}.{kv} -> present.{i}.{kv}".to_string());
    assert!(report.pairs.iter().all(|pair| pair.by == by));
    refused(
        &model,
        &BindRequest::patterns(["cache.{i} -> present.{i}"]),
        &["matches no pair", "`past.0.key`", "`logits`"],
    );
}

#[test]
fn placeholders_are_words_without_dots() {
    let fits = |template: &str, name: &str| Template::new(template).unwrap().output_of(name);
    assert_eq!(
        fits("{x}_in -> {x}_out", "a_b_in"),
        Ok(Some("a_b_out".to_string()))
    );
    assert_eq!(
        fits("{x}_in -> {x}_out", "_in"),
        Ok(None),
        "a placeholder is never empty"
    );
    assert_eq!(
        fits("{x}_in -> {x}_out", "a.b_in"),
        Ok(None),
        "nor does it have a dot"
    );
    assert_eq!(
        fits("{a}.{b} -> {b}/{a}", "é.1"),
        Ok(Some("1/é".to_string()))
    );
    assert_eq!(
        fits("{a}_{b} -> {b}_{a}", "x_y"),
        Ok(Some("y_x".to_string()))
    );
    assert_eq!(fits("{a}_{b} -> {b}_{a}", "x_y_z"), Err(Ambiguous));
    assert_eq!(
        fits("state -> stateN", "state"),
        Ok(Some("stateN".to_string()))
    );
    assert_eq!(fits("state -> stateN", "states"), Ok(None));
    assert_eq!(
        fits("{a} -> n{a}", &"x".repeat(5_000)),
        Ok(None),
        "no name is that long"
    );
}

#[test]
fn texts_that_are_no_templates_are_refused() {
    for (text, fault) in [
        ("a -> b -> c", "one arrow"),
        ("{i} -> b", "`{i}` stands on one side only"),
        ("a.{i} -> {i}.{j}", "`{j}` stands on one side only"),
        ("{i}.{i} -> {i}", "`{i}` stands twice"),
        ("{i}{j} -> {i}{j}", "text between the placeholders"),
        ("{i -> b", "unbalanced brace"),
        ("i} -> b", "unbalanced brace"),
        ("{} -> {}", "expected a name of letters"),
        ("{a b} -> {a b}", "expected a name of letters"),
        (" -> b", "both sides"),
        ("a ->", "both sides"),
    ] {
        refused(&mapped("a", "b"), &BindRequest::patterns([text]), &[fault]);
    }
}

#[test]
fn what_fits_twice_is_refused() {
    let model = mapped("a_in b c", "a_out new_a_in d");
    refused(
        &model,
        &BindRequest::patterns(["{x}_in -> {x}_out", "{x} -> new_{x}"]),
        &["ambiguous: input `a_in`", "`a_out`", "`new_a_in`"],
    );
    refused(
        &model,
        &BindRequest::patterns(["known"]),
        &["ambiguous", "scheme new", "scheme in_out"],
    );
    refused(
        &model,
        &BindRequest::pairs([("b", "d"), ("c", "d")]),
        &["ambiguous: output `d`", "`b`", "`c`"],
    );
    refused(
        &model,
        &BindRequest::patterns(["{a}_{b} -> new_{a}_{b}", "b -> d", "c -> d"]),
        &["output `d`"],
    );
    let twice = mapped("x_y_z q", "z_y_x y_z_x");
    refused(
        &twice,
        &BindRequest::patterns(["{a}_{b} -> {b}_{a}"]),
        &["in more than one way", "`x_y_z`"],
    );
    // The same pair by two ways is one pair.
    let request = BindRequest {
        patterns: vec!["b -> d".to_string()],
        ..BindRequest::pairs([("b", "d")])
    };
    let (bound, report) = bind(&model, &request).unwrap();
    assert_eq!(
        (pairs(&bound), &report.pairs[0].by),
        (owned(&[("b", "d")]), &MatchedBy::Pair)
    );
}

#[test]
fn bindings_of_the_graph_stay() {
    let model = mapped("a b c", "x y z");
    let request = BindRequest::pairs([("a", "x")]).with_publish("a", Publish::Once);
    let (first, _) = bind(&model, &request).unwrap();
    let (second, report) = bind(
        &first,
        &BindRequest::pairs([("c", "z")]).with_uses(BindingUses::Any),
    )
    .unwrap();
    assert_eq!(pairs(&second), owned(&[("a", "x"), ("c", "z")]));
    assert_eq!(second.bindings()[0].publish, Publish::Once);
    assert_eq!(
        (&report.pairs[0].by, &report.pairs[1].by),
        (&MatchedBy::Graph, &MatchedBy::Pair)
    );
    refused(
        &first,
        &BindRequest::pairs([("a", "y")]),
        &["input `a` would be fed by `x` (the graph) and by `y` (a pair)"],
    );
    refused(
        &first,
        &BindRequest::pairs([("b", "x")]),
        &["output `x`", "the graph"],
    );
    // The policy of the graph stays unless another is asked for.
    let (third, _) = bind(&second, &BindRequest::pairs([("b", "y")])).unwrap();
    assert_eq!(third.binding_uses(), BindingUses::Any);
    let (fourth, _) = bind(&third, &BindRequest::default().with_uses(BindingUses::One)).unwrap();
    assert_eq!(
        (fourth.binding_uses(), fourth.bindings().len()),
        (BindingUses::One, 3)
    );
}

#[test]
fn the_result_is_verified() {
    let nodes = vec![node("Shape", "past", "s"), node("Neg", "past", "present")];
    let model = Model::from_proto(
        model(graph("past", nodes, "present")),
        &LoadOptions::default(),
    )
    .unwrap();
    let request = BindRequest::pairs([("past", "present")]);
    refused(
        &model,
        &request,
        &[
            "`past` must be used exactly once, got 2 uses",
            "graph.node[0] (Shape).input[0]",
            "--uses any",
        ],
    );
    let (bound, _) = bind(&model, &request.with_uses(BindingUses::Any)).unwrap();
    assert!(bound.verify().is_ok());
    let entry = StringStringEntryProto {
        key: Some("refeed.binding_uses".into()),
        value: Some("any".into()),
    };
    assert_eq!(bound.graph().metadata_props, [entry]);
    let Err(BindingError::Uses { count: 2, .. }) = bound.check_binding_uses(Some(BindingUses::One))
    else {
        panic!("a stricter policy in force is held to");
    };
}

#[test]
fn types_of_pairs_must_be_compatible() {
    let mut proto = mapped("a", "b").proto().clone();
    proto.graph.as_mut().unwrap().output[0] = value("b", tensor_type(INT64, "rows 3"));
    let model = Model::from_proto(proto, &LoadOptions::default()).unwrap();
    match bind(&model, &BindRequest::pairs([("a", "b")])) {
        Err(BindError::Model(ModelError::Binding(BindingError::Incompatible {
            fault, ..
        }))) => {
            assert!(
                fault.expected.contains("FLOAT") && fault.got.contains("INT64"),
                "{fault}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn publication_is_one_policy_or_a_map() {
    let model = mapped("c.0.k c.0.v c.1.k", "n.0.k n.0.v n.1.k");
    let request = || BindRequest::patterns(["c.{i}.{kv} -> n.{i}.{kv}"]);
    let policies = |request: &BindRequest| -> Vec<Publish> {
        bind(&model, request)
            .unwrap()
            .0
            .bindings()
            .iter()
            .map(|binding| binding.publish)
            .collect()
    };
    use Publish::{Always, IfPresent, Once};
    assert_eq!(policies(&request()), [Always; 3]);
    assert_eq!(
        policies(&request().with_publish("c.0.v", Once)),
        [Always, Once, Always]
    );
    assert_eq!(
        policies(&request().with_publish("c.{i}.k", IfPresent)),
        [IfPresent, Always, IfPresent]
    );
    let mut all = request().with_publish("c.1.k", Always);
    all.publish.all = Some(Once);
    assert_eq!(policies(&all), [Once, Once, Always]);
    refused(
        &model,
        &request().with_publish("c.9.k", Once),
        &["`c.9.k` is no bound input", "`c.0.k`"],
    );
    refused(
        &model,
        &request().with_publish("q.{i}", Once),
        &["`q.{i}` is no bound input"],
    );
    let twice = request()
        .with_publish("c.0.k", Once)
        .with_publish("c.0.{kv}", IfPresent);
    refused(
        &model,
        &twice,
        &["input `c.0.k` is given more than one policy"],
    );
    let (bound, _) = bind(&model, &request().with_publish("c.0.v", Once)).unwrap();
    let again = Model::from_bytes(bound.to_bytes().unwrap(), &LoadOptions::default()).unwrap();
    assert_eq!(again.bindings()[1].publish, Once);
}

#[test]
fn schemes_are_asked_for_by_name() {
    let model = mapped("state x_in", "stateN x_out");
    let (bound, _) = bind(&model, &BindRequest::patterns(["silero"])).unwrap();
    assert_eq!(pairs(&bound), owned(&[("state", "stateN")]));
    let (bound, report) = bind(&model, &BindRequest::patterns(["known"])).unwrap();
    assert_eq!(
        pairs(&bound),
        owned(&[("state", "stateN"), ("x_in", "x_out")])
    );
    assert_eq!(report.pairs[1].by, MatchedBy::Scheme("in_out"));
    refused(
        &model,
        &BindRequest::patterns(["lstm"]),
        &["scheme lstm matches no pair"],
    );
    refused(
        &mapped("a", "b"),
        &BindRequest::patterns(["known"]),
        &["known schemes matches no pair"],
    );
    refused(
        &model,
        &BindRequest::patterns(["optimus"]),
        &["unknown naming scheme `optimus`", "silero"],
    );
}

#[test]
fn every_scheme_is_a_template_that_says_whose_it_is() {
    for scheme in schemes() {
        assert!(scheme.name != KNOWN && !scheme.about.is_empty());
        for (text, _) in scheme.templates {
            assert!(Template::new(text).is_ok(), "{text}");
        }
    }
}

#[test]
fn the_report_is_a_table() {
    let (_, report) = bind(
        &mapped("past delta", "present y"),
        &BindRequest::pairs([("past", "present")]),
    )
    .unwrap();
    let text = report.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[0].split_whitespace().next(), Some("input"));
    assert_eq!(
        lines[1].split_whitespace().take(2).collect::<Vec<_>>(),
        ["past", "present"]
    );
    assert!(
        lines[1].contains("[rows, 3]") && lines[1].ends_with("a pair"),
        "{text}"
    );
    assert_eq!(lines[2], "binding uses: one");
}
