use crate::testing::*;
use crate::{LoadOptions, Model, ModelError};
use refeed_proto::tensor_proto::DataLocation;
use refeed_proto::{StringStringEntryProto, TensorProto};
use std::fs;
use std::path::Path;

fn external(name: &str, dims: &[i64], offset: u64) -> TensorProto {
    let entry = |key: &str, value: String| StringStringEntryProto {
        key: Some(key.to_string()),
        value: Some(value),
    };
    TensorProto {
        name: Some(name.to_string()),
        data_type: Some(FLOAT),
        dims: dims.to_vec(),
        data_location: Some(DataLocation::External as i32),
        external_data: vec![
            entry("location", "weights.bin".to_string()),
            entry("offset", offset.to_string()),
        ],
        ..TensorProto::default()
    }
}

/// A model with one inline tensor and three external ones, two of which share bytes, and one in a nested graph.
fn with_external(folder: &Path) -> Model {
    let values: Vec<u8> = (0..40_000u32)
        .flat_map(|i| (i as f32).to_le_bytes())
        .collect();
    fs::write(folder.join("weights.bin"), values).unwrap();
    let constant = refeed_proto::AttributeProto {
        t: Some(Box::new(external("inner", &[5], 12))),
        ..attribute(
            "value",
            refeed_proto::attribute_proto::AttributeType::Tensor,
        )
    };
    let inner = graph("", vec![node("Constant", "", "u").with(constant)], "u");
    let mut outer = graph(
        "x cond",
        vec![branches(inner, graph("", vec![], "x"), "y")],
        "y",
    );
    outer.initializer = vec![
        floats("inline", &[2], &[9.0, 8.0]),
        external("large", &[20, 1000], 4),
        external("small", &[3], 80_000),
        external("same", &[3], 80_000),
    ];
    Model::from_proto(
        model(outer),
        &LoadOptions::default().with_external_base(folder),
    )
    .unwrap()
}

fn weights(model: &Model) -> Vec<(String, Vec<f32>)> {
    let inner = model.graph().node[0].attribute[0].g.as_ref().unwrap().node[0].attribute[0]
        .t
        .as_deref();
    let tensors = model.graph().initializer.iter().chain(inner);
    tensors
        .map(|t| {
            (
                t.name().to_string(),
                model
                    .initializer(t)
                    .unwrap()
                    .view::<f32>()
                    .unwrap()
                    .to_vec(),
            )
        })
        .collect()
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn external_tensors_are_copied_into_one_file_beside_the_model() {
    let source = tempfile::tempdir().unwrap();
    let target = tempfile::tempdir().unwrap();
    let model = with_external(source.path());
    let path = target.path().join("saved.onnx");
    model.save(&path).unwrap();
    assert_eq!(files(target.path()), ["saved.onnx", "saved.onnx.data"]);
    let size = fs::metadata(target.path().join("saved.onnx.data"))
        .unwrap()
        .len();
    assert!(
        size < 80_000 + 4 * 64,
        "shared bytes are written once: {size}"
    );
    fs::remove_file(source.path().join("weights.bin")).unwrap();
    let again = Model::load(&path, &LoadOptions::default()).unwrap();
    assert_eq!(weights(&again), weights(&model));
    assert_eq!(weights(&again)[1].1[..2], [1.0, 2.0]);
    let fresh = Model::load(&path, &LoadOptions::default()).unwrap();
    for tensor in fresh
        .graph()
        .initializer
        .iter()
        .filter(|tensor| tensor.is_external())
    {
        fresh.initializer(tensor).unwrap();
    }
    assert_eq!(
        fresh.moved_payloads(),
        0,
        "tensors are aligned in the data file"
    );
    // Over its own files, while they are mapped.
    again.save(&path).unwrap();
    assert_eq!(
        weights(&Model::load(&path, &LoadOptions::default()).unwrap()),
        weights(&model)
    );
    assert_eq!(files(target.path()), ["saved.onnx", "saved.onnx.data"]);
}

#[test]
fn bytes_cannot_carry_other_files() {
    let folder = tempfile::tempdir().unwrap();
    let error = with_external(folder.path()).to_bytes().unwrap_err();
    assert!(
        matches!(&error, ModelError::HasExternalData { tensor } if tensor == "large"),
        "{error}"
    );
}

#[test]
fn an_inline_model_is_one_file_and_its_own_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model::from_proto(accumulate(), &LoadOptions::default()).unwrap();
    let path = folder.path().join("m.onnx");
    model.save(&path).unwrap();
    assert_eq!(files(folder.path()), ["m.onnx"]);
    assert_eq!(fs::read(&path).unwrap(), model.to_bytes().unwrap());
    assert_eq!(
        *Model::load(&path, &LoadOptions::default()).unwrap().proto(),
        accumulate()
    );
}

#[test]
fn a_save_that_fails_leaves_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model::from_proto(accumulate(), &LoadOptions::default()).unwrap();
    let missing = folder.path().join("missing").join("m.onnx");
    assert!(matches!(
        model.save(&missing),
        Err(ModelError::Write { .. })
    ));
    // A folder of the model's name cannot be replaced by a file.
    fs::create_dir(folder.path().join("taken.onnx")).unwrap();
    fs::write(folder.path().join("taken.onnx").join("kept"), "x").unwrap();
    assert!(matches!(
        model.save(folder.path().join("taken.onnx")),
        Err(ModelError::Write { .. })
    ));
    assert_eq!(files(folder.path()), ["taken.onnx"]);
    assert!(folder.path().join("taken.onnx").join("kept").exists());
}

#[test]
fn external_data_that_vanishes_is_an_error_and_leaves_no_file() {
    let source = tempfile::tempdir().unwrap();
    let target = tempfile::tempdir().unwrap();
    let model = with_external(source.path());
    let mut proto = model.proto().clone();
    proto.graph.as_mut().unwrap().initializer[1].dims = vec![20_000_000];
    assert!(
        model.with_proto(proto).is_err(),
        "a tensor past the end of its file is no model"
    );
    assert!(model.save(target.path().join("")).is_err());
    assert_eq!(files(target.path()), [] as [String; 0]);
}

#[test]
fn what_is_no_file_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let model = with_external(folder.path());
    let taken = folder.path().join("taken.onnx");
    fs::create_dir(&taken).unwrap();
    let error = model.save(&taken).unwrap_err().to_string();
    assert!(error.contains("taken.onnx"), "{error}");
    assert!(taken.is_dir());
}
