//! Planted failures, for tests of an installed wheel. A released wheel does not contain this module.

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use refeed_runtime::testing::Site;

/// Passes a conversion between Python and the runtime.
///
/// # Errors
/// When a failure is planted here.
pub(crate) fn convert(site: Site) -> PyResult<()> {
    match refeed_values::testing::strike(site) {
        false => Ok(()),
        true => Err(PyMemoryError::new_err("injected failure")),
    }
}

#[pyo3::pymodule]
pub(crate) mod testing {
    use crate::error::IntoPyErr;
    use crate::run;
    use pyo3::exceptions::PyValueError;
    use pyo3::prelude::*;
    use refeed_runtime::testing::{self, Mode, Site};

    fn site(name: &str) -> PyResult<Site> {
        let known = || Site::ALL.map(Site::name).join("`, `");
        Site::from_name(name).ok_or_else(|| {
            PyValueError::new_err(format!("expected one of `{}`, got `{name}`", known()))
        })
    }

    /// Makes passage number `number` (from 0) of a site fail on this thread: once, or from then on.
    #[pyfunction]
    fn arm(name: &str, number: usize, from_then_on: bool) -> PyResult<()> {
        let mode = match from_then_on {
            false => Mode::Once,
            true => Mode::FromThenOn,
        };
        testing::arm(site(name)?, number, mode);
        Ok(())
    }

    /// Plants nothing any more; returns whether the planted failure has happened.
    #[pyfunction]
    fn disarm() -> bool {
        testing::disarm()
    }

    /// How often this thread has passed a site.
    #[pyfunction]
    fn count(name: &str) -> PyResult<usize> {
        Ok(testing::count(site(name)?))
    }

    /// Fills memory that this thread's steps get for results with a byte; `None` ends it.
    #[pyfunction]
    #[pyo3(signature = (byte))]
    fn fill(byte: Option<u8>) {
        testing::fill(byte);
    }

    /// The names of all sites.
    #[pyfunction]
    fn sites() -> Vec<&'static str> {
        Site::ALL.map(Site::name).to_vec()
    }

    struct Never;

    impl IntoPyErr for Never {
        fn into_py(self, py: Python<'_>) -> PyErr {
            crate::error::Class::Internal.error(py, "unreachable")
        }
    }

    /// Panics inside native work.
    #[pyfunction]
    fn panic(py: Python<'_>, text: String) -> PyResult<()> {
        #[allow(clippy::panic)]
        run::detached(py, || -> Result<(), Never> { panic!("{text}") })
    }
}
