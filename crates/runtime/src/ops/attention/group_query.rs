//! `com.microsoft.GroupQueryAttention`: attention whose rows have lengths of their own.
//!
//! `seqlens_k[b] + 1` positions of row `b` are valid once the new ones are in; the new keys of a row therefore start at
//! `seqlens_k[b] + 1 - length`, or at 0 when the new ones are all there is (a prompt, which may be padded on the right).
//! When every row starts at the past's end, the caches grow in place. A cache of fixed extent has its rows written over,
//! each from its own start on, in two buffers by turns; what lies beyond a row's valid positions stays. Caches that grow
//! while their rows differ in length are written anew, since new keys overwrite what lies below the end of the longer
//! rows; positions beyond a row's are then zero.

use super::super::heads::{by_real, fused_rows, head_count, heads_of, split_rows};
use super::super::rotary::counted;
use super::super::turns::turned;
use super::super::width::one_int;
use super::empty::attention;
use super::{Cache, LENGTH, coded_cache, grow, mask, one_type, report_dense};
use crate::append::Span;
use crate::kernel::{Build, Invocation, Kernel, OpError};
use refeed_graph::attributes::AttributeError;
use refeed_kernels::Real;
use refeed_kernels::attention::{AttentionProblem, Visibility, default_scale};
use refeed_kernels::movement::place;
use refeed_kernels::rotary::{RotaryProblem, RotaryTable, rotary};
use refeed_values::{DType, Element, Tensor};
use smallvec::SmallVec;
use std::borrow::Cow;

struct GroupQueryAttention {
    heads: usize,
    kv_heads: usize,
    /// 0: `1 / sqrt(head_size)`, as the operator's own implementation has it.
    scale: f32,
    softcap: f32,
    left_window: Option<u64>,
    rotary: bool,
    interleaved: bool,
    /// The caches hold INT8 codes.
    coded: bool,
    /// A score of 0 without a value stands beside those of the keys, where `head_sink` gives no other.
    smooth: bool,
}

/// Input with a score for each query head that stands beside those of the keys.
const HEAD_SINK: usize = 11;

/// How long each row is, checked.
pub(super) struct Lengths {
    /// Position of the first new key of each row.
    pub(super) starts: SmallVec<[i64; 8]>,
    /// Valid positions of each row, the new ones included.
    pub(super) valid: SmallVec<[i64; 8]>,
    /// Whether the new keys are all there is.
    prompt: bool,
    /// Extent of the caches after the call.
    present: usize,
    /// Why the caches cannot grow in place, if so.
    pub(super) scattered: Option<String>,
    /// Whether the caches keep their extent.
    fixed: bool,
}

