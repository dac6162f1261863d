use super::*;
use crate::reference::{self, Extents};
use crate::{Isa, ThreadPool};
use half::{bf16, f16};
use refeed_values::{Layout, Tensor};

fn values(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    (0..n)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // exact in every type
            ((state >> 40) % 64) as f64 / 32.0 - 1.0
        })
        .collect()
}

/// How a `[batch, heads, rows, size]` operand lies in memory.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Lay {
    /// Each head has room for more rows, as append blocks have.
    Capacity,
    /// `[batch, rows, heads, size]`
    Tokens,
    /// `[batch, heads, size, rows]`
    Turned,
}

/// The operand in memory, NaN wherever the view does not reach.
fn tensor<T: Real>(data: &[f64], [a, b, c, d]: [usize; 4], lay: Lay) -> Tensor {
    let room = c + 3;
    let (strides, len) = match lay {
        Lay::Capacity => ([b * room * d, room * d, d, 1], a * b * room * d),
        Lay::Tokens => ([c * b * d, d, b * d, 1], a * b * c * d),
        Lay::Turned => ([b * d * room, d * room, 1, room], a * b * d * room),
    };
    let mut memory = vec![T::from_acc(T::Acc::from_f64(f64::NAN)); len];
    for (n, x) in data.iter().enumerate() {
        let at = [n / (b * c * d), n / (c * d) % b, n / d % c, n % d];
        let place: usize = at.iter().zip(strides).map(|(i, s)| i * s).sum();
        memory[place] = T::from_acc(T::Acc::from_f64(*x));
    }
    let strides = strides.map(|s| s as isize);
    Tensor::from_slice(&[len], &memory)
        .unwrap()
        .with_layout(Layout::strided(&[a, b, c, d], &strides).unwrap(), 0)
        .unwrap()
}

struct Case<'a> {
    extents: Extents,
    visibility: Visibility<'a, f64>,
    softcap: f64,
}

/// The rules once more, one key at a time, from their definitions.
fn summand(rules: &Visibility<'_, f64>, b: usize, h: usize, i: usize, j: usize) -> Option<f64> {
    let each = |entries: &[i64]| (!entries.is_empty()).then(|| entries[b.min(entries.len() - 1)]);
    let position = each(rules.query_start).unwrap_or(0) + i as i64;
    let key = j as i64;
    let seen = (!rules.causal || key <= position)
        && rules
            .left_window
            .is_none_or(|w| i128::from(position - key) <= i128::from(w))
        && rules
            .right_window
            .is_none_or(|w| i128::from(key - position) <= i128::from(w))
        && each(rules.lengths).is_none_or(|n| key < n);
    let masked = |shape: &[usize], strides: &[isize]| {
        let at = [b, h, i, j];
        let lead = 4 - shape.len();
        let index: Vec<usize> = shape
            .iter()
            .zip(strides)
            .enumerate()
            .map(|(axis, (&dim, _))| {
                if axis < shape.len() - 1 && dim == 1 {
                    0
                } else {
                    at[lead + axis]
                }
            })
            .collect();
        (index[shape.len() - 1] < shape[shape.len() - 1]).then_some(index)
    };
    let added = match &rules.mask {
        Mask::None => Some(0.0),
        Mask::Bool(m) => {
            masked(m.shape(), m.strides()).and_then(|at| (m.get(&at)? != 0).then_some(0.0))
        }
        Mask::Float(m) => masked(m.shape(), m.strides())
            .and_then(|at| m.get(&at).filter(|x| *x != f64::NEG_INFINITY)),
    };
    added.filter(|_| seen)
}

