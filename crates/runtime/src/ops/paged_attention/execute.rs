//! One execution, step by step; nothing of it is seen before all of it is done.

use super::cache::{Memo, number, pages_from};
use super::statistics::dequantized_bytes;
use super::{Formats, Options, PagedAttention, PagedResult, PartialBlocks, Statistics, fill, lock};
use crate::kernel::OpError;
use half::{bf16, f16};
use refeed_kernels::Compute;
use refeed_kernels::attention::paged::{PagedError, PagedProblem, paged_attention};
use refeed_kernels::quantize::{Division, QuantizeError, Rows, Storage, encode};
use refeed_values::encoded::infer_storage;
use refeed_values::paged_cache::{BLOCKS, DENSE, PageFault, PageRun, blocks, page, page_of};
use refeed_values::{
    Allocator, DType, Extent, RuntimeSequence, RuntimeValue, StructValue, Tensor, TensorMut, View,
};
use std::borrow::Cow;
use std::sync::Mutex;

/// Where memory comes from.
pub(super) type Allocate<'m> = &'m mut dyn FnMut(DType, &[usize]) -> Result<TensorMut, OpError>;

/// The inputs.
pub(super) struct Operands<'a> {
    pub(super) query: &'a Tensor,
    pub(super) key: &'a Tensor,
    pub(super) value: &'a Tensor,
    pub(super) past: &'a RuntimeValue,
}

/// Extents of the inputs.
#[derive(Debug, Clone, Copy)]
struct Extents {
    batch: usize,
    heads: usize,
    kv_heads: usize,
    length: usize,
    size: usize,
    width: usize,
}

impl Extents {
    /// # Errors
    /// When an input is of another type or its extents do not fit the others'.
    fn of(operands: &Operands<'_>) -> Result<Extents, OpError> {
        let inputs = [operands.query, operands.key, operands.value];
        let mut shapes = [[0; 4]; 3];
        for (index, (tensor, shape)) in inputs.into_iter().zip(&mut shapes).enumerate() {
            let name = ["Q", "K", "V"][index];
            let wanted = operands.query.dtype();
            if !DENSE.contains(&tensor.dtype()) || tensor.dtype() != wanted {
                let expected = match index {
                    0 => "FLOAT, FLOAT16 or BFLOAT16".to_string(),
                    _ => format!("{wanted}, as Q has"),
                };
                return Err(OpError::DType {
                    index,
                    expected,
                    got: tensor.dtype(),
                });
            }
            *shape = tensor.shape().try_into().map_err(|_| {
                let got = tensor.shape();
                OpError::Shape(format!("{name}: expected 4 dimensions, got {got:?}"))
            })?;
            if let Some(axis) = [0, 1, 3].into_iter().find(|&axis| shape[axis] == 0) {
                return Err(OpError::Shape(format!(
                    "axis {axis} of {name}: expected an extent of 1 or more, got 0"
                )));
            }
        }
        let [q, k, v] = shapes;
        let all = Extents {
            batch: q[0],
            heads: q[1],
            kv_heads: k[1],
            length: q[2],
            size: q[3],
            width: v[3],
        };
        let expected = [
            ("K", k, [all.batch, all.kv_heads, all.length, all.size]),
            ("V", v, [all.batch, all.kv_heads, all.length, all.width]),
        ];
        for (name, got, expected) in expected {
            if got != expected {
                return Err(OpError::Shape(format!(
                    "{name}: expected shape {expected:?}, got {got:?}"
                )));
            }
        }
        if !all.heads.is_multiple_of(all.kv_heads) {
            return Err(OpError::Shape(format!(
                "expected a number of query heads that {} key and value heads divide, got {}",
                all.kv_heads, all.heads
            )));
        }
        Ok(all)
    }

    /// Holds the pages' extents to those of the inputs.
    ///
    /// # Errors
    /// With the first extent that differs.
    fn fit(
        &self,
        dims: &refeed_values::paged_cache::CacheDims,
        block_size: usize,
        blocks: &RuntimeSequence,
    ) -> Result<(), OpError> {
        let refuse = |field: &str, expected: String, got: usize| {
            Err(OpError::Page(PageFault {
                block: None,
                field: field.to_string(),
                expected,
                got: got.to_string(),
            }))
        };
        if dims.most_capacity > block_size {
            let mut capacities = blocks.iter().enumerate().filter_map(|(index, page)| {
                Some((index, PageRun::of(page).ok()?.dims().most_capacity))
            });
            let large = capacities.find(|(_, capacity)| *capacity > block_size);
            return Err(OpError::Page(PageFault {
                block: large.map(|(index, _)| index),
                field: "capacity".to_string(),
                expected: format!("at most {block_size}, the block_size"),
                got: large.map_or(dims.most_capacity, |(_, got)| got).to_string(),
            }));
        }
        for (field, got, own, whose) in [
            ("batch of the pages", dims.batch, self.batch, "K"),
            ("heads of the pages", dims.heads, self.kv_heads, "K"),
            ("key width of the pages", dims.key_width, self.size, "K"),
            (
                "value width of the pages",
                dims.value_width,
                self.width,
                "V",
            ),
        ] {
            if got != own {
                return refuse(field, format!("{own}, as {whose} has"), got);
            }
        }
        Ok(())
    }
}

