//! Against the formulas of the ONNX text, one sequence and one gate at a time, in f64.

use super::*;
use crate::Isa;

/// Numbers between -1 and 1 that do not repeat soon.
fn numbers(count: usize, seed: usize) -> Vec<f64> {
    (0..count)
        .map(|i| ((i * 37 + seed * 11 + 5) % 101) as f64 / 50.0 - 1.0)
        .collect()
}

struct Given {
    x: Vec<f64>,
    w: Vec<f64>,
    r: Vec<f64>,
    bias: Vec<f64>,
    peepholes: Vec<f64>,
    h: Vec<f64>,
    c: Vec<f64>,
}

fn given(cell: Cell, e: Extents) -> Given {
    let wide = cell.gates() * e.hidden;
    Given {
        x: numbers(e.steps * e.batch * e.input, 1),
        w: numbers(wide * e.input, 2),
        r: numbers(wide * e.hidden, 3),
        bias: numbers(2 * wide, 4),
        peepholes: numbers(3 * e.hidden, 5),
        h: numbers(e.batch * e.hidden, 6),
        c: numbers(e.batch * e.hidden, 7),
    }
}

fn named(function: Function, x: f64) -> f64 {
    match function {
        Function::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Function::Tanh => x.tanh(),
        Function::Relu => x.max(0.0),
        other => panic!("{other:?} is not in this reference"),
    }
}

/// All states, `[steps, batch, hidden]`, and the last h and c.
fn reference(
    functions: &CellFunctions,
    e: Extents,
    g: &Given,
    peepholes: bool,
) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let n = e.hidden;
    let wide = functions.cell.gates() * n;
    let f = |index: usize, x: f64| {
        let clip = functions.clip.map_or(f64::INFINITY, f64::from);
        named(functions.functions[index].function, x.clamp(-clip, clip))
    };
    let (mut h, mut c, mut y) = (g.h.clone(), g.c.clone(), Vec::new());
    for t in 0..e.steps {
        for b in 0..e.batch {
            let x = &g.x[(t * e.batch + b) * e.input..][..e.input];
            let before = h[b * n..][..n].to_vec();
            let xw = |row: usize| -> f64 {
                g.bias[row]
                    + (0..e.input)
                        .map(|k| x[k] * g.w[row * e.input + k])
                        .sum::<f64>()
            };
            let hr = |row: usize, state: &[f64]| -> f64 {
                g.bias[wide + row] + (0..n).map(|k| state[k] * g.r[row * n + k]).sum::<f64>()
            };
            let resets: Vec<f64> = match functions.cell {
                Cell::Gru { .. } => (0..n)
                    .map(|j| f(0, xw(n + j) + hr(n + j, &before)) * before[j])
                    .collect(),
                _ => Vec::new(),
            };
            for j in 0..n {
                h[b * n + j] = match functions.cell {
                    Cell::Rnn => f(0, xw(j) + hr(j, &before)),
                    Cell::Gru {
                        linear_before_reset,
                    } => {
                        let z = f(0, xw(j) + hr(j, &before));
                        let r = f(0, xw(n + j) + hr(n + j, &before));
                        let m = 2 * n + j;
                        let candidate = if linear_before_reset {
                            f(1, xw(m) + r * hr(m, &before))
                        } else {
                            f(1, xw(m) + hr(m, &resets))
                        };
                        (1.0 - z) * candidate + z * before[j]
                    }
                    Cell::Lstm { input_forget } => {
                        let p = |at: usize, state: f64| {
                            if peepholes {
                                g.peepholes[at * n + j] * state
                            } else {
                                0.0
                            }
                        };
                        let old = c[b * n + j];
                        let i = f(0, xw(j) + hr(j, &before) + p(0, old));
                        let forget = if input_forget {
                            1.0 - i
                        } else {
                            f(0, xw(2 * n + j) + hr(2 * n + j, &before) + p(2, old))
                        };
                        let new = forget * old + i * f(1, xw(3 * n + j) + hr(3 * n + j, &before));
                        c[b * n + j] = new;
                        f(0, xw(n + j) + hr(n + j, &before) + p(1, new)) * f(2, new)
                    }
                };
            }
        }
        y.extend_from_slice(&h);
    }
    (y, h, c)
}

