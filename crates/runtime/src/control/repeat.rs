//! `Loop`.

use super::Body;
use super::body::at_iteration;
use super::stack::{Stack, empty_stack};
use crate::kernel::{Invocation, Kernel, Kinds, OpError, one_flag};
use crate::plan::Plan;
use refeed_graph::types::TensorType;
use refeed_values::{DType, RuntimeValue, Tensor};
use smallvec::SmallVec;

/// Runs its body until the trip count is reached or the condition is false; without either, until it is interrupted.
///
/// Body inputs are the iteration, the condition and the states; its outputs the next condition, the next states, and
/// what each iteration gives to be stacked. States move from one iteration to the next as handles; they may be of any
/// kind, and of another shape each time. Source: the ONNX operator `Loop`.
pub(crate) struct Loop {
    pub(crate) body: Body,
    pub(crate) states: usize,
    /// Of each stacked output, what is known of one iteration's part.
    pub(crate) parts: Vec<TensorType>,
    /// Whether only the trip count ends it.
    pub(crate) never_ends: bool,
}

/// Whether a body hands a true condition on as it is, or gives a true one always.
pub(crate) fn never_ends(body: &Plan) -> bool {
    let (Some(&given), Some(&condition)) = (body.outputs.first(), body.inputs.get(1)) else {
        return false;
    };
    let mut slot = given;
    for step in body.steps.iter().rev() {
        if step.outputs.contains(&Some(slot)) {
            match (&*step.label.domain, &*step.label.op_type, &step.inputs[..]) {
                ("", "Identity", [Some(input)]) => slot = *input,
                _ => return false,
            }
        }
    }
    let preset = body.presets.iter().find(|(held, _)| *held == slot);
    let held = preset.and_then(|(_, value)| value.tensor());
    slot == condition || held.is_some_and(|held| one_flag(held).unwrap_or(false))
}

/// The trip count; a negative one is as good as 0.
fn trips(call: &Invocation<'_>) -> Result<Option<u64>, OpError> {
    if call.value(0).is_none() {
        return Ok(None);
    }
    match call.ints(0)?[..] {
        [count] => Ok(Some(u64::try_from(count).unwrap_or(0))),
        ref other => Err(OpError::Value {
            what: "trip count",
            expected: "one number".to_string(),
            got: format!("{} numbers", other.len()),
        }),
    }
}

fn scalar<T: refeed_values::Element>(
    call: &mut Invocation<'_>,
    dtype: DType,
    value: T,
) -> Result<Tensor, OpError> {
    let mut out = call.allocate(dtype, &[])?;
    out.as_mut_slice::<T>()?.fill(value);
    Ok(out.freeze())
}

impl Loop {
    fn stacks(&self, call: &Invocation<'_>, trips: Option<u64>) -> Vec<Option<Stack>> {
        let most = trips.map(|trips| usize::try_from(trips).unwrap_or(usize::MAX));
        let of = |index: usize| {
            call.wants(self.states + index).then(|| match most {
                Some(count) if self.never_ends => Stack::of(count),
                most => Stack::up_to(most),
            })
        };
        (0..self.parts.len()).map(of).collect()
    }
}

impl Kernel for Loop {
    fn reads(&self) -> Kinds {
        Kinds::Any
    }

    fn may_leave_empty(&self) -> bool {
        true
    }

    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let trips = trips(call)?;
        let mut condition = match call.value(1) {
            Some(_) => call.require(1)?.clone(),
            None => scalar(call, DType::Bool, 1u8)?,
        };
        let mut goes_on = one_flag(&condition)?;
        let mut states: SmallVec<[Option<RuntimeValue>; 4]> = (0..self.states)
            .map(|index| call.value(2 + index).cloned())
            .collect();
        let mut stacks = self.stacks(call, trips);
        self.body.with_frame(|frame| {
            let mut iteration = 0u64;
            while goes_on && trips.is_none_or(|trips| iteration < trips) {
                call.check_interrupt()?;
                let number = i64::try_from(iteration).unwrap_or(i64::MAX);
                let number = scalar(call, DType::Int64, number)?;
                frame.set(0, Some(number.into()));
                frame.set(1, Some(condition.clone().into()));
                for (index, state) in states.drain(..).enumerate() {
                    frame.set(2 + index, state);
                }
                frame.run(call).map_err(at_iteration(iteration))?;
                condition = match frame.output(0) {
                    Some(RuntimeValue::Tensor(given)) => given.clone(),
                    other => {
                        return Err(OpError::Value {
                            what: "condition of the body",
                            expected: "a tensor".to_string(),
                            got: other.map_or("nothing", RuntimeValue::kind).to_string(),
                        });
                    }
                };
                goes_on = one_flag(&condition)?;
                states.extend((0..self.states).map(|index| frame.output(1 + index).cloned()));
                for (index, stack) in stacks.iter_mut().enumerate() {
                    if let Some(stack) = stack {
                        stack.push(call, frame.output(1 + self.states + index))?;
                    }
                }
                frame.clear(call);
                iteration = iteration.saturating_add(1);
            }
            Ok(())
        })?;
        for (index, state) in states.into_iter().enumerate() {
            if let Some(state) = state {
                call.set(index, state);
            }
        }
        for (index, (stack, part)) in stacks.into_iter().zip(&self.parts).enumerate() {
            if let Some(stack) = stack {
                let out = match stack.finish(call)? {
                    Some(out) => out,
                    None => empty_stack(call, part, 0)?,
                };
                call.set(self.states + index, out);
            }
        }
        Ok(())
    }
}
