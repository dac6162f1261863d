//! What a type rule reads of its node, and where it writes.

use super::InferError;
use crate::attributes::Attributes;
use crate::shape_inference::{ShapeValue, VALUE_LIMIT};
use crate::struct_types::StructTypes;
use crate::types::{Dim, TYPE_DEPTH_LIMIT, TensorType, ValueType};
use refeed_proto::struct_type_proto::Kind;
use refeed_proto::{GraphProto, StructTypeProto};
use refeed_values::{DType, MAX_RANK, Tensor};
use std::fmt;

/// Whoever can follow types into the nested graphs of a node.
pub trait EnterGraph {
    /// The types of a nested graph's outputs, given those of its inputs; `None` when the graph is not entered.
    ///
    /// # Errors
    /// When a node of the graph contradicts its operator.
    fn enter(
        &mut self,
        graph: &GraphProto,
        inputs: &[ValueType],
    ) -> Result<Option<Vec<ValueType>>, InferError>;
}

/// The input of a type rule, and where it writes.
pub struct Inference<'a> {
    /// The node's attributes; type rules may read any of them.
    pub attributes: &'a Attributes<'a>,
    /// Version of the node's domain that the model imports.
    pub opset: i64,
    inputs: &'a [Option<ValueType>],
    constants: &'a [Option<Tensor>],
    values: &'a [Option<ShapeValue>],
    graphs: Option<&'a mut dyn EnterGraph>,
    catalogue: Option<&'a StructTypes>,
    outputs: Vec<ValueType>,
    output_values: Vec<Option<ShapeValue>>,
}

impl fmt::Debug for Inference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inference")
            .field("opset", &self.opset)
            .field("inputs", &self.inputs)
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}

