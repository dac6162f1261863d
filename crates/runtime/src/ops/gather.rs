//! Operators that pick elements by index.

use super::layout::{part_of, refuse};
use super::types::{ALL, INDICES, NUMBERS};
use super::width::{MOVABLE, by_index, by_width, carried, elements, moved, one_int};
use crate::kernel::{Build, BuildFn, Invocation, Kernel, KernelEntry, OpError};
use half::{bf16, f16};
use refeed_graph::attributes::AttributeError;
use refeed_graph::ops::layout::axis_of;
use refeed_kernels::gather as kernels;
use refeed_values::layout::Dims;
use refeed_values::{DType, Extent, Tensor, TensorError};

struct Gather {
    axis: i64,
}

impl Gather {
    /// One index picks a part of the data, which is a view.
    fn one(data: &Tensor, axis: usize, index: i64, extra: usize) -> Result<Tensor, OpError> {
        let extent = data.shape()[axis];
        let limit = i64::try_from(extent).unwrap_or(i64::MAX);
        let at = if index < 0 {
            index.saturating_add(limit)
        } else {
            index
        };
        let at = usize::try_from(at)
            .ok()
            .filter(|&at| at < extent)
            .ok_or_else(|| OpError::Value {
                what: "index",
                expected: format!("a value in [-{extent}, {extent})"),
                got: index.to_string(),
            })?;
        let part = part_of(data, [(axis, at, 1, 1)])?;
        let mut layout = part.layout().squeeze(axis);
        for _ in 0..extra {
            layout = layout.and_then(|layout| layout.unsqueeze(axis));
        }
        let layout =
            layout.ok_or_else(|| OpError::Shape(format!("axis {axis} of {:?}", data.shape())))?;
        Ok(part.with_layout(layout, 0)?)
    }
}

impl Kernel for Gather {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let (data, indices) = (call.require(0)?, call.require(1)?);
        let axis = axis_of(self.axis, data.rank()).map_err(refuse)?;
        if indices.elements() == 1 {
            let index = call.ints(1)?[0];
            call.set(0, Self::one(data, axis, index, indices.rank())?);
            return Ok(());
        }
        let mut shape = Dims::from_slice(&data.shape()[..axis]);
        shape.extend_from_slice(indices.shape());
        shape.extend_from_slice(&data.shape()[axis + 1..]);
        let indices = call.dense(indices)?;
        let source = carried(data)?;
        let out = moved(call, data.dtype(), &shape, |out| {
            by_width!(data.dtype(), T => by_index!(indices, 1, I => {
                Ok(kernels::gather(&source.view::<T>()?, axis, elements::<I>(&indices)?, out.as_mut_slice::<T>()?)?)
            }))
        })?;
        call.set(0, out);
        Ok(())
    }
}

fn gather(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(Gather {
        axis: build.attributes.int_or("axis", 0)?,
    }))
}

struct GatherElements {
    axis: i64,
}

impl Kernel for GatherElements {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let (data, indices) = (call.require(0)?, call.require(1)?);
        let axis = axis_of(self.axis, data.rank()).map_err(refuse)?;
        let indices = call.dense(indices)?;
        let source = carried(data)?;
        let shape = Dims::from_slice(indices.shape());
        let out = moved(call, data.dtype(), &shape, |out| {
            by_width!(data.dtype(), T => by_index!(indices, 1, I => {
                let (view, numbers) = (source.view::<T>()?, elements::<I>(&indices)?);
                Ok(kernels::gather_elements(&view, axis, numbers, &shape, out.as_mut_slice::<T>()?)?)
            }))
        })?;
        call.set(0, out);
        Ok(())
    }
}

fn gather_elements(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(GatherElements {
        axis: build.attributes.int_or("axis", 0)?,
    }))
}

struct GatherNd {
    batch_dims: usize,
}

