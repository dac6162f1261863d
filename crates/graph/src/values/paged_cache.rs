//! Paged caches.

use super::tensor::adopt;
use super::{Catalogues, Elements, Reading, encoded, encoded_to_proto, tensor_to_proto};
use crate::error::{FieldError, ModelError};
use crate::load::ExternalData;
use crate::path::Path;
use crate::validate;
use refeed_proto::paged_cache_block_proto::{KeyPayload, ValuePayload};
use refeed_proto::{EncodedValueProto, PagedCacheBlockProto, PagedCacheProto, TensorProto};
use refeed_values::paged_cache::{self, PageFault, cache_of, page_of};
use refeed_values::{Layout, Provenance, RuntimeValue, Tensor, TensorError, ValueError};

/// A message as a value: a structure with the one field `blocks`, whose pages share the payloads of the message.
///
/// # Errors
/// When a page breaks a rule; the fault names the page and the field.
pub fn from_paged_cache(
    proto: &PagedCacheProto,
    catalogues: &Catalogues,
) -> Result<RuntimeValue, ModelError> {
    let external = ExternalData::none();
    // Bytes of messages never change, and pages that no operator touches stay where they are.
    let reading = Reading {
        provenance: Provenance::Kept,
        ..Reading::apart(catalogues, &external)
    };
    read(proto, &Path::root("paged_cache"), &reading)
}

/// Reads a message: first the rules, then the pages.
pub(crate) fn read(
    proto: &PagedCacheProto,
    at: &Path<'_>,
    reading: &Reading<'_>,
) -> Result<RuntimeValue, ModelError> {
    validate::check_paged_cache(proto, at, &reading.context())?;
    let broken = |source: ValueError| at.refused("a value that can be kept", source.to_string());
    let numbers = Numbers::of(proto).map_err(|source| broken(source.into()))?;
    let mut pages = Vec::with_capacity(proto.blocks.len());
    for (index, block) in proto.blocks.iter().enumerate() {
        let at = at.item("blocks", index);
        let key = match &block.key_payload {
            Some(KeyPayload::Key(tensor)) => dense(tensor, &at.field("key"), reading)?,
            Some(KeyPayload::EncodedKey(value)) => coded(value, &at.field("encoded_key"), reading)?,
            None => return Err(at.refused("key or encoded_key", "neither")),
        };
        let value = match &block.value_payload {
            Some(ValuePayload::Value(tensor)) => dense(tensor, &at.field("value"), reading)?,
            Some(ValuePayload::EncodedValue(value)) => {
                coded(value, &at.field("encoded_value"), reading)?
            }
            None => return Err(at.refused("value or encoded_value", "neither")),
        };
        let number = |which| numbers.at(2 * index + which).map_err(ValueError::from);
        let page = number(0)
            .and_then(|start| Ok((start, number(1)?)))
            .and_then(|(start, length)| page_of(start, length, key, value));
        pages.push(page.map_err(broken)?);
    }
    cache_of(pages).map_err(broken)
}

/// The starts and lengths of all pages, in one piece of memory.
struct Numbers(Tensor);

impl Numbers {
    fn of(proto: &PagedCacheProto) -> Result<Numbers, TensorError> {
        let numbers = proto
            .blocks
            .iter()
            .flat_map(|block| [block.start.unwrap_or(0), block.length.unwrap_or(0)]);
        let numbers: Vec<i64> = numbers.collect();
        Ok(Numbers(Tensor::from_slice(&[numbers.len()], &numbers)?))
    }

    fn at(&self, index: usize) -> Result<Tensor, TensorError> {
        // There are two numbers a page, so the index fits.
        self.0.with_layout(Layout::contiguous(&[]), index as isize)
    }
}

fn dense(
    tensor: &TensorProto,
    at: &Path<'_>,
    reading: &Reading<'_>,
) -> Result<RuntimeValue, ModelError> {
    let elements =
        Elements::of(tensor, reading.external).map_err(|source| ModelError::Payload {
            at: at.to_string(),
            source,
        })?;
    let tensor = adopt(elements, reading.provenance).map_err(|source| ModelError::Tensor {
        tensor: at.to_string(),
        source,
    })?;
    Ok(tensor.into())
}

fn coded(
    value: &EncodedValueProto,
    at: &Path<'_>,
    reading: &Reading<'_>,
) -> Result<RuntimeValue, ModelError> {
    Ok(encoded::checked(value, at, reading)?.into())
}

/// A cache as a message that shares its payloads; nothing is decoded. An empty name is left out.
///
/// # Errors
/// When the value is no cache, a page breaks a rule, or memory for the copy of a strided payload cannot be had.
pub fn to_paged_cache(cache: &RuntimeValue, name: &str) -> Result<PagedCacheProto, ModelError> {
    paged_cache::check(cache).map_err(told)?;
    let blocks = paged_cache::blocks(cache).into_iter();
    let blocks = blocks.flat_map(|blocks| blocks.iter()).map(|page| {
        let page = paged_cache::page(page).map_err(told)?;
        let key = match page.key {
            RuntimeValue::Encoded(value) => KeyPayload::EncodedKey(encoded_to_proto(value)?),
            RuntimeValue::Tensor(tensor) => KeyPayload::Key(tensor_to_proto(tensor)?),
            other => return Err(Path::root("key").refused("a payload", other.kind())),
        };
        let value = match page.value {
            RuntimeValue::Encoded(value) => ValuePayload::EncodedValue(encoded_to_proto(value)?),
            RuntimeValue::Tensor(tensor) => ValuePayload::Value(tensor_to_proto(tensor)?),
            other => return Err(Path::root("value").refused("a payload", other.kind())),
        };
        Ok(PagedCacheBlockProto {
            start: Some(page.start),
            length: Some(page.length),
            key_payload: Some(key),
            value_payload: Some(value),
        })
    });
    Ok(PagedCacheProto {
        blocks: blocks.collect::<Result<_, ModelError>>()?,
        name: (!name.is_empty()).then(|| name.to_string()),
        doc_string: None,
    })
}

fn told(fault: PageFault) -> ModelError {
    let at = match (fault.block, fault.field.as_str()) {
        (None, field) => field.to_string(),
        (Some(block), "") => format!("blocks[{block}]"),
        (Some(block), field) => format!("blocks[{block}].{field}"),
    };
    ModelError::Field(FieldError {
        at,
        expected: fault.expected,
        got: fault.got,
    })
}
