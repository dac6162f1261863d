//! Adapters of sequences. Elements are handles; what a caller lends is copied before a sequence keeps it.

use super::concat::{dense, joined};
use super::layout::{part_of, position_of, refuse};
use super::width::one_int;
use crate::kernel::{Build, Invocation, Kernel, KernelEntry, Kinds, OpError};
use refeed_graph::ops::layout::axis_of;
use refeed_graph::schema::normalize_axis;
use refeed_values::{DType, RuntimeSequence, RuntimeValue, Tensor};

/// Most parts that one tensor is cut into: a tensor without elements may have any extent.
const MOST_PARTS: usize = 1 << 24;

/// The value with nothing in it that a caller may write to later: such tensors are copied, all others shared.
///
/// # Errors
/// When memory cannot be had.
pub(crate) fn own(
    value: &RuntimeValue,
    call: &mut Invocation<'_>,
) -> Result<RuntimeValue, OpError> {
    let owned = value.replace_foreign(&mut |tensor| {
        let mut out = call.pool.tensor(tensor.dtype(), tensor.shape())?;
        tensor.copy_into(&mut out)?;
        Ok(out.freeze())
    });
    Ok(owned?)
}

/// An input that is a sequence.
fn elements<'a>(call: &Invocation<'a>, index: usize) -> Result<&'a RuntimeSequence, OpError> {
    match call.require_value(index)? {
        RuntimeValue::Sequence(elements) => Ok(elements),
        other => Err(OpError::Kind {
            index,
            expected: "a sequence",
            got: other.kind(),
        }),
    }
}

/// The element of `count` that input `index` names, counted from the end when it is negative; `otherwise` when the input
/// is absent.
fn place(
    call: &Invocation<'_>,
    index: usize,
    count: usize,
    otherwise: Option<usize>,
) -> Result<usize, OpError> {
    let position = one_int(call, index, "position")?;
    let found = match position {
        Some(position) => normalize_axis(position, count),
        None => otherwise,
    };
    found.ok_or_else(|| OpError::Value {
        what: "position",
        expected: format!("one of {count} elements, or counted from the end"),
        got: position.map_or_else(|| "none".to_string(), |position| position.to_string()),
    })
}

/// The element of `count` in front of which input `index` says to insert, or `count` for behind all of them.
fn place_between(call: &Invocation<'_>, index: usize, count: usize) -> Result<usize, OpError> {
    match one_int(call, index, "position")? {
        None => Ok(count),
        Some(position) if usize::try_from(position) == Ok(count) => Ok(count),
        Some(position) => normalize_axis(position, count).ok_or_else(|| OpError::Value {
            what: "position",
            expected: format!("a number from -{count} to {count}"),
            got: position.to_string(),
        }),
    }
}

/// The element type of a tensor, encoded or not.
fn dtype_of(value: &RuntimeValue) -> Option<DType> {
    match value {
        RuntimeValue::Tensor(tensor) => Some(tensor.dtype()),
        RuntimeValue::Encoded(encoded) => encoded.logical().map(|(dtype, _)| dtype),
        _ => None,
    }
}

/// Elements of one kind and type, as operators of sequences ask for.
fn check_alike(sequence: &RuntimeSequence, new: &RuntimeValue) -> Result<(), OpError> {
    let refused = |expected: String, got: String| OpError::Value {
        what: "element of a sequence",
        expected,
        got,
    };
    let Some(first) = sequence.front() else {
        return Ok(());
    };
    match (dtype_of(first), dtype_of(new)) {
        (Some(a), Some(b)) if a == b => Ok(()),
        (Some(a), Some(b)) => Err(refused(format!("{a} as the others have"), b.to_string())),
        _ if first.kind() == new.kind() => Ok(()),
        _ => Err(refused(first.kind().to_string(), new.kind().to_string())),
    }
}

