//! `KernelInvocation`: what a kernel written in Python sees of one execution of its node.

use crate::error::{Class, IntoPyErr, class_of};
use crate::interop::reservation::PyAppendReservation;
use crate::runtime::context::{kind_of, storage_of};
use crate::runtime::tensor::{PyTensor, Warned};
use crate::runtime::value::{self, Reader};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use refeed_runtime::kernel::LentInvocation;
use refeed_values::{RuntimeValue, Tensor};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The names of a node's inputs and outputs; `""` stands for an absent one.
pub(crate) struct NodeNames {
    pub(crate) inputs: Vec<Py<PyString>>,
    pub(crate) outputs: Vec<Py<PyString>>,
}

/// What a kernel written in Python sees of one execution of its node. It is of no use after the call.
#[pyclass(name = "KernelInvocation", module = "refeed.runtime", frozen)]
pub(crate) struct PyKernelInvocation {
    names: Arc<NodeNames>,
    /// `None` once the call is over.
    lent: Mutex<Option<LentInvocation>>,
    reservations: Mutex<Vec<Py<PyAppendReservation>>>,
    warned: Warned,
}

fn position(names: &[Py<PyString>], name: &Bound<'_, PyString>) -> PyResult<Option<usize>> {
    let py = name.py();
    let text = name.to_str()?;
    if text.is_empty() {
        return Ok(None);
    }
    for (index, held) in names.iter().enumerate() {
        if held.bind(py).to_str()? == text {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

fn over(py: Python<'_>) -> PyErr {
    Class::ValueType.error(py, "the call of this kernel is over")
}

impl PyKernelInvocation {
    pub(crate) fn new(names: Arc<NodeNames>) -> PyKernelInvocation {
        PyKernelInvocation {
            names,
            lent: Mutex::new(None),
            reservations: Mutex::default(),
            warned: Warned::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<LentInvocation>> {
        // A panic under the lock leaves what was lent as it is.
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, lent: LentInvocation) {
        *self.lock() = Some(lent);
    }

    /// Ends the call: whoever keeps the object can do nothing with it, and rows that were reserved and not committed are
    /// given back.
    pub(crate) fn end(&self) -> Option<LentInvocation> {
        let reservations = {
            let mut held = self
                .reservations
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *held)
        };
        for reservation in &reservations {
            reservation.get().revoke();
        }
        self.lock().take()
    }

    /// Takes what a kernel returned: nothing, one value for a single output, or a tuple of one for each output.
    pub(crate) fn accept(&self, returned: &Bound<'_, PyAny>) -> PyResult<()> {
        if returned.is_none() {
            return Ok(());
        }
        let py = returned.py();
        let count = self.names.outputs.len();
        let values: Vec<Bound<'_, PyAny>> = match returned.cast::<PyTuple>() {
            Ok(tuple) => tuple.iter().collect(),
            Err(_) => vec![returned.clone()],
        };
        if values.len() != count {
            let text = format!(
                "a kernel with {count} outputs returned {} values: expected a tuple of {count}, or None after put",
                values.len()
            );
            return Err(Class::ValueType.error(py, text));
        }
        for (index, value) in values.iter().enumerate() {
            let name = self.names.outputs[index].bind(py);
            if !value.is_none() && !name.to_str()?.is_empty() {
                self.set_output(index, value, name)?;
            }
        }
        Ok(())
    }

    fn set_output(
        &self,
        index: usize,
        value: &Bound<'_, PyAny>,
        name: &Bound<'_, PyString>,
    ) -> PyResult<()> {
        let read = Reader::new("output", None).read(value, name)?;
        let mut lent = self.lock();
        let lent = lent.as_mut().ok_or_else(|| over(name.py()))?;
        lent.set(index, read);
        Ok(())
    }

    /// The value of an input, or of an output that was put.
    fn find(&self, name: &Bound<'_, PyString>) -> PyResult<Option<RuntimeValue>> {
        let lent = self.lock();
        let lent = lent.as_ref().ok_or_else(|| over(name.py()))?;
        if let Some(index) = position(&self.names.inputs, name)?
            && let Some(value) = lent.value(index)
        {
            return Ok(Some(value.clone()));
        }
        let output = position(&self.names.outputs, name)?;
        Ok(output.and_then(|index| lent.output(index).cloned()))
    }

    fn require(&self, name: &Bound<'_, PyString>) -> PyResult<RuntimeValue> {
        self.find(name)?.ok_or_else(|| {
            let text = name.to_string_lossy();
            let text = format!("the node has no input `{text}`");
            Class::MissingValue.error(name.py(), text)
        })
    }
}

#[pymethods]
impl PyKernelInvocation {
    /// The node's inputs, by position; "" for one that is left out.
    #[getter]
    fn input_names(&self, py: Python<'_>) -> Vec<Py<PyString>> {
        self.names
            .inputs
            .iter()
            .map(|name| name.clone_ref(py))
            .collect()
    }

    /// The node's outputs, by position; "" for one that is left out.
    #[getter]
    fn output_names(&self, py: Python<'_>) -> Vec<Py<PyString>> {
        self.names
            .outputs
            .iter()
            .map(|name| name.clone_ref(py))
            .collect()
    }

    /// The values of the inputs, by position; None for one that is left out.
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let values: Vec<Option<RuntimeValue>> = {
            let lent = self.lock();
            let lent = lent.as_ref().ok_or_else(|| over(py))?;
            let values = (0..lent.input_count()).map(|index| lent.value(index).cloned());
            values.collect()
        };
        let list = PyList::empty(py);
        for (value, name) in values.into_iter().zip(&self.names.inputs) {
            match value {
                Some(value) => list.append(value::write(py, value, name, &self.warned)?)?,
                None => list.append(py.None())?,
            }
        }
        Ok(list)
    }

    /// Return whether an input, or an output that was put, has this name.
    fn has(&self, name: &Bound<'_, PyString>) -> PyResult<bool> {
        Ok(self.find(name)?.is_some())
    }

    /// Return an input that is a tensor, or an output that was put.
    fn get(&self, name: &Bound<'_, PyString>) -> PyResult<PyTensor> {
        match self.require(name)? {
            RuntimeValue::Tensor(tensor) => Ok(PyTensor::new(
                tensor,
                name.clone().unbind(),
                self.warned.clone(),
            )),
            other => {
                let (text, got) = (name.to_string_lossy(), other.kind());
                let text = format!("value `{text}`: expected a tensor, got {got}");
                Err(Class::ValueType.error(name.py(), text))
            }
        }
    }

    /// Return an input of whatever kind, or an output that was put.
    fn get_value<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        let value = self.require(name)?;
        value::write(name.py(), value, &name.clone().unbind(), &self.warned)
    }

    /// Set an output. An array is taken as it is, so it must not be changed afterwards.
    #[pyo3(signature = (name, value, kind = "intermediate"))]
    fn put(
        &self,
        name: &Bound<'_, PyString>,
        value: &Bound<'_, PyAny>,
        kind: &str,
    ) -> PyResult<()> {
        let py = name.py();
        kind_of(py, kind)?;
        let Some(index) = position(&self.names.outputs, name)? else {
            let text = name.to_string_lossy();
            let text = format!("the node has no output `{text}`");
            return Err(Class::ValueType.error(py, text));
        };
        self.set_output(index, value, name)
    }

    /// Set an output of whatever kind: a dict is a struct, a list a sequence.
    fn put_value(&self, name: &Bound<'_, PyString>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.put(name, value, "intermediate")
    }

    /// Ask for the rows behind a retained input, when the graph feeds an output back into it.
    fn reserve_persistent_append(
        &self,
        py: Python<'_>,
        past: &Bound<'_, PyAny>,
        shape: Vec<usize>,
        axis: usize,
        input_slot: usize,
        output_slot: usize,
    ) -> PyResult<Option<Py<PyAppendReservation>>> {
        let reserved = {
            let mut lent = self.lock();
            let lent = lent.as_mut().ok_or_else(|| over(py))?;
            let held = lent
                .value(input_slot)
                .and_then(RuntimeValue::tensor)
                .cloned();
            let Some(held) = held else { return Ok(None) };
            if !self.is_past(past, input_slot, &held)? {
                return Ok(None);
            }
            lent.reserve(input_slot, output_slot, &shape, axis)
                .map_err(|error| error.into_py(py))?
        };
        let made =
            reserved.and_then(|rows| PyAppendReservation::new(rows, (input_slot, output_slot)));
        let Some(made) = made else { return Ok(None) };
        let made = Py::new(py, made)?;
        let mut held = self
            .reservations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        held.push(made.clone_ref(py));
        Ok(Some(made))
    }

    /// End the writing of reserved rows, and make the whole result an output.
    fn commit_persistent_append(
        &self,
        py: Python<'_>,
        output_slot: usize,
        reservation: &Bound<'_, PyAppendReservation>,
        bytes: usize,
    ) -> PyResult<PyTensor> {
        if reservation.get().output() != output_slot {
            let text = format!(
                "the reservation is for output {}, got output {output_slot}",
                reservation.get().output()
            );
            return Err(Class::ValueType.error(py, text));
        }
        let taken = reservation.get().take(py)?;
        let mut lent = self.lock();
        let lent = lent.as_mut().ok_or_else(|| over(py))?;
        let tensor = lent
            .commit_bytes(output_slot, taken, bytes)
            .map_err(|error| error.into_py(py))?;
        let name = match self.names.outputs.get(output_slot) {
            Some(name) => name.clone_ref(py),
            None => PyString::new(py, "").unbind(),
        };
        Ok(PyTensor::new(tensor, name, self.warned.clone()))
    }

    /// Record an event of this node, as `RuntimeContext.record_event` does.
    #[pyo3(signature = (action, **fields))]
    fn record_event(
        &self,
        action: &Bound<'_, PyAny>,
        fields: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let py = action.py();
        let (action, name, storage) = storage_of(action, fields)?;
        let mut lent = self.lock();
        let lent = lent.as_mut().ok_or_else(|| over(py))?;
        lent.record_event(action, name.as_deref(), storage);
        Ok(())
    }

    fn __repr__(&self) -> String {
        let (inputs, outputs) = (self.names.inputs.len(), self.names.outputs.len());
        format!("<KernelInvocation of {inputs} inputs, {outputs} outputs>")
    }
}

impl PyKernelInvocation {
    /// Whether `past` is the input of this slot itself: its name, or a tensor of the same memory and layout.
    fn is_past(&self, past: &Bound<'_, PyAny>, slot: usize, held: &Tensor) -> PyResult<bool> {
        if let Ok(name) = past.cast::<PyString>() {
            let own = self.names.inputs.get(slot).map(|own| own.bind(past.py()));
            return Ok(own.is_some_and(|own| own.to_str().ok() == name.to_str().ok()));
        }
        let Ok(tensor) = past.cast::<PyTensor>() else {
            return Err(PyTypeError::new_err(format!(
                "past: expected the name of an input or a Tensor, got {}",
                class_of(past)
            )));
        };
        let tensor = tensor.borrow();
        let tensor = tensor.tensor();
        Ok(tensor.dtype() == held.dtype()
            && tensor.layout() == held.layout()
            && tensor.offset() == held.offset()
            && tensor.buffer().same_allocation(held.buffer()))
    }
}
