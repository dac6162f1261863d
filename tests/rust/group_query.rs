//! Caches that `GroupQueryAttention` feeds back: those that grow are in place while the rows are of one length, and copied
//! when they are not; those of fixed extent have rows of any length written over, in two buffers by turns.

use crate::models::group_query;
use refeed_runtime::{
    KernelContext, PersistentValueState, RuntimeContext, RuntimeContextOptions,
    RuntimeSessionOptions, StorageReport,
};
use refeed_values::Tensor;

const BATCH: usize = 2;
const HEADS: usize = 3;
const SIZE: usize = 8;
/// Bytes of one position of both caches.
const ROW: u64 = (2 * BATCH * HEADS * SIZE * 4) as u64;

/// Numbers that no other `seed` has.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count)
        .map(|i| (seed * 10_000 + i) as f32 / 1024.0)
        .collect()
}

fn fused(length: usize, heads: usize, seed: usize) -> Tensor {
    let shape = [BATCH, length, heads * SIZE];
    Tensor::from_slice(&shape, &numbers(shape.iter().product(), seed)).unwrap()
}

fn feeds(
    length: usize,
    valid: [usize; BATCH],
    total: usize,
    seed: usize,
) -> [(&'static str, Tensor); 5] {
    let last = valid.map(|valid| valid as i32 - 1);
    [
        ("q", fused(length, 2 * HEADS, seed)),
        ("k", fused(length, HEADS, seed)),
        ("v", fused(length, HEADS, seed + 1)),
        ("lengths", Tensor::from_slice(&[BATCH], &last).unwrap()),
        ("total", Tensor::scalar(total as i32).unwrap()),
    ]
}

fn state() -> PersistentValueState {
    let empty = || Tensor::from_slice::<f32>(&[BATCH, HEADS, 0, SIZE], &[]).unwrap();
    PersistentValueState::new(
        group_query(BATCH, HEADS, SIZE),
        [("past_key", empty()), ("past_value", empty())],
        RuntimeSessionOptions::default(),
    )
    .unwrap()
}

fn recording() -> RuntimeContext {
    RuntimeContext::with_options(
        KernelContext::default(),
        RuntimeContextOptions {
            events_enabled: true,
            ..RuntimeContextOptions::default()
        },
    )
}

fn sums(context: &RuntimeContext) -> StorageReport {
    let mut sum = StorageReport::default();
    for event in context.events() {
        sum.add(&event.storage);
    }
    context.clear_events();
    sum
}

/// Head `h` of position `s` of row `b` in what was fed.
fn fed(length: usize, seed: usize, [b, h, s]: [usize; 3]) -> Vec<f32> {
    let all = numbers(BATCH * length * HEADS * SIZE, seed);
    all[((b * length + s) * HEADS + h) * SIZE..][..SIZE].to_vec()
}

fn held(tensor: &Tensor, [b, h, s]: [usize; 3]) -> Vec<f32> {
    let mut part = tensor.view::<f32>().unwrap();
    for (axis, at) in [b, h, s].into_iter().enumerate() {
        part = part.slice(axis, at, 1, 1).unwrap();
    }
    part.to_vec()
}

#[test]
fn rows_of_one_length_grow_in_place_by_any_number_of_positions() {
    let (state, context) = (state(), recording());
    let (mut length, mut kept) = (0, Vec::new());
    for (step, count) in [5, 1, 0, 37, 1].into_iter().enumerate() {
        length += count;
        let seed = 10 * step;
        let out = state
            .run(&context, feeds(count, [length; BATCH], length, seed))
            .unwrap();
        let report = sums(&context);
        assert_eq!(report.append_copied_bytes, count as u64 * ROW);
        let grows = [0, 3].contains(&step);
        assert_eq!(report.allocations, if grows { 2 } else { 0 }, "step {step}");
        let moved = if step == 3 { 6 * ROW } else { 0 };
        assert_eq!(report.prefix_copied_bytes, moved, "step {step}");
        kept.push((count, seed, length, out));
    }
    // Every output that was handed out holds what was appended up to then.
    for (at, (_, _, length, out)) in kept.iter().enumerate() {
        assert_eq!(out["present_key"].shape(), [BATCH, HEADS, *length, SIZE]);
        let mut position = 0;
        for (count, seed, ..) in &kept[..=at] {
            for s in 0..*count {
                for (b, h) in [(0, 0), (1, 2), (0, 1)] {
                    let place = [b, h, position];
                    assert_eq!(
                        held(&out["present_key"], place),
                        fed(*count, *seed, [b, h, s])
                    );
                    assert_eq!(
                        held(&out["present_value"], place),
                        fed(*count, seed + 1, [b, h, s])
                    );
                }
                position += 1;
            }
        }
    }
}

#[test]
fn rows_of_different_length_are_copied_with_the_reason_and_a_refused_length_changes_nothing() {
    let (state, context) = (state(), recording());
    state.run(&context, feeds(4, [4, 2], 4, 0)).unwrap();
    sums(&context);
    let before = state.values().unwrap();
    for bad in [[5, 0], [5, 6], [5, i32::MAX as usize]] {
        assert!(
            state.run(&context, feeds(1, bad, 5, 10)).is_err(),
            "{bad:?}"
        );
        for ((name, before), (_, after)) in before.iter().zip(state.values().unwrap()) {
            let (before, after) = (before.tensor().unwrap(), after.tensor().unwrap());
            assert_eq!(before.as_ptr(), after.as_ptr(), "{name}");
            assert_eq!(before.shape(), after.shape(), "{name}");
        }
    }
    context.clear_events();
    let out = state.run(&context, feeds(1, [5, 3], 5, 20)).unwrap();
    let want = StorageReport {
        allocations: 2,
        allocated_bytes: 5 * ROW,
        prefix_copied_bytes: (4 + 2) * ROW / BATCH as u64,
        append_copied_bytes: ROW,
        reuse_count: 0,
    };
    assert_eq!(sums(&context), want);
    let text = state.explain().unwrap().to_string();
    assert!(
        text.contains("copied because a row's new keys start at 2"),
        "{text}"
    );
    for (b, start) in [(0, 4), (1, 2)] {
        for h in 0..HEADS {
            let keys = &out["present_key"];
            assert_eq!(held(keys, [b, h, start]), fed(1, 20, [b, h, 0]));
            assert_eq!(held(keys, [b, h, 1]), fed(4, 0, [b, h, 1]));
        }
    }
}

/// A step of a cache of 8 positions whose rows differ in length, with the cache that it must leave.
fn fixed_step(
    (state, context): (&PersistentValueState, &RuntimeContext),
    valid: [usize; BATCH],
    seed: usize,
    want: &mut [Vec<f32>; BATCH],
) -> Tensor {
    let total = valid[0].max(valid[1]);
    let feeds = feeds(1, valid, total, seed);
    let out = state.run(context, feeds).unwrap()["present_key"].clone();
    for (b, want) in want.iter_mut().enumerate() {
        for h in 0..HEADS {
            let at = (h * 8 + valid[b] - 1) * SIZE;
            want[at..at + SIZE].copy_from_slice(&fed(1, seed, [b, h, 0]));
        }
    }
    assert_eq!(out.view::<f32>().unwrap().to_vec(), want.concat());
    out
}

#[test]
fn rows_of_different_length_are_written_over_in_a_cache_of_fixed_extent() {
    let zeros = || {
        let shape = [BATCH, HEADS, 8, SIZE];
        Tensor::from_slice(&shape, &vec![0f32; shape.iter().product()]).unwrap()
    };
    let state = PersistentValueState::new(
        group_query(BATCH, HEADS, SIZE),
        [("past_key", zeros()), ("past_value", zeros())],
        RuntimeSessionOptions::default(),
    )
    .unwrap();
    let context = recording();
    let on = (&state, &context);
    let mut want = [(); BATCH].map(|()| vec![0f32; HEADS * 8 * SIZE]);
    let mut last = None;
    for step in 0..5 {
        // The output of one step before is alive while the next one runs.
        last = Some(fixed_step(on, [4 + step, 2 + step], 10 * step, &mut want));
        let report = sums(&context);
        assert_eq!(report.append_copied_bytes, ROW);
        // The memory of the initial values is the second buffer, since nobody else holds it.
        let first = step == 0;
        let copied = if first { 8 * ROW } else { ROW };
        assert_eq!(report.prefix_copied_bytes, copied, "step {step}");
        assert_eq!(report.reuse_count, if first { 0 } else { 2 });
        assert_eq!(report.allocations, if first { 2 } else { 0 });
    }
    // Rows may go back, and what was handed out stays: two older outputs alive cost a copy.
    let held = [last.take(), Some(fixed_step(on, [3, 7], 90, &mut want))];
    let before = held.each_ref().map(|out| {
        let view = out.as_ref().unwrap().view::<f32>().unwrap();
        view.to_vec()
    });
    sums(&context);
    fixed_step(on, [1, 8], 95, &mut want);
    let report = sums(&context);
    // Outputs of keys are held, those of values are not.
    assert_eq!(report.reuse_count, 1);
    assert_eq!(report.prefix_copied_bytes, 8 * ROW / 2 + ROW / 2);
    let text = state.explain().unwrap().to_string();
    assert!(
        text.contains("copied because the buffer before it is still in use"),
        "{text}"
    );
    for (out, before) in held.iter().zip(before) {
        let view = out.as_ref().unwrap().view::<f32>().unwrap();
        assert_eq!(view.to_vec(), before);
    }
}

/// bugs.md E7
#[test]
fn e7_a_reset_to_a_shorter_cache_shows_no_row_of_the_longer_one() {
    let context = RuntimeContext::default();
    let used = state();
    for length in 1..=20 {
        let feeds = feeds(1, [length; BATCH], length, 50 + length);
        used.run(&context, feeds).unwrap();
    }
    let shape = [BATCH, HEADS, 3, SIZE];
    let initial = |seed| {
        let values = numbers(shape.iter().product(), seed);
        Tensor::from_slice(&shape, &values).unwrap()
    };
    let short = || [("past_key", initial(2)), ("past_value", initial(3))];
    used.reset(short()).unwrap();
    let fresh = PersistentValueState::new(
        group_query(BATCH, HEADS, SIZE),
        short(),
        RuntimeSessionOptions::default(),
    )
    .unwrap();
    let step = || feeds(1, [4; BATCH], 4, 7);
    let (got, want) = (
        used.run(&context, step()).unwrap(),
        fresh.run(&context, step()).unwrap(),
    );
    for name in ["y", "present_key", "present_value"] {
        let listed = |tensor: &Tensor| tensor.view::<f32>().unwrap().to_vec();
        assert_eq!(listed(&got[name]), listed(&want[name]), "{name}");
    }
    let keys = &got["present_key"];
    assert_eq!(keys.shape(), [BATCH, HEADS, 4, SIZE]);
    let old = initial(2);
    for place in [[0, 0, 0], [1, 2, 1], [0, 1, 2]] {
        assert_eq!(held(keys, place), held(&old, place));
    }
    assert_eq!(held(keys, [1, 2, 3]), fed(1, 7, [1, 2, 0]));
}
