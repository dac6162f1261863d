//! Struct types of fixed size: the layouts of structured encodings.

use super::tensor::{adopt, wire_dims};
use super::{Catalogues, Elements, Reading, refused, tensor_to_proto};
use crate::error::ModelError;
use crate::load::ExternalData;
use crate::path::Path;
use crate::struct_types::StructTypes;
use crate::validate::types::{self, Dim, Role, sizes};
use refeed_proto::struct_type_proto::bit_packing::Component as ComponentProto;
use refeed_proto::struct_type_proto::structure::Field as FieldProto;
use refeed_proto::struct_type_proto::structure::field::Content;
use refeed_proto::struct_type_proto::{Array, BitPacking, Kind, Structure};
use refeed_proto::tensor_shape_proto::{Dimension, dimension};
use refeed_proto::type_proto::{self, Value};
use refeed_proto::{StructTypeProto, TensorShapeProto, TypeProto};
use refeed_values::encoded::{
    Component, Declaration, Field, FieldContent, StorageType, StructKind, StructType,
};
use refeed_values::{DType, Extent, Provenance};
use std::sync::Arc;

/// A declaration of fixed size as a type. References lead to the catalogue's own types, which are shared.
///
/// # Errors
/// When the declaration breaks a rule, refers to nothing, or has parts without a fixed size.
pub fn struct_type_from_proto(
    declared: &StructTypeProto,
    catalogues: &Catalogues,
) -> Result<Arc<StructType>, ModelError> {
    let at = Path::root("struct_type");
    let struct_types = &catalogues.struct_types;
    let found = types::walk_struct(declared, Role::Layout, &at)?;
    struct_types.check(&found)?;
    struct_types.bit_size(declared, &at)?;
    layout_of(declared, &at, struct_types)
}

/// A declaration that was checked, as a type. Checked types nest at most 64 deep, and so does this recursion.
pub(crate) fn layout_of(
    declared: &StructTypeProto,
    at: &Path<'_>,
    catalogue: &StructTypes,
) -> Result<Arc<StructType>, ModelError> {
    let kind = match &declared.kind {
        Some(Kind::TypeRef(id)) => {
            return match catalogue.layout(*id)? {
                Some(layout) => Ok(layout),
                None => Err(at.field("type_ref").refused(
                    "the identity of an entry of the model's struct_types",
                    id.to_string(),
                )),
            };
        }
        None => return Err(at.refused("a type of fixed size", types::struct_kind(declared))),
        Some(Kind::Array(array)) => {
            let Some(element) = array.element_type.as_deref() else {
                return Err(at.field("array").refused("an element type", "none"));
            };
            let at = at.field("array");
            StructKind::Array {
                element: storage_of(element, &at.field("element_type"), catalogue)?,
                dimension: array.dimension(),
            }
        }
        Some(Kind::BitPacking(packing)) => {
            let component = |part: &ComponentProto| Component {
                name: part.name().into(),
                bits: part.bit_width(),
            };
            StructKind::BitPacking {
                components: packing.component.iter().map(component).collect(),
                dimension: packing.dimension(),
            }
        }
        Some(Kind::Structure(structure)) => {
            let at = at.field("structure");
            let fields = structure.field.iter().enumerate();
            let fields = fields.map(|(index, field)| {
                let at = at.named("field", index, field.name());
                Ok(Field {
                    name: field.name().into(),
                    content: content_of(field, &at, catalogue)?,
                })
            });
            StructKind::Structure(fields.collect::<Result<_, ModelError>>()?)
        }
    };
    let mut made = StructType::new(kind).map_err(|fault| refused(fault, at))?;
    if let Some(name) = &declared.name {
        made = made.named(name.as_str());
    }
    if let Some(id) = declared.type_id {
        made = made.identified(id);
    }
    let declaration = Declaration::new(declared.clone());
    Ok(Arc::new(made.with_declaration(declaration)))
}

fn content_of(
    field: &FieldProto,
    at: &Path<'_>,
    catalogue: &StructTypes,
) -> Result<FieldContent, ModelError> {
    match &field.content {
        None => Err(at.refused("a type or a constant", "neither")),
        Some(Content::Type(ty)) => {
            let ty = storage_of(ty, &at.field("type"), catalogue)?;
            Ok(FieldContent::Type(ty))
        }
        Some(Content::Constant(constant)) => {
            let at = at.field("constant");
            if constant.data_type() == DType::String.to_onnx() {
                let expected = "elements of fixed size in the layout of an encoding";
                return Err(at.refused(expected, "STRING"));
            }
            let elements = Elements::of(constant, &ExternalData::none()).map_err(|source| {
                ModelError::Payload {
                    at: at.to_string(),
                    source,
                }
            })?;
            let tensor = adopt(elements, Provenance::Model);
            tensor
                .map(FieldContent::Constant)
                .map_err(|source| ModelError::Tensor {
                    tensor: at.to_string(),
                    source,
                })
        }
    }
}

fn storage_of(
    ty: &TypeProto,
    at: &Path<'_>,
    catalogue: &StructTypes,
) -> Result<StorageType, ModelError> {
    match &ty.value {
        Some(Value::StructType(declared)) => {
            let layout = layout_of(declared, &at.field("struct_type"), catalogue)?;
            Ok(StorageType::Struct(layout))
        }
        Some(Value::TensorType(tensor)) => {
            let at = at.field("tensor_type");
            let (dtype, shape) = concrete(tensor, &at)?;
            Ok(StorageType::Tensor { dtype, shape })
        }
        _ => Err(at.refused("a type of fixed size", types::kind(ty))),
    }
}