/// Runs some steps from given states and returns all states and the last ones.
fn run<E: Accumulator + MatMulElement>(
    isa: Isa,
    functions: &CellFunctions,
    e: Extents,
    g: &Given,
    peepholes: bool,
    batch_first: bool,
) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let cast = |x: &[f64]| -> Vec<E> { x.iter().map(|&x| E::from_f64(x)).collect() };
    let (w, r, bias, p) = (cast(&g.w), cast(&g.r), cast(&g.bias), cast(&g.peepholes));
    let wide = functions.cell.gates() * e.hidden;
    let mut x = cast(&g.x);
    if batch_first {
        let turned = View::from_slice(&x, &[e.steps, e.batch, e.input]).unwrap();
        x = turned.swap(0, 1).unwrap().to_vec();
    }
    let shape = if batch_first {
        [e.batch, e.steps, e.input]
    } else {
        [e.steps, e.batch, e.input]
    };
    let weights = Weights {
        w: View::from_slice(&w, &[wide, e.input]).unwrap(),
        r: View::from_slice(&r, &[wide, e.hidden]).unwrap(),
        bias: View::from_slice(&bias, &[2 * wide]),
        peepholes: View::from_slice(&p, &[3 * e.hidden]).filter(|_| peepholes),
    };
    let len = Pass::<E>::working_memory(functions.cell, e, peepholes).unwrap();
    let mut memory = vec![E::from_f64(f64::NAN); len];
    let x = View::from_slice(&x, &shape).unwrap();
    let compute = Compute {
        isa,
        ..Compute::default()
    };
    let mut pass = Pass::new(
        &compute,
        functions,
        e,
        &weights,
        (&x, batch_first),
        &mut memory,
    )
    .unwrap();
    let (h, c) = pass.states();
    h.copy_from_slice(&cast(&g.h));
    if !c.is_empty() {
        c.copy_from_slice(&cast(&g.c));
    }
    let mut y = vec![E::ZERO; e.steps * e.batch * e.hidden];
    for t in 0..e.steps {
        let output = StepOutput {
            y: &mut y,
            offset: t * e.batch * e.hidden,
            stride: e.hidden,
        };
        pass.step(t, |_| true, Some(output)).unwrap();
    }
    let (h, c) = pass.states();
    let back = |x: &[E]| -> Vec<f64> { x.iter().map(|x| x.to_f64()).collect() };
    (back(&y), back(h), back(c))
}

fn close(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        assert!(
            (got - want).abs() <= tolerance,
            "{what}, {at}: {got} {want}"
        );
    }
}

fn functions(cell: Cell, names: [Function; 3], clip: Option<f32>) -> CellFunctions {
    CellFunctions {
        cell,
        functions: names.map(Activation::new),
        clip,
    }
}

const CELLS: [Cell; 5] = [
    Cell::Rnn,
    Cell::Gru {
        linear_before_reset: false,
    },
    Cell::Gru {
        linear_before_reset: true,
    },
    Cell::Lstm {
        input_forget: false,
    },
    Cell::Lstm { input_forget: true },
];

fn usual(cell: Cell) -> [Function; 3] {
    match cell {
        Cell::Rnn => [Function::Tanh; 3],
        _ => [Function::Sigmoid, Function::Tanh, Function::Tanh],
    }
}

