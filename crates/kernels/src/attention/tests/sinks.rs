//! Scores without a value: the same as a key more, of which the score is known and the value is zero.

use super::*;

/// Attention with `sinks` beside the formula over one key more. That key is zero, so its score is what the mask adds, and so
/// is its value.
fn check<T: Real>(compute: &Compute<'_>, e: Extents, sinks: &[f64], tolerance: f64) {
    let query = values(e.batch * e.heads * e.length * e.size, 3);
    let key = values(e.batch * e.kv_heads * e.total * e.size, 4);
    let value = values(e.batch * e.kv_heads * e.total * e.value_size, 5);
    let longer = |data: &[f64], width: usize| -> Vec<f64> {
        (0..e.batch * e.kv_heads)
            .flat_map(|head| {
                let rows = &data[head * e.total * width..][..e.total * width];
                rows.iter().copied().chain(vec![0.0; width])
            })
            .collect()
    };
    let (all_keys, all_values) = (longer(&key, e.size), longer(&value, e.value_size));
    let start = e.total as i64 - e.length as i64;
    let sees = |i: usize, j: usize| j as i64 <= start + i as i64;
    let scale = default_scale(e.size);
    let whole = Extents {
        total: e.total + 1,
        ..e
    };
    let want = reference::attention(
        whole,
        (&query, &all_keys, &all_values),
        (scale, 0.7),
        |_, h, i, j| match j == e.total {
            // A row that sees no key is zero with a sink too.
            true => (start + i as i64 >= 0).then(|| sinks[h.min(sinks.len() - 1)]),
            false => sees(i, j).then_some(0.0),
        },
    );
    let stored = |x: f64| T::from_acc(T::Acc::from_f64(x));
    let tokens = |data: &[f64], heads, rows, width| {
        tensor::<T>(data, [e.batch, heads, rows, width], Lay::Capacity)
    };
    let q = tokens(&query, e.heads, e.length, e.size);
    let k = tokens(&key, e.kv_heads, e.total, e.size);
    let v = tokens(&value, e.kv_heads, e.total, e.value_size);
    let sinks: Vec<T> = sinks.iter().map(|x| stored(*x)).collect();
    let problem = AttentionProblem {
        query: q.view().unwrap(),
        key: k.view().unwrap(),
        value: v.view().unwrap(),
        scale,
        softcap: 0.7,
        visibility: Visibility {
            causal: true,
            query_start: &[start],
            sinks: &sinks,
            ..Visibility::default()
        },
    };
    let layout = RowLayout::contiguous([e.batch, e.heads, e.length], e.value_size).unwrap();
    let mut out = vec![stored(77.0); want.len()];
    attention(compute, &problem, &mut out, &layout).unwrap();
    for (n, (got, want)) in out.iter().zip(&want).enumerate() {
        let got = got.to_acc().to_f64();
        assert!(
            (got - want).abs() <= tolerance,
            "{} {e:?} {sinks:?} {n}: got {got}, want {want}",
            compute.isa
        );
    }
    let mut weights = vec![stored(77.0); e.batch * e.heads * e.length * e.total];
    attention_scores(compute, &problem, ScoreStage::Weights, &mut weights).unwrap();
    for (row, weights) in weights.chunks_exact(e.total).enumerate() {
        let (b, h) = (row / (e.heads * e.length), row / e.length % e.heads);
        let rows = &value[(b * e.kv_heads + h / (e.heads / e.kv_heads)) * e.total * e.value_size..];
        for d in 0..e.value_size {
            let parts = weights.iter().zip(rows.chunks_exact(e.value_size));
            let got: f64 = parts.map(|(w, row)| w.to_acc().to_f64() * row[d]).sum();
            let want = want[row * e.value_size + d];
            assert!(
                (got - want).abs() <= tolerance,
                "{e:?} {row} {d}: {got}, {want}"
            );
        }
    }
}

#[test]
fn sinks_are_keys_without_a_value() {
    let pool = ThreadPool::new(2);
    for isa in Isa::available() {
        let compute = Compute::new(isa, &pool);
        for e in [
            extents(1, 1, 1, 1, 1, 1, 1),
            extents(2, 6, 3, 1, 63, 16, 33),   // decode of groups
            extents(1, 4, 2, 2, 700, 8, 5),    // chunks that are merged
            extents(2, 4, 2, 13, 20, 35, 31),  // many rows
            extents(1, 2, 1, 97, 601, 15, 32), // blocks and chunks
            extents(1, 2, 1, 9, 4, 6, 3),      // rows before the first key
        ] {
            let each: Vec<f64> = (0..e.heads).map(|h| h as f64 * 1.5 - 2.0).collect();
            for sinks in [&each[..], &[0.0], &[60.0], &[-60.0], &[f64::NEG_INFINITY]] {
                check::<f32>(&compute, e, sinks, 2e-6);
                check::<f64>(&compute, e, sinks, 1e-13);
                check::<f16>(&compute, e, sinks, 2e-3);
                check::<bf16>(&compute, e, sinks, 1.6e-2);
            }
        }
    }
}

#[test]
fn sinks_of_another_number_of_heads_are_refused() {
    let x = Tensor::from_slice(&[1, 3, 1, 2], &[0.5f32; 6]).unwrap();
    let problem = AttentionProblem {
        query: x.view().unwrap(),
        key: x.view().unwrap(),
        value: x.view().unwrap(),
        scale: 1.0,
        softcap: 0.0,
        visibility: Visibility {
            sinks: &[0.0f32; 2],
            ..Visibility::default()
        },
    };
    let layout = RowLayout::contiguous([1, 3, 1], 2).unwrap();
    let refused = attention(&Compute::default(), &problem, &mut [0.0; 6], &layout);
    let expected = KernelError::Length {
        operand: "sinks",
        expected: 3,
        got: 2,
    };
    assert_eq!(refused.unwrap_err(), expected);
}
