//! `Scan`.

use super::Body;
use super::body::{Frame, at_iteration};
use super::stack::{Stack, empty_stack};
use crate::kernel::{Invocation, Kernel, Kinds, OpError};
use crate::ops::position_of;
use refeed_graph::ops::layout::axis_of;
use refeed_graph::types::TensorType;
use refeed_values::layout::{Dims, Layout};
use refeed_values::{RuntimeValue, Tensor};
use smallvec::SmallVec;

/// How one tensor is gone through, or put together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scanned {
    /// May count from the end.
    pub(crate) axis: i64,
    /// From the last position to the first.
    pub(crate) backwards: bool,
}

impl Scanned {
    fn place(self, iteration: usize, length: usize) -> usize {
        match self.backwards {
            true => length - 1 - iteration,
            false => iteration,
        }
    }
}

/// Runs its body for each position along an axis of some tensors; states go from one iteration to the next.
///
/// Slices are views, and what the iterations give is written once, into its place. Source: the ONNX operator `Scan`
/// since opset 9.
pub(crate) struct Scan {
    pub(crate) body: Body,
    pub(crate) states: usize,
    pub(crate) inputs: Vec<Scanned>,
    pub(crate) outputs: Vec<Scanned>,
    /// Of each stacked output, what is known of one iteration's part.
    pub(crate) parts: Vec<TensorType>,
}

type States = SmallVec<[Option<RuntimeValue>; 4]>;

impl Scan {
    /// The extent that the scanned axes have, with those axes.
    fn length(&self, tensors: &[Tensor], behind: usize) -> Result<(usize, Dims), OpError> {
        let mut length = None;
        let mut axes = Dims::new();
        for (index, (tensor, scanned)) in tensors.iter().zip(&self.inputs).enumerate() {
            let axis = axis_of(scanned.axis, tensor.rank().saturating_sub(behind));
            let axis = axis.map_err(|error| OpError::Shape(error.to_string()))? + behind;
            axes.push(axis);
            let own = tensor.shape()[axis];
            if *length.get_or_insert(own) != own {
                return Err(OpError::Shape(format!(
                    "scanned input {index} of shape {:?} has {own} positions along axis {axis}, others have {}",
                    tensor.shape(),
                    length.unwrap_or(0)
                )));
            }
        }
        Ok((length.unwrap_or(0), axes))
    }

    /// The iterations. Their parts stand in the stacks from `first_row` on.
    #[allow(clippy::too_many_arguments)]
    fn pass(
        &self,
        call: &mut Invocation<'_>,
        frame: &mut Frame<'_>,
        states: &mut States,
        tensors: &[Tensor],
        axes: &[usize],
        length: usize,
        stacks: &mut [Option<Stack>],
        first_row: usize,
    ) -> Result<(), OpError> {
        for iteration in 0..length {
            call.check_interrupt()?;
            for (index, state) in states.drain(..).enumerate() {
                frame.set(index, state);
            }
            for (index, (tensor, &axis)) in tensors.iter().zip(axes).enumerate() {
                let at = self.inputs[index].place(iteration, length);
                let slice = position_of(tensor, axis, at)?;
                frame.set(self.states + index, Some(slice.into()));
            }
            frame.run(call).map_err(at_iteration(iteration as u64))?;
            states.extend((0..self.states).map(|index| frame.output(index).cloned()));
            for (index, stack) in stacks.iter_mut().enumerate() {
                if let Some(stack) = stack {
                    let row = first_row + self.outputs[index].place(iteration, length);
                    stack.put(call, row, frame.output(self.states + index))?;
                }
            }
            frame.clear(call);
        }
        Ok(())
    }

    fn stacks(&self, call: &Invocation<'_>, height: usize) -> Vec<Option<Stack>> {
        let wanted = |index: usize| call.wants(self.states + index);
        let stack = |index| wanted(index).then(|| Stack::of(height));
        (0..self.outputs.len()).map(stack).collect()
    }

    fn scanned(&self, call: &Invocation<'_>, skipped: usize) -> Result<Vec<Tensor>, OpError> {
        let first = skipped + self.states;
        let of = |index| call.require(first + index).cloned();
        (0..self.inputs.len()).map(of).collect()
    }
}

impl Kernel for Scan {
    fn reads(&self) -> Kinds {
        Kinds::Any
    }

    fn may_leave_empty(&self) -> bool {
        true
    }

    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let tensors = self.scanned(call, 0)?;
        let (length, axes) = self.length(&tensors, 0)?;
        let mut states: States = (0..self.states)
            .map(|index| call.value(index).cloned())
            .collect();
        let mut stacks = self.stacks(call, length);
        self.body.with_frame(|frame| {
            self.pass(
                call,
                frame,
                &mut states,
                &tensors,
                &axes,
                length,
                &mut stacks,
                0,
            )
        })?;
        for (index, state) in states.into_iter().enumerate() {
            if let Some(state) = state {
                call.set(index, state);
            }
        }
        for (index, stack) in stacks.into_iter().enumerate() {
            let Some(stack) = stack else { continue };
            let out = match stack.finish(call)? {
                Some(out) => out,
                None => empty_stack(call, &self.parts[index], 0)?,
            };
            let out = moved_first(&out, self.outputs[index].axis)?;
            call.set(self.states + index, out);
        }
        Ok(())
    }
}

