//! What happens to scores before the softmax, as one summand for the attention kernel.
//!
//! A mask that is added is that summand. Scores that a `Where` replaces are no sums, so there are two ways to take them:
//!
//! * The number that stands in for them absorbs every finite score: adding one changes no bit of it, as with minus
//!   infinity and with the lowest FLOAT. Then it is added.
//! * It is only low: -1e9, -1e4, the lowest FLOAT16. Then the kernel leaves those keys out, which is the same where the
//!   nodes would give each of them a weight of exactly 0. That is shown for each query by one key that it does see: the
//!   score of that key is not below `-(Σ |qᵢ kᵢ| · |scale| + |summand|)`, and what stands in lies so far below this that
//!   its exponential is 0. A query that sees no key at all weighs all alike in the nodes, so these run.
//!
//! Numbers of 16 bits round a score away when a mask of that size is added to it. Where a query sees other keys, those
//! behind a large mask have a weight of 0 in either form; where it does not, the nodes run.

use super::{Declined, RANK, Stop, one_number};
use crate::kernel::{Invocation, Slot};
use half::{bf16, f16};
use refeed_kernels::{Accumulator, Real};
use refeed_values::layout::broadcast_shape;
use refeed_values::{DType, Tensor, View};
use smallvec::SmallVec;

/// How far below all others a score is when its weight is 0 in every type: the exponential of a DOUBLE ends at -745.
const NOTHING_LEFT: f64 = 800.0;

/// Largest mask that leaves scores of 16 bits most of their digits.
const HALF_MASK_LIMIT: f64 = 16.0;

/// One thing that happens to scores before the softmax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) change: Change,
    /// Axes of the scores there: 4, or 3 when batch and heads are one.
    pub(crate) rank: usize,
}

/// A plan knows its values by slot, the kernel by input position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// This is added to them.
    Add(Slot),
    /// Where a condition holds, or does not hold, they stay; elsewhere they become one number.
    Fill {
        condition: Slot,
        fill: Slot,
        keeps: bool,
    },
}

/// Whether a number may leave nothing of a score that it stands in for.
pub(crate) fn is_low(fill: f64) -> bool {
    fill < -NOTHING_LEFT
}

/// Whether adding any finite score of the type, short of its own size, leaves every bit of a number.
fn absorbs(dtype: DType, number: f64) -> bool {
    match dtype {
        DType::Double => number <= -1e300,
        // The lowest number is no larger than products of others.
        DType::Float16 => number == f64::NEG_INFINITY,
        _ => number <= -1e37,
    }
}

fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::Float16 | DType::Bfloat16)
}

/// The scores of one call, `scale · query · keyᵀ`, before anything happens to them.
pub(super) struct Scores<'a, T> {
    /// `[batch, heads, length, size]`
    pub(super) query: View<'a, T>,
    /// `[batch, key/value heads, total, size]`
    pub(super) key: View<'a, T>,
    pub(super) scale: f64,
    /// `[batch, heads, length, total]`
    pub(super) shape: [usize; 4],
}

