//! Against the sum of the definition, one output element at a time, in f64.

use super::*;
use crate::Isa;
use crate::storage::Accumulator;
use half::{bf16, f16};

/// Extents of a case: batch, groups, channels in and out of a group, and each axis as input, kernel, stride, dilation,
/// pads.
struct Case {
    batch: usize,
    groups: usize,
    inner: usize,
    outer: usize,
    axes: [(usize, usize, usize, usize, [usize; 2]); 3],
}

const ONE: (usize, usize, usize, usize, [usize; 2]) = (1, 1, 1, 1, [0, 0]);

/// Small whole numbers: every sum is exact in every type that holds it.
fn numbers(count: usize, seed: usize) -> Vec<f64> {
    (0..count)
        .map(|i| ((i * 7 + seed * 3 + 1) % 5) as f64 - 2.0)
        .collect()
}

fn reference(case: &Case, x: &[f64], w: &[f64], b: &[f64]) -> Vec<f64> {
    let out = case.axes.map(|(input, kernel, stride, dilation, pads)| {
        (input + pads[0] + pads[1] - (kernel - 1) * dilation - 1) / stride + 1
    });
    let [d, h, wd] = case.axes;
    let mut y = Vec::new();
    for n in 0..case.batch {
        for m in 0..case.groups * case.outer {
            for position in 0..out.iter().product() {
                let o = [
                    position / out[2] / out[1],
                    position / out[2] % out[1],
                    position % out[2],
                ];
                let mut sum = b[m];
                for c in 0..case.inner {
                    for k in 0..d.1 * h.1 * wd.1 {
                        let k3 = [k / wd.1 / h.1, k / wd.1 % h.1, k % wd.1];
                        let at: Vec<isize> = (0..3)
                            .map(|a| {
                                let (_, _, stride, dilation, pads) = case.axes[a];
                                (o[a] * stride + k3[a] * dilation) as isize - pads[0] as isize
                            })
                            .collect();
                        if (0..3).any(|a| at[a] < 0 || at[a] >= case.axes[a].0 as isize) {
                            continue;
                        }
                        let channel = m / case.outer * case.inner + c;
                        let line = (n * case.groups * case.inner + channel) * d.0 + at[0] as usize;
                        let x = x[(line * h.0 + at[1] as usize) * wd.0 + at[2] as usize];
                        sum += x * w[(m * case.inner + c) * d.1 * h.1 * wd.1 + k];
                    }
                }
                y.push(sum);
            }
        }
    }
    y
}

fn check<T: Real + MatMulElement>(isa: Isa, case: &Case, turned: bool) {
    let cast = |x: &[f64]| -> Vec<T> {
        x.iter()
            .map(|&x| T::from_acc(T::Acc::from_f64(x)))
            .collect()
    };
    let (channels, features) = (case.groups * case.inner, case.groups * case.outer);
    let kernel: usize = case.axes.iter().map(|a| a.1).product();
    let [d, h, w] = case.axes.map(|a| a.0);
    let x = numbers(case.batch * channels * d * h * w, 1);
    let weights = numbers(features * case.inner * kernel, 2);
    let bias = numbers(features, 3);
    let want = reference(case, &x, &weights, &bias);
    let (x, weights, bias) = (cast(&x), cast(&weights), cast(&bias));
    let shape = [case.batch, channels, d, h, w];
    let dense = View::from_slice(&x, &shape).unwrap();
    // The same elements, the last axis lying outermost in memory.
    let other = dense.permute(&[4, 0, 1, 2, 3]).unwrap().to_vec();
    let view = if turned {
        View::from_slice(&other, &[w, case.batch, channels, d, h])
            .and_then(|view| view.permute(&[1, 2, 3, 4, 0]))
            .unwrap()
    } else {
        dense
    };
    let problem = ConvProblem {
        x: view,
        w: View::from_slice(&weights, &[features, case.inner * kernel]).unwrap(),
        bias: View::from_slice(&bias, &[features]),
        groups: case.groups,
        axes: case
            .axes
            .map(|(i, k, s, d, p)| Axis::new(i, k, s, d, p).unwrap()),
    };
    let mut out = vec![T::default(); want.len()];
    let mut memory = cast(&vec![f64::NAN; problem.working_memory(out.len()).unwrap()]);
    let compute = Compute {
        isa,
        ..Compute::default()
    };
    conv(&compute, &problem, &mut memory, &mut out).unwrap();
    for (at, (got, want)) in out.iter().zip(&want).enumerate() {
        let got = got.to_acc().to_f64();
        assert_eq!(got, *want, "{shape:?} {kernel} {at} turned {turned}");
    }
}

