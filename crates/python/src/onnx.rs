//! The messages of ONNX as Python objects with protobuf's interface.
//!
//! One class, [`message::Message`], knows everything that messages can do; the class of each message of the schema only
//! adds its name, its constructor and, from the schema's tables, its fields. Every message, list and view reads and
//! edits one tree of [`refeed_proto::message::EditableMessage`]s under one lock ([`tree`]).

pub(crate) mod adopt;
pub(crate) mod classes;
pub(crate) mod construct;
pub(crate) mod convert;
pub(crate) mod deferred;
pub(crate) mod descriptor;
pub(crate) mod enums;
pub(crate) mod fields;
pub(crate) mod files;
pub(crate) mod make;
pub(crate) mod message;
pub(crate) mod methods;
pub(crate) mod options;
pub(crate) mod pickle;
pub(crate) mod repeated;
pub(crate) mod scalar;
pub(crate) mod summary;
pub(crate) mod text_form;
pub(crate) mod tree;
pub(crate) mod unknown;
pub(crate) mod wire;

use pyo3::prelude::*;
use pyo3::types::PyModule;

/// The module `refeed._native._onnx`.
///
/// # Errors
/// When Python is out of memory.
pub(crate) fn module(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    let module = PyModule::new(py, "_onnx")?;
    module.add_class::<message::Message>()?;
    module.add_class::<repeated::Repeated>()?;
    module.add_class::<repeated::RepeatedScalar>()?;
    module.add_class::<repeated::RepeatedComposite>()?;
    module.add_class::<enums::EnumTypeWrapper>()?;
    module.add_class::<options::SerializeOptions>()?;
    module.add_class::<options::ParseOptions>()?;
    module.add_class::<options::SerializeSizeResult>()?;
    module.add_class::<unknown::UnknownField>()?;
    classes::add_to(&module)?;
    let sequence = py.import("collections.abc")?.getattr("MutableSequence")?;
    sequence.call_method1("register", (py.get_type::<repeated::Repeated>(),))?;
    module.add_function(wrap_pyfunction!(files::bring_in, &module)?)?;
    module.add_function(wrap_pyfunction!(files::location_parts, &module)?)?;
    module.add_function(wrap_pyfunction!(files::write_split, &module)?)?;
    module.add_function(wrap_pyfunction!(files::write_bytes, &module)?)?;
    module.add_function(wrap_pyfunction!(files::parse_textproto, &module)?)?;
    module.add_function(wrap_pyfunction!(text_form::parse_text, &module)?)?;
    module.add_function(wrap_pyfunction!(text_form::print_text, &module)?)?;
    module.add_function(wrap_pyfunction!(crate::onnx_check::check_model, &module)?)?;
    module.add_function(wrap_pyfunction!(crate::onnx_check::check_part, &module)?)?;
    module.add_function(wrap_pyfunction!(crate::onnx_shapes::infer, &module)?)?;
    module.add_function(wrap_pyfunction!(
        crate::onnx_shapes::infer_node_outputs,
        &module
    )?)?;
    module.add_function(wrap_pyfunction!(
        crate::onnx_shapes::infer_function_output_types,
        &module
    )?)?;
    module.add_function(wrap_pyfunction!(adopt::adopt, &module)?)?;
    module.add_function(wrap_pyfunction!(convert::check_text, &module)?)?;
    module.add_function(wrap_pyfunction!(make::make_node, &module)?)?;
    module.add_function(wrap_pyfunction!(make::make_attribute, &module)?)?;
    let descriptor = PyModule::new(py, "descriptor")?;
    descriptor::add_to(&descriptor)?;
    module.setattr("_descriptor", descriptor)?;
    Ok(module)
}