impl<T: Real> Scores<'_, T> {
    /// What is added to the scores, and the number of their axes where that happens; nothing when there is no mask.
    pub(super) fn summand(
        &self,
        call: &mut Invocation<'_>,
        steps: &[Step],
    ) -> Result<Option<(Tensor, usize)>, Stop> {
        match *steps {
            [] => return Ok(None),
            [
                Step {
                    change: Change::Add(slot),
                    rank,
                },
            ] => {
                let given = call.input(slot as usize).ok_or(Declined::Values)?;
                if given.dtype() == T::DTYPE {
                    let view = self.aligned(given.view::<T>()?, rank);
                    let view = view.ok_or(Declined::Mask)?;
                    self.check(&view, None)?;
                    return Ok(Some((given.clone(), rank)));
                }
            }
            _ => {}
        }
        let mut shapes: SmallVec<[SmallVec<[usize; 4]>; 4]> = SmallVec::new();
        for step in steps {
            shapes.push(match step.change {
                Change::Add(slot) => self.shape_of(call, slot, step.rank)?,
                Change::Fill { condition, .. } => {
                    let flags = self.flags(call, condition, step.rank)?;
                    SmallVec::from_slice(flags.shape())
                }
            });
        }
        let shapes = shapes.iter().map(|shape| &shape[..]);
        let shape = broadcast_shape(shapes).ok_or(Declined::Mask)?;
        let mut out = call.allocate(T::DTYPE, &shape)?;
        let mut sums = Sums {
            shape: &shape,
            all: out.as_mut_slice::<T>()?,
            ceiling: None,
        };
        sums.all.fill(T::default());
        for step in steps {
            match step.change {
                Change::Add(slot) => {
                    let given = call.input(slot as usize).ok_or(Declined::Values)?;
                    match given.dtype() {
                        DType::Float => sums.add::<f32>(self, given, step.rank),
                        DType::Double => sums.add::<f64>(self, given, step.rank),
                        DType::Float16 => sums.add::<f16>(self, given, step.rank),
                        DType::Bfloat16 => sums.add::<bf16>(self, given, step.rank),
                        _ => Err(Declined::Type.into()),
                    }?;
                }
                Change::Fill {
                    condition,
                    fill,
                    keeps,
                } => {
                    let number = call.input(fill as usize);
                    let number = number.filter(|number| number.rank() <= step.rank);
                    let number = number.and_then(one_number).ok_or(Declined::Fill)?;
                    let flags = self.flags(call, condition, step.rank)?;
                    sums.fill(&flags, number, keeps)?;
                }
            }
        }
        let ceiling = sums.ceiling;
        let out = out.freeze();
        match self.check(&out.view::<T>()?, ceiling) {
            Ok(()) => Ok(Some((out, RANK))),
            Err(why) => {
                call.recycle(out);
                Err(why.into())
            }
        }
    }

    /// Something that is combined with scores of `rank` axes, in the four axes of the scores; `None` when that would make
    /// them larger.
    pub(super) fn aligned<'m, D: Real>(
        &self,
        view: View<'m, D>,
        rank: usize,
    ) -> Option<View<'m, D>> {
        self.in_four_axes(view.shape(), rank)
            .and_then(|shape| view.reshape(&shape))
    }

    fn in_four_axes(&self, own: &[usize], rank: usize) -> Option<SmallVec<[usize; 4]>> {
        let [batch, heads, ..] = self.shape;
        let mut shape: SmallVec<[usize; 4]> = SmallVec::new();
        match *own {
            [merged, length, total] if rank == 3 => {
                let outer = match merged {
                    1 => [1, 1],
                    _ if merged == batch * heads => [batch, heads],
                    _ => return None,
                };
                shape.extend(outer);
                shape.extend([length, total]);
            }
            _ if own.len() <= rank => {
                shape.extend(std::iter::repeat_n(1, RANK - own.len()));
                shape.extend_from_slice(own);
            }
            _ => return None,
        }
        let fits = |(&own, wanted): (&usize, usize)| own == 1 || own == wanted;
        shape.iter().zip(self.shape).all(fits).then_some(shape)
    }

    fn shape_of(
        &self,
        call: &Invocation<'_>,
        slot: Slot,
        rank: usize,
    ) -> Result<SmallVec<[usize; 4]>, Stop> {
        let given = call.input(slot as usize).ok_or(Declined::Values)?;
        let shape = self.in_four_axes(given.shape(), rank);
        Ok(shape.ok_or(Declined::Mask)?)
    }

    fn flags<'c>(
        &self,
        call: &Invocation<'c>,
        condition: Slot,
        rank: usize,
    ) -> Result<View<'c, u8>, Stop> {
        let given = call.input(condition as usize).ok_or(Declined::Values)?;
        if given.dtype() != DType::Bool {
            return Err(Declined::Type.into());
        }
        let shape = self.in_four_axes(given.shape(), rank);
        let shape = shape.ok_or(Declined::Mask)?;
        let view = given.view::<u8>()?.reshape(&shape);
        Ok(view.ok_or(Declined::Mask)?)
    }

    /// Looks at the largest summand of each query: it must leave numbers of 16 bits their digits, and where others were
    /// replaced by numbers up to `ceiling`, nothing may be left of those.
    fn check(&self, summand: &View<'_, T>, ceiling: Option<f64>) -> Result<(), Declined> {
        let half = is_half(T::DTYPE);
        let &[batches, heads, lengths, _] = summand.shape() else {
            return Err(Declined::Mask);
        };
        if !half && ceiling.is_none() || self.shape.contains(&0) {
            return Ok(());
        }
        for (row, lane) in summand.lanes().enumerate() {
            let mut best = (0, f64::NEG_INFINITY);
            for (key, x) in lane.iter().enumerate() {
                let x = x.to_acc().to_f64();
                if x > best.1 {
                    best = (key, x);
                }
            }
            let (key, largest) = best;
            if largest == f64::NEG_INFINITY {
                match ceiling {
                    // All are minus infinity: the result shows it.
                    None => continue,
                    Some(_) => return Err(Declined::Unseen),
                }
            }
            if half && largest.abs() > HALF_MASK_LIMIT && !absorbs(T::DTYPE, largest) {
                return Err(Declined::Rounding);
            }
            let Some(ceiling) = ceiling else {
                continue;
            };
            let at = [
                (row / (lengths * heads), batches),
                (row / lengths % heads, heads),
                (row % lengths, lengths),
            ];
            let reach = self.reach(at, key).ok_or(Declined::Shapes)?;
            let floor = -2.0 * (reach + largest.abs()) - NOTHING_LEFT;
            if floor <= ceiling || floor.is_nan() {
                return Err(Declined::Fill);
            }
        }
        Ok(())
    }

    /// How far from 0 the score of a key may be, for all queries that one row of a summand is for: `at` has, of batch, heads
    /// and length, the index of the row and how many there are of it.
    fn reach(&self, at: [(usize, usize); 3], key: usize) -> Option<f64> {
        let span = |axis: usize| match at[axis] {
            (_, 1) => 0..self.shape[axis],
            (index, _) => index..index + 1,
        };
        let group = self.shape[1].checked_div(self.key.shape()[1])?;
        let mut reach = 0f64;
        for batch in span(0) {
            for head in span(1) {
                let keys = self.key.lane(&[batch, head.checked_div(group)?, key])?;
                for length in span(2) {
                    let query = self.query.lane(&[batch, head, length])?;
                    let products = query.iter().zip(keys.iter());
                    let sum: f64 = products
                        .map(|(q, k)| (q.to_acc().to_f64() * k.to_acc().to_f64()).abs())
                        .sum();
                    let one = sum * self.scale.abs();
                    // `max` would drop what is no number.
                    if one > reach || one.is_nan() {
                        reach = one;
                    }
                }
            }
        }
        Some(reach)
    }
}

