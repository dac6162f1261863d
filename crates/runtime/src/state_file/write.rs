//! Writing the values of a state.

use super::checksum::Checksum;
use super::{
    ENCODED, MAGIC, MESSAGE, SEQUENCE, STRUCT, StateFileError, TENSOR, VERSION, fingerprint,
    weights,
};
use refeed_graph::values::encoded_to_proto;
use refeed_graph::{Model, ModelError, NewFile};
use refeed_proto::Message;
use refeed_values::{Allocator, RuntimeValue, Tensor};
use std::path::Path;
use std::sync::Arc;

/// A file with the checksum of what it has.
struct Output {
    file: NewFile,
    checksum: Checksum,
}

/// What goes wrong in a value; the caller knows whose it is.
enum Fault {
    File(ModelError),
    Value(String),
}

impl From<ModelError> for Fault {
    fn from(error: ModelError) -> Fault {
        Fault::File(error)
    }
}

impl Output {
    fn put(&mut self, bytes: &[u8]) -> Result<(), ModelError> {
        self.checksum.add(bytes);
        self.file.put(bytes)
    }

    /// The number of things or bytes that follow.
    fn count(&mut self, count: usize) -> Result<(), ModelError> {
        self.put(&(count as u64).to_le_bytes())
    }

    fn text(&mut self, text: &str) -> Result<(), ModelError> {
        self.count(text.len())?;
        self.put(text.as_bytes())
    }

    fn value(&mut self, value: &RuntimeValue) -> Result<(), Fault> {
        match value {
            RuntimeValue::Tensor(tensor) => {
                self.put(&[TENSOR])?;
                self.tensor(tensor)
            }
            RuntimeValue::Struct(fields) => {
                self.put(&[STRUCT])?;
                self.count(fields.len())?;
                fields.iter().try_for_each(|(name, field)| {
                    self.text(name)?;
                    self.value(field)
                })
            }
            RuntimeValue::Sequence(elements) => {
                self.put(&[SEQUENCE])?;
                self.count(elements.len())?;
                elements.iter().try_for_each(|element| self.value(element))
            }
            RuntimeValue::Encoded(encoded) => {
                let proto = encoded_to_proto(encoded);
                let mut proto = proto.map_err(|error| Fault::Value(error.to_string()))?;
                let payload = proto.raw_data.take().unwrap_or_default();
                let message = proto.encode_to_vec();
                if message.len() > MESSAGE {
                    let got = message.len();
                    return Err(Fault::Value(format!(
                        "expected an encoding that is described in at most {MESSAGE} bytes, got {got}"
                    )));
                }
                self.put(&[ENCODED])?;
                self.count(message.len())?;
                self.put(&message)?;
                self.count(payload.len())?;
                Ok(self.put(&payload)?)
            }
            other => Err(Fault::Value(format!(
                "{} has no form in a file",
                other.kind()
            ))),
        }
    }

    fn tensor(&mut self, tensor: &Tensor) -> Result<(), Fault> {
        self.put(&tensor.dtype().to_onnx().to_le_bytes())?;
        self.count(tensor.rank())?;
        for &extent in tensor.shape() {
            self.count(extent)?;
        }
        self.count(tensor.bytes())?;
        if let Some(bytes) = tensor.as_bytes() {
            return Ok(self.put(bytes)?);
        }
        let dense = tensor.to_dense(&Allocator::default());
        let dense = dense.map_err(|error| Fault::Value(error.to_string()))?;
        Ok(self.put(dense.as_bytes().unwrap_or_default())?)
    }
}

/// Writes the values of a model's bindings, with whether each was published.
///
/// # Errors
/// When the file cannot be written; an older one is then untouched.
pub(crate) fn write(
    path: &Path,
    model: &Model,
    values: &[(Arc<str>, RuntimeValue, bool)],
) -> Result<(), StateFileError> {
    let failed = |error| StateFileError::Write(Box::new(error));
    let weights = weights::identity(model).map_err(failed)?;
    let mut out = Output {
        file: NewFile::create(path).map_err(failed)?,
        checksum: Checksum::new(),
    };
    let mut head = || {
        out.put(&MAGIC)?;
        out.put(&VERSION.to_le_bytes())?;
        out.count(model.bindings().len())?;
        let mut bindings = model.bindings().iter();
        bindings.try_for_each(|binding| out.text(&fingerprint(model, binding)))?;
        out.put(&weights.to_le_bytes())
    };
    head().map_err(failed)?;
    for (name, value, published) in values {
        out.put(&[u8::from(*published)]).map_err(failed)?;
        out.value(value).map_err(|fault| match fault {
            Fault::File(error) => failed(error),
            Fault::Value(reason) => StateFileError::Unwritable {
                name: name.clone(),
                reason,
            },
        })?;
    }
    let checksum = out.checksum.value().to_le_bytes();
    out.file.put(&checksum).map_err(failed)?;
    out.file.finish().map_err(failed)
}
