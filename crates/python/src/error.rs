//! The one mapping from errors to Python exceptions. The classes are those of `refeed.errors`.

use pyo3::exceptions::{PyMemoryError, PyOSError, PyOverflowError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use refeed_graph::{BindError, BindingError, LoadError, ModelError};
use refeed_runtime::kernel::OpError;
use refeed_runtime::{
    CompletionError, ContextError, NodePath, RegisterError, RunError, SessionError, StateError,
    StateFileError,
};
use refeed_values::encoded::EncodedError;
use refeed_values::{AppendError, ExtentError, TensorError, ValueError};
use std::fmt::Display;
use std::io;

/// A class of `refeed.errors`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Class {
    Model,
    ValueType,
    StateClosed,
    StateBusy,
    Cancelled,
    Completion,
    StateFile,
    Kernel,
    KernelValue,
    Internal,
    Decode,
    Encode,
    Parse,
    Print,
    Validation,
    Inference,
    CopyWarning,
    SymbolWarning,
    MissingValue,
    DuplicateValue,
}

impl Class {
    const ALL: [(Class, &'static str); 20] = [
        (Class::Model, "ModelError"),
        (Class::ValueType, "ValueTypeError"),
        (Class::StateClosed, "StateClosedError"),
        (Class::StateBusy, "StateBusyError"),
        (Class::Cancelled, "CancelledError"),
        (Class::Completion, "CompletionError"),
        (Class::StateFile, "StateFileError"),
        (Class::Kernel, "KernelError"),
        (Class::KernelValue, "KernelValueError"),
        (Class::Internal, "InternalError"),
        (Class::Decode, "DecodeError"),
        (Class::Encode, "EncodeError"),
        (Class::Parse, "ParseError"),
        (Class::Print, "PrintError"),
        (Class::Validation, "ValidationError"),
        (Class::Inference, "InferenceError"),
        (Class::CopyWarning, "CopyWarning"),
        (Class::SymbolWarning, "SymbolWarning"),
        (Class::MissingValue, "MissingValueError"),
        (Class::DuplicateValue, "DuplicateValueError"),
    ];

    /// The Python class.
    pub(crate) fn class(self, py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
        static CLASSES: PyOnceLock<Vec<Py<PyType>>> = PyOnceLock::new();
        let classes = CLASSES.get_or_try_init(py, || -> PyResult<_> {
            let module = py.import("refeed.errors")?;
            Class::ALL
                .iter()
                .map(|(_, name)| Ok(module.getattr(*name)?.cast_into::<PyType>()?.unbind()))
                .collect()
        })?;
        Ok(classes[self as usize].bind(py))
    }

    /// An exception of this class.
    pub(crate) fn error(self, py: Python<'_>, message: impl Display) -> PyErr {
        match self.class(py) {
            Ok(class) => PyErr::from_type(class.clone(), message.to_string()),
            Err(error) => error,
        }
    }
}

/// What becomes a Python exception.
pub(crate) trait IntoPyErr {
    fn into_py(self, py: Python<'_>) -> PyErr;
}

impl<E: IntoPyErr> IntoPyErr for Box<E> {
    fn into_py(self, py: Python<'_>) -> PyErr {
        (*self).into_py(py)
    }
}

/// `FileNotFoundError`, `PermissionError` and their like carry the system's number and our message.
pub(crate) fn os_error(source: &io::Error, message: String) -> PyErr {
    /// The number that Linux and macOS have for it: found by us, it has none.
    const EISDIR: i32 = 21;
    let number = match source.kind() {
        io::ErrorKind::IsADirectory => Some(EISDIR),
        _ => source.raw_os_error(),
    };
    match number {
        Some(number) => PyOSError::new_err((number, message)),
        None => PyOSError::new_err(message),
    }
}

/// The exception of a fault of loading, whose message says where it happened.
fn load_error(py: Python<'_>, error: &LoadError, message: String) -> PyErr {
    match error {
        LoadError::Open { source, .. }
        | LoadError::Read { source, .. }
        | LoadError::External { source, .. } => os_error(source, message),
        LoadError::Memory { .. } => PyMemoryError::new_err(message),
        _ => Class::Model.error(py, message),
    }
}

impl IntoPyErr for LoadError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        load_error(py, &self, self.to_string())
    }
}

impl IntoPyErr for EncodedError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        match self {
            EncodedError::Tensor(error) => error.into_py(py),
            other => Class::ValueType.error(py, other),
        }
    }
}

impl IntoPyErr for TensorError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        let message = self.to_string();
        match &self {
            TensorError::Alloc(_) => PyMemoryError::new_err(message),
            TensorError::Extent(ExtentError::Overflow { .. }) => PyOverflowError::new_err(message),
            _ => Class::ValueType.error(py, message),
        }
    }
}

impl IntoPyErr for ModelError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        let message = self.to_string();
        match self {
            ModelError::Load(source) | ModelError::Payload { source, .. } => {
                load_error(py, &source, message)
            }
            ModelError::Write { source, .. } => os_error(&source, message),
            ModelError::Tensor {
                source: TensorError::Alloc(_),
                ..
            } => PyMemoryError::new_err(message),
            _ => Class::Model.error(py, message),
        }
    }
}

impl IntoPyErr for BindingError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        Class::Model.error(py, self)
    }
}

impl IntoPyErr for BindError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        match self {
            BindError::Model(source) => source.into_py(py),
            other => Class::Model.error(py, other),
        }
    }
}

