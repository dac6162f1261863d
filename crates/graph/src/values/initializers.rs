//! The initializers of a model that are no plain tensors.

use super::{Reading, encoded, paged_cache};
use crate::error::ModelError;
use crate::model::Model;
use crate::path::Path;
use refeed_proto::{EncodedValueProto, PagedCacheProto};
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
        let at = at.field("graph");
        let graph = model.graph();
        let mut values = ModelValues::default();
        for (index, value) in graph.encoded_initializer.iter().enumerate() {
            let at = at.named("encoded_initializer", index, value.name());
            let read = encoded_initializer(model, value, &at)?;
            values.encoded.push((value.name().into(), read));
        }
        for (index, cache) in graph.paged_cache_initializer.iter().enumerate() {
            let at = at.named("paged_cache_initializer", index, cache.name());
            let read = paged_cache_initializer(model, cache, &at)?;
            values.paged_caches.push((cache.name().into(), read));
        }
        Ok(values)
    }
}

/// An encoded initializer, whose payload may be in another file.
pub(crate) fn encoded_initializer(
    model: &Model,
    proto: &EncodedValueProto,
    at: &Path<'_>,
) -> Result<RuntimeValue, ModelError> {
    Ok(encoded::read(proto, at, &reading(model)?)?.into())
}

/// A cache initializer.
pub(crate) fn paged_cache_initializer(
    model: &Model,
    proto: &PagedCacheProto,
    at: &Path<'_>,
) -> Result<RuntimeValue, ModelError> {
    paged_cache::read(proto, at, &reading(model)?)
}

fn reading(model: &Model) -> Result<Reading<'_>, ModelError> {
    let catalogues = model.catalogues()?;
    Ok(Reading {
        struct_types: &catalogues.struct_types,
        parameters: Some(&catalogues.parameters),
        external: model.external(),
        provenance: Provenance::Model,
    })
}
