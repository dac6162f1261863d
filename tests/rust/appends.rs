//! In-place appends: counters, pointers, and bits of everything that was handed out before.

use crate::models::{attention, concat};
use refeed_runtime::{
    AppendReuse, KernelContext, PersistentValueState, RuntimeContext, RuntimeContextOptions,
    RuntimeSessionOptions, StorageReport,
};
use refeed_values::Tensor;

fn filled(shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count)
        .map(|i| ((i * 29 + seed * 113) % 97) as f32)
        .collect();
    Tensor::from_slice(shape, &values).unwrap()
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

fn options(capacity: usize, reuse: AppendReuse) -> RuntimeSessionOptions {
    RuntimeSessionOptions {
        persistent_tensor_initial_capacity: capacity,
        append_reuse: reuse,
        ..Default::default()
    }
}

/// Rules 5.1.5, 5.2.5; S160.
#[test]
fn s159_two_hundred_steps_with_every_output_alive_copy_no_prefix_between_growths() {
    let (batch, heads, size, steps) = (2, 4, 48, 200);
    let state = PersistentValueState::new(
        concat(batch, heads, size),
        [("past", filled(&[batch, heads, 0, size], 0))],
        RuntimeSessionOptions::default(),
    )
    .unwrap();
    let context = recording();
    let mut kept = Vec::new();
    let mut total = StorageReport::default();
    for step in 0..steps {
        let out = state
            .run(&context, [("new", filled(&[batch, heads, 1, size], step))])
            .unwrap();
        total.add(&sums(&context));
        kept.push(out["present"].clone());
    }
    let row = (batch * heads * size * 4) as u64;
    assert_eq!(total.append_copied_bytes, steps as u64 * row);
    assert!(
        total.prefix_copied_bytes <= 2 * steps as u64 * row,
        "{total:?}"
    );
    assert!(total.allocations <= 8, "{total:?}");
    for (step, tensor) in kept.iter().enumerate() {
        assert_eq!(tensor.shape(), [batch, heads, step + 1, size]);
        let view = tensor.view::<f32>().unwrap();
        for at in 0..=step {
            let want = filled(&[batch, heads, 1, size], at)
                .view::<f32>()
                .unwrap()
                .to_vec();
            assert_eq!(
                view.slice(2, at, 1, 1).unwrap().to_vec(),
                want,
                "step {step} row {at}"
            );
        }
    }
}

/// Vectors of the contract: capacity 4, width 2, one prefix token, views released between the steps.
/// Rules 5.2.2, 5.2.5, 5.5.2.
#[test]
fn s151_s152_capacity_grows_geometrically_and_zero_disables() {
    for (capacity, want) in [(4, [4u64, 0, 0, 8]), (0, [2, 3, 4, 5])] {
        let initial = [
            ("past_key", filled(&[1, 1, 1, 2], 0)),
            ("past_value", filled(&[1, 1, 1, 2], 1)),
        ];
        let state = PersistentValueState::new(
            attention(1, 1, 2),
            initial,
            options(capacity, AppendReuse::Exclusive),
        )
        .unwrap();
        let context = recording();
        for (step, rows) in want.into_iter().enumerate() {
            let feeds = [
                ("q", filled(&[1, 2, 1, 2], step)),
                ("k", filled(&[1, 1, 1, 2], step + 10)),
                ("v", filled(&[1, 1, 1, 2], step + 20)),
            ];
            drop(state.run(&context, feeds).unwrap());
            let got = sums(&context);
            let allocates = rows > 0;
            let want = StorageReport {
                allocations: if allocates { 2 } else { 0 },
                allocated_bytes: rows * 16,
                prefix_copied_bytes: if allocates { (step as u64 + 1) * 16 } else { 0 },
                append_copied_bytes: 16,
                reuse_count: if allocates { 0 } else { 2 },
            };
            assert_eq!(got, want, "capacity {capacity} step {step}");
        }
    }
}

