//! The exported models under `tests/data/models`: every one compiles, whatever its exporter.

use refeed_graph::{LoadOptions, Model};
use refeed_runtime::{RuntimeSession, RuntimeSessionOptions, survey};
use std::path::PathBuf;

/// Folder of each case.
pub(crate) fn folders() -> Vec<PathBuf> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/data/models");
    let mut folders: Vec<PathBuf> = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders
}

#[test]
fn every_exported_model_compiles() {
    let folders = folders();
    assert_eq!(folders.len(), 23);
    let mut faults = Vec::new();
    for folder in folders {
        let model = Model::load(folder.join("model.onnx"), &LoadOptions::default()).unwrap();
        for used in survey(&model).unwrap() {
            for problem in &used.problems {
                faults.push(format!("{}: {}: {problem}", folder.display(), used.op_type));
            }
        }
        if let Err(error) = RuntimeSession::new(model, RuntimeSessionOptions::default()) {
            faults.push(format!("{}: {error}", folder.display()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
