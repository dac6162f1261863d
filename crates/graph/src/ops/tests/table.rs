//! The whole table against the official operators.

use crate::ops::{all, schema};
use crate::schema::Arity;
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};

/// What the official package says of an operator over all its versions.
struct Official {
    domain: String,
    op_type: String,
    since: Vec<i64>,
    inputs: Arity,
    outputs: Arity,
    /// Name, type, and whether it must be there in every version; one whose type changed stands twice.
    attributes: BTreeSet<(String, String, bool)>,
}

fn bounds<'a>(versions: &'a [Value], role: &str) -> Arity {
    let at = |version: &'a Value, place: usize| {
        version[role][place]
            .as_u64()
            .map_or(usize::MAX, |n| n as usize)
    };
    Arity {
        min: versions.iter().map(|v| at(v, 0)).min().unwrap(),
        max: versions.iter().map(|v| at(v, 1)).max().unwrap(),
    }
}

fn official() -> Vec<Official> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/data/onnx_operators.json"
    );
    let table: Vec<Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    table
        .iter()
        .map(|entry| {
            let versions = entry["versions"].as_array().unwrap();
            let required = |name: &str| {
                let held = |version: &Value| version["attributes"][name][1] == true;
                versions.iter().all(held)
            };
            let attributes = versions
                .iter()
                .flat_map(|version| version["attributes"].as_object().unwrap())
                .map(|(name, held)| {
                    let kind = held[0].as_str().unwrap().to_string();
                    (name.clone(), kind, required(name))
                })
                .collect();
            Official {
                domain: entry["domain"].as_str().unwrap().to_string(),
                op_type: entry["op_type"].as_str().unwrap().to_string(),
                since: versions
                    .iter()
                    .map(|v| v["since"].as_i64().unwrap())
                    .collect(),
                inputs: bounds(versions, "inputs"),
                outputs: bounds(versions, "outputs"),
                attributes,
            }
        })
        .collect()
}

#[test]
fn every_official_operator_has_its_schema() {
    let mut wrong = Vec::new();
    for theirs in official() {
        let name = format!("{}::{}", theirs.domain, theirs.op_type);
        let Some(ours) = schema(&theirs.domain, &theirs.op_type) else {
            wrong.push(format!("{name}: none"));
            continue;
        };
        if ours.since != theirs.since {
            wrong.push(format!("{name}: {:?}, not {:?}", theirs.since, ours.since));
        }
        if (ours.inputs, ours.outputs) != (theirs.inputs, theirs.outputs) {
            wrong.push(format!(
                "{name}: {:?} {:?}, not {:?} {:?}",
                theirs.inputs, theirs.outputs, ours.inputs, ours.outputs
            ));
        }
        let attributes: BTreeSet<_> = ours
            .attributes
            .iter()
            .map(|held| {
                let kind = held.kind.as_str_name().to_string();
                (held.name.to_string(), kind, held.required)
            })
            .collect();
        if attributes != theirs.attributes {
            wrong.push(format!(
                "{name}: {:?}, not {attributes:?}",
                theirs.attributes
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_operator_has_two_schemas() {
    let mut seen = HashSet::new();
    for schema in all() {
        assert!(
            seen.insert((schema.domain, schema.op_type)),
            "{}::{}",
            schema.domain,
            schema.op_type
        );
        assert!(schema.since.is_sorted(), "{}", schema.op_type);
        let names = schema.attributes.iter().map(|held| held.name);
        assert!(names.is_sorted(), "{}", schema.op_type);
    }
}
