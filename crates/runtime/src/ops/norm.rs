//! Normalisations.

use super::layout::{refuse, reshaped};
use crate::kernel::{Build, BuildFn, Invocation, Kernel, KernelEntry, OpError};
use half::{bf16, f16};
use refeed_graph::attributes::AttributeError;
use refeed_graph::ops::layout::axis_of;
use refeed_kernels::Real;
use refeed_kernels::norm::{
    BatchStatistics, Gate, Norm, NormProblem, batch_norm, gated_rms_norm, lp_normalize, normalize,
    residual_sum, scale_channels,
};
use refeed_values::layout::Dims;
use refeed_values::{DType, Element, Tensor, View};

/// Types that norms are computed on.
const FLOATS: &[DType] = &[DType::Float, DType::Double, DType::Float16, DType::Bfloat16];

macro_rules! by_float {
    ($dtype:expr, $t:ident => $body:expr) => {
        by_float!(@ $dtype, $t, $body; Float f32, Double f64, Float16 f16, Bfloat16 bf16)
    };
    (@ $dtype:expr, $t:ident, $body:expr; $($name:ident $rust:ty),*) => {
        match $dtype {
            $(DType::$name => { type $t = $rust; $body })*
            got => Err(OpError::DType { index: 0, expected: "a floating point type".to_string(), got }),
        }
    };
}

fn optional<'a, T: Element>(
    call: &Invocation<'a>,
    index: Option<usize>,
) -> Result<Option<View<'a, T>>, OpError> {
    match index.filter(|&index| call.input(index).is_some()) {
        Some(index) => call.view::<T>(index).map(Some),
        None => Ok(None),
    }
}

/// Where the operands and outputs of a row norm stand.
#[derive(Clone, Copy)]
struct Places {
    scale: usize,
    bias: Option<usize>,
    mean: Option<usize>,
    inverse: Option<usize>,
}

struct RowNorm {
    norm: Norm,
    axis: i64,
    epsilon: f32,
    /// Element type of the statistics.
    stash: DType,
    places: Places,
}

impl RowNorm {
    /// Normalises `x` into output 0 and sets the statistics that somebody reads.
    fn run_on(&self, call: &mut Invocation<'_>, x: &Tensor) -> Result<(), OpError> {
        by_float!(x.dtype(), T => self.typed::<T>(call, x))
    }

    fn typed<T: Real>(&self, call: &mut Invocation<'_>, x: &Tensor) -> Result<(), OpError> {
        let axis = axis_of(self.axis, x.rank()).map_err(refuse)?;
        let problem = NormProblem {
            norm: self.norm,
            x: x.view::<T>()?,
            axis,
            scale: Some(call.view::<T>(self.places.scale)?),
            bias: optional::<T>(call, self.places.bias)?,
            epsilon: f64::from(self.epsilon),
        };
        let mut rows = Dims::from_slice(x.shape());
        rows[axis..].fill(1);
        let mut mean = self.statistic::<T>(call, self.places.mean, &rows)?;
        let mut inverse = self.statistic::<T>(call, self.places.inverse, &rows)?;
        let mut out = call.allocate(T::DTYPE, x.shape())?;
        normalize(
            call.compute(),
            &problem,
            out.as_mut_slice::<T>()?,
            mean.as_mut()
                .map(|memory| memory.as_mut_slice::<T::Acc>())
                .transpose()?,
            inverse
                .as_mut()
                .map(|memory| memory.as_mut_slice::<T::Acc>())
                .transpose()?,
        )?;
        call.set(0, out.freeze());
        for (place, memory) in [(self.places.mean, mean), (self.places.inverse, inverse)] {
            if let (Some(place), Some(memory)) = (place, memory) {
                let statistic = stashed(call, memory.freeze(), self.stash)?;
                call.set(place, statistic);
            }
        }
        Ok(())
    }

    fn statistic<T: Real>(
        &self,
        call: &mut Invocation<'_>,
        place: Option<usize>,
        rows: &[usize],
    ) -> Result<Option<refeed_values::TensorMut>, OpError> {
        match place.filter(|&place| call.wants(place)) {
            Some(_) => call.allocate(<T::Acc as Element>::DTYPE, rows).map(Some),
            None => Ok(None),
        }
    }
}

