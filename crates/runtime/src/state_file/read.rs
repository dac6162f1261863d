//! Reading the values of a state from a file that nobody vouches for.

use super::checksum::Checksum;
use super::{
    ENCODED, Held, MAGIC, MESSAGE, SEQUENCE, STRUCT, StateFileError, TENSOR, VERSION, fingerprint,
    weights,
};
use refeed_graph::Model;
use refeed_graph::values::encoded_from_proto;
use refeed_proto::{EncodedValueProto, Message};
use refeed_values::{
    Allocator, DType, Extent, MAX_DEPTH, MAX_RANK, RuntimeSequence, RuntimeValue, StructValue,
    TensorError, TensorMut,
};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// Bytes of the checksum at the end.
const CHECKSUM: u64 = 8;
/// The longest text that is read.
const TEXT: usize = 1 << 20;

struct Input<'m> {
    path: String,
    file: BufReader<File>,
    /// Bytes in front of the checksum.
    left: u64,
    checksum: Checksum,
    model: &'m Model,
    allocator: &'m Allocator,
    /// Whose value is read.
    name: String,
}

type Result<T> = std::result::Result<T, StateFileError>;

impl Input<'_> {
    fn refused(&self, reason: impl Into<String>) -> StateFileError {
        StateFileError::Value {
            path: self.path.clone(),
            name: self.name.clone(),
            reason: reason.into(),
        }
    }

    fn tensor_fault(&self, source: TensorError) -> StateFileError {
        StateFileError::Tensor {
            path: self.path.clone(),
            name: self.name.clone(),
            source,
        }
    }

    /// Makes sure that `wanted` bytes are left, before anything is made for them.
    fn room(&self, what: &'static str, wanted: u64) -> Result<()> {
        if wanted > self.left {
            return Err(StateFileError::Length {
                path: self.path.clone(),
                what,
                wanted,
                left: self.left,
            });
        }
        Ok(())
    }

    fn fill(&mut self, what: &'static str, bytes: &mut [u8]) -> Result<()> {
        self.room(what, bytes.len() as u64)?;
        let read = self.file.read_exact(bytes);
        read.map_err(|source| StateFileError::Io {
            path: self.path.clone(),
            source,
        })?;
        self.left -= bytes.len() as u64;
        self.checksum.add(bytes);
        Ok(())
    }

    fn bytes<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(what, &mut bytes)?;
        Ok(bytes)
    }

    fn number(&mut self, what: &'static str) -> Result<usize> {
        let number = u64::from_le_bytes(self.bytes(what)?);
        usize::try_from(number).map_err(|_| self.refused(format!("{what} of {number}")))
    }

    /// `len` bytes of a payload that is kept as bytes.
    fn run(&mut self, what: &'static str, len: usize) -> Result<Vec<u8>> {
        self.room(what, len as u64)?;
        let mut bytes = Vec::new();
        let reserved = bytes.try_reserve_exact(len);
        reserved.map_err(|error| self.refused(error.to_string()))?;
        bytes.resize(len, 0);
        self.fill(what, &mut bytes)?;
        Ok(bytes)
    }

    fn text(&mut self, what: &'static str) -> Result<String> {
        let len = self.number(what)?;
        if len > TEXT {
            return Err(self.refused(format!("a {what} of {len} bytes, expected at most {TEXT}")));
        }
        let bytes = self.run(what, len)?;
        String::from_utf8(bytes).map_err(|_| self.refused(format!("a {what} that is no UTF-8")))
    }

    /// A value that stands `depth` structs and sequences deep.
    fn value(&mut self, depth: usize) -> Result<RuntimeValue> {
        if depth > MAX_DEPTH {
            return Err(self.refused(format!("nested deeper than {MAX_DEPTH}")));
        }
        let [tag] = self.bytes("kind")?;
        match tag {
            TENSOR => self.tensor(),
            STRUCT => {
                // Each field takes at least a byte, so a false count ends with the file.
                let count = self.number("number of fields")?;
                let mut fields = Vec::new();
                for _ in 0..count {
                    let name = self.text("field name")?;
                    fields.push((name, self.value(depth + 1)?));
                }
                let made = StructValue::new(fields);
                Ok(made
                    .map_err(|error| self.refused(error.to_string()))?
                    .into())
            }
            SEQUENCE => {
                let count = self.number("number of elements")?;
                let mut elements = Vec::new();
                for _ in 0..count {
                    elements.push(self.value(depth + 1)?);
                }
                let made = RuntimeSequence::from_values(elements);
                Ok(made
                    .map_err(|error| self.refused(error.to_string()))?
                    .into())
            }
            ENCODED => {
                let len = self.number("encoding")?;
                if len > MESSAGE {
                    return Err(self.refused(format!(
                        "an encoding described in {len} bytes, expected at most {MESSAGE}"
                    )));
                }
                let message = self.run("encoding", len)?;
                let proto = EncodedValueProto::decode(refeed_proto::Bytes::from(message));
                let mut proto = proto.map_err(|error| self.refused(error.to_string()))?;
                let len = self.number("payload")?;
                proto.raw_data = Some(self.run("payload", len)?.into());
                let catalogues = self.model.catalogues();
                let catalogues = catalogues.map_err(|error| self.refused(error.to_string()))?;
                let value = encoded_from_proto(&proto, catalogues);
                Ok(value
                    .map_err(|error| self.refused(error.to_string()))?
                    .into())
            }
            other => Err(self.refused(format!("a value of kind {other}, expected 0 to 3"))),
        }
    }

    fn tensor(&mut self) -> Result<RuntimeValue> {
        let number = i32::from_le_bytes(self.bytes("element type")?);
        let dtype = DType::from_onnx(number).filter(|dtype| *dtype != DType::String);
        let dtype = dtype.ok_or_else(|| self.refused(format!("element type {number}")))?;
        let rank = self.number("rank")?;
        if rank > MAX_RANK {
            return Err(self.refused(format!("{rank} axes, expected at most {MAX_RANK}")));
        }
        let mut shape = Vec::with_capacity(rank);
        for _ in 0..rank {
            shape.push(self.number("extent")?);
        }
        let extent = Extent::new(dtype, &shape).map_err(|error| self.tensor_fault(error.into()))?;
        let len = self.number("payload")?;
        if len != extent.bytes() {
            let bytes = extent.bytes();
            return Err(self.refused(format!(
                "{dtype}{shape:?} takes {bytes} bytes, the file has {len}"
            )));
        }
        self.room("payload", len as u64)?;
        let made = TensorMut::new(self.allocator, dtype, &shape);
        let mut tensor = made.map_err(|source| self.tensor_fault(source))?;
        self.fill("payload", tensor.as_mut_bytes())?;
        if dtype == DType::Bool && tensor.as_mut_bytes().iter().any(|byte| *byte > 1) {
            return Err(self.refused("a BOOL that is neither 0 nor 1"));
        }
        Ok(tensor.freeze().into())
    }
}

