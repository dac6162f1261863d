//! Values of every type and shape: what is written where, what is declined, what is an error.

use super::*;

/// Every element width, every append axis, dense and turned sources, against a plain copy.
#[test]
fn strided_sources_of_every_width() {
    let (policy, memory) = (policy(5, AppendReuse::Always), Allocator::default());
    for dtype in DType::ALL
        .into_iter()
        .filter(|dtype| dtype.size().is_some())
    {
        let size = dtype.size().unwrap();
        for axis in 0..4 {
            let part = |seed: usize, extent: usize| -> Vec<u8> {
                (0..210 / [5, 7, 2, 3][axis] * extent * size)
                    .map(|i| (i * 37 + seed) as u8)
                    .collect()
            };
            let shape_of = |extent: usize| {
                let mut shape = [5, 7, 2, 3];
                shape[axis] = extent;
                shape
            };
            // memory in reversed axis order, shown turned round: no two elements of a row are neighbours
            let turned = |bytes: &[u8], shape: [usize; 4]| {
                let mut reversed = shape;
                reversed.reverse();
                let mut made = TensorMut::new(&memory, dtype, &reversed).unwrap();
                made.as_mut_bytes().copy_from_slice(bytes);
                let dense = made.freeze();
                let layout = dense.layout().permute(&[3, 2, 1, 0]).unwrap();
                dense.with_layout(layout, 0).unwrap()
            };
            let first = turned(&part(1, 3), shape_of(3));
            let second = turned(&part(2, 4), shape_of(4));
            let mut kept = PersistentTensor::imported(first.clone());
            for source in [second.clone(), second.to_dense(&memory).unwrap()] {
                let mut reservation = reserve(&mut kept, axis, 4, &policy, &memory);
                reservation.write_rows(0, &source).unwrap();
                kept = reservation.seal().publish();
            }
            // the same by hand, element by element
            let parts = [first, second.clone(), second]
                .map(|t| (t.shape()[axis], t.to_dense(&memory).unwrap()));
            let outer: usize = shape_of(1)[..axis].iter().product();
            let row = shape_of(1)[axis + 1..].iter().product::<usize>() * size;
            let mut want = vec![];
            for slice in 0..outer {
                for (extent, dense) in &parts {
                    let bytes = dense.as_bytes().unwrap();
                    want.extend_from_slice(&bytes[slice * extent * row..][..extent * row]);
                }
            }
            let got = kept.tensor().to_dense(&memory).unwrap();
            assert_eq!(got.as_bytes().unwrap(), want, "{dtype} axis {axis}");
        }
    }
}

/// Rule 5.2.3; S142.
#[test]
fn packed_rows_of_whole_bytes_append_in_one_slice() {
    let (policy, memory) = (AppendPolicy::default(), Allocator::default());
    let packed = |shape: &[usize], bytes: &[u8]| {
        let mut made = TensorMut::new(&memory, DType::Int4, shape).unwrap();
        made.as_mut_bytes().copy_from_slice(bytes);
        made.freeze()
    };
    let mut kept = PersistentTensor::imported(packed(&[1, 2, 6], &[1, 2, 3, 4, 5, 6]));
    for byte in [7, 10] {
        let mut reservation = reserve(&mut kept, 1, 1, &policy, &memory);
        reservation
            .write_rows(0, &packed(&[1, 1, 6], &[byte, byte + 1, byte + 2]))
            .unwrap();
        kept = reservation.seal().publish();
    }
    assert_eq!(
        kept.tensor().as_bytes().unwrap(),
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    );

    let decline =
        |tensor: Tensor, shape: &[usize], axis: usize| match PersistentTensor::imported(tensor)
            .lease(&policy)
            .reserve(shape, axis, &memory)
        {
            Ok(Reserve::Declined(reason)) => reason.to_string(),
            other => panic!("{other:?}"),
        };
    let odd = decline(packed(&[2, 3], &[0; 3]), &[3, 3], 0);
    assert_eq!(
        odd,
        "a row of 3 INT4 elements is not a whole number of bytes"
    );
    let strided = decline(packed(&[2, 2, 2], &[0; 4]), &[2, 3, 2], 1);
    assert_eq!(
        strided,
        "INT4 elements share bytes and it has 2 outer slices"
    );
}

