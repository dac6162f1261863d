//! Operators that copy elements to other places.

use super::gather::by_number;
use super::layout::{part_of, refuse, reshaped};
use super::types::{INDICES, NUMBERS};
use super::width::{MOVABLE, by_index, by_width, carried, elements, moved, one_int};
use crate::kernel::{Build, BuildFn, Invocation, Kernel, KernelEntry, OpError};
use half::{bf16, f16};
use refeed_graph::attributes::AttributeError;
use refeed_graph::ops::layout::axis_of;
use refeed_graph::ops::movement::{PadMode, pad_widths, padded_extent};
use refeed_kernels::movement::{self as kernels, PadFill, Reduction};
use refeed_values::layout::{Dims, Strides};
use refeed_values::{DType, Extent, Layout, Tensor, TensorError};
use smallvec::SmallVec;

type Numbers = SmallVec<[i64; 8]>;

struct Pad {
    mode: PadMode,
    /// Pads and value, where attributes give them.
    fixed: Option<(Numbers, f32)>,
}

/// An element of `dtype` with this value, in the bits of its carrier.
fn constant(dtype: DType, value: f32) -> Option<u64> {
    match dtype {
        DType::Float => Some(u64::from(value.to_bits())),
        DType::Double => Some(f64::from(value).to_bits()),
        DType::Float16 => Some(u64::from(f16::from_f32(value).to_bits())),
        DType::Bfloat16 => Some(u64::from(bf16::from_f32(value).to_bits())),
        _ if value == 0.0 => Some(0),
        _ => None,
    }
}

impl Pad {
    /// The value of constant padding, in the bits of its carrier.
    fn value(&self, call: &Invocation<'_>, dtype: DType) -> Result<u64, OpError> {
        if let Some((_, value)) = &self.fixed {
            let refused =
                || OpError::Unsupported(format!("padding {dtype} with the number {value}"));
            return constant(dtype, *value).ok_or_else(refused);
        }
        let Some(value) = call.input(2) else {
            return Ok(0);
        };
        if value.dtype() != dtype {
            return Err(OpError::DType {
                index: 2,
                expected: dtype.to_string(),
                got: value.dtype(),
            });
        }
        if value.elements() != 1 {
            let got = format!("{} elements", value.elements());
            return Err(OpError::Value {
                what: "constant_value",
                expected: "one element".to_string(),
                got,
            });
        }
        let value = carried(value)?;
        by_width!(dtype, T => Ok(value.view::<T>()?.iter().next().map_or(0, u64::from)))
    }
}

impl Kernel for Pad {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let pads = match &self.fixed {
            Some((pads, _)) => pads.clone(),
            None => call.ints(1)?,
        };
        let axes = match call.input(3) {
            Some(_) => Some(call.ints(3)?),
            None => None,
        };
        let widths = pad_widths(&pads, axes.as_deref(), x.rank()).map_err(refuse)?;
        let mut shape = Dims::new();
        for (&dim, &(before, after)) in x.shape().iter().zip(&widths) {
            shape.push(padded_extent(dim, before, after).map_err(refuse)?);
        }
        // What only cuts is a view. The extents are not negative, so no pad exceeds its axis.
        if widths
            .iter()
            .all(|&(before, after)| before <= 0 && after <= 0)
        {
            let parts = widths.iter().zip(&shape).enumerate();
            let out = part_of(
                x,
                parts.map(|(axis, (&(before, _), &count))| {
                    (axis, before.unsigned_abs() as usize, count, 1)
                }),
            )?;
            call.set(0, out);
            return Ok(());
        }
        Extent::new(x.dtype(), &shape).map_err(TensorError::from)?;
        let source = carried(x)?;
        let value = self.value(call, x.dtype())?;
        let out = moved(call, x.dtype(), &shape, |out| {
            by_width!(x.dtype(), T => {
                let fill = match self.mode {
                    PadMode::Constant => PadFill::Constant(value as T),
                    PadMode::Reflect => PadFill::Reflect,
                    PadMode::Edge => PadFill::Edge,
                    PadMode::Wrap => PadFill::Wrap,
                };
                Ok(kernels::pad(&source.view::<T>()?, &widths, fill, out.as_mut_slice::<T>()?, &shape)?)
            })
        })?;
        call.set(0, out);
        Ok(())
    }
}

