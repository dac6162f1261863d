//! Recurrent layers: `RNN`, `GRU`, `LSTM`.

use super::types::FLOATS;
use crate::kernel::{Build, Invocation, Kernel, KernelEntry, OpError};
use half::{bf16, f16};
use refeed_graph::attributes::{AttributeError, Attributes};
use refeed_kernels::matmul::MatMulElement;
use refeed_kernels::recurrent::{
    Activation, Cell, CellFunctions, Extents, Function, Pass, StepOutput, Weights,
};
use refeed_kernels::{Accumulator, Real};
use refeed_values::{DType, Element, Tensor, TensorMut, View};
use smallvec::SmallVec;

/// Input positions of an LSTM; the others have the first six.
const INPUTS: usize = 8;
const LENS: usize = 4;
/// What lengths of sequences are given in.
const LENGTHS: &[DType] = &[DType::Int32];

struct Direction {
    reverse: bool,
    functions: CellFunctions,
}

struct Recurrent {
    directions: SmallVec<[Direction; 2]>,
    hidden: Option<usize>,
    batch_first: bool,
}

fn shape(what: &str, expected: &[usize], got: &[usize]) -> Result<(), OpError> {
    if expected == got {
        return Ok(());
    }
    Err(OpError::Shape(format!(
        "{what}: expected shape {expected:?}, got {got:?}"
    )))
}

/// FLOAT16 or BFLOAT16 numbers as FLOAT.
fn widened(call: &mut Invocation<'_>, tensor: &Tensor) -> Result<Tensor, OpError> {
    fn fill<T>(from: &Tensor, to: &mut [f32]) -> Result<(), OpError>
    where
        T: Real<Acc = f32>,
    {
        let view = from.view::<T>()?;
        for (slot, x) in to.iter_mut().zip(view.iter()) {
            *slot = x.to_acc();
        }
        Ok(())
    }
    let mut out = call.allocate(DType::Float, tensor.shape())?;
    let slots = out.as_mut_slice::<f32>()?;
    match tensor.dtype() {
        DType::Float16 => fill::<f16>(tensor, slots)?,
        _ => fill::<bf16>(tensor, slots)?,
    }
    Ok(out.freeze())
}

/// FLOAT numbers rounded to FLOAT16 or BFLOAT16.
fn narrowed(call: &mut Invocation<'_>, tensor: Tensor, dtype: DType) -> Result<Tensor, OpError> {
    if tensor.dtype() == dtype {
        return Ok(tensor);
    }
    fn fill<T: Real<Acc = f32>>(from: &View<'_, f32>, to: &mut TensorMut) -> Result<(), OpError> {
        for (slot, x) in to.as_mut_slice::<T>()?.iter_mut().zip(from.iter()) {
            *slot = T::from_acc(x);
        }
        Ok(())
    }
    let mut out = call.allocate(dtype, tensor.shape())?;
    match dtype {
        DType::Float16 => fill::<f16>(&tensor.view::<f32>()?, &mut out)?,
        _ => fill::<bf16>(&tensor.view::<f32>()?, &mut out)?,
    }
    call.recycle(tensor);
    Ok(out.freeze())
}

impl Kernel for Recurrent {
    fn run(&self, call: &mut Invocation<'_>) -> Result<(), OpError> {
        let dtype = call.require(0)?.dtype();
        let mut wide: [Option<Tensor>; INPUTS] = Default::default();
        if matches!(dtype, DType::Float16 | DType::Bfloat16) {
            for (index, slot) in wide.iter_mut().enumerate().filter(|(i, _)| *i != LENS) {
                let Some(tensor) = call.input(index) else {
                    continue;
                };
                if tensor.dtype() != dtype {
                    return Err(OpError::DType {
                        index,
                        expected: dtype.to_string(),
                        got: tensor.dtype(),
                    });
                }
                *slot = Some(widened(call, tensor)?);
            }
        }
        let mut inputs: [Option<&Tensor>; INPUTS] = [None; INPUTS];
        for (index, slot) in inputs.iter_mut().enumerate() {
            *slot = wide[index].as_ref().or_else(|| call.input(index));
        }
        match dtype {
            DType::Double => self.layer::<f64>(call, &inputs, dtype)?,
            _ => self.layer::<f32>(call, &inputs, dtype)?,
        }
        for tensor in wide.into_iter().flatten() {
            call.recycle(tensor);
        }
        Ok(())
    }
}

