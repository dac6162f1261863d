//! Attention that a graph writes out in single nodes (`plan/recognize.rs` finds it), by the kernel that `Attention` uses.
//!
//! What the plan assumed of shapes is checked in each call, and so is the result: where the kernel and the nodes would
//! not agree to rounding, the nodes run as they are written.
//!
//! * Scores that a `Where` replaces are given to the kernel as a summand. That is the same when the number that stands in
//!   for them absorbs every finite score: minus infinity, or one so low that adding a score changes no bit.
//! * A softmax without one finite score gives NaN, the kernel gives zeros; so a row of zeros is looked at by the nodes,
//!   unless they turn NaN into 0 as well.
//! * A NaN or an infinity that reaches the result does so in ways of its own in either form. A key that the mask takes
//!   out with minus infinity is not read at all, whatever it holds.

use super::super::heads::split_rows;
use crate::control::Body;
use crate::kernel::{Invocation, Kernel, Kinds, OpError, Slot};
use crate::recognition::{Calls, Declined};
use crate::shapes::{Id, Numbers, Shapes};
use refeed_kernels::attention::{AttentionProblem, Mask, Visibility, attention};
use refeed_kernels::{Accumulator, Real};
use refeed_values::layout::broadcast_shape;
use refeed_values::{DType, Tensor, View};
use smallvec::SmallVec;
use std::sync::Arc;

/// Most axes of scores and what is combined with them.
const RANK: usize = 4;

/// One thing that happens to scores before the softmax. A plan knows its values by slot, the kernel by input position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MaskStep {
    /// This is added to them.
    Add(Slot),
    /// Where a condition holds, or does not hold, they stay; elsewhere they become one number.
    Fill {
        condition: Slot,
        fill: Slot,
        keeps: bool,
    },
}

/// Keys or values.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    pub(crate) input: usize,
    /// The axes of the input that are batch, heads, length and width.
    pub(crate) order: [usize; 4],
    /// How often each head is repeated.
    pub(crate) copies: Option<Id>,
}

/// The inputs of the step by their roles.
#[derive(Debug, Clone)]
pub(crate) struct RecognizedOperands {
    /// `[batch, heads, length, width]`
    pub(crate) query: usize,
    pub(crate) key: Cache,
    pub(crate) value: Cache,
    /// Numbers that multiply the scores, and whether they divide instead.
    pub(crate) factors: Vec<(usize, bool)>,
    pub(crate) mask: Vec<MaskStep>,
    /// Whether the nodes give zeros, too, when a query sees no key.
    pub(crate) zero_when_unseen: bool,
    pub(crate) shapes: Shapes,
}

/// The kernel, and the nodes for the calls in which they differ from it.
pub(crate) struct RecognizedAttention {
    operands: RecognizedOperands,
    written: Body,
    calls: Arc<Calls>,
}

/// Why the kernel does not answer a call.
enum Stop {
    Declined(Declined),
    Failed(OpError),
}

impl<E: Into<OpError>> From<E> for Stop {
    fn from(error: E) -> Stop {
        Stop::Failed(error.into())
    }
}

impl From<Declined> for Stop {
    fn from(why: Declined) -> Stop {
        Stop::Declined(why)
    }
}

/// A number so low that adding any finite score of the type, short of its own size, leaves every bit of it.
pub(crate) fn absorbs(dtype: DType, fill: f64) -> bool {
    let limit = match dtype {
        DType::Double => -1e300,
        _ => -1e37,
    };
    fill <= limit
}

impl RecognizedAttention {
    pub(crate) fn new(
        operands: RecognizedOperands,
        written: Body,
        calls: Arc<Calls>,
    ) -> RecognizedAttention {
        RecognizedAttention {
            operands,
            written,
            calls,
        }
    }

    fn answer(&self, call: &mut Invocation<'_>) -> Result<(), Stop> {
        match call.input(self.operands.query).map(Tensor::dtype) {
            Some(DType::Float) => self.typed::<f32>(call),
            Some(DType::Double) => self.typed::<f64>(call),
            Some(_) => Err(Declined::Type.into()),
            None => Err(Declined::Values.into()),
        }
    }

