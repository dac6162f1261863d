//! Initializers and shared parameters of a model.

use super::*;
use refeed_proto::{Message, PagedCacheProto, StringStringEntryProto, TensorAnnotation};
use refeed_values::encoded::Role;
use refeed_values::{Provenance, RuntimeValue};

const PREFIX: &str = "onnx_light.quantization.parameters:";

fn bytes(name: &str, wire: Vec<u8>) -> TensorProto {
    TensorProto {
        name: Some(name.to_string()),
        data_type: Some(2),
        dims: vec![wire.len() as i64],
        raw_data: Some(Bytes::from(wire)),
        ..TensorProto::default()
    }
}

fn storage(count: u64) -> StructTypeProto {
    array_of(tensor_type(2, "1"), count)
}

/// A model with the set `set`, for values that decode to FLOAT[4], and initializers of both other kinds.
fn shared() -> ModelProto {
    let mut graph = graph("x", vec![node("Neg", "x", "y")], "y");
    graph.initializer = vec![
        bytes("set/storage", storage(5).encode_to_vec()),
        bytes("set/logical", tensor_type(FLOAT, "4").encode_to_vec()),
        floats("set/scales", &[1], &[0.5]),
    ];
    let roles = [
        ("storage_type", "set/storage"),
        ("logical_type", "set/logical"),
        ("scales", "set/scales"),
    ];
    graph.quantization_annotation = vec![TensorAnnotation {
        tensor_name: Some(format!("{PREFIX}set")),
        quant_parameter_tensor_names: roles
            .map(|(role, initializer)| StringStringEntryProto {
                key: Some(role.to_string()),
                value: Some(initializer.to_string()),
            })
            .into(),
    }];
    graph.encoded_initializer = vec![referring(), affine(DType::Int8, "2", &[1, 2])];
    graph.paged_cache_initializer = vec![PagedCacheProto {
        name: Some("empty".to_string()),
        ..PagedCacheProto::default()
    }];
    model(graph)
}

fn referring() -> EncodedValueProto {
    EncodedValueProto {
        name: Some("w".to_string()),
        logical_type: Some(tensor_type(FLOAT, "4")),
        parameter_ref: Some("set".to_string()),
        ..structured(storage(3), &[0, 0x21, 0x43])
    }
}

/// Rule 4.2.9; S076.
#[test]
fn initializers_become_values_once_and_share_the_file() {
    let wire = Bytes::from(shared().encode_to_vec());
    let model = Model::from_bytes(wire.clone(), &LoadOptions::default()).unwrap();
    let found = model.encoded_initializers().unwrap();
    let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["w", "coded"]);
    let again = model.encoded_initializers().unwrap();
    assert_eq!(found.as_ptr(), again.as_ptr());
    for (_, value) in found {
        let payload = value.encoded().unwrap().payload();
        assert_eq!(payload.provenance(), Provenance::Model);
        assert!(wire.as_ptr_range().contains(&payload.as_ptr()));
    }
    let caches = model.paged_cache_initializers().unwrap();
    assert!(matches!(&caches[0], (name, RuntimeValue::Struct(_)) if &**name == "empty"));
}

/// Rules 7.5.1, 7.5.6; S247.
#[test]
fn sets_are_found_by_name_and_kept_by_their_values() {
    let model = load(shared());
    let catalogues = model.catalogues().unwrap().clone();
    let sets = catalogues.parameters();
    assert_eq!(
        (sets.len(), sets.names().collect::<Vec<_>>()),
        (1, vec!["set"])
    );
    let set = sets.get("set").unwrap();
    assert_eq!(set.logical(), (DType::Float, &[4][..]));
    let scales = set.tensor(Role::Scales).unwrap();
    assert_eq!(scales.view::<f32>().unwrap().to_vec(), [0.5]);
    assert!(set.tensor(Role::ZeroPoints).is_none());
    let value = encoded_from_proto(&referring(), &catalogues).unwrap();
    assert!(Arc::ptr_eq(value.parameters().unwrap(), set));
    drop((model, catalogues));
    // The value still has its parameters.
    assert_eq!(&**value.parameters().unwrap().name(), "set");
    assert_eq!(encoded_to_proto(&value).unwrap(), referring());
}

