//! Long caches, every head size, empty widths, and numbers of threads.

use super::*;

#[test]
fn long_caches_are_cut_and_merged() {
    let pool = ThreadPool::new(3);
    for isa in Isa::available() {
        let compute = Compute::new(isa, &pool);
        for (e, left) in [
            (extents(1, 1, 1, 1, 257, 5, 3), None),
            (extents(2, 7, 1, 1, 700, 18, 35), None),
            (extents(1, 4, 2, 4, 530, 33, 16), Some(100)), // first chunk unseen
            (extents(1, 16, 1, 1, 513, 8, 19), None),
            (extents(1, 17, 1, 1, 290, 9, 20), None), // one more than few
            (extents(1, 2, 1, 49, 600, 34, 48), Some(270)), // two blocks of many rows, cut
        ] {
            let start = [(e.total - e.length) as i64];
            let lengths = [e.total as i64, e.total as i64 - 260];
            let visibility = Visibility {
                causal: true,
                left_window: left,
                query_start: &start,
                lengths: if e.batch == 2 { &lengths } else { &[] },
                ..Visibility::default()
            };
            let case = Case {
                extents: e,
                visibility,
                softcap: 0.0,
            };
            check::<f32>(&compute, &case, 2e-6);
            check::<f64>(&compute, &case, 1e-13);
            check::<bf16>(&compute, &case, 8e-3);
        }
    }
}

#[test]
fn head_sizes_from_one_to_512() {
    let pool = ThreadPool::new(1);
    for isa in Isa::available() {
        let compute = Compute::new(isa, &pool);
        for size in (1..=512).step_by(if isa == Isa::best() { 1 } else { 13 }) {
            let value_size = 513 - size;
            for length in [1, 17] {
                let e = extents(1, 3, 1, length, 18, size, value_size);
                let q = values(3 * length * size, 1);
                let k = values(18 * size, 2);
                let v = values(18 * value_size, 3);
                let scale = default_scale(size);
                let start = [18 - length as i64];
                let want = reference::attention(e, (&q, &k, &v), (scale, 0.0), |_, _, i, j| {
                    (j as i64 <= start[0] + i as i64).then_some(0.0)
                });
                let narrow = |x: &[f64]| x.iter().map(|x| *x as f32).collect::<Vec<_>>();
                let (q, k, v) = (narrow(&q), narrow(&k), narrow(&v));
                let problem = AttentionProblem {
                    query: View::from_slice(&q, &[1, 3, length, size]).unwrap(),
                    key: View::from_slice(&k, &[1, 1, 18, size]).unwrap(),
                    value: View::from_slice(&v, &[1, 1, 18, value_size]).unwrap(),
                    scale,
                    softcap: 0.0,
                    visibility: Visibility {
                        causal: true,
                        query_start: &start,
                        ..Visibility::default()
                    },
                };
                let layout = RowLayout::contiguous([1, 3, length], value_size).unwrap();
                let mut out = vec![0f32; want.len()];
                attention(&compute, &problem, &mut out, &layout).unwrap();
                for (got, want) in out.iter().zip(&want) {
                    assert!(
                        (f64::from(*got) - want).abs() < 2e-6,
                        "{isa} {size} {length}"
                    );
                }
            }
        }
    }
}

#[test]
fn values_without_width_and_heads_without_size() {
    let (query, key) = ([0.5f32; 6], [1f32; 900]);
    let run = |size: usize, value: &[f32], width: usize, out: &mut [f32]| {
        let problem = AttentionProblem {
            query: View::from_slice(&query[..2 * size], &[1, 2, 1, size]).unwrap(),
            key: View::from_slice(&key[..300 * size], &[1, 1, 300, size]).unwrap(),
            value: View::from_slice(value, &[1, 1, 300, width]).unwrap(),
            scale: 1.0,
            softcap: 0.0,
            visibility: Visibility::default(),
        };
        let layout = RowLayout::contiguous([1, 2, 1], width).unwrap();
        attention(&Compute::default(), &problem, out, &layout)
    };
    run(3, &[], 0, &mut []).unwrap();
    // no element to multiply: every score is 0, the result the mean
    let value: Vec<f32> = (0..300).map(|i| i as f32).collect();
    let mut out = [0f32; 2];
    run(0, &value, 1, &mut out).unwrap();
    assert_eq!(out, [149.5; 2]);
}

#[test]
fn thread_counts_do_not_change_a_bit() {
    let pools = [1, 2, 3, 7].map(ThreadPool::new);
    // few rows and many, one chunk and several, one key/value head and several
    for (heads, kv_heads, length, total) in [
        (8, 4, 1, 300),
        (7, 1, 1, 2900),
        (1, 1, 1, 5000),
        (20, 1, 1, 1300),
        (8, 4, 120, 300),
    ] {
        let narrow = |n, seed| {
            values(n, seed)
                .iter()
                .map(|x| *x as f32 * 0.7)
                .collect::<Vec<_>>()
        };
        let (q, k, v) = (
            narrow(heads * length * 40, 1),
            narrow(kv_heads * total * 40, 2),
            narrow(kv_heads * total * 24, 3),
        );
        let start = [(total - length) as i64];
        let problem = AttentionProblem {
            query: View::from_slice(&q, &[1, heads, length, 40]).unwrap(),
            key: View::from_slice(&k, &[1, kv_heads, total, 40]).unwrap(),
            value: View::from_slice(&v, &[1, kv_heads, total, 24]).unwrap(),
            scale: default_scale(40),
            softcap: 0.0,
            visibility: Visibility {
                causal: true,
                query_start: &start,
                ..Visibility::default()
            },
        };
        let layout = RowLayout::contiguous([1, heads, length], 24).unwrap();
        for isa in Isa::available() {
            let run = |pool| {
                let mut out = vec![0f32; heads * length * 24];
                let compute = Compute::new(isa, pool);
                attention(&compute, &problem, &mut out, &layout).unwrap();
                out.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
            };
            let one = run(&pools[0]);
            for pool in &pools[1..] {
                for _ in 0..5 {
                    assert_eq!(one, run(pool), "{isa} {total} {}", pool.threads());
                }
            }
        }
    }
}
