//! Messages that are checked apart from their model.

use super::attributes::{self, Declared};
use super::types::{self, Role};
use super::{
    Context, NEWEST_IR_VERSION, Opsets, Rules, encoded, functions, nesting, paged_cache, scope,
    sparse_tensors, tensors, value_infos,
};
use crate::bindings;
use crate::error::ModelError;
use crate::load::ExternalData;
use crate::path::{Path, Step};
use crate::struct_types::StructTypes;
use crate::uses;
use refeed_proto::{
    AttributeProto, EncodedValueProto, FunctionProto, GraphProto, NodeProto, PagedCacheProto,
    SparseTensorProto, StructTypeProto, TensorProto, ValueInfoProto,
};

/// Checks a part of a model by itself.
///
/// What only the model can tell is taken on trust: references to its struct types and quantization parameters, calls of its
/// functions, operator sets unless they are given. Tensors in other files are held to what they say of themselves unless a
/// folder is given.
///
/// ```
/// use refeed_graph::validate::PartVerifier;
/// use refeed_proto::{NodeProto, TensorProto};
/// let verifier = PartVerifier::default();
/// let scalar = TensorProto { data_type: Some(1), float_data: vec![0.5], ..Default::default() };
/// assert!(verifier.check_tensor(&scalar).is_ok());
/// let node = NodeProto { output: vec!["y".to_string()], ..Default::default() };
/// let error = verifier.check_node(&node).unwrap_err();
/// assert_eq!(error.to_string(), "node (): expected a name for the operator, got an empty one");
/// ```
#[derive(Debug)]
pub struct PartVerifier {
    rules: Rules,
    ir_version: i64,
    opsets: Option<Opsets>,
    root: bool,
    outer_names: Vec<String>,
    external: Option<ExternalData>,
}

impl Default for PartVerifier {
    /// The verifier's rules, the newest IR version, the root graph, any operator set.
    fn default() -> PartVerifier {
        PartVerifier::new(Rules::Verifier)
    }
}

impl PartVerifier {
    /// As [`PartVerifier::default`], with other rules.
    pub fn new(rules: Rules) -> PartVerifier {
        PartVerifier {
            rules,
            ir_version: NEWEST_IR_VERSION,
            opsets: None,
            root: true,
            outer_names: Vec::new(),
            external: None,
        }
    }

    /// Sets the IR version of the model.
    #[must_use]
    pub fn with_ir_version(mut self, version: i64) -> PartVerifier {
        self.ir_version = version;
        self
    }

    /// Sets the operator sets that the model imports, by domain.
    #[must_use]
    pub fn with_opset_imports(
        mut self,
        imports: impl IntoIterator<Item = (String, i64)>,
    ) -> PartVerifier {
        self.opsets = Some(Opsets::from_versions(imports));
        self
    }

    /// Adds values of the graph around a node or an attribute, which graphs nested in it may read.
    #[must_use]
    pub fn with_outer_names(mut self, names: impl IntoIterator<Item = String>) -> PartVerifier {
        self.outer_names.extend(names);
        self
    }

    /// Says that graphs and value infos belong to a graph that is nested in a node and sees the given values of the
    /// graphs around it.
    #[must_use]
    pub fn nested(self, outer_names: impl IntoIterator<Item = String>) -> PartVerifier {
        PartVerifier {
            root: false,
            ..self.with_outer_names(outer_names)
        }
    }

    /// Sets where tensors in other files are.
    #[must_use]
    pub fn with_external(mut self, external: ExternalData) -> PartVerifier {
        self.external = Some(external);
        self
    }

    fn context<'m>(&'m self, catalogue: &'m StructTypes) -> Context<'m> {
        Context {
            rules: self.rules,
            ir_version: self.ir_version,
            functions: None,
            external: self.external.as_ref(),
            catalogue,
            parameters: None,
        }
    }

