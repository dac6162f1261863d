//! `Concat`, and with it the append of most exported caches.

use super::layout::refuse;
use super::width::{MOVABLE, by_width, carried, moved};
use crate::events::StorageReport;
use crate::kernel::{Build, Invocation, Kernel, KernelEntry, OpError};
use refeed_graph::ops::layout::axis_of;
use refeed_kernels::movement::place;
use refeed_values::Tensor;
use refeed_values::layout::Dims;
use smallvec::SmallVec;

/// Why a retained value is copied that is not the first part.
pub(crate) const NOT_FIRST: &str = "Concat does not put the retained value first";

struct Concat {
    axis: i64,
}

/// Parts that are joined: shapes have as many numbers.
type Parts<'a> = SmallVec<[&'a Tensor; 16]>;

/// The shape of the inputs joined along `axis`.
fn inputs_joined(call: &Invocation<'_>, axis: usize) -> Result<Dims, OpError> {
    let first = call.require(0)?;
    let mut parts = Parts::new();
    for index in 0..call.input_count() {
        let part = call.require(index)?;
        if part.dtype() != first.dtype() {
            return Err(OpError::DType {
                index,
                expected: first.dtype().to_string(),
                got: part.dtype(),
            });
        }
        parts.push(part);
    }
    joined(&parts, axis, "input")
}

/// The shape of parts joined along `axis`; every other extent agrees. `role` is what errors call a part.
pub(super) fn joined(parts: &[&Tensor], axis: usize, role: &str) -> Result<Dims, OpError> {
    let Some((first, others)) = parts.split_first() else {
        return Err(OpError::Shape(format!("expected at least one {role}")));
    };
    let mut shape = Dims::from_slice(first.shape());
    for (index, part) in others.iter().enumerate() {
        let (index, own) = (index + 1, part.shape());
        let fits = own.len() == shape.len()
            && own
                .iter()
                .zip(&shape)
                .enumerate()
                .all(|(at, (a, b))| at == axis || a == b);
        if !fits {
            return Err(OpError::Shape(format!(
                "{role} {index} of shape {own:?} does not join {:?} along axis {axis}",
                first.shape()
            )));
        }
        shape[axis] = shape[axis].checked_add(own[axis]).ok_or_else(|| {
            OpError::Shape(format!(
                "the extents along axis {axis} do not fit in a number"
            ))
        })?;
    }
    Ok(shape)
}

/// Parts of one type joined along `axis` in new memory; `shape` is what [`joined`] says of them.
pub(super) fn dense(
    call: &mut Invocation<'_>,
    parts: &[&Tensor],
    shape: &[usize],
    axis: usize,
) -> Result<Tensor, OpError> {
    let Some(dtype) = parts.first().map(|part| part.dtype()) else {
        return Err(OpError::Shape("nothing to join".to_string()));
    };
    moved(call, dtype, shape, |out| {
        by_width!(dtype, T => {
            let out = out.as_mut_slice::<T>()?;
            let mut first = 0;
            for part in parts {
                let part = carried(part)?;
                place(&part.view::<T>()?, out, shape, axis, first)?;
                first += part.shape()[axis];
            }
            Ok(())
        })
    })
}

impl Concat {
    /// Writes the parts behind the retained first input into rows reserved for them. `false` when there are none.
    fn append(call: &mut Invocation<'_>, shape: &[usize], axis: usize) -> Result<bool, OpError> {
        let Some(mut rows) = call.reserve(0, 0, shape, axis)? else {
            return Ok(false);
        };
        let mut at = 0;
        for index in 1..call.input_count() {
            let part = call.require(index)?;
            rows.write_rows(at, part)?;
            at += part.shape()[axis];
        }
        let append_copied_bytes = rows.counters().append_copied_bytes;
        call.report(StorageReport {
            append_copied_bytes,
            ..StorageReport::default()
        });
        call.commit(0, rows)?;
        Ok(true)
    }

    /// All parts in new memory.
    fn dense(call: &mut Invocation<'_>, shape: &[usize], axis: usize) -> Result<Tensor, OpError> {
        let mut parts = Parts::new();
        for index in 0..call.input_count() {
            parts.push(call.require(index)?);
        }
        dense(call, &parts, shape, axis)
    }
}