/// A kernel of sequences.
struct Each(fn(&mut Invocation<'_>) -> Result<(), OpError>);

impl Kernel for Each {
    fn reads(&self) -> Kinds {
        Kinds::Any
    }

    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        (self.0)(call)
    }
}

fn construct(call: &mut Invocation<'_>) -> Result<(), OpError> {
    let mut sequence = RuntimeSequence::default();
    for index in 0..call.input_count() {
        let element = call.require_value(index)?;
        check_alike(&sequence, element)?;
        let element = own(element, call)?;
        sequence.push(element)?;
    }
    call.set(0, sequence);
    Ok(())
}

fn insert(call: &mut Invocation<'_>) -> Result<(), OpError> {
    let held = elements(call, 0)?;
    let element = call.require_value(1)?;
    check_alike(held, element)?;
    let at = place_between(call, 2, held.len())?;
    let mut sequence = held.clone();
    let element = own(element, call)?;
    sequence.insert(at, element)?;
    call.set(0, sequence);
    Ok(())
}

fn erase(call: &mut Invocation<'_>) -> Result<(), OpError> {
    let held = elements(call, 0)?;
    let at = place(call, 1, held.len(), held.len().checked_sub(1))?;
    let mut sequence = held.clone();
    sequence.remove(at)?;
    call.set(0, sequence);
    Ok(())
}

fn at(call: &mut Invocation<'_>) -> Result<(), OpError> {
    let held = elements(call, 0)?;
    let at = place(call, 1, held.len(), None)?;
    if let Some(element) = held.get(at) {
        call.set(0, element.clone());
    }
    Ok(())
}

fn length(call: &mut Invocation<'_>) -> Result<(), OpError> {
    let count = elements(call, 0)?.len();
    let mut out = call.allocate(DType::Int64, &[])?;
    out.as_mut_slice::<i64>()?.fill(count as i64); // a sequence fits in memory
    call.set(0, out.freeze());
    Ok(())
}

fn empty(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    // The element type is for type inference: an empty sequence has no element that could differ.
    build.attributes.int("dtype")?;
    Ok(Box::new(Each(|call| {
        call.set(0, RuntimeSequence::default());
        Ok(())
    })))
}

/// Elements side by side along an axis of theirs, or along a new one.
struct ConcatFromSequence {
    axis: i64,
    stack: bool,
}

impl Kernel for ConcatFromSequence {
    fn reads(&self) -> Kinds {
        Kinds::Any
    }

    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let sequence = elements(call, 0)?;
        let mut parts: Vec<Tensor> = Vec::with_capacity(sequence.len());
        for (index, element) in sequence.iter().enumerate() {
            let RuntimeValue::Tensor(part) = element else {
                return Err(OpError::Value {
                    what: "element of a sequence",
                    expected: "a tensor".to_string(),
                    got: element.kind().to_string(),
                });
            };
            if let Some(first) = parts.first()
                && first.dtype() != part.dtype()
            {
                return Err(OpError::Value {
                    what: "element of a sequence",
                    expected: format!("elements of {} as in the first", first.dtype()),
                    got: format!("{} in element {index}", part.dtype()),
                });
            }
            parts.push(part.clone());
        }
        let Some(first) = parts.first() else {
            return Err(OpError::Shape(
                "an empty sequence has nothing to join".to_string(),
            ));
        };
        let axis = axis_of(self.axis, first.rank() + usize::from(self.stack)).map_err(refuse)?;
        if self.stack {
            for part in &mut parts {
                let layout = part.layout().unsqueeze(axis);
                let layout = layout.ok_or_else(|| {
                    OpError::Shape(format!("no axis {axis} in front of {:?}", part.shape()))
                })?;
                *part = part.with_layout(layout, 0)?;
            }
        }
        let parts: Vec<&Tensor> = parts.iter().collect();
        let shape = joined(&parts, axis, "element")?;
        let out = dense(call, &parts, &shape, axis)?;
        call.set(0, out);
        Ok(())
    }
}

