//! Rotary position embedding.

use super::heads::{by_real, fused_rows, head_count, split, split_rows};
use super::types::FLOATS;
use super::width::one_int;
use crate::kernel::{Build, Invocation, Kernel, KernelEntry, OpError};
use refeed_graph::attributes::AttributeError;
use refeed_kernels::Real;
use refeed_kernels::rotary::{RotaryProblem, RotaryTable, rotary};
use refeed_values::{DType, Tensor};

/// Where the positions of the tokens come from.
#[derive(Clone, Copy, PartialEq)]
enum Places {
    /// ONNX: X, cos, sin, and positions if there are any.
    Onnx,
    /// The contributed operator: input, positions, cos, sin.
    Contributed,
}

struct RotaryEmbedding {
    places: Places,
    heads: Option<usize>,
    /// 0: the whole head.
    rotary_dim: usize,
    interleaved: bool,
}

impl RotaryEmbedding {
    fn typed<T: Real>(&self, call: &mut Invocation<'_>) -> Result<Tensor, OpError> {
        let x = call.require(0)?;
        let (cos, sin, positions) = match self.places {
            Places::Onnx => (1, 2, 3),
            Places::Contributed => (2, 3, 1),
        };
        let (cos, sin) = (call.view::<T>(cos)?, call.view::<T>(sin)?);
        let heads = match (x.rank(), self.heads) {
            (4, _) => None,
            // The contributed operator may leave the heads to the width of the table.
            (3, None) if self.places == Places::Contributed && self.rotary_dim == 0 => {
                let half = cos.shape().last().copied().unwrap_or(0);
                let width = half.checked_mul(2).filter(|&width| width > 0);
                width.and_then(|width| x.shape()[2].checked_div(width))
            }
            (_, heads) => heads,
        };
        let split = split("X", x, heads)?;
        let &[batch, heads, length, width] = split.shape() else {
            return Err(OpError::Shape(format!(
                "X: expected 3 or 4 dimensions, got {:?}",
                x.shape()
            )));
        };
        let rows = [batch, heads, length];
        let layout = if x.rank() == 3 {
            fused_rows(rows, width)?
        } else {
            split_rows(rows, width)?
        };
        if x.elements() == 0 {
            return self.nothing::<T>(call, x, [cos.shape(), sin.shape()], width);
        }
        let mut given = None;
        if call.input(positions).is_some() {
            let tensor = call.require(positions)?;
            given = Some(match tensor.elements() {
                1 if tensor.rank() < 2 && self.places == Places::Contributed => {
                    let first = one_int(call, positions, "position_ids")?.unwrap_or(0);
                    counted(call, &[first], length)?
                }
                _ => tensor.clone(),
            });
        }
        let table = match &given {
            Some(positions) => RotaryTable::Cached {
                cos,
                sin,
                positions: positions.view::<i64>()?,
            },
            None => RotaryTable::Gathered { cos, sin },
        };
        let rotary_dim = if self.rotary_dim == 0 {
            width
        } else {
            self.rotary_dim
        };
        let problem = RotaryProblem {
            x: split.view::<T>()?,
            table,
            interleaved: self.interleaved,
            rotary_dim,
        };
        let mut out = call.allocate(T::DTYPE, x.shape())?;
        rotary(call.compute(), &problem, out.as_mut_slice::<T>()?, &layout)?;
        Ok(out.freeze())
    }

    /// The result without elements, however large its extents are, once the tables are seen to fit.
    fn nothing<T: Real>(
        &self,
        call: &mut Invocation<'_>,
        x: &Tensor,
        tables: [&[usize]; 2],
        width: usize,
    ) -> Result<Tensor, OpError> {
        let turned = match self.rotary_dim {
            0 => width,
            turned => turned,
        };
        let fits =
            |table: &[usize]| (2..=3).contains(&table.len()) && table.last() == Some(&(turned / 2));
        if turned > width || turned % 2 != 0 || !tables.iter().all(|table| fits(table)) {
            return Err(OpError::Shape(format!(
                "cosines and sines: expected rows of half of an even rotary dimension up to the head's width {width}, \
                 got shapes {:?} and {:?} for {turned}",
                tables[0], tables[1]
            )));
        }
        Ok(call.allocate(T::DTYPE, x.shape())?.freeze())
    }
}

