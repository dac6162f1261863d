//! Which declared types are well formed, which can be kept between calls, and which fit each other.

use crate::load::shown;
use crate::struct_types::StructTypes;
use refeed_proto::ext::data_type_name;
use refeed_proto::struct_type_proto::{Kind, Structure, structure::field::Content};
use refeed_proto::tensor_proto::DataType;
use refeed_proto::tensor_shape_proto::dimension;
use refeed_proto::type_proto::{self, Value};
use refeed_proto::{StructTypeProto, TensorShapeProto, TypeProto};
use refeed_values::DType;
use std::collections::HashMap;

/// Types nested deeper are refused; a reference into the catalogue is one level.
pub(crate) const DEPTH: usize = 64;

/// A message about a type: what is wrong with it, without the name of the value.
type Fault = String;

/// One dimension as a file declares it; the number may be negative.
#[derive(Clone, Copy)]
enum Dim<'a> {
    Value(i64),
    Symbol(&'a str),
    Unknown,
}

fn sizes(shape: &TensorShapeProto) -> impl Iterator<Item = Dim<'_>> {
    shape.dim.iter().map(|dim| match &dim.value {
        Some(dimension::Value::DimValue(n)) => Dim::Value(*n),
        Some(dimension::Value::DimParam(name)) if !name.is_empty() => Dim::Symbol(name),
        _ => Dim::Unknown,
    })
}

fn shape_text(shape: Option<&TensorShapeProto>) -> String {
    let Some(shape) = shape else {
        return "[...]".to_string();
    };
    let dims: Vec<String> = sizes(shape)
        .map(|dim| match dim {
            Dim::Value(n) => n.to_string(),
            Dim::Symbol(name) => shown(name),
            Dim::Unknown => "?".to_string(),
        })
        .collect();
    format!("[{}]", dims.join(", "))
}

fn element_text(number: Option<i32>) -> String {
    let number = number.unwrap_or(0);
    data_type_name(number).map_or_else(|| format!("element type {number}"), str::to_string)
}

fn tensor_text(tensor: &type_proto::Tensor) -> String {
    format!(
        "{}{}",
        element_text(tensor.elem_type),
        shape_text(tensor.shape.as_ref())
    )
}

/// The kind of a type, for messages.
fn kind(ty: &TypeProto) -> &'static str {
    match &ty.value {
        None => "unset",
        Some(Value::TensorType(_)) => "tensor",
        Some(Value::SequenceType(_)) => "sequence",
        Some(Value::MapType(_)) => "map",
        Some(Value::OptionalType(_)) => "optional",
        Some(Value::SparseTensorType(_)) => "sparse tensor",
        Some(Value::OpaqueType(_)) => "opaque",
        Some(Value::StructType(_)) => "struct",
    }
}

fn check_element(number: Option<i32>) -> Result<DType, Fault> {
    let number = number.unwrap_or(0);
    DType::from_onnx(number).ok_or_else(|| format!("expected an element type, got {number}"))
}

fn check_shape(shape: Option<&TensorShapeProto>) -> Result<(), Fault> {
    let Some(shape) = shape else { return Ok(()) };
    for (axis, dim) in sizes(shape).enumerate() {
        if let Dim::Value(n) = dim
            && n < 0
        {
            return Err(format!(
                "axis {axis}: expected a size of 0 or more, got {n}"
            ));
        }
    }
    Ok(())
}