/// Reads a file of values of `model`, one a binding.
///
/// # Errors
/// When there is no such file, it is damaged or no state file, it is of another model, or memory cannot be had.
pub(crate) fn read(path: &Path, model: &Model, allocator: &Allocator) -> Result<Vec<Held>> {
    let text = path.to_string_lossy().into_owned();
    let failed = |source| StateFileError::Io {
        path: text.clone(),
        source,
    };
    // Opening a pipe would wait for its writer.
    if !path.metadata().map_err(failed)?.is_file() {
        let expected = "expected a regular file";
        return Err(failed(io::Error::new(
            io::ErrorKind::InvalidInput,
            expected,
        )));
    }
    let file = File::open(path).map_err(failed)?;
    let len = file.metadata().map_err(failed)?.len();
    let mut input = Input {
        path: text.clone(),
        file: BufReader::with_capacity(1 << 20, file),
        left: len.saturating_sub(CHECKSUM),
        checksum: Checksum::new(),
        model,
        allocator,
        name: "head".to_string(),
    };
    let magic: [u8; 8] = input.bytes("mark of a state file")?;
    if magic != MAGIC {
        let got = magic.to_vec();
        return Err(StateFileError::NotAStateFile { path: text, got });
    }
    let got = u32::from_le_bytes(input.bytes("version")?);
    if got != VERSION {
        return Err(StateFileError::Version { path: text, got });
    }
    let count = input.number("number of bindings")?;
    let bindings = model.bindings();
    for index in 0..count.max(bindings.len()) {
        let held = (index < count).then(|| input.text("binding")).transpose()?;
        let own = bindings
            .get(index)
            .map(|binding| fingerprint(model, binding));
        if held != own {
            let none = || "no further binding".to_string();
            return Err(StateFileError::OtherModel {
                path: text,
                file: held.unwrap_or_else(none),
                model: own.unwrap_or_else(none),
            });
        }
    }
    let stated = u64::from_le_bytes(input.bytes("number of the weights")?);
    let own = weights::identity(model).map_err(|error| StateFileError::Write(Box::new(error)))?;
    if stated != own {
        return Err(StateFileError::OtherWeights {
            path: text,
            file: stated,
            model: own,
        });
    }
    let mut values = Vec::with_capacity(bindings.len());
    for binding in bindings {
        input.name = binding.input.to_string();
        let [published] = input.bytes("publication mark")?;
        if published > 1 {
            return Err(input.refused(format!("publication mark {published}, expected 0 or 1")));
        }
        values.push(Held {
            value: input.value(0)?,
            published: published == 1,
        });
    }
    if input.left > 0 {
        return Err(StateFileError::Length {
            path: text,
            what: "end of the values",
            wanted: 0,
            left: input.left,
        });
    }
    let computed = input.checksum.value();
    let mut stated = [0; CHECKSUM as usize];
    input.file.read_exact(&mut stated).map_err(failed)?;
    let stated = u64::from_le_bytes(stated);
    if stated != computed {
        return Err(StateFileError::Checksum {
            path: text,
            stated,
            computed,
        });
    }
    Ok(values)
}
