//! Against the formula in f64, written as loops over what each query may see.

mod group_query;

use super::super::trial::{Trial, floats, ints, listed};
use crate::kernel::OpError;
use refeed_values::{DType, Tensor};

/// A tensor of FLOAT values.
fn tensor(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_slice(shape, values).unwrap()
}

fn flags(shape: &[usize], values: &[u8]) -> Tensor {
    Tensor::from_slice(shape, values)
        .unwrap()
        .reinterpret(DType::Bool)
        .unwrap()
}

fn int32(shape: &[usize], values: &[i32]) -> Tensor {
    Tensor::from_slice(shape, values).unwrap()
}

/// Axes 1 and 2 exchanged and the last two joined: `[b, h, s, d]` to `[b, s, h * d]`.
fn fused(x: &Tensor) -> Tensor {
    let &[b, h, s, d] = x.shape() else {
        panic!("four axes")
    };
    let turned = x
        .with_layout(x.layout().permute(&[0, 2, 1, 3]).unwrap(), 0)
        .unwrap();
    tensor(&[b, s, h * d], &turned.view::<f32>().unwrap().to_vec())
}

/// Past and new rows, along axis 2.
fn joined(past: &Tensor, new: &Tensor) -> Tensor {
    Trial::new("Concat", 13)
        .int("axis", 2)
        .one(&[past, new])
        .unwrap()
}

/// Attention by the formula: `bias(b, h, i, j)` is `None` for a key that the query may not see.
fn naive(
    [q, k, v]: [&Tensor; 3],
    scale: f64,
    softcap: f64,
    bias: impl Fn(usize, usize, usize, usize) -> Option<f64>,
) -> (Vec<f64>, Vec<f64>) {
    let (&[b, hq, s, d], &[_, hk, t, dv]) = (q.shape(), v.shape()) else {
        panic!("four axes")
    };
    let wide = |x: &Tensor| -> Vec<f64> { listed(x).into_iter().map(f64::from).collect() };
    let (q, k, v) = (wide(q), wide(k), wide(v));
    let (mut y, mut weights) = (vec![0.0; b * hq * s * dv], vec![0.0; b * hq * s * t]);
    for row in 0..b * hq * s {
        let (bi, h, i) = (row / (hq * s), row / s % hq, row % s);
        let kv = bi * hk + h / (hq / hk);
        let mut scores = vec![f64::NEG_INFINITY; t];
        for (j, score) in scores.iter_mut().enumerate() {
            let Some(add) = bias(bi, h, i, j) else {
                continue;
            };
            let dot: f64 = (0..d)
                .map(|x| q[row * d + x] * k[(kv * t + j) * d + x])
                .sum();
            let mut value = dot * scale;
            if softcap != 0.0 {
                value = softcap * (value / softcap).tanh();
            }
            *score = value + add;
        }
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if top == f64::NEG_INFINITY {
            continue;
        }
        let sum: f64 = scores.iter().map(|x| (x - top).exp()).sum();
        for (j, score) in scores.iter().enumerate() {
            let p = (score - top).exp() / sum;
            weights[row * t + j] = p;
            if p > 0.0 {
                for x in 0..dv {
                    y[row * dv + x] += p * v[(kv * t + j) * dv + x];
                }
            }
        }
    }
    (y, weights)
}

fn near(got: &Tensor, want: &[f64]) {
    let got = listed(got);
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!(
            (f64::from(*g) - w).abs() <= 2e-5 * w.abs().max(1.0),
            "{i}: {g} {w}"
        );
    }
}

fn attention() -> Trial {
    Trial::new("Attention", 24)
}

/// V = 1, 10, 100, ... in one head of width 1, with Q = 0 and K = 0: the mean names the keys that were seen.
fn probe(from: u32, count: u32) -> Tensor {
    let values: Vec<f32> = (from..from + count).map(|i| 10f32.powi(i as i32)).collect();
    tensor(&[1, 1, count as usize, 1], &values)
}

