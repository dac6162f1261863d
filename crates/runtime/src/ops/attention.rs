//! `Attention`, and with it the growth of the caches that attention operators share.
//!
//! A cache that the graph feeds back grows in place: the new rows are written behind the old ones, and attention reads
//! the whole through its strides. Where that is not possible, past and new rows are joined in new memory and the work
//! is reported.

mod coded_cache;
mod empty;
mod group_query;
mod multi_head;
mod operand_types;
mod recognized;

pub(crate) use recognized::{
    Cache as RecognizedCache, MaskChange, MaskStep, RecognizedAttention, RecognizedOperands, holds,
    is_low, one_number,
};

use super::heads::{by_real, fused_rows, head_count, split, split_rows};
use super::types::{ALL, FLOATS};
use crate::events::StorageReport;
use crate::kernel::{Build, Invocation, Kernel, KernelEntry, OpError};
use empty::attention;
use operand_types::{summand, widened};
use refeed_graph::attributes::AttributeError;
use refeed_kernels::Real;
use refeed_kernels::attention::{
    AttentionProblem, Mask, ScoreStage, Visibility, attention_scores, default_scale,
};
use refeed_kernels::movement::place;
use refeed_values::append::AppendReservation;
use refeed_values::{DType, Element, Tensor};
use smallvec::SmallVec;

/// Axis of `[batch, heads, length, width]` along which caches grow.
const LENGTH: usize = 2;

/// One of the two caches of a call.
struct Cache {
    /// Position of the past and of the present in the node.
    input: usize,
    output: usize,
    /// Rows to append, `[batch, heads, new, width]`.
    new: Tensor,
}

impl Cache {
    /// Shape of past and new rows together.
    fn whole(&self, call: &Invocation<'_>) -> Result<[usize; 4], OpError> {
        let &[batch, heads, new, width] = self.new.shape() else {
            return Err(OpError::Shape(format!(
                "expected 4 dimensions, got {:?}",
                self.new.shape()
            )));
        };
        let Some(past) = call.input(self.input) else {
            return Ok([batch, heads, new, width]);
        };
        let expected = || {
            OpError::Shape(format!(
                "input {}: expected shape [{batch}, {heads}, past length, {width}], got {:?}",
                self.input,
                past.shape()
            ))
        };
        let &[b, h, length, w] = past.shape() else {
            return Err(expected());
        };
        if [b, h, w] != [batch, heads, width] {
            return Err(expected());
        }
        if past.dtype() != self.new.dtype() {
            let expected = self.new.dtype().to_string();
            return Err(OpError::DType {
                index: self.input,
                expected,
                got: past.dtype(),
            });
        }
        let total = length.checked_add(new).ok_or_else(|| {
            OpError::Shape(format!(
                "{length} past and {new} new positions do not fit in a number"
            ))
        })?;
        Ok([batch, heads, total, width])
    }

    /// Past and new rows in new memory, reported.
    fn joined<T: Element>(
        &self,
        call: &mut Invocation<'_>,
        shape: [usize; 4],
    ) -> Result<Tensor, OpError> {
        let past = call.input(self.input);
        let mut out = call.allocate(T::DTYPE, &shape)?;
        let mut at = 0;
        let slots = out.as_mut_slice::<T>()?;
        if let Some(past) = past {
            place(&past.view::<T>()?, slots, &shape, LENGTH, 0)?;
            at = past.shape()[LENGTH];
        }
        place(&self.new.view::<T>()?, slots, &shape, LENGTH, at)?;
        let out = out.freeze();
        report_dense(
            call,
            past.map_or(0, Tensor::bytes),
            self.new.bytes(),
            out.bytes(),
        );
        Ok(out)
    }
}

/// Reports one cache that was written whole.
fn report_dense(call: &mut Invocation<'_>, prefix: usize, append: usize, whole: usize) {
    call.report(StorageReport {
        allocations: 1,
        allocated_bytes: whole as u64,
        prefix_copied_bytes: prefix as u64,
        append_copied_bytes: append as u64,
        ..StorageReport::default()
    });
}

