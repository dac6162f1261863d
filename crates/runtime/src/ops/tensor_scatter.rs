//! `TensorScatter`: new rows of a cache of fixed length.
//!
//! Where the graph feeds the result back, a step writes its rows into one of two buffers by turns (`turns`).

use super::layout::refuse;
use super::movement::same_dtype;
use super::turns::turned;
use super::width::{MOVABLE, by_width, carried, retyped};
use crate::append::Span;
use crate::kernel::{Build, Invocation, Kernel, KernelEntry, OpError};
use refeed_graph::attributes::AttributeError;
use refeed_graph::ops::layout::axis_of;
use refeed_kernels::movement as kernels;

struct TensorScatter {
    axis: i64,
    circular: bool,
}

impl TensorScatter {
    /// Where each batch entry is written, for starts that the kernel has accepted.
    fn span(&self, shape: &[usize], axis: usize, rows: usize, starts: Option<&[i64]>) -> Span {
        let limit = i64::try_from(shape[axis].max(1)).unwrap_or(i64::MAX);
        let start = |entry: usize| starts.and_then(|starts| starts.get(entry)).copied();
        let start = |entry| start(entry).unwrap_or(0).rem_euclid(limit);
        let starts = (0..shape[0]).map(|entry| usize::try_from(start(entry)).unwrap_or(0));
        Span {
            axis,
            rows,
            starts: starts.collect(),
        }
    }
}

impl Kernel for TensorScatter {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let (past, update) = (call.require(0)?, call.require(1)?);
        same_dtype(past, update, 1)?;
        let axis = axis_of(self.axis, past.rank()).map_err(refuse)?;
        let starts = match call.input(2) {
            Some(_) => Some(call.ints(2)?),
            None => None,
        };
        let (shape, dtype) = (past.shape(), past.dtype());
        let new = carried(update)?;
        by_width!(dtype, T => {
            let mut turned = turned::<T>(call, 0, past)?;
            let out = turned.memory.as_mut_slice::<T>()?;
            let view = new.view::<T>()?;
            kernels::tensor_scatter(out, shape, axis, &view, starts.as_deref(), self.circular)?;
            if call.is_bound(0) {
                let span = self.span(shape, axis, update.shape()[axis], starts.as_deref());
                turned.finish(call, 0, dtype, (span, update.bytes()))?;
            } else {
                call.set(0, retyped(&turned.memory.freeze(), dtype)?);
            }
        });
        Ok(())
    }
}

fn build(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let axis = build.attributes.int_or("axis", -2)?;
    let circular = match build.attributes.string("mode")? {
        None | Some("linear") => false,
        Some("circular") => true,
        Some(other) => {
            let expected = "linear or circular";
            return Err(AttributeError::Value {
                name: "mode",
                expected,
                got: other.to_string(),
            }
            .into());
        }
    };
    Ok(Box::new(TensorScatter { axis, circular }))
}

pub(super) const KERNELS: &[KernelEntry] = &[KernelEntry {
    domain: "",
    op_type: "TensorScatter",
    types: &[(0, MOVABLE)],
    build,
}];

#[cfg(test)]
mod tests {
    use super::super::trial::{Trial, floats, ints, listed};

    #[test]
    fn tensor_scatter_checks_its_start() {
        let (past, update) = (floats(&[1, 4, 2]), floats(&[1, 2, 2]));
        let scatter = Trial::new("TensorScatter", 24).int("axis", 1);
        let out = scatter.one(&[&past, &update, &ints(&[1])]).unwrap();
        assert_eq!(
            listed(&out),
            [&listed(&past)[..2], &listed(&update), &listed(&past)[6..]].concat()
        );
        for bad in [3, -1, i64::MAX] {
            assert!(
                scatter.one(&[&past, &update, &ints(&[bad])]).is_err(),
                "{bad}"
            );
        }
        assert!(
            Trial::new("TensorScatter", 24)
                .int("axis", 0)
                .one(&[&past, &past])
                .is_err()
        );
    }
}
