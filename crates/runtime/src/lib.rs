//! What a call of a model does: plan, operators, sessions, and state that feeds itself.
//!
//! * A [`RuntimeSession`] is a compiled model: values are slot numbers, operators are chosen kernels, weights are views
//!   of the loaded file. Its runs remember nothing.
//! * A [`PersistentValueState`] keeps, for one request, the values that the model's bindings feed back. The life of a
//!   call stands at the head of its module.
//! * A [`RuntimeContext`] is what the calls of a request share: the event log.
//!
//! How an operator gets here: `docs/adding-an-operator.md`.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod append;
mod completion;
mod conform;
mod context;
mod control;
mod error;
pub mod events;
mod execute;
mod explain;
mod generate;
mod interrupt;
pub mod kernel;
pub mod ops;
mod options;
mod persistent_value;
mod plan;
mod recognition;
mod registry;
mod session;
mod shapes;
mod state;
mod state_file;
#[cfg(feature = "testing")]
pub mod testing;
mod variants;

pub use completion::{CompletionError, TaskCompletion, TaskStatus};
pub use conform::ConformError;
pub use context::{
    ContextError, KernelContext, MapKeys, MapValue, MapValues, OpsetId, RuntimeContext,
    RuntimeContextOptions, ValueKind, ValueStore,
};
pub use error::{NodePath, NodeProblem, RunError, SessionError, StateError};
pub use events::{
    Captured, EventKind, NodeTable, NodeTiming, RuntimeEvent, RuntimeEventAction, StorageReport,
};
pub use explain::{BindingReport, Explanation, LastPage, Outcome};
pub use generate::{
    FinishReason, Generated, GeneratedSequence, GeneratedToken, GenerationError, GenerationOptions,
    Generator, GeneratorSettings, empty_caches, generate, generate_until,
};
pub use interrupt::{Poll, RunControl};
pub use ops::paged_attention;
pub use options::{AppendReuse, BindingUses, RuntimeSessionOptions};
pub use plan::{OperatorUse, survey};
pub use recognition::AttentionForm;
pub use registry::{RegisterError, clear_kernels, register_kernel, unregister_kernel};
pub use session::{Outputs, RuntimeSession};
pub use state::{BatchAxes, Checkpoint, PersistentValueState, Prepared};
pub use state_file::StateFileError;
