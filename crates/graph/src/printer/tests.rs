use super::*;
use crate::parser::{self, NESTING_LIMIT};
use crate::testing;
use refeed_proto::attribute_proto::AttributeType;
use refeed_proto::tensor_proto::{DataLocation, DataType};
use refeed_proto::type_proto::{self, Value};
use refeed_proto::{
    Bytes, DeviceConfigurationProto, EncodedValueProto, NodeDeviceConfigurationProto,
    OperatorSetIdProto, PagedCacheProto, PersistentBindingProto, SparseTensorProto,
    StringStringEntryProto, StructTypeProto, TensorAnnotation, TrainingInfoProto, tensor_proto,
};

fn text<M: TextForm>(message: &M) -> String {
    to_text(message, Fidelity::Equivalent).unwrap()
}

/// Paths of what is lost.
fn lost<M: TextForm>(message: &M, fidelity: Fidelity) -> Vec<String> {
    let error = to_text(message, fidelity).unwrap_err();
    error.lost.into_iter().map(|lost| lost.path).collect()
}

fn attribute(kind: AttributeType) -> AttributeProto {
    AttributeProto {
        name: Some("a".into()),
        r#type: Some(kind as i32),
        ..Default::default()
    }
}

fn raw(data_type: DataType, dims: &[i64], bytes: &[u8]) -> TensorProto {
    TensorProto {
        name: Some("t".into()),
        data_type: Some(data_type as i32),
        dims: dims.to_vec(),
        raw_data: Some(Bytes::copy_from_slice(bytes)),
        ..Default::default()
    }
}

fn documented() -> Option<String> {
    Some("why".into())
}

#[test]
fn the_layout_is_that_of_onnx() {
    let source = r#"<ir_version: 9, opset_import: ["": 18, "d": 1], producer_name: "p", model_version: 3,
        doc_string: "a \"b\" \\", metadata_props: ["k": "v"]>
        g (bool c, float[N, "M + 1", ?, 2] x) => (seq(float) y, float[] z) <float[2] w = {1, -2.5}, int64 t> {
            [n] y, "z/0" = d.Op:v <a = 1, b: floats = [1, inf]> (x, "")
            z = If (c) <then_branch = h () => () { o = Neg (x) }, k = "s">
        }
        <domain: "d", overload: "v", doc_string: "doc", opset_import: ["": 18, "e": 2]>
        Op <p, q: int = 1> (float x, y) => (z) <bool b> { z = Op <r = @p> (x, y) }"#;
    let model = parser::parse_model(source).unwrap();
    let want = r#"<
   ir_version: 9,
   opset_import: ["" : 18, "d" : 1],
   producer_name: "p",
   model_version: 3,
   doc_string: "a \"b\" \\",
   metadata_props: ["k": "v"]
>
g (bool c, float[N,"M + 1",?,2] x) => (seq(float) y, float[] z) 
   <float[2] w = {1,-2.5}, int64 t>
{
   [n] y, "z/0" = d.Op:v <a: int = 1, b: floats = [1, inf]> (x, "")
   z = If (c) <then_branch: graph = h () => () {
      o = Neg (x)
   }, k: string = "s">
}
<
  domain: "d",
  overload: "v",
  doc_string: "doc",
  opset_import: ["" : 18,"e" : 2]
>
Op <p,q: int = 1>(x, y) => (z)
  <float x, bool b>
{
   z = Op <r = @p> (x, y)
}"#;
    assert_eq!(to_text(&model, Fidelity::Exact).unwrap(), want);
    assert_eq!(parser::parse_model(want).unwrap(), model);
}

