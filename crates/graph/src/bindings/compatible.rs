//! Whether values of one declared type can be of another: a bound output as the next input, an encoding as what is
//! declared.

use crate::error::FieldError;
use crate::load::shown;
use crate::path::{Path, Place, Step, Trail};
use crate::struct_types::{StructTypes, cache};
use crate::validate::types::{self, DEPTH, Dim, sizes};
use refeed_proto::struct_type_proto::structure::field::Content;
use refeed_proto::struct_type_proto::{BitPacking, Kind, Structure};
use refeed_proto::type_proto::{self, Value};
use refeed_proto::{StructTypeProto, TensorProto, TypeProto};

/// Two declarations that are compared, and where the second stands.
type Pair<'c> = (&'c TypeProto, &'c TypeProto, usize, Place);

/// Compares two types. Symbolic dimensions are not compared: they are numbers only in a call.
pub(crate) fn compare(
    expected: &TypeProto,
    got: &TypeProto,
    at: &Path<'_>,
    catalogue: &StructTypes,
) -> Result<(), FieldError> {
    walk(
        vec![(expected, got, 0, Place::BASE)],
        Trail::new(*at),
        catalogue,
    )
}

/// Compares two struct types, as [`compare`] compares types.
pub(crate) fn compare_structs(
    expected: &StructTypeProto,
    got: &StructTypeProto,
    at: &Path<'_>,
    catalogue: &StructTypes,
) -> Result<(), FieldError> {
    let mut trail = Trail::new(*at);
    let mut stack = Vec::new();
    let from = (0, Place::BASE);
    push_structs(expected, got, catalogue, from, &mut trail, &mut stack)?;
    walk(stack, trail, catalogue)
}

/// Compares the pairs of a stack and everything inside them.
fn walk<'c>(
    mut stack: Vec<Pair<'c>>,
    mut trail: Trail<'c>,
    catalogue: &'c StructTypes,
) -> Result<(), FieldError> {
    while let Some((expected, got, depth, place)) = stack.pop() {
        if depth > DEPTH {
            return Err(trail.path(place).fault(
                format!("types nested at most {DEPTH} deep"),
                format!("one at depth {depth}"),
            ));
        }
        match (&expected.value, &got.value) {
            (Some(Value::TensorType(expected)), Some(Value::TensorType(got))) => {
                compatible_tensors(expected, got, &trail.path(place))?;
            }
            (Some(Value::SequenceType(expected)), Some(Value::SequenceType(got))) => {
                let place = trail.push(place, Step::Field("sequence_type"));
                let place = trail.push(place, Step::Field("elem_type"));
                match (expected.elem_type.as_deref(), got.elem_type.as_deref()) {
                    (Some(expected), Some(got)) => stack.push((expected, got, depth + 1, place)),
                    _ => return Err(trail.path(place).fault("a type", "none")),
                }
            }
            (Some(Value::StructType(expected)), Some(Value::StructType(got))) => {
                let place = trail.push(place, Step::Field("struct_type"));
                let from = (depth, place);
                push_structs(expected, got, catalogue, from, &mut trail, &mut stack)?;
            }
            _ => {
                let path = trail.path(place);
                return Err(path.fault(types::kind(expected), types::kind(got)));
            }
        }
    }
    Ok(())
}

/// Equal element types, equal ranks, and no two known sizes that differ.
fn compatible_tensors(
    expected: &type_proto::Tensor,
    got: &type_proto::Tensor,
    at: &Path<'_>,
) -> Result<(), FieldError> {
    let differ = |why: String| {
        let got = format!("{}: {why}", types::tensor_text(got));
        Err(at.fault(types::tensor_text(expected), got))
    };
    if expected.elem_type != got.elem_type {
        return differ("element types differ".to_string());
    }
    for shape in [&expected.shape, &got.shape] {
        types::check_shape(shape.as_ref(), &at.field("tensor_type").field("shape"))?;
    }
    let (Some(a), Some(b)) = (&expected.shape, &got.shape) else {
        return Ok(());
    };
    if a.dim.len() != b.dim.len() {
        return differ(format!("ranks are {} and {}", a.dim.len(), b.dim.len()));
    }
    for (axis, pair) in sizes(a).zip(sizes(b)).enumerate() {
        if let (Dim::Value(a), Dim::Value(b)) = pair
            && a != b
        {
            return differ(format!("axis {axis} is {a} and {b}"));
        }
    }
    Ok(())
}