impl<'a> Inference<'a> {
    /// Prepares a node. `inputs[i]` is `None` for an absent optional input; `constants[i]` is the value of an input
    /// that is known before the first run.
    pub fn new(
        attributes: &'a Attributes<'a>,
        opset: i64,
        inputs: &'a [Option<ValueType>],
        constants: &'a [Option<Tensor>],
        outputs: usize,
    ) -> Inference<'a> {
        Inference {
            attributes,
            opset,
            inputs,
            constants,
            values: &[],
            graphs: None,
            catalogue: None,
            outputs: vec![ValueType::Unset; outputs],
            output_values: vec![None; outputs],
        }
    }

    /// Adds what is known of the elements of inputs that shape arithmetic made.
    pub fn with_values(self, values: &'a [Option<ShapeValue>]) -> Inference<'a> {
        Inference { values, ..self }
    }

    /// Adds who enters nested graphs.
    pub fn with_graphs(self, graphs: &'a mut dyn EnterGraph) -> Inference<'a> {
        let graphs = Some(graphs);
        Inference { graphs, ..self }
    }

    /// Adds the model's catalogue of struct types.
    pub fn with_catalogue(self, catalogue: &'a StructTypes) -> Inference<'a> {
        let catalogue = Some(catalogue);
        Inference { catalogue, ..self }
    }

    /// The declaration itself, or the one of the model's catalogue that it refers to; `None` when nobody here knows
    /// the catalogue.
    ///
    /// # Errors
    /// When the catalogue has no such entry.
    pub fn resolve_struct<'t>(
        &self,
        declared: &'t StructTypeProto,
    ) -> Result<Option<&'t StructTypeProto>, InferError>
    where
        'a: 't,
    {
        match (&declared.kind, self.catalogue) {
            (Some(Kind::TypeRef(_)), None) => Ok(None),
            (Some(Kind::TypeRef(id)), Some(catalogue)) => {
                let entry = catalogue.get(*id).ok_or_else(|| {
                    InferError::StructType(format!("{id} is not in the model's catalogue"))
                })?;
                Ok(Some(entry))
            }
            _ => Ok(Some(declared)),
        }
    }

    /// Whether an input is there and named.
    pub fn has(&self, index: usize) -> bool {
        matches!(self.inputs.get(index), Some(Some(_)))
    }

    /// Number of input positions, absent ones included.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// Number of outputs that the node names or skips.
    pub fn output_count(&self) -> usize {
        self.outputs.len()
    }

    /// The type of an input of any kind, when it is there; [`ValueType::Unset`] when nothing is known of it.
    pub fn input_type(&self, index: usize) -> Option<&'a ValueType> {
        self.inputs.get(index)?.as_ref()
    }

    /// The type of an input, when it is there and a tensor.
    pub fn input(&self, index: usize) -> Option<&'a TensorType> {
        self.input_type(index)?.tensor()
    }

    /// Element type of an input, when known.
    pub fn dtype(&self, index: usize) -> Option<DType> {
        self.input(index)?.dtype
    }

    /// Dimensions of an input, when its rank is known.
    pub fn shape(&self, index: usize) -> Option<&'a [Dim]> {
        self.input(index)?.shape.as_deref()
    }

    /// The error of an input that is of another kind than the operator takes: `unexpected_kind(0, "a sequence")`.
    pub fn unexpected_kind(&self, index: usize, expected: &'static str) -> InferError {
        let got = match self.input_type(index) {
            Some(ty) => ty.to_string(),
            None => "nothing".to_string(),
        };
        InferError::Kind {
            index,
            expected,
            got,
        }
    }

    /// The type of the elements of an input that is a sequence; `None` when its type is not known.
    ///
    /// # Errors
    /// When the input is something else.
    pub fn sequence_element(&self, index: usize) -> Result<Option<&'a ValueType>, InferError> {
        match self.input_type(index) {
            Some(ValueType::Sequence(element)) => Ok(Some(element)),
            Some(ValueType::Unset) | None => Ok(None),
            Some(_) => Err(self.unexpected_kind(index, "a sequence")),
        }
    }

    /// The value of an input that is known before the first run.
    pub fn constant(&self, index: usize) -> Option<&'a Tensor> {
        self.constants.get(index)?.as_ref()
    }

    /// A constant INT64 (or INT32) input as numbers, also when shape arithmetic made it.
    pub fn constant_ints(&self, index: usize) -> Option<Vec<i64>> {
        match self.constant(index) {
            Some(tensor) => match tensor.dtype() {
                DType::Int64 => Some(tensor.view::<i64>().ok()?.to_vec()),
                DType::Int32 => Some(tensor.view::<i32>().ok()?.iter().map(i64::from).collect()),
                _ => None,
            },
            None => self.values.get(index)?.as_ref()?.numbers(),
        }
    }

    /// What is known of the elements of an INT64 or INT32 input of no or one axis and few elements.
    pub fn value(&self, index: usize) -> Option<ShapeValue> {
        let Some(tensor) = self.constant(index) else {
            return self.values.get(index)?.clone();
        };
        let count: usize = match tensor.shape() {
            [] => 1,
            [count] => *count,
            _ => return None,
        };
        if count > VALUE_LIMIT {
            return None;
        }
        ShapeValue::from_numbers(self.constant_ints(index)?, tensor.shape().is_empty())
    }

    /// The shape that an input's value says: for each element a dimension, unknown when the element is. When only the
    /// length of the input is known, as many unknown dimensions.
    ///
    /// # Errors
    /// When an element is below 0.
    pub fn dims(&self, index: usize) -> Result<Option<Vec<Dim>>, InferError> {
        if let Some(value) = self.value(index) {
            let mut numbers = value.elements().iter().flatten();
            if let Some(number) = numbers.find_map(|e| e.constant().filter(|&n| n < 0)) {
                return Err(InferError::Shape(format!(
                    "input {index}: expected dimensions of at least 0, got {number}"
                )));
            }
            return Ok(Some(value.dims()));
        }
        Ok(self
            .length(index)
            .filter(|&rank| rank <= MAX_RANK)
            .map(|rank| vec![Dim::Unknown; rank]))
    }

    /// Number of elements of an input of one axis, when known.
    pub fn length(&self, index: usize) -> Option<usize> {
        match self.shape(index) {
            Some([Dim::Known(length)]) => Some(*length),
            _ => None,
        }
    }

    /// Sets an output's type to a tensor; outputs that the node does not have are passed over. A shape of more axes
    /// than a tensor may have is left unknown.
    pub fn set(&mut self, index: usize, dtype: Option<DType>, shape: Option<Vec<Dim>>) {
        self.set_type(index, ValueType::Tensor(TensorType { dtype, shape }));
    }

    /// Sets an output's type, of whatever kind; outputs that the node does not have are passed over. A type nested
    /// deeper than [`TYPE_DEPTH_LIMIT`] is left unset.
    pub fn set_type(&mut self, index: usize, mut ty: ValueType) {
        if let ValueType::Tensor(tensor) | ValueType::SparseTensor(tensor) = &mut ty
            && tensor.rank().is_some_and(|rank| rank > MAX_RANK)
        {
            tensor.shape = None;
        }
        if ty.depth() > TYPE_DEPTH_LIMIT {
            ty = ValueType::Unset;
        }
        if let Some(slot) = self.outputs.get_mut(index) {
            *slot = ty;
        }
    }

    /// Says what is known of the elements of an output that shape arithmetic makes.
    pub fn set_value(&mut self, index: usize, value: Option<ShapeValue>) {
        if let Some(slot) = self.output_values.get_mut(index) {
            *slot = value.filter(|value| !value.is_blank());
        }
    }

    /// Gives output 0 the type of input 0.
    pub fn same_as_input(&mut self) {
        let ty = self.input_type(0).cloned().unwrap_or_default();
        self.set_type(0, ty);
    }

    /// The types of the outputs of the nested graph in an attribute, given those of its inputs; `None` when nobody
    /// here enters nested graphs.
    ///
    /// # Errors
    /// When the attribute is missing or no graph, the graph takes another number of inputs, or something in it
    /// contradicts its operator.
    pub fn infer_graph(
        &mut self,
        attribute: &'static str,
        inputs: &[ValueType],
    ) -> Result<Option<Vec<ValueType>>, InferError> {
        let graph = self.attributes.required_graph(attribute)?;
        // Inputs that have an initializer are defaults of old models.
        let named = |name: &str| graph.initializer.iter().any(|held| held.name() == name);
        let takes = graph.input.iter().filter(|input| !named(input.name()));
        let got = takes.count();
        if got != inputs.len() {
            return Err(InferError::Graph {
                attribute,
                what: "inputs",
                expected: inputs.len().to_string(),
                got,
            });
        }
        match self.graphs.as_mut() {
            Some(graphs) => graphs.enter(graph, inputs),
            None => Ok(None),
        }
    }

    /// # Errors
    /// When the element types of the given inputs, as far as they are known, differ.
    pub fn same_dtype(
        &self,
        indices: impl IntoIterator<Item = usize>,
    ) -> Result<Option<DType>, InferError> {
        let mut held: Option<DType> = None;
        for index in indices {
            match (held, self.dtype(index)) {
                (Some(expected), Some(got)) if expected != got => {
                    return Err(InferError::DType {
                        index,
                        expected: expected.to_string(),
                        got,
                    });
                }
                (None, got) => held = got,
                _ => {}
            }
        }
        Ok(held)
    }

    /// The broadcast shape of the given inputs, as far as it can be told.
    ///
    /// # Errors
    /// When two known dimensions can never broadcast.
    pub fn broadcast(
        &self,
        indices: impl IntoIterator<Item = usize>,
    ) -> Result<Option<Vec<Dim>>, InferError> {
        let mut out: Vec<Dim> = Vec::new();
        for index in indices {
            let Some(shape) = self.shape(index) else {
                return Ok(None);
            };
            while out.len() < shape.len() {
                out.insert(0, Dim::Known(1));
            }
            let lead = out.len() - shape.len();
            for (axis, dim) in shape.iter().enumerate() {
                let held = &mut out[lead + axis];
                *held = match (&*held, dim) {
                    (a, b) if a == b => continue,
                    (Dim::Known(1), other) | (other, Dim::Known(1)) => other.clone(),
                    (Dim::Known(a), Dim::Known(b)) => {
                        return Err(InferError::Shape(format!(
                            "axis {axis} of input {index} is {b}, which does not broadcast with {a}"
                        )));
                    }
                    // One is a number above 1: the other can only be that or 1.
                    (Dim::Known(a), _) | (_, Dim::Known(a)) => Dim::Known(*a),
                    _ => Dim::Unknown,
                };
            }
        }
        Ok(Some(out))
    }

    /// The output types of any kind, once the rule has run, and what is known of the elements.
    pub fn into_types(self) -> Vec<(ValueType, Option<ShapeValue>)> {
        self.outputs.into_iter().zip(self.output_values).collect()
    }
}
