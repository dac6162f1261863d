use std::path::Path;

use refeed_proto::GraphProto;

use super::super::*;

/// Every tensor of `graph` and its subgraphs.
fn read_all(graph: &GraphProto, external: &ExternalData) -> Result<usize, LoadError> {
    let mut read = 0;
    let attributes = graph.node.iter().flat_map(|node| &node.attribute);
    let constants = attributes
        .clone()
        .flat_map(|attribute| attribute.t.as_deref().into_iter().chain(&attribute.tensors));
    for tensor in graph.initializer.iter().chain(constants) {
        tensor_bytes(tensor, external)?;
        read += 1;
    }
    for inner in
        attributes.flat_map(|attribute| attribute.g.as_deref().into_iter().chain(&attribute.graphs))
    {
        read += read_all(inner, external)?;
    }
    Ok(read)
}

#[test]
fn every_tensor_of_the_exported_models_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/models");
    if !folder.exists() {
        return; // a packaged crate comes without them
    }
    let mut models = 0;
    for case in std::fs::read_dir(&folder).unwrap() {
        let path = case.unwrap().path().join("model.onnx");
        if !path.exists() {
            continue;
        }
        for mmap in [true, false] {
            let loaded = read_model_file(&path, &LoadOptions::default().with_mmap(mmap)).unwrap();
            let read = read_all(loaded.model.graph.as_ref().unwrap(), &loaded.external);
            let read = read.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(read > 0, "{}", path.display());
        }
        models += 1;
    }
    assert!(models > 0, "no model.onnx below {}", folder.display());
}
