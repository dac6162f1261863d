//! `ai.rt::QuantizePagedCache`: chosen pages of a cache in other formats, the rest as it was.
//!
//! Everything is checked before the first page is converted: the inputs, the whole cache page by page (without decoding
//! one), the selection. A chosen page is decoded as far as it is valid and encoded again with its capacity; rows past its
//! tokens are written as zeros and never read. All other pages stay the very values that they were.

use super::DOMAIN;
use crate::kernel::{Build, Invocation, Kernel, KernelEntry, Kinds, OpError};
use refeed_kernels::quantize::{Division, Format, Payload, QuantizeError, Rows, Storage, encode};
use refeed_values::encoded::{CODES, code};
use refeed_values::paged_cache::{BLOCKS, CacheMemo, DENSE, PAGE, PageFault, blocks, page};
use refeed_values::{DType, RuntimeSequence, RuntimeValue, StructValue, Tensor, TensorMut};
use std::sync::{Mutex, PoisonError};

/// The inputs, as messages name them.
const INPUTS: [&str; 6] = [
    "cache",
    "block_indices",
    "key_scale",
    "key_zero_point",
    "value_scale",
    "value_zero_point",
];

pub(super) const KERNEL: KernelEntry = KernelEntry {
    domain: DOMAIN,
    op_type: "QuantizePagedCache",
    types: &[],
    build,
};

fn build(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    for (index, name) in INPUTS.iter().enumerate() {
        if !build.has(index) {
            return Err(OpError::Unsupported(format!("a node without {name}")));
        }
    }
    Ok(Box::<QuantizePagedCache>::default())
}

#[derive(Default)]
struct QuantizePagedCache {
    /// Pages that were checked before. Calls of one session may run side by side.
    checked: Mutex<CacheMemo>,
}

impl Kernel for QuantizePagedCache {
    fn reads(&self) -> Kinds {
        Kinds::Any
    }

    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let cache = call.require_value(0)?;
        let Some(pages) = blocks(cache) else {
            return Err(OpError::Kind {
                index: 0,
                expected: "a paged cache: a structure of the one field `blocks`, a sequence",
                got: cache.kind(),
            });
        };
        let chosen = indices(call, 1)?;
        let scales = [scale(call, 2)?, scale(call, 4)?];
        let formats = [format(call, 3, scales[0])?, format(call, 5, scales[1])?];
        // What a memo knows holds whoever panicked while filling it.
        let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        checked.check(cache)?;
        drop(checked);
        let chosen = distinct(chosen, pages.len())?;
        if chosen.is_empty() {
            call.set(0, cache.clone());
            return Ok(());
        }
        let [key, value] = formats;
        let storages = [storage(&key)?, storage(&value)?];
        let mut converted = pages.clone();
        for index in chosen {
            call.check_interrupt()?;
            converted.set(index, convert_page(call, pages, index, &storages)?)?;
        }
        call.set(0, StructValue::new([(BLOCKS, converted.into())])?);
        Ok(())
    }
}

/// The numbers of a selection.
fn indices(call: &Invocation<'_>, index: usize) -> Result<Vec<i64>, OpError> {
    let tensor = call.require(index)?;
    if tensor.dtype() != DType::Int64 {
        return Err(OpError::DType {
            index,
            expected: DType::Int64.to_string(),
            got: tensor.dtype(),
        });
    }
    if tensor.rank() != 1 {
        return Err(OpError::Value {
            what: INPUTS[index],
            expected: "one axis".to_string(),
            got: format!("shape {:?}", tensor.shape()),
        });
    }
    Ok(tensor.view::<i64>()?.to_vec())
}

/// Positions of pages, each once.
fn distinct(indices: Vec<i64>, pages: usize) -> Result<Vec<usize>, OpError> {
    let refuse = |expected: String, got: String| OpError::Value {
        what: INPUTS[1],
        expected,
        got,
    };
    let mut chosen = Vec::with_capacity(indices.len());
    for index in indices {
        let position = usize::try_from(index).ok().filter(|at| *at < pages);
        let expected = || match pages {
            0 => "no index, as the cache has no page".to_string(),
            pages => format!("0 to {}", pages - 1),
        };
        chosen.push(position.ok_or_else(|| refuse(expected(), index.to_string()))?);
    }
    chosen.sort_unstable();
    match chosen.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(refuse(
            "each page once".to_string(),
            format!("{} more than once", pair[0]),
        )),
        None => Ok(chosen),
    }
}

