//! A node against the schema of its operator and the types of its kernel.

use crate::error::NodeProblem;
use crate::kernel::KernelEntry;
use refeed_graph::schema::OpSchema;
use refeed_graph::types::{TensorType, ValueType};
use refeed_proto::NodeProto;

/// Arity and version of a node against its operator.
pub(super) fn check_schema(
    schema: &OpSchema,
    node: &NodeProto,
    opset: i64,
) -> Result<(), NodeProblem> {
    let known = schema.since.first().copied().unwrap_or(1);
    let oldest = known.max(crate::ops::since(schema.domain, schema.op_type));
    if opset < oldest {
        return Err(NodeProblem::Version { got: opset, oldest });
    }
    match schema.arity_fault(node) {
        None => Ok(()),
        Some(fault) => Err(NodeProblem::Arity {
            what: fault.what,
            expected: fault.expected.to_string(),
            got: fault.got,
        }),
    }
}

/// Element types of a node's inputs against what its kernel computes.
pub(super) fn check_types(
    entry: &KernelEntry,
    types: &[Option<ValueType>],
) -> Result<(), NodeProblem> {
    for (index, accepted) in entry.types {
        let Some(Some(ValueType::Tensor(TensorType {
            dtype: Some(got), ..
        }))) = types.get(*index)
        else {
            continue;
        };
        if !accepted.contains(got) {
            let names: Vec<&str> = accepted.iter().map(|dtype| dtype.name()).collect();
            return Err(NodeProblem::DType {
                index: *index,
                got: *got,
                expected: names.join(", "),
            });
        }
    }
    Ok(())
}

/// Kinds of a node's inputs, in front of a kernel that reads tensors only.
pub(super) fn refuse_other_kinds(types: &[Option<ValueType>]) -> Result<(), NodeProblem> {
    for (index, ty) in types.iter().enumerate() {
        if let Some(ty) = ty
            && !matches!(ty, ValueType::Tensor(_) | ValueType::Unset)
        {
            return Err(NodeProblem::Kind {
                index,
                expected: "a tensor",
                got: ty.kind(),
            });
        }
    }
    Ok(())
}
