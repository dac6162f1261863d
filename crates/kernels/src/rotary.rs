//! Rotary position embedding.

use crate::pool::RowLayout;
use crate::storage::Real;
use crate::{Compute, KernelError};
use refeed_values::View;

/// Where the angles of a position come from. Each row of a table has `rotary_dim / 2` values.
#[derive(Debug, Clone)]
pub enum RotaryTable<'a, T: Real> {
    /// One row for each token: `[batch or 1, length, rotary_dim / 2]`.
    Gathered {
        /// Cosines.
        cos: View<'a, T>,
        /// Sines.
        sin: View<'a, T>,
    },
    /// One row for each position `[positions, rotary_dim / 2]`, and the position of each token.
    Cached {
        /// Cosines.
        cos: View<'a, T>,
        /// Sines.
        sin: View<'a, T>,
        /// Positions, `[batch or 1, length]`.
        positions: View<'a, i64>,
    },
}

/// A rotary embedding and its operands.
#[derive(Debug, Clone)]
pub struct RotaryProblem<'a, T: Real> {
    /// Input `[batch, heads, length, head_size]`, any strides; a `[batch, length, heads * head_size]` tensor comes in as
    /// its permuted view.
    pub x: View<'a, T>,
    /// Angles.
    pub table: RotaryTable<'a, T>,
    /// Whether pairs are neighbours (`x[2i], x[2i + 1]`) or halves apart (`x[i], x[i + rotary_dim / 2]`).
    pub interleaved: bool,
    /// Leading elements of a head that turn, an even number; the others pass through.
    pub rotary_dim: usize,
}

/// Turns each pair `(a, b)` to `(a cos - b sin, a sin + b cos)`. `out` holds a row of `head_size` elements for each
/// `[batch, head, position]`, placed by `layout`.
///
/// Source: <https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html>
///
/// # Errors
/// When shapes do not fit, `rotary_dim` is odd or larger than a head, a position has no row in the table, or the rows
/// of `out` overlap or leave it.
pub fn rotary<T: Real>(
    compute: &Compute<'_>,
    problem: &RotaryProblem<'_, T>,
    out: &mut [T],
    layout: &RowLayout,
) -> Result<(), KernelError> {
    let &[batch, heads, length, size] = problem.x.shape() else {
        return Err(KernelError::Rank {
            operand: "rotary input",
            expected: "4 axes",
            got: problem.x.rank(),
        });
    };
    let turned = problem.rotary_dim;
    if !turned.is_multiple_of(2) {
        return Err(KernelError::Odd {
            parameter: "rotary_dim",
            got: turned,
        });
    }
    if turned > size {
        return Err(KernelError::Range {
            parameter: "rotary_dim",
            got: i64::try_from(turned).unwrap_or(i64::MAX),
            low: 0,
            high: i64::try_from(size).unwrap_or(i64::MAX),
        });
    }
    if layout.shape != [batch, heads, length] || layout.len != size {
        let [b, h, s] = layout.shape;
        return Err(KernelError::shape(
            "rotary output",
            problem.x.shape(),
            &[b, h, s, layout.len],
        ));
    }
    let angles = Angles::new(&problem.table, batch, length, turned / 2)?;
    let parallel = compute.parallel(2 * problem.x.len());
    let ran = compute
        .pool
        .rows(out, layout, length, 64, parallel, |mut rows| {
            let (b, h) = (rows.line / heads, rows.line % heads);
            for i in 0..rows.count {
                let s = rows.first + i;
                let (Some(x), Some((cos, sin))) = (problem.x.lane(&[b, h, s]), angles.at(b, s))
                else {
                    continue; // all indices were checked
                };
                let out = rows.row(i);
                for pair in 0..turned / 2 {
                    let (left, right) = if problem.interleaved {
                        (2 * pair, 2 * pair + 1)
                    } else {
                        (pair, pair + turned / 2)
                    };
                    let value = |at: usize| x.get(at).unwrap_or_default().to_acc();
                    let c = cos.get(pair).unwrap_or_default().to_acc();
                    let n = sin.get(pair).unwrap_or_default().to_acc();
                    let (p, q) = (value(left), value(right));
                    out[left] = T::from_acc(p * c - q * n);
                    out[right] = T::from_acc(p * n + q * c);
                }
                for (slot, x) in out.iter_mut().zip(x.iter()).skip(turned) {
                    *slot = x;
                }
            }
        });
    if !ran {
        return Err(KernelError::Length {
            operand: "rotary output",
            expected: problem.x.len(),
            got: out.len(),
        });
    }
    Ok(())
}

