//! Recurrent cells over a sequence: RNN, GRU, LSTM.
//!
//! The product of the inputs with their weights is taken once for the whole sequence; each step then takes one product
//! with the state (two for a GRU whose reset gate comes before the product) and goes over the gates. All working
//! memory is one slice from the caller, so that a step allocates nothing.

mod activation;

pub use activation::{Activation, Function};

use crate::matmul::{MatMulElement, matmul};
use crate::storage::Accumulator;
use crate::{Compute, KernelError};
use refeed_values::View;

/// Which cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    /// One gate.
    Rnn,
    /// Gates z (update), r (reset), h (candidate).
    Gru {
        /// The reset gate is applied to the product of state and weights, instead of to the state.
        linear_before_reset: bool,
    },
    /// Gates i (input), o (output), f (forget), c (candidate).
    Lstm {
        /// The forget gate is 1 minus the input gate.
        input_forget: bool,
    },
}

impl Cell {
    /// Number of gates: rows of a weight matrix for each element of the state.
    pub fn gates(self) -> usize {
        match self {
            Cell::Rnn => 1,
            Cell::Gru { .. } => 3,
            Cell::Lstm { .. } => 4,
        }
    }
}

/// A cell with the functions of its gates.
#[derive(Debug, Clone, PartialEq)]
pub struct CellFunctions {
    /// Which cell.
    pub cell: Cell,
    /// f, g and h of the ONNX text; a cell that has fewer leaves the rest unused.
    pub functions: [Activation; 3],
    /// Inputs of the functions are cut to `-clip..=clip`.
    pub clip: Option<f32>,
}

/// Extents of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extents {
    /// Steps.
    pub steps: usize,
    /// Sequences that are computed side by side.
    pub batch: usize,
    /// Elements of an input.
    pub input: usize,
    /// Elements of a state.
    pub hidden: usize,
}

/// The operands of one direction.
#[derive(Debug, Clone)]
pub struct Weights<'a, E> {
    /// `[gates * hidden, input]`
    pub w: View<'a, E>,
    /// `[gates * hidden, hidden]`
    pub r: View<'a, E>,
    /// `[2 * gates * hidden]`: summands of the products with `w`, then of those with `r`.
    pub bias: Option<View<'a, E>>,
    /// `[3 * hidden]`: factors of the cell state for the gates i, o, f of an LSTM.
    pub peepholes: Option<View<'a, E>>,
}

/// Where a step writes its states: sequence `b` at `y[offset + b * stride..]`.
#[derive(Debug)]
pub struct StepOutput<'y, E> {
    /// The whole output.
    pub y: &'y mut [E],
    /// Place of the first sequence.
    pub offset: usize,
    /// From one sequence to the next, in elements.
    pub stride: usize,
}

/// One direction over one sequence, stepped by the caller.
///
/// Source: ONNX operators `RNN`, `GRU`, `LSTM`.
#[derive(Debug)]
pub struct Pass<'a, 's, E> {
    compute: Compute<'a>,
    functions: &'a CellFunctions,
    extents: Extents,
    batch_first: bool,
    /// `[hidden, gates * hidden]`
    r: View<'a, E>,
    /// Products with the inputs, in the order of the inputs.
    products: &'s mut [E],
    /// `[batch, gates * hidden]`
    gates: &'s mut [E],
    /// `[batch, hidden]`: the state after the reset gate (GRU).
    reset: &'s mut [E],
    /// `[batch, hidden]`
    h: &'s mut [E],
    /// `[batch, hidden]` (LSTM)
    c: &'s mut [E],
    /// `[gates * hidden]`
    bias: &'s [E],
    /// `[hidden]`: summand of the state's product for the candidate (GRU).
    bias_r: &'s [E],
    /// `[3 * hidden]`, or empty.
    peepholes: &'s [E],
}

/// Lengths of the parts of the working memory.
struct Parts {
    products: usize,
    gates: usize,
    reset: usize,
    state: usize,
    cell: usize,
    bias: usize,
    bias_r: usize,
    peepholes: usize,
}

impl Parts {
    fn new(cell: Cell, extents: Extents, peepholes: bool) -> Option<Parts> {
        let wide = cell.gates().checked_mul(extents.hidden)?;
        let gates = extents.batch.checked_mul(wide)?;
        let state = extents.batch.checked_mul(extents.hidden)?;
        let (gru, lstm) = (
            matches!(cell, Cell::Gru { .. }),
            matches!(cell, Cell::Lstm { .. }),
        );
        Some(Parts {
            products: extents.steps.checked_mul(gates)?,
            gates,
            reset: if gru { state } else { 0 },
            state,
            cell: if lstm { state } else { 0 },
            bias: wide,
            bias_r: if gru { extents.hidden } else { 0 },
            peepholes: if peepholes {
                extents.hidden.checked_mul(3)?
            } else {
                0
            },
        })
    }