fn zeros(shape: &[usize]) -> Tensor {
    tensor(shape, &vec![0.0; shape.iter().product()])
}

/// bugs.md A1
#[test]
fn a1_causal_position_counts_the_past() {
    let (q, k, past) = (
        zeros(&[1, 1, 2, 1]),
        zeros(&[1, 1, 2, 1]),
        zeros(&[1, 1, 2, 1]),
    );
    let (old, new) = (probe(0, 2), probe(2, 2));
    let out = attention()
        .int("is_causal", 1)
        .outputs(3)
        .run(&[
            Some(&q),
            Some(&k),
            Some(&new),
            None,
            Some(&past),
            Some(&old),
        ])
        .unwrap();
    near(&out[0], &[37.0, 277.75]);
    assert_eq!(listed(&out[2]), [1.0, 10.0, 100.0, 1000.0]);
}

/// bugs.md A4
#[test]
fn a4_a_mask_may_have_holes() {
    let (q, k, past) = (
        zeros(&[1, 1, 1, 1]),
        zeros(&[1, 1, 1, 1]),
        zeros(&[1, 1, 2, 1]),
    );
    let mask = flags(&[1, 3], &[1, 0, 1]);
    let out = attention()
        .outputs(3)
        .run(&[
            Some(&q),
            Some(&k),
            Some(&probe(2, 1)),
            Some(&mask),
            Some(&past),
            Some(&probe(0, 2)),
        ])
        .unwrap();
    near(&out[0], &[50.5]);
    assert_eq!(listed(&out[2]), [1.0, 10.0, 100.0]);
}

/// bugs.md A6
#[test]
fn a6_a_large_negative_bias_is_a_number() {
    let q = tensor(&[1, 1, 1, 2], &[1.0, 0.0]);
    let k = tensor(&[1, 1, 2, 2], &[2.0, 0.0, 1.0, 0.0]);
    let mask = tensor(&[1, 2], &[-10000.0; 2]);
    let y = attention()
        .float("scale", 1.0)
        .one(&[&q, &k, &probe(0, 2), &mask])
        .unwrap();
    assert!((listed(&y)[0] - 3.420_473).abs() < 5e-3, "{:?}", listed(&y));
}

/// bugs.md B1
#[test]
fn b1_a_row_that_sees_nothing_is_zero() {
    let (q, k, v) = (
        floats(&[1, 2, 3, 4]),
        floats(&[1, 1, 3, 4]),
        floats(&[1, 1, 3, 5]),
    );
    let mask = flags(&[3, 3], &[1, 1, 1, 0, 0, 0, 1, 1, 1]);
    let out = attention()
        .int("qk_matmul_output_mode", 3)
        .outputs(4)
        .run(&[Some(&q), Some(&k), Some(&v), Some(&mask)])
        .unwrap();
    let (y, weights) = naive([&q, &k, &v], 0.5, 0.0, |_, _, i, _| (i != 1).then_some(0.0));
    near(&out[0], &y);
    near(&out[3], &weights);
    for head in 0..2 {
        assert!(
            listed(&out[0])[(head * 3 + 1) * 5..][..5]
                .iter()
                .all(|x| *x == 0.0)
        );
        assert!(
            listed(&out[3])[(head * 3 + 1) * 3..][..3]
                .iter()
                .all(|x| *x == 0.0)
        );
    }
    // Mask and causal line together empty the first row.
    let mask = flags(&[3, 3], &[0, 1, 1, 1, 1, 1, 1, 1, 1]);
    let y = attention()
        .int("is_causal", 1)
        .one(&[&q, &k, &v, &mask])
        .unwrap();
    assert!(listed(&y)[..5].iter().all(|x| *x == 0.0));
    let (want, _) = naive([&q, &k, &v], 0.5, 0.0, |_, _, i, j| {
        (j <= i && (i, j) != (0, 0)).then_some(0.0)
    });
    near(&y, &want);
}

