//! `proto/onnx.proto` to Rust and to the types of Python's messages: protox reads the schema (no `protoc`), prost-build
//! writes the structs.

mod convert;
mod descriptors;
mod nesting;
mod stub;

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

/// One checked-in file: its name and the text that it should have.
#[derive(Debug, PartialEq, Eq)]
pub struct Generated {
    /// Path from the root of the workspace.
    pub path: &'static str,
    /// Whole content.
    pub text: String,
}

/// Everything that is checked in.
///
/// # Errors
/// When the schema does not compile.
pub fn generate() -> Outcome<Vec<Generated>> {
    let descriptors = protox::compile(["onnx.proto"], [workspace_root().join("proto")])?;
    let [schema] = &descriptors.file[..] else {
        return Err("proto/onnx.proto: expected a schema of one file".into());
    };
    let nesting = format!("{HEADER}{}", nesting::table(schema)?);
    let tables = format!("{HEADER}{}", descriptors::table(schema)?);
    let conversions = format!("{HEADER}{}", convert::conversions(schema)?);
    let types = format!("{}{}", HEADER.replace("//", "#"), stub::stub(schema)?);
    let mut config = prost_build::Config::new();
    config.bytes(["."]);
    for field in BOXED {
        config.boxed(field);
    }
    let module = prost_build::Module::from_protobuf_package_name(schema.package());
    let mut written = config
        .generate(vec![(module, schema.clone())])?
        .into_values();
    let Some(structs) = written.next() else {
        return Err("proto/onnx.proto: no structs were generated".into());
    };
    Ok(vec![
        Generated {
            path: "crates/proto/src/generated/onnx.rs",
            text: format!("{HEADER}{structs}"),
        },
        Generated {
            path: "crates/proto/src/generated/nesting.rs",
            text: nesting,
        },
        Generated {
            path: "crates/proto/src/generated/descriptors.rs",
            text: tables,
        },
        Generated {
            path: "crates/proto/src/generated/convert.rs",
            text: conversions,
        },
        Generated {
            path: "python/refeed/onnx/messages.pyi",
            text: types,
        },
    ])
}

/// Writes the generated files.
///
/// # Errors
/// When the schema does not compile or a file cannot be written.
pub fn write() -> Outcome<()> {
    for file in generate()? {
        fs::write(workspace_root().join(file.path), file.text)?;
    }
    Ok(())
}

/// Compares the checked-in files with what [`write()`] would write.
///
/// # Errors
/// When they differ, naming the first line that does.
pub fn check() -> Outcome<()> {
    for file in generate()? {
        compare(
            file.path,
            &fs::read_to_string(workspace_root().join(file.path))?,
            &file.text,
        )?;
    }
    Ok(())
}

fn compare(path: &str, committed: &str, fresh: &str) -> Outcome<()> {
    if committed == fresh {
        return Ok(());
    }
    let line = committed
        .lines()
        .zip(fresh.lines())
        .take_while(|(a, b)| a == b)
        .count()
        + 1;
    Err(format!("{path} is stale from line {line} on: run `cargo xtask codegen`").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checked_in_files_are_fresh() {
        check().unwrap();
    }

    #[test]
    fn generation_is_repeatable() {
        assert_eq!(generate().unwrap(), generate().unwrap());
    }

    #[test]
    fn a_stale_file_is_reported_with_its_line() {
        let error = compare("x.rs", "a\nb\nc\n", "a\nb\nd\n")
            .unwrap_err()
            .to_string();
        assert!(error.contains("line 3"), "{error}");
        assert!(compare("x.rs", "a\n", "a\nb\n").is_err());
    }
}
