//! Operators that give the same elements another layout. All are views where strides can say it.

use super::width::MOVABLE;
use crate::kernel::{Build, Invocation, Kernel, KernelEntry, OpError};
use refeed_graph::attributes::AttributeError;
use refeed_graph::ops::layout::{axes_of, axis_of, transpose_order};
use refeed_graph::ops::reshape::{flatten_axis, reshape_shape};
use refeed_graph::ops::slice::slice_range;
use refeed_graph::ops::split::split_sizes;
use refeed_graph::schema::InferError;
use refeed_values::layout::{Dims, broadcast_shape};
use refeed_values::{DType, Extent, Layout, Tensor};
use smallvec::SmallVec;

type Numbers = SmallVec<[i64; 8]>;

/// A refusal of the shared shape arithmetic as one of the kernel.
pub(super) fn refuse(error: InferError) -> OpError {
    match error {
        InferError::Attribute(error) => OpError::Attribute(error),
        InferError::Shape(text) => OpError::Shape(text),
        other => OpError::Shape(other.to_string()),
    }
}

/// The tensor under another shape: a view where its strides allow one, else over a dense copy.
///
/// # Errors
/// When the element counts differ or memory cannot be had.
pub(super) fn reshaped(
    call: &mut Invocation<'_>,
    tensor: &Tensor,
    shape: &[usize],
) -> Result<Tensor, OpError> {
    // Before any product of dimensions that a model made up.
    Extent::new(tensor.dtype(), shape).map_err(refeed_values::TensorError::from)?;
    if let Some(layout) = tensor.layout().reshape(shape) {
        return Ok(tensor.with_layout(layout, 0)?);
    }
    let dense = call.dense(tensor)?;
    match dense.layout().reshape(shape) {
        Some(layout) => Ok(dense.with_layout(layout, 0)?),
        None => Err(OpError::Shape(format!(
            "cannot reshape {:?} to {shape:?}",
            tensor.shape()
        ))),
    }
}

fn extents(numbers: &[i64], what: &'static str) -> Result<Dims, OpError> {
    let dims: Result<Dims, _> = numbers.iter().map(|&n| usize::try_from(n)).collect();
    dims.map_err(|_| OpError::Value {
        what,
        expected: "numbers of at least 0".to_string(),
        got: format!("{numbers:?}"),
    })
}

struct Transpose {
    perm: Option<Numbers>,
}

impl Kernel for Transpose {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let order = transpose_order(self.perm.as_deref(), x.rank()).map_err(refuse)?;
        let layout = x.layout().permute(&order);
        let layout =
            layout.ok_or_else(|| OpError::Shape(format!("{order:?} is no order of the axes")))?;
        call.set(0, x.with_layout(layout, 0)?);
        Ok(())
    }
}

fn transpose(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let perm = build.attributes.ints("perm")?.map(Numbers::from_slice);
    Ok(Box::new(Transpose { perm }))
}

struct Reshape {
    allow_zero: bool,
}

impl Kernel for Reshape {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let wanted = call.ints(1)?;
        let shape = reshape_shape(x.shape(), &wanted, self.allow_zero).map_err(refuse)?;
        let out = reshaped(call, x, &shape)?;
        call.set(0, out);
        Ok(())
    }
}

fn reshape(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let allow_zero = build.opset >= 14 && build.attributes.flag("allowzero", false)?;
    Ok(Box::new(Reshape { allow_zero }))
}

struct Flatten {
    axis: i64,
}

impl Kernel for Flatten {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let axis = flatten_axis(self.axis, x.rank()).map_err(refuse)?;
        let (outer, inner) = x.shape().split_at(axis);
        // A product beside a zero elsewhere may be anything.
        let product = |dims: &[usize]| {
            dims.iter()
                .try_fold(1usize, |product, &dim| product.checked_mul(dim))
        };
        let (Some(outer), Some(inner)) = (product(outer), product(inner)) else {
            return Err(OpError::Shape(format!("cannot flatten {:?}", x.shape())));
        };
        let out = reshaped(call, x, &[outer, inner])?;
        call.set(0, out);
        Ok(())
    }
}