impl Kernel for GatherNd {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let (data, indices) = (call.require(0)?, call.require(1)?);
        let (extents, depth) = (
            indices.shape(),
            indices.shape().last().copied().unwrap_or(0),
        );
        let kept = self
            .batch_dims
            .checked_add(depth)
            .and_then(|used| data.shape().get(used..));
        let (Some(kept), Some((_, lead))) = (kept, extents.split_last()) else {
            return Err(OpError::Shape(format!(
                "indices of shape {extents:?} with {} batch axes do not fit data of shape {:?}",
                self.batch_dims,
                data.shape()
            )));
        };
        let mut shape = Dims::from_slice(lead);
        shape.extend_from_slice(kept);
        let indices = call.dense(indices)?;
        let source = carried(data)?;
        let out = moved(call, data.dtype(), &shape, |out| {
            by_width!(data.dtype(), T => by_index!(indices, 1, I => {
                let (view, numbers) = (source.view::<T>()?, elements::<I>(&indices)?);
                let out = out.as_mut_slice::<T>()?;
                Ok(kernels::gather_nd(&view, self.batch_dims, numbers, indices.shape(), out)?)
            }))
        })?;
        call.set(0, out);
        Ok(())
    }
}

fn gather_nd(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let batch = if build.opset >= 12 {
        build.attributes.int_or("batch_dims", 0)?
    } else {
        0
    };
    let batch_dims = usize::try_from(batch).map_err(|_| AttributeError::Value {
        name: "batch_dims",
        expected: "at least 0",
        got: batch.to_string(),
    })?;
    Ok(Box::new(GatherNd { batch_dims }))
}

/// Runs `$body` with `$t` standing for the numeric type `$dtype` of input `$index`.
macro_rules! by_number {
    ($dtype:expr, $index:expr, $t:ident => $body:expr) => {
        by_number!(@ $dtype, $index, $t, $body;
            Float f32, Double f64, Float16 f16, Bfloat16 bf16, Int8 i8, Int16 i16, Int32 i32, Int64 i64,
            Uint8 u8, Uint16 u16, Uint32 u32, Uint64 u64)
    };
    (@ $dtype:expr, $index:expr, $t:ident, $body:expr; $($name:ident $rust:ty),*) => {
        match $dtype {
            $(refeed_values::DType::$name => { type $t = $rust; $body })*
            got => Err($crate::kernel::OpError::DType { index: $index, expected: "numbers".to_string(), got }),
        }
    };
}
pub(super) use by_number;

struct TopK {
    axis: i64,
    /// Where an attribute gives it.
    k: Option<i64>,
    largest: bool,
}

impl Kernel for TopK {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let axis = axis_of(self.axis, x.rank()).map_err(refuse)?;
        let k = match self.k {
            Some(k) => k,
            None => one_int(call, 1, "K")?.ok_or(OpError::MissingInput { index: 1 })?,
        };
        let extent = x.shape()[axis];
        let k = usize::try_from(k)
            .ok()
            .filter(|&k| k <= extent)
            .ok_or_else(|| OpError::Value {
                what: "K",
                expected: format!("a value in [0, {extent}]"),
                got: k.to_string(),
            })?;
        let mut shape = Dims::from_slice(x.shape());
        shape[axis] = k;
        let mut values = call.allocate(x.dtype(), &shape)?;
        let mut positions = call.allocate(DType::Int64, &shape)?;
        by_number!(x.dtype(), 0, T => {
            let (values, positions) = (values.as_mut_slice::<T>()?, positions.as_mut_slice::<i64>()?);
            Ok(kernels::top_k(&x.view::<T>()?, axis, k, self.largest, values, positions)?)
        })?;
        call.set(0, values.freeze());
        call.set(1, positions.freeze());
        Ok(())
    }
}

fn top_k(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let axis = build.attributes.int_or("axis", -1)?;
    let k = if build.opset < 10 {
        Some(build.attributes.required_int("k")?)
    } else {
        None
    };
    let mut largest = true;
    if build.opset >= 11 {
        largest = build.attributes.flag("largest", true)?;
        // Sorted is one of the orders that an unsorted result may have.
        build.attributes.flag("sorted", true)?;
    }
    Ok(Box::new(TopK { axis, k, largest }))
}

