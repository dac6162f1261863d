//! Quantization parameters that encoded values of a model share.
//!
//! A set is an entry of the root graph's `quantization_annotation` whose `tensor_name` is a prefix and the name of the set.
//! It pairs roles with dense initializers. Two of them hold serialised messages, the storage type and the logical type;
//! the others hold numbers.

use super::affine;
use super::encoded::Payload;
use super::types::{self, Role};
use crate::bindings::compatible;
use crate::error::{FieldError, ModelError};
use crate::load::{ExternalData, shown, tensor_bytes};
use crate::path::Path;
use crate::struct_types::StructTypes;
use refeed_proto::tensor_proto::DataType;
use refeed_proto::{
    Bytes, EncodedValueProto, GraphProto, Message, ModelProto, StringStringEntryProto,
    StructTypeProto, TensorProto, TypeProto, structure_bytes,
};
use std::collections::HashMap;

/// What the name of a set follows in an annotation; part of the file format.
pub(crate) const PREFIX: &str = "onnx_light.quantization.parameters:";

/// Roles whose initializer is a serialised message, then the one that must be there, then the others.
const DESCRIPTORS: [&str; 2] = ["storage_type", "logical_type"];
const REQUIRED: &str = "scales";
const OPTIONAL: [&str; 7] = [
    "zero_points",
    "offsets",
    "codebooks",
    "permutation",
    "forward",
    "inverse",
    "outliers",
];

/// Longer descriptors are refused, and storage types that take more memory.
const DESCRIPTOR_LIMIT: u64 = 1 << 20;
const STRUCTURE_LIMIT: u64 = 1 << 26;

/// The sets of a model by name.
#[derive(Debug, Default)]
pub(crate) struct Parameters<'a> {
    sets: HashMap<&'a str, DeclaredSet<'a>>,
}

/// A set that keeps the rules.
#[derive(Debug)]
pub(crate) struct DeclaredSet<'a> {
    pub(crate) name: &'a str,
    /// Type of a value that carries its parameters itself.
    pub(crate) storage: StructTypeProto,
    /// What values decode to: a tensor type whose dimensions are numbers.
    pub(crate) logical: TypeProto,
    /// Initializers by role.
    pub(crate) roles: Roles<'a>,
}

/// What the initializers of a set are looked up in.
struct Source<'a> {
    initializers: HashMap<&'a str, &'a TensorProto>,
    external: &'a ExternalData,
    catalogue: &'a StructTypes,
}

impl<'a> Parameters<'a> {
    /// Reads the sets of a root graph.
    pub(crate) fn new(
        graph: &'a GraphProto,
        external: &'a ExternalData,
        catalogue: &'a StructTypes,
        at: &Path<'_>,
    ) -> Result<Parameters<'a>, ModelError> {
        let mut parameters = Parameters::default();
        let sets = graph.quantization_annotation.iter().enumerate();
        let mut sets = sets
            .filter_map(|(index, set)| Some((index, set, set.tensor_name().strip_prefix(PREFIX)?)))
            .peekable();
        if sets.peek().is_none() {
            return Ok(parameters);
        }
        let initializers = graph.initializer.iter();
        let source = Source {
            initializers: initializers.map(|tensor| (tensor.name(), tensor)).collect(),
            external,
            catalogue,
        };
        for (index, set, name) in sets {
            let at = at.named("quantization_annotation", index, name);
            check_set_name(name, &parameters, &at)?;
            let roles = check_roles(&set.quant_parameter_tensor_names, &source, &at)?;
            let storage = check_storage_type(&roles, &source, &at)?;
            let logical = check_logical_type(&roles, &source, &at)?;
            check_scales(&roles, &at)?;
            for role in OPTIONAL {
                check_numbers(&roles, role, &at)?;
            }
            let set = DeclaredSet {
                name,
                storage,
                logical,
                roles,
            };
            parameters.sets.insert(name, set);
        }
        Ok(parameters)
    }

    /// The sets, in no particular order.
    pub(crate) fn sets(&self) -> impl Iterator<Item = &DeclaredSet<'a>> {
        self.sets.values()
    }

    /// An encoded value that refers to a set decodes to what the set does, and its payload starts with the reserved byte.
    pub(super) fn check(
        &self,
        value: &EncodedValueProto,
        payload: Payload<'_>,
        at: &Path<'_>,
    ) -> Result<(), FieldError> {
        let Some(name) = &value.parameter_ref else {
            return Ok(());
        };
        let Some(set) = self.sets.get(name.as_str()) else {
            return Err(at.field("parameter_ref").fault(
                "the name of a set of the model's quantization parameters",
                format!("`{}`", shown(name)),
            ));
        };
        if let Some(ty) = &value.logical_type {
            let deferred = StructTypes::deferred();
            compatible::compare(&set.logical, ty, &at.field("logical_type"), &deferred)?;
        }
        match payload {
            Payload::Inline([first, ..]) if *first != 0 => Err(at
                .field("raw_data")
                .fault("0 in the reserved first byte", first.to_string())),
            _ => Ok(()),
        }
    }
}