/// Runs a case for one storage type with every layout and output form and compares it with the formula. Keys and values
/// that no query sees hold NaN.
fn check<T: Real>(compute: &Compute<'_>, case: &Case<'_>, tolerance: f64) {
    let e = case.extents;
    let rules = &case.visibility;
    let query = values(e.batch * e.heads * e.length * e.size, 5);
    let mut key = values(e.batch * e.kv_heads * e.total * e.size, 6);
    let mut value = values(e.batch * e.kv_heads * e.total * e.value_size, 7);
    let scale = default_scale(e.size) * 2.0;
    let want = reference::attention(
        e,
        (&query, &key, &value),
        (scale, case.softcap),
        |b, h, i, j| summand(rules, b, h, i, j),
    );
    let group = e.heads / e.kv_heads;
    for b in 0..e.batch {
        for g in 0..e.kv_heads {
            for j in 0..e.total {
                let mut rows =
                    (0..group * e.length).map(|r| (g * group + r / e.length, r % e.length));
                if !rows.any(|(h, i)| summand(rules, b, h, i, j).is_some()) {
                    let row = (b * e.kv_heads + g) * e.total + j;
                    key[row * e.size..][..e.size].fill(f64::NAN);
                    value[row * e.value_size..][..e.value_size].fill(f64::NAN);
                }
            }
        }
    }
    // masks come in the storage type; the values used are exact in each
    let float: Vec<T> = match &rules.mask {
        Mask::Float(m) => m.iter().map(|x| T::from_acc(T::Acc::from_f64(x))).collect(),
        _ => Vec::new(),
    };
    let mask = match &rules.mask {
        Mask::None => Mask::None,
        Mask::Bool(m) => Mask::Bool(m.clone()),
        Mask::Float(m) => Mask::Float(View::from_slice(&float, m.shape()).unwrap()),
    };
    for lay in [Lay::Capacity, Lay::Tokens, Lay::Turned] {
        let q = tensor::<T>(&query, [e.batch, e.heads, e.length, e.size], lay);
        let k = tensor::<T>(&key, [e.batch, e.kv_heads, e.total, e.size], lay);
        let v = tensor::<T>(&value, [e.batch, e.kv_heads, e.total, e.value_size], lay);
        let problem = AttentionProblem {
            query: q.view::<T>().unwrap(),
            key: k.view::<T>().unwrap(),
            value: v.view::<T>().unwrap(),
            scale,
            softcap: case.softcap,
            visibility: Visibility {
                causal: rules.causal,
                left_window: rules.left_window,
                right_window: rules.right_window,
                query_start: rules.query_start,
                lengths: rules.lengths,
                mask: mask.clone(),
                sinks: &[],
            },
        };
        let rows = [e.batch, e.heads, e.length];
        let by_head = RowLayout::contiguous(rows, e.value_size).unwrap();
        let by_token = RowLayout {
            strides: [
                e.length * e.heads * e.value_size,
                e.value_size,
                e.heads * e.value_size,
            ],
            ..by_head
        };
        for layout in [by_head, by_token] {
            let mut out = vec![T::from_acc(T::Acc::from_f64(77.0)); want.len()];
            attention(compute, &problem, &mut out, &layout).unwrap();
            for (n, want) in want.iter().enumerate() {
                let (row, d) = (n / e.value_size, n % e.value_size);
                let at = [
                    row / (e.heads * e.length),
                    row / e.length % e.heads,
                    row % e.length,
                ];
                let place: usize = at.iter().zip(layout.strides).map(|(i, s)| i * s).sum();
                let got = out[place + d].to_acc().to_f64();
                assert!(
                    (got - want).abs() <= tolerance,
                    "{} {e:?} {lay:?} {rules:?} row {at:?} {d}: got {got}, want {want}",
                    compute.isa
                );
                if *want == 0.0 {
                    assert_eq!(got, 0.0);
                }
            }
        }
    }
}

fn extents(
    batch: usize,
    heads: usize,
    kv_heads: usize,
    length: usize,
    total: usize,
    size: usize,
    value_size: usize,
) -> Extents {
    Extents {
        batch,
        heads,
        kv_heads,
        length,
        total,
        size,
        value_size,
    }
}

fn check_types(compute: &Compute<'_>, case: &Case<'_>) {
    check::<f32>(compute, case, 2e-6);
    check::<f64>(compute, case, 1e-13);
    check::<f16>(compute, case, 1e-3);
    check::<bf16>(compute, case, 8e-3);
}

