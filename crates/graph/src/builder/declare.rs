//! What a graph declares: inputs, outputs, initializers of every kind, struct types, functions, bindings.

use super::GraphBuilder;
use super::error::BuildError;
use super::names::Origin;
use super::node::NewNode;
use crate::place;
use crate::publish::PUBLISH_PREFIX;
use refeed_proto::tensor_shape_proto::{Dimension, dimension};
use refeed_proto::type_proto::{self, Value};
use refeed_proto::{
    EncodedValueProto, FunctionProto, GraphProto, PagedCacheProto, PersistentBindingProto,
    SparseTensorProto, StructTypeProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto,
    encoded_value_proto,
};

impl GraphBuilder {
    /// Adds a graph input.
    ///
    /// # Errors
    /// When the name is empty or in use.
    pub fn make_input(&mut self, name: &str, ty: TypeProto) -> Result<(), BuildError> {
        self.make_input_info(ValueInfoProto {
            name: Some(name.to_string()),
            r#type: Some(ty),
            ..ValueInfoProto::default()
        })
    }

    /// Adds a graph input by its whole declaration. An initializer of its name becomes its default.
    ///
    /// # Errors
    /// When the name is empty or in use, or the declaration has no type.
    pub fn make_input_info(&mut self, info: ValueInfoProto) -> Result<(), BuildError> {
        let name = info.name();
        if self.graph().input.iter().any(|input| input.name() == name) {
            return Err(BuildError::Duplicate {
                what: "graph input",
                name: name.to_string(),
            });
        }
        if !self.is_initializer(name) {
            self.check_new("graph input", name)?;
        }
        if info.r#type.is_none() {
            return Err(BuildError::NoType {
                what: "graph input",
                name: name.to_string(),
            });
        }
        self.names.define(name, Origin::Given);
        self.graph_mut().input.push(info);
        Ok(())
    }

    /// Declares a value of the root graph to be a graph output.
    ///
    /// # Errors
    /// When no such value is there, or it is an output already.
    pub fn make_output(&mut self, name: &str, ty: TypeProto) -> Result<(), BuildError> {
        self.make_output_info(ValueInfoProto {
            name: Some(name.to_string()),
            r#type: Some(ty),
            ..ValueInfoProto::default()
        })
    }

    /// Declares a graph output by its whole declaration. One without a type gets, at export, the type that the graph
    /// says the value has.
    ///
    /// # Errors
    /// As [`GraphBuilder::make_output`].
    pub fn make_output_info(&mut self, info: ValueInfoProto) -> Result<(), BuildError> {
        let name = info.name();
        if name.is_empty() {
            return Err(BuildError::Unnamed {
                what: "graph output",
            });
        }
        if self.names.origin(name).is_none() {
            return Err(BuildError::Undefined {
                at: "graph output".to_string(),
                name: name.to_string(),
            });
        }
        if self
            .graph()
            .output
            .iter()
            .any(|output| output.name() == name)
        {
            return Err(BuildError::Duplicate {
                what: "graph output",
                name: name.to_string(),
            });
        }
        self.graph_mut().output.push(info);
        Ok(())
    }

    /// Takes a graph input away. When a binding names it, export is refused until the binding is changed too.
    ///
    /// # Errors
    /// [`BuildError::Missing`] when there is none; [`BuildError::StillUsed`] when something reads it and no initializer
    /// is there in its place.
    pub fn remove_input(&mut self, name: &str) -> Result<ValueInfoProto, BuildError> {
        let at = self
            .graph()
            .input
            .iter()
            .position(|input| input.name() == name);
        let Some(at) = at else {
            return Err(BuildError::Missing {
                what: "input",
                name: name.to_string(),
            });
        };
        if !self.is_initializer(name)
            && let Some(reader) = self.first_reader(name)
        {
            return Err(BuildError::StillUsed {
                name: name.to_string(),
                reader,
            });
        }
        let removed = self.graph_mut().input.remove(at);
        self.names.read(&self.model);
        Ok(removed)
    }

    /// Takes a graph output away; the value stays. When a binding names it, export is refused until the binding is
    /// changed too.
    ///
    /// # Errors
    /// [`BuildError::Missing`] when there is none.
    pub fn remove_output(&mut self, name: &str) -> Result<ValueInfoProto, BuildError> {
        let at = self
            .graph()
            .output
            .iter()
            .position(|output| output.name() == name);
        match at {
            Some(at) => Ok(self.graph_mut().output.remove(at)),
            None => Err(BuildError::Missing {
                what: "output",
                name: name.to_string(),
            }),
        }
    }

    fn is_initializer(&self, name: &str) -> bool {
        self.names.origin(name) == Some(Origin::Given)
            && crate::uses::initializer_names(self.graph()).any(|held| held == name)
    }

    /// The name of a new initializer: that of a graph input, whose default it becomes, or one that is not in use.
    fn initializer_name(
        &mut self,
        what: &'static str,
        name: Option<&str>,
        stem: &str,
    ) -> Result<String, BuildError> {
        let name = match name {
            None | Some("") => self.names.fresh(stem),
            Some(name) => {
                if self.is_initializer(name) {
                    return Err(BuildError::Duplicate {
                        what: "initializer",
                        name: name.to_string(),
                    });
                }
                let is_input = self.graph().input.iter().any(|input| input.name() == name);
                if !is_input {
                    self.check_new(what, name)?;
                }
                name.to_string()
            }
        };
        self.names.define(&name, Origin::Given);
        Ok(name)
    }

    /// Adds an initializer, whose payload is shared, and gives its name: its own, or a new one when it has none. One with
    /// the name of a graph input is that input's default.
    ///
    /// # Errors
    /// When the name is that of another value or initializer.
    pub fn make_initializer(&mut self, mut tensor: TensorProto) -> Result<String, BuildError> {
        let name = self.initializer_name("initializer", tensor.name.as_deref(), "initializer")?;
        tensor.name = Some(name.clone());
        self.graph_mut().initializer.push(tensor);
        Ok(name)
    }

    /// Adds a sparse initializer, as [`GraphBuilder::make_initializer`] does a dense one. Its name is that of its values.
    ///
    /// # Errors
    /// As [`GraphBuilder::make_initializer`].
    pub fn make_sparse_initializer(
        &mut self,
        mut tensor: SparseTensorProto,
    ) -> Result<String, BuildError> {
        let held = tensor
            .values
            .as_ref()
            .and_then(|values| values.name.as_deref());
        let name = self.initializer_name("sparse initializer", held, "sparse_initializer")?;
        tensor.values.get_or_insert_default().name = Some(name.clone());
        self.graph_mut().sparse_initializer.push(tensor);
        Ok(name)
    }

    /// Adds an encoded initializer, as [`GraphBuilder::make_initializer`] does a dense one.
    ///
    /// # Errors
    /// As [`GraphBuilder::make_initializer`].
    pub fn make_encoded_initializer(
        &mut self,
        mut value: EncodedValueProto,
    ) -> Result<String, BuildError> {
        let name = self.initializer_name(
            "encoded initializer",
            value.name.as_deref(),
            "encoded_initializer",
        )?;
        value.name = Some(name.clone());
        self.graph_mut().encoded_initializer.push(value);
        Ok(name)
    }

    /// Adds a paged cache as an initializer. With the name of a graph input it is that input's default, which a caller
    /// may override; otherwise it is a constant of the graph. Its pages are checked at export.
    ///
    /// # Errors
    /// As [`GraphBuilder::make_initializer`].
    pub fn make_paged_cache_initializer(
        &mut self,
        mut cache: PagedCacheProto,
    ) -> Result<String, BuildError> {
        let name = self.initializer_name(
            "paged cache initializer",
            cache.name.as_deref(),
            "paged_cache_initializer",
        )?;
        cache.name = Some(name.clone());
        self.graph_mut().paged_cache_initializer.push(cache);
        Ok(name)
    }

    /// The paged caches that the graph holds.
    pub fn paged_cache_initializers(&self) -> &[PagedCacheProto] {
        &self.graph().paged_cache_initializer
    }

    /// The encoded values that the graph holds.
    pub fn encoded_initializers(&self) -> &[EncodedValueProto] {
        &self.graph().encoded_initializer
    }

    /// Adds a Constant node with this value, whose payload is shared, and gives the name of its output: the tensor's name,
    /// or a new one when it has none.
    ///
    /// # Errors
    /// When the name is in use.
    pub fn make_constant(&mut self, mut tensor: TensorProto) -> Result<String, BuildError> {
        let node = NewNode::new("Constant");
        let node = match tensor.name.take().filter(|name| !name.is_empty()) {
            Some(name) => node.output(name),
            None => node,
        };
        let mut outputs = self.make_node(node.tensor("value", tensor))?;
        Ok(outputs.pop().unwrap_or_default())
    }

    /// Adds a declaration to the model's catalogue of struct types. References to it are checked at export.
    ///
    /// # Errors
    /// When it has no nonzero `type_id`, or one that is in the catalogue.
    pub fn make_struct_type(&mut self, declared: StructTypeProto) -> Result<u64, BuildError> {
        let id = declared.type_id();
        if id == 0 {
            return Err(BuildError::Version {
                what: "type_id of a struct type".to_string(),
                expected: "a nonzero identity".to_string(),
                got: 0,
            });
        }
        if self
            .model
            .struct_types
            .iter()
            .any(|held| held.type_id() == id)
        {
            return Err(BuildError::Duplicate {
                what: "struct type",
                name: id.to_string(),
            });
        }
        self.model.struct_types.push(declared);
        Ok(id)
    }

    /// The model's catalogue of struct types.
    pub fn struct_types(&self) -> &[StructTypeProto] {
        &self.model.struct_types
    }

    /// Adds a model-local function.
    ///
    /// # Errors
    /// When one of its domain, name and overload is there, or graphs in it are nested too deep.
    pub fn make_function(&mut self, function: FunctionProto) -> Result<(), BuildError> {
        crate::validate::check_nesting(&function.node)?;
        let key = |function: &FunctionProto| {
            (
                place::domain(function.domain()).to_string(),
                function.name().to_string(),
                function.overload().to_string(),
            )
        };
        let new = key(&function);
        if self.model.functions.iter().any(|held| key(held) == new) {
            return Err(BuildError::Duplicate {
                what: "function",
                name: place::function(&function),
            });
        }
        self.model.functions.push(function);
        Ok(())
    }

    /// Adds a persistent binding. Its names and types, and that nothing is bound twice, are checked at export: the values
    /// need not be there yet.
    pub fn make_persistent_binding(&mut self, binding: PersistentBindingProto) {
        self.graph_mut().persistent_bindings.push(binding);
    }

    /// The persistent bindings, in the order of declaration.
    pub fn persistent_bindings(&self) -> &[PersistentBindingProto] {
        &self.graph().persistent_bindings
    }

    /// Takes away the binding of an input, and its policy.
    ///
    /// # Errors
    /// [`BuildError::Missing`] when the input has none.
    pub fn remove_persistent_binding(
        &mut self,
        input: &str,
    ) -> Result<PersistentBindingProto, BuildError> {
        let bindings = &mut self.graph_mut().persistent_bindings;
        let Some(at) = bindings.iter().position(|held| held.input_name() == input) else {
            return Err(BuildError::Missing {
                what: "persistent binding of input",
                name: input.to_string(),
            });
        };
        let removed = bindings.remove(at);
        let policy = format!("{PUBLISH_PREFIX}{input}");
        self.graph_mut()
            .metadata_props
            .retain(|entry| entry.key() != policy);
        self.model
            .metadata_props
            .retain(|entry| entry.key() != policy);
        Ok(removed)
    }

    /// The type that the graph says a value of the root graph has: declared, or that of an initializer, or that of the
    /// value that `Identity` nodes pass on.
    pub fn value_type(&self, name: &str) -> Option<TypeProto> {
        let mut name = name;
        // Each step goes to an earlier node.
        for _ in 0..=self.graph().node.len() {
            if let Some(found) = declared_type(self.graph(), name) {
                return Some(found);
            }
            let node = &self.graph().node[self.producer(name)?];
            if node.op_type() != "Identity" || !place::domain(node.domain()).is_empty() {
                return None;
            }
            name = node.input_name(0)?;
        }
        None
    }
}