/// Writes the rows and makes the whole the cache's output.
fn finish(
    call: &mut Invocation<'_>,
    cache: &Cache,
    mut rows: AppendReservation,
) -> Result<Tensor, OpError> {
    rows.write_rows(0, &cache.new)?;
    let append_copied_bytes = rows.counters().append_copied_bytes;
    call.report(StorageReport {
        append_copied_bytes,
        ..StorageReport::default()
    });
    call.commit(cache.output, rows)
}

/// Grows both caches, each in place where it may, and sets the outputs that are wanted. Both are reserved before either
/// is written.
fn grow<K: Element, V: Element>(
    call: &mut Invocation<'_>,
    caches: &[Cache; 2],
) -> Result<[Tensor; 2], OpError> {
    let shapes = [caches[0].whole(call)?, caches[1].whole(call)?];
    if shapes[0][LENGTH] != shapes[1][LENGTH] {
        return Err(OpError::Shape(format!(
            "keys and values: expected equal lengths, got {} and {}",
            shapes[0][LENGTH], shapes[1][LENGTH]
        )));
    }
    let mut reserved = [None, None];
    for ((cache, shape), slot) in caches.iter().zip(&shapes).zip(&mut reserved) {
        *slot = call.reserve(cache.input, cache.output, shape, LENGTH)?;
    }
    let [keys, values] = reserved;
    let keys = grown::<K>(call, &caches[0], shapes[0], keys)?;
    let values = grown::<V>(call, &caches[1], shapes[1], values)?;
    Ok([keys, values])
}

/// One cache with its new rows: in those reserved, else in new memory.
fn grown<T: Element>(
    call: &mut Invocation<'_>,
    cache: &Cache,
    shape: [usize; 4],
    rows: Option<AppendReservation>,
) -> Result<Tensor, OpError> {
    if let Some(rows) = rows {
        return finish(call, cache, rows);
    }
    if call.input(cache.input).is_none() && !call.wants(cache.output) {
        return Ok(cache.new.clone());
    }
    let whole = cache.joined::<T>(call, shape)?;
    call.set(cache.output, whole.clone());
    Ok(whole)
}

/// Shape of the mask input as a rule for visibility.
fn mask<'a, T: Real>(tensor: Option<&'a Tensor>, index: usize) -> Result<Mask<'a, T>, OpError> {
    let Some(tensor) = tensor else {
        return Ok(Mask::None);
    };
    if tensor.dtype() == DType::Bool {
        return Ok(Mask::Bool(tensor.view::<u8>()?));
    }
    if !T::reads(tensor.dtype()) {
        let expected = format!("BOOL or {}", T::DTYPE);
        return Err(OpError::DType {
            index,
            expected,
            got: tensor.dtype(),
        });
    }
    Ok(Mask::Float(tensor.view::<T>()?))
}

/// The tensor with its elements in type `U`.
fn converted<T: Real, U: Real>(
    call: &mut Invocation<'_>,
    tensor: &Tensor,
) -> Result<Tensor, OpError>
where
    f64: From<T::Acc>,
    f64: From<U::Acc>,
{
    let mut out = call.allocate(U::DTYPE, tensor.shape())?;
    let view = tensor.view::<T>()?;
    for (slot, x) in out.as_mut_slice::<U>()?.iter_mut().zip(view.iter()) {
        *slot = U::from_acc(<U::Acc as refeed_kernels::Accumulator>::from_f64(
            f64::from(x.to_acc()),
        ));
    }
    Ok(out.freeze())
}

/// `Attention` of opsets 23 to 25.
struct Attention {
    q_heads: Option<usize>,
    kv_heads: Option<usize>,
    scale: Option<f32>,
    softcap: f32,
    causal: bool,
    left_window: Option<u64>,
    right_window: Option<u64>,
    stage: ScoreStage,
    /// Softmax in DOUBLE is asked for; every other precision is at most the one computed with.
    double: bool,
}

