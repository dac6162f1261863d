//! Building and editing graphs.
//!
//! A [`GraphBuilder`] starts from nothing or from a model, and ends as a validated [`Model`]. Between the two, its edits
//! keep what belongs together together: a renamed graph input takes its persistent binding along, a pass that removes
//! nodes keeps every graph input and output, and an export that would lose a declaration is refused and says which.
//! Payloads are shared, never copied, by every edit; what is copied is structure.
//!
//! An edit is done whole or refused whole. Nested graphs are followed with their scopes: a graph that defines a name
//! itself means its own value by it. Function bodies are scopes of their own and are left as they are.
//!
//! ```
//! use refeed_graph::builder::{GraphBuilder, NewNode};
//! use refeed_proto::{PersistentBindingProto, TypeProto, type_proto};
//!
//! let float = TypeProto {
//!     value: Some(type_proto::Value::TensorType(type_proto::Tensor { elem_type: Some(1), shape: None })),
//!     ..TypeProto::default()
//! };
//! let mut builder = GraphBuilder::new("running_sum");
//! builder.make_input("past", float.clone())?;
//! builder.make_input("delta", float.clone())?;
//! builder.make_node(NewNode::new("Add").inputs(["past", "delta"]).output("present"))?;
//! builder.make_output("present", float)?;
//! builder.make_persistent_binding(PersistentBindingProto {
//!     input_name: Some("past".into()),
//!     output_name: Some("present".into()),
//!     ..PersistentBindingProto::default()
//! });
//! builder.rename_value("past", "sum")?;
//! assert_eq!(builder.to_model()?.bindings()[0].input.as_ref(), "sum");
//! # Ok::<(), refeed_graph::builder::BuildError>(())
//! ```

mod declare;
mod duplicates;
mod error;
mod export;
mod extract;
mod files;
mod identity;
mod merge;
mod names;
mod node;
mod order;
mod rename;
mod replace;
mod substitute;
#[cfg(test)]
mod tests;
mod unused;
mod walk;

pub use error::{BuildError, Loss};
pub use export::NEWEST_OPSET;
pub use node::{NewNode, Output};

use crate::error::ModelError;
use crate::load::{ExternalData, LoadOptions};
use crate::model::Model;
use crate::validate::{NEWEST_IR_VERSION, check_nesting};
use crate::{ops, place, uses};
use names::{Names, Origin};
use refeed_proto::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto};
use rename::Renaming;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A graph that is being built or edited.
#[derive(Debug, Clone)]
pub struct GraphBuilder {
    /// Always with a graph.
    model: ModelProto,
    external: Arc<ExternalData>,
    names: Names,
    /// Whether versions that are not stated are the builder's to choose.
    from_nothing: bool,
}

impl GraphBuilder {
    /// An empty graph of this name.
    pub fn new(name: impl Into<String>) -> GraphBuilder {
        let graph = GraphProto {
            name: Some(name.into()),
            ..GraphProto::default()
        };
        let model = ModelProto {
            graph: Some(graph),
            producer_name: Some("refeed".to_string()),
            producer_version: Some(env!("CARGO_PKG_VERSION").to_string()),
            ..ModelProto::default()
        };
        GraphBuilder {
            names: Names::of(&model),
            model,
            external: Arc::new(ExternalData::none()),
            from_nothing: true,
        }
    }

    /// A builder that starts from a loaded model, whose payloads it shares.
    pub fn from_model(model: &Model) -> GraphBuilder {
        GraphBuilder {
            names: Names::of(model.proto()),
            model: model.proto().clone(),
            external: Arc::clone(model.external_handle()),
            from_nothing: false,
        }
    }

    /// A builder that starts from a model message, which is validated first.
    ///
    /// # Errors
    /// As [`Model::from_proto`]: also a binding that names what is no graph input or output.
    pub fn from_proto(
        proto: ModelProto,
        options: &LoadOptions,
    ) -> Result<GraphBuilder, ModelError> {
        Ok(GraphBuilder::from_model(&Model::from_proto(
            proto, options,
        )?))
    }

    /// The graph as it is now, not validated.
    pub fn graph(&self) -> &GraphProto {
        // Both constructors set it, and no edit takes it away.
        self.model.graph.as_ref().expect("a builder has a graph")
    }

    fn graph_mut(&mut self) -> &mut GraphProto {
        self.model.graph.get_or_insert_default()
    }

    /// The message as it is now, not validated.
    pub fn proto(&self) -> &ModelProto {
        &self.model
    }

