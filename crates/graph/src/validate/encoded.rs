//! Encoded values: a layout, a payload in one place, and exactly as many bytes as the layout asks for.

use super::types::{self, Role};
use super::{Context, affine};
use crate::error::{FieldError, ModelError};
use crate::load::{location_parts, shown};
use crate::path::Path;
use refeed_proto::ext::metadata;
use refeed_proto::tensor_proto::DataLocation;
use refeed_proto::{
    EncodedValueProto, StringStringEntryProto, StructTypeProto, encoded_value_proto::Layout,
};
use std::collections::HashSet;

/// Where the bytes of an encoded value are.
#[derive(Debug, Clone, Copy)]
pub(super) enum Payload<'a> {
    /// In the message.
    Inline(&'a [u8]),
    /// In another file.
    External {
        /// Their number.
        length: u64,
    },
}

impl Payload<'_> {
    pub(super) fn len(self) -> u64 {
        match self {
            Payload::Inline(bytes) => bytes.len() as u64,
            Payload::External { length } => length,
        }
    }
}

/// Checks an encoded value. Its payload is not read, but for the bits past the last code.
pub(crate) fn check(
    value: &EncodedValueProto,
    at: &Path<'_>,
    context: &Context<'_>,
) -> Result<(), ModelError> {
    let Some(layout) = &value.layout else {
        return Err(at.refused("an affine layout or a struct type", "neither"));
    };
    check_parameter_ref(value, layout, at)?;
    let payload = check_storage(value, at)?;
    if let (Payload::External { length }, Some(external)) = (payload, context.external) {
        // The file is opened and compared in length; no byte is read.
        external
            .bytes(value.name(), &value.external_data, length)
            .map_err(|source| ModelError::Payload {
                at: at.to_string(),
                source,
            })?;
    }
    match layout {
        Layout::Affine(affine) => affine::check(affine, value, payload, at)?,
        Layout::StructType(declared) => {
            check_records(declared, payload, &at.field("struct_type"), context)?;
            if let Some(ty) = &value.logical_type {
                types::check_declared(ty, &at.field("logical_type"), context.catalogue)?;
            }
        }
    }
    match context.parameters {
        Some(parameters) => Ok(parameters.check(value, payload, at)?),
        None => Ok(()),
    }
}

/// Shared parameters have a name, and belong to structured encodings that say what they decode to.
fn check_parameter_ref(
    value: &EncodedValueProto,
    layout: &Layout,
    at: &Path<'_>,
) -> Result<(), FieldError> {
    let Some(name) = &value.parameter_ref else {
        return Ok(());
    };
    let at = at.field("parameter_ref");
    if name.is_empty() {
        return Err(at.fault("the name of a parameter set", "an empty one"));
    }
    if matches!(layout, Layout::Affine(_)) {
        return Err(at.fault("a struct type beside shared parameters", "an affine layout"));
    }
    if value.logical_type.is_none() {
        return Err(at.fault("a logical_type beside shared parameters", "none"));
    }
    Ok(())
}

/// The payload is in the message or in another file, and the message says which.
fn check_storage<'a>(
    value: &'a EncodedValueProto,
    at: &Path<'_>,
) -> Result<Payload<'a>, FieldError> {
    let number = value.data_location.unwrap_or(0);
    let location = DataLocation::try_from(number).map_err(|_| {
        at.field("data_location")
            .fault("0 or 1", number.to_string())
    })?;
    match (location, &value.raw_data) {
        (DataLocation::Default, _) if !value.external_data.is_empty() => Err(at
            .field("external_data")
            .fault("no entry unless data_location is EXTERNAL", "some")),
        (DataLocation::Default, Some(bytes)) => Ok(Payload::Inline(bytes)),
        (DataLocation::Default, None) => Err(at.field("raw_data").fault("a payload", "none")),
        (DataLocation::External, Some(_)) => Err(at
            .field("raw_data")
            .fault("no payload beside external_data", "one")),
        (DataLocation::External, None) => {
            let length = check_external(&value.external_data, at)?;
            Ok(Payload::External { length })
        }
    }
}

/// Entries have keys of their own; `location` lies inside the model's folder, `length` and `offset` are numbers whose sum
/// a file can have. Gives the length.
fn check_external(entries: &[StringStringEntryProto], at: &Path<'_>) -> Result<u64, FieldError> {
    let mut keys = HashSet::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        let at = at.item("external_data", index);
        if entry.key().is_empty() {
            return Err(at.fault("a key", "an empty one"));
        }
        if !keys.insert(entry.key()) {
            let got = format!("`{}` for the second time", shown(entry.key()));
            return Err(at.fault("a key of its own", got));
        }
    }
    let location = metadata(entries, "location").unwrap_or_default();
    if let Err(fault) = location_parts(location) {
        return Err(at.key("external_data", "location").fault(
            "a path inside the model's folder",
            format!("`{}`, which {fault}", shown(location)),
        ));
    }
    let number = |key: &'static str| match metadata(entries, key) {
        None => Ok(None),
        Some(text) => text.parse::<u64>().map(Some).map_err(|_| {
            let got = format!("`{}`", shown(text));
            at.key("external_data", key)
                .fault("a nonnegative integer", got)
        }),
    };
    let Some(length) = number("length")? else {
        return Err(at
            .key("external_data", "length")
            .fault("a nonnegative integer", "none"));
    };
    let offset = number("offset")?.unwrap_or(0);
    match offset.checked_add(length) {
        Some(end) if i64::try_from(end).is_ok() => Ok(length),
        _ => Err(at.field("external_data").fault(
            format!("offset and length that add up to at most {}", i64::MAX),
            format!("{offset} and {length}"),
        )),
    }
}

/// A structured encoding is a whole number of records, each of whole bytes.
fn check_records(
    declared: &StructTypeProto,
    payload: Payload<'_>,
    at: &Path<'_>,
    context: &Context<'_>,
) -> Result<(), FieldError> {
    let found = types::walk_struct(declared, Role::Layout, at)?;
    context.catalogue.check(&found)?;
    let Some(bits) = context.catalogue.bit_size(declared, at)? else {
        return Ok(());
    };
    if bits == 0 || !bits.is_multiple_of(8) {
        return Err(at.fault(
            "records of whole bytes, at least one",
            format!("records of {bits} bits"),
        ));
    }
    let record = bits / 8;
    if !payload.len().is_multiple_of(record) {
        return Err(at.fault(
            format!("a payload of whole records of {record} bytes"),
            format!("{} bytes", payload.len()),
        ));
    }
    Ok(())
}