/// Operands of one call, in the type that is computed with.
struct Operands {
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Option<Tensor>,
}

impl Operands {
    /// Gives back what nobody else holds.
    fn recycle(self, call: &mut Invocation<'_>) {
        for tensor in [self.query, self.key, self.value]
            .into_iter()
            .chain(self.mask)
        {
            call.recycle(tensor);
        }
    }
}

impl Attention {
    fn typed<T: Real>(&self, call: &mut Invocation<'_>) -> Result<(), OpError>
    where
        f64: From<T::Acc>,
    {
        let q = call.require(0)?;
        let query = split("Q", q, self.q_heads)?;
        let (k, v) = (call.require(1)?, call.require(2)?);
        if k.dtype() != q.dtype() {
            return Err(OpError::DType {
                index: 1,
                expected: q.dtype().to_string(),
                got: k.dtype(),
            });
        }
        for tensor in [k, v] {
            if tensor.rank() != q.rank() {
                return Err(OpError::Shape(format!(
                    "Q, K, V: expected equal ranks, got {} and {}",
                    q.rank(),
                    tensor.rank()
                )));
            }
        }
        let (past_key, past_value) = (call.input(4), call.input(5));
        if past_key.is_some() != past_value.is_some() {
            return Err(OpError::Shape(
                "past_key and past_value must come together".to_string(),
            ));
        }
        let past = past_key
            .and_then(|past| past.shape().get(LENGTH).copied())
            .unwrap_or(0);
        let caches = [
            Cache {
                input: 4,
                output: 1,
                new: split("K", k, self.kv_heads)?,
            },
            Cache {
                input: 5,
                output: 2,
                new: split("V", v, self.kv_heads)?,
            },
        ];
        let batch = query.shape()[0];
        let mut starts: SmallVec<[i64; 8]> = SmallVec::new();
        let mut lengths: SmallVec<[i64; 8]> = SmallVec::new();
        if let Some(nonpad) = call.input(6) {
            if past_key.is_some() {
                return Err(OpError::Shape(
                    "nonpad_kv_seqlen cannot be combined with a past".to_string(),
                ));
            }
            if nonpad.shape() != [batch] {
                return Err(OpError::Shape(format!(
                    "nonpad_kv_seqlen: expected shape [{batch}], got {:?}",
                    nonpad.shape()
                )));
            }
            let new = i64::try_from(query.shape()[LENGTH]).unwrap_or(i64::MAX);
            lengths.extend(nonpad.view::<i64>()?.iter());
            // Lengths outside of the keys are refused by the kernel.
            starts.extend(lengths.iter().map(|length| length.saturating_sub(new)));
        } else {
            starts.push(i64::try_from(past).unwrap_or(i64::MAX));
        }
        operand_types::check_values(q.dtype(), v.dtype())?;
        let mask = match call.input(3) {
            Some(mask) => Some(summand::<T>(call, mask, 3)?),
            None => None,
        };
        let [key, value] = by_real!(v.dtype(), 2, V => grow::<T, V>(call, &caches))?;
        call.check_interrupt()?;
        let operands = Operands {
            query,
            key,
            value: widened::<T>(call, value)?,
            mask,
        };
        if !self.double || T::DTYPE == DType::Double {
            self.attend::<T>(call, &operands, &starts, &lengths)?;
            operands.recycle(call);
            return Ok(());
        }
        let mask = match &operands.mask {
            Some(mask) if T::reads(mask.dtype()) => Some(converted::<T, f64>(call, mask)?),
            other => other.clone(),
        };
        let wide = Operands {
            query: converted::<T, f64>(call, &operands.query)?,
            key: converted::<T, f64>(call, &operands.key)?,
            value: converted::<T, f64>(call, &operands.value)?,
            mask,
        };
        self.attend::<f64>(call, &wide, &starts, &lengths)?;
        wide.recycle(call);
        operands.recycle(call);
        for output in [0, 3] {
            let Some(computed) = call.take_output(output) else {
                continue;
            };
            let rounded = converted::<f64, T>(call, &computed)?;
            call.recycle(computed);
            call.set(output, rounded);
        }
        Ok(())
    }

    fn attend<T: Real>(
        &self,
        call: &mut Invocation<'_>,
        operands: &Operands,
        query_start: &[i64],
        lengths: &[i64],
    ) -> Result<(), OpError> {
        let query = operands.query.view::<T>()?;
        let value = operands.value.view::<T>()?;
        let (&[batch, heads, length, size], &[_, _, total, width]) = (query.shape(), value.shape())
        else {
            return Err(OpError::Shape("Q and V: expected 4 dimensions".to_string()));
        };
        let problem = AttentionProblem {
            query,
            key: operands.key.view::<T>()?,
            value,
            scale: self.scale.map_or_else(|| default_scale(size), f64::from),
            softcap: f64::from(self.softcap),
            visibility: Visibility {
                causal: self.causal,
                left_window: self.left_window,
                right_window: self.right_window,
                query_start,
                lengths,
                mask: mask::<T>(operands.mask.as_ref(), 3)?,
                sinks: &[],
            },
        };
        let rows = [batch, heads, length];
        let fused = call.require(0)?.rank() == 3;
        let (mut out, layout) = if fused {
            let layout = fused_rows(rows, width)?;
            (
                call.allocate(T::DTYPE, &[batch, length, layout.strides[2]])?,
                layout,
            )
        } else {
            (
                call.allocate(T::DTYPE, &[batch, heads, length, width])?,
                split_rows(rows, width)?,
            )
        };
        // Before anything is computed: scores may be larger than all the rest.
        let scores = match call.wants(3) {
            true => Some(call.allocate(T::DTYPE, &[batch, heads, length, total])?),
            false => None,
        };
        attention(call.compute(), &problem, out.as_mut_slice::<T>()?, &layout)?;
        call.set(0, out.freeze());
        if let Some(mut scores) = scores {
            let slots = scores.as_mut_slice::<T>()?;
            attention_scores(call.compute(), &problem, self.stage, slots)?;
            call.set(3, scores.freeze());
        }
        Ok(())
    }
}

impl Kernel for Attention {
    fn append_axis(&self) -> Option<i64> {
        Some(LENGTH as i64)
    }

    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        by_real!(call.require(0)?.dtype(), 0, T => self.typed::<T>(call))
    }
}

