//! Values against declarations, where a declaration is more than an element type and a shape.

use super::{Catalogues, struct_type_to_proto};
use crate::bindings::compatible;
use crate::error::{FieldError, ModelError};
use crate::path::Path;
use crate::struct_types::cache;
use crate::types::Dim;
use refeed_proto::{StructTypeProto, TensorShapeProto};
use refeed_values::EncodedValue;
use refeed_values::encoded::{Declaration, Encoding};

/// What a declaration says of the pages of a cache: dimensions in the order batch, heads, capacity, width.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeclaredPages {
    /// Of every key; `None` when nothing is said.
    pub key: Option<[Dim; 4]>,
    /// Of every value.
    pub value: Option<[Dim; 4]>,
}

/// Reads a declaration of a paged cache: a struct type of no kind, which says nothing of the pages, or the named fields.
///
/// ```
/// use refeed_graph::values::{Catalogues, DeclaredPages, declared_pages};
/// use refeed_proto::StructTypeProto;
/// let any = declared_pages(&StructTypeProto::default(), &Catalogues::default())?;
/// assert_eq!(any, DeclaredPages::default());
/// # Ok::<(), refeed_graph::FieldError>(())
/// ```
///
/// # Errors
/// When it declares something else, or refers to an entry that the catalogue does not have.
pub fn declared_pages(
    declared: &StructTypeProto,
    catalogues: &Catalogues,
) -> Result<DeclaredPages, FieldError> {
    let at = Path::root("struct_type");
    let found = cache::declaration(declared, &at, &catalogues.struct_types)?;
    let found = found.unwrap_or_default();
    let dims = |shape: Option<&TensorShapeProto>| {
        let dims: Vec<Dim> = shape?.dim.iter().map(Dim::from_proto).collect();
        dims.try_into().ok()
    };
    Ok(DeclaredPages {
        key: dims(found.key),
        value: dims(found.value),
    })
}

/// Holds an encoded value to a declared struct type, as two bound types are held to each other. The payload is not read.
///
/// # Errors
/// When the value's layout is affine or of another struct type.
pub fn check_encoded(
    value: &EncodedValue,
    declared: &StructTypeProto,
    catalogues: &Catalogues,
) -> Result<(), ModelError> {
    let at = Path::root("struct_type");
    let Encoding::Struct(layout) = value.encoding() else {
        return Err(at.refused("a structured encoding", "an affine one"));
    };
    let read = layout
        .declaration()
        .and_then(Declaration::get::<StructTypeProto>);
    let made;
    let got = match read {
        Some(got) => got,
        None => {
            made = struct_type_to_proto(layout)?;
            &made
        }
    };
    Ok(compatible::compare_structs(
        declared,
        got,
        &at,
        &catalogues.struct_types,
    )?)
}