/// Rules 3.8.6, 7.5.5; S246.
#[test]
fn p23_references_to_parameters_need_the_model_that_has_them() {
    let catalogues = load(shared()).catalogues().unwrap().clone();
    let with = |change: fn(&mut EncodedValueProto)| {
        let mut proto = referring();
        change(&mut proto);
        encoded_from_proto(&proto, &catalogues)
    };
    refused(
        encoded_from_proto(&referring(), &Catalogues::default()),
        &["encoded_value.parameter_ref", "got `set`"],
    );
    refused(
        with(|v| v.parameter_ref = Some("sett".to_string())),
        &["the name of a set of the model's quantization parameters, got `sett`"],
    );
    refused(
        with(|v| v.logical_type = Some(tensor_type(FLOAT, "5"))),
        &["logical_type", "FLOAT[4], as `set` has, got FLOAT[5]"],
    );
    refused(
        with(|v| v.raw_data = raw(&[7, 0x21, 0x43])),
        &["reserved first byte, got 7"],
    );
    refused(
        with(|v| v.raw_data = raw(&[0, 0x21])),
        &["whole records of 3 bytes"],
    );
}

#[test]
fn a_set_is_added_to_a_copy_and_used() {
    use refeed_values::encoded::{Plan, materialize, quantize_shared};
    use refeed_values::{Allocator, Tensor};
    let plan = Plan::affine(DType::Int4, 4, 4).unwrap();
    let storage = struct_type_to_proto(&plan.storage_type().unwrap()).unwrap();
    let logical = tensor_type(FLOAT, "2 2");
    let add = |model: &ModelProto, name: &str, roles: &[(Role, TensorProto)]| {
        add_quantization_parameters(model, name, &storage, &logical, roles)
    };
    let scales = || (Role::Scales, floats("mine", &[1], &[0.25]));
    let mut proto = shared();
    let before = proto.clone();
    let added = add(&proto, "new", &[scales()]).unwrap();
    assert_eq!(proto, before);
    let names: Vec<&str> = added.initializers.iter().map(TensorProto::name).collect();
    assert_eq!(
        names,
        ["storage_type", "logical_type", "scales"].map(|role| format!("{PREFIX}new/{role}"))
    );
    let graph = proto.graph.as_mut().unwrap();
    graph.initializer.extend(added.initializers);
    graph.quantization_annotation.push(added.annotation);
    let model = load(proto.clone());
    let catalogues = model.catalogues().unwrap();
    let set = catalogues.parameters().at("new").unwrap();
    assert_eq!(
        make_shared_quantization_type(set).unwrap(),
        added.local_type
    );

    let tensor = Tensor::from_slice(&[2, 2], &[-0.3f32, 0.4, 5.0, -9.0]).unwrap();
    let value = quantize_shared(&tensor, set).unwrap();
    // The reserved byte and four codes: the scale is shared.
    assert_eq!(value.payload().as_bytes().unwrap(), [0, 0x2F, 0x87]);
    let written = encoded_to_proto(&value).unwrap();
    assert_eq!(written.parameter_ref(), "new");
    let again = encoded_from_proto(&written, catalogues).unwrap();
    catalogues.parameters().validate(&again).unwrap();
    let expected = [-0.25, 0.5, 1.75, -2.0];
    for value in [&again, &materialize(&value).unwrap()] {
        let dense = value.decode(&Allocator::default()).unwrap();
        assert_eq!((dense.dtype(), dense.shape()), (DType::Float, &[2, 2][..]));
        assert_eq!(dense.view::<f32>().unwrap().to_vec(), expected);
    }
    let whole = materialize(&value).unwrap();
    assert!(whole.parameters().is_none());
    let alone = encoded_to_proto(&whole).unwrap();
    let alone = encoded_from_proto(&alone, &Catalogues::default()).unwrap();
    let dense = alone.decode(&Allocator::default()).unwrap();
    assert_eq!(dense.view::<f32>().unwrap().to_vec(), expected);

    refused(
        add(&proto, "new", &[scales()]),
        &["initializer", "new/storage_type"],
    );
    refused(
        add(&proto, "", &[scales()]),
        &["the name of a parameter set"],
    );
    refused(
        add(&proto, "set", &[scales()]),
        &["`set` for the second time"],
    );
    refused(
        add(&proto, "other", &[]),
        &["[\"scales\"]: expected an initializer, got none"],
    );
    refused(
        add(
            &proto,
            "other",
            &[(Role::Scales, floats("", &[2], &[1.0; 2]))],
        ),
        &["scales: expected 1 numbers, got FLOAT[2]"],
    );
    refused(
        add(
            &proto,
            "other",
            &[(Role::Scales, floats("", &[1], &[-1.0]))],
        ),
        &["scales: expected positive finite numbers, got -1"],
    );
}

