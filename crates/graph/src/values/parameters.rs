//! The shared quantization parameters of a model, ready for use.

use super::struct_type::concrete;
use super::{layout_of, refused};
use crate::error::ModelError;
use crate::model::Model;
use crate::path::Path;
use crate::validate::Parameters;
use refeed_proto::type_proto::Value;
use refeed_values::encoded::{ParameterSet, Role};
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
        let at = Path::MODEL;
        let at = at.field("graph");
        let struct_types = model.struct_types();
        let declared = Parameters::new(model.graph(), model.external(), struct_types, &at)?;
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
                Some(model.initializer(tensor).map(|tensor| (role, tensor)))
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
