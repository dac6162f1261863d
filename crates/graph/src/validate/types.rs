//! Declared types: what a `TypeProto` and a `StructTypeProto` must say.
//!
//! One walk serves graph inputs and outputs, other value infos, the entries of the catalogue and the layouts of encoded
//! values. It does not follow references into the catalogue: it lists them, and [`StructTypes`] knows of each entry how
//! deep it is and whether its values can be kept.

mod rules;
mod text;

pub(crate) use rules::check_shape;
pub(crate) use text::{Dim, element_text, kind, sizes, struct_kind, tensor_text};

use crate::error::FieldError;
use crate::path::{Path, Place, Step, Trail};
use crate::struct_types::StructTypes;
use refeed_proto::struct_type_proto::structure::field::Content;
use refeed_proto::struct_type_proto::{Kind, Structure};
use refeed_proto::tensor_proto::DataType;
use refeed_proto::type_proto::Value;
use refeed_proto::{StructTypeProto, TypeProto};
use refeed_values::DType;

/// Types nested deeper are refused; a reference into the catalogue is one level.
pub(crate) const DEPTH: usize = 64;

/// Where a struct type stands, which decides what it may leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// An entry of `ModelProto.struct_types`.
    Entry,
    /// Inside a `TypeProto`; without a kind it is a category.
    Declared,
    /// The layout of an encoded value.
    Layout,
}

/// How much of a `TypeProto` must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// All of it.
    Everything,
    /// Only its struct types are looked at: `value_info` may say as little as it likes.
    StructTypes,
}

/// A use of an entry of the catalogue.
#[derive(Debug, Clone)]
pub(crate) struct Reference {
    pub(crate) id: u64,
    /// Levels between the declaration and the reference.
    pub(crate) depth: usize,
    /// Path of the reference, kept only to be shown.
    pub(crate) at: String,
}

/// What a walk over one declaration found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Levels below the declaration, references not followed.
    pub(crate) height: usize,
    /// Uses of the catalogue, in no particular order.
    pub(crate) references: Vec<Reference>,
    /// The first part whose values cannot be kept between calls.
    pub(crate) unfit: Option<FieldError>,
}

