//! Why a model is refused, and why a binding is.

use crate::bindings::BindingUses;
use crate::load::{LoadError, shown};
use std::io;
use thiserror::Error;

/// A field that holds something which a rule refuses.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{at}: expected {expected}, got {got}")]
pub struct FieldError {
    /// Path of the field, ready to be shown: `graph.initializer[2] "w".dims`.
    pub at: String,
    /// What the rule asks for.
    pub expected: String,
    /// What the field holds.
    pub got: String,
}

/// A model that cannot be loaded, is broken, or breaks the rules of bindings.
///
/// `at` is the path of the field: `graph.node[3] "attn" (Attention).attribute["axis"]`, nested graphs from the outside in.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The file or a tensor in it cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A persistent binding is refused.
    #[error(transparent)]
    Binding(#[from] BindingError),
    /// A field breaks a rule.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// A tensor of the model has no elements that fit its declaration.
    #[error("{at}: {source}")]
    Payload {
        /// The tensor.
        at: String,
        /// What is wrong with it.
        source: LoadError,
    },
    /// The model has no graph.
    #[error("the model has no graph")]
    NoGraph,
    /// The file says that it was written for a newer or an impossible format.
    #[error("ir_version: expected 1 to {newest}, got {got}")]
    IrVersion {
        /// Version that the file states.
        got: i64,
        /// Newest version that refeed reads.
        newest: i64,
    },
    /// No operator set is imported.
    #[error("{at}: expected at least one opset import, got none")]
    NoOpset {
        /// Model or function.
        at: String,
    },
    /// One domain is imported twice.
    #[error("{at}: domain `{domain}` is imported more than once")]
    DuplicateOpset {
        /// Model or function.
        at: String,
        /// Operator domain.
        domain: String,
    },
    /// An opset version that cannot exist.
    #[error("{at}: opset version of domain `{domain}`: expected 1 or more, got {got}")]
    OpsetVersion {
        /// Model or function.
        at: String,
        /// Operator domain.
        domain: String,
        /// Version that the file states.
        got: i64,
    },
    /// A node uses an operator of a domain that is not imported.
    #[error("{at}: domain `{domain}` is not imported; imported: {imported}")]
    DomainNotImported {
        /// The node.
        at: String,
        /// Its domain.
        domain: String,
        /// Imported domains.
        imported: String,
    },
    /// Something that must have a name has none.
    #[error("{at}: expected a name for {what}, got an empty one")]
    Unnamed {
        /// Where.
        at: String,
        /// What lacks the name.
        what: &'static str,
    },
    /// A name that must be unique is there twice.
    #[error("{at}: {what} `{}` is defined more than once", shown(name))]
    Duplicate {
        /// Where the second one stands.
        at: String,
        /// What is named: a graph input, an initializer, an attribute, a function.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A value has two definitions, so the graph is not in single-assignment form.
    #[error(
        "{at}: value `{}` is defined more than once, before by {before}",
        shown(name)
    )]
    Redefined {
        /// Where the second definition stands.
        at: String,
        /// The value.
        name: String,
        /// What defines it first.
        before: String,
    },
    /// A value is used that nothing defines.
    #[error("{at}: {role} `{}` is defined nowhere", shown(name))]
    Undefined {
        /// Where it is used.
        at: String,
        /// `input` or `output`.
        role: &'static str,
        /// The value.
        name: String,
    },
    /// A node stands before one that it needs.
    #[error(
        "{at}: input `{}` is used before {producer} makes it; nodes must be in topological order",
        shown(name)
    )]
    OutOfOrder {
        /// The node that reads.
        at: String,
        /// The value.
        name: String,
        /// The node that writes.
        producer: String,
    },
    /// Nodes need each other.
    #[error("{at}: input `{}` closes a cycle: {cycle}", shown(name))]
    Cycle {
        /// The node that reads.
        at: String,
        /// The value.
        name: String,
        /// The nodes of the cycle, joined by arrows.
        cycle: String,
    },
    /// A node has too few or too many inputs or outputs for its operator or function.
    #[error("{at}: expected {expected} {role}, got {got}")]
    Arity {
        /// The node.
        at: String,
        /// `inputs` or `outputs`.
        role: &'static str,
        /// What the operator takes.
        expected: String,
        /// What the node has.
        got: usize,
    },
    /// An attribute's type and payload disagree.
    #[error("{at}: attribute `{}`: expected {expected}, got {got}", shown(name))]
    Attribute {
        /// The node.
        at: String,
        /// The attribute.
        name: String,
        /// What it says to be.
        expected: String,
        /// What it holds.
        got: String,
    },
    /// A reference to a function's attribute where there is none.
    #[error(
        "{at}: attribute `{}` refers to `{}`, {why}",
        shown(name),
        shown(reference)
    )]
    Reference {
        /// The node.
        at: String,
        /// The attribute.
        name: String,
        /// What it refers to.
        reference: String,
        /// What is wrong with that.
        why: String,
    },
    /// A call gives an attribute that the function does not have.
    #[error("{at}: function `{function}` has no attribute `{}`", shown(name))]
    UnknownAttribute {
        /// The node.
        at: String,
        /// The function.
        function: String,
        /// The attribute.
        name: String,
    },
    /// A value that cannot be written as it is.
    #[error("{what} `{}`: {fault}", shown(name))]
    Value {
        /// What it is.
        what: &'static str,
        /// Its name.
        name: String,
        /// What is wrong.
        fault: String,
    },
    /// Functions call each other in a circle.
    #[error("function `{function}` calls itself: {cycle}")]
    RecursiveFunction {
        /// The function.
        function: String,
        /// The functions of the cycle, joined by arrows.
        cycle: String,
    },
    /// A number that would make later work unbounded.
    #[error("{at}: {what}: expected at most {limit}, got {got}")]
    Limit {
        /// Where.
        at: String,
        /// What is counted.
        what: &'static str,
        /// The limit.
        limit: u64,
        /// The number that is there, as far as it was counted.
        got: u64,
    },
    /// The model does not fit in one message.
    #[error(
        "a serialised model holds at most {limit} bytes, got {got}; save it to a file with external data instead"
    )]
    TooLarge {
        /// The protobuf limit.
        limit: usize,
        /// Size of this model.
        got: usize,
    },
    /// The model has tensors in other files, which bytes cannot carry.
    #[error(
        "tensor `{}` is stored in another file: a model as bytes cannot carry it; save the model to a file instead",
        shown(tensor)
    )]
    HasExternalData {
        /// The first such tensor.
        tensor: String,
    },
    /// A file cannot be written.
    #[error("`{}`: {action}: {source}", shown(path))]
    Write {
        /// The file.
        path: String,
        /// What was being done.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Memory or a layout for a tensor cannot be had.
    #[error("tensor `{}`: {source}", shown(tensor))]
    Tensor {
        /// The tensor.
        tensor: String,
        /// Why.
        source: refeed_values::TensorError,
    },
}

