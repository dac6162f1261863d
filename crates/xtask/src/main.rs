//! Developer tasks of refeed: `cargo xtask codegen [--check]`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use refeed_xtask::codegen;

const USAGE: &str = "usage: cargo xtask codegen [--check]

  codegen           write what is made from proto/onnx.proto: crates/proto/src/generated, python/refeed/onnx/messages.pyi
  codegen --check   fail when a checked-in file differs from what codegen would write";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["codegen"] => codegen::write(),
        ["codegen", "--check"] => codegen::check(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