/// Positions `first[b]..first[b] + length` of each row, as an INT64 `[rows, length]` tensor.
///
/// # Errors
/// When a position does not fit or memory cannot be had.
pub(super) fn counted(
    call: &mut Invocation<'_>,
    first: &[i64],
    length: usize,
) -> Result<Tensor, OpError> {
    let mut out = call.allocate(DType::Int64, &[first.len(), length])?;
    let slots = out.as_mut_slice::<i64>()?;
    for (&first, row) in first.iter().zip(slots.chunks_exact_mut(length.max(1))) {
        for (step, slot) in row.iter_mut().enumerate() {
            let step = i64::try_from(step).ok();
            *slot = step
                .and_then(|step| first.checked_add(step))
                .ok_or_else(|| OpError::Value {
                    what: "position",
                    expected: "a number below 2^63".to_string(),
                    got: first.to_string(),
                })?;
        }
    }
    Ok(out.freeze())
}

impl Kernel for RotaryEmbedding {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let out = by_real!(call.require(0)?.dtype(), 0, T => self.typed::<T>(call))?;
        call.set(0, out);
        Ok(())
    }
}

fn build(build: &mut Build<'_>, places: Places) -> Result<Box<dyn Kernel>, OpError> {
    let attributes = build.attributes;
    let heads = match attributes.int_or("num_heads", 0)? {
        0 => None,
        count => Some(head_count("num_heads", count)?),
    };
    let dim = attributes.int_or("rotary_embedding_dim", 0)?;
    let rotary_dim = usize::try_from(dim).map_err(|_| AttributeError::Value {
        name: "rotary_embedding_dim",
        expected: "0 or more",
        got: dim.to_string(),
    })?;
    let interleaved = attributes.flag("interleaved", false)?;
    if places == Places::Contributed {
        let scale = attributes.float_or("scale", 1.0)?;
        if scale != 1.0 {
            return Err(OpError::Unsupported(format!(
                "RotaryEmbedding with scale {scale}"
            )));
        }
        if attributes.flag("is_packed_batching", false)? {
            return Err(OpError::Unsupported(
                "RotaryEmbedding with is_packed_batching".to_string(),
            ));
        }
    }
    Ok(Box::new(RotaryEmbedding {
        places,
        heads,
        rotary_dim,
        interleaved,
    }))
}

pub(super) const KERNELS: &[KernelEntry] = &[
    KernelEntry {
        domain: "",
        op_type: "RotaryEmbedding",
        types: &[(0, FLOATS), (1, FLOATS), (2, FLOATS), (3, &[DType::Int64])],
        build: |cx| build(cx, Places::Onnx),
    },
    KernelEntry {
        domain: "com.microsoft",
        op_type: "RotaryEmbedding",
        types: &[(0, FLOATS), (1, &[DType::Int64]), (2, FLOATS), (3, FLOATS)],
        build: |cx| build(cx, Places::Contributed),
    },
];

#[cfg(test)]
mod tests {
    use super::super::trial::{Trial, floats, ints, listed};
    use super::*;

    /// The formula in f64, on `[batch, heads, length, width]` numbers and a `[batch, length, half]` table.
    fn naive(
        x: &[f32],
        [b, h, s, d]: [usize; 4],
        cos: impl Fn(usize, usize, usize) -> f64,
        sin: impl Fn(usize, usize, usize) -> f64,
        turned: usize,
        interleaved: bool,
    ) -> Vec<f64> {
        let mut out: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        for row in 0..b * h * s {
            let (bi, si) = (row / (h * s), row % s);
            for i in 0..turned / 2 {
                let (p, q) = if interleaved {
                    (2 * i, 2 * i + 1)
                } else {
                    (i, i + turned / 2)
                };
                let (a, c) = (f64::from(x[row * d + p]), f64::from(x[row * d + q]));
                out[row * d + p] = a * cos(bi, si, i) - c * sin(bi, si, i);
                out[row * d + q] = a * sin(bi, si, i) + c * cos(bi, si, i);
            }
        }
        out
    }

    fn near(got: &[f32], want: &[f64]) {
        assert_eq!(got.len(), want.len());
        for (i, (g, w)) in got.iter().zip(want).enumerate() {
            assert!(
                (f64::from(*g) - w).abs() <= 1e-5 * w.abs().max(1.0),
                "{i}: {g} {w}"
            );
        }
    }

    /// `[b, h, s, d]` to `[b, s, h * d]`.
    fn fused(x: &Tensor) -> Tensor {
        let &[b, h, s, d] = x.shape() else { panic!() };
        let turned = x
            .with_layout(x.layout().permute(&[0, 2, 1, 3]).unwrap(), 0)
            .unwrap();
        Tensor::from_slice(&[b, s, h * d], &turned.view::<f32>().unwrap().to_vec()).unwrap()
    }

