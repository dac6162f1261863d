//! `GroupQueryAttention`, against the formula and against itself with operands turned beforehand.

use super::super::super::trial::{Trial, floats, ints, listed};
use super::{fused, int32, joined, naive, near, tensor};
use crate::kernel::OpError;
use refeed_values::Tensor;

fn group_query() -> Trial {
    Trial::new("GroupQueryAttention", 1)
        .domain("com.microsoft")
        .int("num_heads", 4)
        .int("kv_num_heads", 2)
}

/// The inputs that are tried: query, key, value, past key, past value, lengths, total, tables, positions.
struct Query {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past: Option<(Tensor, Tensor)>,
    lengths: Tensor,
    total: i32,
    table: Option<(Tensor, Tensor)>,
    ids: Option<Tensor>,
}

impl Query {
    fn new(batch: usize, length: usize, past: usize, lengths: &[i32], total: i32) -> Query {
        Query {
            q: floats(&[batch, 4, length, 6]),
            k: floats(&[batch, 2, length, 6]),
            v: tensor(
                &[batch, 2, length, 6],
                &listed(&floats(&[batch * 2, length, 6]))
                    .iter()
                    .map(|x| x + 0.25)
                    .collect::<Vec<_>>(),
            ),
            past: Some((floats(&[batch, 2, past, 6]), floats(&[batch, 2, past, 6]))),
            lengths: int32(&[lengths.len()], lengths),
            total,
            table: None,
            ids: None,
        }
    }

    fn run(&self, trial: Trial, packed: bool) -> Result<Vec<Tensor>, OpError> {
        let (q, k, v) = (fused(&self.q), fused(&self.k), fused(&self.v));
        let total = Tensor::scalar(self.total).unwrap();
        let (pk, pv) = self
            .past
            .as_ref()
            .map_or((None, None), |(k, v)| (Some(k), Some(v)));
        let (cos, sin) = self
            .table
            .as_ref()
            .map_or((None, None), |(c, s)| (Some(c), Some(s)));
        let all = Trial::new("Concat", 13)
            .int("axis", 2)
            .one(&[&q, &k, &v])
            .unwrap();
        let [q, k, v] = if packed {
            [Some(&all), None, None]
        } else {
            [Some(&q), Some(&k), Some(&v)]
        };
        let (lengths, ids) = (Some(&self.lengths), self.ids.as_ref());
        let inputs = [q, k, v, pk, pv, lengths, Some(&total), cos, sin, ids];
        trial.outputs(3).run(&inputs)
    }
}

fn as_fused(y: &[f64], shape: &[usize]) -> Vec<f64> {
    let y: Vec<f32> = y.iter().map(|x| *x as f32).collect();
    listed(&fused(&tensor(shape, &y)))
        .into_iter()
        .map(f64::from)
        .collect()
}

#[test]
fn group_query_prompt_step_and_window() {
    for packed in [false, true] {
        for (length, past, window) in [(3, 0, -1), (1, 5, -1), (3, 0, 2), (2, 4, 3), (1, 5, 1)] {
            let total = length + past;
            let last = total as i32 - 1;
            let query = Query::new(2, length, past, &[last, last], total as i32);
            let out = query
                .run(group_query().int("local_window_size", window), packed)
                .unwrap();
            let (pk, pv) = query.past.as_ref().unwrap();
            let (k, v) = (joined(pk, &query.k), joined(pv, &query.v));
            assert_eq!((listed(&out[1]), listed(&out[2])), (listed(&k), listed(&v)));
            let (want, _) = naive([&query.q, &k, &v], 1.0 / 6f64.sqrt(), 0.0, |_, _, i, j| {
                let at = past + i;
                (j <= at && (window < 0 || at - j < window as usize)).then_some(0.0)
            });
            near(&out[0], &as_fused(&want, &[2, 4, length, 6]));
        }
    }
}

