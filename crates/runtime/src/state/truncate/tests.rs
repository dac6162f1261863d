use super::*;
use refeed_values::DType;

fn page(start: i64, length: i64) -> RuntimeValue {
    let payload = |width: usize| {
        let count = 2 * 4 * width;
        let numbers: Vec<f32> = (0..count)
            .map(|n| (start * 100 + n as i64) as f32)
            .collect();
        RuntimeValue::from(Tensor::from_slice(&[2, 1, 4, width], &numbers).unwrap())
    };
    let (start, length) = (
        Tensor::scalar(start).unwrap(),
        Tensor::scalar(length).unwrap(),
    );
    paged_cache::page_of(start, length, payload(3), payload(5)).unwrap()
}

fn pointers(cache: &RuntimeValue) -> Vec<*const u8> {
    let blocks = paged_cache::blocks(cache).unwrap().iter();
    let key = |block: &RuntimeValue| match paged_cache::page(block).unwrap().key {
        RuntimeValue::Tensor(tensor) => tensor.as_ptr(),
        other => panic!("{other:?}"),
    };
    blocks.map(key).collect()
}

#[test]
fn pages_are_shared_and_the_last_one_says_that_it_holds_fewer() {
    let cache = paged_cache::cache_of([page(0, 4), page(4, 3), page(7, 2)]).unwrap();
    let whole = pointers(&cache);
    for (length, kept) in [(0, 0), (1, 1), (4, 1), (5, 2), (7, 2), (8, 3), (9, 3)] {
        let cut = fewer_pages(&cache, length).unwrap();
        assert_eq!(paged_cache::check(&cut).unwrap().tokens, length);
        assert_eq!(pointers(&cut), whole[..kept]);
    }
    assert_eq!(paged_cache::check(&cache).unwrap().tokens, 9);
}

/// What is known of pages lies with the parts of their sequence, and those stay.
#[test]
fn a_cut_cache_is_known_but_for_its_end() {
    let cache = paged_cache::cache_of((0..1000).map(|at| page(3 * at, 3))).unwrap();
    let mut memo = paged_cache::CacheMemo::default();
    memo.check(&cache).unwrap();
    assert_eq!(memo.looked_at(), 1000);
    let cut = fewer_pages(&cache, 1501).unwrap();
    assert_eq!(memo.check(&cut).unwrap().tokens, 1501);
    assert_eq!(memo.looked_at(), 1001);
    let cut = fewer_pages(&cut, 1500).unwrap();
    assert_eq!(memo.check(&cut).unwrap().tokens, 1500);
    assert_eq!(memo.looked_at(), 1001);
}

#[test]
fn an_imported_value_becomes_a_view_and_an_empty_one_stays() {
    let numbers: Vec<i64> = (0..24).collect();
    let held = PersistentTensor::imported(Tensor::from_slice(&[2, 4, 3], &numbers).unwrap());
    let cut = shorter(&held, 1, 3).unwrap();
    assert_eq!(cut.tensor().as_ptr(), held.tensor().as_ptr());
    assert_eq!(cut.tensor().shape(), [2, 3, 3]);
    let expected: Vec<i64> = (0..9).chain(12..21).collect();
    assert_eq!(cut.tensor().view::<i64>().unwrap().to_vec(), expected);
    assert_eq!(shorter(&cut, 1, 0).unwrap().tensor().shape(), [2, 0, 3]);
    assert_eq!(held.tensor().dtype(), DType::Int64);
}
