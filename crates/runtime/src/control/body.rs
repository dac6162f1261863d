//! A nested graph, compiled: its plan, the outer values that it reads, and frames for its runs.

use crate::append::Appends;
use crate::execute::{Environment, execute};
use crate::kernel::{Invocation, OpError, Slot};
use crate::plan::Plan;
use refeed_values::RuntimeValue;
use std::sync::{Mutex, PoisonError};

/// A nested graph that its node may run any number of times.
pub(crate) struct Body {
    plan: Plan,
    /// Input position of the node's step, and the slot of the body that it fills.
    captures: Vec<(usize, Slot)>,
    /// Whether nodes of it, or of graphs within it, append to retained values.
    appends: bool,
    /// Frames that earlier runs left for reuse.
    spare: Mutex<Vec<Vec<Option<RuntimeValue>>>>,
}

impl Body {
    /// A nested graph in which nobody appends.
    pub(crate) fn new(plan: Plan, captures: Vec<(usize, Slot)>) -> Body {
        Body::appending(plan, captures, false)
    }

    /// A nested graph, and whether nodes of it, or of graphs within it, append to retained values.
    pub(crate) fn appending(plan: Plan, captures: Vec<(usize, Slot)>, appends: bool) -> Body {
        Body {
            appends,
            plan,
            captures,
            spare: Mutex::default(),
        }
    }

    /// Gives `run` a frame, and keeps it for the next time. A frame in which something failed starts afresh.
    pub(crate) fn with_frame<R>(
        &self,
        run: impl FnOnce(&mut Frame<'_>) -> Result<R, OpError>,
    ) -> Result<R, OpError> {
        let spare = self
            .spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let mut frame = Frame {
            body: self,
            slots: spare.unwrap_or_else(|| self.plan.frame()),
        };
        let result = run(&mut frame);
        if result.is_err() {
            self.plan.reset(&mut frame.slots);
        }
        self.spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(frame.slots);
        result
    }
}

/// The slots of one run of a body after the other: set the inputs, run, read the outputs, clear.
pub(crate) struct Frame<'b> {
    body: &'b Body,
    slots: Vec<Option<RuntimeValue>>,
}

impl Frame<'_> {
    /// Sets an input by position; `None` is an empty optional value.
    pub(crate) fn set(&mut self, position: usize, value: Option<RuntimeValue>) {
        if let Some(&slot) = self.body.plan.inputs.get(position) {
            self.slots[slot as usize] = value;
        }
    }

    /// Runs the body once.
    ///
    /// # Errors
    /// When a node of the body fails.
    pub(crate) fn run(&mut self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        for &(input, slot) in &self.body.captures {
            self.slots[slot as usize] = call.value(input).cloned();
        }
        let compute = call.compute();
        let mut none = Appends::default();
        let mut environment = Environment {
            pool: call.pool,
            compute,
            appends: match self.body.appends {
                true => call.appends,
                false => &mut none,
            },
            meter: call.meter,
            interrupt: call.interrupt,
            kept: None,
        };
        execute(&self.body.plan, &mut self.slots, &mut environment).map_err(OpError::Nested)
    }

    /// An output by position; `None` when it is an empty optional value.
    pub(crate) fn output(&self, position: usize) -> Option<&RuntimeValue> {
        let slot = *self.body.plan.outputs.get(position)?;
        self.slots[slot as usize].as_ref()
    }

    /// Lets go of what a run left behind, so that its memory serves the next one.
    pub(crate) fn clear(&mut self, call: &mut Invocation<'_>) {
        for &slot in &self.body.plan.leftover {
            if let Some(RuntimeValue::Tensor(tensor)) = self.slots[slot as usize].take() {
                call.recycle(tensor);
            }
        }
    }
}

/// The error of a body's node, with the iteration in which it happened.
pub(crate) fn at_iteration(number: u64) -> impl FnOnce(OpError) -> OpError {
    move |error| match error {
        OpError::Nested(source) => OpError::Iteration { number, source },
        other => other,
    }
}