/// Rows of different length: what the contributed operator itself gives for lengths 5 and 3 after one step.
#[test]
fn group_query_rows_of_different_length() {
    let query = Query::new(2, 1, 4, &[4, 2], 5);
    let out = query.run(group_query(), false).unwrap();
    let (pk, pv) = query.past.as_ref().unwrap();
    let rows = |past: &Tensor, new: &Tensor| {
        let (past, new) = (listed(past), listed(new));
        let mut out = vec![0.0; 2 * 2 * 5 * 6];
        for (line, start) in [4, 4, 2, 2].into_iter().enumerate() {
            out[line * 30..][..start * 6].copy_from_slice(&past[line * 24..][..start * 6]);
            out[line * 30 + start * 6..][..6].copy_from_slice(&new[line * 6..][..6]);
        }
        tensor(&[2, 2, 5, 6], &out)
    };
    let (k, v) = (rows(pk, &query.k), rows(pv, &query.v));
    assert_eq!((listed(&out[1]), listed(&out[2])), (listed(&k), listed(&v)));
    let (want, _) = naive([&query.q, &k, &v], 1.0 / 6f64.sqrt(), 0.0, |b, _, _, j| {
        (j < [5, 3][b]).then_some(0.0)
    });
    near(&out[0], &as_fused(&want, &[2, 4, 1, 6]));

    // A cache of fixed capacity keeps its extent.
    let query = Query::new(2, 1, 8, &[4, 2], 5);
    let out = query.run(group_query(), false).unwrap();
    assert_eq!(out[1].shape(), [2, 2, 8, 6]);
    let values = listed(&out[2]);
    let past = listed(&query.past.as_ref().unwrap().1);
    assert_eq!(values[..4 * 6], past[..4 * 6]);
    assert_eq!(values[4 * 6..5 * 6], listed(&query.v)[..6]);
    // Behind the valid rows the cache stays what it was.
    assert_eq!(values[5 * 6..8 * 6], past[5 * 6..8 * 6]);

    // A prompt padded on the right: queries of padding see the valid keys.
    let query = Query::new(2, 4, 0, &[3, 1], 4);
    let out = query.run(group_query(), false).unwrap();
    assert_eq!(listed(&out[1]), listed(&query.k));
    let (want, _) = naive(
        [&query.q, &query.k, &query.v],
        1.0 / 6f64.sqrt(),
        0.0,
        |b, _, i, j| (j <= i && j < [4, 2][b]).then_some(0.0),
    );
    near(&out[0], &as_fused(&want, &[2, 4, 4, 6]));
}

#[test]
fn group_query_turns_by_the_row_s_own_position() {
    for interleaved in [0, 1] {
        let mut query = Query::new(2, 1, 4, &[4, 2], 5);
        let (cos, sin) = (floats(&[9, 3]), floats(&[9, 3]));
        query.table = Some((cos.clone(), sin.clone()));
        let trial = group_query()
            .int("do_rotary", 1)
            .int("rotary_interleaved", interleaved);
        let out = query.run(trial, true).unwrap();
        let ids = Tensor::from_slice(&[2, 1], &[4i64, 2]).unwrap();
        let turned = |x: &Tensor| {
            let trial = Trial::new("RotaryEmbedding", 23).int("interleaved", interleaved);
            trial.one(&[x, &cos, &sin, &ids]).unwrap()
        };
        let plain = Query {
            q: turned(&query.q),
            k: turned(&query.k),
            table: None,
            ..query
        };
        let want = plain.run(group_query(), false).unwrap();
        for (got, want) in out.iter().zip(&want) {
            assert_eq!(listed(got), listed(want));
        }
    }
}

