//! The operators whose schemas refeed knows, family by family.
//!
//! The kernels that compute them live in the runtime crate under the same file names.

mod attention;
pub mod cast;
mod concat;
pub mod constant;
mod conv;
mod elementwise;
mod gather;
mod gemm;
pub mod layout;
mod logic;
mod matmul;
pub mod movement;
mod norm;
mod recurrent;
pub mod reduce;
mod rotary;

use crate::schema::OpSchema;

/// Every family of operators; adding one means adding its line here.
const FAMILIES: &[&[OpSchema]] = &[
    attention::SCHEMAS,
    cast::SCHEMAS,
    concat::SCHEMAS,
    constant::SCHEMAS,
    conv::SCHEMAS,
    elementwise::SCHEMAS,
    gather::SCHEMAS,
    gemm::SCHEMAS,
    layout::SCHEMAS,
    logic::SCHEMAS,
    matmul::SCHEMAS,
    movement::SCHEMAS,
    norm::SCHEMAS,
    recurrent::SCHEMAS,
    reduce::SCHEMAS,
    rotary::SCHEMAS,
];

/// All schemas.
pub fn all() -> impl Iterator<Item = &'static OpSchema> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

/// The schema of an operator, whatever its version. `ai.onnx` is the same domain as `""`.
pub fn schema(domain: &str, op_type: &str) -> Option<&'static OpSchema> {
    let domain = if domain == "ai.onnx" { "" } else { domain };
    all().find(|schema| schema.op_type == op_type && schema.domain == domain)
}