    fn total(&self) -> Option<usize> {
        [
            self.gates,
            self.reset,
            self.state,
            self.cell,
            self.bias,
            self.bias_r,
            self.peepholes,
        ]
        .iter()
        .try_fold(self.products, |sum, &n| sum.checked_add(n))
    }
}

fn check(operand: &'static str, expected: &[usize], got: &[usize]) -> Result<(), KernelError> {
    if expected == got {
        return Ok(());
    }
    Err(KernelError::shape(operand, expected, got))
}

impl<'a, 's, E: Accumulator + MatMulElement> Pass<'a, 's, E> {
    /// Elements of working memory that [`Pass::new`] needs; `None` when there are more than a `usize` counts.
    pub fn working_memory(cell: Cell, extents: Extents, peepholes: bool) -> Option<usize> {
        Parts::new(cell, extents, peepholes)?.total()
    }

    /// Multiplies the inputs, `[steps, batch, input]` or, with `batch_first`, `[batch, steps, input]`, with their
    /// weights, and starts from states of zero. `memory` has [`Pass::working_memory`] elements of any values.
    ///
    /// # Errors
    /// When an operand does not fit `extents`, or `memory` is of another length.
    pub fn new(
        compute: &Compute<'a>,
        functions: &'a CellFunctions,
        extents: Extents,
        weights: &Weights<'a, E>,
        (x, batch_first): (&View<'_, E>, bool),
        memory: &'s mut [E],
    ) -> Result<Self, KernelError> {
        let Extents {
            steps,
            batch,
            input,
            hidden,
        } = extents;
        let cell = functions.cell;
        let with_peepholes = weights.peepholes.is_some();
        let parts = Parts::new(cell, extents, with_peepholes);
        let total = parts.as_ref().and_then(Parts::total).unwrap_or(usize::MAX);
        KernelError::check_len("working memory", total, memory.len())?;
        let Some(parts) = parts else {
            return Err(KernelError::Length {
                operand: "working memory",
                expected: usize::MAX,
                got: memory.len(),
            });
        };
        let wide = parts.bias;
        if batch_first {
            check("X", &[batch, steps, input], x.shape())?;
        } else {
            check("X", &[steps, batch, input], x.shape())?;
        }
        check("W", &[wide, input], weights.w.shape())?;
        check("R", &[wide, hidden], weights.r.shape())?;
        let turned = |operand, view: &View<'a, E>| {
            view.swap(0, 1)
                .ok_or_else(|| KernelError::shape(operand, &[wide, hidden], view.shape()))
        };
        let (products, memory) = memory.split_at_mut(parts.products);
        let (gates, memory) = memory.split_at_mut(parts.gates);
        let (reset, memory) = memory.split_at_mut(parts.reset);
        let (h, memory) = memory.split_at_mut(parts.state);
        let (c, memory) = memory.split_at_mut(parts.cell);
        let (bias, memory) = memory.split_at_mut(parts.bias);
        let (bias_r, peepholes) = memory.split_at_mut(parts.bias_r);
        h.fill(E::ZERO);
        c.fill(E::ZERO);
        bias.fill(E::ZERO);
        bias_r.fill(E::ZERO);
        if let Some(given) = &weights.bias {
            check("B", &[wide.saturating_mul(2)], given.shape())?;
            for (at, value) in given.iter().enumerate() {
                if at < wide {
                    bias[at] = value;
                } else if matches!(cell, Cell::Gru { .. }) && at - wide >= 2 * hidden {
                    bias_r[at - wide - 2 * hidden] = value;
                } else {
                    bias[at - wide] += value;
                }
            }
        }
        if let Some(given) = &weights.peepholes {
            check("P", &[parts.peepholes], given.shape())?;
            given.copy_to(peepholes);
        }
        matmul(compute, x, &turned("W", &weights.w)?, products)?;
        Ok(Pass {
            compute: *compute,
            functions,
            extents,
            batch_first,
            r: turned("R", &weights.r)?,
            products,
            gates,
            reset,
            h,
            c,
            bias,
            bias_r,
            peepholes,
        })
    }

    /// The states, `[batch, hidden]`: h, and for an LSTM c (else empty).
    pub fn states(&mut self) -> (&mut [E], &mut [E]) {
        (self.h, self.c)
    }

