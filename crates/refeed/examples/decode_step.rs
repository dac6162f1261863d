//! One step of a decoder whose cache is kept: the Rust example of the README, to the letter.

#![allow(clippy::print_stdout)] // a program that shows results

use refeed::{
    BindRequest, LoadOptions, Model, PersistentValueState, RuntimeContext, RuntimeSessionOptions,
    Tensor, bind,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Model::load("decoder.onnx", &LoadOptions::default())?;
    let (model, report) = bind(&model, &BindRequest::pairs([("past", "present")]))?;
    println!("{report}");
    let initial = [("past", Tensor::from_slice::<f32>(&[1, 4, 0, 8], &[])?)];
    let state = PersistentValueState::new(model, initial, RuntimeSessionOptions::default())?;
    let new = Tensor::from_slice(&[1, 4, 1, 8], &[1f32; 32])?;
    let outputs = state.run(&RuntimeContext::default(), [("new", new)])?;
    println!("{:?}\n{}", outputs["present"].shape(), state.explain()?);
    Ok(())
}