fn flatten(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(Flatten {
        axis: build.attributes.int_or("axis", 1)?,
    }))
}

/// Axes that an attribute gave in old versions and an input gives since.
enum Axes {
    Fixed(Option<Numbers>),
    Input(usize),
}

impl Axes {
    fn build(build: &Build<'_>, input: usize, as_input: i64) -> Result<Axes, OpError> {
        if build.opset >= as_input {
            return Ok(Axes::Input(input));
        }
        if build.has(1) {
            return Err(OpError::Unsupported(format!(
                "`axes` as an input before opset {as_input}"
            )));
        }
        Ok(Axes::Fixed(
            build.attributes.ints("axes")?.map(Numbers::from_slice),
        ))
    }

    fn read(&self, call: &Invocation<'_>) -> Result<Option<Numbers>, OpError> {
        match self {
            Axes::Fixed(axes) => Ok(axes.clone()),
            Axes::Input(index) if call.input(*index).is_none() => Ok(None),
            Axes::Input(index) => call.ints(*index).map(Some),
        }
    }
}

struct Squeeze {
    axes: Axes,
}

impl Kernel for Squeeze {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let axes = match self.axes.read(call)? {
            Some(axes) => axes_of(&axes, x.rank()).map_err(refuse)?,
            None => (0..x.rank()).filter(|&axis| x.shape()[axis] == 1).collect(),
        };
        let mut layout = x.layout().clone();
        for axis in (0..x.rank()).rev().filter(|axis| axes.contains(axis)) {
            layout = layout.squeeze(axis).ok_or_else(|| {
                OpError::Shape(format!(
                    "axis {axis} of {:?} is not 1 and cannot be squeezed",
                    x.shape()
                ))
            })?;
        }
        call.set(0, x.with_layout(layout, 0)?);
        Ok(())
    }
}

fn squeeze(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(Squeeze {
        axes: Axes::build(build, 1, 13)?,
    }))
}

struct Unsqueeze {
    axes: Axes,
}

impl Kernel for Unsqueeze {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let Some(axes) = self.axes.read(call)? else {
            return Err(OpError::MissingInput { index: 1 });
        };
        let mut axes = axes_of(&axes, x.rank() + axes.len()).map_err(refuse)?;
        axes.sort_unstable();
        let mut layout = x.layout().clone();
        for &axis in &axes {
            layout = layout.unsqueeze(axis).ok_or_else(|| {
                OpError::Shape(format!("axis {axis} cannot be added to {:?}", x.shape()))
            })?;
        }
        call.set(0, x.with_layout(layout, 0)?);
        Ok(())
    }
}

fn unsqueeze(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let axes = Axes::build(build, 1, 13)?;
    if matches!(axes, Axes::Fixed(None)) {
        return Err(AttributeError::Missing { name: "axes" }.into());
    }
    Ok(Box::new(Unsqueeze { axes }))
}

struct Expand;

impl Kernel for Expand {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let wanted = extents(&call.ints(1)?, "shape")?;
        let layout: Option<Layout> =
            broadcast_shape([x.shape(), &wanted]).and_then(|shape| x.layout().broadcast(&shape));
        let layout = layout.ok_or_else(|| {
            OpError::Shape(format!(
                "{:?} does not broadcast with {wanted:?}",
                x.shape()
            ))
        })?;
        call.set(0, x.with_layout(layout, 0)?);
        Ok(())
    }
}

fn expand(_: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(Expand))
}

/// A part of some axes of a tensor; `parts` holds axis, first position, count and step.
pub(crate) fn part_of(
    x: &Tensor,
    parts: impl IntoIterator<Item = (usize, usize, usize, isize)>,
) -> Result<Tensor, OpError> {
    let mut layout = x.layout().clone();
    let mut offset = 0isize;
    for (axis, start, count, step) in parts {
        let sliced = layout.slice(axis, start, count, step);
        let moved = sliced.and_then(|(layout, by)| Some((layout, offset.checked_add(by)?)));
        (layout, offset) = moved.ok_or_else(|| {
            OpError::Shape(format!(
                "{count} positions from {start} on are not on axis {axis} of {:?}",
                x.shape()
            ))
        })?;
    }
    let empty = layout.shape().contains(&0);
    Ok(x.with_layout(layout, if empty { 0 } else { offset })?)
}

