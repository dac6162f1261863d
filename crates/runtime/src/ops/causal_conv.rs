//! `CausalConvWithState`, of ai.onnx and of `com.microsoft`.

use super::heads::by_real;
use crate::kernel::{Build, Invocation, Kernel, KernelEntry, OpError};
use refeed_graph::attributes::AttributeError;
use refeed_kernels::Real;
use refeed_kernels::conv::{CausalProblem, causal_conv};
use refeed_values::{DType, View};

const REALS: &[DType] = &[DType::Float, DType::Float16, DType::Bfloat16];

struct CausalConv {
    dilation: usize,
    silu: bool,
}

impl CausalConv {
    fn typed<T: Real>(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let optional = |index| -> Result<Option<View<'_, T>>, OpError> {
            call.input(index).map(|_| call.view::<T>(index)).transpose()
        };
        let problem = CausalProblem {
            input: call.view::<T>(0)?,
            weight: call.view::<T>(1)?,
            bias: optional(2)?,
            past: optional(3)?,
            dilation: self.dilation,
            silu: self.silu,
        };
        let carry = problem.carry()?;
        let shape = problem.input.shape();
        let mut out = call.allocate(T::DTYPE, shape)?;
        let mut present = call.allocate(T::DTYPE, &[shape[0], shape[1], carry])?;
        let slots = out.as_mut_slice::<T>()?;
        causal_conv(
            call.compute(),
            &problem,
            slots,
            present.as_mut_slice::<T>()?,
        )?;
        call.set(0, out.freeze());
        call.set(1, present.freeze());
        Ok(())
    }
}

impl Kernel for CausalConv {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        by_real!(call.require(0)?.dtype(), 0, T => self.typed::<T>(call))
    }
}

/// Whether the result is multiplied with its sigmoid.
fn silu(build: &Build<'_>) -> Result<bool, OpError> {
    match build.attributes.string("activation")? {
        None | Some("none") => Ok(false),
        Some("silu" | "swish") => Ok(true),
        Some(other) => Err(AttributeError::Value {
            name: "activation",
            expected: "none, silu or swish",
            got: other.to_string(),
        }
        .into()),
    }
}

/// Source: <https://onnx.ai/onnx/operators/onnx__CausalConvWithState.html>
fn build(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let silu = silu(build)?;
    Ok(Box::new(CausalConv { dilation: 1, silu }))
}

/// Source: the contributed operators of onnxruntime, `com.microsoft.CausalConvWithState`.
fn build_contributed(call: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let attributes = call.attributes;
    for (name, plain) in [
        ("ndim", 1),
        ("channels_last", 0),
        ("state_window", 0),
        ("state_update_capacity", 0),
        ("state_channels_last", -1),
        ("state_length", 0),
        ("input_channel_offset", 0),
        ("input_channels", 0),
    ] {
        let got = attributes.int_or(name, plain)?;
        if got != plain {
            return Err(OpError::Unsupported(format!(
                "CausalConvWithState with {name} {got}"
            )));
        }
    }
    let given = attributes.int_or("dilation", 1)?;
    let dilation = usize::try_from(given).ok().filter(|&n| n > 0);
    let dilation = dilation.ok_or_else(|| AttributeError::Value {
        name: "dilation",
        expected: "a number above 0",
        got: given.to_string(),
    })?;
    if call.wants(2) {
        return Err(OpError::Unsupported(
            "CausalConvWithState with output 2 (state_update)".to_string(),
        ));
    }
    let silu = silu(call)?;
    Ok(Box::new(CausalConv { dilation, silu }))
}

pub(super) const KERNELS: &[KernelEntry] = &[
    KernelEntry {
        domain: "",
        op_type: "CausalConvWithState",
        types: &[(0, REALS)],
        build,
    },
    KernelEntry {
        domain: "com.microsoft",
        op_type: "CausalConvWithState",
        types: &[(0, REALS)],
        build: build_contributed,
    },
];
