//! Declared caches through the operators, inline and by reference.

use crate::shape_inference::{InferenceOptions, ShapeInferenceError, infer_shapes};
use crate::testing::{
    FLOAT, INT64, With, call, int, model, of_value, opset, sequence, tensor_type, value,
};
use refeed_proto::struct_type_proto::structure::{Field, field::Content};
use refeed_proto::struct_type_proto::{Kind, Structure};
use refeed_proto::type_proto::Value;
use refeed_proto::{GraphProto, ModelProto, NodeProto, StructTypeProto, TypeProto};

const FLOAT16: i32 = 10;

fn structure(fields: &[(&str, TypeProto)]) -> StructTypeProto {
    let field = |(name, ty): &(&str, TypeProto)| Field {
        name: Some(name.to_string()),
        content: Some(Content::Type(ty.clone())),
        ..Field::default()
    };
    StructTypeProto {
        kind: Some(Kind::Structure(Structure {
            field: fields.iter().map(field).collect(),
        })),
        ..StructTypeProto::default()
    }
}

fn of_struct(declared: StructTypeProto) -> TypeProto {
    of_value(Value::StructType(Box::new(declared)))
}

fn page(key: &str, value: &str) -> StructTypeProto {
    structure(&[
        ("start", tensor_type(INT64, "")),
        ("length", tensor_type(INT64, "")),
        ("key", tensor_type(FLOAT, key)),
        ("value", tensor_type(FLOAT, value)),
    ])
}

fn cache(page: TypeProto) -> StructTypeProto {
    structure(&[("blocks", sequence(page))])
}

fn attention() -> NodeProto {
    call("ai.rt", "PagedAttention", "Q K V past", "Y present")
}

/// Q of 6 heads, K and V of 2, head sizes 5 and 7.
fn decoder(past: TypeProto, node: NodeProto) -> ModelProto {
    let graph = GraphProto {
        name: Some("paged".to_string()),
        node: vec![node],
        input: vec![
            value("Q", tensor_type(FLOAT, "batch 6 new 5")),
            value("K", tensor_type(FLOAT, "batch 2 new 5")),
            value("V", tensor_type(FLOAT, "? 2 ? 7")),
            value("past", past),
        ],
        output: vec![
            value("Y", TypeProto::default()),
            value("present", TypeProto::default()),
        ],
        ..GraphProto::default()
    };
    let mut model = model(graph);
    model.opset_import.push(opset("ai.rt", 1));
    model
}