/// Rule 5.1.6.
#[test]
fn exclusive_reuse_declines_while_an_output_is_held() {
    let initial = [
        ("past_key", filled(&[1, 1, 0, 2], 0)),
        ("past_value", filled(&[1, 1, 0, 2], 1)),
    ];
    let state = PersistentValueState::new(
        attention(1, 1, 2),
        initial,
        options(8, AppendReuse::Exclusive),
    )
    .unwrap();
    let context = recording();
    let feeds = |step: usize| {
        [
            ("q", filled(&[1, 2, 1, 2], step)),
            ("k", filled(&[1, 1, 1, 2], step + 10)),
            ("v", filled(&[1, 1, 1, 2], step + 20)),
        ]
    };
    let held = state.run(&context, feeds(0)).unwrap();
    assert_eq!(sums(&context).allocations, 2);
    drop(state.run(&context, feeds(1)).unwrap());
    assert_eq!(sums(&context).allocations, 2);
    drop(state.run(&context, feeds(2)).unwrap());
    assert_eq!(
        sums(&context),
        StorageReport {
            reuse_count: 2,
            append_copied_bytes: 16,
            ..Default::default()
        }
    );
    assert_eq!(held["present_key"].shape(), [1, 1, 1, 2]);
}

/// Rules 5.4.2, 5.5.3; S163.
#[test]
fn s183_the_dense_fallback_accounts_for_every_head() {
    let (batch, heads, size) = (2u64, 3u64, 5u64);
    let shape = |length| [batch as usize, heads as usize, length, size as usize];
    let initial = [
        ("past_key", filled(&shape(4), 0)),
        ("past_value", filled(&shape(4), 1)),
    ];
    let model = attention(batch as usize, heads as usize, size as usize);
    let state = PersistentValueState::new(model, initial, options(0, AppendReuse::Always)).unwrap();
    let context = recording();
    let query = [batch as usize, 2 * heads as usize, 1, size as usize];
    let feeds = [
        ("q", filled(&query, 0)),
        ("k", filled(&shape(1), 1)),
        ("v", filled(&shape(1), 2)),
    ];
    state.run(&context, feeds).unwrap();
    let want = StorageReport {
        allocations: 2,
        allocated_bytes: 4 * batch * heads * 5 * (size + size),
        prefix_copied_bytes: 4 * batch * heads * 4 * (size + size),
        append_copied_bytes: 4 * batch * heads * (size + size),
        reuse_count: 0,
    };
    assert_eq!(sums(&context), want);
    let text = state.explain().unwrap().to_string();
    assert!(text.contains("copied because"), "{text}");
}

/// Rule 5.1.1; S156.
#[test]
fn s157_a_value_given_back_by_reset_keeps_its_pointer_and_grants_no_room() {
    let state = PersistentValueState::new(
        concat(1, 2, 3),
        [("past", filled(&[1, 2, 0, 3], 0))],
        RuntimeSessionOptions::default(),
    )
    .unwrap();
    let context = recording();
    let out = state
        .run(&context, [("new", filled(&[1, 2, 2, 3], 1))])
        .unwrap();
    state.reset([("past", out["present"].clone())]).unwrap();
    assert_eq!(
        state.values().unwrap()[0].1.tensor().unwrap().as_ptr(),
        out["present"].as_ptr()
    );
    context.clear_events();
    let grown = state
        .run(&context, [("new", filled(&[1, 2, 1, 3], 2))])
        .unwrap();
    let report = sums(&context);
    assert_eq!((report.allocations, report.reuse_count), (1, 0));
    assert_ne!(grown["present"].as_ptr(), out["present"].as_ptr());
}

#[test]
fn max_length_reserves_once() {
    let options = RuntimeSessionOptions {
        max_length: Some(100),
        ..Default::default()
    };
    let state = PersistentValueState::new(
        concat(1, 2, 3),
        [("past", filled(&[1, 2, 0, 3], 0))],
        options,
    )
    .unwrap();
    let context = recording();
    for step in 0..100 {
        state
            .run(&context, [("new", filled(&[1, 2, 1, 3], step))])
            .unwrap();
    }
    let report = sums(&context);
    assert_eq!(
        (
            report.allocations,
            report.reuse_count,
            report.prefix_copied_bytes
        ),
        (1, 99, 0)
    );
}

/// Rule 5.5.5.
#[test]
fn s170_events_are_off_by_default() {
    let state = PersistentValueState::new(
        concat(1, 2, 3),
        [("past", filled(&[1, 2, 0, 3], 0))],
        RuntimeSessionOptions::default(),
    )
    .unwrap();
    let context = RuntimeContext::default();
    state
        .run(&context, [("new", filled(&[1, 2, 1, 3], 0))])
        .unwrap();
    assert!(context.events().is_empty());
    assert_eq!(state.explain().unwrap().bindings[0].shape, [1, 2, 1, 3]);
}