/// bugs.md B4
#[test]
fn b4_the_lowest_float_is_not_minus_infinity() {
    let (q, k) = (zeros(&[1, 1, 1, 1]), zeros(&[1, 1, 4, 1]));
    let mask = tensor(&[1, 4], &[f32::MIN; 4]);
    near(
        &attention().one(&[&q, &k, &probe(0, 4), &mask]).unwrap(),
        &[277.75],
    );
}

/// bugs.md C1
#[test]
fn c1_softcap_comes_before_the_mask() {
    let q = tensor(&[1, 1, 1, 1], &[1.0]);
    let k = tensor(&[1, 1, 4, 1], &[2.0, 1.0, 0.5, 0.1]);
    let mask = flags(&[1, 4], &[1, 1, 0, 0]);
    let out = attention()
        .float("scale", 1.0)
        .float("softcap", 2.0)
        .int("qk_matmul_output_mode", 3)
        .outputs(4)
        .run(&[Some(&q), Some(&k), Some(&probe(0, 4)), Some(&mask)])
        .unwrap();
    near(&out[3], &[0.645_416_96, 0.354_583_04, 0.0, 0.0]);
    near(&out[0], &[4.191_247_35]);
}

/// bugs.md C4
#[test]
fn c4_a_scale_of_zero_is_a_scale() {
    let (q, k) = (
        tensor(&[1, 1, 1, 1], &[3.0]),
        tensor(&[1, 1, 4, 1], &[2.0, 1.0, 5.0, -1.0]),
    );
    near(
        &attention()
            .float("scale", 0.0)
            .one(&[&q, &k, &probe(0, 4)])
            .unwrap(),
        &[277.75],
    );
}

/// bugs.md D1
#[test]
fn d1_kv_heads_are_grouped() {
    let (q, k) = (zeros(&[1, 4, 1, 3]), zeros(&[1, 2, 1, 3]));
    let v = tensor(&[1, 2, 1, 1], &[7.0, 9.0]);
    near(
        &attention().one(&[&q, &k, &v]).unwrap(),
        &[7.0, 7.0, 9.0, 9.0],
    );
    let three = zeros(&[1, 3, 1, 3]);
    assert!(matches!(
        attention().one(&[&three, &k, &v]),
        Err(OpError::Kernel(_))
    ));
}

/// bugs.md E1
#[test]
fn e1_presents_without_a_past_are_the_new_rows() {
    let (q, k, v) = (
        floats(&[2, 4, 3, 6]),
        floats(&[2, 2, 5, 6]),
        floats(&[2, 2, 5, 7]),
    );
    let out = attention()
        .int("q_num_heads", 4)
        .int("kv_num_heads", 2)
        .outputs(4)
        .run(&[Some(&fused(&q)), Some(&fused(&k)), Some(&fused(&v))])
        .unwrap();
    assert_eq!((out[1].shape(), out[2].shape()), (k.shape(), v.shape()));
    assert_eq!((listed(&out[1]), listed(&out[2])), (listed(&k), listed(&v)));
    assert_eq!(out[3].shape(), [2, 4, 3, 5]);
    let (y, _) = naive([&q, &k, &v], 1.0 / 6f64.sqrt(), 0.0, |_, _, _, _| Some(0.0));
    assert_eq!(out[0].shape(), [2, 3, 28]);
    let y: Vec<f32> = y.iter().map(|x| *x as f32).collect();
    let want = listed(&fused(&tensor(&[2, 4, 3, 7], &y)));
    near(
        &out[0],
        &want.into_iter().map(f64::from).collect::<Vec<_>>(),
    );
}

