//! Validation of models and of their parts: `refeed.onnx.verify` and `refeed.onnx.checker`.

use crate::error::{Class, IntoPyErr, class_of};
use crate::model::PyModel;
use crate::onnx::convert::prost_of;
use crate::run;
use bytes::Bytes;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyString};
use refeed_graph::load::{ExternalData, decode_model, read_model_file};
use refeed_graph::shape_inference::{InferenceOptions, ShapeInferenceError, infer_declarations};
use refeed_graph::validate::{Checker, PartVerifier, Rules, check_model as check};
use refeed_graph::{LoadError, LoadOptions, Model, ModelError};
use refeed_proto::{Convert, ModelProto};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A fault as the caller is told it.
enum Fault {
    /// The checker raises exceptions of its own.
    Checker(ModelError),
    Verifier(ModelError),
    /// Types that contradict each other.
    Types(ShapeInferenceError),
}

impl IntoPyErr for Fault {
    fn into_py(self, py: Python<'_>) -> PyErr {
        match self {
            Fault::Verifier(error) => error.into_py(py),
            // A model file that cannot be opened and memory that cannot be had are no faults of the model.
            Fault::Checker(
                error @ (ModelError::Load(
                    LoadError::Open { .. } | LoadError::Read { .. } | LoadError::Memory { .. },
                )
                | ModelError::Payload {
                    source: LoadError::Memory { .. },
                    ..
                }),
            ) => error.into_py(py),
            Fault::Checker(error) => Class::Validation.error(py, error),
            Fault::Types(error) => error.into_py(py),
        }
    }
}

fn told(rules: Rules) -> fn(ModelError) -> Fault {
    match rules {
        Rules::Checker(_) => Fault::Checker,
        _ => Fault::Verifier,
    }
}

/// A message that cannot even be read is refused by the checker with its own exception.
fn as_validation(py: Python<'_>, error: PyErr, rules: Rules) -> PyErr {
    let model_error = Class::Model.class(py);
    match (rules, model_error) {
        (Rules::Checker(_), Ok(class)) if error.is_instance(py, class) => {
            Class::Validation.error(py, error.value(py))
        }
        _ => error,
    }
}

/// Whatever a model can be given as.
enum Source {
    Path(PathBuf),
    Wire(Bytes),
    Message(ModelProto),
    Model(Model),
}

impl Source {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Source> {
        if let Ok(model) = object.cast::<PyModel>() {
            return Ok(Source::Model(model.get().inner.clone()));
        }
        if let Ok(bytes) = object.cast::<PyBytes>() {
            let bytes = PyBackedBytes::from(bytes.clone());
            return Ok(Source::Wire(Bytes::from_owner(bytes)));
        }
        if object.is_instance_of::<PyString>() || object.hasattr("__fspath__")? {
            return Ok(Source::Path(object.extract()?));
        }
        if object.hasattr("SerializeToString")? {
            return Ok(Source::Message(prost_of(object)?));
        }
        let got = class_of(object);
        Err(PyTypeError::new_err(format!(
            "model: expected a path, bytes, a ModelProto or a refeed.Model, got {got}"
        )))
    }

    fn check(self, rules: Rules, full_check: bool) -> Result<(), Fault> {
        let told = told(rules);
        let options = LoadOptions::default();
        // What comes without a folder has no tensors in other files for the checker; the verifier believes them.
        let nowhere = ExternalData::none();
        let nowhere = matches!(rules, Rules::Checker(_)).then_some(&nowhere);
        let loaded;
        let (model, external) = match &self {
            Source::Path(path) => {
                loaded = read_model_file(path, &options).map_err(|error| told(error.into()))?;
                (&loaded.model, Some(&loaded.external))
            }
            Source::Wire(wire) => {
                loaded =
                    decode_model(wire.clone(), &options).map_err(|error| told(error.into()))?;
                (&loaded.model, nowhere)
            }
            Source::Message(model) => (model, nowhere),
            Source::Model(model) => (model.proto(), Some(model.external())),
        };
        check(model, external, rules).map_err(told)?;
        if full_check {
            let options = InferenceOptions {
                check_type: true,
                strict_mode: true,
                data_prop: false,
            };
            infer_declarations(model, &options).map_err(Fault::Types)?;
        }
        Ok(())
    }
}

