use super::*;
use crate::testing;
use refeed_proto::attribute_proto::AttributeType;
use refeed_proto::tensor_proto::DataLocation;
use refeed_proto::type_proto::{self, Value};
use refeed_proto::{OperatorSetIdProto, StringStringEntryProto};

fn attribute(text: &str) -> AttributeProto {
    parse_attribute(text).unwrap()
}

fn tensor(text: &str) -> TensorProto {
    parse_tensor(text).unwrap()
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_string).collect()
}

fn entry(key: &str, value: &str) -> StringStringEntryProto {
    StringStringEntryProto {
        key: Some(key.into()),
        value: Some(value.into()),
    }
}

#[test]
fn a_model_has_what_its_text_says_and_nothing_else() {
    let parsed = parse_model(
        r#"<ir_version: 9, opset_import: ["": 18], metadata_props: ["k": "v"]>
        g (float[N, 3] x) => (float[?] y) <int64[2] w = {5, 7}, float t> {
            [first] t, u = d.e.Op:fast <axis: int = -1> (x, , w)
            y = Neg (t)
        }
        <domain: "d"> f <a, b = 2.0> (x) => (float z) { z = Neg (x) }"#,
    )
    .unwrap();
    let weight = TensorProto {
        name: Some("w".into()),
        dims: vec![2],
        data_type: Some(testing::INT64),
        int64_data: vec![5, 7],
        ..Default::default()
    };
    let node = NodeProto {
        name: Some("first".into()),
        output: words("t u"),
        input: vec!["x".into(), String::new(), "w".into()],
        domain: Some("d.e".into()),
        op_type: Some("Op".into()),
        overload: Some("fast".into()),
        attribute: vec![AttributeProto {
            name: Some("axis".into()),
            r#type: Some(AttributeType::Int as i32),
            i: Some(-1),
            ..Default::default()
        }],
        ..Default::default()
    };
    let neg = |input: &str, output: &str| NodeProto {
        input: words(input),
        output: words(output),
        // A node without a domain has an empty one.
        domain: Some(String::new()),
        op_type: Some("Neg".into()),
        ..Default::default()
    };
    let graph = GraphProto {
        name: Some("g".into()),
        input: vec![testing::value(
            "x",
            testing::tensor_type(testing::FLOAT, "N 3"),
        )],
        output: vec![testing::value(
            "y",
            testing::tensor_type(testing::FLOAT, "?"),
        )],
        value_info: vec![testing::value(
            "t",
            testing::tensor_type(testing::FLOAT, ""),
        )],
        initializer: vec![weight],
        node: vec![node, neg("t", "y")],
        ..Default::default()
    };
    let function = FunctionProto {
        domain: Some("d".into()),
        name: Some("f".into()),
        attribute: words("a"),
        attribute_proto: vec![AttributeProto {
            name: Some("b".into()),
            r#type: Some(AttributeType::Float as i32),
            f: Some(2.0),
            ..Default::default()
        }],
        input: words("x"),
        output: words("z"),
        value_info: vec![testing::value(
            "z",
            testing::tensor_type(testing::FLOAT, ""),
        )],
        node: vec![neg("x", "z")],
        ..Default::default()
    };
    let model = ModelProto {
        ir_version: Some(9),
        opset_import: vec![OperatorSetIdProto {
            domain: Some(String::new()),
            version: Some(18),
        }],
        metadata_props: vec![entry("k", "v")],
        graph: Some(graph),
        functions: vec![function],
        ..Default::default()
    };
    assert_eq!(parsed, model);
}

#[test]
fn types_are_read_from_the_outside_in() {
    let float = testing::tensor_type(testing::FLOAT, "N 2");
    assert_eq!(parse_type("float[N,2]").unwrap(), float);
    assert_eq!(
        parse_type("seq(float[\"N\", 2])").unwrap(),
        testing::sequence(float.clone())
    );
    let unranked = testing::of_value(Value::TensorType(type_proto::Tensor {
        elem_type: Some(testing::FLOAT),
        shape: None,
    }));
    assert_eq!(parse_type("float[]").unwrap(), unranked);
    let map = testing::of_value(Value::MapType(Box::new(type_proto::Map {
        key_type: Some(testing::STRING),
        value_type: Some(Box::new(unranked)),
    })));
    assert_eq!(parse_type("map(string, float[])").unwrap(), map);
    let opaque = |domain: Option<&str>, name: Option<&str>| {
        testing::of_value(Value::OpaqueType(type_proto::Opaque {
            domain: domain.map(str::to_string),
            name: name.map(str::to_string),
        }))
    };
    assert_eq!(parse_type("opaque()").unwrap(), opaque(None, None));
    assert_eq!(
        parse_type("opaque(a.b)").unwrap(),
        opaque(None, Some("a.b"))
    );
    assert_eq!(
        parse_type("opaque(a.b, c)").unwrap(),
        opaque(Some("a.b"), Some("c"))
    );
}