/// Refuses, before the first run, inputs of another element type than the query. Types that are not known yet are checked
/// by the run.
fn one_type(build: &Build<'_>, inputs: &[usize]) -> Result<(), OpError> {
    let dtype = |index| build.input(index).and_then(|ty| ty.dtype);
    let Some(query) = dtype(0) else {
        return Ok(());
    };
    for &index in inputs {
        if let Some(got) = dtype(index).filter(|&got| got != query) {
            let expected = query.to_string();
            return Err(OpError::DType {
                index,
                expected,
                got,
            });
        }
    }
    Ok(())
}

/// A window bound: -1 is none.
fn window(build: &Build<'_>, name: &'static str) -> Result<Option<u64>, OpError> {
    match build.attributes.int_or(name, -1)? {
        -1 => Ok(None),
        size => u64::try_from(size).map(Some).map_err(|_| {
            AttributeError::Value {
                name,
                expected: "-1 or more",
                got: size.to_string(),
            }
            .into()
        }),
    }
}

/// Source: <https://onnx.ai/onnx/operators/onnx__Attention.html>.
fn build_attention(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let attributes = build.attributes;
    let heads = |name: &'static str| -> Result<Option<usize>, OpError> {
        attributes
            .int(name)?
            .map(|count| head_count(name, count))
            .transpose()
    };
    let (q_heads, kv_heads) = (heads("q_num_heads")?, heads("kv_num_heads")?);
    one_type(build, &[1, 4])?;
    operand_types::check_known(build)?;
    if build.has(6) && build.opset < 24 {
        return Err(OpError::Unsupported(format!(
            "input 6 (nonpad_kv_seqlen) at opset {} (Attention has it from opset 24 on)",
            build.opset
        )));
    }
    for name in ["left_window_size", "right_window_size"] {
        if attributes.int(name)?.is_some() && build.opset < 25 {
            return Err(OpError::Unsupported(format!(
                "attribute {name} at opset {} (Attention has it from opset 25 on)",
                build.opset
            )));
        }
    }
    if build.opset >= 25
        && build.input(0).and_then(|ty| ty.rank()) == Some(4)
        && (q_heads.is_some() || kv_heads.is_some())
    {
        return Err(OpError::Unsupported(
            "q_num_heads and kv_num_heads with 4-dimensional inputs (Attention of opset 25 forbids them)".to_string(),
        ));
    }
    if build.has(4) != build.has(5) {
        return Err(OpError::Shape(
            "past_key and past_value must come together".to_string(),
        ));
    }
    if build.has(6) && build.has(4) {
        return Err(OpError::Shape(
            "nonpad_kv_seqlen cannot be combined with a past".to_string(),
        ));
    }
    let stage = match attributes.int_or("qk_matmul_output_mode", 0)? {
        0 => ScoreStage::Product,
        1 => ScoreStage::Capped,
        2 => ScoreStage::Biased,
        3 => ScoreStage::Weights,
        other => {
            let (name, got) = ("qk_matmul_output_mode", other.to_string());
            return Err(AttributeError::Value {
                name,
                expected: "0, 1, 2 or 3",
                got,
            }
            .into());
        }
    };
    let double = match attributes.int("softmax_precision")? {
        None | Some(1 | 10 | 16) => false,
        Some(11) => true,
        Some(other) => {
            let (name, got) = ("softmax_precision", other.to_string());
            return Err(AttributeError::Value {
                name,
                expected: "1, 10, 11 or 16",
                got,
            }
            .into());
        }
    };
    Ok(Box::new(Attention {
        q_heads,
        kv_heads,
        scale: attributes.float("scale")?,
        softcap: attributes.float_or("softcap", 0.0)?,
        causal: attributes.flag("is_causal", false)?,
        left_window: window(build, "left_window_size")?,
        right_window: window(build, "right_window_size")?,
        stage,
        double,
    }))
}