/// Statistics, kept in FLOAT or DOUBLE, in the type that the model wants.
fn stashed(call: &mut Invocation<'_>, statistic: Tensor, dtype: DType) -> Result<Tensor, OpError> {
    if statistic.dtype() == dtype {
        return Ok(statistic);
    }
    let mut out = call.allocate(dtype, statistic.shape())?;
    by_float!(dtype, O => {
        let slots = out.as_mut_slice::<O>()?;
        by_float!(statistic.dtype(), T => {
            for (slot, x) in slots.iter_mut().zip(statistic.view::<T>()?.iter()) {
                *slot = O::from_acc(convert::<T, O>(x));
            }
            Ok(())
        })
    })?;
    Ok(out.freeze())
}

fn convert<T: Real, O: Real>(x: T) -> O::Acc {
    use refeed_kernels::Accumulator;
    O::Acc::from_f64(x.to_acc().to_f64())
}

impl Kernel for RowNorm {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        self.run_on(call, x)
    }
}

/// Reads `stash_type`: the type of the statistics, and the least precision of the first stage, which here is FLOAT, or
/// DOUBLE for DOUBLE inputs.
fn stash(build: &Build<'_>) -> Result<DType, OpError> {
    let number = build.attributes.int_or("stash_type", 1)?;
    let dtype = i32::try_from(number).ok().and_then(DType::from_onnx);
    let double = build.input(0).and_then(|ty| ty.dtype) == Some(DType::Double);
    match dtype {
        Some(dtype @ (DType::Float | DType::Float16 | DType::Bfloat16)) => Ok(dtype),
        Some(DType::Double) if double => Ok(DType::Double),
        _ => Err(AttributeError::Value {
            name: "stash_type",
            expected: "FLOAT, FLOAT16 or BFLOAT16, or DOUBLE for DOUBLE inputs",
            got: number.to_string(),
        }
        .into()),
    }
}

fn row_norm(build: &Build<'_>, norm: Norm, places: Places) -> Result<Box<dyn Kernel>, OpError> {
    let axis = build.attributes.int_or("axis", -1)?;
    let epsilon = build.attributes.float_or("epsilon", 1e-5)?;
    Ok(Box::new(RowNorm {
        norm,
        axis,
        epsilon,
        stash: stash(build)?,
        places,
    }))
}

fn layer_norm(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let places = Places {
        scale: 1,
        bias: Some(2),
        mean: Some(1),
        inverse: Some(2),
    };
    row_norm(build, Norm::Layer, places)
}

/// `RMSNormalization`, and `SimplifiedLayerNormalization`, whose second output is the inverse of the root.
fn rms_norm(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    row_norm(
        build,
        Norm::Rms,
        Places {
            scale: 1,
            bias: None,
            mean: None,
            inverse: Some(1),
        },
    )
}

/// A norm over the last axis of a sum, which is output 3.
struct SkipNorm {
    rows: RowNorm,
    /// Input that is added besides the first two.
    bias: usize,
}

impl Kernel for SkipNorm {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let mut sum = call.allocate(x.dtype(), x.shape())?;
        by_float!(x.dtype(), T => {
            let (x, skip) = (call.view::<T>(0)?, call.view::<T>(1)?);
            let bias = optional::<T>(call, Some(self.bias))?;
            Ok(residual_sum(&x, &skip, bias.as_ref(), sum.as_mut_slice::<T>()?)?)
        })?;
        let sum = sum.freeze();
        self.rows.run_on(call, &sum)?;
        if call.wants(3) {
            call.set(3, sum);
        } else {
            call.recycle(sum);
        }
        Ok(())
    }
}

fn skip_norm(
    build: &Build<'_>,
    norm: Norm,
    scale: usize,
    beta: Option<usize>,
    bias: usize,
) -> Result<Box<dyn Kernel>, OpError> {
    let epsilon = build.attributes.float_or("epsilon", 1e-12)?;
    let places = Places {
        scale,
        bias: beta,
        mean: Some(1),
        inverse: Some(2),
    };
    Ok(Box::new(SkipNorm {
        rows: RowNorm {
            norm,
            axis: -1,
            epsilon,
            stash: DType::Float,
            places,
        },
        bias,
    }))
}