fn cases() -> Vec<Case> {
    let case = |batch, groups, inner, outer, axes| Case {
        batch,
        groups,
        inner,
        outer,
        axes,
    };
    vec![
        // One axis: plain, depthwise, a single position, stride with dilation, more padding than input.
        case(2, 1, 3, 5, [ONE, ONE, (11, 4, 1, 1, [3, 0])]),
        case(2, 6, 1, 1, [ONE, ONE, (40, 4, 1, 1, [3, 0])]),
        case(1, 1, 7, 9, [ONE, ONE, (3, 3, 1, 1, [0, 0])]),
        case(3, 2, 3, 4, [ONE, ONE, (23, 3, 2, 3, [2, 5])]),
        case(1, 3, 2, 2, [ONE, ONE, (2, 3, 3, 1, [9, 4])]),
        // Two axes, one padded before and the other after.
        case(
            2,
            1,
            3,
            4,
            [ONE, (5, 2, 1, 2, [1, 0]), (7, 3, 2, 1, [0, 2])],
        ),
        case(
            1,
            4,
            1,
            2,
            [ONE, (6, 3, 2, 1, [1, 1]), (9, 2, 1, 3, [2, 1])],
        ),
        // Three axes.
        case(
            2,
            2,
            2,
            5,
            [
                (3, 2, 1, 1, [1, 0]),
                (4, 3, 1, 1, [1, 1]),
                (5, 2, 2, 2, [0, 1]),
            ],
        ),
        case(
            1,
            1,
            2,
            1,
            [
                (4, 2, 2, 1, [0, 0]),
                (3, 1, 1, 1, [0, 0]),
                (6, 3, 1, 2, [2, 2]),
            ],
        ),
        // Only padding.
        case(1, 1, 2, 5, [ONE, ONE, (0, 2, 1, 1, [2, 2])]),
        // Nothing to compute, and no channels to sum over.
        case(0, 1, 2, 5, [ONE, ONE, (6, 2, 1, 1, [0, 0])]),
        case(1, 1, 0, 5, [ONE, ONE, (6, 2, 1, 1, [0, 0])]),
    ]
}

#[test]
fn every_way_is_the_sum_of_the_definition() {
    for isa in Isa::available() {
        for case in cases() {
            for turned in [false, true] {
                check::<f32>(isa, &case, turned);
                check::<f64>(isa, &case, turned);
                check::<f16>(isa, &case, turned);
                check::<bf16>(isa, &case, turned);
            }
        }
    }
}

#[test]
fn more_positions_than_one_tile() {
    let axes = [ONE, (70, 3, 1, 1, [1, 1]), (131, 3, 1, 1, [1, 1])];
    let case = Case {
        batch: 1,
        groups: 1,
        inner: 8,
        outer: 4,
        axes,
    };
    // Several tiles, the last of them partial, none a whole number of rows.
    const { assert!(70 * 131 > MOST / 72 && !(MOST / 72usize).is_multiple_of(131)) };
    check::<f32>(Isa::best(), &case, false);
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    for (input, kernel, stride, dilation, pads) in [
        (5, 0, 1, 1, [0, 0]),
        (5, 2, 0, 1, [0, 0]),
        (5, 2, 1, 0, [0, 0]),
        (2, 3, 1, 1, [0, 0]),
        (5, 2, 1, 5, [0, 0]),
        (5, 2, 1, usize::MAX, [0, 0]),
        (5, usize::MAX, 1, 3, [0, 0]),
        (5, 2, usize::MAX, 1, [0, 0]),
        (5, 2, 1, 1, [usize::MAX, 1]),
        (5, 2, 1, 1, [usize::MAX / 2, 0]),
    ] {
        assert!(
            Axis::new(input, kernel, stride, dilation, pads).is_err(),
            "{input} {kernel} {stride} {dilation} {pads:?}"
        );
    }
    let data = [0f32; 24];
    let view = |shape: &[usize]| View::from_slice(&data[..shape.iter().product()], shape).unwrap();
    let good = ConvProblem {
        x: view(&[1, 2, 1, 1, 4]),
        w: view(&[5, 4]),
        bias: None,
        groups: 1,
        axes: [
            Axis::SINGLE,
            Axis::SINGLE,
            Axis::new(4, 2, 1, 1, [0, 0]).unwrap(),
        ],
    };
    good.working_memory(15).unwrap();
    assert!(good.working_memory(14).is_err());
    for bad in [
        ConvProblem {
            x: view(&[1, 2, 1, 4]),
            ..good.clone()
        },
        ConvProblem {
            x: view(&[1, 2, 1, 1, 5]),
            ..good.clone()
        },
        ConvProblem {
            w: view(&[5, 3]),
            ..good.clone()
        },
        ConvProblem {
            bias: Some(view(&[4])),
            ..good.clone()
        },
        ConvProblem {
            groups: 0,
            ..good.clone()
        },
        ConvProblem {
            groups: 2,
            ..good.clone()
        },
    ] {
        assert!(bad.working_memory(15).is_err());
    }
    let mut out = [0f32; 15];
    assert!(conv(&Compute::default(), &good, &mut [], &mut out).is_err());
}
