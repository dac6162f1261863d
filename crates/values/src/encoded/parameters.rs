//! Quantization parameters that several encoded values share.

use super::{EncodedError, EncodedValue, StructType};
use crate::layout::Dims;
use crate::{DType, Tensor};
use std::fmt;
use std::sync::Arc;

/// What a tensor of a set is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// One scale a block.
    Scales,
    /// One zero point a block.
    ZeroPoints,
    /// What is added after scaling, one a block.
    Offsets,
    /// Values that codes stand for.
    Codebooks,
    /// Where each element comes from.
    Permutation,
    /// What is applied before encoding.
    Forward,
    /// What is applied after decoding.
    Inverse,
    /// Positions of elements that are kept as they are.
    Outliers,
}

impl Role {
    /// Every role, the required one first.
    pub const ALL: [Role; 8] = [
        Role::Scales,
        Role::ZeroPoints,
        Role::Offsets,
        Role::Codebooks,
        Role::Permutation,
        Role::Forward,
        Role::Inverse,
        Role::Outliers,
    ];

    /// The name that annotations give the role.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Scales => "scales",
            Role::ZeroPoints => "zero_points",
            Role::Offsets => "offsets",
            Role::Codebooks => "codebooks",
            Role::Permutation => "permutation",
            Role::Forward => "forward",
            Role::Inverse => "inverse",
            Role::Outliers => "outliers",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A named set of parameters: what values that refer to it are made of, and what they decode to.
#[derive(Debug)]
pub struct ParameterSet {
    name: Arc<str>,
    storage: Arc<StructType>,
    dtype: DType,
    shape: Dims,
    tensors: Box<[(Role, Tensor)]>,
}

impl ParameterSet {
    /// Joins a set. `storage` is the type of a value that carries its parameters itself.
    ///
    /// # Errors
    /// When there are no scales, or a role stands twice.
    pub fn new(
        name: impl Into<Arc<str>>,
        storage: Arc<StructType>,
        (dtype, shape): (DType, &[usize]),
        tensors: impl IntoIterator<Item = (Role, Tensor)>,
    ) -> Result<ParameterSet, EncodedError> {
        let tensors: Box<[(Role, Tensor)]> = tensors.into_iter().collect();
        for role in Role::ALL {
            let number = tensors.iter().filter(|(held, _)| *held == role).count();
            if number > 1 || (role == Role::Scales && number == 0) {
                let expected = format!("one tensor of the role {role}");
                return Err(EncodedError::part(
                    "parameters",
                    expected,
                    number.to_string(),
                ));
            }
        }
        Ok(ParameterSet {
            name: name.into(),
            storage,
            dtype,
            shape: Dims::from_slice(shape),
            tensors,
        })
    }

    /// The name that values refer to it by.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The type of a value that carries its parameters itself.
    pub fn storage_type(&self) -> &Arc<StructType> {
        &self.storage
    }

    /// Element type and extents after decoding.
    pub fn logical(&self) -> (DType, &[usize]) {
        (self.dtype, &self.shape)
    }

    /// The tensor of a role.
    pub fn tensor(&self, role: Role) -> Option<&Tensor> {
        let found = self.tensors.iter().find(|(held, _)| *held == role);
        found.map(|(_, tensor)| tensor)
    }

    /// A value that refers to the set decodes to what the set does, and its first byte, which is reserved, is 0.
    pub(super) fn check(&self, value: &EncodedValue) -> Result<(), EncodedError> {
        if value.logical() != Some(self.logical()) {
            let text = |(dtype, shape): (DType, &[usize])| format!("{dtype}{shape:?}");
            let got = value.logical().map_or("none".to_string(), text);
            let expected = format!("{}, as `{}` has", text(self.logical()), self.name);
            return Err(EncodedError::part("logical_type", expected, got));
        }
        match value.payload().as_bytes() {
            Some([first, ..]) if *first != 0 => Err(EncodedError::part(
                "payload",
                "0 in the reserved first byte",
                first.to_string(),
            )),
            _ => Ok(()),
        }
    }
}