fn pad(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let mode = PadMode::from_name(build.attributes.string("mode")?)?;
    let name = match build.opset {
        ..=1 => "paddings",
        2..=10 => "pads",
        _ => {
            if !build.has(1) {
                return Err(OpError::MissingInput { index: 1 });
            }
            return Ok(Box::new(Pad { mode, fixed: None }));
        }
    };
    if build.has(1) {
        return Err(OpError::Unsupported(
            "`pads` as an input before opset 11".to_string(),
        ));
    }
    let pads = build
        .attributes
        .ints(name)?
        .ok_or(AttributeError::Missing { name })?;
    let value = build.attributes.float_or("value", 0.0)?;
    Ok(Box::new(Pad {
        mode,
        fixed: Some((Numbers::from_slice(pads), value)),
    }))
}

struct Trilu {
    upper: bool,
}

impl Kernel for Trilu {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let k = one_int(call, 1, "k")?.unwrap_or(0);
        let source = carried(x)?;
        let out = moved(call, x.dtype(), x.shape(), |out| {
            by_width!(x.dtype(), T => {
                Ok(kernels::trilu(&source.view::<T>()?, k, self.upper, out.as_mut_slice::<T>()?)?)
            })
        })?;
        call.set(0, out);
        Ok(())
    }
}

fn trilu(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(Trilu {
        upper: build.attributes.int_or("upper", 1)? != 0,
    }))
}

struct Tile;

impl Kernel for Tile {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let repeats = call.ints(1)?;
        if repeats.len() != x.rank() {
            let (want, got) = (x.rank(), repeats.len());
            return Err(OpError::Shape(format!(
                "repeats: expected {want} numbers, got {got}"
            )));
        }
        // Each axis becomes two, the outer one with stride 0; joined again they are the tiled axis.
        let (mut pairs, mut strides, mut shape) = (Dims::new(), Strides::new(), Dims::new());
        for ((&dim, &stride), &n) in x.shape().iter().zip(x.strides()).zip(&repeats) {
            let total = usize::try_from(n)
                .ok()
                .and_then(|n| Some((n, n.checked_mul(dim)?)));
            let (n, total) = total.ok_or_else(|| OpError::Value {
                what: "repeats",
                expected: "numbers of at least 0 that fit".to_string(),
                got: format!("{repeats:?}"),
            })?;
            pairs.extend([n, dim]);
            strides.extend([0, stride]);
            shape.push(total);
        }
        Extent::new(x.dtype(), &shape).map_err(TensorError::from)?;
        let layout = Layout::strided(&pairs, &strides)
            .ok_or_else(|| OpError::Shape(format!("cannot tile {:?} by {repeats:?}", x.shape())))?;
        let repeated = x.with_layout(layout, 0)?;
        let out = reshaped(call, &repeated, &shape)?;
        call.set(0, out);
        Ok(())
    }
}

fn tile(_: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(Tile))
}

fn reduction(build: &Build<'_>) -> Result<Reduction, OpError> {
    if build.opset < 16 {
        return Ok(Reduction::None);
    }
    let name = build.attributes.string("reduction")?;
    let reduction = match name {
        None | Some("none") => Reduction::None,
        Some("add") => Reduction::Add,
        Some("mul") => Reduction::Mul,
        Some("max") => Reduction::Max,
        Some("min") => Reduction::Min,
        Some(other) => {
            let expected = "none, add, mul, max or min";
            return Err(AttributeError::Value {
                name: "reduction",
                expected,
                got: other.to_string(),
            }
            .into());
        }
    };
    match build.input(0).and_then(|ty| ty.dtype) {
        Some(got) if reduction != Reduction::None && !NUMBERS.contains(&got) => {
            Err(OpError::DType {
                index: 0,
                expected: "numbers, to be combined".to_string(),
                got,
            })
        }
        _ => Ok(reduction),
    }
}

pub(super) fn same_dtype(data: &Tensor, updates: &Tensor, index: usize) -> Result<(), OpError> {
    if data.dtype() == updates.dtype() {
        return Ok(());
    }
    Err(OpError::DType {
        index,
        expected: data.dtype().to_string(),
        got: updates.dtype(),
    })
}

/// Runs `$body` on a copy of `$data` as `$out` (a slice of `$t`) and the dense `$updates` (likewise): by width when
/// nothing is combined, by number otherwise.
macro_rules! scattered {
    ($call:expr, $reduction:expr, $data:expr, $updates:expr, |$out:ident, $new:ident: $t:ident| $body:expr) => {{
        let updates = $call.dense($updates)?;
        if $reduction == Reduction::None {
            let (source, updates) = (carried($data)?, carried(&updates)?);
            moved($call, $data.dtype(), $data.shape(), |memory| {
                by_width!($data.dtype(), $t => {
                    let $out = memory.as_mut_slice::<$t>()?;
                    source.view::<$t>()?.copy_to($out);
                    let $new = elements::<$t>(&updates)?;
                    $body
                })
            })
        } else {
            let mut memory = $call.allocate($data.dtype(), $data.shape())?;
            by_number!($data.dtype(), 0, $t => {
                let $out = memory.as_mut_slice::<$t>()?;
                $data.view::<$t>()?.copy_to($out);
                let $new = elements::<$t>(&updates)?;
                $body
            })
            .map(|()| memory.freeze())
        }
    }};
}