/// Of a prompt's given positions the first one counts for all rows; later each token has its own.
#[test]
fn group_query_takes_positions_that_are_given() {
    let (cos, sin) = (floats(&[9, 3]), floats(&[9, 3]));
    for (length, past, given, turned_by) in [
        (2, 0, [3, 8, 1, 1], [3, 4, 3, 4]),
        (2, 4, [3, 8, 1, 0], [3, 8, 1, 0]),
    ] {
        let total = length + past;
        let query = Query {
            table: Some((cos.clone(), sin.clone())),
            ids: Some(Tensor::from_slice(&[2, length], &given.map(i64::from)).unwrap()),
            ..Query::new(2, length, past, &[total as i32 - 1; 2], total as i32)
        };
        let out = query.run(group_query().int("do_rotary", 1), false).unwrap();
        let ids = Tensor::from_slice(&[2, length], &turned_by.map(i64::from)).unwrap();
        let turned = |x: &Tensor| {
            let trial = Trial::new("RotaryEmbedding", 23);
            trial.one(&[x, &cos, &sin, &ids]).unwrap()
        };
        let plain = Query {
            q: turned(&query.q),
            k: turned(&query.k),
            table: None,
            ids: None,
            ..query
        };
        let want = plain.run(group_query(), false).unwrap();
        for (got, want) in out.iter().zip(&want) {
            assert_eq!(listed(got), listed(want));
        }
        let wrong = Query {
            table: Some((cos.clone(), sin.clone())),
            ids: Some(ints(&[0, 1])),
            ..plain
        };
        assert!(wrong.run(group_query().int("do_rotary", 1), false).is_err());
    }
}

/// bugs.md N1, for `seqlens_k` and `total_sequence_length`.
#[test]
fn n1_group_query_lengths_are_checked() {
    for bad in [-1, -2, 5, i32::MIN, i32::MAX] {
        assert!(
            Query::new(2, 1, 4, &[4, bad], 5)
                .run(group_query(), false)
                .is_err(),
            "{bad}"
        );
    }
    for total in [-1, 6, i32::MIN, i32::MAX] {
        assert!(
            Query::new(2, 1, 4, &[4, 4], total)
                .run(group_query(), false)
                .is_err(),
            "{total}"
        );
    }
    assert!(
        Query::new(2, 1, 4, &[4], 5)
            .run(group_query(), false)
            .is_err()
    );
    // Three new positions do not fit among two, in a cache of four; nor among any of a cache of two.
    for (past, why) in [
        (4, "expected 7, or 3 to 4 for a cache"),
        (2, "expected 5, got 2"),
    ] {
        let error = Query::new(1, 3, past, &[1], 2).run(group_query(), false);
        let text = error.unwrap_err().to_string();
        assert!(text.contains(why), "{text}");
    }
    assert!(
        Query::new(2, 1, 4, &[4, 4, 4], 5)
            .run(group_query(), false)
            .is_err()
    );
    // One number, but not a row of them.
    let bare = Query {
        lengths: Tensor::scalar(4i32).unwrap(),
        ..Query::new(1, 1, 4, &[4], 5)
    };
    assert!(bare.run(group_query(), false).is_err());
    let column = Query {
        lengths: int32(&[1, 1], &[4]),
        ..Query::new(1, 1, 4, &[4], 5)
    };
    assert!(column.run(group_query(), false).is_ok());
    let short = Query {
        table: Some((floats(&[4, 3]), floats(&[4, 3]))),
        ..Query::new(2, 1, 4, &[4, 4], 5)
    };
    assert!(
        short.run(group_query().int("do_rotary", 1), false).is_err(),
        "position 4 of 4"
    );
    // A prompt may have rows of no valid key.
    assert!(
        Query::new(2, 3, 0, &[2, -1], 3)
            .run(group_query(), false)
            .is_ok()
    );
}

#[test]
fn group_query_refuses_what_it_does_not_compute() {
    let query = Query::new(1, 1, 4, &[4], 5);
    for (name, value) in [
        ("smooth_softmax", 2),
        ("qk_output", 1),
        ("kv_cache_bit_width", 8),
        ("sliding_window_cache", 1),
        ("local_window_size", 0),
        ("local_window_size", -2),
        ("do_rotary", 1),
        ("unknown", 0),
    ] {
        assert!(
            query.run(group_query().int(name, value), false).is_err(),
            "{name}"
        );
    }
    assert!(
        query
            .run(group_query().text("k_quant_type", "PER_TENSOR"), false)
            .is_err()
    );
    assert!(
        query
            .run(
                group_query()
                    .text("k_quant_type", "NONE")
                    .int("smooth_softmax", 0),
                false
            )
            .is_ok()
    );
    let heads = Trial::new("GroupQueryAttention", 1)
        .domain("com.microsoft")
        .int("num_heads", 4);
    assert!(query.run(heads.int("kv_num_heads", 3), false).is_err());
}
