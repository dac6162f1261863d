//! What a state keeps for one binding.

use crate::append::Appends;
use refeed_values::append::{AppendLease, AppendPolicy, PersistentTensor};
use refeed_values::{RuntimeValue, Tensor, ValueError, paged_cache};

/// A retained value: a root tensor with the room that its appends have, or a value of another kind.
#[derive(Debug)]
pub(crate) enum PersistentValue {
    Tensor(PersistentTensor),
    Other(RuntimeValue),
}

impl PersistentValue {
    /// Keeps a value that came from outside: it has no room to append to.
    ///
    /// # Errors
    /// None that the value itself did not have when it was made.
    pub(crate) fn imported(value: RuntimeValue) -> Result<PersistentValue, ValueError> {
        Ok(match value {
            RuntimeValue::Tensor(tensor) => {
                PersistentValue::Tensor(PersistentTensor::imported(tensor))
            }
            other => PersistentValue::Other(other.retain_storage()?),
        })
    }

    /// Keeps what a call computed for a binding, with its room when it is the append's own result.
    pub(crate) fn published(
        appends: &mut Appends,
        binding: usize,
        output: RuntimeValue,
    ) -> PersistentValue {
        match output {
            RuntimeValue::Tensor(tensor) => {
                PersistentValue::Tensor(appends.retain(binding, tensor))
            }
            other => PersistentValue::Other(other),
        }
    }

    /// The same value for another holder. Where both append, the first one does so in place.
    pub(crate) fn fork(&self) -> PersistentValue {
        match self {
            PersistentValue::Tensor(held) => PersistentValue::Tensor(held.fork()),
            PersistentValue::Other(value) => PersistentValue::Other(value.clone()),
        }
    }

    /// The value, shared.
    pub(crate) fn value(&self) -> RuntimeValue {
        match self {
            PersistentValue::Tensor(held) => held.tensor().clone().into(),
            PersistentValue::Other(value) => value.clone(),
        }
    }

    /// The tensor, when it is one.
    pub(crate) fn tensor(&self) -> Option<&Tensor> {
        match self {
            PersistentValue::Tensor(held) => Some(held.tensor()),
            PersistentValue::Other(_) => None,
        }
    }

    /// The tensor, when it is one, after the state has let go of it.
    pub(crate) fn into_tensor(self) -> Option<Tensor> {
        match self {
            PersistentValue::Tensor(held) => Some(held.into_tensor()),
            PersistentValue::Other(_) => None,
        }
    }

    /// The value, when it is no tensor.
    pub(crate) fn other(&self) -> Option<&RuntimeValue> {
        match self {
            PersistentValue::Tensor(_) => None,
            PersistentValue::Other(value) => Some(value),
        }
    }

    /// Extents of a tensor; the number of elements of a sequence; batch, heads, tokens and key width of a paged cache;
    /// nothing for other kinds.
    pub(crate) fn shape(&self) -> Vec<usize> {
        match self {
            PersistentValue::Tensor(held) => held.tensor().shape().to_vec(),
            PersistentValue::Other(RuntimeValue::Encoded(encoded)) => encoded.shape().to_vec(),
            PersistentValue::Other(RuntimeValue::Sequence(elements)) => vec![elements.len()],
            PersistentValue::Other(other) => paged_cache::check(other)
                .ok()
                .and_then(|cache| {
                    let dims = cache.dims?;
                    let tokens = usize::try_from(cache.tokens).ok()?;
                    Some(vec![dims.batch, dims.heads, tokens, dims.key_width])
                })
                .unwrap_or_default(),
        }
    }

    /// Rows that fit before the memory must grow; 0 when there is no room.
    pub(crate) fn capacity_rows(&self) -> usize {
        match self {
            PersistentValue::Tensor(held) => held.capacity_rows(),
            PersistentValue::Other(_) => 0,
        }
    }

    /// Bytes of the visible elements.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            PersistentValue::Tensor(held) => held.tensor().bytes(),
            PersistentValue::Other(value) => value.bytes(),
        }
    }

    /// The permission to append, for one call.
    pub(crate) fn lease(&mut self, policy: &AppendPolicy) -> Option<AppendLease> {
        match self {
            PersistentValue::Tensor(held) => Some(held.lease(policy)),
            PersistentValue::Other(_) => None,
        }
    }
}