    fn typed<T: Real>(&self, call: &mut Invocation<'_>) -> Result<(), Stop>
    where
        f64: From<T::Acc>,
    {
        let operands = &self.operands;
        let numbers = operands.shapes.hold(call).ok_or(Declined::Shapes)?;
        let query = tensor::<T>(call, operands.query)?.view::<T>()?;
        let key = cache::<T>(call, &operands.key)?;
        let value = cache::<T>(call, &operands.value)?;
        let (&[batch, heads, length, size], &[b, kv_heads, total, s], &[vb, vh, vt, width]) =
            (query.shape(), key.shape(), value.shape())
        else {
            return Err(Declined::Shapes.into());
        };
        let repeated = |cache: &Cache, own: usize| repeated(&numbers, cache, own);
        let fits = [b, total, s, vb, vh, vt] == [batch, vt, size, batch, kv_heads, total]
            && [&operands.key, &operands.value]
                .into_iter()
                .all(|cache| [Some(heads), Some(1)].contains(&repeated(cache, kv_heads)));
        if !fits || kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            return Err(Declined::Shapes.into());
        }
        let mut scale = 1.0;
        for &(input, divides) in &operands.factors {
            let factor = number::<T>(call, input).ok_or(Declined::Factor)?;
            scale = if divides {
                scale / factor
            } else {
                scale * factor
            };
        }
        let scores = [batch, heads, length, total];
        let summand = self.summand::<T>(call, scores)?;
        let bias = match &summand {
            Some(tensor) => {
                let view = tensor.view::<T>()?;
                Mask::Float(view.broadcast(&scores).ok_or(Declined::Mask)?)
            }
            None => Mask::None,
        };
        let problem = AttentionProblem {
            query,
            key,
            value,
            scale,
            softcap: 0.0,
            visibility: Visibility {
                mask: bias,
                ..Visibility::default()
            },
        };
        let layout = split_rows([batch, heads, length], width)?;
        let mut out = call.allocate(T::DTYPE, &[batch, heads, length, width])?;
        attention(call.compute(), &problem, out.as_mut_slice::<T>()?, &layout)?;
        let doubt = self.doubt(out.as_mut_slice::<T>()?, width);
        if let Some(scratch) = summand {
            call.recycle(scratch);
        }
        let out = out.freeze();
        if let Some(why) = doubt {
            call.recycle(out);
            return Err(why.into());
        }
        call.set(0, out);
        Ok(())
    }

    /// What is added to the scores; nothing when there is no mask.
    fn summand<T: Real>(
        &self,
        call: &mut Invocation<'_>,
        scores: [usize; 4],
    ) -> Result<Option<Tensor>, Stop>
    where
        f64: From<T::Acc>,
    {
        let steps = &self.operands.mask;
        let mut shapes: SmallVec<[&[usize]; 4]> = SmallVec::new();
        for step in steps {
            match *step {
                MaskStep::Add(slot) => shapes.push(tensor::<T>(call, slot as usize)?.shape()),
                MaskStep::Fill { condition, .. } => {
                    let condition = call.input(condition as usize).ok_or(Declined::Values)?;
                    if condition.dtype() != DType::Bool {
                        return Err(Declined::Type.into());
                    }
                    shapes.push(condition.shape());
                }
            }
        }
        // A mask that is larger than the scores would make them larger.
        let fits = |shape: &&[usize]| {
            shape.len() <= RANK
                && shape
                    .iter()
                    .rev()
                    .zip(scores.iter().rev())
                    .all(|(own, wanted)| *own == 1 || own == wanted)
        };
        if !shapes.iter().all(fits) {
            return Err(Declined::Mask.into());
        }
        match steps[..] {
            [] => return Ok(None),
            [MaskStep::Add(slot)] => return Ok(call.input(slot as usize).cloned()),
            _ => {}
        }
        let shape = broadcast_shape(shapes.iter().copied()).ok_or(Declined::Mask)?;
        let mut out = call.allocate(T::DTYPE, &shape)?;
        let sums = out.as_mut_slice::<T>()?;
        sums.fill(T::default());
        for step in steps {
            match *step {
                MaskStep::Add(slot) => {
                    let view = tensor::<T>(call, slot as usize)?.view::<T>()?;
                    let view = view.broadcast(&shape).ok_or(Declined::Mask)?;
                    for (sum, x) in sums.iter_mut().zip(view.iter()) {
                        *sum = T::from_acc(sum.to_acc() + x.to_acc());
                    }
                }
                MaskStep::Fill {
                    condition,
                    fill,
                    keeps,
                } => {
                    let fill = number::<T>(call, fill as usize)
                        .filter(|&fill| absorbs(T::DTYPE, fill))
                        .ok_or(Declined::Fill)?;
                    let fill = T::from_acc(<T::Acc as Accumulator>::from_f64(fill));
                    let view: View<'_, u8> = call.view::<u8>(condition as usize)?;
                    let view = view.broadcast(&shape).ok_or(Declined::Mask)?;
                    for (sum, flag) in sums.iter_mut().zip(view.iter()) {
                        if (flag != 0) != keeps {
                            *sum = fill;
                        }
                    }
                }
            }
        }
        Ok(Some(out.freeze()))
    }