/// Inputs: input, skip, gamma, bias.
fn skip_rms_norm(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    skip_norm(build, Norm::Rms, 2, None, 3)
}

/// Inputs: input, skip, gamma, beta, bias.
fn skip_layer_norm(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    skip_norm(build, Norm::Layer, 2, Some(3), 4)
}

struct LpNorm {
    axis: i64,
    euclidean: bool,
}

impl Kernel for LpNorm {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let axis = axis_of(self.axis, x.rank()).map_err(refuse)?;
        let mut out = call.allocate(x.dtype(), x.shape())?;
        by_float!(x.dtype(), T => {
            Ok(lp_normalize(&x.view::<T>()?, axis, self.euclidean, out.as_mut_slice::<T>()?)?)
        })?;
        call.set(0, out.freeze());
        Ok(())
    }
}

fn lp_norm(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let axis = build.attributes.int_or("axis", -1)?;
    let euclidean = match build.attributes.int_or("p", 2)? {
        1 => false,
        2 => true,
        other => {
            return Err(AttributeError::Value {
                name: "p",
                expected: "1 or 2",
                got: other.to_string(),
            }
            .into());
        }
    };
    Ok(Box::new(LpNorm { axis, euclidean }))
}

struct BatchNorm {
    epsilon: f32,
}

impl Kernel for BatchNorm {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let mut out = call.allocate(x.dtype(), x.shape())?;
        by_float!(x.dtype(), T => {
            let statistics = BatchStatistics {
                scale: call.view::<T>(1)?,
                bias: call.view::<T>(2)?,
                mean: call.view::<T>(3)?,
                variance: call.view::<T>(4)?,
                epsilon: f64::from(self.epsilon),
            };
            Ok(batch_norm(&x.view::<T>()?, &statistics, out.as_mut_slice::<T>()?)?)
        })?;
        call.set(0, out.freeze());
        Ok(())
    }
}

fn batch(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let epsilon = build.attributes.float_or("epsilon", 1e-5)?;
    // Only training uses it.
    build.attributes.ignore("momentum");
    if build.opset < 9 && !build.attributes.flag("spatial", true)? {
        return Err(OpError::Unsupported(
            "BatchNormalization with statistics of each position".to_string(),
        ));
    }
    if build.opset >= 14 && build.attributes.flag("training_mode", false)? {
        return Err(OpError::Unsupported(
            "BatchNormalization in training mode".to_string(),
        ));
    }
    if (1..build.output_count()).any(|index| build.wants(index)) {
        return Err(OpError::Unsupported(
            "the training outputs of BatchNormalization".to_string(),
        ));
    }
    Ok(Box::new(BatchNorm { epsilon }))
}

/// Normalises the values of each group of channels of each batch entry.
struct GroupNorm {
    /// `None`: each channel is a group.
    groups: Option<usize>,
    epsilon: f32,
    /// Scale and bias have one value a group instead of a channel.
    by_group: bool,
}

impl Kernel for GroupNorm {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let &[batch, channels, ref spatial @ ..] = x.shape() else {
            return Err(OpError::Shape(format!(
                "input 0: expected at least 2 axes, got shape {:?}",
                x.shape()
            )));
        };
        let groups = self.groups.unwrap_or(channels);
        let members = channels.checked_div(groups).unwrap_or(0);
        if members * groups != channels {
            return Err(OpError::Shape(format!(
                "{channels} channels are not a multiple of {groups} groups"
            )));
        }
        // Products of extents of a tensor that has elements fit; without elements there is nothing to do.
        if x.elements() == 0 {
            call.set(0, x.clone());
            return Ok(());
        }
        let inner: usize = spatial.iter().product();
        let lines = reshaped(call, x, &[batch, groups, members * inner])?;
        let mut out = call.allocate(x.dtype(), x.shape())?;
        by_float!(x.dtype(), T => {
            let problem = NormProblem {
                norm: Norm::Layer,
                x: lines.view::<T>()?,
                axis: 2,
                scale: None,
                bias: None,
                epsilon: f64::from(self.epsilon),
            };
            let (scale, bias) = (call.view::<T>(1)?, call.view::<T>(2)?);
            let slots = out.as_mut_slice::<T>()?;
            normalize(call.compute(), &problem, slots, None, None)?;
            let planes = if self.by_group { [batch, groups, members * inner] } else { [batch, channels, inner] };
            Ok(scale_channels(slots, planes, &scale, &bias)?)
        })?;
        call.set(0, out.freeze());
        Ok(())
    }
}

