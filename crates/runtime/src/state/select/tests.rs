use super::*;
use refeed_values::DType;
use refeed_values::encoded::Affine;

fn counted(shape: &[usize]) -> Tensor {
    let numbers: Vec<f32> = (0..shape.iter().product())
        .map(|n: usize| n as f32)
        .collect();
    Tensor::from_slice(shape, &numbers).unwrap()
}

fn numbers(tensor: &Tensor) -> Vec<f32> {
    tensor.view::<f32>().unwrap().to_vec()
}

#[test]
fn rows_of_any_axis_and_of_strided_values() {
    let memory = Allocator::default();
    let dense = counted(&[2, 3, 4]);
    let rows = gathered(&dense, 1, &[2, 0], &memory).unwrap();
    assert_eq!(rows.shape(), [2, 2, 4]);
    let expected: Vec<f32> = [8..12, 0..4, 20..24, 12..16]
        .into_iter()
        .flatten()
        .map(|n: i32| n as f32)
        .collect();
    assert_eq!(numbers(&rows), expected);
    // The same elements as columns: [4, 3, 2] seen as [2, 3, 4].
    let layout = counted(&[4, 3, 2]).layout().permute(&[2, 1, 0]).unwrap();
    let strided = counted(&[4, 3, 2]).with_layout(layout, 0).unwrap();
    let rows = gathered(&strided, 2, &[3], &memory).unwrap();
    assert_eq!(
        (rows.shape(), numbers(&rows)),
        (&[2, 3, 1][..], vec![18., 20., 22., 19., 21., 23.])
    );
    assert_eq!(
        gathered(&dense, 0, &[], &memory).unwrap().shape(),
        [0, 3, 4]
    );
}

#[test]
fn packed_rows_that_are_whole_bytes() {
    let memory = Allocator::default();
    let bytes = Tensor::from_slice(&[6], &[1u8, 2, 3, 4, 5, 6]).unwrap();
    let packed = Tensor::dense(DType::Int4, &[3, 4], bytes.into_buffer()).unwrap();
    let rows = gathered(&packed, 0, &[2, 0], &memory).unwrap();
    assert_eq!(rows.as_bytes().unwrap(), [5, 6, 1, 2]);
    let refused = gathered(&packed, 1, &[0], &memory).unwrap_err();
    assert!(matches!(refused, RowsError::Reason(reason) if reason.contains("INT4")));
}

/// A page of 3 sequences with a scale a sequence, or a scale for all.
fn page(axis: Option<usize>) -> RuntimeValue {
    let codes: Vec<u8> = (0..3 * 2 * 4).collect();
    let scale = match axis {
        None => Tensor::scalar(0.5f32).unwrap(),
        Some(_) => Tensor::from_slice(&[3], &[1f32, 2.0, 4.0]).unwrap(),
    };
    let affine = Affine {
        axis,
        ..Affine::per_tensor(DType::Int8, scale)
    };
    let payload = Tensor::from_slice(&[codes.len()], &codes).unwrap();
    let key = EncodedValue::affine(affine, (DType::Float, &[3, 1, 2, 4]), payload).unwrap();
    let value = counted(&[3, 1, 2, 5]);
    let (start, length) = (Tensor::scalar(0i64).unwrap(), Tensor::scalar(2i64).unwrap());
    paged_cache::page_of(start, length, key.into(), value.into()).unwrap()
}

#[test]
fn pages_are_chosen_from_one_by_one_with_their_scales() {
    let memory = Allocator::default();
    for axis in [None, Some(0)] {
        let cache = paged_cache::cache_of([page(axis)]).unwrap();
        let chosen = pages(&cache, &[2, 2, 0, 1], &memory).unwrap();
        let shape = paged_cache::check(&chosen).unwrap();
        assert_eq!((shape.tokens, shape.dims.unwrap().batch), (2, 4));
        let block = paged_cache::blocks(&chosen)
            .unwrap()
            .get(0)
            .unwrap()
            .clone();
        let RuntimeValue::Encoded(key) = paged_cache::page(&block).unwrap().key else {
            panic!("a dense key");
        };
        let whole = paged_cache::blocks(&cache).unwrap().get(0).unwrap().clone();
        let RuntimeValue::Encoded(before) = paged_cache::page(&whole).unwrap().key else {
            panic!("a dense key");
        };
        let rows = numbers(&before.decode(&memory).unwrap());
        let expected: Vec<f32> = [2, 2, 0, 1]
            .iter()
            .flat_map(|row: &usize| rows[row * 8..row * 8 + 8].to_vec())
            .collect();
        assert_eq!(numbers(&key.decode(&memory).unwrap()), expected);
    }
}

#[test]
fn a_growing_value_gets_room_behind_its_rows() {
    let memory = Allocator::default();
    let policy = AppendPolicy::default();
    let whole = counted(&[3, 2, 4, 5]);
    let mut empty = PersistentTensor::imported(counted(&[3, 2, 0, 5]));
    let Ok(Reserve::Ready(mut block)) = empty.lease(&policy).reserve(&[3, 2, 4, 5], 2, &memory)
    else {
        panic!("no room");
    };
    block.write_rows(0, &whole).unwrap();
    let held = block.seal().publish();
    for axis in [0, 1] {
        let rows: &[usize] = &[1, 0, 1];
        let chosen = gathered_block(&held, axis, rows, &policy, &memory).unwrap();
        assert_eq!(chosen.append_axis(), Some(2));
        assert_eq!(chosen.capacity_rows(), 32);
        let expected = gathered(&whole, axis, rows, &memory).unwrap();
        assert_eq!(numbers(chosen.tensor()), numbers(&expected));
    }
    // Along the growing axis itself there is nothing to grow into.
    let chosen = gathered_block(&held, 2, &[3, 1], &policy, &memory).unwrap();
    assert_eq!(chosen.append_axis(), None);
    assert_eq!(
        numbers(chosen.tensor()),
        numbers(&gathered(&whole, 2, &[3, 1], &memory).unwrap())
    );
}
