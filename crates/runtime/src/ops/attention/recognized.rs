//! Attention that a graph writes out in single nodes (`plan/recognize.rs` finds it), by the kernel that `Attention` uses.
//!
//! What the plan assumed of shapes is checked in each call, and so is the result: where the kernel and the nodes would
//! not agree to rounding, the nodes run as they are written.
//!
//! * Scores that a `Where` replaces, and masks that are added, are given to the kernel as one summand (`mask.rs` has the
//!   argument for it).
//! * A softmax without one finite score gives NaN, the kernel gives zeros; so a row of zeros is looked at by the nodes,
//!   unless they turn NaN into 0 as well.
//! * A NaN or an infinity that reaches the result does so in ways of its own in either form. A key that the mask takes
//!   out with minus infinity is not read at all, whatever it holds.
//! * Numbers of 16 bits are rounded once, at the end; the nodes round each time, and may overflow on the way.

mod mask;

pub(crate) use mask::{Change as MaskChange, Step as MaskStep, is_low};

use super::super::heads::split_rows;
use crate::control::Body;
use crate::kernel::{Invocation, Kernel, Kinds, OpError};
use crate::recognition::{Calls, Declined};
use crate::shapes::{Id, Numbers, Shapes};
use half::{bf16, f16};
use refeed_kernels::attention::{AttentionProblem, Mask, Visibility, attention};
use refeed_kernels::{Accumulator, Real};
use refeed_values::{DType, Tensor, View};
use smallvec::SmallVec;
use std::sync::Arc;

/// Most axes of scores and what is combined with them.
const RANK: usize = 4;

/// Keys or values.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    pub(crate) input: usize,
    /// The axes of the input that are batch, heads, length and width; the first two may be one axis.
    pub(crate) order: SmallVec<[usize; 4]>,
    /// How often each head is repeated.
    pub(crate) copies: Option<Id>,
}

