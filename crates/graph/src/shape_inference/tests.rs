//! Whole models through the driver, written as text.

use super::*;
use crate::parser::parse_model;
use crate::testing::{With, attribute, graph_attribute, node};
use crate::types::{Dim, TensorType, ValueType};
use refeed_proto::attribute_proto::AttributeType;
use refeed_proto::{GraphProto, NodeProto, ValueInfoProto};
use refeed_values::DType;
use std::time::{Duration, Instant};

const STRICT: InferenceOptions = InferenceOptions {
    check_type: true,
    strict_mode: true,
    data_prop: true,
};

fn read(text: &str) -> ModelProto {
    let head = "<ir_version: 10, opset_import: [\"\": 21, \"mine\": 1]>\n";
    parse_model(format!("{head}{text}").as_bytes())
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn types(infos: &[ValueInfoProto]) -> Vec<String> {
    let text = |info: &ValueInfoProto| {
        let ty = ValueType::from_proto(info.r#type.as_ref());
        format!("{} {ty}", info.name())
    };
    infos.iter().map(text).collect()
}

/// `value_info` and outputs of the root graph, `name TYPE` each.
fn found(model: &ModelProto, options: &InferenceOptions) -> Vec<String> {
    let inferred = infer_shapes(model, options).unwrap_or_else(|error| panic!("{error}"));
    let graph = inferred.model.graph.unwrap();
    [types(&graph.value_info), types(&graph.output)].concat()
}

fn strict(text: &str) -> Vec<String> {
    found(&read(text), &STRICT)
}

/// The text with fresh symbols as `?`.
fn unnamed(text: &str) -> String {
    let mut parts = text.split("unk__");
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        out.push('?');
        out.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    out
}

fn refusal(text: &str) -> String {
    infer_shapes(&read(text), &STRICT).unwrap_err().to_string()
}

#[test]
fn names_of_dimensions_go_through_arithmetic() {
    let got = strict(
        "g (float[batch,4,past,8] cache, float[batch,4,new,8] rows) => (y) {
            present = Concat <axis = 2> (cache, rows)
            flat = Flatten <axis = 3> (present)
            y = Transpose <perm = [0, 2, 1, 3]> (present)
        }",
    );
    assert_eq!(
        got,
        [
            "present FLOAT[batch, 4, past + new, 8]",
            "flat FLOAT[4 * batch * past + 4 * batch * new, 8]",
            "y FLOAT[batch, past + new, 4, 8]",
        ]
    );
}

#[test]
fn values_of_shape_arithmetic_are_followed_when_asked() {
    let text = "g (float[batch,length,24] x) => (y, z) {
        shape = Shape (x)
        zero = Constant <value_int = 0> ()
        one = Constant <value_int = 1> ()
        first = Constant <value_ints = [0]> ()
        batch = Gather (shape, zero)
        length = Gather (shape, one)
        batch1 = Unsqueeze (batch, first)
        length1 = Unsqueeze (length, first)
        heads = Constant <value_ints = [4]> ()
        rest = Constant <value_ints = [-1]> ()
        wanted = Concat <axis = 0> (batch1, length1, heads, rest)
        y = Reshape (x, wanted)
        two = Constant <value_int = 2> ()
        twice = Mul (length, two)
        more = Add (twice, one)
        z = Range (zero, more, one)
    }";
    let outputs = |got: Vec<String>| got[got.len() - 2..].to_vec();
    assert_eq!(
        outputs(strict(text)),
        ["y FLOAT[batch, length, 4, 6]", "z INT64[2 * length + 1]"]
    );
    let without = found(&read(text), &InferenceOptions::default());
    assert_eq!(
        outputs(without),
        ["y FLOAT[unk__0, unk__1, unk__2, unk__3]", "z INT64[unk__4]"]
    );
}

