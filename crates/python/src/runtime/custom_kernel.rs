//! Kernels written in Python.

use crate::error::{IntoPyErr, class_of};
use crate::onnx::convert::message_of;
use crate::run;
use crate::runtime::kernel_invocation::{NodeNames, PyKernelInvocation};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use refeed_runtime::kernel::{Build, Invocation, Kernel, Kinds, LentInvocation, OpError};
use std::sync::Arc;

/// A function of Python as the kernel of one node.
struct PythonKernel {
    function: Arc<Py<PyAny>>,
    /// The node's message.
    node: Py<PyAny>,
    names: Arc<NodeNames>,
}

fn custom(error: PyErr) -> OpError {
    OpError::Custom(Box::new(error))
}

/// A function as what a registry holds.
///
/// # Errors
/// `TypeError` when it cannot be called.
pub(crate) fn factory(
    function: &Bound<'_, PyAny>,
) -> PyResult<impl Fn(&mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> + Send + Sync + 'static> {
    if !function.is_callable() {
        let kind = class_of(function);
        return Err(PyTypeError::new_err(format!(
            "fn: expected a function of a node and an invocation, got {kind}"
        )));
    }
    let function = Arc::new(function.clone().unbind());
    Ok(move |build: &mut Build<'_>| {
        let function = function.clone();
        run::reattached(|py| {
            let names = |names: &[String]| {
                let names = names.iter().map(|name| PyString::new(py, name).unbind());
                names.collect()
            };
            let kernel = PythonKernel {
                function,
                node: message_of(py, build.node).map_err(custom)?.unbind(),
                names: Arc::new(NodeNames {
                    inputs: names(&build.node.input),
                    outputs: names(&build.node.output),
                }),
            };
            Ok(Box::new(kernel) as Box<dyn Kernel>)
        })
    })
}

impl PythonKernel {
    fn call(&self, py: Python<'_>, lent: LentInvocation) -> (Option<LentInvocation>, PyResult<()>) {
        let invocation = match Bound::new(py, PyKernelInvocation::new(self.names.clone())) {
            Ok(invocation) => invocation,
            Err(error) => return (Some(lent), Err(error)),
        };
        invocation.get().begin(lent);
        let returned = self
            .function
            .bind(py)
            .call1((self.node.bind(py), &invocation));
        let outcome = returned.and_then(|value| invocation.get().accept(&value));
        (invocation.get().end(), outcome)
    }
}

impl Kernel for PythonKernel {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let lent = call.lend();
        let (lent, outcome) = run::reattached(|py| self.call(py, lent));
        if let Some(lent) = lent {
            call.take_back(lent);
        }
        outcome.map_err(custom)
    }

    fn reads(&self) -> Kinds {
        Kinds::Any
    }
}

/// Make a function the kernel of an operator for the whole process, as `RuntimeContext.register_custom_kernel` does.
#[pyfunction]
#[pyo3(signature = (domain, op_type, r#fn))]
pub(crate) fn register_custom_kernel(
    domain: &str,
    op_type: &str,
    r#fn: &Bound<'_, PyAny>,
) -> PyResult<()> {
    refeed_runtime::register_kernel(domain, op_type, factory(r#fn)?)
        .map_err(|error| error.into_py(r#fn.py()))
}

/// Forget a kernel of the process; False when there is none. Sessions that have it keep it.
#[pyfunction]
pub(crate) fn unregister_custom_kernel(domain: &str, op_type: &str) -> bool {
    refeed_runtime::unregister_kernel(domain, op_type)
}

/// Forget all kernels of the process. Sessions that have them keep them.
#[pyfunction]
pub(crate) fn clear_custom_kernels() {
    refeed_runtime::clear_kernels();
}
