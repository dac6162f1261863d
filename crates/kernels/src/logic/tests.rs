use super::*;
use half::{bf16, f16};
use refeed_values::Allocator;

fn bools(shape: &[usize], data: &[u8]) -> Tensor {
    Tensor::from_slice(shape, data)
        .unwrap()
        .reinterpret(DType::Bool)
        .unwrap()
}

fn out(shape: &[usize]) -> TensorMut {
    TensorMut::new(&Allocator::default(), DType::Bool, shape).unwrap()
}

fn read(out: TensorMut) -> Vec<u8> {
    out.freeze().view::<u8>().unwrap().to_vec()
}

#[test]
fn comparisons_broadcast_and_answer_for_every_order() {
    let all = [
        (Comparison::Equal, [0, 1, 0]),
        (Comparison::Less, [1, 0, 0]),
        (Comparison::LessOrEqual, [1, 1, 0]),
        (Comparison::Greater, [0, 0, 1]),
        (Comparison::GreaterOrEqual, [0, 1, 1]),
    ];
    fn check<T: Element>(op: Comparison, low: [T; 3], middle: T, want: [u8; 3]) {
        let (a, b) = (
            Tensor::from_slice(&[3], &low).unwrap(),
            Tensor::scalar(middle).unwrap(),
        );
        let mut got = out(&[3]);
        comparison(op, T::DTYPE).unwrap()(&a, &b, &mut got).unwrap();
        assert_eq!(read(got), want, "{op:?} {}", T::DTYPE);
        let column = Tensor::from_slice(&[3, 1], &low).unwrap();
        let row = Tensor::from_slice(&[1, 2], &[middle; 2]).unwrap();
        let mut got = out(&[3, 2]);
        comparison(op, T::DTYPE).unwrap()(&column, &row, &mut got).unwrap();
        let twice: Vec<u8> = want.iter().flat_map(|&x| [x, x]).collect();
        assert_eq!(read(got), twice, "{op:?} {}", T::DTYPE);
    }
    for (op, want) in all {
        check(op, [1f32, 2.0, 3.0], 2.0, want);
        check(op, [1f64, 2.0, 3.0], 2.0, want);
        check(
            op,
            [1.0, 2.0, 3.0].map(f16::from_f32),
            f16::from_f32(2.0),
            want,
        );
        check(
            op,
            [1.0, 2.0, 3.0].map(bf16::from_f32),
            bf16::from_f32(2.0),
            want,
        );
        check(op, [-5i8, 2, 3], 2, want);
        check(op, [-5i32, 2, 3], 2, want);
        check(op, [i64::MIN, 2, i64::MAX], 2, want);
        check(op, [1u8, 2, 255], 2, want);
        check(op, [1u64, 2, u64::MAX], 2, want);
    }
    assert!(comparison(Comparison::Less, DType::Bool).is_none());
}

#[test]
fn nan_equals_nothing() {
    let nan = Tensor::from_slice(&[2], &[f32::NAN, 1.0]).unwrap();
    for op in [
        Comparison::Equal,
        Comparison::LessOrEqual,
        Comparison::GreaterOrEqual,
    ] {
        let mut got = out(&[2]);
        comparison(op, DType::Float).unwrap()(&nan, &nan, &mut got).unwrap();
        assert_eq!(read(got), [0, 1], "{op:?}");
    }
}

#[test]
fn any_nonzero_byte_is_true() {
    let (a, b) = (bools(&[4], &[0, 0, 7, 1]), bools(&[4], &[0, 255, 0, 2]));
    for (op, want) in [
        (Boolean::And, [0, 0, 0, 1]),
        (Boolean::Or, [0, 1, 1, 1]),
        (Boolean::Xor, [0, 1, 1, 0]),
    ] {
        let mut got = out(&[4]);
        boolean(op)(&a, &b, &mut got).unwrap();
        assert_eq!(read(got), want, "{op:?}");
    }
    let mut got = out(&[4]);
    not(&a, &mut got).unwrap();
    assert_eq!(read(got), [1, 1, 0, 0]);
    let mut got = out(&[4]);
    comparison(Comparison::Equal, DType::Bool).unwrap()(&a, &b, &mut got).unwrap();
    assert_eq!(read(got), [1, 0, 0, 1]);
}

