//! `refeed.bind`: bindings written into a model that has none.

use crate::error::{Class, class_of};
use crate::model::{PyModel, source};
use crate::run;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use refeed_graph::bind::{BoundPair, PublishRequest, bind as bind_model, schemes};
use refeed_graph::{BindReport, BindRequest, BindingUses, Publish, UnknownPolicy};

/// One binding of a bound model, and what found it.
#[pyclass(name = "BoundPair", module = "refeed", frozen)]
pub(crate) struct PyBoundPair {
    inner: BoundPair,
}

#[pymethods]
impl PyBoundPair {
    /// The graph input.
    #[getter]
    fn input(&self) -> &str {
        &self.inner.input
    }

    /// The graph output.
    #[getter]
    fn output(&self) -> &str {
        &self.inner.output
    }

    /// Declared type of the input.
    #[getter]
    fn input_type(&self) -> &str {
        &self.inner.input_type
    }

    /// Declared type of the output.
    #[getter]
    fn output_type(&self) -> &str {
        &self.inner.output_type
    }

    /// What found the pair: the graph, a pair, a template or a scheme.
    #[getter]
    fn matched_by(&self) -> String {
        self.inner.by.to_string()
    }

    /// When the output is published.
    #[getter]
    fn publish(&self) -> &'static str {
        self.inner.publish.as_str()
    }

    /// How often the input is used.
    #[getter]
    fn uses(&self) -> usize {
        self.inner.uses.count
    }

    fn __repr__(&self) -> String {
        format!(
            "<BoundPair {} <- {} by {}>",
            self.inner.input, self.inner.output, self.inner.by
        )
    }
}

/// What `bind` did. `str(report)` is a table, one binding a line.
#[pyclass(name = "BindReport", module = "refeed", frozen)]
pub(crate) struct PyBindReport {
    inner: BindReport,
}

#[pymethods]
impl PyBindReport {
    /// All bindings of the new model, in the order of declaration.
    #[getter]
    fn pairs(&self) -> Vec<PyBoundPair> {
        self.inner
            .pairs
            .iter()
            .map(|pair| PyBoundPair {
                inner: pair.clone(),
            })
            .collect()
    }

    /// The use policy of the new model.
    #[getter]
    fn uses(&self) -> &'static str {
        self.inner.uses.as_str()
    }

    /// What the caller may want to know.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.inner.warnings.clone()
    }

    fn __str__(&self) -> String {
        self.inner.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<BindReport of {} pairs>", self.inner.pairs.len())
    }
}

fn policy<T: std::str::FromStr<Err = UnknownPolicy>>(
    value: &Bound<'_, PyAny>,
    what: &str,
) -> PyResult<T> {
    let text = value.cast::<PyString>().map_err(|_| {
        PyTypeError::new_err(format!("{what}: expected a str, got {}", class_of(value)))
    })?;
    text.to_str()?.parse().map_err(|error: UnknownPolicy| {
        Class::ValueType.error(value.py(), format_args!("{what}: {error}"))
    })
}

fn patterns_of(value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(vec![text.to_str()?.to_string()]);
    }
    value
        .extract()
        .map_err(|_| PyTypeError::new_err("patterns: expected a str or a sequence of str"))
}

fn pairs_of(value: &Bound<'_, PyAny>) -> PyResult<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    let wrong =
        || PyTypeError::new_err("pairs: expected (input, output) pairs of str, or a dict of them");
    if let Ok(dict) = value.cast::<PyDict>() {
        for (input, output) in dict.iter() {
            pairs.push((
                input.extract().map_err(|_| wrong())?,
                output.extract().map_err(|_| wrong())?,
            ));
        }
        return Ok(pairs);
    }
    if value.is_instance_of::<PyString>() {
        return Err(wrong());
    }
    for pair in value.try_iter().map_err(|_| wrong())? {
        let (input, output): (String, String) = match pair?.extract::<[String; 2]>() {
            Ok([input, output]) => (input, output),
            Err(_) => return Err(wrong()),
        };
        pairs.push((input, output));
    }
    Ok(pairs)
}

/// Write persistent bindings into a model's graph. Nothing is guessed, and what is ambiguous is an error.
#[pyfunction]
#[pyo3(signature = (model, pairs = None, patterns = None, *, uses = None, publish = None))]
pub(crate) fn bind(
    model: &Bound<'_, PyAny>,
    pairs: Option<&Bound<'_, PyAny>>,
    patterns: Option<&Bound<'_, PyAny>>,
    uses: Option<&Bound<'_, PyAny>>,
    publish: Option<&Bound<'_, PyAny>>,
) -> PyResult<(PyModel, PyBindReport)> {
    let py = model.py();
    let mut request = BindRequest {
        pairs: pairs.map(pairs_of).transpose()?.unwrap_or_default(),
        patterns: patterns.map(patterns_of).transpose()?.unwrap_or_default(),
        uses: uses
            .map(|value| policy::<BindingUses>(value, "uses"))
            .transpose()?,
        publish: PublishRequest::default(),
    };
    match publish {
        None => {}
        Some(value) => match value.cast::<PyDict>() {
            Ok(dict) => {
                for (input, value) in dict.iter() {
                    let input: String = input.extract()?;
                    request
                        .publish
                        .inputs
                        .insert(input, policy::<Publish>(&value, "publish")?);
                }
            }
            Err(_) => request.publish.all = Some(policy(value, "publish")?),
        },
    }
    let model = source::model(model, true)?;
    let (bound, report) = run::detached(py, || bind_model(&model, &request).map_err(Box::new))?;
    Ok((PyModel::new(bound), PyBindReport { inner: report }))
}

/// Return the table of known naming schemes: name, who writes such names, templates.
#[pyfunction]
pub(crate) fn known_schemes() -> Vec<(&'static str, &'static str, Vec<&'static str>)> {
    let list = |templates: &'static [(&'static str, Publish)]| {
        templates.iter().map(|(text, _)| *text).collect()
    };
    schemes()
        .iter()
        .map(|scheme| (scheme.name, scheme.about, list(scheme.templates)))
        .collect()
}