/// bugs.md E2
#[test]
fn e2_an_empty_past_and_an_empty_chunk() {
    let (q, k, v) = (
        floats(&[1, 4, 3, 6]),
        floats(&[1, 2, 3, 6]),
        floats(&[1, 2, 3, 7]),
    );
    let plain = attention().one(&[&q, &k, &v]).unwrap();
    let (none_k, none_v) = (floats(&[1, 2, 0, 6]), floats(&[1, 2, 0, 7]));
    let out = attention()
        .outputs(3)
        .run(&[
            Some(&q),
            Some(&k),
            Some(&v),
            None,
            Some(&none_k),
            Some(&none_v),
        ])
        .unwrap();
    assert_eq!(listed(&out[0]), listed(&plain));
    assert_eq!(listed(&out[1]), listed(&k));
    let empty = floats(&[1, 4, 0, 6]);
    let out = attention()
        .outputs(3)
        .run(&[
            Some(&empty),
            Some(&none_k),
            Some(&none_v),
            None,
            Some(&k),
            Some(&v),
        ])
        .unwrap();
    assert_eq!(out[0].shape(), [1, 4, 0, 7]);
    assert_eq!((listed(&out[1]), listed(&out[2])), (listed(&k), listed(&v)));
}

/// bugs.md N1
#[test]
fn n1_lengths_from_tensors_are_checked() {
    let (q, k, v) = (
        floats(&[2, 4, 1, 6]),
        floats(&[2, 2, 5, 6]),
        floats(&[2, 2, 5, 7]),
    );
    let run = |nonpad: &Tensor| {
        attention().run(&[Some(&q), Some(&k), Some(&v), None, None, None, Some(nonpad)])
    };
    for bad in [-1, 6, i64::MIN, i64::MAX] {
        assert!(run(&ints(&[3, bad])).is_err(), "{bad}");
    }
    assert!(run(&ints(&[3])).is_err());
    assert!(run(&Tensor::scalar(3i64).unwrap()).is_err());
    let y = run(&ints(&[3, 0])).unwrap().remove(0);
    let (want, _) = naive([&q, &k, &v], 1.0 / 6f64.sqrt(), 0.0, |b, _, _, j| {
        (b == 0 && j < 3).then_some(0.0)
    });
    near(&y, &want);
    let past = (floats(&[2, 2, 1, 6]), floats(&[2, 2, 1, 7]));
    let nonpad = ints(&[3, 3]);
    let both = [
        Some(&q),
        Some(&k),
        Some(&v),
        None,
        Some(&past.0),
        Some(&past.1),
        Some(&nonpad),
    ];
    assert!(attention().run(&both).is_err());
    assert!(attention().run(&both[..5]).is_err(), "past_key alone");
}

#[test]
fn valid_lengths_move_the_causal_line_and_windows() {
    let (q, k, v) = (
        floats(&[2, 4, 3, 6]),
        floats(&[2, 2, 7, 6]),
        floats(&[2, 2, 7, 5]),
    );
    let lengths = [6i64, 2];
    for (causal, left, right) in [(1, -1, -1), (0, -1, -1), (0, 2, 1), (1, 1, -1), (0, 0, 0)] {
        let y = Trial::new("Attention", 25)
            .int("is_causal", causal)
            .int("left_window_size", left)
            .int("right_window_size", right)
            .run(&[
                Some(&q),
                Some(&k),
                Some(&v),
                None,
                None,
                None,
                Some(&ints(&lengths)),
            ])
            .unwrap()
            .remove(0);
        let (want, _) = naive([&q, &k, &v], 1.0 / 6f64.sqrt(), 0.0, |b, _, i, j| {
            let (at, j) = (i as i64 + lengths[b] - 3, j as i64);
            let seen = j < lengths[b]
                && (causal == 0 || j <= at)
                && (left < 0 || j >= at - left)
                && (right < 0 || j <= at + right);
            seen.then_some(0.0)
        });
        near(&y, &want);
    }
}

