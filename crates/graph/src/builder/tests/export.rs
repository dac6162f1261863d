use super::*;
use crate::builder::BuildError;
use refeed_proto::{EncodedValueProto, StructTypeProto, encoded_value_proto, struct_type_proto};

fn pair() -> StructTypeProto {
    StructTypeProto {
        type_id: Some(9),
        name: Some("Pair".to_string()),
        kind: Some(struct_type_proto::Kind::Array(Box::new(
            struct_type_proto::Array {
                element_type: Some(Box::new(tensor_type(2, ""))),
                dimension: Some(2),
            },
        ))),
        ..StructTypeProto::default()
    }
}

#[test]
fn what_standard_onnx_would_lose_is_listed() {
    let mut proto = accumulate();
    proto.struct_types.push(pair());
    let root = proto.graph.as_mut().unwrap();
    root.metadata_props
        .push(entry("refeed.publish:past", "once"));
    let branch = || {
        let mut branch = graph("", vec![node("Neg", "past", "t")], "t");
        branch.value_info.push(value("t", float()));
        branch
    };
    root.node[0] = node("Add", "delta delta", "present");
    root.node.push(branches(branch(), branch(), "inner"));
    root.input.push(value("cond", tensor_type(9, "")));
    root.encoded_initializer.push(EncodedValueProto {
        name: Some("records".to_string()),
        raw_data: Some(refeed_proto::Bytes::from_static(&[1, 2, 3, 4])),
        layout: Some(encoded_value_proto::Layout::StructType(StructTypeProto {
            kind: Some(struct_type_proto::Kind::TypeRef(9)),
            ..StructTypeProto::default()
        })),
        ..EncodedValueProto::default()
    });
    root.paged_cache_initializer.push(cache("pages"));
    root.input.push(value("past_pages", category()));
    root.value_info.push(value("listed", sequence(category())));
    root.node
        .push(node("SequenceConstruct", "past_pages", "listed"));
    root.metadata_props
        .push(entry("refeed.binding_uses", "any"));
    let builder = imported(proto);
    let refused = builder.to_standard_model().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "cannot export as standard ONNX: persistent binding `past -> present`, binding policy `refeed.publish:past`, \
         binding policy `refeed.binding_uses`, struct type `Pair`, encoded initializer `records`, \
         paged cache initializer `pages`, struct type of value `past_pages`, struct type of value `listed` \
         would be lost; export the model itself, or remove them first"
    );
    let BuildError::WouldLose { lost, .. } = refused else {
        panic!("{refused}")
    };
    assert_eq!(lost.len(), 8);
    let refused = builder.to_function("mine", "f").unwrap_err().to_string();
    assert!(
        refused
            .starts_with("cannot export as a FunctionProto: persistent binding `past -> present`"),
        "{refused}"
    );
    // The model itself loses nothing.
    assert_eq!(builder.to_onnx().unwrap(), *builder.proto());
}

#[test]
fn ordinary_models_are_standard() {
    let builder = of("x", vec![node("Neg", "x", "y")], "y");
    assert_eq!(
        builder.to_standard_model().unwrap(),
        builder.to_onnx().unwrap()
    );
    let mut builder = builder;
    builder.make_persistent_binding(binding("x", "y"));
    assert!(builder.to_standard_model().is_err());
    builder.remove_persistent_binding("x").unwrap();
    builder.to_standard_model().unwrap();
}

#[test]
fn a_graph_becomes_a_function() {
    let weight = floats("w", &[3], &[1.0, 2.0, 3.0]);
    let address = weight.raw_data.as_ref().unwrap().as_ptr();
    let mut builder = GraphBuilder::new("scale");
    builder.set_opset("", 18).unwrap();
    builder.make_input("x", float()).unwrap();
    builder.make_initializer(weight).unwrap();
    let product = NewNode::new("Mul").inputs(["x", "w"]).output("m");
    builder.make_node(product).unwrap();
    builder
        .make_node(NewNode::new("Neg").inputs(["m"]).output("y"))
        .unwrap();
    builder.make_output("y", float()).unwrap();
    builder.graph_mut().value_info.push(value("m", float()));
    let function = builder.to_function("mine", "Scale").unwrap();
    assert_eq!((function.domain(), function.name()), ("mine", "Scale"));
    assert_eq!(
        (function.input.join(" "), function.output.join(" ")),
        ("x".into(), "y".into())
    );
    let operators: Vec<&str> = function.node.iter().map(|node| node.op_type()).collect();
    assert_eq!(operators, ["Constant", "Mul", "Neg"]);
    let constant = function.node[0].attribute[0].t.as_deref().unwrap();
    assert_eq!(constant.raw_data.as_ref().unwrap().as_ptr(), address);
    assert_eq!(names(&function.value_info), "x y m");
    // It can be called.
    let mut caller = of("a", vec![], "a");
    caller.make_function(function).unwrap();
    caller
        .make_node(
            NewNode::new("Scale")
                .domain("mine")
                .inputs(["a"])
                .output("b"),
        )
        .unwrap();
    caller.make_output("b", float()).unwrap();
    caller.to_model().unwrap();
    // A default would be lost.
    builder
        .make_initializer(floats("x", &[1, 3], &[0.0; 3]))
        .unwrap();
    let refused = builder
        .to_function("mine", "Scale")
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("default of input `x` would be lost"),
        "{refused}"
    );
}

#[test]
fn exports_are_verified() {
    let mut builder = imported(accumulate());
    builder.make_persistent_binding(binding("past", "present"));
    let refused = builder.to_model().unwrap_err().to_string();
    assert!(
        refused.contains("input `past` is already in binding 0"),
        "{refused}"
    );
    let mut builder = imported(accumulate());
    builder
        .make_node(NewNode::new("Shape").inputs(["past"]))
        .unwrap();
    let refused = builder.to_model().unwrap_err().to_string();
    assert!(
        refused.contains("bound input `past` must be used exactly once, got 2 uses"),
        "{refused}"
    );
    let mut builder = imported(accumulate());
    builder
        .rename_values([("past", "state.in"), ("present", "state.out")])
        .unwrap();
    let model = builder.to_model().unwrap();
    assert_eq!(
        (&*model.bindings()[0].input, &*model.bindings()[0].output),
        ("state.in", "state.out")
    );
}

#[test]
fn a_loaded_model_goes_through_unchanged() {
    let mut proto = accumulate();
    proto.struct_types.push(pair());
    proto.producer_name = Some("somebody".to_string());
    let graph = proto.graph.as_mut().unwrap();
    graph.paged_cache_initializer.push(cache("pages"));
    let builder = imported(proto.clone());
    assert_eq!(builder.to_onnx().unwrap(), proto);
    assert_eq!(
        imported(builder.to_onnx().unwrap()).to_onnx().unwrap(),
        proto
    );
}