#[test]
fn every_cell_follows_its_formula() {
    let sizes = [(3, 2, 5, 7), (1, 1, 1, 1), (4, 11, 9, 19), (2, 3, 17, 16)];
    for cell in CELLS {
        for (steps, batch, input, hidden) in sizes {
            let e = Extents {
                steps,
                batch,
                input,
                hidden,
            };
            let g = given(cell, e);
            for (clip, peepholes) in [(None, false), (Some(0.4), true)] {
                let peepholes = peepholes && matches!(cell, Cell::Lstm { .. });
                let functions = functions(cell, usual(cell), clip);
                let (y, h, c) = reference(&functions, e, &g, peepholes);
                for isa in Isa::available() {
                    for batch_first in [false, true] {
                        let what = format!("{cell:?} {e:?} {isa} {batch_first} {clip:?}");
                        let got = run::<f64>(isa, &functions, e, &g, peepholes, batch_first);
                        close(&got.0, &y, 1e-12, &what);
                        close(&got.1, &h, 1e-12, &what);
                        if !got.2.is_empty() {
                            close(&got.2, &c, 1e-12, &what);
                        }
                        let got = run::<f32>(isa, &functions, e, &g, peepholes, batch_first);
                        close(&got.0, &y, 2e-5, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn other_functions_stand_where_they_are_named() {
    let e = Extents {
        steps: 2,
        batch: 3,
        input: 4,
        hidden: 5,
    };
    for cell in CELLS {
        let g = given(cell, e);
        let functions = functions(
            cell,
            [Function::Tanh, Function::Sigmoid, Function::Relu],
            None,
        );
        let (y, ..) = reference(&functions, e, &g, false);
        let (got, ..) = run::<f64>(Isa::best(), &functions, e, &g, false, false);
        close(&got, &y, 1e-12, &format!("{cell:?}"));
    }
}

#[test]
fn chunks_of_a_sequence_with_the_state_fed_back_are_the_sequence() {
    let whole = Extents {
        steps: 6,
        batch: 2,
        input: 5,
        hidden: 7,
    };
    for cell in CELLS {
        let all = given(cell, whole);
        let functions = functions(cell, usual(cell), None);
        let (y, h, c) = run::<f32>(Isa::best(), &functions, whole, &all, false, false);
        for steps in [1, 2, 3] {
            let e = Extents { steps, ..whole };
            let mut part = given(cell, e);
            (part.w, part.r, part.bias) = (all.w.clone(), all.r.clone(), all.bias.clone());
            (part.h, part.c) = (all.h.clone(), all.c.clone());
            let mut joined = Vec::new();
            for x in all.x.chunks(steps * 2 * 5) {
                part.x = x.to_vec();
                let (y, h, c) = run::<f32>(Isa::best(), &functions, e, &part, false, false);
                joined.extend(y);
                part.h = h;
                if !c.is_empty() {
                    part.c = c;
                }
            }
            // The product of the inputs may be summed in another order when it has fewer rows.
            let what = format!("{cell:?} by {steps}");
            close(&joined, &y, 1e-6, &what);
            close(&part.h, &h, 1e-6, &what);
            if !c.is_empty() {
                close(&part.c, &c, 1e-6, &what);
            }
        }
    }
}

#[test]
fn inactive_sequences_keep_their_states_and_give_zeros() {
    let e = Extents {
        steps: 1,
        batch: 3,
        input: 2,
        hidden: 4,
    };
    for cell in CELLS {
        let g = given(cell, e);
        let functions = functions(cell, usual(cell), None);
        let (want, ..) = reference(&functions, e, &g, false);
        let wide = cell.gates() * e.hidden;
        let weights = Weights {
            w: View::from_slice(&g.w, &[wide, 2]).unwrap(),
            r: View::from_slice(&g.r, &[wide, 4]).unwrap(),
            bias: View::from_slice(&g.bias, &[2 * wide]),
            peepholes: None,
        };
        let x = View::from_slice(&g.x, &[1, 3, 2]).unwrap();
        let mut memory = vec![f64::NAN; Pass::<f64>::working_memory(cell, e, false).unwrap()];
        let compute = Compute::default();
        let mut pass =
            Pass::new(&compute, &functions, e, &weights, (&x, false), &mut memory).unwrap();
        let (h, c) = pass.states();
        h.copy_from_slice(&g.h);
        if !c.is_empty() {
            c.copy_from_slice(&g.c);
        }
        let mut y = [7.0; 12];
        let output = StepOutput {
            y: &mut y,
            offset: 0,
            stride: 4,
        };
        pass.step(0, |b| b != 1, Some(output)).unwrap();
        close(&y[..4], &want[..4], 1e-12, "first");
        assert_eq!(y[4..8], [0.0; 4]);
        close(&y[8..], &want[8..], 1e-12, "last");
        let (h, c) = pass.states();
        assert_eq!(h[4..8], g.h[4..8]);
        if !c.is_empty() {
            assert_eq!(c[4..8], g.c[4..8]);
        }
        assert!(pass.step(1, |_| true, None).is_err());
        let short = StepOutput {
            y: &mut y[..11],
            offset: 0,
            stride: 4,
        };
        assert!(pass.step(0, |_| true, Some(short)).is_err());
    }
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let e = Extents {
        steps: 2,
        batch: 1,
        input: 3,
        hidden: 2,
    };
    let functions = functions(Cell::Rnn, usual(Cell::Rnn), None);
    let data = [0f32; 12];
    let view = |shape: &[usize]| View::from_slice(&data[..shape.iter().product()], shape).unwrap();
    let good = Weights {
        w: view(&[2, 3]),
        r: view(&[2, 2]),
        bias: None,
        peepholes: None,
    };
    let len = Pass::<f32>::working_memory(Cell::Rnn, e, false).unwrap();
    let attempt = |weights: &Weights<'_, f32>, x: &[usize], len: usize| {
        let (compute, mut memory) = (Compute::default(), vec![0f32; len]);
        Pass::new(
            &compute,
            &functions,
            e,
            weights,
            (&view(x), false),
            &mut memory,
        )
        .map(|_| ())
    };
    attempt(&good, &[2, 1, 3], len).unwrap();
    assert!(attempt(&good, &[1, 2, 3], len).is_err());
    assert!(attempt(&good, &[2, 1, 3], len - 1).is_err());
    for bad in [
        Weights {
            w: view(&[3, 2]),
            ..good.clone()
        },
        Weights {
            r: view(&[2, 3]),
            ..good.clone()
        },
        Weights {
            bias: Some(view(&[2])),
            ..good.clone()
        },
    ] {
        assert!(attempt(&bad, &[2, 1, 3], len).is_err());
    }
    let huge = Extents {
        hidden: usize::MAX / 2,
        ..e
    };
    assert_eq!(Pass::<f32>::working_memory(CELLS[3], huge, false), None);
}

#[test]
fn functions_with_numbers_and_edges() {
    let at = |function, alpha, beta, x: f64| {
        let mut x = [x];
        Activation {
            function,
            alpha,
            beta,
        }
        .apply(Isa::best(), &mut x);
        x[0]
    };
    let e = std::f64::consts::E;
    for (function, alpha, beta, x, want) in [
        (Function::Affine, 2.0, 0.5, 3.0, 6.5),
        (Function::LeakyRelu, 0.25, 0.0, -2.0, -0.5),
        (Function::LeakyRelu, 0.25, 0.0, 2.0, 2.0),
        (Function::ThresholdedRelu, 1.5, 0.0, 1.5, 0.0),
        (Function::ThresholdedRelu, 1.5, 0.0, 1.75, 1.75),
        (Function::ScaledTanh, 2.0, 0.5, 3.0, 2.0 * 1.5f64.tanh()),
        (Function::HardSigmoid, 0.25, 0.5, 1.0, 0.75),
        (Function::HardSigmoid, 0.25, 0.5, 9.0, 1.0),
        (Function::HardSigmoid, 0.25, 0.5, -9.0, 0.0),
        (Function::Elu, 2.0, 0.0, -1.0, 2.0 * (1.0 / e - 1.0)),
        (Function::Softsign, 0.0, 0.0, -3.0, -0.75),
        (Function::Softplus, 0.0, 0.0, 1.0, (1.0 + e).ln()),
        (Function::Softplus, 0.0, 0.0, 1000.0, 1000.0),
        (Function::Softplus, 0.0, 0.0, -1000.0, 0.0),
        (Function::Relu, 0.0, 0.0, -1.0, 0.0),
    ] {
        let got = at(function, alpha, beta, x);
        assert!((got - want).abs() < 1e-12, "{function:?} of {x}: {got}");
        assert!(at(function, alpha, beta, f64::NAN).is_nan(), "{function:?}");
    }
    assert_eq!(Function::named("hardsigmoid"), Some(Function::HardSigmoid));
    assert_eq!(Function::named("Swish"), None);
}
