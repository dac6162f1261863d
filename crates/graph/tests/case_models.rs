//! The exported models of the test data: they load, and bind with the pairs of their manifest.

#![allow(clippy::unwrap_used, reason = "tests")]

use refeed_graph::bind::MatchedBy;
use refeed_graph::{
    BindError, BindRequest, BindingError, BindingUses, LoadOptions, Model, ModelError, Publish,
    bind,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The models, and how often each bound input of them is used, sorted: counted by another program, from the exports.
const CASES: [(&str, &[usize]); 16] = [
    ("dynamo18_llama", &[2, 2, 2, 3]),
    ("dynamo20_phi3", &[2, 2, 2, 3]),
    ("dynamo23_llama", &[2, 2, 2, 3]),
    ("genai_llama_fp32", &[1, 1, 1, 1]),
    ("mobius_llama", &[1, 1, 1, 1]),
    ("mobius_llama_static", &[1, 1, 1, 1]),
    ("optimum_gpt2", &[1, 1, 1, 2]),
    ("optimum_llama", &[1, 1, 1, 2]),
    ("optimum_t5_merged", &[1, 1, 1, 1, 1, 1, 2, 2]),
    ("optimum_t5_withpast", &[1, 1, 1, 2]),
    ("real_silero_16k_op15", &[3]),
    ("ts13_streamenc", &[2, 2, 2, 2]),
    ("ts15_rnnt", &[1, 1]),
    ("ts16_convgru", &[1, 1, 1]),
    ("ts17_lstmlm", &[2, 2]),
    ("ts17_mamba", &[2, 2]),
];

/// Models in which every bound input is used exactly once.
const SINGLE_USE: [&str; 5] = [
    "genai_llama_fp32",
    "mobius_llama",
    "mobius_llama_static",
    "ts15_rnnt",
    "ts16_convgru",
];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/models")
}

fn load(name: &str) -> Model {
    Model::load(
        folder().join(name).join("model.onnx"),
        &LoadOptions::default(),
    )
    .unwrap_or_else(|error| panic!("{name}: {error}"))
}

struct Case {
    name: &'static str,
    pairs: Vec<(String, String)>,
    uses: &'static [usize],
}

fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(folder().join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&text).unwrap();
    let mut cases = BTreeMap::new();
    for case in manifest["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap().to_string();
        let pairs = case["pairs"].as_array().unwrap().iter();
        let pairs: Vec<(String, String)> = pairs
            .map(|pair| {
                (
                    pair[0].as_str().unwrap().into(),
                    pair[1].as_str().unwrap().into(),
                )
            })
            .collect();
        cases.insert(name, pairs);
    }
    let case = |&(name, uses): &(&'static str, &'static [usize])| {
        let pairs = cases
            .remove(name)
            .unwrap_or_else(|| panic!("{name} is not in the manifest"));
        Case { name, pairs, uses }
    };
    CASES.iter().map(case).collect()
}

#[test]
fn every_case_loads_without_bindings() {
    for (name, _) in CASES {
        let model = load(name);
        assert!(model.bindings().is_empty(), "{name}");
        assert_eq!(model.warnings(), [] as [String; 0], "{name}");
        assert_eq!(model.moved_payloads(), 0, "{name}");
        assert!(model.opset("").unwrap() >= 13, "{name}");
        assert_eq!(model.opset("ai.onnx"), model.opset(""), "{name}");
    }
}

#[test]
fn every_case_binds_with_its_pairs_and_counts_the_uses_as_measured() {
    for case in cases() {
        let model = load(case.name);
        let request = BindRequest::pairs(case.pairs.clone()).with_uses(BindingUses::Any);
        let (bound, report) =
            bind(&model, &request).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let pairs: Vec<(String, String)> = bound
            .bindings()
            .iter()
            .map(|b| (b.input.to_string(), b.output.to_string()))
            .collect();
        assert_eq!(pairs, case.pairs, "{}", case.name);
        for binding in bound.bindings() {
            assert_eq!(bound.inputs()[binding.input_index].name, binding.input);
            assert_eq!(bound.outputs()[binding.output_index].name, binding.output);
        }
        let mut uses: Vec<usize> = report.pairs.iter().map(|pair| pair.uses.count).collect();
        uses.sort_unstable();
        assert_eq!(uses, case.uses, "{}\n{report}", case.name);
        assert_eq!(bound.binding_uses(), BindingUses::Any);
        assert!(
            model.bindings().is_empty(),
            "the model that was bound is unchanged"
        );
    }
}