#[test]
fn expanded_masks_keep_their_names() {
    // As exporters write `expand` with -1 for the extents that stay.
    let got = strict(
        "g (int64[batch,1,length] mask, int64[2] unused) => (y) {
            shape = Shape (mask)
            given = Constant <value_ints = [-1, 3, -1]> ()
            minus = Constant <value_ints = [-1]> ()
            rank = Shape (given)
            ones = ConstantOfShape <value = int64[1] {1}> (rank)
            open = Equal (given, minus)
            target = Where (open, ones, given)
            y = Expand (mask, target)
        }",
    );
    assert_eq!(got.last().unwrap(), "y INT64[batch, 3, length]");
}

/// A cache of `past` rows and one more, whose output is declared to have a number of rows: the text form has no names
/// that are expressions.
fn appended(rows: Dim) -> ModelProto {
    let mut model = read(
        "g (float[past,8] cache, float[1,8] row) => (y) { y = Concat <axis = 0> (cache, row) }",
    );
    let ty = ValueType::Tensor(TensorType {
        dtype: Some(DType::Float),
        shape: Some(vec![rows, Dim::Known(8)]),
    });
    model.graph.as_mut().unwrap().output[0].r#type = Some(ty.to_proto());
    model
}

#[test]
fn declared_names_stay_where_they_can() {
    let named = |name: &str| Dim::Symbol(name.into());
    for (rows, want) in [
        (named("past + 1"), "y FLOAT[past + 1, 8]"),
        (named("1 + past"), "y FLOAT[1 + past, 8]"),
        (named("total"), "y FLOAT[total, 8]"),
        (Dim::Known(5), "y FLOAT[5, 8]"),
        (Dim::Unknown, "y FLOAT[past + 1, 8]"),
    ] {
        assert_eq!(found(&appended(rows), &STRICT), [want]);
    }
    for (rows, want) in [
        (named("past + 2"), "axis 0 is past + 2 and past + 1"),
        (named("past"), "axis 0 is past and past + 1"),
    ] {
        let error = infer_shapes(&appended(rows), &STRICT).unwrap_err();
        assert!(error.to_string().contains(want), "{error}");
    }
}

#[test]
fn contradictions_name_both_sides() {
    for (text, want) in [
        (
            "g (float[2,3] x) => (y) <float[2,4] h> { h = Neg (x) y = Neg (h) }",
            "node 0 (Neg): `h` is declared as FLOAT[2, 4] in value_info, but the node gives FLOAT[2, 3]: axis 1 is 4 \
             and 3",
        ),
        (
            "g (float[2,3] x) => (float[6] y) { [last] y = Neg (x) }",
            "node 0 'last' (Neg): `y` is declared as FLOAT[6] in graph output, but the node gives FLOAT[2, 3]: 1 axes \
             and 2",
        ),
        (
            "g (float[2,3] x) => (seq(float[2,3]) y) { y = Neg (x) }",
            "`y` is declared as sequence of FLOAT[2, 3] in graph output, but the node gives FLOAT[2, 3]: sequence and \
             tensor",
        ),
        (
            "g (float[2,3] x) => (int64[2,3] x) { }",
            "graph output: `x` is declared as INT64[2, 3] in graph output, but the node gives FLOAT[2, 3]",
        ),
        (
            "g (bool c, float[2,3] x) => (y) {
                y = If (c) <
                    then_branch = t () => (a) { a = Neg (x) },
                    else_branch = e () => (float[4] b) { b = Neg (x) }
                >
            }",
            "node 0 (If) else_branch / node 0 (Neg): `b` is declared as FLOAT[4] in graph output",
        ),
        (
            "g (float[2,3] x, float[4,5] z) => (y) { y = Add (x, z) }",
            "node 0 (Add): shapes do not fit: axis 0 of input 1 is 4, which does not broadcast with 2",
        ),
        (
            "g (float[2,3] x) => (y) { y = mine.f (x) }
             <domain: \"mine\", opset_import: [\"\": 21]> f (a) => (b) {
                c = Constant <value_floats = [1.0, 2.0]> ()
                b = Add (a, c)
             }",
            "node 0 (mine::f) / node 1 (Add): shapes do not fit",
        ),
        (
            "g (float[2,3] x) => (y) { y = Neg (x, x) }",
            "node 0 (Neg): expected 1 inputs, got 2",
        ),
        (
            "g (float[2,3] x) => (y) { y = mine.f <q = 1> (x) }
             <domain: \"mine\", opset_import: [\"\": 21]> f (a) => (b) { b = Neg (a) }",
            "node 0 (mine::f): ",
        ),
    ] {
        let error = refusal(text);
        assert!(error.contains(want), "expected `{want}` in: {error}");
        // Without strict mode the declaration stands, and nothing is raised.
        let lenient = infer_shapes(&read(text), &InferenceOptions::default()).unwrap();
        assert_eq!(lenient.problems.len(), 1, "{text}: {:?}", lenient.problems);
    }
    let kept = found(
        &read("g (float[2,3] x) => (y) <float[2,4] h> { h = Neg (x) y = Neg (h) }"),
        &InferenceOptions::default(),
    );
    assert_eq!(kept, ["h FLOAT[2, 4]", "y FLOAT[2, 4]"]);
    let mixed = read("g (float[2] x, int64[2] z) => (y) { y = Add (x, z) }");
    let check_type = InferenceOptions {
        check_type: true,
        ..InferenceOptions::default()
    };
    assert!(infer_shapes(&mixed, &check_type).is_err());
    assert!(infer_shapes(&mixed, &InferenceOptions::default()).is_ok());
}

