//! The shared quantization parameters of a model, ready for use.

use super::struct_type::concrete;
use super::{layout_of, refused, struct_type_to_proto};
use crate::error::ModelError;
use crate::load::{ExternalData, shown};
use crate::model::Model;
use crate::path::Path;
use crate::struct_types::StructTypes;
use crate::validate::{PARAMETERS_PREFIX, Parameters};
use refeed_proto::type_proto::Value;
use refeed_proto::{
    Bytes, GraphProto, Message, ModelProto, StringStringEntryProto, StructTypeProto,
    TensorAnnotation, TensorProto, TypeProto,
};
use refeed_values::encoded::{ParameterSet, Role};
use refeed_values::{DType, EncodedValue, Tensor};
use std::collections::HashMap;
use std::sync::Arc;

/// Sets of quantization parameters by name. A value that refers to one keeps it.
#[derive(Debug, Default)]
pub struct QuantizationParameterCatalogue {
    sets: HashMap<Arc<str>, Arc<ParameterSet>>,
}

impl QuantizationParameterCatalogue {
    /// Reads the sets of a model's root graph: its `quantization_annotation` entries whose names start with
    /// `onnx_light.quantization.parameters:`. Tensors are shared with the file.
    ///
    /// # Errors
    /// When a set has no or another one's name, a role is unknown, repeated or names no initializer, a descriptor is no
    /// message of its kind, or a tensor does not fit.
    pub fn build(model: &Model) -> Result<QuantizationParameterCatalogue, ModelError> {
        let read = |tensor: &TensorProto| model.initializer(tensor);
        QuantizationParameterCatalogue::of_graph(
            model.graph(),
            model.external(),
            model.struct_types(),
            read,
        )
    }

    /// Reads the sets of a model message, whose tensors must be in it. The rest of the message is not looked at.
    ///
    /// # Errors
    /// As [`QuantizationParameterCatalogue::build`].
    pub fn of_message(model: &ModelProto) -> Result<QuantizationParameterCatalogue, ModelError> {
        let graph = model.graph.as_ref().ok_or(ModelError::NoGraph)?;
        let struct_types = StructTypes::new(model)?;
        let external = ExternalData::none();
        let read = super::tensor_from_proto;
        QuantizationParameterCatalogue::of_graph(graph, &external, &struct_types, read)
    }

    fn of_graph(
        graph: &GraphProto,
        external: &ExternalData,
        struct_types: &StructTypes,
        read: impl Fn(&TensorProto) -> Result<Tensor, ModelError>,
    ) -> Result<QuantizationParameterCatalogue, ModelError> {
        let at = Path::MODEL;
        let at = at.field("graph");
        let declared = Parameters::new(graph, external, struct_types, &at)?;
        let mut sets = HashMap::new();
        for set in declared.sets() {
            let at = at.key("quantization_annotation", set.name);
            let storage = layout_of(&set.storage, &at.field("storage_type"), struct_types)?;
            let logical = at.field("logical_type");
            let Some(Value::TensorType(tensor)) = &set.logical.value else {
                return Err(logical.refused("a tensor type", "another"));
            };
            let (dtype, shape) = concrete(tensor, &logical)?;
            let tensors = Role::ALL.into_iter().filter_map(|role| {
                let tensor = set.roles.get(role.name())?;
                Some(read(tensor).map(|tensor| (role, tensor)))
            });
            let tensors = tensors.collect::<Result<Vec<_>, _>>()?;
            let made = ParameterSet::new(set.name, storage, (dtype, &shape), tensors)
                .map_err(|fault| refused(fault, &at))?;
            sets.insert(Arc::clone(made.name()), Arc::new(made));
        }
        Ok(QuantizationParameterCatalogue { sets })
    }

    /// A set by its name.
    pub fn get(&self, name: &str) -> Option<&Arc<ParameterSet>> {
        self.sets.get(name)
    }

    /// A set that must be there.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn at(&self, name: &str) -> Result<&Arc<ParameterSet>, ModelError> {
        self.get(name).ok_or_else(|| {
            Path::root("parameter_ref").refused(
                "the name of a set of the model's quantization parameters",
                format!("`{}`", shown(name)),
            )
        })
    }

    /// Holds a value that refers to a set to the catalogue's set of that name, which must be the same set or an equal one:
    /// written down by its name, the value would mean something else. Nothing is decoded; values that refer to none pass.
    ///
    /// # Errors
    /// When there is no such set, it is another one, or the value is of another type or size.
    pub fn validate(&self, value: &EncodedValue) -> Result<(), ModelError> {
        let Some(held) = value.parameters() else {
            return Ok(());
        };
        let set = self.at(held.name())?;
        if !set.is_same(held) {
            return Err(Path::root("parameter_ref").refused(
                format!(
                    "the parameters that this model calls `{}`",
                    shown(held.name())
                ),
                "those that another model calls so",
            ));
        }
        let at = Path::root("encoded_value");
        set.check(value).map_err(|fault| refused(fault, &at))
    }

    /// The names of the sets, in no particular order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.sets.keys().map(|name| &**name)
    }

    /// Number of sets.
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Whether there is no set.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }
}