/// A summand that is being made.
struct Sums<'s, T> {
    shape: &'s [usize],
    all: &'s mut [T],
    /// The largest number that stood in for a score whose key the kernel leaves out.
    ceiling: Option<f64>,
}

impl<T: Real> Sums<'_, T> {
    fn add<D: Real>(
        &mut self,
        scores: &Scores<'_, T>,
        given: &Tensor,
        rank: usize,
    ) -> Result<(), Stop> {
        let view = scores.aligned(given.view::<D>()?, rank);
        let view = view.and_then(|view| view.broadcast(self.shape));
        let view = view.ok_or(Declined::Mask)?;
        let (mut largest, mut lowered) = (0f64, f64::NEG_INFINITY);
        for (sum, x) in self.all.iter_mut().zip(view.iter()) {
            let wide = x.to_acc().to_f64();
            let mut near = <T::Acc as Accumulator>::from_f64(wide);
            if T::DTYPE != D::DTYPE {
                near = T::from_acc(near).to_acc();
                if near.to_f64() != wide && !wide.is_nan() {
                    // What is lower than any number of the type leaves nothing of a score.
                    if !absorbs(DType::Float, wide) {
                        return Err(Declined::Digits.into());
                    }
                    near = T::Acc::NEG_INFINITY;
                    lowered = lowered.max(wide);
                }
            }
            largest = largest.max(wide);
            *sum = T::from_acc(sum.to_acc() + near);
        }
        // What was replaced before gets the summand as well.
        self.ceiling = self.ceiling.map(|ceiling| ceiling + largest);
        self.lower(lowered);
        Ok(())
    }

    fn fill(&mut self, flags: &View<'_, u8>, number: f64, keeps: bool) -> Result<(), Stop> {
        let flags = flags.broadcast(self.shape).ok_or(Declined::Mask)?;
        let mut fill = T::from_acc(<T::Acc as Accumulator>::from_f64(number));
        if !absorbs(T::DTYPE, number) || fill.to_acc().to_f64() != number {
            if !is_low(number) {
                return Err(Declined::Fill.into());
            }
            fill = T::from_acc(T::Acc::NEG_INFINITY);
            self.lower(number);
        }
        for (sum, flag) in self.all.iter_mut().zip(flags.iter()) {
            if (flag != 0) != keeps {
                *sum = fill;
            }
        }
        Ok(())
    }

    fn lower(&mut self, number: f64) {
        if number > f64::NEG_INFINITY {
            self.ceiling = Some(self.ceiling.map_or(number, |held| held.max(number)));
        }
    }
}