#[test]
fn what_the_data_decide_has_a_name_of_its_own() {
    let got = strict(
        "g (float[unk__5,3] x) => (y, u) {
            where = NonZero (x)
            turned = Transpose (where)
            y = Cast <to = 1> (turned)
            u = Unique (x)
            same = Mul (y, y)
            other = mine.Thing (x)
            known = Neg (other)
        }",
    );
    assert_eq!(
        got,
        [
            "where INT64[2, unk__6]",
            "turned INT64[unk__6, 2]",
            "same FLOAT[unk__6, 2]",
            "y FLOAT[unk__6, 2]",
            "u FLOAT[unk__7]",
        ]
    );
}

#[test]
fn nested_graphs_and_functions_are_entered() {
    let model = read(
        "g (bool c, int64 trips, float[rows,3] x) => (y, last, stacked) {
            y = If (c) <
                then_branch = t () => (a) { h = Neg (x) a = Concat <axis = 1> (h, h) },
                else_branch = e () => (b) { b = Concat <axis = 0> (x, x) }
            >
            last, stacked = Loop (trips, c, x) <
                body = b (int64 i, bool go, state) => (bool go2, next, row) {
                    go2 = Identity (go)
                    next = mine.grow <axis = 0> (state)
                    axes = Constant <value_ints = [0]> ()
                    row = ReduceSum <keepdims = 0> (x, axes)
                }
            >
        }
        <domain: \"mine\", opset_import: [\"\": 21]> grow <axis> (a) => (b) {
            b = Concat <axis: int = @axis> (a, a)
        }",
    );
    let inferred = infer_shapes(&model, &STRICT).unwrap();
    let graph = inferred.model.graph.unwrap();
    // Rows are added in each iteration, which leaves nothing of their number. The numbers of fresh symbols depend on how
    // often the body is walked.
    let outputs: Vec<String> = types(&graph.output)
        .iter()
        .map(|text| unnamed(text))
        .collect();
    assert_eq!(
        outputs,
        ["y FLOAT[?, ?]", "last FLOAT[?, 3]", "stacked FLOAT[?, 3]"]
    );
    let nested = |node: usize, at: usize| graph.node[node].attribute[at].g.as_deref().unwrap();
    assert_eq!(types(&nested(0, 0).value_info), ["h FLOAT[rows, 3]"]);
    assert_eq!(types(&nested(0, 0).output), ["a FLOAT[rows, 6]"]);
    assert_eq!(types(&nested(0, 1).output), ["b FLOAT[2 * rows, 3]"]);
    assert_eq!(nested(1, 0).output.len(), 3);
    assert_eq!(types(&nested(1, 0).value_info), ["axes INT64[1]"]);
}