fn declared_type(graph: &GraphProto, name: &str) -> Option<TypeProto> {
    let infos = graph
        .output
        .iter()
        .chain(&graph.input)
        .chain(&graph.value_info);
    let mut declared = infos.filter(|info| info.name() == name);
    if let Some(found) = declared.find_map(|info| info.r#type.as_ref()) {
        return Some(found.clone());
    }
    let of_tensor = |tensor: &TensorProto, dims: &[i64], sparse: bool| {
        let dim = |&number: &i64| Dimension {
            value: Some(dimension::Value::DimValue(number)),
            denotation: None,
        };
        let shape = Some(TensorShapeProto {
            dim: dims.iter().map(dim).collect(),
        });
        let elem_type = tensor.data_type;
        let value = if sparse {
            Value::SparseTensorType(type_proto::SparseTensor { elem_type, shape })
        } else {
            Value::TensorType(type_proto::Tensor { elem_type, shape })
        };
        TypeProto {
            denotation: None,
            value: Some(value),
        }
    };
    if let Some(tensor) = graph
        .initializer
        .iter()
        .find(|tensor| tensor.name() == name)
    {
        return Some(of_tensor(tensor, &tensor.dims, false));
    }
    for sparse in &graph.sparse_initializer {
        if let Some(values) = sparse
            .values
            .as_ref()
            .filter(|values| values.name() == name)
        {
            return Some(of_tensor(values, &sparse.dims, true));
        }
    }
    let encoded = graph
        .encoded_initializer
        .iter()
        .find(|value| value.name() == name);
    if let Some(value) = encoded {
        let stored = || match &value.layout {
            Some(encoded_value_proto::Layout::StructType(declared)) => {
                Some(of_struct(declared.clone()))
            }
            _ => None,
        };
        return value.logical_type.clone().or_else(stored);
    }
    let mut caches = graph.paged_cache_initializer.iter();
    caches
        .find(|cache| cache.name() == name)
        .map(|_| of_struct(StructTypeProto::default()))
}

fn of_struct(declared: StructTypeProto) -> TypeProto {
    TypeProto {
        denotation: None,
        value: Some(Value::StructType(Box::new(declared))),
    }
}