#[test]
fn every_field_without_syntax_is_named() {
    let entries = vec![StringStringEntryProto::default()];
    let node = NodeProto {
        op_type: Some("Op".into()),
        doc_string: documented(),
        metadata_props: entries.clone(),
        device_configurations: vec![NodeDeviceConfigurationProto::default()],
        attribute: vec![AttributeProto {
            doc_string: documented(),
            i: Some(1),
            floats: vec![2.0],
            sparse_tensors: vec![SparseTensorProto::default()],
            ..attribute(AttributeType::Int)
        }],
        ..Default::default()
    };
    let weight = TensorProto {
        doc_string: documented(),
        segment: Some(tensor_proto::Segment::default()),
        metadata_props: entries.clone(),
        external_data: entries.clone(),
        int64_data: vec![1],
        ..raw(DataType::Float, &[1], &[0; 4])
    };
    let mut ty = testing::tensor_type(testing::FLOAT, "2");
    ty.denotation = Some("IMAGE".into());
    if let Some(Value::TensorType(tensor)) = &mut ty.value {
        tensor.shape.as_mut().unwrap().dim[0].denotation = Some("BATCH".into());
    }
    let mut value = testing::value("x", ty);
    value.doc_string = documented();
    value.metadata_props = entries.clone();
    let graph = GraphProto {
        name: Some("g".into()),
        node: vec![NodeProto::default(), node],
        initializer: vec![weight],
        sparse_initializer: vec![SparseTensorProto::default()],
        doc_string: documented(),
        input: vec![value],
        output: vec![testing::value(
            "s",
            testing::of_value(Value::StructType(Box::default())),
        )],
        quantization_annotation: vec![TensorAnnotation::default()],
        metadata_props: entries.clone(),
        encoded_initializer: vec![EncodedValueProto::default()],
        persistent_bindings: vec![PersistentBindingProto::default()],
        paged_cache_initializer: vec![PagedCacheProto::default()],
        ..Default::default()
    };
    let model = ModelProto {
        graph: Some(graph),
        training_info: vec![TrainingInfoProto::default()],
        configuration: vec![DeviceConfigurationProto::default()],
        struct_types: vec![StructTypeProto::default()],
        functions: vec![FunctionProto {
            metadata_props: entries,
            ..Default::default()
        }],
        ..Default::default()
    };
    let want = [
        "training_info",
        "configuration",
        "struct_types",
        "graph.doc_string",
        "graph.sparse_initializer",
        "graph.quantization_annotation",
        "graph.metadata_props",
        "graph.encoded_initializer",
        "graph.persistent_bindings",
        "graph.paged_cache_initializer",
        "graph.input[0].doc_string",
        "graph.input[0].metadata_props",
        "graph.input[0].type.denotation",
        "graph.input[0].type.tensor_type.shape.dim[0].denotation",
        "graph.output[0].type.struct_type",
        "graph.initializer[0].segment",
        "graph.initializer[0].doc_string",
        "graph.initializer[0].metadata_props",
        "graph.initializer[0].external_data",
        "graph.initializer[0].int64_data",
        "graph.node[1].doc_string",
        "graph.node[1].metadata_props",
        "graph.node[1].device_configurations",
        "graph.node[1].attribute[0].doc_string",
        "graph.node[1].attribute[0].floats",
        "graph.node[1].attribute[0].sparse_tensors",
        "functions[0].metadata_props",
    ];
    assert_eq!(lost(&model, Fidelity::Equivalent), want);
    let error = to_text(&model, Fidelity::Equivalent)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("the text form cannot carry 27 fields: training_info: has no syntax; "),
        "{error}"
    );
    assert!(error.ends_with("; and 17 more"), "{error}");
    // What is left still parses, and comes back as it is.
    let rest = to_text(&model, Fidelity::Lossy).unwrap();
    let again = parser::parse_model(&rest).unwrap();
    assert_eq!(to_text(&again, Fidelity::Exact).unwrap(), rest);
    assert_eq!(again.graph.unwrap().output[0].r#type, None);
}

