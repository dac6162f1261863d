//! The operators whose schemas refeed knows, family by family.
//!
//! The kernels that compute them live in the runtime crate under the same file names.

mod attention;
mod concat;
mod conv;
mod elementwise;
mod gather;
pub mod layout;
mod matmul;
pub mod movement;
mod norm;
mod recurrent;
mod rotary;

use crate::schema::OpSchema;

/// Every family of operators; adding one means adding its line here.
const FAMILIES: &[&[OpSchema]] = &[
    layout::SCHEMAS,
    norm::SCHEMAS,
    movement::SCHEMAS,
    matmul::SCHEMAS,
    gather::SCHEMAS,
    concat::SCHEMAS,
    conv::SCHEMAS,
    recurrent::SCHEMAS,
    rotary::SCHEMAS,
    attention::SCHEMAS,
    elementwise::SCHEMAS,
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
