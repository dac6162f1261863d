//! The list of a repeated field: `graph.node`, `tensor.dims`.

mod composite;
mod scalar;

pub(crate) use composite::RepeatedComposite;
pub(crate) use scalar::RepeatedScalar;

use crate::error::Class;
use crate::onnx::scalar::{text, to_python};
use crate::onnx::{message, tree};
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyRange, PySlice};
use refeed_proto::message::{
    EditableMessage, FieldDescriptor, FrozenMessage, Kind, NestingError, Text, Value,
};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The list of a repeated field. It has no content of its own: it reads and edits the message.
#[pyclass(name = "Repeated", module = "refeed.onnx", subclass, frozen)]
pub(crate) struct Repeated {
    cell: Arc<EditableMessage>,
    field: &'static FieldDescriptor,
}

/// The list of a field of a message.
///
/// # Errors
/// When Python is out of memory.
pub(crate) fn view<'py>(
    py: Python<'py>,
    cell: &Arc<EditableMessage>,
    field: &'static FieldDescriptor,
) -> PyResult<Bound<'py, Repeated>> {
    let base = PyClassInitializer::from(Repeated {
        cell: cell.clone(),
        field,
    });
    Ok(match field.kind.message() {
        Some(_) => Bound::new(py, base.add_subclass(RepeatedComposite))?.into_super(),
        None => Bound::new(py, base.add_subclass(RepeatedScalar))?.into_super(),
    })
}

/// The list of an iterable's items, for a field that is not of messages.
///
/// # Errors
/// When the object cannot be iterated, or an item is of the wrong kind.
pub(crate) fn scalars(
    field: &'static FieldDescriptor,
    items: &Bound<'_, PyAny>,
) -> PyResult<Value> {
    match items.cast_exact::<PyList>() {
        Ok(items) if matches!(field.kind, Kind::String) => texts(field, items),
        _ => Ok(Value::list(field.kind, scalar::values(field, items)?)),
    }
}

/// The texts of a list, as the list of a field.
///
/// # Errors
/// When an item is no text.
pub(crate) fn texts(field: &'static FieldDescriptor, items: &Bound<'_, PyList>) -> PyResult<Value> {
    let mut texts: SmallVec<[Text; 4]> = SmallVec::new();
    for item in items {
        texts.push(text(field, &item)?);
    }
    Ok(list_of(&texts))
}

/// Texts as the list of a field, which is absent when it is empty.
pub(crate) fn list_of(texts: &[Text]) -> Value {
    if texts.is_empty() {
        Value::Absent
    } else {
        Value::Texts(Arc::from(texts))
    }
}

/// The exception for messages that lie too deep inside others.
pub(crate) fn too_deep(py: Python<'_>, error: NestingError) -> PyErr {
    Class::Model.error(py, error)
}

/// An index, or the indices of a slice in the order in which it names them.
enum Place {
    One(usize),
    Run(Range<usize>),
    Steps(Vec<usize>),
}

impl Repeated {
    /// Whether this is the list of a field.
    pub(crate) fn is_of(&self, field: &FieldDescriptor) -> bool {
        std::ptr::eq(self.field, field)
    }

    fn len(&self, py: Python<'_>) -> usize {
        tree::with(py, |lock| self.cell.len(lock, self.field.slot))
    }