/// Refuses numbers that are not finite.
fn finite(name: &'static str, tensor: &Tensor) -> Result<(), OpError> {
    let found = match tensor.dtype() {
        DType::Float => position(&tensor.view::<f32>()?, |x| x),
        DType::Float16 => position(&tensor.view::<f16>()?, f16::to_f32),
        _ => position(&tensor.view::<bf16>()?, bf16::to_f32),
    };
    match found {
        None => Ok(()),
        Some((at, got)) => Err(OpError::Value {
            what: name,
            expected: "finite numbers".to_string(),
            got: format!("{got} at element {at}"),
        }),
    }
}

fn position<T: refeed_values::Element>(
    view: &View<'_, T>,
    widen: impl Fn(T) -> f32,
) -> Option<(usize, f32)> {
    // Some at a time without a jump, for which a processor has instructions.
    let finite = |numbers: &[T]| {
        let each = numbers.iter().map(|x| widen(*x).is_finite());
        each.fold(true, |all, own| all & own)
    };
    if let Some(all) = view.as_slice()
        && all.chunks(64).all(finite)
    {
        return None;
    }
    let numbers = view.iter().map(&widen).enumerate();
    numbers.into_iter().find(|(_, x)| !x.is_finite())
}

/// The tensor as dense FLOAT: itself, or a copy.
fn floats(tensor: &Tensor, allocate: Allocate<'_>) -> Result<Tensor, OpError> {
    if tensor.dtype() == DType::Float && tensor.is_contiguous() {
        return Ok(tensor.clone());
    }
    let mut out = allocate(DType::Float, tensor.shape())?;
    let slots = out.as_mut_slice::<f32>()?;
    match tensor.dtype() {
        DType::Float => tensor.view::<f32>()?.copy_to(slots),
        DType::Float16 => copy(&tensor.view::<f16>()?, slots, f16::to_f32),
        _ => copy(&tensor.view::<bf16>()?, slots, bf16::to_f32),
    }
    Ok(out.freeze())
}

fn copy<T: refeed_values::Element>(view: &View<'_, T>, slots: &mut [f32], widen: fn(T) -> f32) {
    for (slot, x) in slots.iter_mut().zip(view.iter()) {
        *slot = widen(x);
    }
}

/// Writes FLOAT results in the output's type.
fn narrow(numbers: &[f32], out: &mut TensorMut) -> Result<(), OpError> {
    match out.dtype() {
        DType::Float16 => {
            for (slot, x) in out.as_mut_slice::<f16>()?.iter_mut().zip(numbers) {
                *slot = f16::from_f32(*x);
            }
        }
        _ => {
            for (slot, x) in out.as_mut_slice::<bf16>()?.iter_mut().zip(numbers) {
                *slot = bf16::from_f32(*x);
            }
        }
    }
    Ok(())
}

fn refused(error: PagedError, blocks: &RuntimeSequence) -> OpError {
    match error {
        PagedError::Kernel(source) => OpError::Kernel(source),
        PagedError::Page {
            start,
            field,
            source,
        } => {
            let of = |held: &RuntimeValue| {
                page(held).is_ok_and(|page| usize::try_from(page.start) == Ok(start))
            };
            let (expected, got) = match source {
                QuantizeError::Part { expected, got, .. } => (expected, got),
                other => ("finite numbers".to_string(), other.to_string()),
            };
            OpError::Page(PageFault {
                block: blocks.iter().position(of),
                field: field.to_string(),
                expected: format!("{expected}, as the row is visible"),
                got,
            })
        }
        other => OpError::Custom(Box::new(other)),
    }
}