    /// Why the nodes must look at a result of rows of `width` elements.
    fn doubt<T: Real>(&self, out: &[T], width: usize) -> Option<Declined> {
        if out.iter().any(|x| !x.to_acc().is_finite()) {
            return Some(Declined::NotFinite);
        }
        let zero = |row: &[T]| row.iter().all(|x| x.to_acc() == T::Acc::ZERO);
        let unseen = !self.operands.zero_when_unseen && out.chunks_exact(width.max(1)).any(zero);
        unseen.then_some(Declined::Unseen)
    }

    /// Runs the nodes.
    fn as_written(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        self.written.with_frame(|frame| {
            frame.run(call)?;
            if let Some(value) = frame.output(0) {
                call.set(0, value.clone());
            }
            frame.clear(call);
            Ok(())
        })
    }
}

/// An operand of the type that is computed with.
fn tensor<'a, T: Real>(call: &Invocation<'a>, input: usize) -> Result<&'a Tensor, Stop> {
    let tensor = call.input(input).ok_or(Declined::Values)?;
    match tensor.dtype() == T::DTYPE {
        true => Ok(tensor),
        false => Err(Declined::Type.into()),
    }
}

/// The one number in a tensor that makes no scores larger.
fn number<T: Real>(call: &Invocation<'_>, input: usize) -> Option<f64>
where
    f64: From<T::Acc>,
{
    let tensor = call.input(input)?;
    let one = tensor.dtype() == T::DTYPE && tensor.elements() == 1 && tensor.rank() <= RANK;
    let element = one.then(|| tensor.view::<T>().ok()?.iter().next())??;
    Some(f64::from(element.to_acc()))
}

/// Keys or values as `[batch, heads, length, width]`.
fn cache<'a, T: Real>(call: &Invocation<'a>, cache: &Cache) -> Result<View<'a, T>, Stop> {
    let view = tensor::<T>(call, cache.input)?.view::<T>()?;
    if view.rank() != cache.order.len() {
        return Err(Declined::Shapes.into());
    }
    Ok(view.permute(&cache.order).ok_or(Declined::Shapes)?)
}

/// Heads of the product's operand: `own` ones, each repeated.
fn repeated(numbers: &Numbers, cache: &Cache, own: usize) -> Option<usize> {
    match cache.copies {
        None => Some(own),
        Some(id) => own.checked_mul(usize::try_from(numbers.get(id)?).ok()?),
    }
}

impl Kernel for RecognizedAttention {
    fn reads(&self) -> Kinds {
        Kinds::Any
    }

    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        call.check_interrupt()?;
        match self.answer(call) {
            Ok(()) => Ok(()),
            Err(Stop::Failed(error)) => Err(error),
            Err(Stop::Declined(why)) => {
                self.calls.note(why);
                self.as_written(call)
            }
        }
    }
}
