//! Adapters of conversions between element types.

use super::types::ALL;
use crate::kernel::{Build, Invocation, Kernel, KernelEntry, OpError};
use refeed_graph::ops::cast::target;
use refeed_kernels::cast::{CastFn, cast};
use refeed_values::{DType, Tensor};

fn find(from: DType, to: DType) -> Result<CastFn, OpError> {
    cast(from, to).ok_or_else(|| OpError::Unsupported(format!("conversion of {from} to {to}")))
}

/// The tensor with elements of another type: itself, or a copy in session memory.
///
/// # Errors
/// When there is no such conversion or memory cannot be had.
pub(super) fn converted(
    call: &mut Invocation<'_>,
    tensor: &Tensor,
    to: DType,
) -> Result<Tensor, OpError> {
    if tensor.dtype() == to {
        return Ok(tensor.clone());
    }
    convert(call, tensor, to, find(tensor.dtype(), to)?)
}

fn convert(
    call: &mut Invocation<'_>,
    tensor: &Tensor,
    to: DType,
    convert: CastFn,
) -> Result<Tensor, OpError> {
    let mut out = call.allocate(to, tensor.shape())?;
    convert(tensor, &mut out)?;
    Ok(out.freeze())
}

struct Cast {
    to: DType,
    /// The conversion, when the input's type was known in time.
    ready: Option<(DType, CastFn)>,
}

impl Kernel for Cast {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let out = match self.ready {
            Some((from, ready)) if from == x.dtype() => convert(call, x, self.to, ready)?,
            _ => converted(call, x, self.to)?,
        };
        call.set(0, out);
        Ok(())
    }
}

/// `saturate` and `round_mode` speak of 8-bit floating point targets only, which are not converted to.
fn ignore_float8(build: &Build<'_>) {
    build.attributes.ignore("saturate");
    build.attributes.ignore("round_mode");
}

fn cast_node(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    ignore_float8(build);
    let to = target(build.attributes)?;
    if !ALL.contains(&to) {
        return Err(OpError::Unsupported(format!("conversion to {to}")));
    }
    let ready = match build.input(0).and_then(|ty| ty.dtype) {
        Some(from) if from != to => Some((from, find(from, to)?)),
        _ => None,
    };
    Ok(Box::new(Cast { to, ready }))
}

struct CastLike;

impl Kernel for CastLike {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let (x, like) = (call.require(0)?, call.require(1)?);
        let out = converted(call, x, like.dtype())?;
        call.set(0, out);
        Ok(())
    }
}

pub(super) const KERNELS: &[KernelEntry] = &[
    KernelEntry {
        domain: "",
        op_type: "Cast",
        types: &[(0, ALL)],
        build: cast_node,
    },
    KernelEntry {
        domain: "",
        op_type: "CastLike",
        types: &[(0, ALL), (1, ALL)],
        build: |build| {
            ignore_float8(build);
            Ok(Box::new(CastLike))
        },
    },
];
