//! Exported models that the repository keeps for its end-to-end tests.

#![allow(clippy::unwrap_used)] // helpers of tests

use std::path::Path;

use refeed_proto::{Bytes, Message, ModelProto};

#[test]
fn exported_models_are_read_and_written_back() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/models");
    if !folder.exists() {
        return; // a packaged crate comes without them
    }
    let mut seen = 0;
    for case in std::fs::read_dir(&folder).unwrap() {
        let path = case.unwrap().path().join("model.onnx");
        if !path.exists() {
            continue;
        }
        let wire = Bytes::from(std::fs::read(&path).unwrap());
        let model = ModelProto::decode(wire.clone())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let graph = model.graph.as_ref().unwrap();
        assert!(
            !graph.node.is_empty() && !graph.output.is_empty(),
            "{}",
            path.display()
        );
        for tensor in &graph.initializer {
            let Some(raw) = tensor.raw_data.as_ref().filter(|raw| !raw.is_empty()) else {
                continue;
            };
            assert!(
                wire.as_ptr_range().contains(&raw.as_ptr()),
                "{}: {}",
                path.display(),
                tensor.name()
            );
        }
        let written = model.encode_to_vec();
        assert_eq!(
            ModelProto::decode(&written[..]).unwrap(),
            model,
            "{}",
            path.display()
        );
        // Nothing that the schema does not know was in the file: only the order of fields may differ.
        assert_eq!(written.len(), wire.len(), "{}", path.display());
        seen += 1;
    }
    assert!(seen > 0, "no model.onnx below {}", folder.display());
}
