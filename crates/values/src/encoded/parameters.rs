//! Quantization parameters that several encoded values share.

use super::profile::{Numbers, Plan};
use super::{EncodedError, EncodedValue, StructType};
use crate::layout::Dims;
use crate::{DType, Extent, Tensor};
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
///
/// Sets whose storage type is of the affine profile ([`Plan`]) can be encoded with and decoded; others are kept, and the
/// values that refer to them forwarded.
#[derive(Debug)]
pub struct ParameterSet {
    name: Arc<str>,
    storage: Arc<StructType>,
    dtype: DType,
    shape: Dims,
    tensors: Box<[(Role, Tensor)]>,
    plan: Result<Shared, EncodedError>,
}

/// A plan with the type of what values hold themselves.
#[derive(Debug)]
struct Shared {
    plan: Plan,
    local: Arc<StructType>,
}

impl ParameterSet {
    /// Joins a set. `storage` is the type of a value that carries its parameters itself.
    ///
    /// # Errors
    /// When there are no scales, a role stands twice, or the storage type is of a profile and the tensors are not those
    /// that it asks for.
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
        let plan = match Plan::of(&storage) {
            Err(unsupported @ EncodedError::Unsupported { .. }) => Err(unsupported),
            Err(broken) => return Err(broken),
            Ok(plan) => Ok(Shared {
                local: Arc::new(plan.local_type()?),
                plan,
            }),
        };
        let set = ParameterSet {
            name: name.into(),
            storage,
            dtype,
            shape: Dims::from_slice(shape),
            tensors,
            plan,
        };
        if let Ok(Shared { plan, .. }) = &set.plan {
            let elements = Extent::new(dtype, shape)?.elements();
            if plan.count() != elements {
                return Err(EncodedError::part(
                    "logical_type",
                    format!("{} elements, as the storage type has", plan.count()),
                    elements.to_string(),
                ));
            }
            Numbers::of_set(&set, plan)?;
        }
        Ok(set)
    }

    /// How values are laid out in blocks.
    ///
    /// # Errors
    /// [`EncodedError::Unsupported`] when the storage type is not of the affine profile.
    pub fn plan(&self) -> Result<&Plan, EncodedError> {
        match &self.plan {
            Ok(shared) => Ok(&shared.plan),
            Err(unsupported) => Err(unsupported.clone()),
        }
    }

    /// The type of what a value that refers to the set holds itself: the reserved byte, outliers, codes.
    ///
    /// # Errors
    /// As [`ParameterSet::plan`].
    pub fn local_type(&self) -> Result<&Arc<StructType>, EncodedError> {
        match &self.plan {
            Ok(shared) => Ok(&shared.local),
            Err(unsupported) => Err(unsupported.clone()),
        }
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

    /// Whether values that refer to either set mean the same: name, types and every parameter are equal, to the bit.
    pub fn is_same(&self, other: &ParameterSet) -> bool {
        let equal = |(role, tensor): &(Role, Tensor)| {
            other.tensor(*role).is_some_and(|theirs| {
                (tensor.dtype(), tensor.shape()) == (theirs.dtype(), theirs.shape())
                    && tensor.as_bytes() == theirs.as_bytes()
            })
        };
        std::ptr::eq(self, other)
            || (self.name == other.name
                && self.logical() == other.logical()
                && self.storage.has_layout_of(&other.storage)
                && self.tensors.len() == other.tensors.len()
                && self.tensors.iter().all(equal))
    }

    /// Holds a value that refers to the set to it: it decodes to what the set does, its first byte, which is reserved, is
    /// 0, and its type and size are those of one local record where the set's are known. Nothing is decoded.
    ///
    /// # Errors
    /// When the value is of another type or size.
    pub fn check(&self, value: &EncodedValue) -> Result<(), EncodedError> {
        if value.logical() != Some(self.logical()) {
            let text = |(dtype, shape): (DType, &[usize])| format!("{dtype}{shape:?}");
            let got = value.logical().map_or("none".to_string(), text);
            let expected = format!("{}, as `{}` has", text(self.logical()), self.name);
            return Err(EncodedError::part("logical_type", expected, got));
        }
        if let (Ok(Shared { local, .. }), Some(declared)) = (&self.plan, value.struct_type()) {
            if !local.has_layout_of(declared) {
                let expected = format!("the local type of `{}`", self.name);
                return Err(EncodedError::part("struct_type", expected, "another"));
            }
            if value.record_count() != Some(1) {
                let got = format!("{} bytes", value.payload().bytes());
                let expected = format!("one record of {} bytes", local.record_bytes()?);
                return Err(EncodedError::part("payload", expected, got));
            }
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
