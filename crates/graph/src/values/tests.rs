//! Messages become values and values messages, one test a rule.

mod encoded;
mod hostile;
mod initializers;
mod paged_cache;
mod struct_types;

use super::*;
use crate::testing::*;
use crate::{LoadOptions, Model};
use refeed_proto::encoded_value_proto::Layout;
use refeed_proto::struct_type_proto::{Array, Kind};
use refeed_proto::{
    AffineLayoutProto, Bytes, EncodedValueProto, ModelProto, StructTypeProto, TensorProto,
    TypeProto,
};
use refeed_values::DType;

fn raw(bytes: &[u8]) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(bytes))
}

fn load(model: ModelProto) -> Model {
    Model::from_proto(model, &LoadOptions::default()).unwrap()
}

/// A catalogue of struct types.
fn types(entries: Vec<StructTypeProto>) -> Catalogues {
    let graph = graph("x", vec![node("Neg", "x", "y")], "y");
    let model = ModelProto {
        struct_types: entries,
        ..model(graph)
    };
    load(model).catalogues().unwrap().clone()
}

fn array_of(element: TypeProto, dimension: u64) -> StructTypeProto {
    of_kind(Kind::Array(Box::new(Array {
        element_type: Some(Box::new(element)),
        dimension: Some(dimension),
    })))
}

fn affine(storage: DType, dims: &str, payload: &[u8]) -> EncodedValueProto {
    EncodedValueProto {
        name: Some("coded".to_string()),
        doc_string: Some("kept".to_string()),
        layout: Some(Layout::Affine(Box::new(AffineLayoutProto {
            storage_type: Some(storage.to_onnx()),
            scale: Some(floats("scale of it", &[], &[0.5])),
            ..AffineLayoutProto::default()
        }))),
        logical_type: Some(tensor_type(FLOAT, dims)),
        raw_data: raw(payload),
        ..EncodedValueProto::default()
    }
}

fn layout_mut(value: &mut EncodedValueProto) -> &mut AffineLayoutProto {
    match &mut value.layout {
        Some(Layout::Affine(affine)) => affine,
        _ => panic!("an affine layout"),
    }
}

fn structured(declared: StructTypeProto, payload: &[u8]) -> EncodedValueProto {
    EncodedValueProto {
        layout: Some(Layout::StructType(declared)),
        raw_data: raw(payload),
        ..EncodedValueProto::default()
    }
}

#[track_caller]
fn refused<T>(made: Result<T, ModelError>, parts: &[&str]) {
    let text = match made {
        Ok(_) => panic!("it must be refused"),
        Err(error) => error.to_string(),
    };
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}
