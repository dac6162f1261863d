//! Other nodes and other values in the place of those that are there.

use super::GraphBuilder;
use super::error::BuildError;
use super::names::Origin;
use super::order::{needed, order, reads};
use super::rename::Renaming;
use super::substitute::Fixed;
use super::walk::nested_in;
use crate::validate::check_nesting;
use crate::{place, uses};
use refeed_proto::NodeProto;
use std::collections::{HashMap, HashSet};

impl GraphBuilder {
    /// Lets every reader of the value `old` read `new` instead, nested graphs included, and puts the nodes in an order that
    /// allows it. Says how many nodes were changed.
    ///
    /// The nodes that `new` itself is computed from keep reading `old`, so a node can be put behind a value:
    ///
    /// ```
    /// # use refeed_graph::builder::{GraphBuilder, NewNode};
    /// # use refeed_proto::{TypeProto, type_proto};
    /// # let float = || TypeProto {
    /// #     value: Some(type_proto::Value::TensorType(type_proto::Tensor { elem_type: Some(1), shape: None })),
    /// #     ..TypeProto::default()
    /// # };
    /// # let mut builder = GraphBuilder::new("g");
    /// builder.make_input("x", float())?;
    /// builder.make_node(NewNode::new("Neg").inputs(["x"]).output("y"))?;
    /// builder.make_output("y", float())?;
    /// builder.make_node(NewNode::new("Abs").inputs(["x"]).output("positive"))?;
    /// assert_eq!(builder.replace_all_uses("x", "positive")?, 1);
    /// assert_eq!(builder.graph().node[0].op_type(), "Abs");
    /// assert_eq!(builder.graph().node[1].input, ["positive"]);
    /// # Ok::<(), refeed_graph::builder::BuildError>(())
    /// ```
    ///
    /// A graph output keeps its name and its value: it is no reader. Bindings name inputs and outputs, so they stay too.
    ///
    /// # Errors
    /// [`BuildError::Missing`] when the root graph does not define one of the two; [`BuildError::Hidden`] when a nested
    /// graph that reads `old` has a value `new` of its own.
    pub fn replace_all_uses(&mut self, old: &str, new: &str) -> Result<usize, BuildError> {
        for name in [old, new] {
            if self.names.origin(name).is_none() {
                return Err(BuildError::Missing {
                    what: "value",
                    name: name.to_string(),
                });
            }
        }
        if old == new {
            return Ok(0);
        }
        let graph = self.graph();
        let mut keeps = needed(graph, [new], &HashSet::new());
        for (index, node) in graph.node.iter().enumerate() {
            keeps[index] = keeps[index] || !reads(node).any(|name| name == old);
            if !keeps[index]
                && nested_in([node])
                    .into_iter()
                    .flat_map(uses::definitions)
                    .any(|name| name == new)
            {
                return Err(BuildError::Hidden {
                    at: place::node(index, node),
                    name: new.to_string(),
                });
            }
        }
        let uses = HashMap::from([(old.to_string(), new.to_string())]);
        let renaming = Renaming {
            uses: &uses,
            definitions: &HashMap::new(),
            outputs: false,
        };
        let mut changed = 0;
        for (node, keeps) in self.graph_mut().node.iter_mut().zip(keeps) {
            if !keeps {
                renaming.apply_to_node(node);
                changed += 1;
            }
        }
        // What `new` needs never needs a node that was changed, so an order exists.
        let list: Vec<&NodeProto> = self.graph().node.iter().collect();
        let order = order(&list).map_err(|cycle| BuildError::Cycle { cycle })?;
        self.arrange(&order);
        self.names.read(&self.model);
        Ok(changed)
    }

    fn arrange(&mut self, order: &[usize]) {
        if order.is_sorted() {
            return;
        }
        let nodes = &mut self.graph_mut().node;
        let mut taken: Vec<NodeProto> = std::mem::take(nodes);
        nodes.extend(order.iter().map(|&index| std::mem::take(&mut taken[index])));
    }

    /// Puts a node in the place of the one at `index`. One without outputs takes over those of the node that it replaces.
    ///
    /// # Errors
    /// As [`GraphBuilder::replace_nodes`].
    pub fn replace_node(&mut self, index: usize, mut node: NodeProto) -> Result<(), BuildError> {
        if node.output.is_empty()
            && let Some(replaced) = self.graph().node.get(index)
        {
            node.output.clone_from(&replaced.output);
        }
        self.replace_nodes(&[index], vec![node])
    }