struct NonZero;

impl Kernel for NonZero {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let out = if x.dtype() == DType::Bool {
            indices_of::<u8>(call, x)?
        } else {
            by_number!(x.dtype(), 0, T => indices_of::<T>(call, x))?
        };
        call.set(0, out);
        Ok(())
    }
}

fn indices_of<T: refeed_values::Element>(
    call: &mut Invocation<'_>,
    x: &Tensor,
) -> Result<Tensor, OpError> {
    let view = x.view::<T>()?;
    let mut out = call.allocate(DType::Int64, &[x.rank(), kernels::count_non_zero(&view)])?;
    kernels::non_zero(&view, out.as_mut_slice::<i64>()?)?;
    Ok(out.freeze())
}

fn non_zero(_: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(NonZero))
}

/// A numeric type that casts to INT64 as ONNX's `Cast` does for values in range.
trait Whole: refeed_values::Element {
    fn whole(self) -> i64;
}
macro_rules! whole {
    ($($t:ty: $via:ident => $cast:expr),*) => { $(impl Whole for $t { fn whole(self) -> i64 { let $via = self; $cast } })* };
}
whole!(f32: x => x as i64, f64: x => x as i64, f16: x => x.to_f32() as i64, bf16: x => x.to_f32() as i64,
    i8: x => x.into(), i16: x => x.into(), i32: x => x.into(), i64: x => x,
    u8: x => x.into(), u16: x => x.into(), u32: x => x.into(), u64: x => i64::try_from(x).unwrap_or(i64::MAX));

fn whole_numbers(tensor: &Tensor, index: usize, out: &mut [i64]) -> Result<(), OpError> {
    by_number!(tensor.dtype(), index, T => {
        for (slot, value) in out.iter_mut().zip(tensor.view::<T>()?.iter()) {
            *slot = value.whole();
        }
        Ok(())
    })
}

struct OneHot {
    axis: i64,
}

impl Kernel for OneHot {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let (indices, depth, values) = (call.require(0)?, call.require(1)?, call.require(2)?);
        let axis = axis_of(self.axis, indices.rank() + 1).map_err(refuse)?;
        let refused = |what, expected: &str, got: String| OpError::Value {
            what,
            expected: expected.to_string(),
            got,
        };
        if depth.elements() != 1 {
            return Err(refused(
                "depth",
                "one number",
                format!("{} numbers", depth.elements()),
            ));
        }
        let mut number = [0];
        whole_numbers(depth, 1, &mut number)?;
        let depth = usize::try_from(number[0])
            .map_err(|_| refused("depth", "at least 0", number[0].to_string()))?;
        if values.shape() != [2] {
            return Err(OpError::Shape(format!(
                "values: expected shape [2], got {:?}",
                values.shape()
            )));
        }
        let mut shape = Dims::from_slice(indices.shape());
        shape.insert(axis, depth);
        Extent::new(values.dtype(), &shape).map_err(TensorError::from)?;
        let inner = indices.shape()[axis..].iter().product();
        let mut numbers = call.allocate(DType::Int64, indices.shape())?;
        whole_numbers(indices, 0, numbers.as_mut_slice::<i64>()?)?;
        let numbers = numbers.freeze();
        let pair = carried(values)?;
        let out = moved(call, values.dtype(), &shape, |out| {
            by_width!(values.dtype(), T => {
                let view = pair.view::<T>()?;
                let pair = (view.get(&[0]).unwrap_or_default(), view.get(&[1]).unwrap_or_default());
                Ok(kernels::one_hot(elements::<i64>(&numbers)?, depth, inner, pair, out.as_mut_slice::<T>()?)?)
            })
        })?;
        call.recycle(numbers);
        call.set(0, out);
        Ok(())
    }
}

