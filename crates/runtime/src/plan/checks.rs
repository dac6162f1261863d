//! A node against the schema of its operator and the types of its kernel.

use crate::error::NodeProblem;
use crate::kernel::KernelEntry;
use refeed_graph::schema::{Arity, OpSchema};
use refeed_graph::types::TensorType;
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
    let check = |what: &'static str, arity: Arity, names: &[String]| {
        let named = names
            .iter()
            .rposition(|name| !name.is_empty())
            .map_or(0, |last| last + 1);
        // An output that nothing needs may be skipped, the last one too, as long as it has its place.
        let named = if what == "outputs" {
            named.max(names.len().min(arity.min))
        } else {
            named
        };
        if (arity.min..=arity.max).contains(&named) {
            return Ok(());
        }
        let expected = match arity {
            Arity { min, max } if min == max => min.to_string(),
            Arity {
                min,
                max: usize::MAX,
            } => format!("at least {min}"),
            Arity { min, max } => format!("{min} to {max}"),
        };
        Err(NodeProblem::Arity {
            what,
            expected,
            got: named,
        })
    };
    check("inputs", schema.inputs, &node.input)?;
    check("outputs", schema.outputs, &node.output)
}

/// Element types of a node's inputs against what its kernel computes.
pub(super) fn check_types(
    entry: &KernelEntry,
    types: &[Option<TensorType>],
) -> Result<(), NodeProblem> {
    for (index, accepted) in entry.types {
        let Some(Some(TensorType {
            dtype: Some(got), ..
        })) = types.get(*index)
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