fn operand<'a, T: Element>(
    inputs: &[Option<&'a Tensor>; INPUTS],
    index: usize,
) -> Result<Option<View<'a, T>>, OpError> {
    let Some(tensor) = inputs[index] else {
        return Ok(None);
    };
    if !T::reads(tensor.dtype()) {
        return Err(OpError::DType {
            index,
            expected: T::DTYPE.to_string(),
            got: tensor.dtype(),
        });
    }
    Ok(Some(tensor.view::<T>()?))
}

/// One direction of an operand whose axis `axis` counts directions.
fn direction<'a, T: Element>(
    view: &View<'a, T>,
    axis: usize,
    at: usize,
) -> Result<View<'a, T>, OpError> {
    view.index(axis, at).ok_or_else(|| {
        OpError::Shape(format!(
            "direction {at}: axis {axis} of shape {:?} has no such position",
            view.shape()
        ))
    })
}

/// Lengths of the sequences, each at most `steps`.
fn lengths(
    inputs: &[Option<&Tensor>; INPUTS],
    batch: usize,
    steps: usize,
) -> Result<Option<SmallVec<[usize; 16]>>, OpError> {
    let Some(given) = operand::<i32>(inputs, LENS)? else {
        return Ok(None);
    };
    shape("sequence_lens", &[batch], given.shape())?;
    let checked = given.iter().map(|n| {
        usize::try_from(n)
            .ok()
            .filter(|&n| n <= steps)
            .ok_or_else(|| OpError::Value {
                what: "sequence_lens",
                expected: format!("0 to {steps}"),
                got: n.to_string(),
            })
    });
    checked.collect::<Result<_, _>>().map(Some)
}