#[test]
fn elements_go_to_the_field_of_their_type() {
    assert_eq!(
        tensor("float[2] {1, -0}").float_data[1].to_bits(),
        0x8000_0000
    );
    assert_eq!(tensor("double[1] {0.1}").double_data, [0.1]);
    assert_eq!(
        tensor("uint32[1] {4294967295}").uint64_data,
        [4_294_967_295]
    );
    assert_eq!(
        tensor("float16[2] {15360, 64512}").int32_data,
        [15360, 64512]
    );
    assert_eq!(tensor("complex64[1] {1, 2}").float_data, [1.0, 2.0]);
    assert_eq!(
        tensor("string[2] {\"a\\\\b\", \"\\n\"}").string_data,
        ["a\\b", "n"]
    );
    let external = tensor("int8[3] w = [\"location\": \"f\", \"offset\": \"16\"]");
    assert_eq!(external.data_location(), DataLocation::External);
    assert_eq!(
        external.external_data,
        [entry("location", "f"), entry("offset", "16")]
    );
    assert_eq!(
        (external.name(), external.dims.as_slice()),
        ("w", &[3_i64][..])
    );
}

#[test]
fn lists_that_onnx_forgets_are_kept() {
    let tensors = attribute("a = [float[1] {1}, int8[0] \"n\" {}]");
    assert_eq!(tensors.r#type(), AttributeType::Tensors);
    let names: Vec<_> = tensors.tensors.iter().map(TensorProto::name).collect();
    assert_eq!(names, ["", "n"]);
    let graphs = attribute("a: graphs = [g () => () {}, \"h i\" => () {}]");
    assert_eq!(graphs.r#type(), AttributeType::Graphs);
    assert_eq!(graphs.graphs[1].name(), "h i");
    let types = attribute("a = [float[N], seq(int8)]");
    assert_eq!(types.r#type(), AttributeType::TypeProtos);
    assert_eq!(types.type_protos.len(), 2);
}

#[test]
fn values_that_onnx_does_not_take_are_taken() {
    assert_eq!(attribute("a = -.5").f(), -0.5);
    assert_eq!(attribute("a = \"g\" (x) => (y) {}").g.unwrap().name(), "g");
    assert_eq!(
        attribute("a = infer () => () {}").g.unwrap().name(),
        "infer"
    );
    assert_eq!(attribute("a = nan_g => () {}").g.unwrap().name(), "nan_g");
    let named = attribute("a = float[1] \"a b\" = {1}");
    assert_eq!(named.t.unwrap().name(), "a b");
}

#[test]
fn a_declared_type_decides_what_a_number_is() {
    assert_eq!(attribute("a = 3").i, Some(3));
    assert_eq!(attribute("a: float = 3").f, Some(3.0));
    assert_eq!(attribute("a: floats = [1, 2]").floats, [1.0, 2.0]);
    // The first value decides where nothing is declared.
    assert_eq!(attribute("a = [1.0, 2]").floats, [1.0, 2.0]);
    assert_eq!(
        parse_attribute("a = [1, 2.0]").unwrap_err().expected,
        "an integer"
    );
    let reference = attribute("a: ints = @b");
    assert_eq!(
        (reference.r#type(), reference.ref_attr_name()),
        (AttributeType::Ints, "b")
    );
    assert_eq!(attribute("a = @b").r#type, None);
}

#[test]
fn errors_quote_what_is_there() {
    let got = |text: &str| parse_node(text).unwrap_err().got;
    assert_eq!(got(""), "the end of the text");
    assert_eq!(got("y = Op (\u{202E})"), "`\\u{202e}`");
    assert_eq!(got("y = 12ab34.5"), "`12ab34.5`");
    assert_eq!(got("y = \"a long name\" ()"), "the string \"a long name\"");
    assert_eq!(got("y => Op ()"), "`>`");
    assert_eq!(got(&format!("y {} = Op ()", "x".repeat(500))).len(), 205);
}

#[test]
fn work_is_linear_in_the_length_of_the_text() {
    // Ten times the text may not take a hundred times the time; a quadratic parser would need hours for this one.
    let node = "  [n] y = Op <a: ints = [1, 2], s = \"x\\\"y\"> (x, w) # comment\n";
    let text = format!("g () => () {{\n{}}}", node.repeat(50_000));
    assert_eq!(parse_graph(&text).unwrap().node.len(), 50_000);
    let broken = text.replace("\n}", "\n%}");
    assert_eq!(parse_graph(&broken).unwrap_err().line, 50_002);
    assert!(parse_graph("(".repeat(1_000_000)).is_err());
    assert!(parse_node("\"".to_string() + &"\\\"".repeat(1_000_000)).is_err());
}
