//! Names of places in a model, for messages.

use crate::load::shown;
use refeed_proto::{AttributeProto, FunctionProto, NodeProto};

/// Domains as they are compared: `ai.onnx` is the default one.
pub(crate) fn domain(name: &str) -> &str {
    if name == "ai.onnx" { "" } else { name }
}

/// Domains as they are shown.
pub(crate) fn shown_domain(name: &str) -> String {
    if domain(name).is_empty() {
        "ai.onnx".to_string()
    } else {
        shown(name)
    }
}

/// `node 3 'Add_1' (Add)`.
pub(crate) fn node(index: usize, node: &NodeProto) -> String {
    let op = match domain(node.domain()) {
        "" => shown(node.op_type()),
        domain => format!("{}::{}", shown(domain), shown(node.op_type())),
    };
    match node.name() {
        "" => format!("node {index} ({op})"),
        name => format!("node {index} '{}' ({op})", shown(name)),
    }
}

/// `node 3 'If_1' (If) then_branch / `, the prefix of places inside a nested graph.
pub(crate) fn branch(index: usize, outer: &NodeProto, attribute: &AttributeProto) -> String {
    format!("{} {} / ", node(index, outer), shown(attribute.name()))
}

/// `domain::name` or `domain::name:overload`.
pub(crate) fn function(function: &FunctionProto) -> String {
    let name = format!(
        "{}::{}",
        shown_domain(function.domain()),
        shown(function.name())
    );
    match function.overload() {
        "" => name,
        overload => format!("{name}:{}", shown(overload)),
    }
}