/// The inputs of the step by their roles.
#[derive(Debug, Clone)]
pub(crate) struct RecognizedOperands {
    /// `[batch, heads, length, width]`, or `[batch · heads, length, width]`
    pub(crate) query: usize,
    /// Axes of the query and of the result.
    pub(crate) rank: usize,
    pub(crate) key: Cache,
    pub(crate) value: Cache,
    /// Numbers that multiply the scores, and whether they divide instead.
    pub(crate) factors: Vec<(usize, bool)>,
    pub(crate) mask: Vec<MaskStep>,
    /// What each `Reshape` on the way asks for: the scores again, batch and heads as one axis or as two.
    pub(crate) views: Vec<Vec<Id>>,
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

/// Whether a type has every number of another.
pub(crate) fn holds(dtype: DType, other: DType) -> bool {
    match other {
        DType::Float16 | DType::Bfloat16 => {
            dtype == other || [DType::Float, DType::Double].contains(&dtype)
        }
        DType::Float => [DType::Float, DType::Double].contains(&dtype),
        other => dtype == other && dtype == DType::Double,
    }
}

/// The one number in a tensor.
pub(crate) fn one_number(tensor: &Tensor) -> Option<f64> {
    fn first<T: Real>(tensor: &Tensor) -> Option<f64> {
        Some(tensor.view::<T>().ok()?.iter().next()?.to_acc().to_f64())
    }
    if tensor.elements() != 1 || tensor.rank() > RANK {
        return None;
    }
    match tensor.dtype() {
        DType::Float => first::<f32>(tensor),
        DType::Double => first::<f64>(tensor),
        DType::Float16 => first::<f16>(tensor),
        DType::Bfloat16 => first::<bf16>(tensor),
        _ => None,
    }
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
            Some(DType::Float16) => self.typed::<f16>(call),
            Some(DType::Bfloat16) => self.typed::<bf16>(call),
            Some(_) => Err(Declined::Type.into()),
            None => Err(Declined::Values.into()),
        }
    }

    fn typed<T: Real>(&self, call: &mut Invocation<'_>) -> Result<(), Stop> {
        let operands = &self.operands;
        let numbers = operands.shapes.hold(call).ok_or(Declined::Shapes)?;
        let query = tensor::<T>(call, operands.query)?.view::<T>()?;
        let key = cache::<T>(call, &operands.key)?;
        let value = cache::<T>(call, &operands.value)?;
        let outer = self.outer(&query, &key, &numbers).ok_or(Declined::Shapes)?;
        let [query, key, value] = [query, key, value].map(|view| in_four_axes(view, outer));
        let (Some(query), Some(key), Some(value)) = (query, key, value) else {
            return Err(Declined::Shapes.into());
        };
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
        let shape = [batch, heads, length, total];
        if !fits
            || kv_heads == 0
            || !heads.is_multiple_of(kv_heads)
            || !self.views_are(shape, &numbers)
        {
            return Err(Declined::Shapes.into());
        }
        let mut scale = 1.0;
        for &(input, divides) in &operands.factors {
            // One of more axes than the scores would make them larger.
            let tensor = call.input(input).filter(|one| one.rank() <= operands.rank);
            let factor = tensor.and_then(one_number).ok_or(Declined::Factor)?;
            scale = if divides {
                scale / factor
            } else {
                scale * factor
            };
        }
        let scores = mask::Scores {
            query: query.clone(),
            key: key.clone(),
            scale,
            shape,
        };
        let summand = scores.summand(call, &operands.mask)?;
        let bias = match &summand {
            Some((tensor, rank)) => {
                let view = scores.aligned(tensor.view::<T>()?, *rank);
                let view = view.and_then(|view| view.broadcast(&shape));
                Mask::Float(view.ok_or(Declined::Mask)?)
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
        let mut out = match operands.rank {
            4 => call.allocate(T::DTYPE, &[batch, heads, length, width])?,
            _ => call.allocate(T::DTYPE, &[batch * heads, length, width])?,
        };
        attention(call.compute(), &problem, out.as_mut_slice::<T>()?, &layout)?;
        let doubt = self.doubt(out.as_mut_slice::<T>()?, width);
        if let Some((scratch, _)) = summand {
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

    /// Batch and heads of the query: its own axes, or what the cache or a `Reshape` of the scores makes of the one that
    /// they are. Each matrix of three axes is a batch of its own when nobody needs to know.
    fn outer<T: Real>(
        &self,
        query: &View<'_, T>,
        key: &View<'_, T>,
        numbers: &Numbers,
    ) -> Option<[usize; 2]> {
        if query.rank() != self.operands.rank {
            return None;
        }
        let (&first, rest) = query.shape().split_first()?;
        if let [heads, _, _] = *rest {
            return Some([first, heads]);
        }
        let extent = |id: Id| usize::try_from(numbers.get(id)?).ok();
        let view = self.operands.views.iter().find(|view| view.len() == RANK);
        let batch = match (key.rank(), view) {
            (RANK, _) => key.shape()[0],
            (_, Some(view)) => match extent(view[0]) {
                Some(batch) => batch,
                None => first.checked_div(extent(view[1])?)?,
            },
            (_, None) => first,
        };
        let heads = first.checked_div(batch)?;
        (heads.checked_mul(batch)? == first).then_some([batch, heads])
    }

    /// Whether each `Reshape` on the way gives back the scores, of this shape.
    fn views_are(&self, shape: [usize; 4], numbers: &Numbers) -> bool {
        let [batch, heads, length, total] = shape;
        self.operands.views.iter().all(|view| {
            let merged = [batch * heads, length, total];
            let wanted: &[usize] = if view.len() == RANK { &shape } else { &merged };
            let mut inferred = false;
            view.iter().zip(wanted).all(|(&id, &extent)| {
                // An extent of 0 would be read as that of the operand at the same place.
                match numbers.get(id) {
                    Some(-1) => !std::mem::replace(&mut inferred, true),
                    Some(number) => number > 0 && usize::try_from(number) == Ok(extent),
                    None => false,
                }
            })
        })
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

/// Keys or values as `[batch, heads, length, width]`, or with the first two as one axis.
fn cache<'a, T: Real>(call: &Invocation<'a>, cache: &Cache) -> Result<View<'a, T>, Stop> {
    let view = tensor::<T>(call, cache.input)?.view::<T>()?;
    if view.rank() != cache.order.len() {
        return Err(Declined::Shapes.into());
    }
    Ok(view.permute(&cache.order).ok_or(Declined::Shapes)?)
}

/// `[batch, heads, length, width]` of an operand in which the first two may be one axis.
fn in_four_axes<'a, T: Real>(view: View<'a, T>, [batch, heads]: [usize; 2]) -> Option<View<'a, T>> {
    match *view.shape() {
        [_, length, width] => view.reshape(&[batch, heads, length, width]),
        _ => Some(view),
    }
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