/// The walk behind [`check_type`] and [`check_persistent`]: nested types are put on a stack, and an entry of the
/// catalogue is not walked again at the same depth or higher.
struct Walk<'a, 'c> {
    catalogue: &'c StructTypes<'a>,
    stack: Vec<(&'c TypeProto, usize)>,
    done: HashMap<u64, usize>,
    persistent: bool,
}

impl<'a: 'c, 'c> Walk<'a, 'c> {
    fn run(
        ty: &'c TypeProto,
        catalogue: &'c StructTypes<'a>,
        persistent: bool,
    ) -> Result<(), Fault> {
        let mut walk = Walk {
            catalogue,
            stack: vec![(ty, 0)],
            done: HashMap::new(),
            persistent,
        };
        while let Some((ty, depth)) = walk.stack.pop() {
            if depth > DEPTH {
                return Err(format!("types are nested deeper than {DEPTH}"));
            }
            walk.visit(ty, depth)?;
        }
        Ok(())
    }

    fn push(&mut self, ty: Option<&'c TypeProto>, depth: usize, what: &str) -> Result<(), Fault> {
        self.stack
            .push((ty.ok_or_else(|| format!("{what} has no type"))?, depth));
        Ok(())
    }

    fn visit(&mut self, ty: &'c TypeProto, depth: usize) -> Result<(), Fault> {
        let refused = |kind| Err(format!("{kind} types cannot be persistent"));
        match &ty.value {
            None => Err("expected a type, got none".to_string()),
            Some(Value::TensorType(tensor)) => {
                let dtype = check_element(tensor.elem_type)?;
                if self.persistent && dtype == DType::String {
                    return Err("String tensors cannot be persistent".to_string());
                }
                // Whether a bound dimension may be negative is a question of compatibility.
                if self.persistent {
                    Ok(())
                } else {
                    check_shape(tensor.shape.as_ref())
                }
            }
            Some(Value::SparseTensorType(_)) if self.persistent => refused("sparse tensor"),
            Some(Value::SparseTensorType(sparse)) => {
                check_element(sparse.elem_type)?;
                check_shape(sparse.shape.as_ref())
            }
            Some(Value::OpaqueType(_)) if self.persistent => refused("opaque"),
            Some(Value::OpaqueType(_)) => Ok(()),
            Some(Value::OptionalType(_)) if self.persistent => refused("optional"),
            Some(Value::OptionalType(optional)) => {
                self.push(optional.elem_type.as_deref(), depth + 1, "the optional")
            }
            Some(Value::MapType(_)) if self.persistent => refused("map"),
            Some(Value::MapType(map)) => {
                use DataType::{Int8, Int16, Int32, Int64, String, Uint8, Uint16, Uint32, Uint64};
                let key =
                    DataType::try_from(map.key_type.unwrap_or(0)).unwrap_or(DataType::Undefined);
                if !matches!(
                    key,
                    Int8 | Int16 | Int32 | Int64 | Uint8 | Uint16 | Uint32 | Uint64 | String
                ) {
                    let got = element_text(map.key_type);
                    return Err(format!(
                        "map keys: expected an integer type or STRING, got {got}"
                    ));
                }
                self.push(map.value_type.as_deref(), depth + 1, "the map")
            }
            Some(Value::SequenceType(sequence)) => {
                self.push(sequence.elem_type.as_deref(), depth + 1, "the sequence")
            }
            Some(Value::StructType(declared)) => self.visit_struct(declared, depth),
        }
    }

    fn visit_struct(&mut self, declared: &'c StructTypeProto, depth: usize) -> Result<(), Fault> {
        if declared.type_id.is_some() {
            return Err("a struct type outside the catalogue must not have a type_id".to_string());
        }
        let mut depth = depth;
        let mut declared = declared;
        if let Some(Kind::TypeRef(id)) = &declared.kind {
            depth += 1;
            if self.done.get(id).is_some_and(|&before| before >= depth) {
                return Ok(());
            }
            self.done.insert(*id, depth);
            declared = self.catalogue.get(*id)?;
        }
        match &declared.kind {
            None => Ok(()),
            // Entries of the catalogue are never references, so this is a reference to nothing walked above.
            Some(Kind::TypeRef(id)) => {
                Err(format!("struct type {id} is a reference to a reference"))
            }
            Some(Kind::Array(array)) => {
                self.push(array.element_type.as_deref(), depth + 1, "the array")
            }
            Some(Kind::BitPacking(_)) => Ok(()),
            Some(Kind::Structure(structure)) => self.visit_fields(structure, depth),
        }
    }