#[test]
fn values_without_syntax_are_named() {
    let node = NodeProto {
        op_type: Some("a-b".into()),
        domain: Some("my-domain.x".into()),
        overload: Some("1".into()),
        attribute: vec![
            AttributeProto {
                name: Some("a b".into()),
                ..attribute(AttributeType::Int)
            },
            AttributeProto {
                strings: vec![Bytes::from_static(b"ok"), Bytes::from_static(b"\xFF\0\x80")],
                ..attribute(AttributeType::Strings)
            },
            attribute(AttributeType::SparseTensor),
            attribute(AttributeType::Tensor),
            attribute(AttributeType::Undefined),
            AttributeProto {
                f: Some(f32::from_bits(0x7FC0_0001)),
                ..attribute(AttributeType::Float)
            },
        ],
        ..Default::default()
    };
    let paths = [
        "domain",
        "op_type",
        "overload",
        "attribute[0].name",
        "attribute[1].strings[1]",
        "attribute[2].sparse_tensor",
        "attribute[3].t",
        "attribute[4].type",
        "attribute[5].f",
    ];
    assert_eq!(lost(&node, Fidelity::Equivalent), paths);
    assert_eq!(
        to_text(&node, Fidelity::Lossy).unwrap(),
        " = my_domain_x.a_b:_1 <a_b: int = 0, a: strings = [\"ok\", \"\u{FFFD}\0\u{FFFD}\"], a: float = nan> ()\n"
    );
    let tensor = |bytes: &[u8]| lost(&raw(DataType::Float, &[1], bytes), Fidelity::Equivalent);
    assert_eq!(tensor(&[0; 5]), ["raw_data"]);
    assert_eq!(tensor(&0xFF80_0001_u32.to_le_bytes()), ["raw_data"]);
    let undefined = raw(DataType::Undefined, &[], &[]);
    assert_eq!(lost(&undefined, Fidelity::Lossy), ["data_type"]);
    let nowhere = TensorProto {
        data_location: Some(DataLocation::External as i32),
        ..raw(DataType::Float, &[1], &[0; 4])
    };
    assert_eq!(
        lost(&nowhere, Fidelity::Equivalent),
        ["raw_data", "external_data"]
    );
    let opaque = |domain: &str, name: &str| {
        let opaque = type_proto::Opaque {
            domain: Some(domain.into()),
            name: Some(name.into()),
        };
        lost(
            &testing::of_value(Value::OpaqueType(opaque)),
            Fidelity::Equivalent,
        )
    };
    assert_eq!(opaque("d", "a.b"), ["opaque_type.name"]);
    assert_eq!(opaque("d..e", "a"), ["opaque_type.domain"]);
    assert_eq!(
        lost(&ModelProto::default(), Fidelity::Equivalent),
        ["graph"]
    );
}

#[test]
fn exact_refuses_what_only_changes_its_form() {
    let node = NodeProto {
        op_type: Some("Op".into()),
        overload: Some(String::new()),
        doc_string: Some(String::new()),
        ..Default::default()
    };
    assert_eq!(
        lost(&node, Fidelity::Exact),
        ["doc_string", "domain", "overload"]
    );
    assert_eq!(text(&node), " = Op ()\n");
    let tensor = TensorProto {
        name: None,
        ..raw(DataType::Int8, &[2], &[1, 0xFF])
    };
    assert_eq!(lost(&tensor, Fidelity::Exact), ["name", "raw_data"]);
    assert_eq!(text(&tensor), "int8[2] {1,-1}");
    let opset = ModelProto {
        opset_import: vec![OperatorSetIdProto::default()],
        graph: Some(GraphProto::default()),
        ..Default::default()
    };
    let want = [
        "opset_import[0].domain",
        "opset_import[0].version",
        "graph.name",
    ];
    assert_eq!(lost(&opset, Fidelity::Exact), want);
    let untyped = ValueInfoProto {
        r#type: Some(TypeProto::default()),
        ..ValueInfoProto::default()
    };
    assert_eq!(lost(&untyped, Fidelity::Exact), ["name", "type"]);
    assert_eq!(text(&untyped), "\"\"");
}