/// A payload's format as one page states it: only the sign of its codes where their width follows from their size.
fn stated(storage: &Storage, extents: [usize; 4]) -> Result<Cow<'_, Storage>, OpError> {
    let Storage::Affine(affine) = storage else {
        return Ok(Cow::Borrowed(storage));
    };
    let bytes = Extent::new(affine.storage, &extents)
        .map_err(refeed_values::TensorError::from)?
        .bytes();
    let inferred = infer_storage(affine.storage_is_signed(), &extents, bytes).is_ok();
    if affine.inferred == inferred {
        return Ok(Cow::Borrowed(storage));
    }
    Ok(Cow::Owned(Storage::Affine(
        refeed_values::encoded::Affine {
            inferred,
            ..affine.clone()
        },
    )))
}

/// New keys or values, and what they are kept as.
pub(super) struct NewRows<'a> {
    /// The input that they come from.
    name: &'static str,
    rows: Rows<'a>,
    storage: &'a Storage,
    extents: [usize; 4],
}

impl NewRows<'_> {
    /// The payload of `length` rows from `first` on.
    pub(super) fn payload(
        &self,
        first: usize,
        length: usize,
        allocate: Allocate<'_>,
    ) -> Result<RuntimeValue, OpError> {
        let [batch, heads, _, width] = self.extents;
        let storage = stated(self.storage, [batch, heads, length, width])?;
        let rows = self.rows.range(first, length)?;
        let made = encode::<OpError>(&rows, length, &storage, Division::Double, allocate);
        made.map_err(|error| match error {
            OpError::Quantize(QuantizeError::Part {
                part: "rows",
                expected,
                got,
            }) => OpError::Value {
                what: self.name,
                expected,
                got,
            },
            other => other,
        })
    }
}

fn payload_bytes(payload: &RuntimeValue) -> u64 {
    match payload {
        RuntimeValue::Encoded(encoded) => encoded.payload().bytes() as u64,
        other => other.bytes() as u64,
    }
}

fn new_page(
    start: usize,
    length: Tensor,
    key: RuntimeValue,
    value: RuntimeValue,
) -> Result<RuntimeValue, OpError> {
    Ok(page_of(number(start)?, length, key, value)?)
}

