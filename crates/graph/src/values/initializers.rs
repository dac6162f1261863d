//! The initializers of a model that are no plain tensors.

use super::{Reading, encoded, paged_cache};
use crate::error::ModelError;
use crate::model::Model;
use crate::path::Path;
use refeed_proto::GraphProto;
use refeed_values::{Provenance, RuntimeValue};
use std::sync::Arc;

/// Initializers of the root graph as values, by name.
#[derive(Debug, Default)]
pub(crate) struct ModelValues {
    pub(crate) encoded: Vec<(Arc<str>, RuntimeValue)>,
    pub(crate) paged_caches: Vec<(Arc<str>, RuntimeValue)>,
}

impl ModelValues {
    pub(crate) fn of(model: &Model) -> Result<ModelValues, ModelError> {
        let at = Path::MODEL;
        ModelValues::of_graph(model, model.graph(), &at.field("graph"))
    }

    fn of_graph(
        model: &Model,
        graph: &GraphProto,
        at: &Path<'_>,
    ) -> Result<ModelValues, ModelError> {
        if graph.encoded_initializer.is_empty() && graph.paged_cache_initializer.is_empty() {
            return Ok(ModelValues::default());
        }
        let catalogues = model.catalogues()?;
        let reading = Reading {
            struct_types: &catalogues.struct_types,
            parameters: Some(&catalogues.parameters),
            external: model.external(),
            provenance: Provenance::Model,
        };
        let mut values = ModelValues::default();
        for (index, value) in graph.encoded_initializer.iter().enumerate() {
            let at = at.named("encoded_initializer", index, value.name());
            let read = encoded::read(value, &at, &reading)?;
            values.encoded.push((value.name().into(), read.into()));
        }
        for (index, cache) in graph.paged_cache_initializer.iter().enumerate() {
            let at = at.named("paged_cache_initializer", index, cache.name());
            let read = paged_cache::read(cache, &at, &reading)?;
            values.paged_caches.push((cache.name().into(), read));
        }
        Ok(values)
    }
}
