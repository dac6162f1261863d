//! `RawBufferAllocator` and its three kinds.

use crate::runtime::tensor::size;
use pyo3::prelude::*;
use refeed_values::RawBufferAllocator;

/// An allocator that a caller brings to the calls of a context. Abstract: make one of its kinds.
#[pyclass(
    name = "RawBufferAllocator",
    module = "refeed.runtime",
    subclass,
    frozen
)]
pub(crate) struct PyRawBufferAllocator {
    pub(crate) inner: RawBufferAllocator,
}

#[pymethods]
impl PyRawBufferAllocator {
    /// Bytes that were asked for and are in use.
    #[getter]
    fn total_allocated_size(&self) -> usize {
        self.inner.live_bytes()
    }

    /// The most bytes that were in use at once since the start or the last `reset_peak`.
    #[getter]
    fn peak_allocated_size(&self) -> usize {
        self.inner.peak_bytes()
    }

    /// Buffers in use: each is held by a value that somebody keeps.
    #[getter]
    fn allocated_count(&self) -> usize {
        self.inner.live_count()
    }

    /// The most buffers that may be in use at once.
    #[getter]
    fn capacity(&self) -> usize {
        self.inner.capacity()
    }

    /// Start measuring the peak anew, from what is in use now.
    fn reset_peak(&self) {
        self.inner.reset_peak();
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let inner = &slf.get().inner;
        Ok(format!(
            "<{} {} of {} buffers, {} bytes>",
            slf.get_type().name()?,
            inner.live_count(),
            inner.capacity(),
            inner.live_bytes()
        ))
    }
}

/// An allocator that counts, and frees what comes back.
#[pyclass(name = "SimpleRawBufferAllocator", module = "refeed.runtime", extends = PyRawBufferAllocator, frozen)]
pub(crate) struct PySimpleRawBufferAllocator;

#[pymethods]
impl PySimpleRawBufferAllocator {
    #[new]
    fn new(capacity: &Bound<'_, PyAny>) -> PyResult<PyClassInitializer<Self>> {
        let inner = RawBufferAllocator::simple(size(capacity, "capacity")?);
        Ok(PyClassInitializer::from(PyRawBufferAllocator { inner })
            .add_subclass(PySimpleRawBufferAllocator))
    }
}

/// An allocator that keeps buffers that come back for later requests; for what a call needs on the way.
#[pyclass(name = "ExecutionArena", module = "refeed.runtime", extends = PyRawBufferAllocator, subclass, frozen)]
pub(crate) struct PyExecutionArena;

/// The arguments of an arena: buffers, and bytes that are kept free.
fn limits(
    capacity: &Bound<'_, PyAny>,
    retention_cap: Option<&Bound<'_, PyAny>>,
) -> PyResult<(usize, usize)> {
    let cap = retention_cap.map(|cap| size(cap, "retention_cap"));
    Ok((
        size(capacity, "capacity")?,
        cap.transpose()?.unwrap_or(usize::MAX),
    ))
}

#[pymethods]
impl PyExecutionArena {
    #[new]
    #[pyo3(signature = (capacity, retention_cap = None))]
    fn new(
        capacity: &Bound<'_, PyAny>,
        retention_cap: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let (capacity, cap) = limits(capacity, retention_cap)?;
        let inner = RawBufferAllocator::execution_arena(capacity, cap);
        Ok(PyClassInitializer::from(PyRawBufferAllocator { inner }).add_subclass(PyExecutionArena))
    }

    /// Bytes of the free buffers that are kept.
    #[getter]
    fn retained_size(slf: PyRef<'_, Self>) -> usize {
        slf.as_super().inner.retained_bytes()
    }

    /// Free buffers that are kept.
    #[getter]
    fn retained_count(slf: PyRef<'_, Self>) -> usize {
        slf.as_super().inner.retained_count()
    }

    /// Most bytes of free buffers that are kept. When it is lowered, the largest go first.
    #[getter]
    fn retention_cap(slf: PyRef<'_, Self>) -> usize {
        slf.as_super().inner.retention_cap()
    }

    #[setter]
    fn set_retention_cap(slf: PyRef<'_, Self>, cap: &Bound<'_, PyAny>) -> PyResult<()> {
        let cap = size(cap, "retention_cap")?;
        slf.as_super().inner.set_retention_cap(cap);
        Ok(())
    }

    /// Free all buffers that are kept.
    fn trim(slf: PyRef<'_, Self>) {
        slf.as_super().inner.trim();
    }
}

/// An arena for outputs and retained values.
#[pyclass(name = "IOArena", module = "refeed.runtime", extends = PyExecutionArena, frozen)]
pub(crate) struct PyIoArena;

#[pymethods]
impl PyIoArena {
    #[new]
    #[pyo3(signature = (capacity, retention_cap = None))]
    fn new(
        capacity: &Bound<'_, PyAny>,
        retention_cap: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let (capacity, cap) = limits(capacity, retention_cap)?;
        let inner = RawBufferAllocator::io_arena(capacity, cap);
        Ok(PyClassInitializer::from(PyRawBufferAllocator { inner })
            .add_subclass(PyExecutionArena)
            .add_subclass(PyIoArena))
    }

    /// Buffers in use. Each is one lease: the state's, or that of the last view of a value.
    #[getter]
    fn leased_count(slf: PyRef<'_, Self>) -> usize {
        slf.as_super().as_super().inner.live_count()
    }
}
