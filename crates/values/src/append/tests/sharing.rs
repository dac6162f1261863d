//! Forks, burnt and returned rows, truncation, windows, and what never claims.

use super::*;

#[test]
fn two_forks_race_and_the_loser_copies_once() {
    let policy = AppendPolicy::default();
    let mut one = PersistentTensor::imported(rows(&[2, 3], 0, 2, 5));
    append(&mut one, 1, &policy);
    let (mut two, mut three) = (one.fork(), one.fork());
    assert_eq!(two.tensor().as_ptr(), one.tensor().as_ptr());
    assert_eq!(append(&mut two, 1, &policy).1, Outcome::InPlace);
    for loser in [&mut one, &mut three] {
        let outcome = append(loser, 1, &policy).1;
        let reason = MoveReason::TailTaken;
        let prefix_bytes = 2 * 3 * 3 * 5 * 4;
        assert!(
            matches!(outcome, Outcome::Moved { reason: r, prefix_bytes: p, .. } if r == reason && p == prefix_bytes),
            "{outcome}"
        );
        assert_eq!(append(loser, 2, &policy).1, Outcome::InPlace);
        assert_eq!(bits(loser.tensor()), bits(&rows(&[2, 3], 0, 6, 5)));
    }
    assert_eq!(bits(two.tensor()), bits(&rows(&[2, 3], 0, 4, 5)));
}

#[test]
fn a_discarded_candidate_gives_back_or_burns() {
    let (policy, memory) = (AppendPolicy::default(), Allocator::default());
    let mut kept = PersistentTensor::imported(rows(&[2], 0, 1, 3));
    append(&mut kept, 1, &policy);
    let mut other = kept.fork(); // so that nothing is rewound
    let attempt = |kept: &mut PersistentTensor| {
        let mut reservation = reserve(kept, 1, 1, &policy, &memory);
        reservation.write_rows(0, &rows(&[2], 50, 1, 3)).unwrap();
        reservation.seal()
    };

    let failed = attempt(&mut kept);
    assert_eq!(failed.outcome(), Outcome::InPlace);
    assert!(failed.discard(), "nobody saw the rows");
    drop(attempt(&mut other)); // dropping is discarding
    let mut zeroed = reserve(&mut kept, 1, 1, &policy, &memory);
    assert!(
        zeroed
            .spans_mut()
            .all(|span| span.iter().all(|&byte| byte == 0))
    );
    drop(zeroed);

    let failed = attempt(&mut kept);
    let escaped = failed.tensor();
    assert!(!failed.discard(), "the view burns them");
    let outcome = append(&mut kept, 1, &policy).1;
    assert!(
        matches!(
            outcome,
            Outcome::Moved {
                reason: MoveReason::TailTaken,
                ..
            }
        ),
        "{outcome}"
    );
    let mut want = rows(&[2], 0, 3, 3).view::<f32>().unwrap().to_vec();
    for (slice, value) in [(0, 500.0f32), (1, 600.0)] {
        for i in 0..3 {
            want[slice * 9 + 6 + i] = value + i as f32;
        }
    }
    assert_eq!(escaped.view::<f32>().unwrap().to_vec(), want);
}

#[test]
fn the_only_holder_gets_burnt_rows_back() {
    let (policy, memory) = (AppendPolicy::default(), Allocator::default());
    let mut kept = PersistentTensor::imported(rows(&[2], 0, 1, 3));
    append(&mut kept, 1, &policy);
    let failed = reserve(&mut kept, 1, 4, &policy, &memory);
    let candidate = failed.seal();
    let escaped = candidate.tensor();
    candidate.discard();
    drop(escaped);
    assert_eq!(append(&mut kept, 1, &policy).1, Outcome::InPlace);
    // truncation, too: the rows behind are free once nobody else sees them
    let mut short = kept.slice_rows(0, 2).unwrap();
    assert!(matches!(
        append(&mut short.fork(), 1, &policy).1,
        Outcome::Moved { .. }
    ));
    drop(kept);
    assert_eq!(append(&mut short, 1, &policy).1, Outcome::InPlace);
    assert_eq!(bits(short.tensor()), bits(&rows(&[2], 0, 3, 3)));
}

#[test]
fn a_truncated_handle_reaches_no_row_that_may_be_written_again() {
    let policy = AppendPolicy::default();
    let mut kept = PersistentTensor::imported(rows(&[2], 0, 1, 3));
    append(&mut kept, 4, &policy);
    let short = kept.slice_rows(0, 2).unwrap();
    let five = kept.tensor().layout().clone();
    assert!(short.tensor().with_layout(five.clone(), 0).is_err());
    assert!(kept.tensor().with_layout(five, 0).is_ok());
    assert!(kept.slice_rows(3, 3).is_none());
    assert!(kept.slice_rows(usize::MAX, 2).is_none());
    let none = kept.slice_rows(5, 0).unwrap();
    assert_eq!((none.tensor().elements(), none.capacity_rows()), (0, 27));
}

