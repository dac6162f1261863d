//! `com.microsoft.MultiHeadAttention`: as many key heads as query heads, biases of the projections, and a mask of padding
//! that is added.

use super::super::heads::{by_real, fused_rows, head_count, split};
use super::empty::attention;
use super::{Cache, LENGTH, grow, one_type};
use crate::kernel::{Build, Invocation, Kernel, OpError};
use refeed_kernels::attention::{AttentionProblem, Mask, Visibility, default_scale};
use refeed_kernels::{Accumulator, Real};
use refeed_values::layout::broadcast_shape;
use refeed_values::{DType, Layout, Tensor};

struct MultiHeadAttention {
    heads: usize,
    /// 0: `1 / sqrt(head_size)`, as the operator's own implementation has it.
    scale: f32,
    /// What is added to the scores of padding.
    padding: f32,
    causal: bool,
}

/// One of several interleaved parts: `[batch, length, heads, parts, width]` seen as `[batch, heads, length, width]`.
fn part(packed: &Tensor, index: usize) -> Result<Tensor, OpError> {
    let refuse = || OpError::Shape(format!("layout of packed heads {:?}", packed.shape()));
    let (one, delta) = packed.layout().slice(3, index, 1, 1).ok_or_else(refuse)?;
    let (&[batch, length, heads, _, width], &[b, l, h, _, w]) = (one.shape(), one.strides()) else {
        return Err(refuse());
    };
    let layout =
        Layout::strided(&[batch, heads, length, width], &[b, h, l, w]).ok_or_else(refuse)?;
    let delta = if packed.elements() == 0 { 0 } else { delta };
    Ok(packed.with_layout(layout, delta)?)
}

/// Numbers in a mask of lengths and of where queries and keys begin: 3 for each row, and the two ends.
fn packed_lengths(batch: usize) -> usize {
    batch.saturating_mul(3).saturating_add(2)
}

/// A mask that says how many keys of each row are valid, as flags `[batch, total]`; `None` for one of flags.
///
/// The longer form says behind the lengths where the queries and where the keys of each row begin, counted over all rows,
/// and where they end. Rows of one extent begin at its multiples; anything else would be another layout, and is refused.
fn padded(
    call: &mut Invocation<'_>,
    mask: &Tensor,
    [batch, length, total]: [usize; 3],
) -> Result<Option<Tensor>, OpError> {
    let &[count] = mask.shape() else {
        return Ok(None);
    };
    if count != batch && count != packed_lengths(batch) {
        return Ok(None); // the shape is refused with the others
    }
    let numbers = mask.view::<i32>()?.to_vec();
    let refuse = |expected: String, got: i32| OpError::Value {
        what: "key_padding_mask",
        expected,
        got: got.to_string(),
    };
    let (lengths, starts) = numbers.split_at(batch.min(count));
    for (each, extent) in starts.chunks(batch.saturating_add(1)).zip([length, total]) {
        for (row, &start) in each.iter().enumerate() {
            let expected = row.saturating_mul(extent);
            if usize::try_from(start) != Ok(expected) {
                return Err(refuse(format!("{row} times {extent}"), start));
            }
        }
    }
    let mut flags = call.allocate(DType::Int32, &[batch, total])?;
    let rows = flags.as_mut_slice::<i32>()?;
    for (index, &valid) in lengths.iter().enumerate() {
        let ones = usize::try_from(valid).ok().filter(|&ones| ones <= total);
        let ones = ones.ok_or_else(|| refuse(format!("a length of 0..={total}"), valid))?;
        let (held, padding) = rows[index * total..][..total].split_at_mut(ones);
        held.fill(1);
        padding.fill(0);
    }
    Ok(Some(flags.freeze()))
}

impl MultiHeadAttention {
    fn heads_fit(&self, packed: &Tensor, parts: usize) -> Result<(), OpError> {
        let shape = packed.shape();
        if shape.len() == 5 && shape[2] == self.heads && shape[3] == parts {
            return Ok(());
        }
        Err(OpError::Shape(format!(
            "expected packed heads of shape [batch, length, {}, {parts}, width], got {shape:?}",
            self.heads
        )))
    }

