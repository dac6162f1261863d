//! `LinearAttention`, of ai.onnx and of `com.microsoft`, and `com.microsoft.LinearAttentionGate`.

use super::heads::head_count;
use crate::kernel::{Build, Invocation, Kernel, KernelEntry, OpError};
use half::{bf16, f16};
use refeed_graph::attributes::AttributeError;
use refeed_kernels::Real;
use refeed_kernels::linear_attention::{
    LinearAttentionProblem, UpdateRule, decay_gate, linear_attention, rate_gate,
};
use refeed_values::{DType, View};

const REALS: &[DType] = &[DType::Float, DType::Float16, DType::Bfloat16];

/// Runs `$body` with `$t` standing for a type whose sums are FLOAT, that of input `$index`.
macro_rules! by_single {
    ($dtype:expr, $index:expr, $t:ident => $body:expr) => {
        by_single!(@ $dtype, $index, $t, $body; Float f32, Float16 f16, Bfloat16 bf16)
    };
    (@ $dtype:expr, $index:expr, $t:ident, $body:expr; $($name:ident $rust:ty),*) => {
        match $dtype {
            $(DType::$name => { type $t = $rust; $body })*
            got => Err(OpError::DType {
                index: $index,
                expected: "FLOAT, FLOAT16 or BFLOAT16".to_string(),
                got,
            }),
        }
    };
}

struct LinearAttention {
    rule: UpdateRule,
    q_heads: usize,
    kv_heads: usize,
    /// 0: `1 / sqrt(key width)`.
    scale: f32,
}

impl LinearAttention {
    fn typed<T: Real<Acc = f32>, P: Real<Acc = f32>>(
        &self,
        call: &mut Invocation<'_>,
    ) -> Result<(), OpError> {
        let query = call.view::<T>(0)?;
        let key = call.view::<T>(1)?;
        let columns = |view: &View<'_, T>| view.shape().last().copied().unwrap_or(0);
        let width = columns(&query) / self.q_heads;
        // The key may have fewer heads than the state: as many as are as wide as the query's.
        let key_heads = match columns(&key).checked_div(width) {
            Some(heads) if self.kv_heads.is_multiple_of(heads.max(1)) => heads.max(1),
            _ => self.kv_heads,
        };
        let scale = match self.scale == 0.0 {
            true => (1.0 / (width.max(1) as f64).sqrt()) as f32,
            false => self.scale,
        };
        let optional = |index: usize, read: bool| -> Result<Option<View<'_, T>>, OpError> {
            let given = call.input(index).filter(|_| read);
            given.map(|_| call.view::<T>(index)).transpose()
        };
        let problem = LinearAttentionProblem {
            rule: self.rule,
            heads: [self.q_heads, key_heads, self.kv_heads],
            scale,
            query,
            key,
            value: call.view::<T>(2)?,
            past: call.input(3).map(|_| call.view::<P>(3)).transpose()?,
            decay: optional(4, self.rule.decays())?,
            beta: optional(5, self.rule.is_delta())?,
        };
        let (shape, state) = problem.shapes()?;
        let mut out = call.allocate(T::DTYPE, &shape)?;
        let mut present = call.allocate(P::DTYPE, &state)?;
        let slots = out.as_mut_slice::<T>()?;
        linear_attention(
            call.compute(),
            &problem,
            slots,
            present.as_mut_slice::<P>()?,
        )?;
        call.set(0, out.freeze());
        call.set(1, present.freeze());
        Ok(())
    }
}

impl Kernel for LinearAttention {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let dtype = call.require(0)?.dtype();
        let state = call.input(3).map_or(dtype, |past| past.dtype());
        by_single!(dtype, 0, T => by_single!(state, 3, P => self.typed::<T, P>(call)))
    }
}

/// Source: <https://onnx.ai/onnx/operators/onnx__LinearAttention.html>
fn build(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let attributes = build.attributes;
    let rule = match attributes.string("update_rule")? {
        Some("linear") => UpdateRule::Linear,
        Some("gated") => UpdateRule::Gated,
        Some("delta") => UpdateRule::Delta,
        None | Some("gated_delta") => UpdateRule::GatedDelta,
        Some(other) => {
            return Err(AttributeError::Value {
                name: "update_rule",
                expected: "linear, gated, delta or gated_delta",
                got: other.to_string(),
            }
            .into());
        }
    };
    for (index, needed) in [(4, rule.decays()), (5, rule.is_delta())] {
        if needed && !build.has(index) {
            return Err(OpError::MissingInput { index });
        }
    }
    // How many tokens another implementation computes at a time.
    attributes.ignore("chunk_size");
    Ok(Box::new(LinearAttention {
        rule,
        q_heads: head_count("q_num_heads", attributes.required_int("q_num_heads")?)?,
        kv_heads: head_count("kv_num_heads", attributes.required_int("kv_num_heads")?)?,
        scale: attributes.float_or("scale", 0.0)?,
    }))
}

/// Source: the contributed operators of onnxruntime, `com.microsoft.LinearAttention`.
fn build_contributed(call: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let window = call.attributes.int_or("state_window", 0)?;
    if window != 0 {
        return Err(OpError::Unsupported(format!(
            "LinearAttention with state_window {window}"
        )));
    }
    build(call)
}

struct Gate;

impl Kernel for Gate {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        by_single!(call.require(0)?.dtype(), 0, T => self.typed::<T>(call))
    }
}

impl Gate {
    fn typed<T: Real<Acc = f32>>(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let a = call.require(0)?;
        let (bias, factor) = (call.dense(call.require(1)?)?, call.dense(call.require(2)?)?);
        let mut decay = call.allocate(T::DTYPE, a.shape())?;
        let (bias, factor) = (bias.view::<f32>()?, factor.view::<f32>()?);
        decay_gate(
            &a.view::<T>()?,
            bias.as_slice().unwrap_or(&[]),
            factor.as_slice().unwrap_or(&[]),
            decay.as_mut_slice::<T>()?,
        )?;
        call.set(0, decay.freeze());
        if call.wants(1) {
            let b = call.view::<T>(3)?;
            let mut beta = call.allocate(T::DTYPE, b.shape())?;
            rate_gate(call.compute().isa, &b, beta.as_mut_slice::<T>()?)?;
            call.set(1, beta.freeze());
        }
        Ok(())
    }
}

/// Source: the contributed operators of onnxruntime, `com.microsoft.LinearAttentionGate`.
fn build_gate(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    if build.wants(1) && !build.has(3) {
        return Err(OpError::MissingInput { index: 3 });
    }
    Ok(Box::new(Gate))
}

pub(super) const KERNELS: &[KernelEntry] = &[
    KernelEntry {
        domain: "",
        op_type: "LinearAttention",
        types: &[(0, REALS), (3, REALS)],
        build,
    },
    KernelEntry {
        domain: "com.microsoft",
        op_type: "LinearAttention",
        types: &[(0, REALS), (3, REALS)],
        build: build_contributed,
    },
    KernelEntry {
        domain: "com.microsoft",
        op_type: "LinearAttentionGate",
        types: &[(0, REALS), (1, &[DType::Float]), (2, &[DType::Float])],
        build: build_gate,
    },
];
