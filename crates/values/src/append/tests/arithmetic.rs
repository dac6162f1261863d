//! Capacities against 128-bit arithmetic, and appends in random pieces.

use super::super::geometry::Geometry;
use super::*;
use proptest::prelude::*;

/// A number near zero, a power of two or the end of the range.
fn edge() -> impl Strategy<Value = usize> {
    prop_oneof![
        0usize..9,
        (0u32..64, 0usize..3).prop_map(|(shift, down)| (1usize << shift).wrapping_sub(down)),
        (0usize..3).prop_map(|down| usize::MAX - down),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    /// Geometry and capacity against 128-bit arithmetic. Nothing is allocated.
    #[test]
    fn capacities_agree_with_u128(
        heads in edge(), rows in edge(), width in edge(),
        initial in edge(), old in edge(), length in prop::option::of(edge()),
        limit in prop_oneof![Just(usize::MAX), edge()],
    ) {
        let shape = [heads, rows, width];
        let policy = AppendPolicy { initial_capacity: initial, max_length: length, reuse: AppendReuse::Always };
        let made = Geometry::of(DType::Float16, &shape, 1, policy.reuse);
        let row = (heads as u128 * width as u128).saturating_mul(2);
        if heads == 0 || width == 0 {
            prop_assume!(made.is_ok());
            prop_assert_eq!(made.unwrap(), Err(DeclineReason::EmptyRows));
            return Ok(());
        }
        if row > isize::MAX as u128 {
            prop_assert!(made.is_err());
            return Ok(());
        }
        let geometry = made.unwrap().unwrap();
        prop_assert_eq!(geometry.slices as u128 * geometry.row_bytes as u128, row);
        let most = isize::MAX as u128 / row;
        let mut want = match length {
            Some(length) if length >= rows => length as u128,
            _ => {
                let mut want = (initial.max(old).max(1)) as u128;
                while want < rows as u128 && want < most { want = (want * 2).min(most); }
                want
            }
        };
        let got = geometry.with_capacity(rows, old, false, &policy, &Allocator::with_limit(limit));
        if want > most || want < rows as u128 {
            let refused = matches!(got, Err(AppendError::Capacity { .. }));
            prop_assert!(refused);
            return Ok(());
        }
        if limit != usize::MAX && want > rows as u128
            && (rows as u128 + 2 * (want - rows as u128)) * row > limit as u128
        {
            want = rows as u128;
        }
        let (geometry, bytes) = got.unwrap();
        prop_assert_eq!(geometry.capacity_rows as u128, want);
        prop_assert_eq!(bytes as u128, want * row);
        let layout = geometry.layout(rows).unwrap();
        prop_assert_eq!(layout.shape(), &shape[..]);
        if let Some((low, high)) = layout.reach() {
            prop_assert_eq!(low, 0);
            prop_assert!((high as u128 + 1) * 2 <= bytes as u128);
            prop_assert!(geometry.admits(rows, 0, &layout, Some(2), 0));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// A value appended in random pieces is the value appended at once, with a bounded number of copies.
    #[test]
    fn random_pieces_make_the_whole(pieces in prop::collection::vec(0usize..7, 1..40), initial in 1usize..6) {
        let policy = policy(initial, AppendReuse::Always);
        let mut kept = PersistentTensor::imported(rows(&[2, 3], 0, 0, 5));
        let (mut total, mut length) = (AppendCounters::default(), 0);
        let mut held = vec![];
        for by in pieces {
            sum(&mut total, append(&mut kept, by, &policy).0);
            length += by;
            held.push(kept.tensor().clone());
        }
        for tensor in held {
            let rows_then = tensor.shape()[2];
            prop_assert_eq!(bits(&tensor), bits(&rows(&[2, 3], 0, rows_then, 5)));
        }
        let all = (length * 2 * 3 * 5 * 4) as u64;
        prop_assert_eq!(total.append_copied_bytes, all);
        prop_assert!(total.prefix_copied_bytes <= 2 * all);
    }
}