fn one_hot(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(OneHot {
        axis: build.attributes.int_or("axis", -1)?,
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
    entry("Gather", &[(0, MOVABLE), (1, INDICES)], gather),
    entry(
        "GatherElements",
        &[(0, MOVABLE), (1, INDICES)],
        gather_elements,
    ),
    entry("GatherND", &[(0, MOVABLE), (1, INDICES)], gather_nd),
    entry("TopK", &[(0, NUMBERS)], top_k),
    entry("NonZero", &[(0, ALL)], non_zero),
    entry(
        "OneHot",
        &[(0, NUMBERS), (1, NUMBERS), (2, MOVABLE)],
        one_hot,
    ),
];

#[cfg(test)]
mod tests {
    use super::super::trial::{Trial, floats, ints, listed};
    use super::*;

    #[test]
    fn one_index_is_a_view() {
        let x = floats(&[4, 3, 2]);
        for (index, shape) in [
            (Tensor::scalar(-3i64).unwrap(), &[4, 2][..]),
            (ints(&[0]), &[4, 1, 2]),
        ] {
            let out = Trial::new("Gather", 13)
                .int("axis", 1)
                .one(&[&x, &index])
                .unwrap();
            assert_eq!((out.shape(), out.as_ptr()), (shape, x.as_ptr()));
        }
        for bad in [3, -4, i64::MIN, i64::MAX] {
            assert!(
                Trial::new("Gather", 13)
                    .int("axis", 1)
                    .one(&[&x, &ints(&[bad])])
                    .is_err(),
                "{bad}"
            );
        }
        let none = floats(&[0, 2]);
        assert!(Trial::new("Gather", 13).one(&[&none, &ints(&[0])]).is_err());
    }

    #[test]
    fn several_indices_of_both_types() {
        let x = floats(&[3, 2]);
        let v = listed(&x);
        let want = [v[4], v[5], v[0], v[1]];
        assert_eq!(
            listed(
                &Trial::new("Gather", 13)
                    .one(&[&x, &ints(&[-1, 0])])
                    .unwrap()
            ),
            want
        );
        let narrow = Tensor::from_slice(&[2], &[2i32, -3]).unwrap();
        assert_eq!(
            listed(&Trial::new("Gather", 13).one(&[&x, &narrow]).unwrap()),
            want
        );
        let flags = Tensor::from_slice(&[2, 2], &[1u8, 0, 0, 1])
            .unwrap()
            .reinterpret(DType::Bool)
            .unwrap();
        let at = Tensor::from_slice(&[3, 2], &[0i64, 0, -1, -1, 1, 0]).unwrap();
        let out = Trial::new("GatherND", 13)
            .int("batch_dims", 0)
            .one(&[&flags, &at])
            .unwrap();
        assert_eq!(
            (out.dtype(), out.as_bytes().unwrap()),
            (DType::Bool, &[1, 1, 0][..])
        );
        let scalar = Tensor::scalar(0i64).unwrap();
        assert!(Trial::new("GatherND", 13).one(&[&flags, &scalar]).is_err());
        assert!(
            Trial::new("GatherND", 13)
                .int("batch_dims", i64::MAX)
                .one(&[&flags, &at])
                .is_err()
        );
    }

    #[test]
    fn counts_that_are_no_counts_are_refused() {
        let x = floats(&[4]);
        for bad in [ints(&[-1]), ints(&[5]), ints(&[1, 1]), ints(&[])] {
            assert!(
                Trial::new("TopK", 11).outputs(2).one(&[&x, &bad]).is_err(),
                "{bad:?}"
            );
        }
        let values = floats(&[2]);
        for depth in [-1, i64::MAX] {
            assert!(
                Trial::new("OneHot", 11)
                    .one(&[&ints(&[0, 1]), &ints(&[depth]), &values])
                    .is_err()
            );
        }
        assert!(
            Trial::new("OneHot", 11)
                .one(&[&ints(&[0, 1]), &ints(&[3]), &x])
                .is_err()
        );
    }
}