    /// An item, with its identity when it is a message.
    fn get<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        let slot = self.field.slot;
        if self.field.kind.message().is_some() {
            let child = tree::with(py, |lock| self.cell.child_at(lock, slot, index));
            let child = child.map_err(|error| too_deep(py, error))?;
            return child.map(|child| message::wrap(py, child)).transpose();
        }
        match tree::with(py, |lock| self.cell.item(lock, slot, index)) {
            Value::Absent => Ok(None),
            value => to_python(py, self.field, &value).map(Some),
        }
    }

    fn to_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for index in 0..self.len(py) {
            match self.get(py, index)? {
                Some(item) => list.append(item)?,
                None => break,
            }
        }
        Ok(list)
    }

    fn splice(&self, py: Python<'_>, range: Range<usize>, values: Vec<Value>) -> PyResult<()> {
        let slot = self.field.slot;
        tree::with(py, |lock| {
            // Converting the values ran Python code: the list may be shorter now.
            let len = self.cell.len(lock, slot);
            let range = range.start.min(len)..range.end.min(len);
            self.cell.splice(lock, slot, range, values)
        })
        .map_err(|error| too_deep(py, error))
    }

    fn push_all(&self, py: Python<'_>, values: Vec<Value>) -> PyResult<()> {
        if values.is_empty() {
            tree::with(py, |lock| self.cell.set_present(lock));
            return Ok(());
        }
        self.splice(py, usize::MAX..usize::MAX, values)
    }

    /// What an edit gives. One that fails makes the message present all the same, as protobuf has it: asking for an edit
    /// is enough.
    fn edited<T>(&self, py: Python<'_>, edit: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        edit().inspect_err(|_| tree::with(py, |lock| self.cell.set_present(lock)))
    }

    /// Appends a message and gives it its identity.
    fn push_message<'py>(
        &self,
        py: Python<'py>,
        message: Arc<FrozenMessage>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let slot = self.field.slot;
        let child = tree::with(py, |lock| self.cell.append_message(lock, slot, message));
        message::wrap_new(py, child.map_err(|error| too_deep(py, error))?)
    }

    fn push(&self, py: Python<'_>, value: Value) -> PyResult<()> {
        tree::with(py, |lock| self.cell.append(lock, self.field.slot, value))
            .map_err(|error| too_deep(py, error))
    }

    /// Keeps the items whose place `keep` accepts.
    fn retain(&self, py: Python<'_>, keep: impl Fn(usize) -> bool) {
        let slot = self.field.slot;
        tree::with(py, |lock| {
            let len = self.cell.len(lock, slot);
            let order: Vec<usize> = (0..len).filter(|&index| keep(index)).collect();
            if order.len() < len {
                self.cell.select(lock, slot, &order);
            }
        });
    }

    fn place(&self, key: &Bound<'_, PyAny>) -> PyResult<Place> {
        let len = self.len(key.py());
        if let Ok(slice) = key.cast::<PySlice>() {
            let indices = slice.indices(isize::try_from(len).unwrap_or(isize::MAX))?;
            if indices.step == 1 {
                let start = indices.start.max(0) as usize;
                return Ok(Place::Run(start..start + indices.slicelength));
            }
            let steps = (0..indices.slicelength as isize)
                .map(|step| (indices.start + step * indices.step) as usize);
            return Ok(Place::Steps(steps.collect()));
        }
        let Ok(index) = key.extract::<isize>() else {
            return Err(PyTypeError::new_err("list indices must be integers"));
        };
        position(index, len)
            .map(Place::One)
            .ok_or_else(out_of_range)
    }

    /// Deletes an item or a slice.
    fn delete(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.edited(key.py(), || self.delete_present(key))
    }

    fn delete_present(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        match self.place(key)? {
            Place::One(index) => self.splice(key.py(), index..index + 1, Vec::new()),
            Place::Run(run) => self.splice(key.py(), run, Vec::new()),
            Place::Steps(mut steps) => {
                steps.sort_unstable();
                self.retain(key.py(), |index| steps.binary_search(&index).is_err());
                Ok(())
            }
        }
    }

    /// Where a new item goes that is to be inserted before `index`, as lists have it: beyond either end is that end.
    fn gap(&self, py: Python<'_>, index: isize) -> usize {
        let len = self.len(py);
        if index < 0 {
            len.saturating_sub(index.unsigned_abs())
        } else {
            len.min(index as usize)
        }
    }

    /// The first place of an equal item.
    fn find(&self, item: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
        let py = item.py();
        for index in 0..self.len(py) {
            match self.get(py, index)? {
                Some(held) if held.eq(item)? => return Ok(Some(index)),
                Some(_) => {}
                None => break,
            }
        }
        Ok(None)
    }
}

fn position(index: isize, len: usize) -> Option<usize> {
    let index = if index < 0 {
        len.checked_sub(index.unsigned_abs())?
    } else {
        index as usize
    };
    (index < len).then_some(index)
}

fn out_of_range() -> PyErr {
    PyIndexError::new_err("list index out of range")
}

#[pymethods]
impl Repeated {
    fn __len__(&self, py: Python<'_>) -> usize {
        self.len(py)
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = key.py();
        let items = |places: &mut dyn Iterator<Item = usize>| {
            let list = PyList::empty(py);
            for index in places {
                if let Some(item) = self.get(py, index)? {
                    list.append(item)?;
                }
            }
            Ok(list.into_any())
        };
        match self.place(key)? {
            Place::One(index) => self.get(py, index)?.ok_or_else(out_of_range),
            Place::Run(mut run) => items(&mut run),
            Place::Steps(steps) => items(&mut steps.into_iter()),
        }
    }

    fn __iter__(slf: Bound<'_, Self>) -> RepeatedIterator {
        RepeatedIterator {
            list: slf.unbind(),
            next: AtomicUsize::new(0),
        }
    }