/// The view of one position of an axis, which goes.
///
/// # Errors
/// When there is no such axis or position, or elements of a packed type would start within a byte.
pub(crate) fn position_of(x: &Tensor, axis: usize, at: usize) -> Result<Tensor, OpError> {
    let one = part_of(x, [(axis, at, 1, 1)])?;
    let layout = one.layout().squeeze(axis);
    let layout = layout.ok_or_else(|| OpError::Shape(format!("no axis {axis}")))?;
    Ok(one.with_layout(layout, 0)?)
}

struct Slice {
    /// Starts and ends, where attributes give them.
    fixed: Option<(Numbers, Numbers)>,
    axes: Axes,
}

impl Kernel for Slice {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let (starts, ends) = match &self.fixed {
            Some((starts, ends)) => (starts.clone(), ends.clone()),
            None => (call.ints(1)?, call.ints(2)?),
        };
        let axes = match self.axes.read(call)? {
            Some(axes) => axes_of(&axes, x.rank()).map_err(refuse)?,
            None => (0..starts.len()).collect(),
        };
        let steps = match call.input(4) {
            Some(_) => call.ints(4)?,
            None => SmallVec::from_elem(1, starts.len()),
        };
        let same =
            ends.len() == starts.len() && axes.len() == starts.len() && steps.len() == starts.len();
        if !same || starts.len() > x.rank() {
            return Err(OpError::Shape(format!(
                "starts, ends, axes and steps have {}, {}, {} and {} numbers for {} axes",
                starts.len(),
                ends.len(),
                axes.len(),
                steps.len(),
                x.rank()
            )));
        }
        let mut parts: SmallVec<[(usize, usize, usize, isize); 6]> = SmallVec::new();
        for (i, &axis) in axes.iter().enumerate() {
            let (first, count) =
                slice_range(x.shape()[axis], starts[i], ends[i], steps[i]).map_err(refuse)?;
            // With two positions or more, the step is smaller than the axis.
            let step = if count > 1 { steps[i] as isize } else { 1 };
            parts.push((axis, first, count, step));
        }
        let out = part_of(x, parts)?;
        call.set(0, out);
        Ok(())
    }
}

fn slice(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    if build.opset >= 10 {
        for index in [1, 2] {
            if !build.has(index) {
                return Err(OpError::MissingInput { index });
            }
        }
        return Ok(Box::new(Slice {
            fixed: None,
            axes: Axes::Input(3),
        }));
    }
    let read = |name: &'static str| -> Result<Numbers, OpError> {
        let numbers = build
            .attributes
            .ints(name)?
            .ok_or(AttributeError::Missing { name })?;
        Ok(Numbers::from_slice(numbers))
    };
    let fixed = Some((read("starts")?, read("ends")?));
    Ok(Box::new(Slice {
        fixed,
        axes: Axes::build(build, 3, 10)?,
    }))
}

struct Split {
    axis: i64,
    sizes: Option<Numbers>,
    uneven: bool,
}

impl Kernel for Split {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let axis = axis_of(self.axis, x.rank()).map_err(refuse)?;
        let given = match call.input(1) {
            Some(_) => Some(call.ints(1)?),
            None => self.sizes.clone(),
        };
        let outputs = call.output_count();
        let sizes =
            split_sizes(x.shape()[axis], given.as_deref(), outputs, self.uneven).map_err(refuse)?;
        let mut first = 0;
        for (index, &size) in sizes.iter().enumerate() {
            if call.wants(index) {
                call.set(index, part_of(x, [(axis, first, size, 1)])?);
            }
            first += size;
        }
        Ok(())
    }
}

