//! The operators that refeed computes, family by family; schemas stand under the same names in `refeed-graph`.

mod attention;
mod cast;
mod concat;
mod constant;
mod conv;
mod elementwise;
mod gather;
mod gemm;
mod heads;
mod layout;
mod logic;
mod matmul;
mod movement;
mod norm;
mod recurrent;
mod reduce;
mod rotary;
#[cfg(test)]
mod trial;
mod types;
mod width;

use crate::kernel::KernelEntry;

/// Every family of kernels; adding one means adding its line here.
const FAMILIES: &[&[KernelEntry]] = &[
    attention::KERNELS,
    cast::KERNELS,
    concat::KERNELS,
    constant::KERNELS,
    conv::KERNELS,
    elementwise::KERNELS,
    gather::KERNELS,
    gemm::KERNELS,
    layout::KERNELS,
    logic::KERNELS,
    matmul::KERNELS,
    movement::KERNELS,
    norm::KERNELS,
    recurrent::KERNELS,
    reduce::KERNELS,
    rotary::KERNELS,
];

/// All registered kernels.
pub fn all() -> impl Iterator<Item = &'static KernelEntry> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

/// The kernel of an operator. `ai.onnx` is the same domain as `""`.
pub fn kernel(domain: &str, op_type: &str) -> Option<&'static KernelEntry> {
    let domain = if domain == "ai.onnx" { "" } else { domain };
    all().find(|entry| entry.op_type == op_type && entry.domain == domain)
}