#[test]
fn decode_and_prefill_of_every_shape() {
    let pool = ThreadPool::new(2);
    for isa in Isa::available() {
        let compute = Compute::new(isa, &pool);
        for e in [
            extents(1, 1, 1, 1, 1, 1, 1),
            extents(1, 2, 1, 1, 65, 7, 5),
            extents(2, 6, 3, 1, 63, 16, 33),  // decode, groups of two
            extents(1, 16, 1, 1, 130, 8, 9),  // sixteen rows: the most that are few
            extents(1, 17, 1, 1, 64, 18, 15), // seventeen: many
            extents(2, 4, 2, 13, 20, 35, 31),
            extents(1, 3, 3, 97, 101, 15, 32), // more than a block
            extents(1, 2, 2, 3, 0, 4, 5),      // no keys
            extents(1, 2, 1, 0, 5, 4, 3),      // no queries
        ] {
            for causal in [false, true] {
                let start = [
                    e.total as i64 - e.length as i64,
                    e.total as i64 - e.length as i64 - 2,
                ];
                let visibility = Visibility {
                    causal,
                    query_start: &start[..e.batch.min(2)],
                    ..Visibility::default()
                };
                check_types(
                    &compute,
                    &Case {
                        extents: e,
                        visibility,
                        softcap: 0.0,
                    },
                );
            }
        }
    }
}

#[test]
fn windows_lengths_and_softcap() {
    let pool = ThreadPool::new(2);
    for isa in Isa::available() {
        let compute = Compute::new(isa, &pool);
        for (length, total) in [(1, 150), (2, 70), (37, 140)] {
            for (left, right) in [
                (None, None),
                (Some(0), None),
                (Some(70), None),
                (None, Some(3)),
                (Some(2), Some(0)),
                (Some(u64::MAX), Some(u64::MAX)),
            ] {
                for lengths in [&[][..], &[total, total - 66], &[0, 5]] {
                    let visibility = Visibility {
                        causal: right.is_none(),
                        left_window: left,
                        right_window: right,
                        query_start: &[total - length],
                        lengths,
                        ..Visibility::default()
                    };
                    let e = extents(2, 4, 2, length as usize, total as usize, 9, 11);
                    check::<f32>(
                        &compute,
                        &Case {
                            extents: e,
                            visibility,
                            softcap: 1.5,
                        },
                        2e-6,
                    );
                }
            }
        }
        // positions before the first key, and at the ends of the range of i64
        for start in [-3, i64::MIN, i64::MAX] {
            let visibility = Visibility {
                causal: true,
                left_window: Some(4),
                query_start: &[start],
                ..Visibility::default()
            };
            let e = extents(1, 2, 1, 5, 7, 6, 4);
            if start == -3 {
                check::<f64>(
                    &compute,
                    &Case {
                        extents: e,
                        visibility,
                        softcap: 0.0,
                    },
                    1e-13,
                );
            } else {
                let zeros = vec![0f64; 70];
                let problem = AttentionProblem {
                    query: View::from_slice(&zeros[..60], &[1, 2, 5, 6]).unwrap(),
                    key: View::from_slice(&zeros[..42], &[1, 1, 7, 6]).unwrap(),
                    value: View::from_slice(&[f64::NAN; 28], &[1, 1, 7, 4]).unwrap(),
                    scale: 1.0,
                    softcap: 0.0,
                    visibility,
                };
                let mut out = [1f64; 40];
                attention(
                    &compute,
                    &problem,
                    &mut out,
                    &RowLayout::contiguous([1, 2, 5], 4).unwrap(),
                )
                .unwrap();
                assert_eq!(out, [0.0; 40]);
            }
        }
    }
}

#[test]
fn masks_of_every_broadcast_shape() {
    let pool = ThreadPool::new(2);
    let noise = values(30_000, 99);
    let bits: Vec<u8> = noise.iter().map(|x| u8::from(*x > -0.2) * 3).collect();
    let bias: Vec<f64> = noise
        .iter()
        .map(|x| {
            if *x < -0.5 {
                f64::NEG_INFINITY
            } else {
                x * 4.0
            }
        })
        .collect();
    for isa in Isa::available() {
        let compute = Compute::new(isa, &pool);
        for (length, total) in [(1, 75), (3, 40), (23, 131)] {
            let e = extents(2, 4, 2, length, total, 10, 12);
            for shape in [
                vec![total],
                vec![length, total],
                vec![4, length, total],
                vec![2, 1, 1, total],
                vec![2, 4, length, total],
                vec![1, 4, 1, total - 20], // shorter: the rest is invisible
                vec![1],                   // not broadcast: only the first key
            ] {
                let n: usize = shape.iter().product();
                for (causal, mask) in [
                    (
                        true,
                        Mask::Bool(View::from_slice(&bits[..n], &shape).unwrap()),
                    ),
                    (
                        false,
                        Mask::Float(View::from_slice(&bias[..n], &shape).unwrap()),
                    ),
                ] {
                    let visibility = Visibility {
                        causal,
                        query_start: &[(total - length) as i64],
                        mask,
                        ..Visibility::default()
                    };
                    check_types(
                        &compute,
                        &Case {
                            extents: e,
                            visibility,
                            softcap: 0.0,
                        },
                    );
                }
            }
        }
    }
}

