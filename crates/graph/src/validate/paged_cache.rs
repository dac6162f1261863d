//! Paged caches: pages of consecutive tokens, each with its keys and values, dense or encoded.

use super::encoded;
use super::types::{self, Dim, sizes};
use super::{Context, affine, tensors};
use crate::error::{FieldError, ModelError};
use crate::path::Path;
use crate::struct_types::cache::{self, CacheDeclaration};
use refeed_proto::encoded_value_proto::Layout;
use refeed_proto::paged_cache_block_proto::{KeyPayload, ValuePayload};
use refeed_proto::type_proto::Value;
use refeed_proto::{
    EncodedValueProto, GraphProto, PagedCacheBlockProto, PagedCacheProto, TensorProto,
    TensorShapeProto, TypeProto,
};
use refeed_values::DType;
use refeed_values::paged_cache::{AXES, DENSE, PageRun};
use std::collections::HashMap;

/// More pages are refused.
const PAGE_LIMIT: u64 = 1_000_000;

/// Checks the cache initializers of a graph, those of graph inputs against the declared types as well.
pub(super) fn check_initializers(
    graph: &GraphProto,
    at: &Path<'_>,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    if graph.paged_cache_initializer.is_empty() {
        return Ok(());
    }
    let declared: HashMap<&str, (usize, &TypeProto)> = graph
        .input
        .iter()
        .enumerate()
        .filter_map(|(index, input)| Some((input.name(), (index, input.r#type.as_ref()?))))
        .collect();
    for (index, cache) in graph.paged_cache_initializer.iter().enumerate() {
        let here = at.named("paged_cache_initializer", index, cache.name());
        let declaration = match declared.get(cache.name()) {
            None => None,
            Some(&(input, ty)) => {
                let at = at.named("input", input, cache.name());
                check_declared(ty, &at.field("type"), context)?
            }
        };
        check(cache, declaration, &here, context)?;
    }
    Ok(())
}

/// A graph input with a cache for its default is declared as a cache.
fn check_declared<'a>(
    ty: &'a TypeProto,
    at: &Path<'_>,
    context: &'a Context<'_>,
) -> Result<Option<CacheDeclaration<'a>>, FieldError> {
    match &ty.value {
        Some(Value::StructType(declared)) => {
            cache::declaration(declared, &at.field("struct_type"), context.catalogue)
        }
        // Whether a type may be missing is another rule's question.
        None => Ok(None),
        Some(_) => Err(at.fault(
            "a struct type, as a paged cache is the input's default",
            types::kind(ty),
        )),
    }
}

/// Checks a cache that no declaration is known of.
pub(crate) fn check_apart(
    cache: &PagedCacheProto,
    at: &Path<'_>,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    check(cache, None, at, context)
}

/// Checks a cache: every page by itself, and against those before it.
pub(super) fn check(
    cache: &PagedCacheProto,
    declaration: Option<CacheDeclaration<'_>>,
    at: &Path<'_>,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    check_number(cache, at)?;
    let declaration = declaration.unwrap_or_default();
    let mut symbols: HashMap<&str, i64> = HashMap::new();
    let mut run: Option<PageRun> = None;
    for (index, block) in cache.blocks.iter().enumerate() {
        let at = at.item("blocks", index);
        let (start, length) = check_numbers(block, run.as_ref(), &at)?;
        let key = check_key(block, &at, context)?;
        let value = check_value(block, &at, context)?;
        let page = PageRun::new(start, length, extents(key), extents(value));
        let joined = page.and_then(|page| PageRun::after(run.as_ref(), page));
        run = Some(joined.map_err(|fault| FieldError {
            at: format!("{at}.{}", fault.field),
            expected: fault.expected,
            got: fault.got,
        })?);
        for (field, dims, shape) in [
            ("key", key, declaration.key),
            ("value", value, declaration.value),
        ] {
            if let Some(shape) = shape {
                check_declared_shape(dims, shape, &mut symbols, &at.field(field))?;
            }
        }
    }
    Ok(())
}

/// Dimensions that were checked to be positive.
fn extents(dims: [i64; 4]) -> [usize; 4] {
    dims.map(|dim| usize::try_from(dim).unwrap_or(usize::MAX))
}

/// A cache has a sane number of pages.
fn check_number(cache: &PagedCacheProto, at: &Path<'_>) -> Result<(), ModelError> {
    let got = cache.blocks.len() as u64;
    if got <= PAGE_LIMIT {
        return Ok(());
    }
    Err(ModelError::Limit {
        at: at.field("blocks").to_string(),
        what: "pages",
        limit: PAGE_LIMIT,
        got,
    })
}

/// A page says where it starts and how many tokens it holds.
fn check_numbers(
    block: &PagedCacheBlockProto,
    run: Option<&PageRun>,
    at: &Path<'_>,
) -> Result<(i64, i64), FieldError> {
    let Some(start) = block.start else {
        let expected = run.map_or(0, PageRun::end).to_string();
        return Err(at.field("start").fault(expected, "none"));
    };
    match block.length {
        Some(length) => Ok((start, length)),
        None => Err(at.field("length").fault("1 or more", "none")),
    }
}

fn check_key(
    block: &PagedCacheBlockProto,
    at: &Path<'_>,
    context: &Context<'_>,
) -> Result<[i64; 4], ModelError> {
    match &block.key_payload {
        None => Err(at.refused("key or encoded_key", "neither")),
        Some(KeyPayload::Key(tensor)) => Ok(check_dense(tensor, &at.field("key"))?),
        Some(KeyPayload::EncodedKey(value)) => {
            check_encoded(value, &at.field("encoded_key"), context)
        }
    }
}

fn check_value(
    block: &PagedCacheBlockProto,
    at: &Path<'_>,
    context: &Context<'_>,
) -> Result<[i64; 4], ModelError> {
    match &block.value_payload {
        None => Err(at.refused("value or encoded_value", "neither")),
        Some(ValuePayload::Value(tensor)) => Ok(check_dense(tensor, &at.field("value"))?),
        Some(ValuePayload::EncodedValue(value)) => {
            check_encoded(value, &at.field("encoded_value"), context)
        }
    }
}

/// A dense page is inline, of a floating-point type, and whole.
fn check_dense(tensor: &TensorProto, at: &Path<'_>) -> Result<[i64; 4], FieldError> {
    let found = DType::from_onnx(tensor.data_type()).filter(|dtype| DENSE.contains(dtype));
    if found.is_none() {
        let got = types::element_text(tensor.data_type);
        return Err(at
            .field("data_type")
            .fault("FLOAT, FLOAT16 or BFLOAT16", got));
    }
    let dims = check_dims(&tensor.dims, &at.field("dims"))?;
    tensors::check_inline(tensor, at)?;
    Ok(dims)
}

/// An encoded page is inline and decodes to FLOAT; affine scales are positive.
fn check_encoded(
    value: &EncodedValueProto,
    at: &Path<'_>,
    context: &Context<'_>,
) -> Result<[i64; 4], ModelError> {
    check_is_inline(value, at)?;
    encoded::check(value, at, context)?;
    let logical = at.field("logical_type");
    let dims = affine::check_logical_type(value.logical_type.as_ref(), &logical)?;
    check_decodes_to_float(value, &logical)?;
    let dims = check_dims(&dims, &logical.field("tensor_type").field("shape"))?;
    if let Some(Layout::Affine(affine)) = &value.layout {
        affine::check_scales_are_positive(affine, &at.field("affine"))?;
    }
    Ok(dims)
}

fn check_is_inline(value: &EncodedValueProto, at: &Path<'_>) -> Result<(), FieldError> {
    if value.data_location.unwrap_or(0) != 0 {
        return Err(at
            .field("data_location")
            .fault("a page in the message", "a page in another file"));
    }
    Ok(())
}

fn check_decodes_to_float(value: &EncodedValueProto, at: &Path<'_>) -> Result<(), FieldError> {
    match value.logical_type.as_ref().and_then(TypeProto::tensor_type) {
        Some(tensor) if tensor.elem_type == Some(DType::Float.to_onnx()) => Ok(()),
        tensor => {
            let number = tensor.and_then(|tensor| tensor.elem_type);
            let got = types::element_text(number);
            Err(at
                .field("tensor_type")
                .field("elem_type")
                .fault("FLOAT", got))
        }
    }
}

/// A payload is `[batch, heads, capacity, width]`, none of them 0.
fn check_dims(dims: &[i64], at: &Path<'_>) -> Result<[i64; 4], FieldError> {
    let Ok(four) = <[i64; 4]>::try_from(dims) else {
        return Err(at.fault(
            "four axes: batch, heads, capacity, width",
            affine::short(dims),
        ));
    };
    match four.iter().position(|&dim| dim < 1) {
        None => Ok(four),
        Some(axis) => Err(at
            .key("axis", AXES[axis])
            .fault("1 or more", four[axis].to_string())),
    }
}

/// Dimensions are those of the declaration; one symbol is one number in all pages, keys and values.
fn check_declared_shape<'a>(
    dims: [i64; 4],
    shape: &'a TensorShapeProto,
    symbols: &mut HashMap<&'a str, i64>,
    at: &Path<'_>,
) -> Result<(), FieldError> {
    for ((declared, dim), axis) in sizes(shape).zip(dims).zip(AXES) {
        let at = at.key("axis", axis);
        match declared {
            Dim::Value(n) if n != dim => {
                return Err(at.fault(format!("{n}, as the graph input declares"), dim.to_string()));
            }
            Dim::Symbol(name) => {
                let bound = *symbols.entry(name).or_insert(dim);
                if bound != dim {
                    let name = crate::load::shown(name);
                    return Err(at.fault(format!("{bound}, as `{name}` is"), dim.to_string()));
                }
            }
            Dim::Value(_) | Dim::Unknown => {}
        }
    }
    Ok(())
}
