//! Tensors of one shape side by side along a new leading axis: what the iterations of a loop give.

use crate::kernel::{Invocation, OpError};
use refeed_graph::types::TensorType;
use refeed_values::layout::{Dims, Layout};
use refeed_values::{DType, Extent, RuntimeValue, Tensor, TensorError, TensorMut};

/// Bytes that a stack of unknown height starts with, at least.
const START: usize = 4096;

/// Parts are written where they stay, or moved a constant number of times on average: memory doubles when it is full.
pub(crate) struct Stack {
    height: Height,
    memory: Option<Memory>,
}

/// How many parts there will be.
#[derive(Clone, Copy)]
enum Height {
    Exactly(usize),
    AtMost(Option<usize>),
}

struct Memory {
    rows: TensorMut,
    /// Shape of a part.
    part: Dims,
    row_bytes: usize,
    capacity: usize,
    used: usize,
}

impl Stack {
    /// A stack of exactly `height` parts: its memory is taken at once.
    pub(crate) fn of(height: usize) -> Stack {
        Stack {
            height: Height::Exactly(height),
            memory: None,
        }
    }

    /// A stack that grows up to so many parts, where that is known.
    pub(crate) fn up_to(most: Option<usize>) -> Stack {
        Stack {
            height: Height::AtMost(most),
            memory: None,
        }
    }

    /// Adds a part behind the others.
    ///
    /// # Errors
    /// As [`Stack::put`].
    pub(crate) fn push(
        &mut self,
        call: &mut Invocation<'_>,
        part: Option<&RuntimeValue>,
    ) -> Result<(), OpError> {
        let row = self.memory.as_ref().map_or(0, |memory| memory.used);
        self.put(call, row, part)
    }

    /// Writes a part. Parts that are never written are zeros, in a stack of exact height.
    ///
    /// # Errors
    /// When the part is no tensor, differs from the others in type or shape, or memory cannot be had.
    pub(crate) fn put(
        &mut self,
        call: &mut Invocation<'_>,
        row: usize,
        part: Option<&RuntimeValue>,
    ) -> Result<(), OpError> {
        let part = match part {
            Some(RuntimeValue::Tensor(part)) => part,
            other => {
                return Err(OpError::Value {
                    what: "part of a stacked output",
                    expected: "a tensor".to_string(),
                    got: other.map_or("nothing", RuntimeValue::kind).to_string(),
                });
            }
        };
        let height = self.height;
        let memory = match &mut self.memory {
            Some(memory) => memory,
            none => none.insert(Memory::new(call, height, part)?),
        };
        memory.fits(part)?;
        if row >= memory.capacity {
            memory.grow(call, height)?;
        }
        memory.write(call, row, part)
    }

    /// All parts, along a new axis 0; `None` when there was none.
    ///
    /// # Errors
    /// When memory cannot be had.
    pub(crate) fn finish(self, call: &mut Invocation<'_>) -> Result<Option<Tensor>, OpError> {
        let Some(memory) = self.memory else {
            return Ok(None);
        };
        let used = match self.height {
            Height::Exactly(height) => height,
            Height::AtMost(_) => memory.used,
        };
        let whole = memory.rows.freeze();
        let rows = whole.with_layout(Layout::contiguous(&stacked(used, &memory.part)), 0)?;
        // What was reserved for far more parts than came is not kept.
        if used < memory.capacity / 2 && memory.capacity * memory.row_bytes > START {
            let mut exact = call.allocate(rows.dtype(), rows.shape())?;
            rows.copy_into(&mut exact)?;
            drop(rows);
            call.recycle(whole);
            return Ok(Some(exact.freeze()));
        }
        Ok(Some(rows))
    }
}

fn stacked(height: usize, part: &[usize]) -> Dims {
    let mut shape = Dims::with_capacity(part.len() + 1);
    shape.push(height);
    shape.extend_from_slice(part);
    shape
}

impl Memory {
    fn new(call: &mut Invocation<'_>, height: Height, part: &Tensor) -> Result<Memory, OpError> {
        let (dtype, row_bytes) = (part.dtype(), part.bytes());
        // Elements of 4 bits fill a byte by twos.
        if !(part.elements() % 8 * dtype.bits()).is_multiple_of(8) {
            return Err(OpError::Unsupported(format!(
                "stacking {dtype} tensors of shape {:?}, which do not fill whole bytes",
                part.shape()
            )));
        }
        let capacity = match height {
            Height::Exactly(height) => height,
            Height::AtMost(most) => {
                let start = (START / row_bytes.max(1)).max(4);
                most.map_or(start, |most| most.min(start))
            }
        };
        let mut rows = call.allocate(dtype, &stacked(capacity, part.shape()))?;
        if let Height::Exactly(_) = height {
            rows.as_mut_bytes().fill(0);
        }
        Ok(Memory {
            rows,
            part: Dims::from_slice(part.shape()),
            row_bytes,
            capacity,
            used: 0,
        })
    }

    fn fits(&self, part: &Tensor) -> Result<(), OpError> {
        if part.dtype() == self.rows.dtype() && part.shape() == &self.part[..] {
            return Ok(());
        }
        Err(OpError::Value {
            what: "part of a stacked output",
            expected: format!("{}{:?} as the first part", self.rows.dtype(), self.part),
            got: format!("{}{:?}", part.dtype(), part.shape()),
        })
    }

    fn grow(&mut self, call: &mut Invocation<'_>, height: Height) -> Result<(), OpError> {
        let most = match height {
            Height::Exactly(height) => height,
            Height::AtMost(most) => most.unwrap_or(usize::MAX),
        };
        let capacity = self.capacity.saturating_mul(2).min(most);
        let dtype = self.rows.dtype();
        let mut rows = call.allocate(dtype, &stacked(capacity, &self.part))?;
        let filled = self.used * self.row_bytes;
        rows.as_mut_bytes()[..filled].copy_from_slice(&self.rows.as_mut_bytes()[..filled]);
        let old = std::mem::replace(&mut self.rows, rows);
        call.recycle(old.freeze());
        self.capacity = capacity;
        Ok(())
    }

    fn write(
        &mut self,
        call: &mut Invocation<'_>,
        row: usize,
        part: &Tensor,
    ) -> Result<(), OpError> {
        let dense = call.dense(part)?;
        let at = row * self.row_bytes;
        if let Some(bytes) = dense.as_bytes() {
            self.rows.as_mut_bytes()[at..at + self.row_bytes].copy_from_slice(bytes);
        }
        if !part.is_contiguous() {
            call.recycle(dense);
        }
        self.used = self.used.max(row + 1);
        Ok(())
    }
}

/// What a loop without iterations stacks: no part, with what is known of one. Extents that are not known are 0.
///
/// # Errors
/// When the element type is not known.
pub(crate) fn empty_stack(
    call: &mut Invocation<'_>,
    part: &TensorType,
    height: usize,
) -> Result<Tensor, OpError> {
    let dtype: DType = part.dtype.ok_or_else(|| {
        OpError::Unsupported(
            "a loop without iterations whose stacked output has no known element type".to_string(),
        )
    })?;
    let part: Dims = match &part.shape {
        Some(shape) => shape.iter().map(|dim| dim.known().unwrap_or(0)).collect(),
        None => Dims::new(),
    };
    let shape = stacked(height, &part);
    Extent::new(dtype, &shape).map_err(TensorError::from)?;
    let mut out = call.allocate(dtype, &shape)?;
    out.as_mut_bytes().fill(0);
    Ok(out.freeze())
}