/// What `GroupQueryAttention` keeps: numbers, or codes with scales.
const CACHES: &[DType] = &[
    DType::Float,
    DType::Double,
    DType::Float16,
    DType::Bfloat16,
    DType::Int8,
];

pub(super) const KERNELS: &[KernelEntry] = &[
    KernelEntry {
        domain: "",
        op_type: "Attention",
        types: &[
            (0, FLOATS),
            (1, FLOATS),
            (2, FLOATS),
            (3, ALL),
            (4, FLOATS),
            (5, FLOATS),
            (6, &[DType::Int64]),
        ],
        build: build_attention,
    },
    KernelEntry {
        domain: "com.microsoft",
        op_type: "GroupQueryAttention",
        types: &[
            (0, FLOATS),
            (1, FLOATS),
            (2, FLOATS),
            (3, CACHES),
            (4, CACHES),
            (5, &[DType::Int32]),
            (6, &[DType::Int32]),
            (7, FLOATS),
            (8, FLOATS),
            (9, &[DType::Int64]),
            (10, FLOATS),
        ],
        build: group_query::build,
    },
    KernelEntry {
        domain: "com.microsoft",
        op_type: "MultiHeadAttention",
        types: &[
            (0, FLOATS),
            (1, FLOATS),
            (2, FLOATS),
            (3, FLOATS),
            (4, &[DType::Int32]),
            (5, FLOATS),
            (6, FLOATS),
            (7, FLOATS),
        ],
        build: multi_head::build,
    },
];

#[cfg(test)]
mod tests;