#[test]
fn functions_are_walked_once_for_each_kind_of_call() {
    // 2^16 calls, which all have one of two types.
    let mut text = String::from(
        "g (float[2,3] x, float[n] w) => (y, z) { y = mine.f0 (x) z = mine.f0 (w) }\n",
    );
    for level in 0..16 {
        let next = level + 1;
        text += &format!(
            "<domain: \"mine\", opset_import: [\"\": 21, \"mine\": 1]> f{level} (a) => (b) {{ c = mine.f{next} (a) \
             d = mine.f{next} (c) b = Neg (d) }}\n"
        );
    }
    text += "<domain: \"mine\", opset_import: [\"\": 21]> f16 (a) => (b) { b = Neg (a) }\n";
    let start = Instant::now();
    assert_eq!(strict(&text), ["y FLOAT[2, 3]", "z FLOAT[n]"]);
    assert!(
        start.elapsed() < Duration::from_secs(60),
        "{:?}",
        start.elapsed()
    );
    let cycle = "g (float[2] x) => (y) { y = mine.f (x) }
        <domain: \"mine\", opset_import: [\"mine\": 1]> f (a) => (b) { b = mine.f (a) }";
    assert!(refusal(cycle).contains("mine::f -> mine::f"));
}

#[test]
fn a_chain_of_100_000_nodes_is_followed_to_its_end() {
    let length = 100_000;
    let mut model = read("g (float[rows,3] v0) => (y) { y = Neg (v0) }");
    let graph = model.graph.as_mut().unwrap();
    graph.node = (0..length)
        .map(|at| node("Neg", &format!("v{at}"), &format!("v{}", at + 1)))
        .collect();
    graph.output[0].name = Some(format!("v{length}"));
    // A walk that is quadratic in the nodes would take hours here.
    let got = infer_shapes(&model, &STRICT).unwrap();
    let graph = got.model.graph.unwrap();
    assert_eq!(graph.value_info.len(), length - 1);
    assert_eq!(types(&graph.output), [format!("v{length} FLOAT[rows, 3]")]);
}

#[test]
fn hostile_extents_are_unknown_and_harmless() {
    let most = i64::MAX;
    let text = format!(
        "g (float[{most},{most}] x, float[n,{most}] w) => (a, b, c, d, e) {{
            a = Flatten <axis = 0> (x)
            b = Concat <axis = 0> (x, x)
            two = Constant <value_ints = [{most}, {most}]> ()
            c = Tile (w, two)
            d = Concat <axis = 1> (w, w)
            size = Size (x)
            shape = Shape (x)
            product = ReduceProd <keepdims = 1> (shape)
            sum = Add (shape, shape)
            e = ConstantOfShape (sum)
        }}"
    );
    let got = found(&read(&text), &STRICT);
    let unknown = |text: &str| text.contains("unk__");
    assert!(
        got.iter().filter(|text| unknown(text)).count() >= 4,
        "{got:?}"
    );
    // More axes than a tensor may have, and endless names.
    let mut model = read("g (float[n] x) => (y) { h = Neg (x) y = Neg (h) }");
    let wide = vec!["7"; 1000].join(" ");
    let graph = model.graph.as_mut().unwrap();
    graph.input[0] = crate::testing::value("x", crate::testing::tensor_type(1, &wide));
    assert_eq!(found(&model, &STRICT), ["h FLOAT[...]", "y FLOAT[...]"]);
    let graph = model.graph.as_mut().unwrap();
    graph.input[0] = crate::testing::value("x", crate::testing::tensor_type(1, &"n".repeat(5000)));
    assert_eq!(
        found(&model, &STRICT),
        ["h FLOAT[unk__0]", "y FLOAT[unk__0]"]
    );
}

/// A loop whose body is `inner`, over a state that grows.
fn around(inner: Vec<NodeProto>) -> NodeProto {
    let info = |name: &str| ValueInfoProto {
        name: Some(name.to_string()),
        ..ValueInfoProto::default()
    };
    let body = GraphProto {
        name: Some("body".to_string()),
        input: vec![info("i"), info("go"), info("state")],
        node: inner,
        output: vec![info("go"), info("grown")],
        ..GraphProto::default()
    };
    node("Loop", "trips c state", "grown").with(graph_attribute("body", body))
}