/// A checked extent as a signed number.
fn signed(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

impl Lengths {
    /// Reads `seqlens_k` and `total_sequence_length`.
    fn new(
        call: &Invocation<'_>,
        batch: usize,
        length: usize,
        past: usize,
    ) -> Result<Lengths, OpError> {
        let total =
            one_int(call, 6, "total_sequence_length")?.ok_or(OpError::MissingInput { index: 6 })?;
        let refuse = |what, expected: String, got: i64| OpError::Value {
            what,
            expected,
            got: got.to_string(),
        };
        let grown = past.checked_add(length).ok_or_else(|| {
            OpError::Shape(format!(
                "{past} past and {length} new positions do not fit in a number"
            ))
        })?;
        let Some(whole) = usize::try_from(total)
            .ok()
            .filter(|&n| n == grown || (length..=past).contains(&n))
        else {
            let expected = match length <= past {
                true => format!("{grown}, or {length} to {past} for a cache of fixed capacity"),
                false => grown.to_string(),
            };
            return Err(refuse("total_sequence_length", expected, total));
        };
        let present = whole.max(past);
        let prompt = whole == length;
        let lengths = call.require(5)?;
        if ![&[batch][..], &[batch, 1]].contains(&lengths.shape()) {
            return Err(OpError::Shape(format!(
                "seqlens_k: expected shape [{batch}] or [{batch}, 1], got {:?}",
                lengths.shape()
            )));
        }
        let mut out = Lengths {
            starts: SmallVec::new(),
            valid: SmallVec::new(),
            prompt,
            present,
            scattered: None,
            fixed: whole != grown,
        };
        for last in lengths.view::<i32>()?.iter() {
            let valid = i64::from(last).saturating_add(1);
            let low = if prompt { 0 } else { signed(length) };
            if !(low..=signed(whole)).contains(&valid) {
                let expected = format!(
                    "{}..={}",
                    low.saturating_sub(1),
                    signed(whole).saturating_sub(1)
                );
                return Err(refuse("seqlens_k", expected, i64::from(last)));
            }
            let start = if prompt {
                0
            } else {
                valid.saturating_sub(signed(length))
            };
            if start != signed(past) && out.scattered.is_none() {
                out.scattered = Some(format!(
                    "a row's new keys start at {start}, not at the past's end {past}"
                ));
            }
            out.starts.push(start);
            out.valid.push(valid);
        }
        if out.fixed && out.scattered.is_none() {
            out.scattered = Some(format!("the cache has a fixed extent of {past}"));
        }
        Ok(out)
    }
}

/// Writes each row's new keys over those of a cache that keeps its extent.
fn written_over<T: Real>(
    call: &mut Invocation<'_>,
    cache: &Cache,
    lengths: &Lengths,
) -> Result<Tensor, OpError> {
    let [batch, heads, _, width] = cache.whole(call)?;
    let mut turned = turned::<T>(call, cache.output, call.require(cache.input)?)?;
    let slots = turned.memory.as_mut_slice::<T>()?;
    let row = [1, heads, lengths.present, width];
    let (new, elements) = (cache.new.view::<T>()?, slots.len() / batch.max(1));
    // Starts were checked to lie within the past.
    let starts = lengths.starts.iter();
    let starts = starts.map(|&start| usize::try_from(start).unwrap_or(0));
    let starts: SmallVec<[usize; 8]> = starts.collect();
    for (b, (slots, &start)) in slots
        .chunks_exact_mut(elements.max(1))
        .zip(&starts)
        .enumerate()
    {
        if let Some(new) = new.slice(0, b, 1, 1) {
            place(&new, slots, &row, LENGTH, start)?;
        }
    }
    let span = Span {
        axis: LENGTH,
        rows: cache.new.shape()[LENGTH],
        starts,
    };
    turned.finish(call, cache.output, T::DTYPE, (span, cache.new.bytes()))
}

/// Writes a cache anew: of each row what lies before its start, then its new keys, then zeros.
pub(super) fn rewritten<T: Element>(
    call: &mut Invocation<'_>,
    cache: &Cache,
    lengths: &Lengths,
) -> Result<Tensor, OpError> {
    let shape = cache.whole(call)?;
    let [batch, heads, _, width] = shape;
    let past = call.input(cache.input);
    let mut out = call.allocate(T::DTYPE, &[batch, heads, lengths.present, width])?;
    let slots = out.as_mut_slice::<T>()?;
    slots.fill(T::default());
    let row = [1, heads, lengths.present, width];
    let elements = slots.len() / batch.max(1);
    let (new, mut prefix) = (cache.new.view::<T>()?, 0);
    for (b, (slots, &start)) in slots
        .chunks_exact_mut(elements.max(1))
        .zip(&lengths.starts)
        .enumerate()
    {
        // Starts were checked to lie within the past.
        let start = usize::try_from(start).unwrap_or(0);
        if let Some(past) = past {
            let old = past
                .view::<T>()?
                .slice(0, b, 1, 1)
                .and_then(|row| row.slice(LENGTH, 0, start, 1));
            let old = old
                .ok_or_else(|| OpError::Shape(format!("row {b} has no {start} past positions")))?;
            prefix += std::mem::size_of_val(&slots[..old.len()]);
            place(&old, slots, &row, LENGTH, 0)?;
        }
        if let Some(new) = new.slice(0, b, 1, 1) {
            place(&new, slots, &row, LENGTH, start)?;
        }
    }
    let out = out.freeze();
    report_dense(call, prefix, cache.new.bytes(), out.bytes());
    call.set(cache.output, out.clone());
    Ok(out)
}

impl GroupQueryAttention {
    /// Query, key and value as `[batch, heads, length, width]` views of the inputs.
    fn operands(&self, call: &Invocation<'_>) -> Result<[Tensor; 3], OpError> {
        let query = call.require(0)?;
        let &[batch, length, columns] = query.shape() else {
            return Err(OpError::Shape(format!(
                "query: expected 3 dimensions, got {:?}",
                query.shape()
            )));
        };
        let (heads, kv_heads) = (self.heads, self.kv_heads);
        let (parts, key, value) = match (call.input(1), call.input(2)) {
            (Some(key), Some(value)) => (Some(heads), key, value),
            (None, None) => {
                let all = kv_heads.checked_mul(2).and_then(|kv| kv.checked_add(heads));
                (all, query, query)
            }
            _ => {
                return Err(OpError::Shape(
                    "key and value must come together".to_string(),
                ));
            }
        };
        let packed = call.input(1).is_none();
        let width = parts
            .filter(|&parts| columns.is_multiple_of(parts))
            .map(|parts| columns / parts);
        let width = width.ok_or_else(|| {
            OpError::Shape(format!(
                "query: {columns} columns do not divide into heads ({heads} and {kv_heads})"
            ))
        })?;
        if !packed {
            let expected = [batch, length, kv_heads.saturating_mul(width)];
            for (index, tensor) in [(1, key), (2, value)] {
                if tensor.shape() != expected {
                    return Err(OpError::Shape(format!(
                        "input {index}: expected shape {expected:?}, got {:?}",
                        tensor.shape()
                    )));
                }
                if tensor.dtype() != query.dtype() {
                    let expected = query.dtype().to_string();
                    return Err(OpError::DType {
                        index,
                        expected,
                        got: tensor.dtype(),
                    });
                }
            }
        }
        // The sum did not overflow above.
        let (first_key, first_value) = if packed {
            (heads, heads + kv_heads)
        } else {
            (0, 0)
        };
        Ok([
            heads_of(query, 0, heads, width)?,
            heads_of(key, first_key, kv_heads, width)?,
            heads_of(value, first_value, kv_heads, width)?,
        ])
    }

    /// Positions of the new tokens, `[batch or 1, length]`: given, else counted from each row's start. Of the positions
    /// given with a prompt only the very first counts, as the operator's own text has it.
    fn positions(
        &self,
        call: &mut Invocation<'_>,
        lengths: &Lengths,
        shape: [usize; 2],
    ) -> Result<Tensor, OpError> {
        let Some(given) = call.input(9) else {
            return counted(call, &lengths.starts, shape[1]);
        };
        if given.shape() != shape {
            return Err(OpError::Shape(format!(
                "position_ids: expected shape {shape:?}, got {:?}",
                given.shape()
            )));
        }
        if !lengths.prompt {
            return Ok(given.clone());
        }
        let first = given.view::<i64>()?.iter().next().unwrap_or(0);
        counted(call, &[first], shape[1])
    }

    /// `x` turned by the positions of its tokens.
    fn turned<T: Real>(
        &self,
        call: &mut Invocation<'_>,
        x: &Tensor,
        positions: &Tensor,
    ) -> Result<Tensor, OpError> {
        let &[batch, heads, length, width] = x.shape() else {
            return Err(OpError::Shape(format!(
                "expected 4 dimensions, got {:?}",
                x.shape()
            )));
        };
        let (cos, sin) = (call.view::<T>(7)?, call.view::<T>(8)?);
        let half = cos.shape().last().copied().unwrap_or(0);
        let problem = RotaryProblem {
            x: x.view::<T>()?,
            table: RotaryTable::Cached {
                cos,
                sin,
                positions: positions.view::<i64>()?,
            },
            interleaved: self.interleaved,
            rotary_dim: half.saturating_mul(2),
        };
        let mut out = call.allocate(T::DTYPE, x.shape())?;
        let layout = split_rows([batch, heads, length], width)?;
        rotary(call.compute(), &problem, out.as_mut_slice::<T>()?, &layout)?;
        Ok(out.freeze())
    }

    /// Factor of the scores.
    fn factor(&self, width: usize) -> f64 {
        match self.scale == 0.0 {
            true => default_scale(width),
            false => f64::from(self.scale),
        }
    }

    /// Scores without a value, for [`Visibility::sinks`]; `zero` is the one of a smooth softmax.
    fn sinks<'s, T: Real>(
        &self,
        call: &Invocation<'s>,
        zero: &'s [T; 1],
    ) -> Result<Cow<'s, [T]>, OpError> {
        let Some(given) = call.input(HEAD_SINK) else {
            let sinks: &[T] = if self.smooth { zero } else { &[] };
            return Ok(Cow::Borrowed(sinks));
        };
        if given.shape() != [self.heads] {
            return Err(OpError::Shape(format!(
                "head_sink: expected shape [{}], got {:?}",
                self.heads,
                given.shape()
            )));
        }
        let given = call.view::<T>(HEAD_SINK)?;
        Ok(match given.as_slice() {
            Some(dense) => Cow::Borrowed(dense),
            None => Cow::Owned(given.iter().collect()),
        })
    }

    /// The caches hold codes: the new rows are encoded, and attention reads the codes.
    fn over_codes(
        &self,
        call: &mut Invocation<'_>,
        [query, key, value]: [Tensor; 3],
        lengths: &Lengths,
    ) -> Result<(), OpError> {
        let caches = coded_cache::grown(call, [&key, &value], lengths)?;
        call.check_interrupt()?;
        let rows = query.view::<f32>()?;
        let width = rows.shape().last().copied().unwrap_or(0);
        let visibility = Visibility {
            causal: true,
            left_window: self.left_window,
            right_window: None,
            query_start: &lengths.starts,
            lengths: &lengths.valid,
            mask: mask::<f32>(call.input(10), 10)?,
            sinks: &self.sinks(call, &[0.0])?,
        };
        let factors = (self.factor(width), f64::from(self.softcap));
        let out = coded_cache::attend(call, rows, &caches, factors, visibility)?;
        call.set(0, out);
        for scratch in [query, key, value].into_iter().chain(caches) {
            call.recycle(scratch);
        }
        Ok(())
    }

    fn typed<T: Real>(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let [mut query, mut key, value] = self.operands(call)?;
        let [batch, length] = [query.shape()[0], query.shape()[LENGTH]];
        if call.input(3).is_some() != call.input(4).is_some() {
            return Err(OpError::Shape(
                "past_key and past_value must come together".to_string(),
            ));
        }
        let past = call
            .input(3)
            .and_then(|past| past.shape().get(LENGTH).copied())
            .unwrap_or(0);
        let lengths = Lengths::new(call, batch, length, past)?;
        // Heads without width have nothing to turn, however many tokens there are.
        if self.rotary && query.elements() > 0 {
            let positions = self.positions(call, &lengths, [batch, length])?;
            query = self.turned::<T>(call, &query, &positions)?;
            key = self.turned::<T>(call, &key, &positions)?;
            call.recycle(positions);
        }
        if self.coded {
            return self.over_codes(call, [query, key, value], &lengths);
        }
        let caches = [
            Cache {
                input: 3,
                output: 1,
                new: key,
            },
            Cache {
                input: 4,
                output: 2,
                new: value,
            },
        ];
        let [key, value] = match &lengths.scattered {
            _ if lengths.fixed => [
                written_over::<T>(call, &caches[0], &lengths)?,
                written_over::<T>(call, &caches[1], &lengths)?,
            ],
            None => grow::<T, T>(call, &caches)?,
            Some(reason) => {
                for cache in &caches {
                    call.copied_because(cache.output, reason.clone());
                }
                [
                    rewritten::<T>(call, &caches[0], &lengths)?,
                    rewritten::<T>(call, &caches[1], &lengths)?,
                ]
            }
        };
        let [new_key, new_value] = caches.map(|cache| cache.new);
        call.check_interrupt()?;
        let rows = query.view::<T>()?;
        let &[_, heads, _, width] = rows.shape() else {
            return Err(OpError::Shape("query: expected 4 dimensions".to_string()));
        };
        let (scale, zero) = (self.factor(width), [T::default()]);
        let problem = AttentionProblem {
            query: rows,
            key: key.view::<T>()?,
            value: value.view::<T>()?,
            scale,
            softcap: f64::from(self.softcap),
            visibility: Visibility {
                causal: true,
                left_window: self.left_window,
                right_window: None,
                query_start: &lengths.starts,
                lengths: &lengths.valid,
                mask: mask::<T>(call.input(10), 10)?,
                sinks: &self.sinks(call, &zero)?,
            },
        };
        let layout = fused_rows([batch, heads, length], width)?;
        let mut out = call.allocate(T::DTYPE, &[batch, length, layout.strides[2]])?;
        attention(call.compute(), &problem, out.as_mut_slice::<T>()?, &layout)?;
        call.set(0, out.freeze());
        // What nobody else holds goes back: turned rows, and joined caches that are not wanted.
        for scratch in [query, new_key, new_value, key, value] {
            call.recycle(scratch);
        }
        Ok(())
    }
}

