//! The operators that refeed computes, family by family; schemas stand under the same names in `refeed-graph`.

mod ai_rt;
mod attention;
mod cast;
mod causal_conv;
mod concat;
mod constant;
mod conv;
mod elementwise;
mod gather;
mod gemm;
mod heads;
mod layout;
mod linear_attention;
mod logic;
mod matmul;
mod matmul_nbits;
mod movement;
mod norm;
mod optional;
pub mod paged_attention;
mod quantization;
mod recurrent;
mod reduce;
mod rotary;
mod sequence;
mod string;
mod tensor_scatter;
mod told_shape;
#[cfg(test)]
mod trial;
mod turns;
mod types;
mod width;

pub(crate) use attention::{
    MaskChange, MaskStep, RecognizedAttention, RecognizedCache, RecognizedOperands, holds, is_low,
    one_number,
};
pub(crate) use concat::NOT_FIRST;
pub(crate) use layout::position_of;
pub(crate) use matmul_nbits::PackedMatMul;
pub(crate) use sequence::own;
pub(crate) use told_shape::ToldShape;

use crate::kernel::KernelEntry;

/// Every family of kernels; adding one means adding its line here.
const FAMILIES: &[&[KernelEntry]] = &[
    ai_rt::KERNELS,
    attention::KERNELS,
    cast::KERNELS,
    causal_conv::KERNELS,
    concat::KERNELS,
    constant::KERNELS,
    conv::KERNELS,
    elementwise::KERNELS,
    gather::KERNELS,
    gemm::KERNELS,
    layout::KERNELS,
    linear_attention::KERNELS,
    logic::KERNELS,
    matmul::KERNELS,
    matmul_nbits::KERNELS,
    movement::KERNELS,
    norm::KERNELS,
    optional::KERNELS,
    quantization::KERNELS,
    recurrent::KERNELS,
    reduce::KERNELS,
    rotary::KERNELS,
    sequence::KERNELS,
    string::KERNELS,
    tensor_scatter::KERNELS,
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

/// The first version of ai.onnx whose meaning a kernel has, where schemas know older ones as well. What changed at
/// these versions: attributes became inputs, and one-sided broadcasting became mutual.
const SINCE: &[(i64, &[&str])] = &[
    (2, &["Split"]),
    (5, &["Reshape"]),
    (
        6,
        &[
            "Abs",
            "Cast",
            "Ceil",
            "Clip",
            "Exp",
            "Floor",
            "InstanceNormalization",
            "Log",
            "Max",
            "Mean",
            "Min",
            "Neg",
            "Reciprocal",
            "Relu",
            "Sigmoid",
            "Sqrt",
            "Sum",
            "Tanh",
            "Tile",
        ],
    ),
    (
        7,
        &[
            "Add",
            "And",
            "BatchNormalization",
            "Div",
            "Equal",
            "GRU",
            "Gemm",
            "Greater",
            "LSTM",
            "Less",
            "Mul",
            "Or",
            "PRelu",
            "Pow",
            "RNN",
            "Sub",
            "Xor",
        ],
    ),
];

/// The first version of an operator's domain whose meaning its kernel has.
pub(crate) fn since(domain: &str, op_type: &str) -> i64 {
    let at = SINCE.iter().find(|(_, names)| names.contains(&op_type));
    match at {
        Some((version, _)) if domain.is_empty() => *version,
        _ => 1,
    }
}