/// A parameter that is a tensor without axes.
fn scalar<'a>(call: &Invocation<'a>, index: usize) -> Result<&'a Tensor, OpError> {
    let tensor = call.require(index)?;
    if tensor.rank() == 0 {
        return Ok(tensor);
    }
    Err(OpError::Value {
        what: INPUTS[index],
        expected: "a scalar".to_string(),
        got: format!("shape {:?}", tensor.shape()),
    })
}

fn scale(call: &Invocation<'_>, index: usize) -> Result<f32, OpError> {
    let tensor = scalar(call, index)?;
    if tensor.dtype() != DType::Float {
        return Err(OpError::DType {
            index,
            expected: DType::Float.to_string(),
            got: tensor.dtype(),
        });
    }
    let scale = tensor.view::<f32>()?.iter().next().unwrap_or(0.0);
    if scale > 0.0 && scale.is_finite() {
        return Ok(scale);
    }
    Err(OpError::Value {
        what: INPUTS[index],
        expected: "a positive finite number".to_string(),
        got: scale.to_string(),
    })
}

/// What a zero point asks for: its type is the format, and for codes its value belongs to it. `scale` is that of
/// the input beside it, which formats without codes do not use.
fn format(call: &Invocation<'_>, index: usize, scale: f32) -> Result<Format, OpError> {
    let tensor = scalar(call, index)?;
    let dtype = tensor.dtype();
    if DENSE.contains(&dtype) {
        return Ok(Format::dense(dtype));
    }
    if !CODES.contains(&dtype) {
        let names = CODES.iter().chain(&DENSE).map(|dtype| dtype.name());
        return Err(OpError::DType {
            index,
            expected: names.collect::<Vec<_>>().join(", "),
            got: dtype,
        });
    }
    let Some(bytes) = tensor.as_bytes().filter(|bytes| !bytes.is_empty()) else {
        return Err(OpError::Value {
            what: INPUTS[index],
            expected: "a value".to_string(),
            got: "none".to_string(),
        });
    };
    Ok(Format::affine(dtype, scale, code(bytes, dtype, 0)))
}

fn storage(format: &Format) -> Result<Storage, OpError> {
    Ok(format.storage()?)
}

/// The page at `index` in other formats.
fn convert_page(
    call: &mut Invocation<'_>,
    pages: &RuntimeSequence,
    index: usize,
    to: &[Storage; 2],
) -> Result<RuntimeValue, OpError> {
    let held = pages.at(index)?;
    let named = |fault: PageFault| PageFault {
        block: Some(index),
        ..fault
    };
    let parts = page(held).map_err(named)?;
    // The check of the whole cache holds the length to 1 and to the capacity.
    let length = usize::try_from(parts.length).unwrap_or(0);
    let [start, count, key, value] = PAGE;
    let place = |field| (index, field);
    let fields = [
        (key, convert(call, parts.key, length, &to[0], place(key))?),
        (
            value,
            convert(call, parts.value, length, &to[1], place(value))?,
        ),
    ];
    // Start and length stay the tensors that they were.
    let kept = [start, count].into_iter().filter_map(|name| {
        let field = held.fields()?.get(name)?;
        Some((name, field.clone()))
    });
    Ok(StructValue::new(kept.chain(fields))?.into())
}

/// Keys or values of one page in another format.
fn convert(
    call: &mut Invocation<'_>,
    held: &RuntimeValue,
    length: usize,
    to: &Storage,
    place: (usize, &'static str),
) -> Result<RuntimeValue, OpError> {
    let source = Payload::of(held).map_err(|error| told(error, place))?;
    let [batch, heads, capacity, width] = source.extents();
    let extents = [batch, heads, length, width];
    let mut scratch = call.allocate(DType::Float, &extents)?;
    let rows = scratch.as_mut_slice::<f32>()?;
    source
        .decode(length, rows)
        .map_err(|error| told(error, place))?;
    let rows = Rows::new(rows, extents).map_err(|error| told(error, place))?;
    // Pages outlive the call one by one, so each has memory of its own.
    let memory = call.pool.output_allocator();
    let made = encode(&rows, capacity, to, Division::Single, |dtype, shape| {
        Ok::<_, QuantizeError>(TensorMut::new(memory, dtype, shape)?)
    });
    let made = made.map_err(|error| told(error, place))?;
    call.recycle(scratch.freeze());
    Ok(made)
}

/// A conversion that failed, with the page and the field.
fn told(error: QuantizeError, (block, field): (usize, &'static str)) -> OpError {
    match error {
        QuantizeError::Part {
            part,
            expected,
            got,
        } => OpError::Page(PageFault {
            block: Some(block),
            field: format!("{field}.{part}"),
            expected,
            got,
        }),
        other => other.into(),
    }
}