impl Recurrent {
    fn layer<E: Accumulator + MatMulElement>(
        &self,
        call: &mut Invocation<'_>,
        inputs: &[Option<&Tensor>; INPUTS],
        dtype: DType,
    ) -> Result<(), OpError> {
        let required = |index| operand::<E>(inputs, index)?.ok_or(OpError::MissingInput { index });
        let (x, w, r) = (required(0)?, required(1)?, required(2)?);
        let (bias, peepholes) = (operand::<E>(inputs, 3)?, operand::<E>(inputs, 7)?);
        let (first_h, first_c) = (operand::<E>(inputs, 5)?, operand::<E>(inputs, 6)?);
        let cell = self.directions[0].functions.cell;
        let lstm = matches!(cell, Cell::Lstm { .. });
        let count = self.directions.len();
        let &[first, second, input] = x.shape() else {
            return Err(OpError::Shape(format!(
                "X: expected 3 axes, got shape {:?}",
                x.shape()
            )));
        };
        let (steps, batch) = if self.batch_first {
            (second, first)
        } else {
            (first, second)
        };
        let hidden = match (self.hidden, r.shape()) {
            (Some(hidden), _) => hidden,
            (None, &[_, _, hidden]) if hidden > 0 => hidden,
            (None, other) => {
                return Err(OpError::Shape(format!(
                    "R: expected 3 axes and a state of at least 1 element, got shape {other:?}"
                )));
            }
        };
        let extents = Extents {
            steps,
            batch,
            input,
            hidden,
        };
        let too_large = || OpError::Shape(format!("a state of {hidden} elements is too large"));
        let wide = cell.gates().checked_mul(hidden).ok_or_else(too_large)?;
        let twice = wide.checked_mul(2).ok_or_else(too_large)?;
        shape("W", &[count, wide, input], w.shape())?;
        shape("R", &[count, wide, hidden], r.shape())?;
        if let Some(bias) = &bias {
            shape("B", &[count, twice], bias.shape())?;
        }
        if let Some(peepholes) = &peepholes {
            // Less than `wide`, which fits.
            shape("P", &[count, 3 * hidden], peepholes.shape())?;
        }
        let state = if self.batch_first {
            [batch, count, hidden]
        } else {
            [count, batch, hidden]
        };
        let states_axis = usize::from(self.batch_first);
        for (what, given) in [("initial_h", &first_h), ("initial_c", &first_c)] {
            if let Some(given) = given {
                shape(what, &state, given.shape())?;
            }
        }
        let lens = lengths(inputs, batch, steps)?;
        let longest = match &lens {
            Some(lens) => lens.iter().copied().max().unwrap_or(0),
            None => steps,
        };

        let all = if self.batch_first {
            [batch, steps, count, hidden]
        } else {
            [steps, count, batch, hidden]
        };
        let output = |call: &mut Invocation<'_>, index, shape: &[usize]| match call.wants(index) {
            true => call.allocate(E::DTYPE, shape).map(Some),
            false => Ok(None),
        };
        let mut y = output(call, 0, &all)?;
        let mut last_h = output(call, 1, &state)?;
        let mut last_c = if lstm { output(call, 2, &state)? } else { None };
        let memory =
            Pass::<E>::working_memory(cell, extents, peepholes.is_some()).ok_or_else(too_large)?;
        let mut memory = call.allocate(E::DTYPE, &[memory])?;
        if let Some(y) = &mut y
            && longest < steps
        {
            y.as_mut_slice::<E>()?.fill(E::ZERO);
        }
        for (d, side) in self.directions.iter().enumerate() {
            let weights = Weights {
                w: direction(&w, 0, d)?,
                r: direction(&r, 0, d)?,
                bias: bias.as_ref().map(|b| direction(b, 0, d)).transpose()?,
                peepholes: peepholes.as_ref().map(|p| direction(p, 0, d)).transpose()?,
            };
            let mut pass = Pass::new(
                call.compute(),
                &side.functions,
                extents,
                &weights,
                (&x, self.batch_first),
                memory.as_mut_slice::<E>()?,
            )?;
            let (h, c) = pass.states();
            if let Some(first) = &first_h {
                direction(first, states_axis, d)?.copy_to(h);
            }
            if let Some(first) = first_c.as_ref().filter(|_| lstm) {
                direction(first, states_axis, d)?.copy_to(c);
            }
            // Without sequences nothing is computed, however many steps the shape claims.
            let steps_to_do = if batch == 0 { 0 } else { longest };
            for at in 0..steps_to_do {
                call.check_interrupt()?;
                // Reversed, a short sequence starts at its own end: until then it is not active.
                let t = if side.reverse { longest - 1 - at } else { at };
                let place = match &mut y {
                    None => None,
                    // Places inside the allocated output: no product overflows.
                    Some(y) => Some(StepOutput {
                        y: y.as_mut_slice::<E>()?,
                        offset: if self.batch_first {
                            (t * count + d) * hidden
                        } else {
                            (t * count + d) * batch * hidden
                        },
                        stride: if self.batch_first {
                            steps * count * hidden
                        } else {
                            hidden
                        },
                    }),
                };
                let active = |b: usize| lens.as_ref().is_none_or(|lens| t < lens[b]);
                pass.step(t, active, place)?;
            }
            let (h, c) = pass.states();
            for (out, state) in [(&mut last_h, &*h), (&mut last_c, &*c)] {
                let Some(out) = out else { continue };
                let out = out.as_mut_slice::<E>()?;
                for (b, row) in state.chunks_exact(hidden).enumerate() {
                    let place = if self.batch_first {
                        b * count + d
                    } else {
                        d * batch + b
                    };
                    out[place * hidden..][..hidden].copy_from_slice(row);
                }
            }
        }
        call.recycle(memory.freeze());
        for (index, out) in [y, last_h, last_c].into_iter().enumerate() {
            if let Some(out) = out {
                let out = narrowed(call, out.freeze(), dtype)?;
                call.set(index, out);
            }
        }
        Ok(())
    }
}

fn refused(name: &'static str, expected: &'static str, got: impl ToString) -> OpError {
    let got = got.to_string();
    AttributeError::Value {
        name,
        expected,
        got,
    }
    .into()
}