/// The element type and the extents of a tensor type whose dimensions are numbers.
pub(super) fn concrete(
    tensor: &type_proto::Tensor,
    at: &Path<'_>,
) -> Result<(DType, refeed_values::Dims), ModelError> {
    let number = tensor.elem_type.unwrap_or(0);
    let Some(dtype) = DType::from_onnx(number) else {
        let got = types::element_text(tensor.elem_type);
        return Err(at.field("elem_type").refused("an element type", got));
    };
    let at = at.field("shape");
    let dims = tensor.shape.as_ref().map(|shape| {
        let dims = sizes(shape).map(|dim| match dim {
            Dim::Value(n) => Some(n),
            Dim::Symbol(_) | Dim::Unknown => None,
        });
        dims.collect::<Option<Vec<i64>>>()
    });
    let Some(Some(dims)) = dims else {
        let got = types::tensor_text(tensor);
        return Err(at.refused("dimensions that are numbers", got));
    };
    match Extent::from_dims(dtype, &dims) {
        Ok((_, shape)) => Ok((dtype, shape)),
        Err(source) => Err(at.refused("dimensions with a size", source.to_string())),
    }
}

/// The declaration of a type: as it was read, a reference when it stands in a catalogue, and else made from its parts.
///
/// # Errors
/// When memory for a constant cannot be had.
pub fn struct_type_to_proto(ty: &StructType) -> Result<StructTypeProto, ModelError> {
    if let Some(id) = ty.type_id() {
        return Ok(StructTypeProto {
            kind: Some(Kind::TypeRef(id)),
            ..StructTypeProto::default()
        });
    }
    if let Some(declared) = ty
        .declaration()
        .and_then(Declaration::get::<StructTypeProto>)
    {
        return Ok(declared.clone());
    }
    let kind = match ty.kind() {
        StructKind::Array { element, dimension } => Kind::Array(Box::new(Array {
            element_type: Some(Box::new(storage_to_proto(element)?)),
            dimension: Some(*dimension),
        })),
        StructKind::BitPacking {
            components,
            dimension,
        } => Kind::BitPacking(BitPacking {
            component: components
                .iter()
                .map(|part| ComponentProto {
                    name: Some(part.name.to_string()),
                    bit_width: Some(part.bits),
                })
                .collect(),
            dimension: Some(*dimension),
        }),
        StructKind::Structure(fields) => {
            let fields = fields.iter().map(|field| {
                let content = match &field.content {
                    FieldContent::Type(ty) => Content::Type(storage_to_proto(ty)?),
                    FieldContent::Constant(tensor) => Content::Constant(tensor_to_proto(tensor)?),
                };
                Ok(FieldProto {
                    name: Some(field.name.to_string()),
                    content: Some(content),
                    ..FieldProto::default()
                })
            });
            Kind::Structure(Structure {
                field: fields.collect::<Result<_, ModelError>>()?,
            })
        }
        other => {
            let path = Path::root("struct_type");
            return Err(path.refused(
                "an array, a structure or a bit packing",
                format!("{other:?}"),
            ));
        }
    };
    Ok(StructTypeProto {
        kind: Some(kind),
        name: ty.name().map(|name| name.to_string()),
        ..StructTypeProto::default()
    })
}

fn storage_to_proto(ty: &StorageType) -> Result<TypeProto, ModelError> {
    let value = match ty {
        StorageType::Struct(inner) => Value::StructType(Box::new(struct_type_to_proto(inner)?)),
        StorageType::Tensor { dtype, shape } => tensor_type(*dtype, shape),
        other => {
            let path = Path::root("type");
            return Err(path.refused("a tensor or a struct type", format!("{other:?}")));
        }
    };
    Ok(TypeProto {
        denotation: None,
        value: Some(value),
    })
}

/// A tensor type whose dimensions are numbers.
pub(super) fn tensor_type(dtype: DType, shape: &[usize]) -> Value {
    let dim = |n| Dimension {
        value: Some(dimension::Value::DimValue(n)),
        denotation: None,
    };
    Value::TensorType(type_proto::Tensor {
        elem_type: Some(dtype.to_onnx()),
        shape: Some(TensorShapeProto {
            dim: wire_dims(shape).into_iter().map(dim).collect(),
        }),
    })
}

impl StructTypes {
    /// The layout of an entry's values, made once; `None` when there is no such entry.
    ///
    /// # Errors
    /// When the entry's values have no fixed size.
    pub(crate) fn layout(&self, id: u64) -> Result<Option<Arc<StructType>>, ModelError> {
        let Some((declared, slot)) = self.layout_slot(id) else {
            return Ok(None);
        };
        if let Some(made) = slot.get() {
            return Ok(Some(Arc::clone(made)));
        }
        let at = Path::root("struct_types");
        let made = layout_of(declared, &at, self)?;
        Ok(Some(Arc::clone(slot.get_or_init(|| made))))
    }
}

/// As [`layout_of`], for a layout that stands in a message that is read.
pub(super) fn read(
    declared: &StructTypeProto,
    at: &Path<'_>,
    reading: &Reading<'_>,
) -> Result<Arc<StructType>, ModelError> {
    layout_of(declared, at, reading.struct_types)
}