fn concat(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(ConcatFromSequence {
        axis: build.attributes.required_int("axis")?,
        stack: build.attributes.flag("new_axis", false)?,
    }))
}

/// Parts of a tensor along an axis, as views.
struct SplitToSequence {
    axis: i64,
    keep: bool,
}

impl SplitToSequence {
    /// How long each part is: as input 1 says, or all of 1.
    fn sizes(call: &Invocation<'_>, dim: usize) -> Result<Vec<usize>, OpError> {
        let refused = |expected: &str, got: String| OpError::Value {
            what: "split",
            expected: expected.to_string(),
            got,
        };
        let Some(given) = call.input(1) else {
            return Self::even(dim, 1);
        };
        let numbers = call.ints(1)?;
        if given.rank() == 0 {
            let size = usize::try_from(numbers[0]).ok().filter(|&size| size > 0);
            let size = size.ok_or_else(|| refused("a number above 0", numbers[0].to_string()))?;
            return Self::even(dim, size);
        }
        let sizes: Option<Vec<usize>> = numbers.iter().map(|&n| usize::try_from(n).ok()).collect();
        let sizes = sizes.filter(|sizes| {
            let total = sizes.iter().try_fold(0usize, |sum, &n| sum.checked_add(n));
            given.rank() == 1 && total == Some(dim)
        });
        sizes.ok_or_else(|| {
            let expected = format!("sizes that add up to {dim}");
            refused(&expected, format!("{numbers:?}"))
        })
    }

    /// Parts of one size; the last may be shorter.
    fn even(dim: usize, size: usize) -> Result<Vec<usize>, OpError> {
        let count = dim.div_ceil(size);
        if count > MOST_PARTS {
            return Err(OpError::Value {
                what: "parts of a tensor",
                expected: format!("at most {MOST_PARTS}"),
                got: count.to_string(),
            });
        }
        let size_of = |index: usize| size.min(dim - index * size);
        Ok((0..count).map(size_of).collect())
    }
}

impl Kernel for SplitToSequence {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let given = call.require(0)?;
        let axis = axis_of(self.axis, given.rank()).map_err(refuse)?;
        let sizes = Self::sizes(call, given.shape()[axis])?;
        // One copy of the whole, when one is needed, and views of it.
        let whole = own(&given.clone().into(), call)?;
        let whole = whole.tensor().unwrap_or(given);
        let keep = self.keep || call.input(1).is_some();
        let mut parts = Vec::with_capacity(sizes.len());
        let mut first = 0;
        for size in sizes {
            let part = match keep {
                true => part_of(whole, [(axis, first, size, 1)])?,
                false => position_of(whole, axis, first)?,
            };
            parts.push(RuntimeValue::from(part));
            first += size;
        }
        call.set(0, RuntimeSequence::from_values(parts)?);
        Ok(())
    }
}

fn split(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    Ok(Box::new(SplitToSequence {
        axis: build.attributes.int_or("axis", 0)?,
        keep: build.attributes.flag("keepdims", true)?,
    }))
}

const fn each(
    op_type: &'static str,
    build: fn(&mut Build<'_>) -> Result<Box<dyn Kernel>, OpError>,
) -> KernelEntry {
    KernelEntry {
        domain: "",
        op_type,
        types: &[],
        build,
    }
}

pub(super) const KERNELS: &[KernelEntry] = &[
    each("SequenceEmpty", empty),
    each("SequenceConstruct", |_| Ok(Box::new(Each(construct)))),
    each("SequenceInsert", |_| Ok(Box::new(Each(insert)))),
    each("SequenceErase", |_| Ok(Box::new(Each(erase)))),
    each("SequenceAt", |_| Ok(Box::new(Each(at)))),
    each("SequenceLength", |_| Ok(Box::new(Each(length)))),
    each("ConcatFromSequence", concat),
    each("SplitToSequence", split),
];