/// A persistent binding that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BindingError {
    /// A binding in a nested graph or a function.
    #[error(
        "{at}: persistent bindings and `refeed.` metadata are supported only on the model root graph"
    )]
    NotRoot {
        /// Where the declaration stands.
        at: String,
    },
    /// The binding names a part of a value, as an early draft could.
    #[error(
        "graph.persistent_bindings[{index}]: expected the names of whole inputs and outputs, got a field path, which is retired"
    )]
    FieldPath {
        /// Position in the list.
        index: usize,
    },
    /// A name that is not exactly one of the graph's.
    #[error(
        "graph.persistent_bindings[{index}] (`{}` -> `{}`): expected the exact names of a typed root graph input/output, got {role} `{}`, which is {why}",
        shown(input), shown(output), shown(if *role == "input" { input } else { output })
    )]
    UnknownName {
        /// Position in the list.
        index: usize,
        /// `input_name`.
        input: String,
        /// `output_name`.
        output: String,
        /// `input` or `output`.
        role: &'static str,
        /// `not declared`, `empty` or `declared without a type`.
        why: &'static str,
    },
    /// A type that cannot be kept between calls.
    #[error(
        "graph.persistent_bindings[{index}]: {role} `{}`: {fault}",
        shown(name)
    )]
    NotPersistent {
        /// Position in the list.
        index: usize,
        /// `input` or `output`.
        role: &'static str,
        /// Its name.
        name: String,
        /// Which part of its type cannot be kept.
        fault: Box<FieldError>,
    },
    /// The output can never be the next input.
    #[error(
        "graph.persistent_bindings[{index}]: input `{}` and output `{}` must have compatible tensor/struct/sequence types and declared dimensions: {fault}",
        shown(input),
        shown(output)
    )]
    Incompatible {
        /// Position in the list.
        index: usize,
        /// The input.
        input: String,
        /// The output.
        output: String,
        /// Where they differ; the input's part is expected, the output's is there.
        fault: Box<FieldError>,
    },
    /// A name in two bindings.
    #[error(
        "graph.persistent_bindings[{index}]: {role} `{}` is already in binding {before}",
        shown(name)
    )]
    Duplicate {
        /// Position in the list.
        index: usize,
        /// `input` or `output`.
        role: &'static str,
        /// The name.
        name: String,
        /// Position of the earlier binding.
        before: usize,
    },
    /// The single-use rule.
    #[error("bound input `{}` must be used exactly once, got {count} uses{}; uses=\"any\" (--uses any) allows more", shown(input), listed(sites, *count))]
    Uses {
        /// The input.
        input: String,
        /// Number of uses.
        count: usize,
        /// The first of them.
        sites: Vec<String>,
    },
    /// A `refeed.` key that does not exist.
    #[error(
        "unknown metadata key `{}`: expected `refeed.binding_uses` or `refeed.publish:<input>`",
        shown(key)
    )]
    UnknownKey {
        /// The key.
        key: String,
    },
    /// A `refeed.` key with a value that does not exist.
    #[error("metadata `{}`: expected {expected}, got `{}`", shown(key), shown(got))]
    UnknownValue {
        /// The key.
        key: String,
        /// The values that exist.
        expected: &'static str,
        /// The value that is there.
        got: String,
    },
    /// A `refeed.` key that is there twice.
    #[error("metadata key `{}` is given more than once", shown(key))]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// A publication policy for an input that no output feeds.
    #[error("metadata `refeed.publish:{}`: the input is not bound", shown(input))]
    PublishUnbound {
        /// The input.
        input: String,
    },
}