pub(crate) type Roles<'a> = HashMap<&'a str, &'a TensorProto>;

/// Sets have names, and each its own.
fn check_set_name(
    name: &str,
    parameters: &Parameters<'_>,
    at: &Path<'_>,
) -> Result<(), FieldError> {
    let at = at.field("tensor_name");
    if name.is_empty() {
        return Err(at.fault("the name of a parameter set", "an empty one"));
    }
    if parameters.sets.contains_key(name) {
        return Err(at.fault(
            "a name of its own",
            format!("`{}` for the second time", shown(name)),
        ));
    }
    Ok(())
}

/// Roles are known, each is there once and names an initializer of the root graph.
fn check_roles<'a>(
    entries: &'a [StringStringEntryProto],
    source: &Source<'a>,
    at: &Path<'_>,
) -> Result<Roles<'a>, FieldError> {
    let mut roles = Roles::new();
    for entry in entries {
        let at = at.key("quant_parameter_tensor_names", entry.key());
        let known = DESCRIPTORS
            .iter()
            .chain([&REQUIRED])
            .chain(&OPTIONAL)
            .any(|&role| role == entry.key());
        if !known {
            return Err(at.fault(
                "a role of quantization parameters",
                format!("`{}`", shown(entry.key())),
            ));
        }
        let Some(&tensor) = source.initializers.get(entry.value()) else {
            return Err(at.fault(
                "the name of an initializer of the root graph",
                format!("`{}`", shown(entry.value())),
            ));
        };
        if roles.insert(entry.key(), tensor).is_some() {
            return Err(at.fault("each role once", "it for the second time"));
        }
    }
    Ok(roles)
}

/// The serialised message of a role: bytes in one row.
fn descriptor(
    roles: &Roles<'_>,
    role: &'static str,
    source: &Source<'_>,
    at: &Path<'_>,
) -> Result<Bytes, ModelError> {
    let at = at.key("quant_parameter_tensor_names", role);
    let Some(tensor) = roles.get(role) else {
        return Err(at.refused("an initializer", "none"));
    };
    if tensor.data_type() != DataType::Uint8 as i32 || tensor.dims.len() != 1 {
        let got = types::element_text(tensor.data_type);
        return Err(at.refused(
            "a serialised message: UINT8 with one axis",
            format!("{got}{}", affine::short(&tensor.dims)),
        ));
    }
    let bytes = tensor_bytes(tensor, source.external).map_err(|fault| ModelError::Payload {
        at: at.to_string(),
        source: fault,
    })?;
    if bytes.len() as u64 > DESCRIPTOR_LIMIT {
        return Err(ModelError::Limit {
            at: at.to_string(),
            what: "bytes of a descriptor",
            limit: DESCRIPTOR_LIMIT,
            got: bytes.len() as u64,
        });
    }
    Ok(bytes)
}