#[test]
fn values_of_a_set_are_one_local_record_of_it() {
    use refeed_values::Tensor;
    use refeed_values::encoded::{Plan, quantize_shared};
    let plan = Plan::affine(DType::Int4, 4, 4).unwrap();
    let storage = struct_type_to_proto(&plan.storage_type().unwrap()).unwrap();
    let mut proto = shared();
    let scales = [(Role::Scales, floats("", &[1], &[0.25]))];
    let logical = tensor_type(FLOAT, "4");
    let added = add_quantization_parameters(&proto, "new", &storage, &logical, &scales).unwrap();
    let graph = proto.graph.as_mut().unwrap();
    graph.initializer.extend(added.initializers);
    graph.quantization_annotation.push(added.annotation);
    let catalogues = load(proto).catalogues().unwrap().clone();
    let set = catalogues.parameters().at("new").unwrap();
    let tensor = Tensor::from_slice(&[4], &[0f32, 0.25, 0.5, 0.75]).unwrap();
    let good = encoded_to_proto(&quantize_shared(&tensor, set).unwrap()).unwrap();
    let with = |change: &dyn Fn(&mut EncodedValueProto)| {
        let mut proto = good.clone();
        change(&mut proto);
        encoded_from_proto(&proto, &catalogues)
    };
    with(&|_| {}).unwrap();
    refused(
        with(&|v| v.layout = Some(Layout::StructType(storage_of_three()))),
        &["the local type of `new`"],
    );
    refused(
        with(&|v| v.raw_data = raw(&[0; 6])),
        &["one record of 3 bytes, got 6 bytes"],
    );
    refused(
        with(&|v| v.raw_data = raw(&[1, 0, 0])),
        &["reserved first byte, got 1"],
    );
}

fn storage_of_three() -> StructTypeProto {
    storage(3)
}

/// Rule 7.5.7.
#[test]
fn a_materialised_value_refers_to_no_catalogue() {
    use refeed_values::encoded::{Plan, materialize, quantize_shared};
    use refeed_values::{Allocator, Tensor};
    let plan = Plan::affine(DType::Uint4, 3, 2).unwrap();
    let mut proto = shared();
    proto.struct_types = vec![StructTypeProto {
        type_id: Some(9),
        ..struct_type_to_proto(&plan.storage_type().unwrap()).unwrap()
    }];
    let reference = of_kind(Kind::TypeRef(9));
    let scales = [(Role::Scales, floats("", &[2], &[0.25, 1.0]))];
    let logical = tensor_type(FLOAT, "3");
    let added = add_quantization_parameters(&proto, "new", &reference, &logical, &scales).unwrap();
    let graph = proto.graph.as_mut().unwrap();
    graph.initializer.extend(added.initializers);
    graph.quantization_annotation.push(added.annotation);
    let catalogues = load(proto).catalogues().unwrap().clone();
    let set = catalogues.parameters().at("new").unwrap();
    assert!(set.storage_type().is_catalogued());
    let tensor = Tensor::from_slice(&[3], &[0.5f32, 0.75, 4.0]).unwrap();
    let whole = materialize(&quantize_shared(&tensor, set).unwrap()).unwrap();
    let message = encoded_to_proto(&whole).unwrap();
    let alone = encoded_from_proto(&message, &Catalogues::default()).unwrap();
    let dense = alone.decode(&Allocator::default()).unwrap();
    assert_eq!(dense.view::<f32>().unwrap().to_vec(), [0.5, 0.75, 4.0]);
}

/// Rule 7.5.8; S249: every reader of a model finds the one that was built first.
#[test]
fn a_model_builds_its_catalogues_once() {
    let model = Model::from_proto(shared(), &LoadOptions::default()).unwrap();
    let first = model.catalogues().unwrap();
    let other = model.clone();
    let again = std::thread::scope(|scope| {
        let read = scope.spawn(|| std::ptr::from_ref(other.catalogues().unwrap()).addr());
        read.join().unwrap()
    });
    assert_eq!(again, std::ptr::from_ref(first).addr());
    let sets = |catalogues: &Catalogues| Arc::as_ptr(&catalogues.parameters);
    assert_eq!(sets(&first.clone()), sets(first));
}