/// A table checked against the input.
enum Angles<'a, T> {
    Gathered(View<'a, T>, View<'a, T>),
    Cached(View<'a, T>, View<'a, T>, View<'a, i64>),
}

type Row<'a, T> = refeed_values::Lane<'a, T>;

impl<'a, T: Real> Angles<'a, T> {
    fn new(
        table: &RotaryTable<'a, T>,
        batch: usize,
        length: usize,
        half: usize,
    ) -> Result<Self, KernelError> {
        match table {
            RotaryTable::Gathered { cos, sin } => {
                let full = [batch, length, half];
                let wide = |operand, view: &View<'a, T>| -> Result<View<'a, T>, KernelError> {
                    view.broadcast(&full)
                        .filter(|_| view.rank() == 3)
                        .ok_or_else(|| KernelError::shape(operand, &full, view.shape()))
                };
                Ok(Angles::Gathered(
                    wide("cosine table", cos)?,
                    wide("sine table", sin)?,
                ))
            }
            RotaryTable::Cached {
                cos,
                sin,
                positions,
            } => {
                let count = cos.shape().first().copied().unwrap_or(0);
                for (operand, view) in [("cosine table", cos), ("sine table", sin)] {
                    if view.shape() != [count, half] {
                        return Err(KernelError::shape(operand, &[count, half], view.shape()));
                    }
                }
                let full = [batch, length];
                let wide = positions
                    .broadcast(&full)
                    .filter(|_| positions.rank() == 2)
                    .ok_or_else(|| KernelError::shape("position ids", &full, positions.shape()))?;
                for position in positions.iter() {
                    if usize::try_from(position).map_or(true, |p| p >= count) {
                        return Err(KernelError::Range {
                            parameter: "position id",
                            got: position,
                            low: 0,
                            high: count as i64 - 1,
                        });
                    }
                }
                Ok(Angles::Cached(cos.clone(), sin.clone(), wide))
            }
        }
    }

