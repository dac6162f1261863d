//! What runs the model: a state that consumes new tokens, or a session that sees the whole prefix each time.

use super::error::GenerationError;
use super::options::GenerationOptions;
use super::prompt::Roles;
use crate::context::RuntimeContext;
use crate::error::StateError;
use crate::interrupt::RunControl;
use crate::session::{Outputs, RuntimeSession};
use crate::state::{BatchAxes, PersistentValueState};
use refeed_graph::Model;
use refeed_graph::types::{Dim, ValueType};
use refeed_values::{RuntimeValue, paged_cache};
use std::sync::Arc;

/// The model of a generation, and what it remembers.
#[derive(Debug)]
pub(super) enum Engine {
    State(PersistentValueState),
    Session(Arc<RuntimeSession>),
}

impl Engine {
    pub(super) fn run(
        &self,
        context: &RuntimeContext,
        feeds: &[(usize, RuntimeValue)],
        control: RunControl<'_>,
    ) -> Result<Outputs, StateError> {
        match self {
            Engine::State(state) => state.run_positions(context, feeds, control),
            Engine::Session(session) => session.run_controlled(context, feeds, control),
        }
    }

    /// Whether a retained value is a paged cache, whose pages forks share.
    ///
    /// # Errors
    /// When the state is busy or closed.
    pub(super) fn holds_pages(&self) -> Result<bool, StateError> {
        Ok(match self {
            Engine::State(state) => {
                let values = state.values()?;
                values
                    .iter()
                    .any(|(_, value)| paged_cache::blocks(value).is_some())
            }
            Engine::Session(_) => false,
        })
    }

    /// The same, for another holder.
    pub(super) fn fork(&self) -> Result<Engine, StateError> {
        Ok(match self {
            Engine::State(state) => Engine::State(state.fork()?),
            Engine::Session(session) => Engine::Session(Arc::clone(session)),
        })
    }
}

/// How rows of the batch can be chosen.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    /// The axes of retained values, or why there are none.
    pub(super) axes: Result<BatchAxes, String>,
    /// Whether no input but the loop's own has the batch among its axes, so that rows may go.
    pub(super) alone: bool,
}

fn dims(ty: &ValueType) -> Option<&[Dim]> {
    ty.tensor().and_then(|tensor| tensor.shape.as_deref())
}

impl Batch {
    /// Reads the declarations: the batch is the symbol of the first axis of the token ids.
    pub(super) fn of(
        model: &Model,
        options: &GenerationOptions,
        roles: &Roles,
        fixed: &[(usize, RuntimeValue)],
    ) -> Batch {
        let ids = dims(&model.inputs()[roles.ids.input].ty).and_then(<[Dim]>::first);
        let symbol = ids.filter(|dim| matches!(dim, Dim::Symbol(_)));
        let has_batch = |dims: &[Dim]| dims.iter().position(|dim| Some(dim) == symbol);
        let alone = fixed.iter().all(|(input, _)| {
            let dims = dims(&model.inputs()[*input].ty);
            dims.is_some_and(|dims| {
                has_batch(dims).is_none() && dims.first().is_none_or(|dim| dim.known().is_some())
            })
        });
        let axes = || {
            if let Some(Dim::Known(rows)) = ids {
                return Err(format!("the model is declared for a batch of {rows}"));
            }
            let mut axes = options.batch_axes.clone();
            for binding in model.bindings() {
                if axes.is_said(&binding.input) {
                    continue;
                }
                let ty = &model.inputs()[binding.input_index].ty;
                let Some(dims) = dims(ty) else {
                    // Caches of pages, and undeclared tensors: axis 0.
                    continue;
                };
                let axis = match (has_batch(dims), dims.first()) {
                    (Some(axis), _) => Some(axis),
                    // Every axis is a number, so none is the batch.
                    (None, _) if dims.iter().all(|dim| dim.known().is_some()) => None,
                    (None, Some(Dim::Symbol(_) | Dim::Unknown)) => Some(0),
                    (None, _) => {
                        return Err(format!(
                            "nothing tells which axis of `{}` is the batch: say so in batch_axes",
                            binding.input
                        ));
                    }
                };
                axes = axes.with(Arc::clone(&binding.input), axis);
            }
            Ok(axes)
        };
        Batch {
            axes: axes(),
            alone,
        }
    }

    /// The axes for something that needs them.
    ///
    /// # Errors
    /// When rows cannot be chosen.
    pub(super) fn need(&self, wanted: &'static str) -> Result<&BatchAxes, GenerationError> {
        let refuse = |reason: String| GenerationError::Rows { wanted, reason };
        if !self.alone {
            let reason = "an input that is fed at every step has a batch axis";
            return Err(refuse(reason.to_string()));
        }
        self.axes.as_ref().map_err(|reason| refuse(reason.clone()))
    }
}
