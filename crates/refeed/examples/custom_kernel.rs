//! A kernel of the caller's own that appends to a retained value in place: the Rust example of docs/custom-kernels.md.

#![allow(clippy::print_stdout)] // a program that shows results

use refeed::kernel::{Invocation, Kernel, OpError};
use refeed::{
    BindRequest, LoadOptions, Model, PersistentValueState, RuntimeContext, RuntimeSessionOptions,
    Tensor, bind, parser,
};

/// `next` is `past` with `scale * rows` behind it, along the first axis.
struct AppendScaled {
    scale: f32,
}

impl Kernel for AppendScaled {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let (past, rows) = (call.view::<f32>(0)?, call.view::<f32>(1)?);
        let mut shape = past.shape().to_vec();
        shape[0] += rows.shape()[0];
        let scaled: Vec<u8> = rows
            .iter()
            .flat_map(|x| (self.scale * x).to_ne_bytes())
            .collect();
        if let Some(mut reservation) = call.reserve(0, 0, &shape, 0)? {
            if let Some(span) = reservation.span_mut(0) {
                span.copy_from_slice(&scaled);
            }
            call.commit_bytes(0, reservation, scaled.len())?;
            return Ok(());
        }
        // Not a retained value, or no room for it: compute the whole result.
        let mut out = call.allocate(refeed::DType::Float, &shape)?;
        let old: Vec<u8> = past.iter().flat_map(f32::to_ne_bytes).collect();
        out.as_mut_bytes()[..old.len()].copy_from_slice(&old);
        out.as_mut_bytes()[old.len()..].copy_from_slice(&scaled);
        call.set(0, out.freeze());
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = r#"<ir_version: 10, opset_import: ["" : 18, "my.ops" : 1]>
        g (float[n, 2] past, float[k, 2] rows) => (float[m, 2] next) {
            next = my.ops.AppendScaled <scale = 0.5> (past, rows)
        }"#;
    let model = Model::from_proto(parser::parse_model(text)?, &LoadOptions::default())?;
    let (model, _) = bind(&model, &BindRequest::pairs([("past", "next")]))?;

    let context = RuntimeContext::default();
    context.register_kernel("my.ops", "AppendScaled", |node| {
        let scale = node.attributes.float("scale")?.unwrap_or(1.0);
        Ok(Box::new(AppendScaled { scale }))
    })?;

    let empty = Tensor::from_slice::<f32>(&[0, 2], &[])?;
    let state =
        PersistentValueState::new(model, [("past", empty)], RuntimeSessionOptions::default())?;
    for step in 1..=3 {
        let rows = Tensor::from_slice(&[1, 2], &[step as f32, 10.0])?;
        let outputs = state.run(&context, [("rows", rows)])?;
        println!("{:?}", outputs["next"].view::<f32>()?.to_vec());
    }
    println!("{}", state.explain()?);
    Ok(())
}