#[test]
fn raw_elements_are_written_as_the_typed_field_has_them() {
    let elements = |data_type, dims: &[i64], bytes: &[u8]| {
        let text = text(&raw(data_type, dims, bytes));
        let (_, elements) = text.split_once('{').unwrap();
        elements.strip_suffix('}').unwrap().to_string()
    };
    assert_eq!(
        elements(DataType::Float, &[2], &[0, 0, 0x80, 0x3F, 0, 0, 0, 0x80]),
        "1,-0"
    );
    assert_eq!(
        elements(
            DataType::Complex64,
            &[1],
            &[0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0]
        ),
        "1,-2"
    );
    assert_eq!(
        elements(DataType::Double, &[1], &0.1_f64.to_le_bytes()),
        "0.1"
    );
    assert_eq!(
        elements(DataType::Int64, &[1], &(-2_i64).to_le_bytes()),
        "-2"
    );
    assert_eq!(
        elements(DataType::Uint64, &[1], &[0xFF; 8]),
        "18446744073709551615"
    );
    assert_eq!(elements(DataType::Uint32, &[1], &[0xFF; 4]), "4294967295");
    assert_eq!(elements(DataType::Int32, &[1], &[0xFF; 4]), "-1");
    assert_eq!(elements(DataType::Int16, &[1], &[0, 0x80]), "-32768");
    assert_eq!(elements(DataType::Bfloat16, &[1], &[0x80, 0xFF]), "65408");
    assert_eq!(elements(DataType::Bool, &[2], &[0, 1]), "0,1");
    assert_eq!(elements(DataType::Int4, &[3], &[0x21, 0xF3]), "33,243");
    // 1, 2, 3 of six bits each, the lowest first: 0b000001, 0b000010, 0b000011.
    assert_eq!(
        elements(DataType::Float6e2m3, &[3], &[0b1000_0001, 0b0011_0000, 0]),
        "1,2,3"
    );
    let stray = raw(DataType::Float6e2m3, &[3], &[0, 0, 0b0000_0100]);
    assert_eq!(lost(&stray, Fidelity::Equivalent), ["raw_data"]);
    assert_eq!(
        lost(
            &raw(DataType::Float6e3m2, &[5], &[0; 3]),
            Fidelity::Equivalent
        ),
        ["raw_data"]
    );
    assert_eq!(
        lost(
            &raw(DataType::Float6e3m2, &[-5], &[0; 3]),
            Fidelity::Equivalent
        ),
        ["raw_data"]
    );
}

#[test]
fn names_that_would_read_as_something_else_are_quoted() {
    for name in [
        "float", "seq", "opaque", "inf", "NaN", "a b", "", "infinity", "1",
    ] {
        let graph = GraphProto {
            name: Some(name.into()),
            ..Default::default()
        };
        let attribute = AttributeProto {
            g: Some(Box::new(graph)),
            ..attribute(AttributeType::Graph)
        };
        let written = to_text(&attribute, Fidelity::Exact).unwrap();
        assert_eq!(
            parser::parse_attribute(&written).unwrap(),
            attribute,
            "{written}"
        );
        let value = ValueInfoProto {
            name: Some(name.into()),
            ..Default::default()
        };
        let written = to_text(&value, Fidelity::Exact).unwrap();
        assert_eq!(
            parser::parse_value_info(&written).unwrap(),
            value,
            "{written}"
        );
        let function = FunctionProto {
            name: Some("f".into()),
            input: vec![name.into()],
            output: vec![name.into(), name.into()],
            attribute: vec![name.into()],
            ..Default::default()
        };
        let written = to_text(&function, Fidelity::Exact).unwrap();
        assert_eq!(
            parser::parse_function(&written).unwrap(),
            function,
            "{written}"
        );
    }
}

#[test]
fn messages_nested_deeper_than_the_parser_takes_are_refused() {
    let nested = |levels: usize| {
        let mut ty = testing::tensor_type(testing::FLOAT, "");
        for _ in 0..levels {
            ty = testing::sequence(ty);
        }
        ty
    };
    // The type inside 49 sequences holds a tensor type and its shape, at depths 99 and 100.
    assert_eq!(NESTING_LIMIT, 100);
    let written = to_text(&nested(49), Fidelity::Exact).unwrap();
    assert_eq!(parser::parse_type(&written).unwrap(), nested(49));
    for levels in [50, 2000] {
        let error = to_text(&nested(levels), Fidelity::Lossy).unwrap_err();
        assert_eq!(error.lost[0].why, Why::Depth);
    }
}