/// The view whose axis 0 stands at `axis`.
fn moved_first(stacked: &Tensor, axis: i64) -> Result<Tensor, OpError> {
    let refused = |text: String| OpError::Shape(text);
    let axis = axis_of(axis, stacked.rank()).map_err(|error| refused(error.to_string()))?;
    if axis == 0 {
        return Ok(stacked.clone());
    }
    let mut order: Dims = (1..stacked.rank()).collect();
    order.insert(axis, 0);
    let layout = stacked.layout().permute(&order);
    let layout = layout.ok_or_else(|| refused(format!("{order:?} is no order of the axes")))?;
    Ok(stacked.with_layout(layout, 0)?)
}

/// `Scan` of opset 8: every input begins with a batch axis, and each entry of the batch has a length of its own. What
/// lies behind the length of an entry is zero.
pub(crate) struct BatchedScan(pub(crate) Scan);

impl BatchedScan {
    /// The length of each entry of a batch.
    fn lengths(call: &Invocation<'_>, batch: usize, longest: usize) -> Result<Dims, OpError> {
        if call.value(0).is_none() {
            return Ok(Dims::from_elem(longest, batch));
        }
        let given = call.ints(0)?;
        let fits = |&length: &i64| usize::try_from(length).ok().filter(|&n| n <= longest);
        let lengths: Option<Dims> = given.iter().map(fits).collect();
        let lengths = lengths.filter(|lengths| lengths.len() == batch);
        lengths.ok_or_else(|| OpError::Value {
            what: "sequence_lens",
            expected: format!("{batch} numbers from 0 to {longest}"),
            got: format!("{given:?}"),
        })
    }
}

impl Kernel for BatchedScan {
    fn reads(&self) -> Kinds {
        Kinds::Any
    }

    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let scan = &self.0;
        let tensors = scan.scanned(call, 1)?;
        let (longest, _) = scan.length(&tensors, 1)?;
        let first: Result<Vec<&Tensor>, OpError> = (0..scan.states)
            .map(|index| call.require(1 + index))
            .collect();
        let first = first?;
        let sizes = first.iter().copied().chain(&tensors);
        let mut sizes = sizes.map(|tensor| tensor.shape().first().copied());
        let batch = sizes.next().flatten().unwrap_or(0);
        if sizes.any(|size| size != Some(batch)) {
            return Err(OpError::Shape(format!(
                "expected {batch} entries along axis 0 of every input"
            )));
        }
        let lengths = Self::lengths(call, batch, longest)?;
        let rows = batch.checked_mul(longest).ok_or_else(|| {
            OpError::Shape(format!("{batch} times {longest} positions are too many"))
        })?;
        let mut stacks = scan.stacks(call, rows);
        let mut last: Vec<Stack> = (0..scan.states).map(|_| Stack::of(batch)).collect();
        scan.body.with_frame(|frame| {
            for (entry, &length) in lengths.iter().enumerate() {
                let own = |tensor: &Tensor| position_of(tensor, 0, entry);
                let mut states = States::new();
                for state in &first {
                    states.push(Some(own(state)?.into()));
                }
                let slices: Result<Vec<Tensor>, OpError> = tensors.iter().map(own).collect();
                let slices = slices?;
                let axes = Dims::from_elem(0, slices.len());
                scan.pass(
                    call,
                    frame,
                    &mut states,
                    &slices,
                    &axes,
                    length,
                    &mut stacks,
                    entry * longest,
                )?;
                for (stack, state) in last.iter_mut().zip(&states) {
                    stack.put(call, entry, state.as_ref())?;
                }
            }
            Ok(())
        })?;
        for (index, stack) in last.into_iter().enumerate() {
            let out = match stack.finish(call)? {
                Some(out) => out,
                None => first[index].clone(),
            };
            call.set(index, out);
        }
        for (index, stack) in stacks.into_iter().enumerate() {
            let Some(stack) = stack else { continue };
            let out = match stack.finish(call)? {
                Some(out) => out,
                None => empty_stack(call, &scan.parts[index], rows)?,
            };
            let mut shape = Dims::from_slice(&[batch, longest]);
            shape.extend_from_slice(&out.shape()[1..]);
            let out = out.with_layout(Layout::contiguous(&shape), 0)?;
            call.set(scan.states + index, out);
        }
        Ok(())
    }
}
