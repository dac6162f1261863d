//! Maps of classical machine learning: to tensors, and from scores.

use super::ml::{DOMAIN, classes};
use super::{ONE, op};
use crate::attributes::AttributeError;
use crate::schema::{Attr, InferError, Inference, OpSchema};
use crate::types::{TensorType, ValueType};
use refeed_values::DType;

/// The values of a map, in the order of their keys.
fn cast_map(cx: &mut Inference<'_>) -> Result<(), InferError> {
    check_map(cx)?;
    let dtype = match cx.attributes.string("cast_to")? {
        None | Some("TO_FLOAT") => DType::Float,
        Some("TO_INT64") => DType::Int64,
        Some("TO_STRING") => DType::String,
        Some(other) => {
            return Err(AttributeError::Value {
                name: "cast_to",
                expected: "TO_FLOAT, TO_INT64 or TO_STRING",
                got: other.to_string(),
            }
            .into());
        }
    };
    cx.set(0, Some(dtype), None);
    Ok(())
}

/// The element type of the values of the map at input 0, when it is known.
fn check_map(cx: &Inference<'_>) -> Result<Option<DType>, InferError> {
    match cx.input_type(0) {
        Some(ValueType::Map { value, .. }) => Ok(value.tensor().and_then(|value| value.dtype)),
        Some(ValueType::Unset) | None => Ok(None),
        Some(_) => Err(cx.unexpected_kind(0, "a map")),
    }
}

/// The values of a map, at the places that the vocabulary gives their keys.
fn dict_vectorizer(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let dtype = check_map(cx)?;
    let names = classes(cx.attributes, "int64_vocabulary", "string_vocabulary")?;
    if names.is_none() {
        return Err(AttributeError::Missing {
            name: "int64_vocabulary",
        }
        .into());
    }
    // Whether there is a batch axis of 1 is told one way and done the other.
    cx.set(0, dtype, None);
    Ok(())
}

/// A map from class to score for each row.
fn zip_map(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let names = classes(cx.attributes, "classlabels_int64s", "classlabels_strings")?;
    let Some((key, _)) = names else {
        return Err(AttributeError::Missing {
            name: "classlabels_int64s",
        }
        .into());
    };
    let map = ValueType::Map {
        key: Some(key),
        value: Box::new(TensorType::of(DType::Float).into()),
    };
    cx.set_type(0, ValueType::sequence_of(map));
    Ok(())
}

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("CastMap", &[1], ONE, cast_map).of(DOMAIN).attributes(&[
        Attr::string("cast_to"),
        Attr::string("map_form"),
        Attr::int("max_map"),
    ]),
    op("DictVectorizer", &[1], ONE, dict_vectorizer)
        .of(DOMAIN)
        .attributes(&[
            Attr::ints("int64_vocabulary"),
            Attr::strings("string_vocabulary"),
        ]),
    op("ZipMap", &[1], ONE, zip_map).of(DOMAIN).attributes(&[
        Attr::ints("classlabels_int64s"),
        Attr::strings("classlabels_strings"),
    ]),
];