#[test]
fn masks_of_every_rank_broadcast_and_short_ones_hide_the_rest() {
    let (q, k, v) = (
        floats(&[2, 4, 3, 6]),
        floats(&[2, 2, 7, 6]),
        floats(&[2, 2, 7, 5]),
    );
    let shapes: [&[usize]; 6] = [
        &[3, 7],
        &[4, 3, 7],
        &[4, 1, 7],
        &[2, 1, 3, 7],
        &[2, 4, 3, 5],
        &[1, 3, 4],
    ];
    for shape in shapes {
        let keys = shape[shape.len() - 1];
        let mask = floats(shape);
        let index = |b: usize, h: usize, i: usize, j: usize| {
            let mut at = 0;
            let place = [b, h, i, j];
            for (axis, &extent) in shape.iter().enumerate() {
                let x = place[4 - shape.len() + axis];
                at = at * extent + if extent == 1 { 0 } else { x };
            }
            at
        };
        let values = listed(&mask);
        let (want, _) = naive([&q, &k, &v], 0.25, 0.0, |b, h, i, j| {
            (j < keys).then(|| f64::from(values[index(b, h, i, j)]))
        });
        near(
            &attention()
                .float("scale", 0.25)
                .one(&[&q, &k, &v, &mask])
                .unwrap(),
            &want,
        );
        let bits: Vec<u8> = values.iter().map(|x| u8::from(*x > 0.0)).collect();
        let (want, _) = naive([&q, &k, &v], 0.25, 0.0, |b, h, i, j| {
            (j < keys && bits[index(b, h, i, j)] != 0).then_some(0.0)
        });
        near(
            &attention()
                .float("scale", 0.25)
                .one(&[&q, &k, &v, &flags(shape, &bits)])
                .unwrap(),
            &want,
        );
    }
    for bad in [&[3, 8][..], &[2, 7], &[3, 1, 3, 7], &[]] {
        assert!(
            attention().one(&[&q, &k, &v, &floats(bad)]).is_err(),
            "{bad:?}"
        );
    }
}

#[test]
fn softmax_in_double_and_scores_at_every_stage() {
    let (q, k, v) = (
        floats(&[1, 4, 2, 3]),
        floats(&[1, 2, 5, 3]),
        floats(&[1, 2, 5, 7]),
    );
    let mask = floats(&[2, 5]);
    let (scale, cap) = (0.125, 3.0);
    let bias = listed(&mask);
    let (y, weights) = naive([&q, &k, &v], scale, cap, |_, _, i, j| {
        (j <= i).then(|| f64::from(bias[i * 5 + j]))
    });
    for precision in [1, 10, 11, 16] {
        for mode in 0..4 {
            let out = attention()
                .float("scale", scale as f32)
                .float("softcap", cap as f32)
                .int("is_causal", 1)
                .int("softmax_precision", precision)
                .int("qk_matmul_output_mode", mode)
                .outputs(4)
                .run(&[Some(&q), Some(&k), Some(&v), Some(&mask)])
                .unwrap();
            near(&out[0], &y);
            let scores = listed(&out[3]);
            let (q, k) = (listed(&q), listed(&k));
            for (at, got) in scores.iter().enumerate() {
                let (h, i, j) = (at / 10, at / 5 % 2, at % 5);
                let dot: f64 = (0..3)
                    .map(|x| {
                        f64::from(q[(h * 2 + i) * 3 + x]) * f64::from(k[(h / 2 * 5 + j) * 3 + x])
                    })
                    .sum();
                let capped = cap * (dot * scale / cap).tanh();
                let want = match mode {
                    0 => dot * scale,
                    1 => capped,
                    2 if j > i => f64::NEG_INFINITY,
                    2 => capped + f64::from(bias[i * 5 + j]),
                    _ => weights[at],
                };
                let got = f64::from(*got);
                assert!(
                    got == want || (got - want).abs() <= 2e-5 * want.abs().max(1.0),
                    "{mode} {at}"
                );
            }
        }
    }
    let bad = attention().int("softmax_precision", 9);
    assert!(bad.one(&[&q, &k, &v]).is_err());
}

