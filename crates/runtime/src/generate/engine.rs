//! What runs the model: a state that consumes new tokens, or a session that sees the whole prefix each time.

use super::error::GenerationError;
use super::options::GenerationOptions;
use super::prompt::Roles;
use crate::context::RuntimeContext;
use crate::error::StateError;
use crate::interrupt::RunControl;
use crate::session::{Outputs, RuntimeSession};
use crate::state::{BatchAxes, PersistentValueState};
use refeed_graph::types::{Dim, ValueType};
use refeed_graph::{Binding, Model};
use refeed_values::{RuntimeValue, Tensor, paged_cache};
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

/// Where the batch lies in what the caller feeds at every step.
#[derive(Debug, Clone, Copy, PartialEq)]
enum FeedAxis {
    /// Nowhere: all rows are fed the same.
    None,
    At(usize),
    /// The declaration does not tell.
    Unknown,
}

/// How rows of the batch can be chosen.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    /// The axes of retained values, or why there are none.
    axes: Result<BatchAxes, String>,
    /// By graph input, of those that the caller feeds.
    feeds: Vec<(usize, FeedAxis)>,
    /// The rows that the model is declared for, and the tokens of each at a time.
    declared: Option<usize>,
    columns: Option<usize>,
    /// A bound input of a fixed shape: what a row leaves there depends on its padding too, for all that is known.
    recurrent: Option<Arc<str>>,
}

/// The part of a row, of `count` along an axis; the whole where all rows are fed the same.
fn row_of(tensor: &Tensor, axis: usize, row: usize, count: usize) -> Option<RuntimeValue> {
    match tensor.shape().get(axis) {
        Some(1) => Some(tensor.clone().into()),
        Some(extent) if *extent == count => {
            let (layout, offset) = tensor.layout().slice(axis, row, 1, 1)?;
            tensor.with_layout(layout, offset).ok().map(Into::into)
        }
        _ => None,
    }
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
        let ids = dims(&model.inputs()[roles.ids.input].ty);
        let (ids, columns) = (ids.and_then(<[Dim]>::first), ids.and_then(|ids| ids.get(1)));
        let symbol = ids.filter(|dim| matches!(dim, Dim::Symbol(_)));
        let has_batch = |dims: &[Dim]| dims.iter().position(|dim| Some(dim) == symbol);
        let axis = |input: usize| {
            let Some(dims) = dims(&model.inputs()[input].ty) else {
                return FeedAxis::Unknown;
            };
            match (has_batch(dims), dims.first()) {
                (Some(axis), _) => FeedAxis::At(axis),
                (None, Some(Dim::Symbol(_) | Dim::Unknown)) => FeedAxis::Unknown,
                (None, _) => FeedAxis::None,
            }
        };
        let feeds = fixed.iter().map(|(input, _)| (*input, axis(*input)));
        let is_fixed = |binding: &&Binding| {
            let ty = &model.inputs()[binding.input_index].ty;
            let later = |dims: &[Dim]| {
                let first = usize::from(has_batch(dims).is_none());
                let mut axes = dims.iter().skip(first).filter(|dim| Some(*dim) != symbol);
                axes.all(|dim| dim.known().is_some())
            };
            dims(ty).is_some_and(later)
        };
        let recurrent = model.bindings().iter().find(is_fixed);
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
            feeds: feeds.collect(),
            declared: ids.and_then(Dim::known),
            columns: columns.and_then(Dim::known).filter(|columns| *columns > 0),
            recurrent: recurrent.map(|binding| Arc::clone(&binding.input)),
        }
    }

    /// Whether the model is declared for one row at a time.
    pub(super) fn is_single(&self) -> bool {
        self.declared == Some(1)
    }

    /// The tokens of a row that the model is declared to take at a time.
    pub(super) fn columns(&self) -> Option<usize> {
        self.columns
    }

    /// Whether a retained value has a fixed shape, in which padding may leave its traces.
    pub(super) fn is_recurrent(&self) -> bool {
        self.recurrent.is_some()
    }

    /// The axes of retained values; whatever else is fed does not matter.
    ///
    /// # Errors
    /// Why there are none.
    pub(super) fn axes(&self) -> Result<&BatchAxes, String> {
        self.axes.as_ref().map_err(String::clone)
    }

    /// What of the caller's feeds belongs to one row of `count`: views.
    ///
    /// # Errors
    /// When nothing tells.
    pub(super) fn feeds_of_row(
        &self,
        feeds: &[(usize, RuntimeValue)],
        row: usize,
        count: usize,
    ) -> Result<Vec<(usize, RuntimeValue)>, String> {
        let of_row = |(input, value): &(usize, RuntimeValue)| {
            let known = self.feeds.iter().find(|(fed, _)| fed == input);
            let axis = known.map_or(FeedAxis::Unknown, |(_, axis)| *axis);
            let part = match (axis, value.tensor()) {
                (FeedAxis::None, _) => Some(value.clone()),
                (FeedAxis::At(axis), Some(tensor)) => row_of(tensor, axis, row, count),
                _ => None,
            };
            let reason =
                "nothing tells which part of an input that is fed at every step belongs to a row";
            Ok((*input, part.ok_or_else(|| reason.to_string())?))
        };
        feeds.iter().map(of_row).collect()
    }

    /// The axes for something that needs them.
    ///
    /// # Errors
    /// When rows cannot be chosen.
    pub(super) fn need(&self, wanted: &'static str) -> Result<&BatchAxes, GenerationError> {
        let refuse = |reason: String| GenerationError::Rows { wanted, reason };
        // Rows may go only where no input but the loop's own has the batch among its axes.
        if self.feeds.iter().any(|(_, axis)| *axis != FeedAxis::None) {
            let reason = "an input that is fed at every step has a batch axis";
            return Err(refuse(reason.to_string()));
        }
        self.axes.as_ref().map_err(|reason| refuse(reason.clone()))
    }
}