/// Q = 0: every visible key has the same weight, so the result is the mean of the visible values.
fn probe(value: &[f32], length: usize, visibility: Visibility<'_, f32>) -> Vec<f32> {
    let total = value.len();
    let (query, key) = (vec![0f32; length * 2], vec![0.25f32; total * 2]);
    let problem = AttentionProblem {
        query: View::from_slice(&query, &[1, 1, length, 2]).unwrap(),
        key: View::from_slice(&key, &[1, 1, total, 2]).unwrap(),
        value: View::from_slice(value, &[1, 1, total, 1]).unwrap(),
        scale: 1.0,
        softcap: 0.0,
        visibility,
    };
    let mut out = vec![0f32; length];
    let layout = RowLayout::contiguous([1, 1, length], 1).unwrap();
    attention(&Compute::default(), &problem, &mut out, &layout).unwrap();
    out
}

/// Whatever keys of a tile are visible: each is weighed where it stands.
#[test]
fn every_mask_of_eight_keys() {
    let (keys, size) = (8, 5);
    let query = values(size, 1);
    let key = values(keys * size, 2);
    let value = values(keys, 3);
    let narrow = |x: &[f64]| x.iter().map(|x| *x as f32).collect::<Vec<_>>();
    let (query, key, value) = (narrow(&query), narrow(&key), narrow(&value));
    let score = |j: usize| -> f64 {
        let row = &key[j * size..][..size];
        let pairs = query.iter().zip(row);
        pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    for isa in Isa::available() {
        for bits in 1..256u32 {
            let mask: Vec<u8> = (0..keys).map(|j| (bits >> j & 1) as u8).collect();
            let problem = AttentionProblem {
                query: View::from_slice(&query, &[1, 1, 1, size]).unwrap(),
                key: View::from_slice(&key, &[1, 1, keys, size]).unwrap(),
                value: View::from_slice(&value, &[1, 1, keys, 1]).unwrap(),
                scale: 1.0,
                softcap: 0.0,
                visibility: Visibility {
                    mask: Mask::Bool(View::from_slice(&mask, &[1, 1, 1, keys]).unwrap()),
                    ..Visibility::default()
                },
            };
            let layout = RowLayout::contiguous([1, 1, 1], 1).unwrap();
            let mut out = [f32::NAN];
            let pool = ThreadPool::new(1);
            attention(&Compute::new(isa, &pool), &problem, &mut out, &layout).unwrap();
            let seen = || (0..keys).filter(|j| bits >> j & 1 == 1);
            let sum: f64 = seen().map(|j| score(j).exp()).sum();
            let want: f64 = seen()
                .map(|j| score(j).exp() * f64::from(value[j]) / sum)
                .sum();
            let near = (f64::from(out[0]) - want).abs() < 1e-6;
            assert!(near, "{isa} {bits:08b}: {} is not {want}", out[0]);
        }
    }
}

#[test]
fn known_mistakes_of_others() {
    // the causal diagonal counts the past
    let causal = Visibility {
        causal: true,
        query_start: &[2],
        ..Visibility::default()
    };
    assert_eq!(probe(&[1., 10., 100., 1000.], 2, causal), [37.0, 277.75]);
    // a mask with holes is not a length
    let holes = [1, 0, 1];
    let mask = Mask::Bool(View::from_slice(&holes, &[1, 3]).unwrap());
    let rules = Visibility {
        mask,
        ..Visibility::default()
    };
    assert_eq!(probe(&[1., 10., 100.], 1, rules), [50.5]);
    // the largest negative number is a summand, not a mask
    let low = [f32::MIN; 4];
    let mask = Mask::Float(View::from_slice(&low, &[4]).unwrap());
    let rules = Visibility {
        mask,
        ..Visibility::default()
    };
    assert_eq!(probe(&[1., 10., 100., 1000.], 1, rules), [277.75]);
    // a row without keys is zero, the others are not touched
    let rows = [1, 1, 1, 0, 0, 0, 1, 1, 1];
    let mask = Mask::Bool(View::from_slice(&rows, &[3, 3]).unwrap());
    let rules = Visibility {
        mask,
        ..Visibility::default()
    };
    assert_eq!(probe(&[1., 10., 100.], 3, rules), [37.0, 0.0, 37.0]);
    // a left window counts the positions before the query
    let seven: Vec<f32> = (0..7).map(|i| 10f32.powi(i)).collect();
    for (left, want) in [(0, 1e6), (1, 550_000.0), (2, 370_000.0), (100, 158_730.14)] {
        let rules = Visibility {
            causal: true,
            left_window: Some(left),
            query_start: &[6],
            ..Visibility::default()
        };
        assert!((probe(&seven, 1, rules)[0] / want - 1.0).abs() < 1e-6);
    }
}

#[test]
fn softcap_comes_before_the_mask() {
    let (query, key) = ([1f64], [2.0, 1.0, 0.5, 0.1]);
    let mask = [1, 1, 0, 0];
    let problem = AttentionProblem {
        query: View::from_slice(&query, &[1, 1, 1, 1]).unwrap(),
        key: View::from_slice(&key, &[1, 1, 4, 1]).unwrap(),
        value: View::from_slice(&[1., 10., 100., 1000.], &[1, 1, 4, 1]).unwrap(),
        scale: 1.0,
        softcap: 2.0,
        visibility: Visibility {
            mask: Mask::Bool(View::from_slice(&mask, &[4]).unwrap()),
            ..Visibility::default()
        },
    };
    let compute = Compute::default();
    let mut out = [0.0];
    attention(
        &compute,
        &problem,
        &mut out,
        &RowLayout::contiguous([1, 1, 1], 1).unwrap(),
    )
    .unwrap();
    assert!((out[0] - 4.191_247_35).abs() < 1e-7);
    let mut rows = [[0.0; 4]; 4];
    for (stage, row) in [
        ScoreStage::Product,
        ScoreStage::Capped,
        ScoreStage::Biased,
        ScoreStage::Weights,
    ]
    .into_iter()
    .zip(&mut rows)
    {
        attention_scores(&compute, &problem, stage, row).unwrap();
    }
    assert_eq!(rows[0], key);
    for (capped, key) in rows[1].iter().zip(key) {
        assert!((capped - 2.0 * (key / 2.0f64).tanh()).abs() < 1e-12);
    }
    assert_eq!(
        rows[2],
        [rows[1][0], rows[1][1], f64::NEG_INFINITY, f64::NEG_INFINITY]
    );
    let want = [0.645_416_96, 0.354_583_04, 0.0, 0.0];
    assert!(rows[3].iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-8));
}