/// Rule 5.4.4; S166.
#[test]
fn a_value_of_no_width_is_a_result() {
    let (q, k, v) = (
        floats(&[1, 4, 2, 3]),
        floats(&[1, 2, 5, 3]),
        floats(&[1, 2, 5, 0]),
    );
    let (pk, pv) = (floats(&[1, 2, 6, 3]), floats(&[1, 2, 6, 0]));
    let out = attention()
        .outputs(3)
        .run(&[Some(&q), Some(&k), Some(&v), None, Some(&pk), Some(&pv)])
        .unwrap();
    assert_eq!(
        (out[0].shape(), out[1].shape(), out[2].shape()),
        (&[1, 4, 2, 0][..], &[1, 2, 11, 3][..], &[1, 2, 11, 0][..])
    );
}

/// Rule 5.4.3; S164.
#[test]
fn halves_and_doubles_agree_with_floats() {
    let (q, k, v) = (
        floats(&[2, 4, 3, 6]),
        floats(&[2, 2, 5, 6]),
        floats(&[2, 2, 5, 7]),
    );
    let y = listed(&attention().float("scale", 0.01).one(&[&q, &k, &v]).unwrap());
    for (dtype, tolerance) in [
        (DType::Double, 1e-5),
        (DType::Float16, 2e-2),
        (DType::Bfloat16, 1e-1),
    ] {
        let cast = |x: &Tensor| {
            Trial::new("Cast", 13)
                .int("to", i64::from(dtype.to_onnx()))
                .one(&[x])
                .unwrap()
        };
        let got = attention()
            .float("scale", 0.01)
            .one(&[&cast(&q), &cast(&k), &cast(&v)])
            .unwrap();
        assert_eq!(got.dtype(), dtype);
        let back = Trial::new("Cast", 13).int("to", 1).one(&[&got]).unwrap();
        for (a, b) in listed(&back).iter().zip(&y) {
            assert!(
                (a - b).abs() <= tolerance * b.abs().max(1.0),
                "{dtype} {a} {b}"
            );
        }
        assert!(attention().one(&[&cast(&q), &k, &v]).is_err());
    }
}

/// Types that do not fit are found when the node is built.
#[test]
fn operands_of_mixed_types_are_refused() {
    let double = |shape: &[usize]| {
        let values = vec![1f64; shape.iter().product()];
        Tensor::from_slice(shape, &values).unwrap()
    };
    let shape = [1, 1, 2, 3];
    let (q, past) = (floats(&shape), floats(&shape));
    for at in 1..6 {
        let mut inputs: Vec<Tensor> = vec![q.clone(), q.clone(), q.clone()];
        inputs.extend([floats(&[2, 4]), past.clone(), past.clone()]);
        assert!(
            attention()
                .run(&inputs.iter().map(Some).collect::<Vec<_>>())
                .is_ok()
        );
        inputs[at] = double(inputs[at].shape());
        let error = attention()
            .run(&inputs.iter().map(Some).collect::<Vec<_>>())
            .unwrap_err();
        assert!(
            matches!(error, OpError::DType { index, .. } if index == at),
            "{at}: {error}"
        );
    }
}