    fn visit_fields(&mut self, structure: &'c Structure, depth: usize) -> Result<(), Fault> {
        for field in &structure.field {
            match &field.content {
                None => {
                    return Err(format!(
                        "field `{}` has neither a type nor a constant",
                        shown(field.name())
                    ));
                }
                Some(Content::Type(ty)) => self.stack.push((ty, depth + 1)),
                Some(Content::Constant(constant)) => {
                    if self.persistent && constant.data_type() == DataType::String as i32 {
                        return Err(format!(
                            "String tensors cannot be persistent (constant field `{}`)",
                            shown(field.name())
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Holds a declared type to the rules of any graph input or output.
///
/// # Errors
/// A text that says what is wrong.
pub fn check_type(ty: &TypeProto, catalogue: &StructTypes<'_>) -> Result<(), String> {
    Walk::run(ty, catalogue, false)
}

/// Holds a declared type to the rules of bound inputs and outputs: tensors that are not STRING, sequences and structs of
/// such, and nothing else.
///
/// # Errors
/// A text that says what is wrong.
pub fn check_persistent(ty: &TypeProto, catalogue: &StructTypes<'_>) -> Result<(), String> {
    Walk::run(ty, catalogue, true)
}

/// Whether values of one declared type can be of the other. Symbolic dimensions are not compared: they are numbers only
/// in a call.
///
/// # Errors
/// A text that says what differs, with both sides.
pub fn check_compatible(
    left: &TypeProto,
    right: &TypeProto,
    catalogue: &StructTypes<'_>,
) -> Result<(), String> {
    let mut stack = vec![(left, right, 0usize)];
    while let Some((left, right, depth)) = stack.pop() {
        if depth > DEPTH {
            return Err(format!("types are nested deeper than {DEPTH}"));
        }
        match (&left.value, &right.value) {
            (Some(Value::TensorType(left)), Some(Value::TensorType(right))) => {
                compatible_tensors(left, right)?
            }
            (Some(Value::SequenceType(left)), Some(Value::SequenceType(right))) => {
                match (left.elem_type.as_deref(), right.elem_type.as_deref()) {
                    (Some(left), Some(right)) => stack.push((left, right, depth + 1)),
                    _ => return Err("a sequence without an element type".to_string()),
                }
            }
            (Some(Value::StructType(left)), Some(Value::StructType(right))) => {
                compatible_structs(left, right, catalogue, depth, &mut stack)?;
            }
            _ => return Err(format!("{} against {}", kind(left), kind(right))),
        }
    }
    Ok(())
}

fn compatible_tensors(left: &type_proto::Tensor, right: &type_proto::Tensor) -> Result<(), Fault> {
    let differ = |why: String| {
        Err(format!(
            "{} against {}: {why}",
            tensor_text(left),
            tensor_text(right)
        ))
    };
    if left.elem_type != right.elem_type {
        return differ("element types differ".to_string());
    }
    for shape in [&left.shape, &right.shape] {
        if let Err(fault) = check_shape(shape.as_ref()) {
            return differ(fault);
        }
    }
    let (Some(a), Some(b)) = (&left.shape, &right.shape) else {
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

/// Fields of a paged cache's structure, in the order that kernels write.
fn is_cache(structure: &Structure) -> bool {
    let [blocks] = structure.field.as_slice() else {
        return false;
    };
    blocks.name() == "blocks"
        && matches!(
            &blocks.content,
            Some(Content::Type(TypeProto {
                value: Some(Value::SequenceType(_)),
                ..
            }))
        )
}

fn compatible_structs<'c>(
    left: &'c StructTypeProto,
    right: &'c StructTypeProto,
    catalogue: &'c StructTypes<'_>,
    depth: usize,
    stack: &mut Vec<(&'c TypeProto, &'c TypeProto, usize)>,
) -> Result<(), Fault> {
    let (left, right) = (catalogue.resolve(left)?, catalogue.resolve(right)?);
    if left.type_id.is_some() || right.type_id.is_some() {
        if left.type_id == right.type_id {
            return Ok(());
        }
        // A layout-less category takes any declared cache; every other pair needs one identity.
        if !(category_takes(left, right) || category_takes(right, left)) {
            let id = |id: Option<u64>| {
                id.map_or_else(
                    || "an inline struct".to_string(),
                    |id| format!("struct type {id}"),
                )
            };
            return Err(format!(
                "{} against {}",
                id(left.type_id),
                id(right.type_id)
            ));
        }
        return Ok(());
    }
    if [left, right]
        .iter()
        .any(|ty| ty.decoder.is_some() || ty.encoder.is_some())
    {
        return Err("struct types with a decoder or encoder need one shared type_id".to_string());
    }
    match (&left.kind, &right.kind) {
        (None, None) => Ok(()),
        (None, Some(Kind::Structure(cache))) | (Some(Kind::Structure(cache)), None)
            if is_cache(cache) =>
        {
            Ok(())
        }
        (Some(Kind::Array(a)), Some(Kind::Array(b))) => {
            if a.dimension != b.dimension {
                return Err(format!(
                    "arrays of {} and {} elements",
                    a.dimension(),
                    b.dimension()
                ));
            }
            match (a.element_type.as_deref(), b.element_type.as_deref()) {
                (Some(a), Some(b)) => {
                    stack.push((a, b, depth + 1));
                    Ok(())
                }
                _ => Err("an array without an element type".to_string()),
            }
        }
        (Some(Kind::BitPacking(a)), Some(Kind::BitPacking(b))) if a == b => Ok(()),
        (Some(Kind::BitPacking(_)), Some(Kind::BitPacking(_))) => {
            Err("bit packings differ".to_string())
        }
        (Some(Kind::Structure(a)), Some(Kind::Structure(b))) => {
            compatible_fields(a, b, depth, stack)
        }
        _ => Err("struct types of different kinds".to_string()),
    }
}

fn category_takes(category: &StructTypeProto, cache: &StructTypeProto) -> bool {
    category.kind.is_none()
        && category.type_id.is_none()
        && matches!(&cache.kind, Some(Kind::Structure(structure)) if is_cache(structure))
}

fn compatible_fields<'c>(
    left: &'c Structure,
    right: &'c Structure,
    depth: usize,
    stack: &mut Vec<(&'c TypeProto, &'c TypeProto, usize)>,
) -> Result<(), Fault> {
    if left.field.len() != right.field.len() {
        return Err(format!(
            "structures of {} and {} fields",
            left.field.len(),
            right.field.len()
        ));
    }
    for (index, (a, b)) in left.field.iter().zip(&right.field).enumerate() {
        if a.name() != b.name() {
            return Err(format!(
                "field {index} is `{}` and `{}`",
                shown(a.name()),
                shown(b.name())
            ));
        }
        match (&a.content, &b.content) {
            (Some(Content::Type(a)), Some(Content::Type(b))) => stack.push((a, b, depth + 1)),
            (Some(Content::Constant(x)), Some(Content::Constant(y))) => {
                let bare = |tensor: &refeed_proto::TensorProto| refeed_proto::TensorProto {
                    name: None,
                    doc_string: None,
                    metadata_props: Vec::new(),
                    ..tensor.clone()
                };
                if bare(x) != bare(y) {
                    return Err(format!("constant field `{}` differs", shown(a.name())));
                }
            }
            _ => {
                return Err(format!(
                    "field `{}` is typed on one side and constant on the other",
                    shown(a.name())
                ));
            }
        }
    }
    Ok(())
}