    /// Query, key and value as `[batch, heads, length, width]`.
    fn operands<T: Real>(&self, call: &mut Invocation<'_>) -> Result<[Tensor; 3], OpError> {
        let query = call.require(0)?;
        let (key, value, bias) = (call.input(1), call.input(2), call.input(3));
        if bias.is_some() && (query.rank() != 3 || key.is_none_or(|key| key.rank() != 3)) {
            return Err(OpError::Unsupported(
                "MultiHeadAttention with a bias and packed heads or a given cache".to_string(),
            ));
        }
        match (key, value) {
            (None, None) => {
                self.heads_fit(query, 3)?;
                Ok([part(query, 0)?, part(query, 1)?, part(query, 2)?])
            }
            (Some(key), None) => {
                self.heads_fit(key, 2)?;
                Ok([
                    split("query", query, Some(self.heads))?,
                    part(key, 0)?,
                    part(key, 1)?,
                ])
            }
            (Some(key), Some(value)) => {
                let operands = match bias {
                    None => [query.clone(), key.clone(), value.clone()],
                    Some(bias) => self.biased::<T>(call, [query, key, value], bias)?,
                };
                let [query, key, value] = operands;
                Ok([
                    split("query", &query, Some(self.heads))?,
                    split("key", &key, Some(self.heads))?,
                    split("value", &value, Some(self.heads))?,
                ])
            }
            (None, Some(_)) => Err(OpError::Shape("value without key".to_string())),
        }
    }

    /// The operands with their shares of a bias added.
    fn biased<T: Real>(
        &self,
        call: &mut Invocation<'_>,
        operands: [&Tensor; 3],
        bias: &Tensor,
    ) -> Result<[Tensor; 3], OpError> {
        let widths = operands.map(|operand| operand.shape().last().copied().unwrap_or(0));
        let total = widths
            .iter()
            .fold(0usize, |sum, &width| sum.saturating_add(width));
        if bias.shape() != [total] {
            return Err(OpError::Shape(format!(
                "bias: expected shape [{total}], got {:?}",
                bias.shape()
            )));
        }
        let bias = bias.view::<T>()?.to_vec();
        let mut from = 0;
        let mut one = |operand: &Tensor, width: usize| -> Result<Tensor, OpError> {
            let share = &bias[from..from + width];
            from += width;
            let mut out = call.allocate(T::DTYPE, operand.shape())?;
            let slots = out.as_mut_slice::<T>()?;
            operand.view::<T>()?.copy_to(slots);
            for row in slots.chunks_exact_mut(width.max(1)) {
                for (x, b) in row.iter_mut().zip(share) {
                    *x = T::from_acc(x.to_acc() + b.to_acc());
                }
            }
            Ok(out.freeze())
        };
        let [query, key, value] = operands;
        Ok([
            one(query, widths[0])?,
            one(key, widths[1])?,
            one(value, widths[2])?,
        ])
    }

    /// What is added to the scores: the given bias, and a low number where a key is padding.
    fn summand<T: Real>(
        &self,
        call: &mut Invocation<'_>,
        [batch, heads, length, total]: [usize; 4],
    ) -> Result<Option<Tensor>, OpError> {
        let bias = call.input(5);
        if let Some(bias) = bias {
            let fits = match bias.shape() {
                &[b, h, l, t] => {
                    [1, batch].contains(&b) && [1, heads].contains(&h) && (l, t) == (length, total)
                }
                _ => false,
            };
            if !fits {
                return Err(OpError::Shape(format!(
                    "attention_bias: expected shape [{batch} or 1, {heads} or 1, {length}, {total}], got {:?}",
                    bias.shape()
                )));
            }
        }
        let Some(padding) = call.input(4) else {
            return Ok(bias.cloned());
        };
        let lengths = padded(call, padding, [batch, length, total])?;
        let shape = match padding.shape() {
            [_] if lengths.is_some() => [batch, 1, 1, total],
            &[b, t] if (b, t) == (batch, total) => [batch, 1, 1, total],
            &[b, l, t] if (b, l, t) == (batch, length, total) => [batch, 1, length, total],
            shape => {
                return Err(OpError::Shape(format!(
                    "key_padding_mask: expected shape [{batch}], [{}], [{batch}, {total}] or [{batch}, {length}, {total}], got {shape:?}",
                    packed_lengths(batch)
                )));
            }
        };
        let padding = lengths.as_ref().unwrap_or(padding);
        let flags = padding.view::<i32>()?;
        let flags = match flags.rank() {
            2 => flags.unsqueeze(1).and_then(|flags| flags.unsqueeze(2)),
            _ => flags.unsqueeze(1),
        };
        let unfit = || OpError::Shape("key_padding_mask does not fit the bias".to_string());
        let held = bias.map_or(&shape[..], Tensor::shape);
        let whole = broadcast_shape([&shape[..], held]).ok_or_else(unfit)?;
        let flags = flags
            .and_then(|flags| flags.broadcast(&whole))
            .ok_or_else(unfit)?;
        let low = T::from_acc(<T::Acc as Accumulator>::from_f32(self.padding));
        let mut out = call.allocate(T::DTYPE, &whole)?;
        let sums = out.as_mut_slice::<T>()?;
        for (sum, flag) in sums.iter_mut().zip(flags.iter()) {
            *sum = if flag == 0 { low } else { T::default() };
        }
        if let Some(bias) = bias {
            let bias = bias.view::<T>()?.broadcast(&whole).ok_or_else(unfit)?;
            for (sum, x) in sums.iter_mut().zip(bias.iter()) {
                *sum = T::from_acc(sum.to_acc() + x.to_acc());
            }
        }
        Ok(Some(out.freeze()))
    }