    /// bugs.md D3: both layouts give the same numbers, with and without positions.
    #[test]
    fn d3_both_layouts_agree() {
        let (b, h, s, d) = (2, 2, 3, 4);
        let x = floats(&[b, h, s, d]);
        let cos = floats(&[7, 2]);
        let other: Vec<f32> = listed(&cos).iter().map(|x| 1.5 - x / 2.0).collect();
        let sin = Tensor::from_slice(&[7, 2], &other).unwrap();
        let positions = [0i64, 6, 2, 5, 1, 1];
        let ids = Tensor::from_slice(&[b, s], &positions).unwrap();
        for interleaved in [0, 1] {
            let trial = Trial::new("RotaryEmbedding", 23).int("interleaved", interleaved);
            let four = trial.one(&[&x, &cos, &sin, &ids]).unwrap();
            let angle = |table: &Tensor| {
                let table = listed(table);
                move |bi: usize, si: usize, i: usize| {
                    f64::from(table[positions[bi * s + si] as usize * 2 + i])
                }
            };
            let want = naive(
                &listed(&x),
                [b, h, s, d],
                angle(&cos),
                angle(&sin),
                d,
                interleaved == 1,
            );
            near(&listed(&four), &want);
            let three = Trial::new("RotaryEmbedding", 23)
                .int("interleaved", interleaved)
                .int("num_heads", h as i64)
                .one(&[&fused(&x), &cos, &sin, &ids])
                .unwrap();
            assert_eq!(three.shape(), [b, s, h * d]);
            assert_eq!(listed(&three), listed(&fused(&four)));
            // The same angles, one row a token.
            let rows = |table: &Tensor| {
                let table = listed(table);
                let rows: Vec<f32> = positions
                    .iter()
                    .flat_map(|&p| table[p as usize * 2..][..2].to_vec())
                    .collect();
                Tensor::from_slice(&[b, s, 2], &rows).unwrap()
            };
            let gathered = Trial::new("RotaryEmbedding", 23)
                .int("interleaved", interleaved)
                .int("num_heads", h as i64)
                .one(&[&fused(&x), &rows(&cos), &rows(&sin)])
                .unwrap();
            assert_eq!(listed(&gathered), listed(&three));
            let contributed = Trial::new("RotaryEmbedding", 1)
                .domain("com.microsoft")
                .int("interleaved", interleaved)
                .one(&[&fused(&x), &ids, &cos, &sin])
                .unwrap();
            assert_eq!(listed(&contributed), listed(&three));
        }
    }

    #[test]
    fn part_of_a_head_turns_and_one_offset_counts_on() {
        let (b, h, s, d) = (1, 3, 2, 6);
        let x = floats(&[b, h, s, d]);
        let (cos, sin) = (floats(&[5, 2]), floats(&[5, 2]));
        let table = listed(&cos);
        let angle = |_: usize, si: usize, i: usize| f64::from(table[(3 + si) * 2 + i]);
        let got = Trial::new("RotaryEmbedding", 1)
            .domain("com.microsoft")
            .int("rotary_embedding_dim", 4)
            .int("num_heads", 3)
            .one(&[&x, &ints(&[3]), &cos, &sin])
            .unwrap();
        near(
            &listed(&got),
            &naive(&listed(&x), [b, h, s, d], angle, angle, 4, false),
        );
    }

    #[test]
    fn positions_outside_the_table_and_odd_widths_are_refused() {
        let x = floats(&[1, 2, 2, 4]);
        let table = floats(&[5, 2]);
        let trial = Trial::new("RotaryEmbedding", 23);
        for bad in [[0, 5], [-1, 0], [i64::MAX, 0], [i64::MIN, 0]] {
            let ids = Tensor::from_slice(&[1, 2], &bad).unwrap();
            assert!(trial.one(&[&x, &table, &table, &ids]).is_err(), "{bad:?}");
        }
        let offset = Trial::new("RotaryEmbedding", 1).domain("com.microsoft");
        assert!(
            offset
                .one(&[&x, &ints(&[i64::MAX]), &table, &table])
                .is_err()
        );
        let ids = Tensor::from_slice(&[1, 2], &[0i64, 1]).unwrap();
        assert!(
            trial
                .one(&[&floats(&[1, 2, 2, 3]), &table, &table, &ids])
                .is_err()
        );
        assert!(
            trial
                .one(&[&floats(&[1, 2, 8]), &table, &table, &ids])
                .is_err(),
            "3-D without num_heads"
        );
    }
}