/// Checks a model by the rules of the checker or of the verifier.
///
/// # Errors
/// `ValidationError` or `ModelError` for the first rule that the model breaks; `TypeError` when it is no model.
#[pyfunction(name = "_check_model")]
pub(crate) fn check_model(
    py: Python<'_>,
    model: &Bound<'_, PyAny>,
    checker: bool,
    skip_opset_compatibility: bool,
    custom_domains: bool,
    full_check: bool,
) -> PyResult<()> {
    let rules = if checker {
        let mut options = Checker::default();
        options.skip_opset_compatibility = skip_opset_compatibility;
        options.custom_domains = custom_domains;
        Rules::Checker(options)
    } else {
        Rules::Verifier
    };
    let source = Source::of(model).map_err(|error| as_validation(py, error, rules))?;
    run::detached(py, || source.check(rules, full_check))
}

/// Checks a message apart from its model. `what` is the name of its class.
///
/// # Errors
/// As [`check_model`].
#[pyfunction(name = "_check_part")]
#[allow(clippy::too_many_arguments)] // they are keywords of the Python functions
pub(crate) fn check_part(
    py: Python<'_>,
    what: &str,
    message: &Bound<'_, PyAny>,
    checker: bool,
    ir_version: Option<i64>,
    opset_imports: Option<BTreeMap<String, i64>>,
    is_main_graph: bool,
    outer_names: Vec<String>,
) -> PyResult<()> {
    let rules = if checker {
        Rules::CHECKER
    } else {
        Rules::Verifier
    };
    let mut verifier = PartVerifier::new(rules);
    if checker {
        verifier = verifier.with_external(ExternalData::none());
    }
    if let Some(version) = ir_version {
        verifier = verifier.with_ir_version(version);
    }
    if let Some(imports) = opset_imports {
        verifier = verifier.with_opset_imports(imports);
    }
    if is_main_graph {
        verifier = verifier.with_outer_names(outer_names);
    } else {
        verifier = verifier.nested(outer_names);
    }
    let part = Part {
        py,
        message,
        rules,
        verifier: &verifier,
    };
    match what {
        "GraphProto" => part.check(PartVerifier::check_graph),
        "FunctionProto" => part.check(PartVerifier::check_function),
        "NodeProto" => part.check(PartVerifier::check_node),
        "AttributeProto" => part.check(PartVerifier::check_attribute),
        "TensorProto" => part.check(PartVerifier::check_tensor),
        "SparseTensorProto" => part.check(PartVerifier::check_sparse_tensor),
        "ValueInfoProto" => part.check(PartVerifier::check_value_info),
        "EncodedValueProto" => part.check(PartVerifier::check_encoded_value),
        "PagedCacheProto" => part.check(PartVerifier::check_paged_cache),
        "StructTypeProto" => part.check(PartVerifier::check_struct_type),
        other => Err(PyTypeError::new_err(format!(
            "{other} cannot be checked apart from its model"
        ))),
    }
}

struct Part<'a, 'py> {
    py: Python<'py>,
    message: &'a Bound<'py, PyAny>,
    rules: Rules,
    verifier: &'a PartVerifier,
}

impl Part<'_, '_> {
    fn check<M: Convert + Send + Sync>(
        self,
        check: fn(&PartVerifier, &M) -> Result<(), ModelError>,
    ) -> PyResult<()> {
        let message: M =
            prost_of(self.message).map_err(|error| as_validation(self.py, error, self.rules))?;
        let verifier = self.verifier;
        let told = told(self.rules);
        run::detached(self.py, || check(verifier, &message).map_err(told))
    }
}