    /// Whether a value of this name was ever in the model, in whatever scope. [`GraphBuilder::fresh_name`] avoids such
    /// names.
    pub fn has_name(&self, name: &str) -> bool {
        self.names.is_taken(name)
    }

    /// Whether the root graph defines a value of this name.
    pub fn has_value(&self, name: &str) -> bool {
        self.names.origin(name).is_some()
    }

    /// A name that no value of the model has or had: `stem`, or `stem_1`, `stem_2` and so on. It is not given twice.
    pub fn fresh_name(&mut self, stem: &str) -> String {
        self.names.fresh(stem)
    }

    /// Position of the node that makes a value; `None` for graph inputs, initializers and names that are not there.
    pub fn producer(&self, value: &str) -> Option<usize> {
        match self.names.origin(value) {
            Some(Origin::Node(index)) => Some(index),
            _ => None,
        }
    }

    /// Imports an operator set, in place of the version that was imported before.
    ///
    /// # Errors
    /// [`BuildError::Version`] when the version is below 1.
    pub fn set_opset(&mut self, domain: &str, version: i64) -> Result<(), BuildError> {
        if version < 1 {
            return Err(BuildError::Version {
                what: format!("opset version of domain `{}`", place::shown_domain(domain)),
                expected: "1 or more".to_string(),
                got: version,
            });
        }
        let domain = place::domain(domain);
        let imports = &mut self.model.opset_import;
        match imports
            .iter_mut()
            .find(|held| place::domain(held.domain()) == domain)
        {
            Some(held) => held.version = Some(version),
            None => imports.push(OperatorSetIdProto {
                domain: Some(domain.to_string()),
                version: Some(version),
            }),
        }
        Ok(())
    }

    /// The imported version of a domain; `""` and `ai.onnx` are the same.
    pub fn opset(&self, domain: &str) -> Option<i64> {
        let domain = place::domain(domain);
        let imports = &self.model.opset_import;
        let found = imports
            .iter()
            .find(|held| place::domain(held.domain()) == domain);
        found.map(OperatorSetIdProto::version)
    }

    /// States the IR version.
    ///
    /// # Errors
    /// [`BuildError::Version`] when it is no version that refeed reads.
    pub fn set_ir_version(&mut self, version: i64) -> Result<(), BuildError> {
        if !(1..=NEWEST_IR_VERSION).contains(&version) {
            return Err(BuildError::Version {
                what: "IR version".to_string(),
                expected: format!("1 to {NEWEST_IR_VERSION}"),
                got: version,
            });
        }
        self.model.ir_version = Some(version);
        Ok(())
    }

    /// Adds a node at the end, and gives the names of its outputs; omitted ones are empty.
    ///
    /// # Errors
    /// [`BuildError::Undefined`] when it, or a graph in it, reads what the root graph does not define;
    /// [`BuildError::NameTaken`] when an output's name is in use; a limit when its graphs are nested too deep.
    pub fn make_node(&mut self, node: impl Into<NewNode>) -> Result<Vec<String>, BuildError> {
        let NewNode { mut node, outputs } = node.into();
        if node.op_type().is_empty() {
            return Err(BuildError::Unnamed {
                what: "the operator of a node",
            });
        }
        let at = self.graph().node.len();
        check_nesting(std::slice::from_ref(&node))?;
        self.check_reads(&node, at)?;
        let outputs = if outputs.is_empty() {
            vec![Output::Fresh; self.usual_outputs(&node)]
        } else {
            outputs
        };
        let mut named = HashSet::new();
        for name in outputs.iter().filter_map(|output| match output {
            Output::Named(name) => Some(name),
            _ => None,
        }) {
            self.check_new("output", name)?;
            if !named.insert(name.as_str()) {
                return Err(BuildError::Duplicate {
                    what: "output",
                    name: name.clone(),
                });
            }
        }
        // Names that the caller chose and those of nested graphs come before those that are made up.
        for graph in walk::nested_in(std::slice::from_ref(&node)) {
            self.names.take_all(graph);
        }
        for name in named {
            self.names.define(name, Origin::Node(at));
        }
        for output in outputs {
            node.output.push(match output {
                Output::Named(name) => name,
                Output::Omitted => String::new(),
                Output::Fresh => {
                    let name = self
                        .names
                        .fresh(node.op_type.as_deref().unwrap_or_default());
                    self.names.define(&name, Origin::Node(at));
                    name
                }
            });
        }
        let names = node.output.clone();
        self.graph_mut().node.push(node);
        Ok(names)
    }