fn instance(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let epsilon = build.attributes.float_or("epsilon", 1e-5)?;
    Ok(Box::new(GroupNorm {
        groups: None,
        epsilon,
        by_group: false,
    }))
}

fn group(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let epsilon = build.attributes.float_or("epsilon", 1e-5)?;
    let number = build.attributes.required_int("num_groups")?;
    let groups = usize::try_from(number).ok().filter(|&groups| groups > 0);
    let groups = groups.ok_or_else(|| AttributeError::Value {
        name: "num_groups",
        expected: "at least 1",
        got: number.to_string(),
    })?;
    if build.opset >= 21 {
        stash(build)?;
    }
    Ok(Box::new(GroupNorm {
        groups: Some(groups),
        epsilon,
        by_group: build.opset < 21,
    }))
}

/// `com.microsoft.GatedRMSNorm`.
struct GatedNorm {
    gate: Gate,
    epsilon: f32,
}

impl Kernel for GatedNorm {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let x = call.require(0)?;
        let mut out = call.allocate(x.dtype(), x.shape())?;
        by_float!(x.dtype(), T => {
            let (x, scale, gate) = (x.view::<T>()?, call.view::<T>(1)?, call.view::<T>(2)?);
            let slots = out.as_mut_slice::<T>()?;
            let epsilon = f64::from(self.epsilon);
            Ok(gated_rms_norm(call.compute(), &x, &scale, (&gate, self.gate), epsilon, slots)?)
        })?;
        call.set(0, out.freeze());
        Ok(())
    }
}

/// Source: the contributed operators of onnxruntime, `com.microsoft.GatedRMSNorm`.
fn gated(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let gate = match build.attributes.string("activation")? {
        None | Some("silu" | "swish") => Gate::Silu,
        Some("sigmoid") => Gate::Sigmoid,
        Some(other) => {
            return Err(AttributeError::Value {
                name: "activation",
                expected: "silu, swish or sigmoid",
                got: other.to_string(),
            }
            .into());
        }
    };
    Ok(Box::new(GatedNorm {
        gate,
        epsilon: build.attributes.float_or("epsilon", 1e-5)?,
    }))
}

const fn entry(domain: &'static str, op_type: &'static str, build: BuildFn) -> KernelEntry {
    KernelEntry {
        domain,
        op_type,
        types: &[(0, FLOATS)],
        build,
    }
}

const MICROSOFT: &str = "com.microsoft";

pub(super) const KERNELS: &[KernelEntry] = &[
    entry("", "LayerNormalization", layer_norm),
    entry("", "RMSNormalization", rms_norm),
    entry("", "SimplifiedLayerNormalization", rms_norm),
    entry(MICROSOFT, "SimplifiedLayerNormalization", rms_norm),
    entry(MICROSOFT, "SkipSimplifiedLayerNormalization", skip_rms_norm),
    entry(MICROSOFT, "SkipLayerNormalization", skip_layer_norm),
    entry(MICROSOFT, "GatedRMSNorm", gated),
    entry("", "LpNormalization", lp_norm),
    entry("", "BatchNormalization", batch),
    entry("", "InstanceNormalization", instance),
    entry("", "GroupNormalization", group),
];

#[cfg(test)]
mod tests {
    use super::super::trial::{Trial, floats, listed};
    use super::*;

    fn root(row: &[f64], epsilon: f64) -> f64 {
        (row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64 + epsilon).sqrt()
    }

