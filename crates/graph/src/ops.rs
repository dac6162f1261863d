//! The operators whose schemas refeed knows, family by family.
//!
//! The kernels that compute them live in the runtime crate under the same file names.

mod activation;
mod ai_rt;
mod arithmetic;
mod attention;
mod bitwise;
pub mod cast;
mod concat;
pub mod constant;
mod control_flow;
mod conv;
mod einsum;
mod elementwise;
mod gather;
mod gemm;
mod image;
mod join;
pub mod layout;
mod linear_attention;
mod logic;
mod loss;
mod map;
mod matmul;
mod ml;
pub mod movement;
mod norm;
mod optional;
mod pooling;
mod quantization;
mod random;
mod recurrent;
pub mod reduce;
pub mod reshape;
mod resize;
mod rotary;
mod rules;
mod scan;
mod selection;
mod sequence;
mod signal;
pub mod slice;
pub mod split;
mod string;
mod training;
mod tree;
mod window;

use crate::schema::{Arity, Attr, InferFn, OpSchema};
use std::collections::HashMap;
use std::sync::LazyLock;

/// Every family of operators; adding one means adding its line here.
const FAMILIES: &[&[OpSchema]] = &[
    activation::SCHEMAS,
    ai_rt::PAGED_ATTENTION,
    ai_rt::QUANTIZE_PAGED_CACHE,
    attention::SCHEMAS,
    bitwise::SCHEMAS,
    cast::SCHEMAS,
    concat::SCHEMAS,
    constant::SCHEMAS,
    control_flow::SCHEMAS,
    conv::SCHEMAS,
    einsum::SCHEMAS,
    elementwise::SCHEMAS,
    gather::SCHEMAS,
    gemm::SCHEMAS,
    image::SCHEMAS,
    layout::SCHEMAS,
    linear_attention::SCHEMAS,
    logic::SCHEMAS,
    loss::SCHEMAS,
    map::SCHEMAS,
    matmul::SCHEMAS,
    ml::SCHEMAS,
    movement::SCHEMAS,
    norm::SCHEMAS,
    optional::SCHEMAS,
    pooling::SCHEMAS,
    quantization::SCHEMAS,
    random::SCHEMAS,
    recurrent::SCHEMAS,
    reduce::SCHEMAS,
    reshape::SCHEMAS,
    resize::SCHEMAS,
    rotary::SCHEMAS,
    scan::SCHEMAS,
    selection::SCHEMAS,
    sequence::SCHEMAS,
    signal::SCHEMAS,
    slice::SCHEMAS,
    split::SCHEMAS,
    string::SCHEMAS,
    training::SCHEMAS,
    tree::SCHEMAS,
];

/// All schemas.
pub fn all() -> impl Iterator<Item = &'static OpSchema> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

/// Schemas by domain and name.
static INDEX: LazyLock<HashMap<(&str, &str), &OpSchema>> = LazyLock::new(|| {
    all()
        .map(|schema| ((schema.domain, schema.op_type), schema))
        .collect()
});

/// The schema of an operator, whatever its version. `ai.onnx` is the same domain as `""`.
pub fn schema(domain: &str, op_type: &str) -> Option<&'static OpSchema> {
    let domain = if domain == "ai.onnx" { "" } else { domain };
    INDEX.get(&(domain, op_type)).copied()
}

const NONE: Arity = Arity::exactly(0);
const ONE: Arity = Arity::exactly(1);
const TWO: Arity = Arity::exactly(2);
const THREE: Arity = Arity::exactly(3);
const MANY: Arity = Arity::at_least(1);

/// An operator of ai.onnx with one output and no attributes, unless the methods below say otherwise.
const fn op(
    op_type: &'static str,
    since: &'static [i64],
    inputs: Arity,
    infer: InferFn,
) -> OpSchema {
    OpSchema {
        domain: "",
        op_type,
        since,
        inputs,
        outputs: ONE,
        attributes: &[],
        infer,
    }
}

impl OpSchema {
    const fn of(self, domain: &'static str) -> OpSchema {
        OpSchema { domain, ..self }
    }

    const fn outputs(self, outputs: Arity) -> OpSchema {
        OpSchema { outputs, ..self }
    }

    const fn attributes(self, attributes: &'static [Attr]) -> OpSchema {
        OpSchema { attributes, ..self }
    }
}

#[cfg(test)]
mod tests;