fn split(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let axis = build.attributes.int_or("axis", 0)?;
    let mut sizes = None;
    if build.opset < 13 {
        if build.has(1) {
            return Err(OpError::Unsupported(
                "`split` as an input before opset 13".to_string(),
            ));
        }
        sizes = build.attributes.ints("split")?.map(Numbers::from_slice);
    }
    if build.opset >= 18
        && let Some(count) = build.attributes.int("num_outputs")?
    {
        if build.has(1) {
            return Err(OpError::Unsupported(
                "`num_outputs` beside the input `split`".to_string(),
            ));
        }
        if usize::try_from(count) != Ok(build.output_count()) {
            let expected = "the number of outputs";
            return Err(AttributeError::Value {
                name: "num_outputs",
                expected,
                got: count.to_string(),
            }
            .into());
        }
    }
    Ok(Box::new(Split {
        axis,
        sizes,
        uneven: build.opset >= 18,
    }))
}

/// Types that can be strided: all of whole bytes.
const STRIDED: &[DType] = &strided();

const fn strided() -> [DType; 20] {
    let mut out = [DType::Complex64; 20];
    let mut i = 0;
    while i < MOVABLE.len() {
        out[i] = MOVABLE[i];
        i += 1;
    }
    out[19] = DType::Complex128;
    out
}

/// Types that can change their shape: packed ones as well.
const SHAPED: &[DType] = &shaped();

const fn shaped() -> [DType; 27] {
    let mut out = [DType::Int4; 27];
    let mut i = 0;
    while i < STRIDED.len() {
        out[i] = STRIDED[i];
        i += 1;
    }
    let packed = [
        DType::Uint4,
        DType::Float4E2M1,
        DType::Uint2,
        DType::Int2,
        DType::Float6E2M3,
        DType::Float6E3M2,
    ];
    let mut j = 0;
    while j < packed.len() {
        out[i + j] = packed[j];
        j += 1;
    }
    out
}

const fn entry(
    op_type: &'static str,
    types: &'static [(usize, &'static [DType])],
    build: crate::kernel::BuildFn,
) -> KernelEntry {
    KernelEntry {
        domain: "",
        op_type,
        types,
        build,
    }
}

pub(super) const KERNELS: &[KernelEntry] = &[
    entry("Transpose", &[(0, STRIDED)], transpose),
    entry("Reshape", &[(0, SHAPED)], reshape),
    entry("Flatten", &[(0, SHAPED)], flatten),
    entry("Squeeze", &[(0, SHAPED)], squeeze),
    entry("Unsqueeze", &[(0, SHAPED)], unsqueeze),
    entry("Expand", &[(0, STRIDED)], expand),
    entry("Slice", &[(0, STRIDED)], slice),
    entry("Split", &[(0, STRIDED)], split),
];

#[cfg(test)]
mod tests {
    use super::super::trial::{Trial, floats, ints, listed};
    use super::*;

    /// `x` read with its axes in reverse order, so that nothing is dense.
    fn turned(shape: &[usize]) -> Tensor {
        let back: Vec<usize> = shape.iter().rev().copied().collect();
        Trial::new("Transpose", 13).one(&[&floats(&back)]).unwrap()
    }

    #[test]
    fn views_share_the_memory_of_their_input() {
        let x = turned(&[2, 1, 3, 4]);
        for (op, more, shape, opset) in [
            ("Transpose", None, &[4, 3, 1, 2][..], 21),
            ("Unsqueeze", Some(ints(&[-1, 0])), &[1, 2, 1, 3, 4, 1], 13),
            ("Squeeze", Some(ints(&[-3])), &[2, 3, 4], 13),
            ("Squeeze", None, &[2, 3, 4], 13),
            ("Expand", Some(ints(&[5, 1, 6, 1, 1])), &[5, 2, 6, 3, 4], 13),
            (
                "Reshape",
                Some(ints(&[0, 3, 1, 2, -1])),
                &[2, 3, 1, 2, 2],
                14,
            ),
        ] {
            let inputs: Vec<&Tensor> = [&x].into_iter().chain(more.as_ref()).collect();
            let out = Trial::new(op, opset).one(&inputs).unwrap();
            assert_eq!(out.shape(), shape, "{op}");
            assert_eq!(out.as_ptr(), x.as_ptr(), "{op}");
        }
    }