enum Item<'a> {
    Type(&'a TypeProto, Asked),
    Struct(&'a StructTypeProto, Role),
}

struct Walk<'a> {
    trail: Trail<'a>,
    stack: Vec<(Item<'a>, usize, Place)>,
    found: Found,
}

/// Walks the type of a value.
pub(crate) fn walk_type(ty: &TypeProto, at: &Path<'_>, asked: Asked) -> Result<Found, FieldError> {
    Walk::run(Item::Type(ty, asked), at)
}

/// Walks a struct type.
pub(crate) fn walk_struct(
    declared: &StructTypeProto,
    role: Role,
    at: &Path<'_>,
) -> Result<Found, FieldError> {
    Walk::run(Item::Struct(declared, role), at)
}

impl<'a> Walk<'a> {
    fn run(root: Item<'a>, at: &'a Path<'a>) -> Result<Found, FieldError> {
        let mut walk = Walk {
            trail: Trail::new(*at),
            stack: vec![(root, 0, Place::BASE)],
            found: Found::default(),
        };
        while let Some((item, depth, place)) = walk.stack.pop() {
            if depth > DEPTH {
                return Err(walk.trail.path(place).fault(
                    format!("types nested at most {DEPTH} deep"),
                    format!("one at depth {depth}"),
                ));
            }
            walk.found.height = walk.found.height.max(depth);
            match item {
                Item::Type(ty, asked) => walk.visit_type(ty, asked, depth, place)?,
                Item::Struct(declared, role) => walk.visit_struct(declared, role, depth, place)?,
            }
        }
        Ok(walk.found)
    }

    fn unfit(&mut self, place: Place, expected: &str, got: &str) {
        if self.found.unfit.is_none() {
            self.found.unfit = Some(self.trail.path(place).fault(expected, got));
        }
    }

    fn push_type(
        &mut self,
        ty: Option<&'a TypeProto>,
        asked: Asked,
        depth: usize,
        place: Place,
        fields: [&'static str; 2],
    ) -> Result<(), FieldError> {
        let place = self.trail.push(place, Step::Field(fields[0]));
        let place = self.trail.push(place, Step::Field(fields[1]));
        match ty {
            Some(ty) => self.stack.push((Item::Type(ty, asked), depth + 1, place)),
            None if asked == Asked::StructTypes => {}
            None => return Err(self.trail.path(place).fault("a type", "none")),
        }
        Ok(())
    }

    fn visit_type(
        &mut self,
        ty: &'a TypeProto,
        asked: Asked,
        depth: usize,
        place: Place,
    ) -> Result<(), FieldError> {
        let whole = asked == Asked::Everything;
        let path = self.trail.path(place);
        let mut unfit = None;
        match &ty.value {
            None if whole => return Err(path.fault("a type", "none")),
            None => {}
            Some(Value::TensorType(tensor)) if whole => {
                let path = path.field("tensor_type");
                let dtype = rules::check_element(tensor.elem_type, &path.field("elem_type"))?;
                check_shape(tensor.shape.as_ref(), &path.field("shape"))?;
                if dtype == DType::String {
                    unfit = Some((
                        "elements of fixed size, as String tensors cannot be persistent",
                        "STRING",
                    ));
                }
            }
            Some(Value::SparseTensorType(sparse)) => {
                if whole {
                    let path = path.field("sparse_tensor_type");
                    rules::check_element(sparse.elem_type, &path.field("elem_type"))?;
                    check_shape(sparse.shape.as_ref(), &path.field("shape"))?;
                }
                unfit = Some((
                    "a type that can be kept, as sparse tensor types cannot be persistent",
                    "a sparse tensor",
                ));
            }
            Some(Value::OpaqueType(_)) => {
                unfit = Some((
                    "a type that can be kept, as opaque types cannot be persistent",
                    "an opaque value",
                ));
            }
            Some(Value::OptionalType(optional)) => {
                unfit = Some((
                    "a type that can be kept, as optional types cannot be persistent",
                    "an optional",
                ));
                let fields = ["optional_type", "elem_type"];
                self.push_type(optional.elem_type.as_deref(), asked, depth, place, fields)?;
            }
            Some(Value::MapType(map)) => {
                if whole {
                    rules::check_map_key(map.key_type, &path.field("map_type").field("key_type"))?;
                }
                unfit = Some((
                    "a type that can be kept, as map types cannot be persistent",
                    "a map",
                ));
                let fields = ["map_type", "value_type"];
                self.push_type(map.value_type.as_deref(), asked, depth, place, fields)?;
            }
            Some(Value::SequenceType(sequence)) => {
                let fields = ["sequence_type", "elem_type"];
                self.push_type(sequence.elem_type.as_deref(), asked, depth, place, fields)?;
            }
            Some(Value::StructType(declared)) => {
                let place = self.trail.push(place, Step::Field("struct_type"));
                self.stack
                    .push((Item::Struct(declared, Role::Declared), depth, place));
            }
            Some(Value::TensorType(_)) => {}
        }
        if let Some((expected, got)) = unfit {
            self.unfit(place, expected, got);
        }
        Ok(())
    }

    fn visit_struct(
        &mut self,
        declared: &'a StructTypeProto,
        role: Role,
        depth: usize,
        place: Place,
    ) -> Result<(), FieldError> {
        let path = self.trail.path(place);
        rules::check_identity(declared, role, &path)?;
        match &declared.kind {
            None => rules::check_category(declared, role, &path),
            Some(Kind::TypeRef(id)) => {
                rules::check_reference(declared, *id, role, &path)?;
                let at = path.to_string();
                self.found.references.push(Reference { id: *id, depth, at });
                Ok(())
            }
            Some(Kind::Array(array)) => {
                rules::check_array(array, &path.field("array"))?;
                let fields = ["array", "element_type"];
                let inner = array.element_type.as_deref();
                self.push_type(inner, Asked::Everything, depth, place, fields)
            }
            Some(Kind::BitPacking(packing)) => {
                rules::check_bit_packing(packing, &path.field("bit_packing"))
            }
            Some(Kind::Structure(structure)) => {
                rules::check_field_names(structure, &path.field("structure"))?;
                let place = self.trail.push(place, Step::Field("structure"));
                self.visit_fields(structure, depth, place)
            }
        }
    }

    fn visit_fields(
        &mut self,
        structure: &'a Structure,
        depth: usize,
        place: Place,
    ) -> Result<(), FieldError> {
        for (index, field) in structure.field.iter().enumerate() {
            let step = Step::Named("field", index, field.name());
            match &field.content {
                None => {
                    return Err(self
                        .trail
                        .path(place)
                        .then(step)
                        .fault("a type or a constant", "neither"));
                }
                Some(Content::Type(ty)) => {
                    let place = self.trail.push(place, step);
                    let place = self.trail.push(place, Step::Field("type"));
                    let item = Item::Type(ty, Asked::Everything);
                    self.stack.push((item, depth + 1, place));
                }
                Some(Content::Constant(constant)) => {
                    let place = self.trail.push(place, step);
                    let place = self.trail.push(place, Step::Field("constant"));
                    rules::check_constant(constant, &self.trail.path(place))?;
                    if constant.data_type() == DataType::String as i32 {
                        self.unfit(
                            place,
                            "elements of fixed size, as String tensors cannot be persistent",
                            "STRING",
                        );
                    }
                }
            }
        }
        Ok(())
    }
}

/// Holds a declared type to the rules of any graph input or output.
pub(crate) fn check_declared(
    ty: &TypeProto,
    at: &Path<'_>,
    catalogue: &StructTypes,
) -> Result<(), FieldError> {
    let found = walk_type(ty, at, Asked::Everything)?;
    catalogue.check(&found)
}

/// Holds a declared type to the rules of bound inputs and outputs: tensors that are not STRING, sequences and structs of
/// such, and nothing else.
pub(crate) fn check_kept(
    ty: &TypeProto,
    at: &Path<'_>,
    catalogue: &StructTypes,
) -> Result<(), FieldError> {
    let found = walk_type(ty, at, Asked::Everything)?;
    catalogue.check(&found)?;
    match catalogue.unfit(&found) {
        Some(fault) => Err(fault),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
