//! Initial values made from declarations.

use super::error::GenerationError;
use crate::session::RuntimeSession;
use refeed_graph::types::{Dim, TensorType, ValueType};
use refeed_values::{
    Allocator, DType, RuntimeSequence, RuntimeValue, TensorMut, ValueError, paged_cache,
};
use std::sync::Arc;

/// The extents of a value that holds nothing yet.
fn extents(
    declared: &[Dim],
    known: Option<&[Dim]>,
    batch: usize,
    symbol: Option<&Dim>,
) -> Vec<usize> {
    let known = known.filter(|known| known.len() == declared.len());
    let axes = declared.iter().enumerate();
    let extent = |(axis, dim): (usize, &Dim)| {
        let inferred = || known.and_then(|known| known[axis].known());
        let is_batch = axis == 0 || Some(dim) == symbol;
        let unknown = if is_batch { batch } else { 0 };
        dim.known().or_else(inferred).unwrap_or(unknown)
    };
    axes.map(extent).collect()
}

/// Zeros for every bound input of a model, with nothing in what grows.
///
/// Known extents are taken, also those that only the operators behind the bound output tell (a head size that the model
/// declares by a name). The first extent is `batch` where nothing says it, and so is the symbol of the first axis of the
/// token ids wherever it stands; every other symbol is 0. Inputs that a paged-cache initializer gives are left out; other
/// paged caches have no page.
///
/// ```no_run
/// use refeed_graph::{LoadOptions, Model};
/// use refeed_runtime::{PersistentValueState, RuntimeSession, RuntimeSessionOptions, empty_caches};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Model::load("decoder.onnx", &LoadOptions::default())?;
/// let session = RuntimeSession::new(model, RuntimeSessionOptions::default())?;
/// let initial = empty_caches(&session, 1, "input_ids")?;
/// let initial = initial.iter().map(|(name, value)| (&**name, value.clone()));
/// let state = PersistentValueState::of_session(&session, initial)?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// When a bound input declares no shape or element type, or is of a kind without an empty form.
pub fn empty_caches(
    session: &RuntimeSession,
    batch: usize,
    input_ids_name: &str,
) -> Result<Vec<(Arc<str>, RuntimeValue)>, GenerationError> {
    let model = session.model();
    let dims = |ty: &ValueType| ty.tensor().and_then(|tensor| tensor.shape.clone());
    let ids = model
        .inputs()
        .iter()
        .find(|info| &*info.name == input_ids_name);
    let ids = ids.and_then(|info| dims(&info.ty));
    let symbol = ids.as_deref().and_then(<[Dim]>::first);
    let symbol = symbol.filter(|dim| matches!(dim, Dim::Symbol(_)));
    let given = model.paged_cache_initializers();
    let given = given.map_err(crate::error::SessionError::from)?;
    let mut values = Vec::new();
    for binding in model.bindings() {
        if given.iter().any(|(name, _)| *name == binding.input) {
            continue;
        }
        let info = &model.inputs()[binding.input_index];
        let refuse = || GenerationError::NoInitial {
            name: info.name.to_string(),
            declared: info.ty.to_string(),
        };
        let compound = |made: Result<RuntimeValue, ValueError>| made.map_err(|_| refuse());
        let value = match &info.ty {
            ValueType::Tensor(TensorType {
                dtype: Some(dtype),
                shape: Some(declared),
            }) if *dtype != DType::String => {
                let inferred = session.output_types().get(binding.output_index);
                let inferred = inferred.and_then(dims);
                let shape = extents(declared, inferred.as_deref(), batch, symbol);
                let zeros = TensorMut::new(&Allocator::default(), *dtype, &shape)?;
                zeros.freeze().into()
            }
            ValueType::Struct(_) => compound(paged_cache::cache_of([]))?,
            ValueType::Sequence(_) => {
                compound(RuntimeSequence::from_values([]).map(RuntimeValue::from))?
            }
            _ => return Err(refuse()),
        };
        values.push((Arc::clone(&binding.input), value));
    }
    Ok(values)
}