/// The storage type is a struct type of fixed size, inline or by reference.
fn check_storage_type(
    roles: &Roles<'_>,
    source: &Source<'_>,
    at: &Path<'_>,
) -> Result<StructTypeProto, ModelError> {
    let bytes = descriptor(roles, "storage_type", source, at)?;
    let at = at.key("quant_parameter_tensor_names", "storage_type");
    // As an entry of a model's catalogue it can be sized before it is decoded.
    let model = ModelWire::around(&bytes);
    if structure_bytes(&model.0, STRUCTURE_LIMIT).is_none() {
        return Err(at.refused(
            format!("a StructTypeProto that takes at most {STRUCTURE_LIMIT} bytes of memory"),
            "a larger one",
        ));
    }
    let mut decoded = ModelProto::decode(model.0)
        .map_err(|fault| at.refused("a serialised StructTypeProto", shown(&fault.to_string())))?;
    let Some(declared) = decoded.struct_types.pop() else {
        return Err(at.refused("a serialised StructTypeProto", "nothing"));
    };
    let at = at.field("struct_type");
    let found = types::walk_struct(&declared, Role::Layout, &at)?;
    source.catalogue.check(&found)?;
    source.catalogue.bit_size(&declared, &at)?;
    Ok(declared)
}

/// A model whose catalogue has one entry.
struct ModelWire(Bytes);

impl ModelWire {
    fn around(entry: &[u8]) -> ModelWire {
        // Field 1000, length-delimited.
        let mut wire = vec![0xC2, 0x3E];
        let mut length = entry.len();
        while length >= 0x80 {
            wire.push((length & 0x7F) as u8 | 0x80);
            length >>= 7;
        }
        wire.push(length as u8);
        wire.extend_from_slice(entry);
        ModelWire(Bytes::from(wire))
    }
}

/// The logical type is a tensor type whose dimensions are numbers.
fn check_logical_type(
    roles: &Roles<'_>,
    source: &Source<'_>,
    at: &Path<'_>,
) -> Result<TypeProto, ModelError> {
    let bytes = descriptor(roles, "logical_type", source, at)?;
    let at = at.key("quant_parameter_tensor_names", "logical_type");
    if bytes.len() > 1 << 16 {
        return Err(at.refused("at most 65536 bytes", bytes.len().to_string()));
    }
    let ty = TypeProto::decode(bytes)
        .map_err(|fault| at.refused("a serialised TypeProto", shown(&fault.to_string())))?;
    affine::check_logical_type(Some(&ty), &at.field("type"))?;
    Ok(ty)
}

/// Scales are there, and floating-point numbers.
fn check_scales(roles: &Roles<'_>, at: &Path<'_>) -> Result<(), FieldError> {
    use DataType::{Bfloat16, Double, Float, Float16};
    let at = at.key("quant_parameter_tensor_names", REQUIRED);
    let Some(tensor) = roles.get(REQUIRED) else {
        return Err(at.fault("an initializer", "none"));
    };
    let kind = DataType::try_from(tensor.data_type()).unwrap_or(DataType::Undefined);
    if matches!(kind, Float | Float16 | Double | Bfloat16) {
        return Ok(());
    }
    let got = types::element_text(tensor.data_type);
    Err(at.fault("FLOAT, FLOAT16, DOUBLE or BFLOAT16", got))
}

/// The other roles are numbers; a permutation is of INT64.
fn check_numbers(roles: &Roles<'_>, role: &'static str, at: &Path<'_>) -> Result<(), FieldError> {
    let Some(tensor) = roles.get(role) else {
        return Ok(());
    };
    let kind = DataType::try_from(tensor.data_type()).unwrap_or(DataType::Undefined);
    let (fits, expected) = match role {
        "permutation" => (kind == DataType::Int64, "INT64"),
        _ => (
            !matches!(kind, DataType::String | DataType::Undefined),
            "numbers",
        ),
    };
    if fits {
        return Ok(());
    }
    let got = types::element_text(tensor.data_type);
    Err(at
        .key("quant_parameter_tensor_names", role)
        .fault(expected, got))
}