#[test]
fn loops_in_loops_end_in_time() {
    let grow = || {
        let axis = refeed_proto::AttributeProto {
            i: Some(0),
            ..attribute("axis", AttributeType::Int)
        };
        node("Concat", "state state", "grown").with(axis)
    };
    let nested = |depth: usize| {
        let mut model = read("g (int64 trips, bool c, float[rows,3] state) => (grown) { }");
        let mut inner = grow();
        for _ in 0..depth {
            inner = around(vec![inner]);
        }
        model.graph.as_mut().unwrap().node = vec![inner];
        model
    };
    let start = Instant::now();
    let three = found(&nested(3), &STRICT);
    assert_eq!(three.len(), 1);
    assert!(three[0].starts_with("grown FLOAT["), "{three:?}");
    // Walked three times each: 3^60 walks are cut short, and what is not walked is unknown.
    infer_shapes(&nested(60), &InferenceOptions::default()).unwrap();
    assert!(
        start.elapsed() < Duration::from_secs(60),
        "{:?}",
        start.elapsed()
    );
    let error = infer_shapes(&nested(101), &InferenceOptions::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("nested graphs and calls: expected at most 100"),
        "{error}"
    );
}

#[test]
fn types_within_types_are_bounded() {
    let mut model = read("g (float[3] v0) => (y) { y = Identity (v0) }");
    let graph = model.graph.as_mut().unwrap();
    graph.node = (0..5000)
        .map(|at| {
            node(
                "SequenceConstruct",
                &format!("v{at}"),
                &format!("v{}", at + 1),
            )
        })
        .collect();
    graph.output[0].name = Some("v5000".to_string());
    // Whether the rule follows sequences of sequences or refuses them, none grows beyond the limit.
    infer_shapes(&model, &InferenceOptions::default()).unwrap();
}

#[test]
fn single_nodes_and_functions() {
    use crate::testing::{FLOAT, INT64, int, opset, tensor_type};
    let ty = |name: &str, dims: &str| (name.to_string(), tensor_type(FLOAT, dims));
    let add = node("Add", "a b", "c");
    let given = [ty("a", "2 n"), ty("b", "1 n")];
    let got = infer_node_outputs(&add, &[opset("", 14)], &given, &[]).unwrap();
    assert_eq!(got, [ty("c", "2 n")]);
    let given = [ty("a", "2 3"), ty("b", "4 3")];
    assert!(infer_node_outputs(&add, &[opset("", 14)], &given, &[]).is_err());
    let shape = ("s".to_string(), tensor_type(INT64, "2"));
    let numbers = refeed_proto::TensorProto {
        dims: vec![2],
        data_type: Some(INT64),
        int64_data: vec![3, -1],
        ..Default::default()
    };
    let got = infer_node_outputs(
        &node("Reshape", "a s", "c"),
        &[opset("", 14)],
        &[ty("a", "2 6"), shape],
        &[("s".to_string(), numbers)],
    );
    assert_eq!(got.unwrap(), [ty("c", "3 4")]);
    let model = read(
        "g (float[2] x) => (y) { y = Neg (x) }
         <domain: \"mine\", opset_import: [\"\": 21]> f <axis> (a, b) => (c, d) {
            c = Concat <axis: int = @axis> (a, b)
            d = NonZero (c)
         }",
    );
    let types = [tensor_type(FLOAT, "2 3"), tensor_type(FLOAT, "n 3")];
    let got = infer_function_output_types(&model.functions[0], &types, &[int("axis", 0)]).unwrap();
    let texts = got
        .iter()
        .map(|ty| ValueType::from_proto(Some(ty)).to_string());
    assert_eq!(
        texts.collect::<Vec<_>>(),
        ["FLOAT[n + 2, 3]", "INT64[2, ?]"]
    );
    let short = infer_function_output_types(&model.functions[0], &types, &[int("depth", 0)]);
    assert!(short.is_err());
}