#[test]
fn the_single_use_rule_judges_the_cases_as_measured() {
    for case in cases() {
        let single = case.uses.iter().all(|&count| count == 1);
        assert_eq!(single, SINGLE_USE.contains(&case.name), "{}", case.name);
        match bind(&load(case.name), &BindRequest::pairs(case.pairs)) {
            Ok(_) => assert!(single, "{}", case.name),
            Err(BindError::Model(ModelError::Binding(BindingError::Uses { count, .. }))) => {
                assert!(!single && count != 1, "{}", case.name);
            }
            Err(error) => panic!("{}: {error}", case.name),
        }
    }
}

#[test]
fn a_bound_model_survives_its_bytes_and_shares_payloads() {
    for case in cases() {
        let model = load(case.name);
        let request = BindRequest::pairs(case.pairs).with_uses(BindingUses::Any);
        let (bound, _) = bind(&model, &request).unwrap();
        for (a, b) in model
            .graph()
            .initializer
            .iter()
            .zip(&bound.graph().initializer)
        {
            let at = |tensor: &refeed_proto::TensorProto| {
                tensor.raw_data.as_ref().map(|raw| raw.as_ptr())
            };
            assert_eq!(at(a), at(b));
        }
        match bound.to_bytes() {
            Ok(bytes) => {
                let again = Model::from_bytes(bytes, &LoadOptions::default()).unwrap();
                assert_eq!(again.bindings(), bound.bindings(), "{}", case.name);
                assert_eq!(again.binding_uses(), BindingUses::Any);
            }
            Err(ModelError::HasExternalData { .. }) => {
                assert!(
                    ["genai_llama_fp32", "mobius_llama", "mobius_llama_static"]
                        .contains(&case.name)
                );
            }
            Err(error) => panic!("{}: {error}", case.name),
        }
    }
}

#[test]
fn a_saved_model_has_the_same_weights_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["mobius_llama", "genai_llama_fp32", "ts15_rnnt"] {
        let model = load(name);
        let path = folder.path().join(format!("{name}.onnx"));
        model.save(&path).unwrap();
        let again = Model::load(&path, &LoadOptions::default().with_mmap(false)).unwrap();
        let has_data = folder.path().join(format!("{name}.onnx.data")).exists();
        assert_eq!(has_data, name != "ts15_rnnt");
        assert_eq!(
            model.graph().initializer.len(),
            again.graph().initializer.len()
        );
        for (a, b) in model
            .graph()
            .initializer
            .iter()
            .zip(&again.graph().initializer)
        {
            let (a, b) = (model.initializer(a).unwrap(), again.initializer(b).unwrap());
            assert_eq!(
                (a.dtype(), a.shape(), a.as_bytes()),
                (b.dtype(), b.shape(), b.as_bytes())
            );
            assert!(b.is_aligned());
        }
    }
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 5, "no temporary file is left: {left:?}");
}

#[test]
fn the_known_schemes_find_the_pairs_of_every_case() {
    for mut case in cases() {
        let request = BindRequest::patterns(["known"]).with_uses(BindingUses::Any);
        let (bound, report) =
            bind(&load(case.name), &request).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let mut pairs: Vec<(String, String)> = bound
            .bindings()
            .iter()
            .map(|b| (b.input.to_string(), b.output.to_string()))
            .collect();
        pairs.sort();
        case.pairs.sort();
        assert_eq!(pairs, case.pairs, "{}", case.name);
        assert!(
            report
                .pairs
                .iter()
                .all(|pair| matches!(pair.by, MatchedBy::Scheme(_))),
            "{report}"
        );
        for pair in &report.pairs {
            let once = pair.input.contains(".encoder.");
            assert_eq!(
                pair.publish,
                if once { Publish::Once } else { Publish::Always },
                "{report}"
            );
        }
    }
}

#[test]
fn a_template_finds_the_pairs_and_names_what_it_leaves() {
    let request =
        BindRequest::patterns(["past_key_values.{i}.{side}.{kv} -> present.{i}.{side}.{kv}"])
            .with_uses(BindingUses::Any);
    let (bound, report) = bind(&load("optimum_t5_withpast"), &request).unwrap();
    assert!(
        bound
            .bindings()
            .iter()
            .all(|binding| binding.input.contains(".decoder."))
    );
    assert_eq!(bound.bindings().len(), 4);
    assert_eq!(
        report.warnings.len(),
        4,
        "the encoder's caches have no output: {report}"
    );

    let request = request.with_publish("past_key_values.{i}.encoder.{kv}", Publish::Once);
    let (bound, report) = bind(&load("optimum_t5_merged"), &request).unwrap();
    assert_eq!((bound.bindings().len(), report.warnings.len()), (8, 0));
    for binding in bound.bindings() {
        let once = binding.input.contains(".encoder.");
        assert_eq!(
            binding.publish,
            if once { Publish::Once } else { Publish::Always }
        );
    }
}
