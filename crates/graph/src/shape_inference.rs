//! Types of all values of a model, computed from those of its inputs.
//!
//! [`infer_shapes`] walks the root graph once. Each node is asked for its output types through the rule of its operator
//! ([`OpSchema`](crate::schema::OpSchema)), nested graphs are entered by the operators that hold them, and calls of
//! model-local functions are followed with the types of their arguments. What a rule cannot tell gets a symbol of its
//! own (`unk__0`), so that values of one unknown extent stay recognisable as such.
//!
//! Declarations and operators must agree. Where both speak, the declared names stay and what is more definite wins
//! (a number over a name, anything over nothing); where they contradict each other, the declaration stays and a
//! [`Problem`] names both sides. Problems are errors in strict mode; otherwise they are returned beside the model.
//!
//! The walk is linear in the size of the model with its functions expanded. Nested graphs and calls are followed by
//! recursion of at most [`DEPTH_LIMIT`] levels.

mod call;
mod constant;
mod dim_expr;
mod driver;
mod error;
mod merge;
mod node;
mod scope;
mod symbols;
mod values;
mod write;

pub(crate) use constant::small as small_constant;
pub use dim_expr::DimExpr;
pub(crate) use dim_expr::same_text;
pub use driver::DEPTH_LIMIT;
pub use error::{Fault, Problem, ShapeInferenceError};
pub(crate) use merge::common;
pub use node::{infer_function_output_types, infer_node_outputs};
pub(crate) use symbols::is_made;
pub use values::{ShapeValue, VALUE_LIMIT};
pub use write::{Declarations, GraphStep};

use driver::Driver;
use refeed_proto::ModelProto;

/// What to infer, and which faults are errors. The default is what the `onnx` package does by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InferenceOptions {
    /// Element types and kinds of inputs that contradict the operator are errors.
    pub check_type: bool,
    /// Every fault is an error.
    pub strict_mode: bool,
    /// Follow the values of shape arithmetic from node to node. Constants are known in any case.
    pub data_prop: bool,
}

/// A model whose values have types as far as they can be told.
#[derive(Debug, Clone, PartialEq)]
pub struct Inferred {
    /// The model, with `value_info` added and refined in every graph, and the types of graph outputs refined.
    pub model: ModelProto,
    /// Nodes and declarations that contradict each other, the first hundred of them.
    pub problems: Vec<Problem>,
}

/// Infers the types of a model's values.
///
/// ```
/// use refeed_graph::shape_inference::{InferenceOptions, infer_shapes};
/// use refeed_proto::ModelProto;
/// # fn show(model: &ModelProto) -> Result<(), Box<dyn std::error::Error>> {
/// let options = InferenceOptions { data_prop: true, ..InferenceOptions::default() };
/// let inferred = infer_shapes(model, &options)?;
/// for problem in &inferred.problems {
///     eprintln!("{problem}");
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When the model has no graph or its functions are recursive, a domain is not imported, a graph input contradicts its
/// initializer, a limit is met; and for problems, as the options say.
pub fn infer_shapes(
    model: &ModelProto,
    options: &InferenceOptions,
) -> Result<Inferred, ShapeInferenceError> {
    let (declarations, problems) = infer_declarations(model, options)?;
    let mut model = model.clone();
    if let Some(graph) = &mut model.graph {
        write::write(graph, declarations);
    }
    Ok(Inferred { model, problems })
}

/// Infers the types of a model's values, and gives the declarations that the graphs would then have, for writers that
/// hold the model in another form. Graphs inside function bodies are not among them.
///
/// # Errors
/// As [`infer_shapes`].
pub fn infer_declarations(
    model: &ModelProto,
    options: &InferenceOptions,
) -> Result<(Vec<Declarations>, Vec<Problem>), ShapeInferenceError> {
    let (types, problems) = Driver::run(model, options)?;
    let declarations = match &model.graph {
        Some(graph) => write::declarations(graph, &types)?,
        None => Vec::new(),
    };
    Ok((declarations, problems))
}

#[cfg(test)]
mod tests;
