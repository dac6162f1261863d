//! `repr` of the messages that may be large: their names and counts.

use super::fields;
use super::tree;
use pyo3::prelude::*;
use refeed_proto::message::{EditableMessage, descriptors};
use std::fmt::Write;
use std::sync::Arc;

/// The short form of a model, a graph or a function, in the words of the `onnx` package; `None` for other messages.
///
/// # Errors
/// When a text is not UTF-8.
pub(crate) fn of(py: Python<'_>, cell: &Arc<EditableMessage>) -> PyResult<Option<String>> {
    let descriptor = cell.descriptor();
    let text = if descriptor == &descriptors::MODEL_PROTO {
        model(py, cell)?
    } else if descriptor == &descriptors::GRAPH_PROTO {
        let name = field(py, cell, "name")?;
        let parts = [
            ("input", "inputs"),
            ("output", "outputs"),
            ("initializer", "initializers"),
            ("node", "nodes"),
            ("value_info", "value_info"),
        ];
        format!("GraphProto('{name}'{})", counts(py, cell, &parts))
    } else if descriptor == &descriptors::FUNCTION_PROTO {
        function(py, cell)?
    } else {
        return Ok(None);
    };
    Ok(Some(text))
}

fn model(py: Python<'_>, cell: &Arc<EditableMessage>) -> PyResult<String> {
    let version = field(py, cell, "ir_version")?;
    let graph = field(py, cell, "graph")?.repr()?;
    Ok(format!(
        "ModelProto(ir_version={version}{}{}, graph={graph}{})",
        opsets(py, cell)?,
        texts(py, cell, &["domain", "producer_name", "producer_version"])?,
        counts(py, cell, &[("functions", "functions")])
    ))
}

fn function(py: Python<'_>, cell: &Arc<EditableMessage>) -> PyResult<String> {
    let name = field(py, cell, "name")?;
    let mut text = format!(
        "FunctionProto('{name}'{}{}{}",
        texts(py, cell, &["domain", "overload"])?,
        opsets(py, cell)?,
        counts(py, cell, &[("input", "inputs"), ("output", "outputs")])
    );
    let attributes = field(py, cell, "attribute")?;
    if attributes.len()? > 0 {
        let _ = write!(text, ", attribute={}", attributes.repr()?);
    }
    text.push_str(&counts(py, cell, &[("node", "nodes")]));
    text.push(')');
    Ok(text)
}

fn field<'py>(
    py: Python<'py>,
    cell: &Arc<EditableMessage>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    match cell.descriptor().field(name) {
        Some(field) => fields::get(py, cell, field),
        None => Ok(py.None().into_bound(py)),
    }
}

fn texts(py: Python<'_>, cell: &Arc<EditableMessage>, names: &[&str]) -> PyResult<String> {
    let mut all = String::new();
    for name in names {
        let text = field(py, cell, name)?;
        if text.is_truthy()? {
            let _ = write!(all, ", {name}='{text}'");
        }
    }
    Ok(all)
}

fn counts(py: Python<'_>, cell: &Arc<EditableMessage>, parts: &[(&str, &str)]) -> String {
    let mut all = String::new();
    for (name, plural) in parts {
        let count = cell
            .descriptor()
            .field(name)
            .map_or(0, |field| tree::with(py, |lock| cell.len(lock, field.slot)));
        if count > 0 {
            let _ = write!(all, ", {name}=<{count} {plural}>");
        }
    }
    all
}

fn opsets(py: Python<'_>, cell: &Arc<EditableMessage>) -> PyResult<String> {
    let versions = pyo3::types::PyDict::new(py);
    for opset in field(py, cell, "opset_import")?.try_iter()? {
        let opset = opset?;
        versions.set_item(opset.getattr("domain")?, opset.getattr("version")?)?;
    }
    if versions.is_empty() {
        return Ok(String::new());
    }
    Ok(format!(", opset_import={}", versions.repr()?))
}
