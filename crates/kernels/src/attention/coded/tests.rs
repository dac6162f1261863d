use super::super::{AttentionProblem, attention};
use super::*;
use crate::ThreadPool;

fn spread(index: usize, seed: usize) -> usize {
    (index * 7919 + seed * 104_729 + 13) % 65_521
}

fn codes(count: usize, seed: usize) -> Vec<u8> {
    (0..count).map(|i| spread(i, seed) as u8).collect()
}

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count)
        .map(|i| spread(i, seed) as f32 / 32_760.0 - 1.0)
        .collect()
}

/// Attention to codes is attention to the numbers that they stand for.
#[test]
fn codes_give_what_their_numbers_give() {
    let pool = ThreadPool::new(2);
    let (batch, heads, kv_heads) = (2, 6, 3);
    for (length, total, room, size, width) in [
        (1, 1, 1, 16, 16),
        (1, 130, 200, 24, 40),
        (3, 70, 71, 7, 33),
        (40, 64, 90, 20, 12),
        (2, 0, 3, 8, 8),
    ] {
        let query = numbers(batch * heads * length * size, 1);
        // Room behind the rows of each head, as a cache that grows has.
        let whole = |seed, width| codes(batch * kv_heads * room * width, seed);
        let (key, value) = (whole(2, size), whole(3, width));
        let rows = |data, width| {
            View::<u8>::from_slice(data, &[batch, kv_heads, room, width])
                .unwrap()
                .slice(2, 0, total, 1)
                .unwrap()
        };
        let lengths = [total as i64, (total / 2) as i64];
        for by_channel in [false, true] {
            let scale = |seed, width| -> Vec<f32> {
                let count = if by_channel { kv_heads * width } else { 1 };
                (0..count)
                    .map(|i| 0.005 + spread(i, seed) as f32 / 4e6)
                    .collect()
            };
            let (key_scale, value_scale) = (scale(4, size), scale(5, width));
            let wide = |view: &View<'_, u8>, scale: &[f32], width: usize| -> Vec<f32> {
                let each = |(i, code): (usize, u8)| {
                    let head = i / (total * width).max(1) % kv_heads;
                    let which = if by_channel {
                        head * width + i % width
                    } else {
                        0
                    };
                    f32::from(code.cast_signed()) * scale[which]
                };
                view.iter().enumerate().map(each).collect()
            };
            let (keys, values) = (rows(&key, size), rows(&value, width));
            let (wide_keys, wide_values) = (
                wide(&keys, &key_scale, size),
                wide(&values, &value_scale, width),
            );
            let starts = lengths.map(|valid| (valid - length as i64).max(0));
            let visibility = || Visibility {
                causal: true,
                left_window: Some(50),
                query_start: &starts,
                lengths: &lengths,
                ..Visibility::default()
            };
            let query = View::from_slice(&query, &[batch, heads, length, size]).unwrap();
            let layout = RowLayout::contiguous([batch, heads, length], width).unwrap();
            for isa in Isa::available() {
                let compute = Compute::new(isa, &pool);
                let mut want = vec![9f32; batch * heads * length * width];
                let dense = AttentionProblem {
                    query: query.clone(),
                    key: View::from_slice(&wide_keys, keys.shape()).unwrap(),
                    value: View::from_slice(&wide_values, values.shape()).unwrap(),
                    scale: 0.3,
                    softcap: 5.0,
                    visibility: visibility(),
                };
                attention(&compute, &dense, &mut want, &layout).unwrap();
                let mut got = vec![-9f32; want.len()];
                let coded = CodedProblem {
                    query: query.clone(),
                    key: CodedRows {
                        codes: keys.clone(),
                        scale: &key_scale,
                    },
                    value: CodedRows {
                        codes: values.clone(),
                        scale: &value_scale,
                    },
                    scale: 0.3,
                    softcap: 5.0,
                    visibility: visibility(),
                };
                coded_attention(&compute, &coded, &mut got, &layout).unwrap();
                for (got, want) in got.iter().zip(&want) {
                    assert!((got - want).abs() < 1e-4, "{isa}: {got}, want {want}");
                }
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    let (query, rows) = ([0f32; 8], [0u8; 24]);
    let view = View::from_slice(&rows, &[1, 1, 3, 8]).unwrap();
    let layout = RowLayout::contiguous([1, 1, 1], 8).unwrap();
    let good = CodedProblem {
        query: View::from_slice(&query, &[1, 1, 1, 8]).unwrap(),
        key: CodedRows {
            codes: view.clone(),
            scale: &[1.0],
        },
        value: CodedRows {
            codes: view.clone(),
            scale: &[1.0],
        },
        scale: 1.0,
        softcap: 0.0,
        visibility: Visibility::default(),
    };
    let run = |problem: &CodedProblem<'_>| {
        coded_attention(&Compute::default(), problem, &mut [0.0; 8], &layout)
    };
    assert!(run(&good).is_ok());
    let mut few = good.clone();
    few.key.scale = &[1.0; 3];
    assert!(run(&few).is_err());
    let mut short = good.clone();
    short.value.codes = view.slice(2, 0, 2, 1).unwrap();
    assert!(run(&short).is_err());
    let mut strided = good.clone();
    strided.key.codes = View::from_slice(&rows, &[1, 1, 8, 3])
        .unwrap()
        .swap(2, 3)
        .unwrap();
    assert!(run(&strided).is_err());
}
