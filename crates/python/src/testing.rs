//! Planted failures, for tests of an installed wheel. A released wheel does not contain this module.

#[pyo3::pymodule]
pub(crate) mod testing {
    use crate::error::IntoPyErr;
    use crate::run;
    use pyo3::prelude::*;

    /// Makes check number `number` (from 0) of this thread's next calls fail.
    #[pyfunction]
    fn arm(number: usize) {
        refeed_runtime::testing::arm(number);
    }

    /// Plants nothing any more; returns whether the planted failure has happened.
    #[pyfunction]
    fn disarm() -> bool {
        refeed_runtime::testing::disarm()
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