impl PagedAttention {
    /// One execution.
    ///
    /// # Errors
    /// When an input breaks a rule, a visible row of a page is not finite, the selector fails or chooses no format, or
    /// memory cannot be had.
    pub(super) fn execute(
        &self,
        operands: &Operands<'_>,
        options: &Options,
        memo: &Mutex<Memo>,
        compute: &Compute<'_>,
        (memory, allocate): (&Allocator, Allocate<'_>),
    ) -> Result<PagedResult, OpError> {
        let extents = Extents::of(operands)?;
        let Extents {
            batch,
            heads,
            kv_heads,
            length,
            size,
            width,
        } = extents;
        let Some(blocks) = blocks(operands.past) else {
            // The check says what is there instead.
            lock(memo).check(operands.past)?;
            return Err(OpError::Kind {
                index: 3,
                expected: "a paged cache",
                got: operands.past.kind(),
            });
        };
        let limit = options.max_tokens;
        if length > limit {
            return Err(OpError::Value {
                what: "new tokens",
                expected: format!("at most {limit}, the max_tokens"),
                got: length.to_string(),
            });
        }
        let (shape, mut validated) = lock(memo).check(operands.past)?;
        if let Some(dims) = &shape.dims {
            extents.fit(dims, options.block_size, blocks)?;
        }
        let past = usize::try_from(shape.tokens).unwrap_or(usize::MAX);
        if past.checked_add(length).is_none_or(|total| total > limit) {
            return Err(OpError::Value {
                what: "retained tokens",
                expected: format!("at most {limit} with the new ones, the max_tokens"),
                got: format!("{past} and {length} new ones"),
            });
        }
        finite("Q", operands.query)?;
        finite("K", operands.key)?;
        finite("V", operands.value)?;
        let formats = match &self.selector {
            Some(selector) if length > 0 => selector.select(operands.key, operands.value, past)?,
            _ => Formats::default(),
        };
        let storage = lock(memo).storage(&formats)?;
        let [key_storage, value_storage] = &*storage;
        let dtype = operands.query.dtype();
        let mut y = allocate(dtype, &[batch, heads, length, width])?;
        if length == 0 {
            self.count(Statistics::default());
            return Ok(PagedResult {
                y: y.freeze(),
                present: operands.past.clone(),
                statistics: Statistics::default(),
            });
        }

        let query = floats(operands.query, &mut *allocate)?;
        let key = floats(operands.key, &mut *allocate)?;
        let value = floats(operands.value, &mut *allocate)?;
        let window = options.left_window_size;
        let low = window
            .and_then(|before| usize::try_from(before).ok())
            .map_or(0, |before| past.saturating_sub(before));
        let pages = match low >= past {
            true => Vec::new(),
            false => pages_from(operands.past, low)?,
        };
        let problem = PagedProblem {
            query: query.view()?,
            key: key.view()?,
            value: value.view()?,
            pages: &pages,
            past,
            causal: options.is_causal,
            left_window: window,
            query_precision: self.query_precision,
        };
        let work = match dtype {
            DType::Float => paged_attention(compute, &problem, y.as_mut_slice::<f32>()?),
            _ => {
                let mut wide = allocate(DType::Float, &[batch, heads, length, width])?;
                let work = paged_attention(compute, &problem, wide.as_mut_slice::<f32>()?);
                narrow(wide.as_mut_slice::<f32>()?, &mut y)?;
                work
            }
        };
        let work = work.map_err(|error| refused(error, blocks))?;
        let dequantized = dequantized_bytes(&pages, past, length, window, batch * heads);

        let kv = |size| [batch, kv_heads, length, size];
        let (key_view, value_view) = (key.view::<f32>()?, value.view::<f32>()?);
        let keys = NewRows {
            name: "K",
            rows: Rows::new(key_view.as_slice().unwrap_or_default(), kv(size))?,
            storage: key_storage,
            extents: kv(size),
        };
        let values = NewRows {
            name: "V",
            rows: Rows::new(value_view.as_slice().unwrap_or_default(), kv(width))?,
            storage: value_storage,
            extents: kv(width),
        };
        let mut present = blocks.clone();
        let mut copied = 0;
        let mut first = 0;
        if self.partial_blocks == PartialBlocks::Fill
            && let Some(index) = blocks.len().checked_sub(1)
        {
            let last = page(blocks.at(index)?)?;
            let count = fill::room(&last, &formats, options.block_size).min(length);
            let used = usize::try_from(last.length).unwrap_or(usize::MAX);
            // Rows are reserved for the tokens that this page can still get, however large blocks may be.
            let size = options.block_size.min(used.saturating_add(limit - past));
            if count > 0 {
                let mut held = lock(memo);
                let mut behind = |payload, new: &NewRows<'_>| {
                    let rows = (0, count);
                    fill::extended(
                        &mut held.tails,
                        payload,
                        new,
                        rows,
                        size,
                        memory,
                        &mut *allocate,
                    )
                };
                let (key, key_bytes) = behind(last.key, &keys)?;
                let (value, value_bytes) = behind(last.value, &values)?;
                copied += key_bytes + value_bytes;
                let total = held.length(used + count)?;
                present.set(index, new_page(past - used, total, key, value)?)?;
                first = count;
            }
        }
        // The pages of one call lie one behind the other, keys and values each for themselves, as they will be read.
        let mut reserves: Option<[Allocator; 2]> = None;
        while first < length {
            let count = options.block_size.min(length - first);
            let mut payload = |new: &NewRows<'_>, reserve: Option<&Allocator>| match reserve {
                Some(memory) => new.payload(first, count, &mut |dtype, shape| {
                    Ok(TensorMut::new(memory, dtype, shape)?)
                }),
                None => new.payload(first, count, &mut *allocate),
            };
            let [key_memory, value_memory] = match &reserves {
                Some([key, value]) => [Some(key), Some(value)],
                None => [None, None],
            };
            let key = payload(&keys, key_memory)?;
            let value = payload(&values, value_memory)?;
            if reserves.is_none() {
                let pages = (length - first).div_ceil(options.block_size.max(1)) - 1;
                let reserve = |payload| {
                    let bytes = usize::try_from(payload_bytes(payload)).unwrap_or(usize::MAX);
                    memory.reserving(bytes.saturating_mul(pages))
                };
                reserves = Some([reserve(&key), reserve(&value)]);
            }
            copied += payload_bytes(&key) + payload_bytes(&value);
            let total = lock(memo).length(count)?;
            present.push(new_page(past + first, total, key, value)?)?;
            first += count;
        }
        let present: RuntimeValue =
            StructValue::new([(BLOCKS, RuntimeValue::from(present))])?.into();
        let (_, looked_at) = lock(memo).check(&present)?;
        validated += looked_at;
        let statistics = Statistics {
            copied_bytes: copied,
            dequantized_bytes: dequantized,
            peak_workspace_bytes: 8 * width as u64,
            validated_pages: validated,
            decoded_bytes: work.decoded_bytes,
            tile_bytes: work.tile_bytes,
        };
        self.count(statistics);
        Ok(PagedResult {
            y: y.freeze(),
            present,
            statistics,
        })
    }
}