fn outputs(model: &ModelProto) -> Result<Vec<TypeProto>, String> {
    let options = InferenceOptions {
        strict_mode: true,
        ..InferenceOptions::default()
    };
    match infer_shapes(model, &options) {
        Ok(inferred) => {
            let graph = inferred.model.graph.unwrap();
            let types = graph
                .output
                .into_iter()
                .map(|output| output.r#type.unwrap());
            Ok(types.collect())
        }
        Err(ShapeInferenceError::Problems(problems)) => Err(problems[0].to_string()),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn the_declaration_of_a_cache_is_kept() {
    let kindless = of_struct(StructTypeProto::default());
    let inline = of_struct(cache(of_struct(page("batch 2 ? 5", "batch 2 ? 7"))));
    let open = of_struct(cache(of_struct(StructTypeProto::default())));
    for past in [kindless, inline, open] {
        let got = outputs(&decoder(past.clone(), attention())).unwrap();
        assert_eq!(got[0], tensor_type(FLOAT, "batch 6 new 7"));
        assert_eq!(got[1], past);
    }
}

#[test]
fn a_cache_by_reference_is_followed_and_kept() {
    let refer = |id| {
        of_struct(StructTypeProto {
            kind: Some(Kind::TypeRef(id)),
            ..StructTypeProto::default()
        })
    };
    let entry = |id, declared| StructTypeProto {
        type_id: Some(id),
        ..declared
    };
    let mut model = decoder(refer(8), attention());
    model.struct_types = vec![
        entry(8, cache(refer(9))),
        entry(9, page("4 2 16 5", "4 2 16 7")),
    ];
    let got = outputs(&model).unwrap();
    // The pages know the batch.
    assert_eq!(got[0], tensor_type(FLOAT, "4 6 new 7"));
    assert_eq!(got[1], refer(8));
    model.struct_types[1] = entry(9, page("4 2 16 5", "4 2 16 8"));
    let error = outputs(&model).unwrap_err();
    assert!(
        error.contains("the head size of V is 7 here and 8 there"),
        "{error}"
    );
}

#[test]
fn what_is_no_cache_is_refused() {
    let good = || of_struct(StructTypeProto::default());
    let with = |name: &str, n: i64| attention().with(int(name, n));
    let past = |declared: StructTypeProto| decoder(of_struct(declared), attention());
    let mut half = decoder(good(), attention());
    half.graph.as_mut().unwrap().input[1] = value("K", tensor_type(FLOAT16, "batch 2 new 5"));
    let mut heads = decoder(good(), attention());
    for index in [1, 2] {
        let graph = heads.graph.as_mut().unwrap();
        graph.input[index] = value(["K", "V"][index - 1], tensor_type(FLOAT, "batch 4 new 5"));
    }
    let mut empty = decoder(good(), attention());
    empty.graph.as_mut().unwrap().input[0] = value("Q", tensor_type(FLOAT, "batch 0 new 5"));
    let mut unset = decoder(good(), attention());
    unset.graph.as_mut().unwrap().input[3].r#type = None;
    let pages = |key: &str, value: &str| past(cache(of_struct(page(key, value))));
    for (model, text) in [
        (half, "expected elements of FLOAT, got FLOAT16"),
        (heads, "4 key and value heads divide, got 6"),
        (
            empty,
            "axis 1 of input 0: expected an extent of 1 or more, got 0",
        ),
        (unset, "input 3: expected a struct, got no type"),
        (
            decoder(tensor_type(FLOAT, "2"), attention()),
            "input 3: expected a struct, got FLOAT[2]",
        ),
        (
            decoder(good(), with("block_size", 0)),
            "a number above 0, got 0",
        ),
        (
            decoder(good(), with("left_window_size", -2)),
            "-1 or more, got -2",
        ),
        (decoder(good(), with("is_causal", 2)), "0 or 1, got 2"),
        (past(page("", "")), "expected the field `blocks` alone"),
        (
            past(structure(&[("blocks", tensor_type(FLOAT, "2"))])),
            "field `blocks`: expected a sequence of structs, got FLOAT[2]",
        ),
        (
            past(cache(of_struct(cache(tensor_type(FLOAT, "2"))))),
            "expected the fields start, length, key, value",
        ),
        (
            pages("batch 2 ?", "batch 2 ? 7"),
            "field `key`: expected FLOAT of 4 axes",
        ),
        (
            past(cache(of_struct(structure(&[
                ("start", tensor_type(INT64, "")),
                ("length", tensor_type(INT64, "")),
                ("key", tensor_type(FLOAT16, "batch 2 ? 5")),
                ("value", tensor_type(FLOAT, "batch 2 ? 7")),
            ])))),
            "field `key`: expected FLOAT of 4 axes, got FLOAT16",
        ),
        (
            pages("batch 3 ? 5", "batch 2 ? 7"),
            "heads is 2 here and 3 there",
        ),
    ] {
        let error = outputs(&model).unwrap_err();
        assert!(error.contains(text), "expected `{text}` in: {error}");
    }
}

#[test]
fn a_quantized_cache_has_the_type_of_the_cache() {
    let past = of_struct(cache(of_struct(page("1 2 16 5", "1 2 16 7"))));
    let inputs = "past picked ks kz vs vz";
    let node = call("ai.rt", "QuantizePagedCache", inputs, "quantized");
    let mut model = decoder(past.clone(), node);
    let graph = model.graph.as_mut().unwrap();
    graph.input = vec![
        value("past", past.clone()),
        value("picked", tensor_type(INT64, "count")),
        value("ks", tensor_type(FLOAT, "")),
        value("kz", tensor_type(FLOAT16, "")),
        value("vs", tensor_type(FLOAT, "")),
        value("vz", tensor_type(3, "")),
    ];
    graph.output = vec![value("quantized", TypeProto::default())];
    assert_eq!(outputs(&model).unwrap(), [past]);
    for (index, ty, text) in [
        (
            1,
            tensor_type(INT64, "2 3"),
            "input 1: expected 1 axes, got 2",
        ),
        (
            2,
            tensor_type(FLOAT16, ""),
            "input 2: expected elements of FLOAT, got FLOAT16",
        ),
        (
            3,
            tensor_type(INT64, ""),
            "input 3: expected elements of INT8 or",
        ),
        (5, tensor_type(3, "1"), "input 5: expected 0 axes, got 1"),
    ] {
        let mut broken = model.clone();
        broken.graph.as_mut().unwrap().input[index].r#type = Some(ty);
        let error = outputs(&broken).unwrap_err();
        assert!(error.contains(text), "expected `{text}` in: {error}");
    }
}