    fn at(&self, batch: usize, token: usize) -> Option<(Row<'a, T>, Row<'a, T>)> {
        match self {
            Angles::Gathered(cos, sin) => {
                Some((cos.lane(&[batch, token])?, sin.lane(&[batch, token])?))
            }
            Angles::Cached(cos, sin, positions) => {
                let row = usize::try_from(positions.get(&[batch, token])?).ok()?;
                Some((cos.lane(&[row])?, sin.lane(&[row])?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POSITIONS: usize = 11;

    fn tables(half: usize) -> (Vec<f32>, Vec<f32>) {
        let angle = |i: usize| (i / half.max(1)) as f32 / (1.5f32).powi((i % half.max(1)) as i32);
        let all = 0..POSITIONS * half;
        (
            all.clone().map(|i| angle(i).cos()).collect(),
            all.map(|i| angle(i).sin()).collect(),
        )
    }

    #[test]
    fn both_pairings_both_layouts_and_partial_rotation() {
        let (batch, heads, length, size) = (2, 3, 5, 10);
        let x: Vec<f32> = (0..300).map(|i| ((i * 7) % 13) as f32 - 6.0).collect();
        let ids: Vec<i64> = (0..10).map(|i| (i * 4 + 1) % POSITIONS as i64).collect();
        for turned in [0, 2, 6, 10] {
            let (cos, sin) = tables(turned / 2);
            for interleaved in [false, true] {
                // the same values as [batch, length, heads, size] memory
                let view = View::from_slice(&x, &[batch, length, heads, size]).unwrap();
                let problem = RotaryProblem {
                    x: view.permute(&[0, 2, 1, 3]).unwrap(),
                    table: RotaryTable::Cached {
                        cos: View::from_slice(&cos, &[POSITIONS, turned / 2]).unwrap(),
                        sin: View::from_slice(&sin, &[POSITIONS, turned / 2]).unwrap(),
                        positions: View::from_slice(&ids, &[batch, length]).unwrap(),
                    },
                    interleaved,
                    rotary_dim: turned,
                };
                let compute = Compute::default();
                let mut by_head = vec![0f32; 300];
                let layout = RowLayout::contiguous([batch, heads, length], size).unwrap();
                rotary(&compute, &problem, &mut by_head, &layout).unwrap();
                let mut by_token = vec![0f32; 300];
                let layout = RowLayout {
                    shape: [batch, heads, length],
                    strides: [length * heads * size, size, heads * size],
                    len: size,
                };
                rotary(&compute, &problem, &mut by_token, &layout).unwrap();
                for b in 0..batch {
                    for h in 0..heads {
                        for s in 0..length {
                            let row = &x[((b * length + s) * heads + h) * size..][..size];
                            let mut want = row.to_vec();
                            for i in 0..turned / 2 {
                                let angle = ids[b * length + s] as usize * (turned / 2) + i;
                                let (l, r) = if interleaved {
                                    (2 * i, 2 * i + 1)
                                } else {
                                    (i, i + turned / 2)
                                };
                                want[l] = row[l] * cos[angle] - row[r] * sin[angle];
                                want[r] = row[r] * cos[angle] + row[l] * sin[angle];
                            }
                            assert_eq!(
                                by_head[((b * heads + h) * length + s) * size..][..size],
                                want
                            );
                            assert_eq!(
                                by_token[((b * length + s) * heads + h) * size..][..size],
                                want
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let x = [0f32; 24];
        let (cos, sin) = tables(2);
        let layout = RowLayout::contiguous([1, 2, 3], 4).unwrap();
        let run = |ids: &[i64], rotary_dim, layout: &RowLayout| {
            let problem = RotaryProblem {
                x: View::from_slice(&x, &[1, 2, 3, 4]).unwrap(),
                table: RotaryTable::Cached {
                    cos: View::from_slice(&cos, &[POSITIONS, 2]).unwrap(),
                    sin: View::from_slice(&sin, &[POSITIONS, 2]).unwrap(),
                    positions: View::from_slice(ids, &[1, ids.len()]).unwrap(),
                },
                interleaved: false,
                rotary_dim,
            };
            rotary(&Compute::default(), &problem, &mut [0f32; 24], layout)
        };
        assert!(run(&[0, 1, 10], 4, &layout).is_ok());
        assert!(matches!(
            run(&[0, 1, 11], 4, &layout),
            Err(KernelError::Range { got: 11, .. })
        ));
        assert!(matches!(
            run(&[0, -1, 1], 4, &layout),
            Err(KernelError::Range { got: -1, .. })
        ));
        assert!(run(&[0, 1], 4, &layout).is_err());
        let odd = run(&[0, 1, 2], 3, &layout).unwrap_err();
        assert_eq!(
            odd.to_string(),
            "rotary_dim: expected an even number, got 3"
        );
        let wide = run(&[0, 1, 2], 6, &layout).unwrap_err();
        assert_eq!(wide.to_string(), "rotary_dim: 6 is outside 0..=4");
        assert!(run(&[0, 1, 2], 2, &layout).is_err()); // tables have two angles a row
        assert!(
            run(
                &[0, 1, 2],
                4,
                &RowLayout {
                    strides: [0, 0, 4],
                    ..layout
                }
            )
            .is_err()
        );
    }
}