/// The struct type of values that refer to a set: what they hold themselves, without what the set holds.
///
/// # Errors
/// When the set's storage type is not of the affine profile.
pub fn make_shared_quantization_type(set: &ParameterSet) -> Result<StructTypeProto, ModelError> {
    let at = Path::root("storage_type");
    let local = set.local_type().map_err(|fault| refused(fault, &at))?;
    struct_type_to_proto(local)
}

/// What a model gains with a set of parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct AddedParameters {
    /// Initializers of the root graph, one a role, named `onnx_light.quantization.parameters:<name>/<role>`.
    pub initializers: Vec<TensorProto>,
    /// Entry of the root graph's `quantization_annotation`.
    pub annotation: TensorAnnotation,
    /// The struct type of values that refer to the set.
    pub local_type: StructTypeProto,
}

/// Makes a set of quantization parameters and checks it inside a copy of the model's parameters; the model itself is not
/// changed.
///
/// # Errors
/// When the name is empty or taken, an initializer of that name is there, there are no scales, or a tensor does not fit the
/// storage type.
pub fn add_quantization_parameters(
    model: &ModelProto,
    name: &str,
    storage_type: &StructTypeProto,
    logical_type: &TypeProto,
    roles: &[(Role, TensorProto)],
) -> Result<AddedParameters, ModelError> {
    let graph = model.graph.as_ref().ok_or(ModelError::NoGraph)?;
    let full = |role: &str| format!("{PARAMETERS_PREFIX}{name}/{role}");
    let descriptor = |role: &str, wire: Vec<u8>| TensorProto {
        name: Some(full(role)),
        data_type: Some(DType::Uint8.to_onnx()),
        dims: vec![i64::try_from(wire.len()).unwrap_or(i64::MAX)],
        raw_data: Some(Bytes::from(wire)),
        ..TensorProto::default()
    };
    let mut initializers = vec![
        descriptor("storage_type", storage_type.encode_to_vec()),
        descriptor("logical_type", logical_type.encode_to_vec()),
    ];
    let mut entries = vec!["storage_type", "logical_type"];
    for (role, tensor) in roles {
        initializers.push(TensorProto {
            name: Some(full(role.name())),
            ..tensor.clone()
        });
        entries.push(role.name());
    }
    for added in &initializers {
        let taken = graph.initializer.iter().map(TensorProto::name);
        let taken = taken.chain(graph.input.iter().map(|input| input.name()));
        let taken = taken.chain(graph.encoded_initializer.iter().map(|value| value.name()));
        let taken = taken.chain(
            graph
                .paged_cache_initializer
                .iter()
                .map(|cache| cache.name()),
        );
        let nodes = graph.node.iter().flat_map(|node| &node.output);
        if taken
            .chain(nodes.map(String::as_str))
            .any(|name| name == added.name())
        {
            return Err(ModelError::Duplicate {
                at: "graph.initializer".to_string(),
                what: "initializer",
                name: added.name().to_string(),
            });
        }
    }
    let annotation = TensorAnnotation {
        tensor_name: Some(format!("{PARAMETERS_PREFIX}{name}")),
        quant_parameter_tensor_names: entries
            .into_iter()
            .map(|role| StringStringEntryProto {
                key: Some(role.to_string()),
                value: Some(full(role)),
            })
            .collect(),
    };
    let sets = graph.quantization_annotation.iter();
    let mut trial = GraphProto {
        initializer: graph
            .initializer
            .iter()
            .chain(&initializers)
            .cloned()
            .collect(),
        quantization_annotation: sets.chain([&annotation]).cloned().collect(),
        ..GraphProto::default()
    };
    // Sets whose tensors are in other files stay as they are; only the new one is read.
    let struct_types = StructTypes::new(model)?;
    let duplicate = graph
        .quantization_annotation
        .iter()
        .any(|set| set.tensor_name() == annotation.tensor_name());
    if !duplicate {
        trial.quantization_annotation = vec![annotation.clone()];
    }
    let external = ExternalData::none();
    let read = super::tensor_from_proto;
    let catalogue =
        QuantizationParameterCatalogue::of_graph(&trial, &external, &struct_types, read)?;
    Ok(AddedParameters {
        local_type: make_shared_quantization_type(catalogue.at(name)?)?,
        initializers,
        annotation,
    })
}