    /// Takes a node away, when nothing reads what it makes.
    ///
    /// # Errors
    /// As [`GraphBuilder::replace_nodes`].
    pub fn remove_node(&mut self, index: usize) -> Result<(), BuildError> {
        self.replace_nodes(&[index], Vec::new())
    }

    /// Takes the nodes at `removed` away and puts `added` in their place, in an order in which each node stands after what
    /// it needs. The new nodes may make values that removed ones made, and must make those that are still read.
    ///
    /// # Errors
    /// [`BuildError::Missing`] for a position that is not there, [`BuildError::NameTaken`] or [`BuildError::Duplicate`] for
    /// an output that another node makes, [`BuildError::Undefined`] and [`BuildError::StillUsed`] for values that nothing
    /// would make, [`BuildError::Cycle`] when the new nodes need what needs them.
    pub fn replace_nodes(
        &mut self,
        removed: &[usize],
        added: Vec<NodeProto>,
    ) -> Result<(), BuildError> {
        let graph = self.graph();
        let mut gone = vec![false; graph.node.len()];
        for &index in removed {
            match gone.get_mut(index) {
                Some(gone) => *gone = true,
                None => {
                    return Err(BuildError::Missing {
                        what: "node",
                        name: index.to_string(),
                    });
                }
            }
        }
        check_nesting(&added)?;
        let mut made: HashSet<&str> = HashSet::new();
        for node in &added {
            if node.op_type().is_empty() {
                return Err(BuildError::Unnamed {
                    what: "the operator of a node",
                });
            }
            for name in node.output.iter().filter(|name| !name.is_empty()) {
                let freed = self.producer(name).is_some_and(|index| gone[index]);
                if !freed {
                    self.check_new("output", name)?;
                }
                if !made.insert(name) {
                    return Err(BuildError::Duplicate {
                        what: "output",
                        name: name.clone(),
                    });
                }
            }
        }
        // Whether a value is there afterwards.
        let defined = |name: &str| match self.names.origin(name) {
            Some(Origin::Given) => true,
            Some(Origin::Node(index)) if !gone[index] => true,
            _ => made.contains(name),
        };
        for (index, node) in added.iter().enumerate() {
            if let Some(name) = reads(node).find(|name| !defined(name)) {
                return Err(BuildError::Undefined {
                    at: place::node(index, node),
                    name: name.to_string(),
                });
            }
        }
        for (index, node) in graph
            .node
            .iter()
            .enumerate()
            .filter(|(index, _)| !gone[*index])
        {
            if let Some(name) = reads(node).find(|name| !defined(name)) {
                return Err(BuildError::StillUsed {
                    name: name.to_string(),
                    reader: place::node(index, node),
                });
            }
        }
        let fixed = Fixed::of(&self.model).kept;
        let fixed = fixed
            .iter()
            .map(|name| (name.as_str(), "an annotation or a training step"));
        let outputs = graph
            .output
            .iter()
            .map(|output| (output.name(), "a graph output"));
        for (name, reader) in outputs.chain(fixed) {
            if !defined(name) && self.names.origin(name).is_some() {
                return Err(BuildError::StillUsed {
                    name: name.to_string(),
                    reader: reader.to_string(),
                });
            }
        }
        // The new nodes stand where the first removed one stood, then the order is made right.
        let at = gone.iter().position(|&gone| gone).unwrap_or(gone.len());
        let kept = |range: std::ops::Range<usize>| {
            let gone = &gone;
            range.filter(move |&index| !gone[index])
        };
        let mut list: Vec<&NodeProto> = kept(0..at).map(|index| &graph.node[index]).collect();
        list.extend(&added);
        list.extend(kept(at..gone.len()).map(|index| &graph.node[index]));
        let order = order(&list).map_err(|cycle| BuildError::Cycle { cycle })?;

        let nodes = &mut self.graph_mut().node;
        let mut old = std::mem::take(nodes);
        let tail = old.split_off(at);
        nodes.extend(old);
        nodes.extend(added);
        nodes.extend(
            tail.into_iter()
                .zip(&gone[at..])
                .filter(|(_, gone)| !**gone)
                .map(|(node, _)| node),
        );
        self.arrange(&order);
        self.names.read(&self.model);
        // A declared type is a promise to the readers, which new nodes have to keep; that of a lost value is nothing.
        let names = &self.names;
        if let Some(graph) = &mut self.model.graph {
            graph
                .value_info
                .retain(|info| names.origin(info.name()).is_some());
        }
        Ok(())
    }
}
