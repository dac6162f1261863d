//! Reductions over axes, and the sums and searches along one axis.
//!
//! Real numbers are summed in f64 (DOUBLE: pairwise, in f64 as well) and rounded once, so long FLOAT and FLOAT16 sums
//! are exact to the last place or nearly so. The order of every sum is fixed by the shape alone.

mod axis;
mod fold;

pub use axis::{ArgFn, CumSumFn, arg_max, cum_sum};

use crate::elementwise::{ElementwiseError, typed};
use fold::{BoolMax, BoolMin, Fold, Max, Mean, Min, Prod, Sum};
use refeed_values::{DType, Dims, Element, Tensor, TensorMut, View};

/// How the elements of reduced axes become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// Sum; integers wrap; 0 of nothing.
    Sum,
    /// Arithmetic mean; integers round toward zero; NaN of nothing.
    Mean,
    /// Largest element, NaN when there is one; the lowest value of the type of nothing.
    Max,
    /// Smallest element, NaN when there is one; the highest value of the type of nothing.
    Min,
    /// Product; integers wrap; 1 of nothing.
    Prod,
}

/// Reduces the axes whose flag is set (one flag an axis). The output has an element for each index of the other axes,
/// in row-major order; whether it keeps axes of extent 1 does not matter here.
pub type ReduceFn = fn(&Tensor, &[bool], &mut TensorMut) -> Result<(), ElementwiseError>;

/// The function for a reduction and element type, when there is one.
pub fn reduce(op: Reduction, dtype: DType) -> Option<ReduceFn> {
    macro_rules! table {
        ($fold:ident) => {{
            fn run<T: Element>(
                x: &Tensor,
                reduced: &[bool],
                out: &mut TensorMut,
            ) -> Result<(), ElementwiseError>
            where
                $fold<T>: Fold<Value = T>,
            {
                reduce_typed::<$fold<T>>(x, reduced, out)
            }
            typed!(numbers, dtype, run as ReduceFn)
        }};
    }
    match op {
        Reduction::Sum => table!(Sum),
        Reduction::Mean => table!(Mean),
        Reduction::Max if dtype == DType::Bool => Some(reduce_typed::<BoolMax>),
        Reduction::Min if dtype == DType::Bool => Some(reduce_typed::<BoolMin>),
        Reduction::Max => table!(Max),
        Reduction::Min => table!(Min),
        Reduction::Prod => table!(Prod),
    }
}

fn reduce_typed<F: Fold>(
    x: &Tensor,
    reduced: &[bool],
    out: &mut TensorMut,
) -> Result<(), ElementwiseError> {
    let x = x.view::<F::Value>()?;
    let out = out.as_mut_slice::<F::Value>()?;
    let mut kept = Dims::new();
    let mut count = 1usize;
    let mut left = 1usize;
    for (axis, &dim) in x.shape().iter().enumerate() {
        if reduced.get(axis) == Some(&true) {
            count *= dim;
        } else {
            left *= dim;
            kept.push(axis);
        }
    }
    let shape = || ElementwiseError::Shape {
        expected: vec![out.len()],
        got: x.shape().to_vec(),
    };
    if reduced.len() != x.rank() || left != out.len() {
        return Err(shape());
    }
    if out.is_empty() {
        return Ok(());
    }
    if count == 0 {
        out.fill(F::end(F::START, 0)?);
        return Ok(());
    }
    // Rows of a dense tensor: what norms, means and maxima of exported models are.
    let trailing = kept.iter().enumerate().all(|(place, &axis)| place == axis);
    if let (true, Some(all)) = (trailing, x.as_slice()) {
        for (row, slot) in all.chunks_exact(count).zip(out) {
            *slot = F::end(fold_slice::<F>(row), count)?;
        }
        return Ok(());
    }
    let mut order = kept.clone();
    let columns = kept.last() == Some(&(x.rank() - 1));
    if columns {
        order.pop();
    }
    let outer = order.len();
    order.extend((0..x.rank()).filter(|&axis| reduced[axis]));
    if columns {
        order.push(x.rank() - 1);
    }
    let x = x.permute(&order).ok_or_else(shape)?;
    outer_loop::<F>(&x, outer, columns, count, out)
}

/// Walks the first `outer` axes; below them, everything is reduced, or everything but the last axis (`columns`).
fn outer_loop<F: Fold>(
    x: &View<'_, F::Value>,
    outer: usize,
    columns: bool,
    count: usize,
    out: &mut [F::Value],
) -> Result<(), ElementwiseError> {
    if outer > 0 {
        let dim = x.shape()[0];
        let each = out.len() / dim;
        for (position, out) in out.chunks_exact_mut(each).enumerate() {
            // `position` is below `dim`, so the index is there.
            if let Some(x) = x.index(0, position) {
                outer_loop::<F>(&x, outer - 1, columns, count, out)?;
            }
        }
        return Ok(());
    }
    if columns {
        return fold_columns::<F>(x, count, out);
    }
    let mut sum = F::START;
    for lane in x.lanes() {
        sum = F::merge(
            sum,
            match lane.as_slice() {
                Some(lane) => fold_slice::<F>(lane),
                None => lane.iter().fold(F::START, F::push),
            },
        );
    }
    out[0] = F::end(sum, count)?;
    Ok(())
}

/// Reduces all axes but the last, some columns at a time, so that memory is read in order.
fn fold_columns<F: Fold>(
    x: &View<'_, F::Value>,
    count: usize,
    out: &mut [F::Value],
) -> Result<(), ElementwiseError> {
    const COLUMNS: usize = 64;
    let last = x.rank() - 1;
    for (block, out) in out.chunks_mut(COLUMNS).enumerate() {
        let mut sums = [F::START; COLUMNS];
        let sums = &mut sums[..out.len()];
        let Some(x) = x.slice(last, block * COLUMNS, out.len(), 1) else {
            continue;
        };
        for lane in x.lanes() {
            match lane.as_slice() {
                Some(lane) => {
                    sums.iter_mut()
                        .zip(lane)
                        .for_each(|(sum, &x)| *sum = F::push(*sum, x));
                }
                None => {
                    sums.iter_mut()
                        .zip(lane.iter())
                        .for_each(|(sum, x)| *sum = F::push(*sum, x));
                }
            }
        }
        for (slot, sum) in out.iter_mut().zip(sums) {
            *slot = F::end(*sum, count)?;
        }
    }
    Ok(())
}

/// Folds a run: eight running values, joined as a tree; long runs by halves.
fn fold_slice<F: Fold>(x: &[F::Value]) -> F::Running {
    const LANES: usize = 8;
    const LONG: usize = 4096;
    if x.len() > LONG {
        let (low, high) = x.split_at((x.len() / 2).next_multiple_of(LANES));
        return F::merge(fold_slice::<F>(low), fold_slice::<F>(high));
    }
    let mut running = [F::START; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for (sum, &x) in running.iter_mut().zip(chunk) {
            *sum = F::push(*sum, x);
        }
    }
    for (sum, &x) in running.iter_mut().zip(rest) {
        *sum = F::push(*sum, x);
    }
    let [a, b, c, d, e, f, g, h] = running;
    let (ae, bf, cg, dh) = (
        F::merge(a, e),
        F::merge(b, f),
        F::merge(c, g),
        F::merge(d, h),
    );
    F::merge(F::merge(ae, cg), F::merge(bf, dh))
}

#[cfg(test)]
mod tests;
