//! Removal of nodes that pass their input on.

use super::GraphBuilder;
use super::substitute::{Fixed, Scope, Substitution, remove_marked};
use super::walk::innermost_first;
use crate::place;
use refeed_proto::{GraphProto, NodeProto};

impl GraphBuilder {
    /// Removes `Identity` nodes, in the root graph and in nested graphs, and says how many.
    ///
    /// Names of graph inputs and outputs stay, and so do bindings. So a node stays that joins an input, an initializer or
    /// an outer value to an output, or two outputs; one whose removal would give a bound input a second use, unless the
    /// model allows that; and one whose value has a quantization annotation or is read by a training step.
    pub fn remove_identity_nodes(&mut self) -> usize {
        let fixed = Fixed::of(&self.model);
        let mut removed = 0;
        innermost_first(self.graph_mut(), &mut |graph| {
            removed += remove_identities(graph, &fixed);
        });
        self.names.read(&self.model);
        removed
    }
}

fn passes_on(node: &NodeProto) -> Option<(&str, &str)> {
    let plain = node.op_type() == "Identity" && place::domain(node.domain()).is_empty();
    let single = node.input.len() == 1 && node.output.len() == 1;
    (plain && single)
        .then(|| Some((node.input_name(0)?, node.output_name(0)?)))
        .flatten()
}

fn remove_identities(graph: &mut GraphProto, fixed: &Fixed) -> usize {
    let mut substitution = Substitution::default();
    let mut marked = vec![false; graph.node.len()];
    let scope = Scope::of(graph, fixed);
    for (index, node) in graph.node.iter().enumerate() {
        let Some((input, output)) = passes_on(node) else {
            continue;
        };
        let input = substitution.read(input).to_string();
        if substitution.allows(output, &input, &scope) {
            substitution.replace(output, &input, &scope);
            marked[index] = true;
        }
    }
    substitution.apply(graph);
    remove_marked(graph, &marked)
}
