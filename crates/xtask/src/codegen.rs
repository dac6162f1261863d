//! `proto/onnx.proto` to Rust: protox reads the schema (no `protoc`), prost-build writes the structs.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// What every task here returns.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

const HEADER: &str = "\
// Written by `cargo xtask codegen` from proto/onnx.proto. Do not edit.
";

fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Rare fields that would make every attribute, encoded value and structured type several times as large.
const BOXED: [&str; 7] = [
    ".onnx.AttributeProto.t",
    ".onnx.AttributeProto.g",
    ".onnx.AttributeProto.sparse_tensor",
    ".onnx.AttributeProto.tp",
    ".onnx.EncodedValueProto.layout.affine",
    ".onnx.StructTypeProto.decoder",
    ".onnx.StructTypeProto.encoder",
];

/// Path of the checked-in file.
pub fn generated_path() -> PathBuf {
    workspace_root().join("crates/proto/src/generated/onnx.rs")
}

/// The text that the checked-in file should have.
///
/// # Errors
/// When the schema does not compile.
pub fn generate() -> Outcome<String> {
    let folder = workspace_root().join("proto");
    let descriptors = protox::compile(["onnx.proto"], [folder])?;
    let mut config = prost_build::Config::new();
    config.bytes(["."]);
    for field in BOXED {
        config.boxed(field);
    }
    let modules = descriptors
        .file
        .into_iter()
        .map(|file| {
            (
                prost_build::Module::from_protobuf_package_name(file.package()),
                file,
            )
        })
        .collect();
    let mut written = config.generate(modules)?.into_values();
    match (written.next(), written.next()) {
        (Some(text), None) => Ok(format!("{HEADER}{text}")),
        _ => Err("proto/onnx.proto: expected exactly one package".into()),
    }
}

/// Writes the generated file.
///
/// # Errors
/// When the schema does not compile or the file cannot be written.
pub fn write() -> Outcome<()> {
    let path = generated_path();
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, generate()?)?;
    Ok(())
}

/// Compares the checked-in file with what [`write`] would write.
///
/// # Errors
/// When they differ, naming the first line that does.
pub fn check() -> Outcome<()> {
    let path = generated_path();
    compare(&fs::read_to_string(&path)?, &generate()?)
}

fn compare(committed: &str, fresh: &str) -> Outcome<()> {
    if committed == fresh {
        return Ok(());
    }
    let line = committed
        .lines()
        .zip(fresh.lines())
        .take_while(|(a, b)| a == b)
        .count()
        + 1;
    Err(format!(
        "crates/proto/src/generated/onnx.rs is stale from line {line} on: run `cargo xtask codegen`"
    )
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checked_in_file_is_fresh() {
        check().unwrap();
    }

    #[test]
    fn generation_is_repeatable() {
        assert_eq!(generate().unwrap(), generate().unwrap());
    }

    #[test]
    fn a_stale_file_is_reported_with_its_line() {
        let error = compare("a\nb\nc\n", "a\nb\nd\n").unwrap_err().to_string();
        assert!(error.contains("line 3"), "{error}");
        assert!(compare("a\n", "a\nb\n").is_err());
    }
}