    /// Checks a graph, its bindings included.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check_graph(&self, graph: &GraphProto) -> Result<(), ModelError> {
        let catalogue = StructTypes::deferred();
        let context = self.context(&catalogue);
        let at = Path::root("graph");
        nesting::check_nodes(&graph.node, &at)?;
        if !self.root {
            nesting::check_root_only(graph, &at)?;
            let (outer, opsets) = (&self.outer_names, self.opsets.as_ref());
            return scope::check_nested_graph(graph, &at, outer, opsets, &context);
        }
        let bindings = bindings::of_graph(graph, &graph.metadata_props, &catalogue)?;
        scope::check_graph(graph, &at, self.opsets.as_ref(), &context)?;
        uses::check_binding_uses(graph, &bindings.list, bindings.uses)?;
        Ok(())
    }

    /// Checks a function, by the operator sets that it imports itself; the checker compares them with those of the model.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check_function(&self, function: &FunctionProto) -> Result<(), ModelError> {
        let catalogue = StructTypes::deferred();
        let at = Path::of(Step::Function(function));
        nesting::check_nodes(&function.node, &at)?;
        functions::check_function(function, &at, &self.context(&catalogue))?;
        match &self.opsets {
            Some(opsets) if self.rules.is_checker() => {
                functions::check_compatibility(function, opsets, &at)
            }
            _ => Ok(()),
        }
    }

    /// Checks a node with everything nested in it. Its own inputs may come from anywhere.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check_node(&self, node: &NodeProto) -> Result<(), ModelError> {
        let catalogue = StructTypes::deferred();
        let at = Path::of(Step::LoneNode(node));
        for attribute in &node.attribute {
            nesting::check_attribute(attribute, &at.key("attribute", attribute.name()))?;
        }
        let (outer, opsets) = (&self.outer_names, self.opsets.as_ref());
        scope::check_node(node, &at, outer, opsets, &self.context(&catalogue))
    }

    /// Checks an attribute with everything nested in it.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check_attribute(&self, attribute: &AttributeProto) -> Result<(), ModelError> {
        let catalogue = StructTypes::deferred();
        let context = self.context(&catalogue);
        let at = Path::of(Step::Key("attribute", attribute.name()));
        nesting::check_attribute(attribute, &at)?;
        attributes::check(attribute, &at, Declared::Unknown, &context)?;
        let (outer, opsets) = (&self.outer_names, self.opsets.as_ref());
        scope::check_attribute(attribute, &at, outer, opsets, &context)
    }

    /// Checks a tensor.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check_tensor(&self, tensor: &TensorProto) -> Result<(), ModelError> {
        let catalogue = StructTypes::deferred();
        tensors::check_dense(tensor, &Path::root("tensor"), &self.context(&catalogue))
    }

    /// Checks a sparse tensor, positions included.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check_sparse_tensor(&self, sparse: &SparseTensorProto) -> Result<(), ModelError> {
        let catalogue = StructTypes::deferred();
        let at = Path::root("sparse_tensor");
        sparse_tensors::check(sparse, &at, &self.context(&catalogue))
    }

    /// Checks a graph input or output.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check_value_info(&self, value: &ValueInfoProto) -> Result<(), ModelError> {
        let catalogue = StructTypes::deferred();
        let at = Path::root("value_info");
        value_infos::check_value(value, self.root, &at, &self.context(&catalogue))
    }

    /// Checks an encoded value.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check_encoded_value(&self, value: &EncodedValueProto) -> Result<(), ModelError> {
        let catalogue = StructTypes::deferred();
        encoded::check(
            value,
            &Path::root("encoded_value"),
            &self.context(&catalogue),
        )
    }

    /// Checks a paged cache: its pages, and each against those before it.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check_paged_cache(&self, cache: &PagedCacheProto) -> Result<(), ModelError> {
        let catalogue = StructTypes::deferred();
        let at = Path::root("paged_cache");
        paged_cache::check_apart(cache, &at, &self.context(&catalogue))
    }

    /// Checks a struct type that is declared outside the model's catalogue.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check_struct_type(&self, declared: &StructTypeProto) -> Result<(), ModelError> {
        let at = Path::root("struct_type");
        let found = types::walk_struct(declared, Role::Declared, &at)?;
        Ok(StructTypes::deferred().check(&found)?)
    }
}