    #[test]
    fn reshape_copies_only_what_strides_cannot_say() {
        let x = turned(&[3, 4]);
        let out = Trial::new("Reshape", 14).one(&[&x, &ints(&[12])]).unwrap();
        assert_ne!(out.as_ptr(), x.as_ptr());
        assert_eq!(listed(&out), listed(&x));
        let flat = Trial::new("Flatten", 13)
            .int("axis", -1)
            .one(&[&turned(&[2, 3, 5])])
            .unwrap();
        assert_eq!(flat.shape(), [6, 5]);
        assert_eq!(listed(&flat), listed(&turned(&[2, 3, 5])));
    }

    #[test]
    fn slices_follow_both_versions() {
        let x = turned(&[5, 3]);
        let new = Trial::new("Slice", 13);
        let out = new
            .one(&[
                &x,
                &ints(&[-1, i64::MIN]),
                &ints(&[0, i64::MAX]),
                &ints(&[0, 1]),
                &ints(&[-2, 2]),
            ])
            .unwrap();
        let all = listed(&x);
        assert_eq!(listed(&out), [all[12], all[14], all[6], all[8]]);
        let old = Trial::new("Slice", 9)
            .ints("starts", &[1])
            .ints("ends", &[-1])
            .ints("axes", &[-2]);
        assert_eq!(listed(&old.one(&[&x]).unwrap()), all[3..12]);
        // A single position may have any step.
        let out = new
            .one(&[
                &x,
                &ints(&[2]),
                &ints(&[i64::MIN]),
                &ints(&[0]),
                &ints(&[i64::MIN]),
            ])
            .unwrap();
        assert_eq!(listed(&out), all[6..9]);
    }

    #[test]
    fn splits_are_parts_of_their_input() {
        let x = turned(&[2, 7]);
        let parts = Trial::new("Split", 18)
            .int("axis", -1)
            .int("num_outputs", 3)
            .outputs(3)
            .run(&[Some(&x)])
            .unwrap();
        assert_eq!(
            parts.iter().map(|part| part.shape()[1]).collect::<Vec<_>>(),
            [3, 3, 1]
        );
        for part in &parts {
            assert!(part.buffer().same_allocation(x.buffer()));
        }
        assert_eq!(listed(&parts[2]), [listed(&x)[6], listed(&x)[13]]);
        let uneven = Trial::new("Split", 13).int("axis", 1).outputs(3);
        assert!(uneven.run(&[Some(&x)]).is_err());
        let sizes = ints(&[0, 2, 5]);
        let parts = uneven.run(&[Some(&x), Some(&sizes)]).unwrap();
        assert_eq!((parts[0].elements(), parts[2].shape()), (0, &[2, 5][..]));
        let wrong = Trial::new("Split", 18).int("num_outputs", 2).outputs(3);
        assert!(matches!(wrong.run(&[Some(&x)]), Err(OpError::Attribute(_))));
    }

    #[test]
    fn hostile_numbers_are_refused() {
        let x = floats(&[2, 3]);
        const HUGE: i64 = 1 << 62;
        for (op, inputs) in [
            ("Reshape", vec![ints(&[HUGE, HUGE, 0])]),
            ("Reshape", vec![ints(&[i64::MIN])]),
            ("Reshape", vec![ints(&[7, -1])]),
            ("Expand", vec![ints(&[HUGE, HUGE, 2, 3])]),
            ("Expand", vec![ints(&[-1, 3])]),
            ("Expand", vec![ints(&[2, 4])]),
            ("Unsqueeze", vec![ints(&[i64::MIN])]),
            ("Unsqueeze", vec![ints(&[0, 0])]),
            ("Squeeze", vec![ints(&[0])]),
            ("Squeeze", vec![ints(&[i64::MAX])]),
            (
                "Slice",
                vec![ints(&[0]), ints(&[1]), ints(&[0]), ints(&[0])],
            ),
            ("Slice", vec![ints(&[0, 0]), ints(&[1, 1]), ints(&[0, -2])]),
            ("Slice", vec![ints(&[0]), ints(&[1, 1])]),
            ("Slice", vec![ints(&[0, 0, 0]), ints(&[1, 1, 1])]),
            ("Split", vec![ints(&[i64::MAX])]),
        ] {
            let all: Vec<&Tensor> = [&x].into_iter().chain(&inputs).collect();
            assert!(Trial::new(op, 14).one(&all).is_err(), "{op} {inputs:?}");
        }
    }
}
