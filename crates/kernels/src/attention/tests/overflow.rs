//! Scores that overflow to minus infinity.

use super::*;

/// Query 0 is `sign`, the others are 1; the keys at `low` give query 0 a score of minus infinity times `sign`, the others
/// a score of 0; every query sees the keys below `total`, the last one none. The value of key `j` is `j`.
fn run(compute: &Compute<'_>, [length, keys, total]: [usize; 3], low: &[usize], sinks: &[f32]) {
    let mut query = vec![0f32; length * 2];
    query[0] = 3e38;
    let mut key = vec![0f32; keys * 2];
    for &j in low {
        key[2 * j] = -3e38;
    }
    let value: Vec<f32> = (0..keys).map(|j| j as f32).collect();
    let mut seen = vec![0u8; length * keys];
    for row in seen.chunks_exact_mut(keys).take(length - 1) {
        row[..total].fill(1);
    }
    let problem = AttentionProblem {
        query: View::from_slice(&query, &[1, 1, length, 2]).unwrap(),
        key: View::from_slice(&key, &[1, 1, keys, 2]).unwrap(),
        value: View::from_slice(&value, &[1, 1, keys, 1]).unwrap(),
        scale: 1.0,
        softcap: 0.0,
        visibility: Visibility {
            mask: Mask::Bool(View::from_slice(&seen, &[length, keys]).unwrap()),
            sinks,
            ..Visibility::default()
        },
    };
    let mut out = vec![77f32; length];
    let layout = RowLayout::contiguous([1, 1, length], 1).unwrap();
    attention(compute, &problem, &mut out, &layout).unwrap();
    let mut weights = vec![77f32; length * keys];
    attention_scores(compute, &problem, ScoreStage::Weights, &mut weights).unwrap();
    // Keys with a weight, each of the same.
    let sink = if sinks == [0.0] { 1.0 } else { 0.0 };
    let plain = |row: usize| (0..total).filter(move |j| row > 0 || !low.contains(j));
    for row in 0..length {
        let of = &weights[row * keys..][..keys];
        let case = format!("{} {length} {keys} {low:?} {sinks:?} {row}", compute.isa);
        if row == length - 1 {
            assert_eq!(out[row], 0.0, "{case}");
            assert_eq!(of, vec![0.0; keys], "{case}");
            continue;
        }
        let all = plain(row).count() as f32 + sink;
        if all == 0.0 {
            assert!(out[row].is_nan(), "{case}: {}", out[row]);
            assert!(of[..total].iter().all(|x| x.is_nan()), "{case}");
            continue;
        }
        let want = plain(row).map(|j| j as f32).sum::<f32>() / all;
        assert!(
            (out[row] - want).abs() <= want * 1e-6,
            "{case}: {} {want}",
            out[row]
        );
        let sum: f32 = of.iter().sum();
        assert!(
            (sum - plain(row).count() as f32 / all).abs() < 1e-5,
            "{case}: {sum}"
        );
    }
}

/// As the formula in FLOAT: `e^(-inf - -inf)` is NaN where no score is larger, and 0 where one is.
#[test]
fn a_row_without_a_score_above_minus_infinity_is_nan() {
    let pool = ThreadPool::new(2);
    for isa in Isa::available() {
        let compute = Compute::new(isa, &pool);
        for length in [2, 40] {
            for (keys, total) in [(5, 5), (70, 66), (700, 690)] {
                let every: Vec<usize> = (0..total).collect();
                let but_first = &every[1..];
                let but_last = &every[..total - 1];
                for low in [&every[..], but_first, but_last, &[2], &[]] {
                    for sinks in [&[][..], &[0.0], &[f32::NEG_INFINITY]] {
                        run(&compute, [length, keys, total], low, sinks);
                    }
                }
            }
        }
    }
}