struct ScatterNd {
    reduction: Reduction,
}

impl Kernel for ScatterNd {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let (data, indices, updates) = (call.require(0)?, call.require(1)?, call.require(2)?);
        same_dtype(data, updates, 2)?;
        let shape = data.shape();
        let misfit = || {
            OpError::Shape(format!(
                "updates of shape {:?} do not fit indices of shape {:?} into {shape:?}",
                updates.shape(),
                indices.shape()
            ))
        };
        let Some((&depth, lead)) = indices.shape().split_last() else {
            return Err(misfit());
        };
        let kept = shape.get(depth..).ok_or_else(misfit)?;
        if updates.shape().len() != lead.len() + kept.len()
            || updates.shape()[..lead.len()] != *lead
            || updates.shape()[lead.len()..] != *kept
        {
            return Err(misfit());
        }
        let count: usize = lead.iter().product();
        let indices = call.dense(indices)?;
        let out = scattered!(
            call,
            self.reduction,
            data,
            updates,
            |out, new: T| by_index!(indices, 1, I => {
                let tuples = elements::<I>(&indices)?;
                Ok(kernels::scatter_nd(out, shape, tuples, (count, depth), new, self.reduction)?)
            })
        )?;
        call.set(0, out);
        Ok(())
    }
}

fn scatter_nd(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(ScatterNd {
        reduction: reduction(build)?,
    }))
}

struct ScatterElements {
    axis: i64,
    reduction: Reduction,
}

impl Kernel for ScatterElements {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let (data, indices, updates) = (call.require(0)?, call.require(1)?, call.require(2)?);
        same_dtype(data, updates, 2)?;
        let axis = axis_of(self.axis, data.rank()).map_err(refuse)?;
        if updates.shape() != indices.shape() {
            return Err(OpError::Shape(format!(
                "updates: expected shape {:?} as the indices, got {:?}",
                indices.shape(),
                updates.shape()
            )));
        }
        let (shape, extents) = (data.shape(), indices.shape());
        let indices = call.dense(indices)?;
        let out = scattered!(
            call,
            self.reduction,
            data,
            updates,
            |out, new: T| by_index!(indices, 1, I => {
                let numbers = elements::<I>(&indices)?;
                Ok(kernels::scatter_elements(out, shape, axis, numbers, new, extents, self.reduction)?)
            })
        )?;
        call.set(0, out);
        Ok(())
    }
}

fn scatter_elements(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let axis = build.attributes.int_or("axis", 0)?;
    Ok(Box::new(ScatterElements {
        axis,
        reduction: reduction(build)?,
    }))
}

/// The older name of `ScatterElements`, without combining.
fn scatter(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let axis = build.attributes.int_or("axis", 0)?;
    Ok(Box::new(ScatterElements {
        axis,
        reduction: Reduction::None,
    }))
}

const fn entry(
    op_type: &'static str,
    types: &'static [(usize, &'static [DType])],
    build: BuildFn,
) -> KernelEntry {
    KernelEntry {
        domain: "",
        op_type,
        types,
        build,
    }
}

pub(super) const KERNELS: &[KernelEntry] = &[
    entry("Pad", &[(0, MOVABLE)], pad),
    entry("Trilu", &[(0, MOVABLE)], trilu),
    entry("Tile", &[(0, MOVABLE)], tile),
    entry("ScatterND", &[(0, MOVABLE), (1, INDICES)], scatter_nd),
    entry(
        "ScatterElements",
        &[(0, MOVABLE), (1, INDICES)],
        scatter_elements,
    ),
    entry("Scatter", &[(0, MOVABLE), (1, INDICES)], scatter),
];

#[cfg(test)]
mod tests {
    use super::super::trial::{Trial, floats, ints, listed};
    use super::*;