    /// How many outputs a node has about which nothing is said: those that its function has or its operator must have.
    fn usual_outputs(&self, node: &NodeProto) -> usize {
        let (domain, name) = (place::domain(node.domain()), node.op_type());
        let mut functions = self.model.functions.iter();
        let called = functions.find(|held| {
            place::domain(held.domain()) == domain
                && held.name() == name
                && held.overload() == node.overload()
        });
        let schema = || ops::schema(domain, name).map(|schema| schema.outputs.min);
        called
            .map(|function| function.output.len())
            .or_else(schema)
            .unwrap_or(1)
            .max(1)
    }

    /// Holds a node that is to be added to the values that are there.
    fn check_reads(&self, node: &NodeProto, index: usize) -> Result<(), BuildError> {
        for name in order::reads(node) {
            if self.names.origin(name).is_none() {
                return Err(BuildError::Undefined {
                    at: place::node(index, node),
                    name: name.to_string(),
                });
            }
        }
        Ok(())
    }

    /// Refuses an empty name and one that a value of the model has.
    fn check_new(&self, what: &'static str, name: &str) -> Result<(), BuildError> {
        if name.is_empty() {
            return Err(BuildError::Unnamed { what });
        }
        let by = match self.names.origin(name) {
            None if !self.names.is_taken(name) => return Ok(()),
            // A name of a nested graph, or of a value that is gone.
            None if !names::in_use(&self.model).contains(name) => return Ok(()),
            None => "a value of a nested graph".to_string(),
            Some(Origin::Node(index)) => place::node(index, &self.graph().node[index]),
            Some(Origin::Given) => "a graph input or an initializer".to_string(),
        };
        Err(BuildError::NameTaken {
            what,
            name: name.to_string(),
            by,
        })
    }

    /// Renames a value of the root graph wherever it is named: by nodes, by nested graphs that take it from outside, by
    /// declarations, annotations, bindings and their policies. See [`GraphBuilder::rename_values`].
    ///
    /// # Errors
    /// As [`GraphBuilder::rename_values`].
    pub fn rename_value(&mut self, old: &str, new: &str) -> Result<(), BuildError> {
        self.rename_values([(old, new)])
    }

    /// Renames values of the root graph at once, so that names may be swapped. A nested graph that has its own value of
    /// an old name keeps it.
    ///
    /// # Errors
    /// [`BuildError::Missing`] for an old name that the root graph does not define, [`BuildError::Duplicate`] for one
    /// that is given twice, and [`BuildError::NameTaken`] for a new name that any value of the model keeps.
    pub fn rename_values<'n>(
        &mut self,
        pairs: impl IntoIterator<Item = (&'n str, &'n str)>,
    ) -> Result<(), BuildError> {
        let mut map: HashMap<String, String> = HashMap::new();
        let mut news: HashSet<&str> = HashSet::new();
        for (old, new) in pairs {
            if self.names.origin(old).is_none() {
                return Err(BuildError::Missing {
                    what: "value",
                    name: old.to_string(),
                });
            }
            if new.is_empty() {
                return Err(BuildError::Unnamed { what: "new name" });
            }
            if map.insert(old.to_string(), new.to_string()).is_some() {
                return Err(BuildError::Duplicate {
                    what: "name to be changed",
                    name: old.to_string(),
                });
            }
            if !news.insert(new) {
                return Err(BuildError::Duplicate {
                    what: "new name",
                    name: new.to_string(),
                });
            }
        }
        map.retain(|old, new| old != new);
        if map.is_empty() {
            return Ok(());
        }
        // A name that is given up by a rename is free, unless a nested graph has a value of that name too.
        let nested: HashSet<&str> = names::nested_of(&self.model)
            .into_iter()
            .flat_map(uses::definitions)
            .collect();
        for new in map.values() {
            let kept = self.names.origin(new).is_some() && !map.contains_key(new);
            if kept || nested.contains(new.as_str()) {
                let by = if kept {
                    "another value"
                } else {
                    "a value of a nested graph"
                };
                return Err(BuildError::NameTaken {
                    what: "new name",
                    name: new.clone(),
                    by: by.to_string(),
                });
            }
        }
        let renaming = Renaming {
            uses: &map,
            definitions: &map,
            outputs: true,
        };
        renaming.apply_to_model(&mut self.model);
        self.names.read(&self.model);
        Ok(())
    }
}
