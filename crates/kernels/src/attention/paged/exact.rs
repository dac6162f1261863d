//! The definition, in f64 and element by element: for results that are not finite in f32.

use super::group::{At, Pages};
use super::{PagedError, PagedProblem};
use crate::attention::default_scale;
use crate::quantize::{Payload, QuantizeError};

/// Row `row` of a slice of a page.
fn read(
    pages: Pages<'_>,
    (group, index): At,
    field: &'static str,
    [slice, row]: [usize; 2],
    out: &mut [f32],
) -> Result<(), PagedError> {
    let which = 2 * index + usize::from(field == "value");
    let Some(value) = pages.0.get(group).and_then(|held| held.values.get(which)) else {
        return Ok(()); // the page was found
    };
    let mut read = || -> Result<(), QuantizeError> { Payload::of(value)?.row(slice, row, out) };
    read().map_err(|source| PagedError::Page {
        start: pages.get((group, index)).map_or(0, |page| page.start),
        field,
        source,
    })
}

/// As [`super::paged_attention`], whose extents were checked.
///
/// # Errors
/// When a visible row of a page is not finite or not within FLOAT.
pub(super) fn attention(
    problem: &PagedProblem<'_>,
    [heads, kv_heads]: [usize; 2],
    out: &mut [f32],
) -> Result<(), PagedError> {
    let (&[batch, _, length, size], &[_, _, _, width]) =
        (problem.query.shape(), problem.value.shape())
    else {
        return Ok(()); // checked
    };
    let pages = Pages(problem.pages);
    let (past, total) = (problem.past, problem.past + length);
    let scale = default_scale(size);
    let (mut key, mut value) = (vec![0f32; size], vec![0f32; width]);
    let mut sums = vec![0f64; width];
    for (at, out) in out.chunks_exact_mut(width.max(1)).enumerate() {
        let [b, head, i] = [at / length / heads, at / length % heads, at % length];
        debug_assert!(b < batch);
        let kv_head = head / (heads / kv_heads);
        let Some(query) = problem.query.lane(&[b, head, i]) else {
            continue; // the row is in range
        };
        let window = problem.left_window.and_then(|n| usize::try_from(n).ok());
        let low = window.map_or(0, |before| (past + i).saturating_sub(before));
        let high = if problem.causal { past + i + 1 } else { total };
        let (mut top, mut sum) = (f64::NEG_INFINITY, 0.0);
        sums.fill(0.0);
        for token in low..high {
            if token < past {
                let found = pages.find(token);
                let Some((at, page)) = found.and_then(|at| Some((at, pages.get(at)?))) else {
                    continue; // pages hold all visible tokens
                };
                let place = [b * kv_heads + kv_head, token - page.start];
                read(pages, at, "key", place, &mut key)?;
                read(pages, at, "value", place, &mut value)?;
            } else {
                for (view, row) in [(&problem.key, &mut key), (&problem.value, &mut value)] {
                    let lane = view.lane(&[b, kv_head, token - past]);
                    let numbers = lane.iter().flat_map(|lane| lane.iter());
                    row.iter_mut().zip(numbers).for_each(|(slot, x)| *slot = x);
                }
            }
            let products = query.iter().zip(&key);
            let score = scale
                * products
                    .map(|(a, b)| f64::from(a) * f64::from(*b))
                    .sum::<f64>();
            let next = top.max(score);
            let (kept, weight) = ((top - next).exp(), (score - next).exp());
            sum = sum * kept + weight;
            for (slot, x) in sums.iter_mut().zip(&value) {
                *slot = *slot * kept + weight * f64::from(*x);
            }
            top = next;
        }
        for (slot, x) in out.iter_mut().zip(&sums) {
            *slot = if sum == 0.0 { 0.0 } else { (x / sum) as f32 };
        }
    }
    Ok(())
}