    /// Computes step `t`, from the states as they are. Sequences for which `active` is false keep their states, and
    /// zeros are written for them.
    ///
    /// # Errors
    /// When `t` is not a step of the sequence, or the output is too short.
    pub fn step(
        &mut self,
        t: usize,
        active: impl Fn(usize) -> bool,
        mut output: Option<StepOutput<'_, E>>,
    ) -> Result<(), KernelError> {
        let Extents {
            steps,
            batch,
            hidden,
            ..
        } = self.extents;
        let cell = self.functions.cell;
        let wide = cell.gates() * hidden;
        if t >= steps {
            return Err(KernelError::Range {
                parameter: "step",
                got: i64::try_from(t).unwrap_or(i64::MAX),
                low: 0,
                high: i64::try_from(steps).unwrap_or(i64::MAX) - 1,
            });
        }
        if batch == 0 || hidden == 0 {
            return Ok(());
        }
        self.multiply_state()?;
        for b in 0..batch {
            if active(b) {
                let row = if self.batch_first {
                    b * steps + t
                } else {
                    t * batch + b
                };
                let products = &self.products[row * wide..][..wide];
                let gates = &mut self.gates[b * wide..][..wide];
                let h = &mut self.h[b * hidden..][..hidden];
                let job = Row {
                    compute: &self.compute,
                    functions: self.functions,
                    products,
                    bias: self.bias,
                };
                match cell {
                    Cell::Rnn => job.rnn(gates, h),
                    Cell::Lstm { input_forget } => {
                        let c = &mut self.c[b * hidden..][..hidden];
                        job.lstm(gates, h, c, self.peepholes, input_forget);
                    }
                    Cell::Gru {
                        linear_before_reset: true,
                    } => job.gru(gates, h, self.bias_r),
                    Cell::Gru {
                        linear_before_reset: false,
                    } => {
                        // Only the first two gates have been multiplied, in rows of their own width.
                        let gates = &mut self.gates[b * 2 * hidden..][..2 * hidden];
                        let reset = &mut self.reset[b * hidden..][..hidden];
                        job.gru_gates(gates, h, reset);
                    }
                }
            } else if cell
                == (Cell::Gru {
                    linear_before_reset: false,
                })
            {
                self.reset[b * hidden..][..hidden].fill(E::ZERO);
            }
        }
        if cell
            == (Cell::Gru {
                linear_before_reset: false,
            })
        {
            self.finish_gru(t, &active)?;
        }
        if let Some(StepOutput { y, offset, stride }) = &mut output {
            for b in 0..batch {
                let place = b
                    .checked_mul(*stride)
                    .and_then(|n| n.checked_add(*offset))
                    .and_then(|start| y.get_mut(start..start.checked_add(hidden)?));
                let Some(place) = place else {
                    return Err(KernelError::Length {
                        operand: "Y",
                        expected: offset.saturating_add(batch.saturating_mul(*stride)),
                        got: y.len(),
                    });
                };
                if active(b) {
                    place.copy_from_slice(&self.h[b * hidden..][..hidden]);
                } else {
                    place.fill(E::ZERO);
                }
            }
        }
        Ok(())
    }

    /// The product of the state with the weights of all gates that do not wait for another gate.
    fn multiply_state(&mut self) -> Result<(), KernelError> {
        let Extents { batch, hidden, .. } = self.extents;
        let state = view_of(self.h, batch, hidden)?;
        match self.functions.cell {
            Cell::Gru {
                linear_before_reset: false,
            } => {
                let r = part(&self.r, 0, 2 * hidden)?;
                matmul(
                    &self.compute,
                    &state,
                    &r,
                    &mut self.gates[..batch * 2 * hidden],
                )
            }
            _ => matmul(&self.compute, &state, &self.r, self.gates),
        }
    }

    /// The candidates of a GRU whose state is reset before the product, and the new states.
    fn finish_gru(&mut self, t: usize, active: impl Fn(usize) -> bool) -> Result<(), KernelError> {
        let Extents {
            steps,
            batch,
            hidden,
            ..
        } = self.extents;
        let r = part(&self.r, 2 * hidden, hidden)?;
        let (gates, candidates) = self.gates.split_at_mut(batch * 2 * hidden);
        let reset = view_of(self.reset, batch, hidden)?;
        matmul(&self.compute, &reset, &r, candidates)?;
        for b in (0..batch).filter(|&b| active(b)) {
            let row = if self.batch_first {
                b * steps + t
            } else {
                t * batch + b
            };
            let products = &self.products[row * 3 * hidden + 2 * hidden..][..hidden];
            let candidate = &mut candidates[b * hidden..][..hidden];
            for (j, n) in candidate.iter_mut().enumerate() {
                *n = *n + products[j] + (self.bias[2 * hidden + j] + self.bias_r[j]);
            }
            self.functions.apply(self.compute.isa, 1, candidate);
            let update = &gates[b * 2 * hidden..][..hidden];
            let h = &mut self.h[b * hidden..][..hidden];
            for ((h, &z), &n) in h.iter_mut().zip(update).zip(&*candidate) {
                *h = (E::ONE - z) * n + z * *h;
            }
        }
        Ok(())
    }
}