fn listed(sites: &[String], count: usize) -> String {
    if sites.is_empty() {
        return String::new();
    }
    let more = if count > sites.len() { ", ..." } else { "" };
    format!(" ({}{more})", sites.join(", "))
}

/// A request to bind that cannot be met. The model is as it was.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BindError {
    /// The model with its new bindings breaks a rule.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Neither pairs nor patterns were given, and the model has no bindings.
    #[error("nothing to bind: give pairs, templates or known schemes")]
    Nothing,
    /// A pair names a value that the graph does not have.
    #[error("pair `{}` -> `{}`: the graph has no {role} of that exact name{}", shown(input), shown(output), nearest.as_ref().map_or(String::new(), |name| format!("; nearest: `{}`", shown(name))))]
    UnknownName {
        /// The pair's input.
        input: String,
        /// The pair's output.
        output: String,
        /// `input` or `output`.
        role: &'static str,
        /// A name of the graph that is close.
        nearest: Option<String>,
    },
    /// A text that is no template.
    #[error("template `{}`: {fault}", shown(template))]
    Template {
        /// The text.
        template: String,
        /// What is wrong with it.
        fault: String,
    },
    /// A scheme name that is not in the table.
    #[error(
        "unknown naming scheme `{}`: expected a template `input -> output`, `known`, or one of {known}",
        shown(name)
    )]
    UnknownScheme {
        /// The name.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A template or scheme that fits nothing.
    #[error(
        "{by} matches no pair of graph inputs and outputs; inputs: {inputs}; outputs: {outputs}"
    )]
    NoMatch {
        /// The template or scheme.
        by: String,
        /// The graph's inputs.
        inputs: String,
        /// The graph's outputs.
        outputs: String,
    },
    /// One template fits one name in two ways.
    #[error(
        "ambiguous: template `{}` fits `{}` in more than one way",
        shown(template),
        shown(name)
    )]
    AmbiguousTemplate {
        /// The template.
        template: String,
        /// The name.
        name: String,
    },
    /// One input would be fed by two outputs.
    #[error(
        "ambiguous: input `{}` would be fed by `{}` ({first_by}) and by `{}` ({second_by})",
        shown(input),
        shown(first),
        shown(second)
    )]
    TwoOutputs {
        /// The input.
        input: String,
        /// One output.
        first: String,
        /// What asked for it.
        first_by: String,
        /// The other output.
        second: String,
        /// What asked for it.
        second_by: String,
    },
    /// One output would feed two inputs.
    #[error(
        "ambiguous: output `{}` would feed `{}` ({first_by}) and `{}` ({second_by})",
        shown(output),
        shown(first),
        shown(second)
    )]
    TwoInputs {
        /// The output.
        output: String,
        /// One input.
        first: String,
        /// What asked for it.
        first_by: String,
        /// The other input.
        second: String,
        /// What asked for it.
        second_by: String,
    },
    /// A publication policy for something that is not bound.
    #[error(
        "publish: `{}` is no bound input and matches none; bound: {bound}",
        shown(name)
    )]
    PublishUnbound {
        /// The name or template.
        name: String,
        /// The bound inputs.
        bound: String,
    },
    /// Two publication policies for one input.
    #[error("publish: input `{}` is given more than one policy", shown(input))]
    PublishTwice {
        /// The input.
        input: String,
    },
}

impl From<BindingError> for BindError {
    fn from(error: BindingError) -> BindError {
        BindError::Model(error.into())
    }
}

/// A policy that does not exist, by its text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("expected {expected}, got `{}`", shown(got))]
pub struct UnknownPolicy {
    /// The texts that exist.
    pub expected: &'static str,
    /// The text given.
    pub got: String,
}

impl BindingUses {
    pub(crate) const TEXTS: &'static str = "`one` or `any`";
}