/// Compares two struct types but for the types inside them, which are put on the stack.
fn push_structs<'c>(
    expected: &'c StructTypeProto,
    got: &'c StructTypeProto,
    catalogue: &'c StructTypes,
    (depth, place): (usize, Place),
    trail: &mut Trail<'c>,
    stack: &mut Vec<Pair<'c>>,
) -> Result<(), FieldError> {
    let path = trail.path(place);
    let resolved = |declared: &'c StructTypeProto| match &declared.kind {
        Some(Kind::TypeRef(id)) if !catalogue.is_deferred() => {
            let found = catalogue.get(*id);
            found.map(Some).ok_or_else(|| {
                let expected = "the identity of an entry of the model's struct_types";
                path.field("type_ref").fault(expected, id.to_string())
            })
        }
        _ => Ok(catalogue.resolve(declared)),
    };
    // Apart from the model nothing more can be said of a reference.
    let (Some(expected), Some(got)) = (resolved(expected)?, resolved(got)?) else {
        return Ok(());
    };
    if is_category(expected) && is_category(got) {
        return Ok(());
    }
    for (category, cache) in [(expected, got), (got, expected)] {
        if is_category(category) && cache::is_declared_cache(cache, catalogue) {
            return Ok(());
        }
    }
    if expected.type_id.is_some() || got.type_id.is_some() {
        if expected.type_id == got.type_id {
            return Ok(());
        }
        return Err(path.fault(identity(expected), identity(got)));
    }
    check_codecs(expected, got, &path)?;
    match (&expected.kind, &got.kind) {
        (Some(Kind::Array(a)), Some(Kind::Array(b))) => {
            if a.dimension != b.dimension {
                let elements = |n: u64| format!("an array of {n} elements");
                return Err(path.fault(elements(a.dimension()), elements(b.dimension())));
            }
            let place = trail.push(place, Step::Field("array"));
            let place = trail.push(place, Step::Field("element_type"));
            match (a.element_type.as_deref(), b.element_type.as_deref()) {
                (Some(a), Some(b)) => {
                    stack.push((a, b, depth + 1, place));
                    Ok(())
                }
                _ => Err(trail.path(place).fault("a type", "none")),
            }
        }
        (Some(Kind::BitPacking(a)), Some(Kind::BitPacking(b))) => {
            compatible_packings(a, b, &path.field("bit_packing"))
        }
        (Some(Kind::Structure(a)), Some(Kind::Structure(b))) => {
            let place = trail.push(place, Step::Field("structure"));
            compare_fields(a, b, (depth, place), trail, stack)
        }
        _ => Err(path.fault(types::struct_kind(expected), types::struct_kind(got))),
    }
}

/// A struct type of no kind takes any paged cache.
fn is_category(declared: &StructTypeProto) -> bool {
    declared.kind.is_none() && declared.type_id.is_none()
}

fn identity(declared: &StructTypeProto) -> String {
    match declared.type_id {
        Some(id) => format!("struct type {id}"),
        None => format!("{} that is declared inline", types::struct_kind(declared)),
    }
}

/// What a codec means can be told only by a shared identity.
fn check_codecs(
    expected: &StructTypeProto,
    got: &StructTypeProto,
    at: &Path<'_>,
) -> Result<(), FieldError> {
    let coded = |ty: &StructTypeProto| ty.decoder.is_some() || ty.encoder.is_some();
    if coded(expected) || coded(got) {
        return Err(at.fault(
            "one type_id for both struct types, as one has a decoder or encoder",
            "none",
        ));
    }
    Ok(())
}

/// The same number of the same components, by name and width, in one order.
fn compatible_packings(
    expected: &BitPacking,
    got: &BitPacking,
    at: &Path<'_>,
) -> Result<(), FieldError> {
    let text = |packing: &BitPacking| {
        let parts: Vec<String> = packing
            .component
            .iter()
            .take(8)
            .map(|part| format!("{}:{}", shown(part.name()), part.bit_width()))
            .collect();
        let more = if packing.component.len() > 8 {
            ", ..."
        } else {
            ""
        };
        format!("{} x ({}{more})", packing.dimension(), parts.join(", "))
    };
    let alike = expected.dimension() == got.dimension()
        && expected.component.len() == got.component.len()
        && expected
            .component
            .iter()
            .zip(&got.component)
            .all(|(a, b)| a.name() == b.name() && a.bit_width() == b.bit_width());
    if alike {
        Ok(())
    } else {
        Err(at.fault(text(expected), text(got)))
    }
}

/// The same fields in one order; typed fields are put on the stack, constants are compared.
fn compare_fields<'c>(
    expected: &'c Structure,
    got: &'c Structure,
    (depth, place): (usize, Place),
    trail: &mut Trail<'c>,
    stack: &mut Vec<Pair<'c>>,
) -> Result<(), FieldError> {
    if expected.field.len() != got.field.len() {
        let fields = |structure: &Structure| format!("{} fields", structure.field.len());
        return Err(trail.path(place).fault(fields(expected), fields(got)));
    }
    for (index, (a, b)) in expected.field.iter().zip(&got.field).enumerate() {
        let place = trail.push(place, Step::Named("field", index, b.name()));
        let path = trail.path(place);
        if a.name() != b.name() {
            let name = |name| format!("`{}`", shown(name));
            return Err(path.fault(name(a.name()), name(b.name())));
        }
        match (&a.content, &b.content) {
            (Some(Content::Type(a)), Some(Content::Type(b))) => {
                let place = trail.push(place, Step::Field("type"));
                stack.push((a, b, depth + 1, place));
            }
            (Some(Content::Constant(a)), Some(Content::Constant(b))) => {
                if !same_constant(a, b) {
                    return Err(path.fault("an equal constant", "another one"));
                }
            }
            (Some(Content::Type(_)), _) => return Err(path.fault("a type", "a constant")),
            _ => return Err(path.fault("a constant", "a type")),
        }
    }
    Ok(())
}

/// Equal in type, dimensions and every data field; floating-point elements by their bits.
fn same_constant(a: &TensorProto, b: &TensorProto) -> bool {
    fn bits<'v, F: Copy + 'v, B: PartialEq>(a: &'v [F], b: &'v [F], bits: fn(F) -> B) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| bits(a) == bits(b))
    }
    a.data_type == b.data_type
        && a.dims == b.dims
        && a.raw_data == b.raw_data
        && a.int32_data == b.int32_data
        && a.int64_data == b.int64_data
        && a.uint64_data == b.uint64_data
        && a.string_data == b.string_data
        && bits(&a.float_data, &b.float_data, f32::to_bits)
        && bits(&a.double_data, &b.double_data, f64::to_bits)
}
