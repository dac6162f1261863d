//! Exported models and damaged ones.

use super::*;

/// The models that the repository keeps for its end-to-end tests.
fn models() -> Vec<(String, Bytes)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/models");
    if !folder.exists() {
        return Vec::new(); // a packaged crate comes without them
    }
    let paths = std::fs::read_dir(&folder)
        .unwrap()
        .map(|case| case.unwrap().path().join("model.onnx"));
    let models: Vec<_> = paths
        .filter(|path| path.exists())
        .map(|path| {
            (
                path.display().to_string(),
                Bytes::from(std::fs::read(&path).unwrap()),
            )
        })
        .collect();
    assert!(
        !models.is_empty(),
        "no model.onnx below {}",
        folder.display()
    );
    models
}

#[test]
fn exported_models_are_read_and_written_as_prost_does() {
    for (path, wire) in models() {
        let model =
            decode(&MODEL_PROTO, wire.clone()).unwrap_or_else(|error| panic!("{path}: {error}"));
        let expected = structs::ModelProto::decode(wire).unwrap().encode_to_vec();
        assert!(
            same_apart_from_order(&MODEL_PROTO, &model.encode().unwrap(), &expected),
            "{path}"
        );
    }
}

#[test]
fn damaged_models_are_models_or_errors() {
    let mut random = Random(7);
    for (path, wire) in models() {
        for _ in 0..30 {
            let mut damaged = wire.to_vec();
            for _ in 0..1 + random.below(8) {
                let at = random.below(damaged.len() as u64) as usize;
                match random.below(4) {
                    0 => damaged[at] = random.bits() as u8,
                    1 => damaged[at] ^= 1 << random.below(8),
                    2 => damaged.truncate(at.max(damaged.len() / 2)),
                    _ => drop(damaged.drain(at..(at + 5).min(damaged.len()))),
                }
            }
            let checked = check_hostile(&MODEL_PROTO, &damaged);
            checked.unwrap_or_else(|error| panic!("{path}: {error}"));
        }
    }
}
