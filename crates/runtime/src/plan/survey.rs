//! Which operators a model uses, and which of them refeed computes.

use super::build::Builder;
use crate::error::{NodeProblem, SessionError};
use crate::registry::Kernels;
use refeed_graph::Model;

/// One operator of a model, and whether refeed computes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorUse {
    /// Operator domain.
    pub domain: String,
    /// Operator.
    pub op_type: String,
    /// Nodes that use it, those of subgraphs and called functions included.
    pub nodes: usize,
    /// What stands in the way, in words; empty when all its nodes can run.
    pub problems: Vec<String>,
}

/// Every operator of a model, and what refeed lacks to run it.
///
/// # Errors
/// When the graph is not well formed.
pub fn survey(model: &Model) -> Result<Vec<OperatorUse>, SessionError> {
    let kernels = Kernels::of_process();
    let mut builder = Builder::new(model, crate::session::compute()?, &kernels);
    builder.root()?;
    let mut uses: Vec<OperatorUse> = builder
        .counts
        .into_iter()
        .map(|((domain, op_type), nodes)| OperatorUse {
            domain,
            op_type,
            nodes,
            problems: Vec::new(),
        })
        .collect();
    let missing = builder.missing.into_iter();
    let missing = missing.map(|node| (node, NodeProblem::Unregistered));
    for (node, problem) in builder.problems.into_iter().chain(missing) {
        let of = uses
            .iter_mut()
            .find(|u| *u.domain == *node.domain && *u.op_type == *node.op_type);
        if let Some(of) = of {
            let text = problem.to_string();
            if !of.problems.contains(&text) {
                of.problems.push(text);
            }
        }
    }
    Ok(uses)
}
