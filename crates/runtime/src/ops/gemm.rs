//! `Gemm`.

use super::matmul::{MATRICES, by_matrix};
use crate::kernel::{Build, Invocation, Kernel, KernelEntry, OpError};
use half::{bf16, f16};
use refeed_kernels::{gemm as kernels, matmul};
use refeed_values::{Element, View};

struct Gemm {
    alpha: f32,
    beta: f32,
    trans_a: bool,
    trans_b: bool,
}

/// A matrix input, turned when asked for.
fn matrix<'a, T: Element>(
    call: &Invocation<'a>,
    index: usize,
    turned: bool,
) -> Result<View<'a, T>, OpError> {
    let view = call.view::<T>(index)?;
    let shape_error = || {
        OpError::Shape(format!(
            "input {index}: expected 2 axes, got shape {:?}",
            view.shape()
        ))
    };
    if view.rank() != 2 {
        return Err(shape_error());
    }
    if turned {
        view.swap(0, 1).ok_or_else(shape_error)
    } else {
        Ok(view)
    }
}

impl Kernel for Gemm {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let dtype = call.require(0)?.dtype();
        by_matrix!(dtype, T => {
            let a = matrix::<T>(call, 0, self.trans_a)?;
            let b = matrix::<T>(call, 1, self.trans_b)?;
            let c = match call.input(2) {
                Some(_) => Some(call.view::<T>(2)?),
                None => None,
            };
            let shape = [a.shape()[0], b.shape()[1]];
            let mut out = call.allocate(dtype, &shape)?;
            let slots = out.as_mut_slice::<T>()?;
            matmul::matmul(call.compute(), &a, &b, slots)?;
            kernels::scale_and_add(slots, shape, self.alpha, c.as_ref(), self.beta)?;
            call.set(0, out.freeze());
            Ok(())
        })
    }
}

fn gemm(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let attributes = build.attributes;
    Ok(Box::new(Gemm {
        alpha: attributes.float_or("alpha", 1.0)?,
        beta: attributes.float_or("beta", 1.0)?,
        trans_a: attributes.int_or("transA", 0)? != 0,
        trans_b: attributes.int_or("transB", 0)? != 0,
    }))
}

pub(super) const KERNELS: &[KernelEntry] = &[KernelEntry {
    domain: "",
    op_type: "Gemm",
    types: &[(0, MATRICES), (1, MATRICES), (2, MATRICES)],
    build: gemm,
}];

#[cfg(test)]
mod tests {
    use super::super::trial::{Trial, floats, listed};
    use refeed_values::Tensor;

    #[test]
    fn turned_operands_factors_and_a_broadcast_summand() {
        let (a, b, c) = (floats(&[4, 2]), floats(&[3, 4]), floats(&[3]));
        let trial = Trial::new("Gemm", 13)
            .int("transA", 1)
            .int("transB", 1)
            .float("alpha", 0.5)
            .float("beta", -2.0);
        let out = listed(&trial.one(&[&a, &b, &c]).unwrap());
        let (a, b, c) = (listed(&a), listed(&b), listed(&c));
        for m in 0..2 {
            for n in 0..3 {
                let sum: f32 = (0..4).map(|k| a[k * 2 + m] * b[n * 4 + k]).sum();
                assert!((out[m * 3 + n] - (0.5 * sum - 2.0 * c[n])).abs() < 1e-3);
            }
        }
    }

    #[test]
    fn wrong_shapes_and_types_are_refused() {
        let (a, b) = (floats(&[2, 3]), floats(&[3, 2]));
        let gemm = Trial::new("Gemm", 13);
        assert!(gemm.one(&[&a, &a]).is_err());
        assert!(gemm.one(&[&a, &floats(&[3])]).is_err());
        assert!(gemm.one(&[&a, &b, &floats(&[3])]).is_err());
        assert!(
            gemm.one(&[&a, &Tensor::from_slice(&[3, 2], &[1f64; 6]).unwrap()])
                .is_err()
        );
        let empty = gemm
            .one(&[&floats(&[2, 0]), &floats(&[0, 2]), &floats(&[2])])
            .unwrap();
        assert_eq!(
            listed(&empty),
            [listed(&floats(&[2])), listed(&floats(&[2]))].concat()
        );
    }
}