#[test]
fn a_sliding_window_appends_in_place() {
    let (policy, memory) = (policy(8, AppendReuse::Always), Allocator::default());
    let window = 6;
    let mut kept = PersistentTensor::imported(rows(&[2, 2], 0, window, 3));
    let (mut in_place, mut prefix) = (0, 0);
    for step in 0..100 {
        let mut reservation = reserve(&mut kept, 2, 1, &policy, &memory);
        reservation
            .write_rows(0, &rows(&[2, 2], window + step, 1, 3))
            .unwrap();
        let candidate = reservation.seal();
        let whole = candidate.tensor();
        assert_eq!(bits(&whole), bits(&rows(&[2, 2], step, window + 1, 3)));
        let (layout, delta) = whole.layout().slice(2, 1, window, 1).unwrap();
        let slid = whole.with_layout(layout, delta).unwrap();
        in_place += candidate.counters().reuse_count;
        prefix += candidate.counters().prefix_copied_bytes;
        kept = candidate.publish_rows(&slid).unwrap();
        assert_eq!(
            bits(kept.tensor()),
            bits(&rows(&[2, 2], step + 1, window, 3))
        );
    }
    assert!(in_place >= 85, "{in_place} of 100 in place");
    assert!(prefix <= 2 * 100 * 4 * 3 * 4, "{prefix} bytes copied");
}

#[test]
fn only_ranges_of_rows_are_published_as_rows() {
    let (policy, memory) = (AppendPolicy::default(), Allocator::default());
    let mut kept = PersistentTensor::imported(rows(&[2], 0, 3, 4));
    let make = |kept: &mut PersistentTensor| reserve(kept, 1, 2, &policy, &memory).seal();
    let candidate = make(&mut kept);
    let whole = candidate.tensor();
    assert!(candidate.certifies(&whole) && candidate.certifies(&whole.clone()));
    let column = whole.layout().slice(2, 1, 2, 1).unwrap();
    let one_slice = whole.layout().slice(0, 1, 1, 1).unwrap();
    let every_other = whole.layout().slice(1, 0, 3, 2).unwrap();
    let mut candidate = Some(candidate);
    for (layout, delta) in [column, one_slice, every_other] {
        let part = whole.with_layout(layout, delta).unwrap();
        let refused = candidate.take().unwrap();
        assert!(!refused.certifies(&part));
        candidate = Some(*refused.publish_rows(&part).unwrap_err());
    }
    let as_bits = whole.reinterpret(crate::DType::Int32).unwrap();
    assert!(!candidate.as_ref().unwrap().certifies(&as_bits));
    let elsewhere = rows(&[2], 0, 5, 4);
    assert!(candidate.unwrap().publish_rows(&elsewhere).is_err());
}

/// Rule 5.2.9; S165.
#[test]
fn an_empty_append_claims_nothing() {
    for reuse in BOTH {
        let (policy, memory) = (policy(4, reuse), Allocator::default());
        let mut kept = PersistentTensor::imported(rows(&[1, 1], 0, 1, 2));
        append(&mut kept, 1, &policy);
        let address = kept.tensor().as_ptr();
        let mut nothing = reserve(&mut kept, 2, 0, &policy, &memory);
        assert_eq!((nothing.outcome(), nothing.rows()), (Outcome::InPlace, 0));
        nothing.write_rows(0, &rows(&[1, 1], 0, 0, 2)).unwrap();
        kept = nothing.seal().publish();
        assert_eq!(kept.tensor().as_ptr(), address);
        assert_eq!(append(&mut kept, 2, &policy).1, Outcome::InPlace);
        assert_eq!(bits(kept.tensor()), bits(&rows(&[1, 1], 0, 4, 2)));
    }
    // behind a lost tail as well: nothing is written, so nothing is in the way
    let (policy, memory) = (AppendPolicy::default(), Allocator::default());
    let mut one = PersistentTensor::imported(rows(&[2], 0, 1, 2));
    append(&mut one, 1, &policy);
    let mut two = one.fork();
    append(&mut one, 1, &policy);
    assert_eq!(
        reserve(&mut two, 1, 0, &policy, &memory).outcome(),
        Outcome::InPlace
    );
}

/// Rule 5.1.1; S137, S156.
#[test]
fn what_comes_from_outside_never_claims() {
    let policy = AppendPolicy::default();
    let mut kept = PersistentTensor::imported(rows(&[2], 0, 1, 2));
    append(&mut kept, 1, &policy);
    let mut again = PersistentTensor::imported(kept.tensor().clone());
    assert_eq!(again.capacity_rows(), 0);
    assert!(again.slice_rows(0, 1).is_none());
    assert_eq!(again.tensor().as_ptr(), kept.tensor().as_ptr());
    drop(kept); // even as the only holder
    let outcome = append(&mut again, 1, &policy).1;
    let allocated_bytes = 32 * 2 * 2 * 4;
    assert_eq!(
        outcome,
        Outcome::Moved {
            reason: MoveReason::Imported,
            capacity_rows: 32,
            allocated_bytes,
            prefix_bytes: 2 * 2 * 2 * 4
        }
    );
    assert_eq!(bits(again.tensor()), bits(&rows(&[2], 0, 3, 2)));
}

#[test]
fn another_axis_moves() {
    let (policy, memory) = (AppendPolicy::default(), Allocator::default());
    let mut kept = PersistentTensor::imported(rows(&[2], 0, 1, 3));
    append(&mut kept, 1, &policy);
    let mut wider = reserve(&mut kept, 2, 1, &policy, &memory);
    assert!(matches!(
        wider.outcome(),
        Outcome::Moved {
            reason: MoveReason::Axis,
            ..
        }
    ));
    let ends = Tensor::from_slice(&[2, 2, 1], &[3f32, 13., 103., 113.]).unwrap();
    wider.write_rows(0, &ends).unwrap();
    kept = wider.seal().publish();
    assert_eq!(bits(kept.tensor()), bits(&rows(&[2], 0, 2, 4)));
    assert_eq!(
        reserve(&mut kept, 2, 5, &policy, &memory).outcome(),
        Outcome::InPlace
    );
}