impl Kernel for Concat {
    fn append_axis(&self) -> Option<i64> {
        Some(self.axis)
    }

    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let axis = axis_of(self.axis, call.require(0)?.rank()).map_err(refuse)?;
        let shape = inputs_joined(call, axis)?;
        let Some(retained) = call.bound_input(0) else {
            // One part alone, or beside empty ones, is the result.
            let mut filled = (0..call.input_count())
                .filter_map(|i| call.input(i))
                .filter(|x| x.elements() > 0);
            if let (Some(only), None) = (filled.next(), filled.next()) {
                call.set(0, only.clone());
                return Ok(());
            }
            let out = Self::dense(call, &shape, axis)?;
            call.set(0, out);
            return Ok(());
        };
        if retained == 0 {
            if Self::append(call, &shape, axis)? {
                return Ok(());
            }
        } else {
            call.copied_because(0, NOT_FIRST);
        }
        let prefix = call.require(retained)?.bytes() as u64;
        let out = Self::dense(call, &shape, axis)?;
        let bytes = out.bytes() as u64;
        call.set(0, out);
        call.report(StorageReport {
            allocations: 1,
            allocated_bytes: bytes,
            prefix_copied_bytes: prefix,
            append_copied_bytes: bytes.saturating_sub(prefix),
            ..StorageReport::default()
        });
        Ok(())
    }
}

fn concat(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let axis = match build.opset {
        ..4 => build.attributes.int_or("axis", 1)?,
        _ => build.attributes.required_int("axis")?,
    };
    Ok(Box::new(Concat { axis }))
}

pub(super) const KERNELS: &[KernelEntry] = &[KernelEntry {
    domain: "",
    op_type: "Concat",
    types: &[(0, MOVABLE)],
    build: concat,
}];

#[cfg(test)]
mod tests {
    use super::super::trial::{Trial, floats, listed};
    use super::*;

    #[test]
    fn parts_may_be_strided_empty_and_of_any_type() {
        let a = Trial::new("Transpose", 13)
            .one(&[&floats(&[3, 2])])
            .unwrap();
        let (b, none) = (floats(&[2, 2]), floats(&[2, 0]));
        let out = Trial::new("Concat", 13)
            .int("axis", -1)
            .one(&[&a, &none, &b])
            .unwrap();
        assert_eq!(out.shape(), [2, 5]);
        let (x, y) = (listed(&a), listed(&b));
        assert_eq!(listed(&out), [&x[..3], &y[..2], &x[3..], &y[2..]].concat());
        let flags = |bytes: &[u8]| {
            let bytes = Tensor::from_slice(&[bytes.len()], bytes).unwrap();
            bytes.reinterpret(refeed_values::DType::Bool).unwrap()
        };
        let out = Trial::new("Concat", 13)
            .int("axis", 0)
            .one(&[&flags(&[1, 0]), &flags(&[1])])
            .unwrap();
        assert_eq!(
            (out.dtype(), out.as_bytes().unwrap()),
            (refeed_values::DType::Bool, &[1, 0, 1][..])
        );
    }

    #[test]
    fn one_part_beside_empty_ones_is_not_copied() {
        let (x, none) = (floats(&[2, 3]), floats(&[0, 3]));
        let out = Trial::new("Concat", 13)
            .int("axis", 0)
            .one(&[&none, &x])
            .unwrap();
        assert_eq!(out.as_ptr(), x.as_ptr());
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        let x = floats(&[2, 3]);
        let concat = Trial::new("Concat", 13).int("axis", 0);
        assert!(concat.one(&[&x, &floats(&[2, 4])]).is_err());
        assert!(concat.one(&[&x, &floats(&[3])]).is_err());
        assert!(
            concat
                .one(&[&x, &Tensor::from_slice(&[1, 3], &[1i32, 2, 3]).unwrap()])
                .is_err()
        );
        assert!(
            Trial::new("Concat", 13)
                .int("axis", 2)
                .one(&[&x, &x])
                .is_err()
        );
        assert!(Trial::new("Concat", 13).one(&[&x]).is_err());
    }
}