#[test]
fn a_softcap_whose_inverse_no_number_holds() {
    for isa in Isa::available() {
        let pool = ThreadPool::new(1);
        // Few rows, and many.
        for length in [1, 20] {
            let problem = AttentionProblem {
                query: View::from_slice(&[0f32; 20][..length], &[1, 1, length, 1]).unwrap(),
                key: View::from_slice(&[1f32, 2.0], &[1, 1, 2, 1]).unwrap(),
                value: View::from_slice(&[1f32, 3.0], &[1, 1, 2, 1]).unwrap(),
                scale: 1.0,
                softcap: 1e-40,
                visibility: Visibility::default(),
            };
            let mut out = vec![0f32; length];
            let layout = RowLayout::contiguous([1, 1, length], 1).unwrap();
            attention(&Compute::new(isa, &pool), &problem, &mut out, &layout).unwrap();
            assert_eq!(out, vec![2.0; length], "{isa}");
        }
    }
}

#[test]
fn infinities_at_keys_that_only_some_rows_see_stay_with_them() {
    // a causal prefill; key 6 has an infinite value, key 8 a NaN value and a NaN key; few rows and many, one chunk and two
    let cases = Isa::available().flat_map(|isa| [12, 40, 300].map(|n| (isa, n)));
    for (isa, n) in cases {
        let compute = Compute {
            isa,
            ..Compute::default()
        };
        let d = 3;
        let query = values(n * d, 3);
        let mut key = values(n * d, 4);
        let mut value = values(n * d, 5);
        key[8 * d] = f64::NAN;
        value[6 * d] = f64::INFINITY;
        value[8 * d + 1] = f64::NAN;
        let e = extents(1, 1, 1, n, n, d, d);
        let want = reference::attention(e, (&query, &key, &value), (0.5, 0.0), |_, _, i, j| {
            (j <= i).then_some(0.0)
        });
        let narrow = |x: &[f64]| x.iter().map(|x| *x as f32).collect::<Vec<_>>();
        let (q, k, v) = (narrow(&query), narrow(&key), narrow(&value));
        let problem = AttentionProblem {
            query: View::from_slice(&q, &[1, 1, n, d]).unwrap(),
            key: View::from_slice(&k, &[1, 1, n, d]).unwrap(),
            value: View::from_slice(&v, &[1, 1, n, d]).unwrap(),
            scale: 0.5,
            softcap: 0.0,
            visibility: Visibility {
                causal: true,
                ..Visibility::default()
            },
        };
        let mut out = vec![0f32; n * d];
        attention(
            &compute,
            &problem,
            &mut out,
            &RowLayout::contiguous([1, 1, n], d).unwrap(),
        )
        .unwrap();
        for (i, (got, want)) in out.iter().zip(&want).enumerate() {
            assert_eq!(got.is_nan(), want.is_nan(), "{isa} {i}");
            assert!(
                want.is_nan() || f64::from(*got) == *want || (f64::from(*got) - want).abs() < 1e-6,
                "{isa} {i}: {got} {want}"
            );
        }
    }
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let data = [0f32; 96];
    let view = |shape: &[usize]| View::from_slice(&data[..shape.iter().product()], shape).unwrap();
    let good = AttentionProblem {
        query: view(&[1, 4, 3, 2]),
        key: view(&[1, 2, 5, 2]),
        value: view(&[1, 2, 5, 3]),
        scale: 1.0,
        softcap: 0.0,
        visibility: Visibility::default(),
    };
    let layout = RowLayout::contiguous([1, 4, 3], 3).unwrap();
    let run = |problem: &AttentionProblem<'_, f32>, layout: &RowLayout| {
        attention(&Compute::default(), problem, &mut [0f32; 36], layout)
    };
    run(&good, &layout).unwrap();
    let heads = AttentionProblem {
        query: view(&[1, 3, 3, 2]),
        ..good.clone()
    };
    assert!(matches!(
        run(&heads, &layout),
        Err(KernelError::Heads {
            query_heads: 3,
            kv_heads: 2
        })
    ));
    for (key, value) in [
        (&[1, 2, 5, 3], &[1, 2, 5, 3]),
        (&[1, 2, 5, 2], &[1, 2, 4, 3]),
        (&[2, 2, 5, 2], &[1, 2, 5, 3]),
    ] {
        let bad = AttentionProblem {
            key: view(key),
            value: view(value),
            ..good.clone()
        };
        assert!(matches!(run(&bad, &layout), Err(KernelError::Shape { .. })));
    }
    for lengths in [&[6][..], &[-1], &[1, 2]] {
        let visibility = Visibility {
            lengths,
            ..Visibility::default()
        };
        assert!(
            run(
                &AttentionProblem {
                    visibility,
                    ..good.clone()
                },
                &layout
            )
            .is_err()
        );
    }
    for shape in [&[6][..], &[2, 5], &[2, 4, 3, 5], &[1, 1, 4, 1, 5], &[]] {
        let many = [0f32; 120];
        let size = shape.iter().product();
        let visibility = Visibility {
            mask: Mask::Float(View::from_slice(&many[..size], shape).unwrap()),
            ..Visibility::default()
        };
        let bad = AttentionProblem {
            visibility,
            ..good.clone()
        };
        assert!(matches!(
            run(&bad, &layout),
            Err(KernelError::Shape {
                operand: "attention mask",
                ..
            })
        ));
    }
    assert!(
        run(
            &good,
            &RowLayout {
                strides: [36, 3, 3],
                ..layout
            }
        )
        .is_err()
    );
    assert!(attention(&Compute::default(), &good, &mut [0f32; 35], &layout).is_err());
}

mod cuts;
mod overflow;
mod sinks;