/// Rule 5.2.3; S142.
#[test]
fn empty_rows_and_exclusive_limits_are_declined_with_a_reason() {
    let memory = Allocator::default();
    let decline = |tensor: &Tensor, shape: &[usize], reuse| {
        let mut kept = PersistentTensor::imported(tensor.clone());
        match kept.lease(&policy(4, reuse)).reserve(shape, 1, &memory) {
            Ok(Reserve::Declined(reason)) => Some(reason),
            Ok(Reserve::Ready(_)) => None,
            Err(error) => panic!("{error}"),
        }
    };
    let (always, exclusive) = (AppendReuse::Always, AppendReuse::Exclusive);
    let flat = rows(&[3], 0, 2, 0);
    assert_eq!(
        decline(&flat, &[3, 4, 0], always),
        Some(DeclineReason::EmptyRows)
    );
    let no_slice = rows(&[0], 0, 2, 5);
    assert_eq!(
        decline(&no_slice, &[0, 4, 5], always),
        Some(DeclineReason::EmptyRows)
    );
    let heads = rows(&[3], 0, 2, 5);
    assert_eq!(decline(&heads, &[3, 4, 5], always), None);
    let slices = DeclineReason::ExclusiveSlices { slices: 3 };
    assert_eq!(decline(&heads, &[3, 4, 5], exclusive), Some(slices));
    let half = Tensor::from_slice(&[1, 2], &[half::f16::ONE; 2]).unwrap();
    assert_eq!(decline(&half, &[1, 3], always), None);
    let dtype = DeclineReason::ExclusiveDType {
        dtype: DType::Float16,
    };
    assert_eq!(decline(&half, &[1, 3], exclusive), Some(dtype));
}

/// Rule 5.2.1.
#[test]
fn shapes_that_do_not_extend_are_errors() {
    let memory = Allocator::default();
    let ask = |shape: &[usize], axis| {
        let mut kept = PersistentTensor::imported(rows(&[2], 0, 3, 4));
        let answer = kept
            .lease(&AppendPolicy::default())
            .reserve(shape, axis, &memory);
        let error = answer.unwrap_err().to_string();
        // the state's value is untouched and can be appended to
        append(&mut kept, 1, &AppendPolicy::default());
        error
    };
    assert_eq!(
        ask(&[2, 4, 4], 3),
        "append axis 3 is out of range for rank 3"
    );
    let extend = |shape: &str| {
        format!("append along axis 1: result shape {shape} does not extend [2, 3, 4]")
    };
    assert_eq!(ask(&[2, 2, 4], 1), extend("[2, 2, 4]"));
    assert_eq!(ask(&[3, 4, 4], 1), extend("[3, 4, 4]"));
    assert_eq!(ask(&[2, 4], 1), extend("[2, 4]"));
    assert!(ask(&[2, usize::MAX, 4], 1).contains("does not fit in memory"));
}

#[test]
fn rows_that_do_not_fit_are_errors_and_write_nothing() {
    let (policy, memory) = (AppendPolicy::default(), Allocator::default());
    let mut kept = PersistentTensor::imported(rows(&[2], 0, 1, 3));
    let mut reservation = reserve(&mut kept, 1, 2, &policy, &memory);
    for (at_row, source) in [
        (0, rows(&[2], 0, 3, 3)),
        (1, rows(&[2], 0, 2, 3)),
        (3, rows(&[2], 0, 0, 3)),
        (usize::MAX, rows(&[2], 0, 1, 3)),
        (0, rows(&[1], 0, 1, 3)),
        (0, rows(&[2], 0, 1, 4)),
        (0, rows(&[], 0, 1, 3)),
        (0, Tensor::from_slice(&[], &[1f32]).unwrap()),
        (0, Tensor::from_slice(&[2, 1, 3], &[1i32; 6]).unwrap()),
    ] {
        assert!(
            reservation.write_rows(at_row, &source).is_err(),
            "{at_row} {:?}",
            source.shape()
        );
    }
    assert!(reservation.span_mut(2).is_none());
    assert!(reservation.spans_mut().all(|span| *span == [0; 24]));
    assert_eq!(reservation.counters().append_copied_bytes, 0);
    reservation.write_rows(1, &rows(&[2], 9, 1, 3)).unwrap();
    let tensor = reservation.seal().publish();
    let got = tensor.tensor().view::<f32>().unwrap().to_vec();
    assert_eq!(got[..9], [0., 1., 2., 0., 0., 0., 90., 91., 92.]);
    assert_eq!(got[9..], [100., 101., 102., 0., 0., 0., 190., 191., 192.]);
}

#[test]
fn a_known_length_is_reserved_exactly_and_a_budget_stops_growth() {
    let known = AppendPolicy {
        max_length: Some(11),
        ..policy(4, AppendReuse::Always)
    };
    let mut kept = PersistentTensor::imported(rows(&[2], 0, 1, 3));
    append(&mut kept, 1, &known);
    assert_eq!(kept.capacity_rows(), 11);
    append(&mut kept, 10, &known);
    assert_eq!(kept.capacity_rows(), 22, "outgrown, so it doubles");

    // 4 rows of 24 bytes; then 8 rows would spend more spare than the budget can give: exactly 5
    let (plain, memory) = (
        policy(4, AppendReuse::Always),
        Allocator::with_limit(4 * 24 + 6 * 24),
    );
    let mut kept = PersistentTensor::imported(rows(&[2], 0, 0, 3));
    kept = reserve(&mut kept, 1, 4, &plain, &memory).seal().publish();
    assert_eq!(kept.capacity_rows(), 4);
    kept = reserve(&mut kept, 1, 1, &plain, &memory).seal().publish();
    assert_eq!(kept.capacity_rows(), 5);
    let refused = kept
        .lease(&plain)
        .reserve(&[2, 6, 3], 1, &memory)
        .unwrap_err();
    assert!(matches!(refused, AppendError::Alloc(_)), "{refused}");
    assert_eq!(kept.tensor().shape(), [2, 5, 3]);
}