/// Random operands from a fixed start: whatever the operators are given, they answer or refuse.
#[test]
fn no_combination_of_edge_numbers_panics() {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut pick = move |n: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    const SHAPES: [&[usize]; 8] = [
        &[2, 4, 3, 6],
        &[2, 2, 0, 6],
        &[2, 3, 24],
        &[2, 0, 12],
        &[3, 3],
        &[0, 2, 3, 6],
        &[2, 2, 3, 0],
        &[],
    ];
    const NUMBERS: [i64; 9] = [i64::MIN, -2, -1, 0, 1, 2, 4, 1 << 40, i64::MAX];
    // Shapes that fit, by input; attributes that may be there.
    type Fitting = (
        &'static str,
        &'static str,
        i64,
        &'static [&'static [usize]],
        &'static [(&'static str, i64)],
    );
    const ATTENTION: Fitting = (
        "Attention",
        "",
        24,
        &[
            &[2, 4, 3, 6],
            &[2, 2, 3, 6],
            &[2, 2, 3, 5],
            &[3, 3],
            &[2, 2, 0, 6],
            &[2, 2, 0, 5],
            &[2],
        ],
        &[("q_num_heads", 4), ("kv_num_heads", 2), ("is_causal", 1)],
    );
    const WINDOWED: Fitting = (
        ATTENTION.0,
        ATTENTION.1,
        25,
        ATTENTION.3,
        &[("left_window_size", 1), ("right_window_size", 0)],
    );
    const GROUP_QUERY: Fitting = (
        "GroupQueryAttention",
        "com.microsoft",
        1,
        &[
            &[2, 3, 24],
            &[2, 3, 12],
            &[2, 3, 12],
            &[2, 2, 0, 6],
            &[2, 2, 0, 6],
            &[2],
            &[],
            &[9, 3],
            &[9, 3],
        ],
        &[
            ("num_heads", 4),
            ("kv_num_heads", 2),
            ("local_window_size", 2),
            ("do_rotary", 1),
        ],
    );
    const ROTARY: Fitting = (
        "RotaryEmbedding",
        "",
        23,
        &[&[2, 4, 3, 6], &[9, 3], &[9, 3], &[2, 3]],
        &[("num_heads", 4), ("rotary_embedding_dim", 6)],
    );
    let (mut answered, mut refused) = (0, 0);
    for _ in 0..6000 {
        let (op, domain, opset, shapes, attributes) =
            [ATTENTION, WINDOWED, GROUP_QUERY, ROTARY][pick(4)];
        let mut trial = Trial::new(op, opset)
            .domain(domain)
            .outputs(if shapes.len() == 4 { 1 } else { 3 });
        for &(name, good) in attributes {
            if op == "GroupQueryAttention" || pick(4) == 0 {
                trial = trial.int(name, if pick(8) == 0 { NUMBERS[pick(9)] } else { good });
            }
        }
        let mut edge = |good: i64| if pick(6) == 0 { NUMBERS[pick(9)] } else { good };
        let numbers = [edge(2), edge(1), edge(3)];
        let small = |x: i64| i32::try_from(x).unwrap_or(if x > 0 { i32::MAX } else { i32::MIN });
        let together = pick(2) == 0;
        let mut inputs = Vec::new();
        for (index, &good) in shapes.iter().enumerate() {
            let shape = if pick(24) == 0 { SHAPES[pick(8)] } else { good };
            inputs.push(match (op, index) {
                ("Attention", 3) if pick(2) == 0 => None,
                ("Attention" | "GroupQueryAttention", 4)
                | ("Attention", 5)
                | ("GroupQueryAttention", 3)
                    if together =>
                {
                    None
                }
                ("Attention", 6) if !together => None,
                ("Attention", 6) => Some(ints(&numbers[..2])),
                ("RotaryEmbedding", 3) => {
                    let positions = [0, numbers[0], 8, numbers[1], 3, numbers[2]];
                    Some(Tensor::from_slice(&[2, 3], &positions).unwrap())
                }
                ("GroupQueryAttention", 5) => {
                    Some(int32(&[2], &[small(numbers[0]), small(numbers[1])]))
                }
                ("GroupQueryAttention", 6) => Some(Tensor::scalar(small(numbers[2])).unwrap()),
                _ => Some(floats(shape)),
            });
        }
        let inputs: Vec<Option<&Tensor>> = inputs.iter().map(Option::as_ref).collect();
        match trial.run(&inputs) {
            Ok(_) => answered += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(answered > 500 && refused > 500, "{answered} {refused}");
}