    fn typed<T: Real>(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let [query, key, value] = self.operands::<T>(call)?;
        let past = call.input(6);
        if past.is_some() != call.input(7).is_some() {
            return Err(OpError::Shape(
                "past_key and past_value must come together".to_string(),
            ));
        }
        let before = past
            .and_then(|past| past.shape().get(LENGTH).copied())
            .unwrap_or(0);
        let caches =
            [(6, 1, key), (7, 2, value)].map(|(input, output, new)| Cache { input, output, new });
        let [key, value] = grow::<T, T>(call, &caches)?;
        call.check_interrupt()?;
        let rows = query.view::<T>()?;
        let values = value.view::<T>()?;
        let (&[batch, heads, length, size], &[.., total, width]) = (rows.shape(), values.shape())
        else {
            return Err(OpError::Shape(
                "query and value: expected heads".to_string(),
            ));
        };
        let summand = self.summand::<T>(call, [batch, heads, length, total])?;
        let mask = match &summand {
            Some(summand) => Mask::Float(summand.view::<T>()?),
            None => Mask::None,
        };
        let start = [i64::try_from(before).unwrap_or(i64::MAX)];
        let problem = AttentionProblem {
            query: rows,
            key: key.view::<T>()?,
            value: values,
            scale: match self.scale {
                0.0 => default_scale(size),
                scale => f64::from(scale),
            },
            softcap: 0.0,
            visibility: Visibility {
                causal: self.causal,
                query_start: &start,
                mask,
                ..Visibility::default()
            },
        };
        let layout = fused_rows([batch, heads, length], width)?;
        let mut out = call.allocate(T::DTYPE, &[batch, length, layout.strides[2]])?;
        attention(call.compute(), &problem, out.as_mut_slice::<T>()?, &layout)?;
        call.set(0, out.freeze());
        let [new_key, new_value] = caches.map(|cache| cache.new);
        for scratch in [query, new_key, new_value, key, value]
            .into_iter()
            .chain(summand)
        {
            call.recycle(scratch);
        }
        Ok(())
    }
}

impl Kernel for MultiHeadAttention {
    fn append_axis(&self) -> Option<i64> {
        Some(LENGTH as i64)
    }

    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        by_real!(call.require(0)?.dtype(), 0, T => self.typed::<T>(call))
    }
}

/// Source: the contributed operators of onnxruntime, `com.microsoft.MultiHeadAttention`.
pub(super) fn build(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let refuse = |what: String| OpError::Unsupported(format!("MultiHeadAttention with {what}"));
    for (index, name) in [(8, "past_sequence_length"), (9, "cache_indirection")] {
        if build.has(index) {
            return Err(refuse(format!("input {index} ({name})")));
        }
    }
    if build.wants(3) {
        return Err(refuse("output 3 (qk)".to_string()));
    }
    if build.has(6) != build.has(7) {
        return Err(OpError::Shape(
            "past_key and past_value must come together".to_string(),
        ));
    }
    one_type(build, &[1, 2, 3, 5, 6, 7])?;
    let attributes = build.attributes;
    Ok(Box::new(MultiHeadAttention {
        heads: head_count("num_heads", attributes.required_int("num_heads")?)?,
        scale: attributes.float_or("scale", 0.0)?,
        padding: attributes.float_or("mask_filter_value", -10000.0)?,
        causal: attributes.flag("unidirectional", false)?,
    }))
}