#[test]
fn absurd_capacities_are_errors() {
    let memory = Allocator::default();
    for (initial_capacity, max_length) in [
        (usize::MAX, None),
        (isize::MAX as usize, None),
        (4, Some(usize::MAX)),
    ] {
        let policy = AppendPolicy {
            initial_capacity,
            max_length,
            reuse: AppendReuse::Always,
        };
        let mut kept = PersistentTensor::imported(rows(&[2], 0, 1, 3));
        let error = kept
            .lease(&policy)
            .reserve(&[2, 2, 3], 1, &memory)
            .unwrap_err();
        assert!(
            matches!(
                error,
                AppendError::Capacity {
                    bytes_per_row: 24,
                    ..
                }
            ),
            "{error}"
        );
    }
    assert_eq!(memory.live_bytes(), 0);
}

/// No layout, however made, shows a byte at or above the handle's end row.
#[test]
fn layouts_over_a_block_stay_below_the_end_row() {
    let policy = policy(5, AppendReuse::Always);
    let mut kept = PersistentTensor::imported(rows(&[2], 0, 1, 2));
    append(&mut kept, 2, &policy); // 2 slices of 5 rows of 2 elements, 3 rows valid
    let tensor = kept.tensor();
    let valid = |element: isize| (0..20).contains(&element) && element % 10 < 6;
    let mut admitted = 0;
    for delta in -2..20isize {
        for (a, b) in [(1, 1), (2, 1), (1, 3), (2, 3), (2, 2), (3, 2)] {
            for s in -10..=10isize {
                for t in [-10, -2, -1, 0, 1, 2, 3, 10] {
                    let layout = Layout::strided(&[a, b], &[s, t]).unwrap();
                    let inside = (0..a as isize)
                        .flat_map(|i| (0..b as isize).map(move |j| delta + i * s + j * t))
                        .all(valid);
                    let got = tensor.with_layout(layout, delta).is_ok();
                    assert!(!got || inside, "[{a}, {b}] strides [{s}, {t}] from {delta}");
                    admitted += usize::from(got);
                }
            }
        }
    }
    assert!(admitted > 500);
    // what the view operations make is admitted
    let own = tensor.layout();
    for axis in 0..3 {
        for (start, count, step) in [(0, 1, 1), (1, 1, 1), (0, 2, 1), (1, 2, -1), (0, 2, 2)] {
            if let Some((layout, delta)) = own.slice(axis, start, count, step) {
                let turned = layout.permute(&[2, 0, 1]).unwrap();
                let wide = layout.unsqueeze(1).unwrap();
                for layout in [layout, turned, wide] {
                    assert!(
                        tensor.with_layout(layout, delta).is_ok(),
                        "axis {axis} from {start}"
                    );
                }
            }
        }
    }
    let fused = own.reshape(&[2, 6]).unwrap();
    assert!(tensor.with_layout(fused, 0).is_ok());
    let expanded = own.unsqueeze(1).unwrap().broadcast(&[2, 4, 3, 2]).unwrap();
    assert!(tensor.with_layout(expanded, 0).is_ok());
    let wide = tensor.reinterpret(DType::Int32).unwrap();
    assert!(wide.with_layout(Layout::contiguous(&[7]), 0).is_err());
    assert!(Tensor::dense(DType::Uint8, &[25], tensor.buffer().clone()).is_err());
    assert!(Tensor::dense(DType::Uint8, &[24], tensor.buffer().clone()).is_ok());
    assert!(Tensor::dense(DType::Int4, &[49], tensor.buffer().clone()).is_err());
}

#[test]
fn a_policy_that_became_exclusive_declines_what_it_would_not_have_made() {
    let memory = Allocator::default();
    let mut kept = PersistentTensor::imported(rows(&[2], 0, 1, 3));
    append(&mut kept, 1, &AppendPolicy::default());
    let answer = kept
        .lease(&policy(4, AppendReuse::Exclusive))
        .reserve(&[2, 3, 3], 1, &memory);
    assert!(matches!(
        answer,
        Ok(Reserve::Declined(DeclineReason::ExclusiveSlices {
            slices: 2
        }))
    ));
    assert_eq!(
        append(&mut kept, 1, &AppendPolicy::default()).1,
        Outcome::InPlace
    );
}
