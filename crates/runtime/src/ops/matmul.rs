//! `MatMul`.

use crate::kernel::{Build, Invocation, Kernel, KernelEntry, OpError};
use half::{bf16, f16};
use refeed_kernels::matmul as kernels;
use refeed_values::DType;

/// Types that matrices may have.
pub(super) const MATRICES: &[DType] = &[
    DType::Float,
    DType::Double,
    DType::Float16,
    DType::Bfloat16,
    DType::Int32,
    DType::Int64,
    DType::Uint32,
    DType::Uint64,
];

/// Runs `$body` with `$t` standing for the matrix type `$dtype` of input 0.
macro_rules! by_matrix {
    ($dtype:expr, $t:ident => $body:expr) => {
        by_matrix!(@ $dtype, $t, $body;
            Float f32, Double f64, Float16 f16, Bfloat16 bf16, Int32 i32, Int64 i64, Uint32 u32, Uint64 u64)
    };
    (@ $dtype:expr, $t:ident, $body:expr; $($name:ident $rust:ty),*) => {
        match $dtype {
            $(refeed_values::DType::$name => { type $t = $rust; $body })*
            got => Err($crate::kernel::OpError::DType {
                index: 0,
                expected: "a floating point type or 32- or 64-bit integers".to_string(),
                got,
            }),
        }
    };
}
pub(super) use by_matrix;

struct MatMul;

impl Kernel for MatMul {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let (a, b) = (call.require(0)?, call.require(1)?);
        let shape = kernels::matmul_shape(a.shape(), b.shape())?;
        let mut out = call.allocate(a.dtype(), &shape)?;
        by_matrix!(a.dtype(), T => {
            let (a, b) = (call.view::<T>(0)?, call.view::<T>(1)?);
            Ok(kernels::matmul(call.compute(), &a, &b, out.as_mut_slice::<T>()?)?)
        })?;
        call.set(0, out.freeze());
        Ok(())
    }
}

fn matmul(_: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(MatMul))
}

pub(super) const KERNELS: &[KernelEntry] = &[KernelEntry {
    domain: "",
    op_type: "MatMul",
    types: &[(0, MATRICES), (1, MATRICES)],
    build: matmul,
}];
