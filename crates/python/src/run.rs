//! The one place where native work starts: it lets other Python threads run, catches panics, lets Ctrl-C through, and
//! maps errors.

use crate::error::{Class, IntoPyErr};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;
use refeed_runtime::Poll;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// What a signal handler raised while this thread's call was polled.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
    /// Whether signal handlers run on this thread, once that is known.
    static MAIN: Cell<Option<bool>> = const { Cell::new(None) };
    /// Whether this thread is inside `detached`.
    static DETACHED: Cell<bool> = const { Cell::new(false) };
    /// Pieces of native work of this thread that go on inside each other, by kernels that are written in Python.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Pieces of native work that one thread may have inside each other: Python counts its own calls only, and the stack of a
/// thread ends far below the depth that it would allow.
const MAX_DEPTH: usize = 100;

/// Whether this thread is inside native work, where the interpreter must not be waited for.
pub(crate) fn is_detached() -> bool {
    DETACHED.try_with(Cell::get).unwrap_or(true)
}

struct Detached(bool);

impl Detached {
    fn enter() -> Detached {
        Detached(DETACHED.replace(true))
    }
}

/// One piece of native work of a thread.
struct Deeper;

impl Deeper {
    fn enter() -> PyResult<Deeper> {
        let depth = DEPTH.get();
        if depth >= MAX_DEPTH {
            let text = format!(
                "a kernel runs a model that runs the kernel again: {MAX_DEPTH} calls are inside each other"
            );
            return Err(PyRecursionError::new_err(text));
        }
        DEPTH.set(depth + 1);
        Ok(Deeper)
    }
}

impl Drop for Deeper {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

impl Drop for Detached {
    fn drop(&mut self) {
        DETACHED.set(self.0);
    }
}

/// Runs native work without the interpreter. A panic becomes `refeed.InternalError`, and work inside of work without end
/// `RecursionError`.
pub(crate) fn detached<T, E, F>(py: Python<'_>, work: F) -> PyResult<T>
where
    F: FnOnce() -> Result<T, E> + Send,
    T: Send,
    E: IntoPyErr + Send,
{
    let _deeper = Deeper::enter()?;
    let outcome = py.detach(|| {
        let _inside = Detached::enter();
        catch_unwind(AssertUnwindSafe(work))
    });
    finish(py, outcome)
}

/// Comes back to the interpreter from inside of native work, for a kernel that is written in Python.
pub(crate) fn reattached<T>(work: impl FnOnce(Python<'_>) -> T) -> T {
    let _outside = Detached(DETACHED.replace(false));
    Python::attach(work)
}

/// Runs short native work with the interpreter held. A panic becomes `refeed.InternalError`.
pub(crate) fn attached<T, E: IntoPyErr>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, E>,
) -> PyResult<T> {
    finish(py, catch_unwind(AssertUnwindSafe(work)))
}

fn finish<T, E: IntoPyErr>(
    py: Python<'_>,
    outcome: Result<Result<T, E>, Box<dyn Any + Send>>,
) -> PyResult<T> {
    match outcome {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(match RAISED.take() {
            Some(raised) => raised,
            None => error.into_py(py),
        }),
        Err(panic) => {
            RAISED.take();
            Err(panicked(py, &*panic))
        }
    }
}

/// The exception for a panic that was caught.
pub(crate) fn panicked(py: Python<'_>, panic: &(dyn Any + Send)) -> PyErr {
    Class::Internal.error(py, panic_text(panic))
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("native code panicked")
}

/// The poll of a call that starts now; `None` on threads where no signal handler runs.
pub(crate) fn poll(py: Python<'_>) -> Option<Poll> {
    let main = match MAIN.get() {
        Some(main) => main,
        None => {
            let main = on_main_thread(py).unwrap_or(true);
            MAIN.set(Some(main));
            main
        }
    };
    main.then_some(poll_signals as Poll)
}

fn on_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    threading.call_method0("get_ident")?.eq(main)
}

/// After native work that a signal ended early and that has something to return: nothing for Ctrl-C, whose wish is
/// fulfilled; whatever else a handler raised goes on.
///
/// # Errors
/// What a handler raised, unless it was `KeyboardInterrupt`.
pub(crate) fn stopped(py: Python<'_>) -> PyResult<()> {
    match RAISED.take() {
        Some(raised) if !raised.is_instance_of::<PyKeyboardInterrupt>(py) => Err(raised),
        _ => Ok(()),
    }
}

/// What a handler raised during native work that ended early and returns nothing.
///
/// # Errors
/// What a handler raised.
pub(crate) fn raised(_py: Python<'_>) -> PyResult<()> {
    RAISED.take().map_or(Ok(()), Err)
}

/// Runs pending signal handlers; true when one raised.
fn poll_signals() -> bool {
    Python::attach(|py| match py.check_signals() {
        Ok(()) => false,
        Err(raised) => {
            RAISED.set(Some(raised));
            true
        }
    })
}