#[test]
fn tests_of_numbers() {
    let x = Tensor::from_slice(&[4], &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.0]).unwrap();
    let mut got = out(&[4]);
    is_nan(DType::Float).unwrap()(&x, &mut got).unwrap();
    assert_eq!(read(got), [1, 0, 0, 0]);
    for (negative, positive, want) in [
        (true, true, [0, 1, 1, 0]),
        (true, false, [0, 0, 1, 0]),
        (false, true, [0, 1, 0, 0]),
        (false, false, [0, 0, 0, 0]),
    ] {
        let mut got = out(&[4]);
        is_inf(DType::Float).unwrap()(&x, negative, positive, &mut got).unwrap();
        assert_eq!(read(got), want);
    }
    assert!(is_nan(DType::Int32).is_none() && is_inf(DType::Bool).is_none());
}

#[test]
fn choice_broadcasts_all_three() {
    fn check<T: Element>(x: &[T], y: &[T]) {
        // condition [2, 1, 3], x [4, 1], y []: the result is [2, 4, 3]
        let flags = [1u8, 0, 9, 0, 1, 0];
        let condition = bools(&[2, 1, 3], &flags);
        let x = Tensor::from_slice(&[4, 1], x).unwrap();
        let y = Tensor::from_slice(&[], y).unwrap();
        let mut got = TensorMut::new(&Allocator::default(), T::DTYPE, &[2, 4, 3]).unwrap();
        choose(T::DTYPE).unwrap()(&condition, &x, &y, &mut got).unwrap();
        let got = got.freeze().view::<T>().unwrap().to_vec();
        for (flat, got) in got.into_iter().enumerate() {
            let (a, b, c) = (flat / 12, flat / 3 % 4, flat % 3);
            let want = if flags[a * 3 + c] != 0 {
                x.view::<T>().unwrap().get(&[b, 0]).unwrap()
            } else {
                y.view::<T>().unwrap().get(&[]).unwrap()
            };
            assert_eq!(got, want, "{} at {flat}", T::DTYPE);
        }
    }
    check(&[1f32, 2.0, 3.0, 4.0], &[-1.0]);
    check(&[1f64, 2.0, 3.0, 4.0], &[-1.0]);
    check(&[1i64, 2, 3, 4], &[-1]);
    check(&[1u8, 2, 3, 4], &[9]);
    check(
        &[1.0, 2.0, 3.0, 4.0].map(f16::from_f32),
        &[f16::from_f32(-1.0)],
    );

    // Every fast shape: x and y dense or scalar under a dense condition.
    let condition = bools(&[2, 2], &[1, 0, 0, 1]);
    let dense = Tensor::from_slice(&[2, 2], &[1i32, 2, 3, 4]).unwrap();
    let one = Tensor::scalar(-7i32).unwrap();
    for (x, y, want) in [
        (&dense, &one, [1, -7, -7, 4]),
        (&one, &dense, [-7, 2, 3, -7]),
        (&one, &one, [-7; 4]),
        (&dense, &dense, [1, 2, 3, 4]),
    ] {
        let mut got = TensorMut::new(&Allocator::default(), DType::Int32, &[2, 2]).unwrap();
        choose(DType::Int32).unwrap()(&condition, x, y, &mut got).unwrap();
        assert_eq!(got.freeze().view::<i32>().unwrap().to_vec(), want);
    }
    let flags = bools(&[2], &[0, 1]);
    let mut got = out(&[2]);
    choose(DType::Bool).unwrap()(&flags, &bools(&[2], &[1, 1]), &bools(&[1], &[0]), &mut got)
        .unwrap();
    assert_eq!(read(got), [0, 1]);
}