    #[test]
    fn pad_reads_every_version() {
        let x = floats(&[2, 2]);
        let v = listed(&x);
        let want = [7.5, v[0], v[1], 7.5, v[2], v[3]];
        let old = Trial::new("Pad", 10)
            .ints("pads", &[0, 1, 0, 0])
            .float("value", 7.5);
        assert_eq!(listed(&old.one(&[&x]).unwrap()), want);
        let value = Tensor::scalar(7.5f32).unwrap();
        let new = Trial::new("Pad", 18);
        assert_eq!(
            listed(
                &new.one(&[&x, &ints(&[1, 0]), &value, &ints(&[-1])])
                    .unwrap()
            ),
            want
        );
        let edge = Trial::new("Pad", 19).text("mode", "edge");
        let out = edge
            .run(&[Some(&x), Some(&ints(&[1, 0])), None, Some(&ints(&[0]))])
            .unwrap();
        assert_eq!(listed(&out[0]), [v[0], v[1], v[0], v[1], v[2], v[3]]);
        assert!(
            Trial::new("Pad", 19)
                .text("mode", "mirror")
                .one(&[&x, &ints(&[0; 4])])
                .is_err()
        );
        let wrong = Tensor::scalar(7i32).unwrap();
        assert!(new.one(&[&x, &ints(&[1, 0, 0, 0]), &wrong]).is_err());
    }

    #[test]
    fn pads_that_only_cut_are_views() {
        let x = floats(&[4, 3]);
        let out = Trial::new("Pad", 13)
            .one(&[&x, &ints(&[-1, 0, -1, -2])])
            .unwrap();
        assert!(out.buffer().same_allocation(x.buffer()));
        assert_eq!(listed(&out), [listed(&x)[3], listed(&x)[6]]);
        let same = Trial::new("Pad", 13).one(&[&x, &ints(&[0; 4])]).unwrap();
        assert_eq!(same.as_ptr(), x.as_ptr());
    }

    #[test]
    fn tiles_are_views_where_axes_are_one() {
        let x = floats(&[2, 1]);
        let out = Trial::new("Tile", 13).one(&[&x, &ints(&[1, 3])]).unwrap();
        assert_eq!(out.as_ptr(), x.as_ptr());
        let v = listed(&x);
        assert_eq!(listed(&out), [v[0], v[0], v[0], v[1], v[1], v[1]]);
        let out = Trial::new("Tile", 13).one(&[&x, &ints(&[2, 1])]).unwrap();
        assert_eq!(listed(&out), [v[0], v[1], v[0], v[1]]);
        assert_eq!(
            Trial::new("Tile", 13)
                .one(&[&x, &ints(&[0, 2])])
                .unwrap()
                .shape(),
            [0, 2]
        );
        for bad in [[i64::MAX, i64::MAX], [-1, 1], [i64::MIN, 1]] {
            assert!(
                Trial::new("Tile", 13).one(&[&x, &ints(&bad)]).is_err(),
                "{bad:?}"
            );
        }
        // A view that would not fit in memory is refused where it is copied.
        let wide = Trial::new("Tile", 13).one(&[&floats(&[2, 2]), &ints(&[1 << 40, 1])]);
        assert!(matches!(wide, Err(OpError::Tensor(_))), "{wide:?}");
    }

    #[test]
    fn scatters_leave_their_data_alone() {
        let data = floats(&[3, 2]);
        let before = listed(&data);
        let at = Tensor::from_slice(&[1, 1], &[-1i64]).unwrap();
        let rows = Tensor::from_slice(&[1, 2], &[100f32, 200.0]).unwrap();
        let out = Trial::new("ScatterND", 16)
            .text("reduction", "add")
            .one(&[&data, &at, &rows])
            .unwrap();
        assert_eq!(listed(&out)[4..], [before[4] + 100.0, before[5] + 200.0]);
        assert_eq!(listed(&data), before);
        let at = Tensor::from_slice(&[1, 2], &[2i64, 0]).unwrap();
        let out = Trial::new("ScatterElements", 13)
            .one(&[&data, &at, &rows])
            .unwrap();
        assert_eq!(
            listed(&out),
            [before[0], 200.0, before[2], before[3], 100.0, before[5]]
        );
        let narrow = floats(&[1, 1]);
        assert!(
            Trial::new("ScatterElements", 13)
                .one(&[&data, &at, &narrow])
                .is_err()
        );
        assert!(
            Trial::new("ScatterND", 13)
                .one(&[&data, &at, &rows])
                .is_err()
        );
        let flags = Tensor::from_slice(&[2], &[1u8, 0])
            .unwrap()
            .reinterpret(DType::Bool)
            .unwrap();
        let combined = Trial::new("ScatterElements", 18).text("reduction", "mul");
        assert!(matches!(
            combined.one(&[&flags, &ints(&[0]), &flags]),
            Err(OpError::DType { .. })
        ));
    }
}