/// The functions of all directions, one after the other; alphas and betas go in order to those that have one.
fn functions(
    attributes: &Attributes<'_>,
    defaults: &[Function],
    directions: usize,
) -> Result<Vec<Activation>, OpError> {
    let given = attributes.strings("activations")?.unwrap_or_default();
    let mut all = Vec::with_capacity(directions * defaults.len());
    if given.is_empty() {
        for _ in 0..directions {
            all.extend(defaults.iter().map(|&function| Activation::new(function)));
        }
    } else {
        if given.len() != directions * defaults.len() {
            return Err(refused(
                "activations",
                "the functions of each direction",
                format!("{given:?}"),
            ));
        }
        for name in given {
            let function = Function::named(name)
                .ok_or_else(|| refused("activations", "names of known functions", name))?;
            all.push(Activation::new(function));
        }
    }
    let alphas = attributes.floats("activation_alpha")?.unwrap_or_default();
    let betas = attributes.floats("activation_beta")?.unwrap_or_default();
    let (mut alphas, mut betas) = (alphas.iter(), betas.iter());
    for activation in &mut all {
        if activation.function.alpha().is_some()
            && let Some(&alpha) = alphas.next()
        {
            activation.alpha = alpha;
        }
        if activation.function.beta().is_some()
            && let Some(&beta) = betas.next()
        {
            activation.beta = beta;
        }
    }
    Ok(all)
}

fn recurrent(
    build: &Build<'_>,
    cell: Cell,
    defaults: &[Function],
) -> Result<Box<dyn Kernel>, OpError> {
    let attributes = build.attributes;
    let reversed: &[bool] = match attributes.string("direction")? {
        None | Some("forward") => &[false],
        Some("reverse") => &[true],
        Some("bidirectional") => &[false, true],
        Some(other) => {
            let expected = "forward, reverse or bidirectional";
            return Err(refused("direction", expected, other));
        }
    };
    let all = functions(attributes, defaults, reversed.len())?;
    let clip = attributes.float("clip")?;
    if let Some(clip) = clip.filter(|&clip| clip.is_nan() || clip <= 0.0) {
        return Err(refused("clip", "a positive number", clip));
    }
    let hidden = match attributes.int("hidden_size")? {
        None => None,
        Some(number) => Some(
            usize::try_from(number)
                .ok()
                .filter(|&n| n > 0)
                .ok_or_else(|| refused("hidden_size", "at least 1", number))?,
        ),
    };
    let directions =
        reversed
            .iter()
            .zip(all.chunks_exact(defaults.len()))
            .map(|(&reverse, own)| {
                let mut functions = [own[0]; 3];
                functions[..own.len()].copy_from_slice(own);
                Direction {
                    reverse,
                    functions: CellFunctions {
                        cell,
                        functions,
                        clip,
                    },
                }
            });
    Ok(Box::new(Recurrent {
        directions: directions.collect(),
        hidden,
        batch_first: attributes.flag("layout", false)?,
    }))
}

fn rnn(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    recurrent(build, Cell::Rnn, &[Function::Tanh])
}

fn gru(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let linear_before_reset = build.attributes.int_or("linear_before_reset", 0)? != 0;
    let cell = Cell::Gru {
        linear_before_reset,
    };
    recurrent(build, cell, &[Function::Sigmoid, Function::Tanh])
}

fn lstm(build: &mut Build<'_>) -> Result<Box<dyn Kernel>, OpError> {
    let input_forget = build.attributes.flag("input_forget", false)?;
    let defaults = [Function::Sigmoid, Function::Tanh, Function::Tanh];
    recurrent(build, Cell::Lstm { input_forget }, &defaults)
}

pub(super) const KERNELS: &[KernelEntry] = &[
    KernelEntry {
        domain: "",
        op_type: "RNN",
        types: &[(0, FLOATS), (4, LENGTHS)],
        build: rnn,
    },
    KernelEntry {
        domain: "",
        op_type: "GRU",
        types: &[(0, FLOATS), (4, LENGTHS)],
        build: gru,
    },
    KernelEntry {
        domain: "",
        op_type: "LSTM",
        types: &[(0, FLOATS), (4, LENGTHS)],
        build: lstm,
    },
];