    #[test]
    fn skip_norms_give_the_sum_and_its_statistics() {
        let (x, gamma, bias) = (floats(&[2, 3, 5]), floats(&[5]), floats(&[1, 1, 5]));
        let skip = Tensor::from_slice(
            &[3, 5],
            &(0..15).map(|i| i as f32 / 8.0).collect::<Vec<_>>(),
        )
        .unwrap();
        let trial = Trial::new("SkipSimplifiedLayerNormalization", 1)
            .domain(MICROSOFT)
            .float("epsilon", 0.25)
            .outputs(4);
        for bias in [None, Some(&bias)] {
            let out = trial
                .run(&[Some(&x), Some(&skip), Some(&gamma), bias])
                .unwrap();
            assert_eq!(out[2].shape(), [2, 3, 1]);
            let (xs, skips, gammas) = (listed(&x), listed(&skip), listed(&gamma));
            for row in 0..6 {
                let sum: Vec<f64> = (0..5)
                    .map(|c| {
                        let more = bias.map_or(0.0, |bias| listed(bias)[c]);
                        f64::from(xs[row * 5 + c])
                            + f64::from(skips[row % 3 * 5 + c])
                            + f64::from(more)
                    })
                    .collect();
                let root = root(&sum, 0.25);
                assert!((f64::from(listed(&out[2])[row]) * root - 1.0).abs() < 1e-5);
                for c in 0..5 {
                    assert!((f64::from(listed(&out[3])[row * 5 + c]) - sum[c]).abs() < 1e-5);
                    let want = sum[c] / root * f64::from(gammas[c]);
                    assert!((f64::from(listed(&out[0])[row * 5 + c]) - want).abs() < 1e-4);
                }
            }
        }
    }

    #[test]
    fn the_simplified_norm_is_one_of_two_domains() {
        let (x, scale) = (floats(&[3, 4]), floats(&[4]));
        let mut all = Vec::new();
        for domain in ["", MICROSOFT] {
            let trial = Trial::new("SimplifiedLayerNormalization", 1)
                .domain(domain)
                .int("stash_type", 1)
                .outputs(2);
            all.push(trial.run(&[Some(&x), Some(&scale)]).unwrap());
        }
        let rms = Trial::new("RMSNormalization", 23)
            .one(&[&x, &scale])
            .unwrap();
        for out in &all {
            assert_eq!(listed(&out[0]), listed(&rms));
            for row in 0..3 {
                let values: Vec<f64> = listed(&x)[row * 4..][..4]
                    .iter()
                    .map(|&x| f64::from(x))
                    .collect();
                let inverse = f64::from(listed(&out[1])[row]);
                assert!((inverse * root(&values, 1e-5) - 1.0).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn statistics_have_the_stashed_type() {
        let x: Vec<f64> = (0..6).map(|i| f64::from(i * i)).collect();
        let (x, scale) = (
            Tensor::from_slice(&[2, 3], &x).unwrap(),
            Tensor::from_slice(&[3], &[1f64; 3]).unwrap(),
        );
        let trial = |stash| {
            Trial::new("LayerNormalization", 17)
                .int("stash_type", stash)
                .outputs(3)
        };
        let out = trial(1).run(&[Some(&x), Some(&scale)]).unwrap();
        assert_eq!(
            (out[0].dtype(), out[1].dtype(), out[1].shape()),
            (DType::Double, DType::Float, &[2, 1][..])
        );
        assert!((listed(&out[1])[0] - 5.0 / 3.0).abs() < 1e-6);
        let out = trial(16).run(&[Some(&x), Some(&scale)]).unwrap();
        assert_eq!(out[2].dtype(), DType::Bfloat16);
        assert!(trial(7).run(&[Some(&x), Some(&scale)]).is_err());
        assert!(
            Trial::new("LayerNormalization", 17)
                .int("axis", 2)
                .one(&[&x, &scale])
                .is_err()
        );
        assert!(
            Trial::new("LayerNormalization", 17)
                .int("spare", 2)
                .one(&[&x, &scale])
                .is_err()
        );
    }
}
