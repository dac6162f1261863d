//! Arguments of `select`: rows, and the batch axis of each value.

use crate::error::{Class, class_of};
use crate::runtime::tensor::size;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use refeed_runtime::BatchAxes;

/// Most rows that can be chosen: an iterator need not end.
const MOST_ROWS: usize = 1 << 20;

/// A sequence of integers, NumPy's included.
///
/// # Errors
/// When something in it is no integer, or negative, or there are more than [`MOST_ROWS`].
pub(super) fn read_rows(rows: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let mut read = Vec::new();
    for row in rows.try_iter()? {
        if read.len() == MOST_ROWS {
            let text = format_args!("rows: expected at most {MOST_ROWS} of them, got more");
            return Err(Class::ValueType.error(rows.py(), text));
        }
        read.push(size(&row?, "row")?);
    }
    Ok(read)
}

/// A dictionary from bound inputs to axes; `None` for a value without a batch.
///
/// # Errors
/// When it is something else.
pub(super) fn read_axes(axes: Option<&Bound<'_, PyAny>>) -> PyResult<BatchAxes> {
    let mut read = BatchAxes::default();
    let Some(axes) = axes else {
        return Ok(read);
    };
    let Ok(axes) = axes.cast::<PyDict>() else {
        let kind = class_of(axes);
        return Err(PyTypeError::new_err(format!(
            "axes: expected a dictionary of names to axes, got {kind}"
        )));
    };
    for (name, axis) in axes {
        let Ok(name) = name.cast::<PyString>() else {
            let kind = class_of(&name);
            return Err(PyTypeError::new_err(format!(
                "axes: expected names as keys, got {kind}"
            )));
        };
        let axis = match axis.is_none() {
            true => None,
            false => Some(size(&axis, "axis")?),
        };
        read = read.with(name.to_str()?, axis);
    }
    Ok(read)
}
