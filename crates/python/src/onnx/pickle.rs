//! Pickling: the structure as bytes, and from protocol 5 on large payloads beside it, where they lie.

use super::message::{self, Message};
use super::repeated::too_deep;
use super::wire;
use crate::interop::{owner, payload};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple, PyType};
use refeed_proto::Bytes;
use refeed_proto::message::{
    DecodeLimits, EditableMessage, FrozenMessage, Kind, MessageDescriptor, NestingError, Payload,
    Value,
};
use std::sync::Arc;

/// Payloads of at least this many bytes travel beside the structure.
const LARGE: usize = 4096;

/// Slots of fields of one payload.
fn payload_slots(descriptor: &'static MessageDescriptor) -> impl Iterator<Item = u16> {
    let fields = descriptor.fields.iter();
    let fields = fields.filter(|field| matches!(field.kind, Kind::Bytes) && !field.repeated);
    fields.map(|field| field.slot)
}

/// A message whose payloads, in the order in which messages are visited, are what `change` makes of them.
fn with_payloads(
    message: &Arc<FrozenMessage>,
    mut change: impl FnMut(&Payload) -> Option<Payload>,
) -> Result<Arc<FrozenMessage>, NestingError> {
    message.rewrite(|_, message| {
        let mut changes = Vec::new();
        for slot in payload_slots(message.descriptor()) {
            if let Value::Bytes(held) = message.value(slot)
                && let Some(new) = change(held)
            {
                changes.push((slot, Value::bytes(new)));
            }
        }
        if changes.is_empty() {
            return Ok(None);
        }
        message.with_values(changes).map(Some)
    })
}

/// The structure of a message, and beside it buffers of its large payloads: arguments of [`join`].
pub(crate) fn split<'py>(
    py: Python<'py>,
    message: &Arc<FrozenMessage>,
) -> PyResult<Bound<'py, PyTuple>> {
    let mut large = Vec::new();
    let mut places = Vec::new();
    let mut place = 0_usize;
    let structure = with_payloads(message, |held| {
        place += 1;
        if held.bytes().len() < LARGE {
            return None;
        }
        places.push(place - 1);
        large.push(held.bytes().clone());
        Some(Payload::new(Bytes::new()))
    });
    let structure = structure.map_err(|error| too_deep(py, error))?;
    let buffer = py.import("pickle")?.getattr("PickleBuffer")?;
    let buffers: PyResult<Vec<_>> = large
        .into_iter()
        .map(|bytes| buffer.call1((payload::view(py, bytes)?,)))
        .collect();
    let structure = wire::encode(py, &structure)?;
    (structure, places, PyTuple::new(py, buffers?)?).into_pyobject(py)
}

/// The message of a structure and payloads. Buffers that nobody can write to are shared.
pub(crate) fn join<'py>(
    class: &Bound<'py, PyType>,
    structure: &Bound<'py, PyBytes>,
    places: Vec<usize>,
    buffers: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    if places.len() != buffers.len() {
        return Err(PyValueError::new_err(format!(
            "expected {} buffers, got {}",
            places.len(),
            buffers.len()
        )));
    }
    let descriptor = super::classes::descriptor_of(class)?;
    let structure = wire::bytes_of(structure)?;
    let structure = wire::decode(py, descriptor, structure, &DecodeLimits::default())?;
    let buffers = buffers.iter().map(owner::adopt_or_copy);
    let payloads: PyResult<Vec<Bytes>> = buffers.collect();
    let mut payloads = places.into_iter().zip(payloads?).peekable();
    let mut place = 0_usize;
    let whole = with_payloads(&structure, |_| {
        let found = payloads.next_if(|(next, _)| *next == place);
        place += 1;
        found.map(|(_, bytes)| Payload::new(bytes))
    });
    let whole = whole.map_err(|error| too_deep(py, error))?;
    if let Some((place, _)) = payloads.next() {
        return Err(PyValueError::new_err(format!(
            "expected a structure of more than {place} payloads, in ascending order"
        )));
    }
    message::wrap(py, EditableMessage::from_frozen(whole))
}

/// `message.__reduce_ex__(protocol)`.
pub(crate) fn reduce<'py>(
    message: &Bound<'py, Message>,
    protocol: i32,
) -> PyResult<Bound<'py, PyTuple>> {
    let py = message.py();
    let class = message.get_type();
    let frozen = message.get().frozen(py)?;
    if protocol < 5 {
        let made = (class.getattr("FromString")?, (wire::encode(py, &frozen)?,));
        return made.into_pyobject(py);
    }
    (class.getattr("_join")?, split(py, &frozen)?).into_pyobject(py)
}