    fn __reversed__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let items = self.to_list(py)?;
        items.reverse()?;
        Ok(items.try_iter()?.into_any())
    }

    fn __contains__(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.find(item)?.is_some())
    }

    fn __richcmp__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        op: CompareOp,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        if !matches!(op, CompareOp::Eq | CompareOp::Ne) {
            return Ok(py.NotImplemented().into_bound(py));
        }
        let equal = if slf.is(other) {
            true
        } else {
            let mine = slf.get().to_list(py)?;
            match other.cast::<Repeated>() {
                Ok(other) => mine.eq(other.get().to_list(py)?)?,
                Err(_) => mine.eq(other)?,
            }
        };
        let holds = equal == matches!(op, CompareOp::Eq);
        Ok(holds.into_pyobject(py)?.to_owned().into_any())
    }

    #[classattr]
    const __hash__: Option<Py<PyAny>> = None;

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.to_list(py)?.repr()?.to_string())
    }

    fn __deepcopy__<'py>(
        &self,
        py: Python<'py>,
        _memo: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let frozen = tree::with(py, |lock| self.cell.freeze(lock));
        let frozen = frozen.map_err(|error| too_deep(py, error))?;
        let list = frozen.value(self.field.slot);
        let values = (0..list.len()).map(|index| list.item(index)).collect();
        let copy = Repeated {
            cell: EditableMessage::new(self.cell.descriptor()),
            field: self.field,
        };
        copy.push_all(py, values)?;
        view(py, &copy.cell, self.field).map(Bound::into_any)
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<()> {
        let class = py.import("pickle")?.getattr("PickleError")?;
        let text = "can't pickle repeated message fields, convert to list first";
        Err(PyErr::from_value(class.call1((text,))?))
    }

    #[pyo3(signature = (index = -1), text_signature = "($self, index=-1)")]
    fn pop<'py>(&self, py: Python<'py>, index: isize) -> PyResult<Bound<'py, PyAny>> {
        self.edited(py, || {
            let index = position(index, self.len(py)).ok_or_else(out_of_range)?;
            let item = self.get(py, index)?.ok_or_else(out_of_range)?;
            self.splice(py, index..index + 1, Vec::new())?;
            Ok(item)
        })
    }

    fn remove(&self, item: &Bound<'_, PyAny>) -> PyResult<()> {
        self.edited(item.py(), || match self.find(item)? {
            Some(index) => self.splice(item.py(), index..index + 1, Vec::new()),
            None => Err(PyValueError::new_err("remove(x): x not in container")),
        })
    }

    fn index(&self, item: &Bound<'_, PyAny>) -> PyResult<usize> {
        let found = self.find(item)?;
        found.ok_or_else(|| PyValueError::new_err("index(x): x not in container"))
    }

    fn count(&self, item: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.to_list(item.py())?
            .call_method1("count", (item,))?
            .extract()
    }

    fn clear(&self, py: Python<'_>) {
        self.retain(py, |_| false);
    }

    fn reverse(&self, py: Python<'_>) {
        let slot = self.field.slot;
        tree::with(py, |lock| {
            let order: Vec<usize> = (0..self.cell.len(lock, slot)).rev().collect();
            self.cell.select(lock, slot, &order);
        });
    }

    #[pyo3(signature = (*, key = None, reverse = false))]
    fn sort(&self, py: Python<'_>, key: Option<&Bound<'_, PyAny>>, reverse: bool) -> PyResult<()> {
        let items = self.to_list(py)?;
        let keys = match key {
            Some(key) => {
                let keys: PyResult<Vec<_>> = items.iter().map(|item| key.call1((item,))).collect();
                PyList::new(py, keys?)?
            }
            None => items,
        };
        let options = PyDict::new(py);
        options.set_item("key", keys.getattr("__getitem__")?)?;
        options.set_item("reverse", reverse)?;
        let count = isize::try_from(keys.len())?;
        let places = PyRange::new(py, 0, count)?;
        let sorted = py.import("builtins")?.getattr("sorted")?;
        let order: Vec<usize> = sorted.call((places,), Some(&options))?.extract()?;
        let slot = self.field.slot;
        tree::with(py, |lock| {
            // The keys are Python code: when it changed the list, there is nothing left to put in order.
            if self.cell.len(lock, slot) == order.len() {
                if !order.is_empty() {
                    self.cell.select(lock, slot, &order);
                }
                return Ok(());
            }
            Err(PyValueError::new_err("list modified during sort"))
        })
    }
}

/// Walks a list as it is at each step.
#[pyclass(name = "RepeatedIterator", module = "refeed.onnx", frozen)]
pub(crate) struct RepeatedIterator {
    list: Py<Repeated>,
    next: AtomicUsize,
}

#[pymethods]
impl RepeatedIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        self.list.get().get(py, index)
    }
}