impl IntoPyErr for SessionError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        match self {
            SessionError::Model(source) => source.into_py(py),
            SessionError::Isa(source) => Class::ValueType.error(py, source),
            other => Class::Model.error(py, other),
        }
    }
}

/// Whether memory could not be had, at whatever depth.
fn out_of_memory(error: &OpError) -> bool {
    match error {
        OpError::Tensor(TensorError::Alloc(_))
        | OpError::Compound(ValueError::Tensor(TensorError::Alloc(_)))
        | OpError::Append(AppendError::Alloc(_) | AppendError::Tensor(TensorError::Alloc(_))) => {
            true
        }
        other => other
            .nested()
            .is_some_and(|inner| out_of_memory(&inner.source)),
    }
}

/// Whether a node refused the values that it was given, at whatever depth.
fn refused_values(error: &OpError) -> bool {
    match error {
        OpError::MissingInput { .. }
        | OpError::DType { .. }
        | OpError::Kind { .. }
        | OpError::Shape(_)
        | OpError::Value { .. }
        | OpError::Page(_)
        | OpError::Quantize(_)
        | OpError::Kernel(_) => true,
        other => other
            .nested()
            .is_some_and(|inner| refused_values(&inner.source)),
    }
}

/// The exception that a kernel of Python raised, at whatever depth, and the node that raised it.
fn raised(error: RunError) -> Result<(PyErr, NodePath), Box<RunError>> {
    let RunError { node, source } = error;
    let source = match source {
        OpError::Custom(own) => match own.downcast::<PyErr>() {
            Ok(raised) => return Ok((*raised, node)),
            Err(own) => OpError::Custom(own),
        },
        OpError::Nested(inner) => match raised(*inner) {
            Ok(found) => return Ok(found),
            Err(inner) => OpError::Nested(inner),
        },
        OpError::Iteration { number, source } => match raised(*source) {
            Ok(found) => return Ok(found),
            Err(source) => OpError::Iteration { number, source },
        },
        source => source,
    };
    Err(Box::new(RunError { node, source }))
}

impl IntoPyErr for OpError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        match self {
            error if out_of_memory(&error) => PyMemoryError::new_err(error.to_string()),
            // What a function of Python raised comes out as itself.
            OpError::Custom(own) => match own.downcast::<PyErr>() {
                Ok(raised) => *raised,
                Err(own) => Class::ValueType.error(py, OpError::Custom(own)),
            },
            error => Class::ValueType.error(py, error),
        }
    }
}

impl IntoPyErr for ContextError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        if let ContextError::Event(error) = self {
            return PyMemoryError::new_err(error.to_string());
        }
        let class = match &self {
            ContextError::Missing(_) => Class::MissingValue,
            ContextError::Taken(_) => Class::DuplicateValue,
            _ => Class::ValueType,
        };
        class.error(py, self)
    }
}

impl IntoPyErr for RegisterError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        Class::ValueType.error(py, self)
    }
}

impl IntoPyErr for RunError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        match raised(self) {
            Err(error) => failed(py, &error),
            Ok((raised, node)) => {
                // What was raised comes out as itself; a class without notes goes without one.
                let note = format!("raised by the kernel of {node}");
                let _ = raised.value(py).call_method1("add_note", (note,));
                raised
            }
        }
    }
}

impl IntoPyErr for StateFileError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        let message = self.to_string();
        match self {
            StateFileError::Io { source, .. } => os_error(&source, message),
            StateFileError::Write(source) => source.into_py(py),
            StateFileError::Tensor {
                source: TensorError::Alloc(_),
                ..
            } => PyMemoryError::new_err(message),
            _ => Class::StateFile.error(py, message),
        }
    }
}

impl IntoPyErr for CompletionError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        Class::Completion.error(py, self)
    }
}

/// The name of an object's class, for messages.
pub(crate) fn class_of(object: &Bound<'_, PyAny>) -> String {
    let name = object.get_type().fully_qualified_name();
    name.map_or_else(|_| "an object".to_string(), |name| name.to_string())
}

/// The exception of a node that failed otherwise.
fn failed(py: Python<'_>, error: &RunError) -> PyErr {
    let message = error.to_string();
    if out_of_memory(&error.source) {
        return PyMemoryError::new_err(message);
    }
    if error.is_interrupt() {
        return Class::Cancelled.error(py, message);
    }
    let made = || -> PyResult<PyErr> {
        let keywords = PyDict::new(py);
        keywords.set_item("node", &*error.node.name)?;
        keywords.set_item("op_type", &*error.node.op_type)?;
        let class = match refused_values(&error.source) {
            true => Class::KernelValue,
            false => Class::Kernel,
        };
        let error = class.class(py)?.call((message,), Some(&keywords))?;
        Ok(PyErr::from_value(error))
    };
    made().unwrap_or_else(|error| error)
}

impl IntoPyErr for StateError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        match self {
            StateError::Session(source) => source.into_py(py),
            StateError::Run(source) => source.into_py(py),
            StateError::Output {
                source: TensorError::Alloc(_),
                ..
            }
            | StateError::Value {
                source: ValueError::Tensor(TensorError::Alloc(_)),
                ..
            }
            | StateError::Event(_) => PyMemoryError::new_err(self.to_string()),
            StateError::NoBindings => Class::Model.error(py, self),
            StateError::Busy => Class::StateBusy.error(py, self),
            StateError::Closed => Class::StateClosed.error(py, self),
            StateError::Cancelled { .. } => Class::Cancelled.error(py, self),
            StateError::Completion(source) => source.into_py(py),
            StateError::File(source) => source.into_py(py),
            other => Class::ValueType.error(py, other),
        }
    }
}