fn view_of<E: Accumulator>(
    data: &[E],
    rows: usize,
    cols: usize,
) -> Result<View<'_, E>, KernelError> {
    View::from_slice(data, &[rows, cols])
        .ok_or_else(|| KernelError::shape("state", &[rows, cols], &[data.len()]))
}

/// Some columns of the turned weights.
fn part<'a, E: Accumulator>(
    r: &View<'a, E>,
    start: usize,
    count: usize,
) -> Result<View<'a, E>, KernelError> {
    r.slice(1, start, count, 1)
        .ok_or_else(|| KernelError::shape("R", &[start + count], r.shape()))
}

impl CellFunctions {
    /// Applies function `index` to its inputs, cut to the clip range first.
    fn apply<E: Accumulator>(&self, isa: crate::Isa, index: usize, x: &mut [E]) {
        if let Some(clip) = self.clip {
            let high = E::from_f32(clip);
            let low = -high;
            for x in x.iter_mut() {
                *x = if *x < low {
                    low
                } else if *x > high {
                    high
                } else {
                    *x
                };
            }
        }
        self.functions[index].apply(isa, x);
    }
}

/// One sequence at one step: `gates` hold the products with the state.
struct Row<'r, E> {
    compute: &'r Compute<'r>,
    functions: &'r CellFunctions,
    /// Products with the inputs.
    products: &'r [E],
    bias: &'r [E],
}

impl<E: Accumulator> Row<'_, E> {
    fn apply(&self, index: usize, x: &mut [E]) {
        self.functions.apply(self.compute.isa, index, x);
    }

    /// `gates += products + bias`
    fn add(&self, gates: &mut [E]) {
        for ((g, &p), &b) in gates.iter_mut().zip(self.products).zip(self.bias) {
            *g = *g + p + b;
        }
    }

    fn rnn(&self, gates: &mut [E], h: &mut [E]) {
        self.add(gates);
        self.apply(0, gates);
        h.copy_from_slice(gates);
    }

    fn lstm(&self, gates: &mut [E], h: &mut [E], c: &mut [E], peepholes: &[E], input_forget: bool) {
        self.add(gates);
        let n = h.len();
        let (early, candidate) = gates.split_at_mut(3 * n);
        self.apply(1, candidate);
        if peepholes.is_empty() {
            self.apply(0, early);
        } else {
            for j in 0..n {
                early[j] += peepholes[j] * c[j];
                early[2 * n + j] += peepholes[2 * n + j] * c[j];
            }
            self.apply(0, &mut early[..n]);
            self.apply(0, &mut early[2 * n..]);
        }
        let (input, rest) = early.split_at_mut(n);
        let (output, forget) = rest.split_at_mut(n);
        if input_forget {
            for (f, &i) in forget.iter_mut().zip(&*input) {
                *f = E::ONE - i;
            }
        }
        for (j, c) in c.iter_mut().enumerate() {
            *c = forget[j] * *c + input[j] * candidate[j];
        }
        if !peepholes.is_empty() {
            for (j, o) in output.iter_mut().enumerate() {
                *o += peepholes[n + j] * c[j];
            }
            self.apply(0, output);
        }
        h.copy_from_slice(c);
        self.apply(2, h);
        for (h, &o) in h.iter_mut().zip(&*output) {
            *h *= o;
        }
    }

    fn gru(&self, gates: &mut [E], h: &mut [E], bias_r: &[E]) {
        let n = h.len();
        let (both, candidate) = gates.split_at_mut(2 * n);
        self.add(both);
        self.apply(0, both);
        let (update, reset) = both.split_at(n);
        for (j, x) in candidate.iter_mut().enumerate() {
            *x = reset[j] * (*x + bias_r[j]) + (self.products[2 * n + j] + self.bias[2 * n + j]);
        }
        self.apply(1, candidate);
        for ((h, &z), &x) in h.iter_mut().zip(update).zip(&*candidate) {
            *h = (E::ONE - z) * x + z * *h;
        }
    }

    /// Update and reset gates, and the state after the reset gate.
    fn gru_gates(&self, both: &mut [E], h: &[E], after: &mut [E]) {
        self.add(both);
        self.apply(0, both);
        let reset = &both[h.len()..];
        for ((slot, &r), &h) in after.iter_mut().zip(reset).zip(h) {
            *slot = r * h;
        }
    }
}

#[cfg(test)]
mod tests;