impl Kernel for GroupQueryAttention {
    fn append_axis(&self) -> Option<i64> {
        Some(super::LENGTH as i64)
    }

    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let dtype = call.require(0)?.dtype();
        if self.coded && dtype != DType::Float {
            return Err(OpError::Unsupported(format!(
                "GroupQueryAttention of {dtype} over an INT8 cache"
            )));
        }
        by_real!(dtype, 0, T => self.typed::<T>(call))
    }
}

/// Source: the contributed operators of onnxruntime, `com.microsoft.GroupQueryAttention`.
pub(super) fn build(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let attributes = build.attributes;
    let refuse = |what: String| OpError::Unsupported(format!("GroupQueryAttention with {what}"));
    let coded = coded_cache::is_coded(build)?;
    // What of these is on changes the result; off, they are the operator that is computed here.
    for name in ["qk_output", "sliding_window_cache"] {
        let value = attributes.int_or(name, 0)?;
        if value != 0 {
            return Err(refuse(format!("{name} {value}")));
        }
    }
    let smooth = match attributes.int_or("smooth_softmax", 0)? {
        -1 | 0 => false,
        1 => true,
        value => return Err(refuse(format!("smooth_softmax {value}"))),
    };
    for (index, name) in [(12, "k_scale"), (13, "v_scale")] {
        if build.has(index) && !coded {
            return Err(refuse(format!("input {index} ({name})")));
        }
    }
    if build.wants(3) {
        return Err(refuse("output 3 (output_qk)".to_string()));
    }
    for (a, b, names) in [(1, 2, "key and value"), (3, 4, "past_key and past_value")] {
        if build.has(a) != build.has(b) {
            return Err(OpError::Shape(format!("{names} must come together")));
        }
    }
    let alike: &[usize] = match coded {
        true => &[1, 2, 7, 8, 10, HEAD_SINK],
        false => &[1, 2, 3, 4, 7, 8, 10, HEAD_SINK],
    };
    one_type(build, alike)?;
    let rotary = attributes.flag("do_rotary", false)?;
    if let Some(index) = [7, 8]
        .into_iter()
        .find(|&index| rotary && !build.has(index))
    {
        return Err(OpError::MissingInput { index });
    }
    let left_window = match attributes.int_or("local_window_size", -1)? {
        -1 => None,
        size => match u64::try_from(size) {
            // The window counts the current position.
            Ok(size) if size > 0 => Some(size - 1),
            _ => {
                let (name, got) = ("local_window_size", size.to_string());
                return Err(AttributeError::Value {
                    name,
                    expected: "-1 or a positive number",
                    got,
                }
                .into());
            }
        },
    };
    let heads = head_count("num_heads", attributes.required_int("num_heads")?)?;
    let kv_heads = head_count("kv_num_heads", attributes.required_int("kv_num_heads")?)?;
    if !heads.is_multiple_of(kv_heads) {
        return Err(OpError::Kernel(refeed_kernels::KernelError::Heads {
            query_heads: heads,
            kv_heads,
        }));
    }
    Ok(Box::new(GroupQueryAttention {
        heads,
        kv_heads,
        scale: attributes.float_or("scale", 0.0)?,
        softcap: attributes.float_or("softcap", 0.0)?,
        left_window,
        rotary,
        interleaved: attributes.flag("rotary_interleaved", false)?,
        coded,
        smooth,
    }))
}
