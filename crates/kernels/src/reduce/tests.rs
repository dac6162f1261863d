use super::*;
use half::{bf16, f16};
use refeed_values::{Allocator, Layout};

fn number(i: usize) -> f64 {
    ((i * 37 + 11) % 23) as f64 - 9.0
}

/// Straight from the definition, in f64.
fn reference(shape: &[usize], data: &[f64], reduced: &[bool], op: Reduction) -> Vec<f64> {
    let kept: Vec<usize> = (0..shape.len()).filter(|&axis| !reduced[axis]).collect();
    let outputs: usize = kept.iter().map(|&axis| shape[axis]).product();
    let mut groups: Vec<Vec<f64>> = vec![Vec::new(); outputs];
    for (flat, &x) in data.iter().enumerate() {
        let mut left = flat;
        let mut index = vec![0; shape.len()];
        for axis in (0..shape.len()).rev() {
            index[axis] = left % shape[axis];
            left /= shape[axis];
        }
        let place = kept
            .iter()
            .fold(0, |place, &axis| place * shape[axis] + index[axis]);
        groups[place].push(x);
    }
    let result = |group: &Vec<f64>| match op {
        Reduction::Sum => group.iter().sum(),
        Reduction::Mean => group.iter().sum::<f64>() / group.len() as f64,
        Reduction::Max => group.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Reduction::Min => group.iter().copied().fold(f64::INFINITY, f64::min),
        Reduction::Prod => group.iter().product(),
    };
    groups.iter().map(result).collect()
}

fn run<T: Element>(
    op: Reduction,
    x: &Tensor,
    reduced: &[bool],
    count: usize,
) -> Result<Vec<T>, ElementwiseError> {
    let mut out = TensorMut::new(&Allocator::default(), T::DTYPE, &[count]).unwrap();
    reduce(op, T::DTYPE).unwrap()(x, reduced, &mut out)?;
    Ok(out.freeze().view::<T>().unwrap().to_vec())
}

const OPS: [Reduction; 4] = [
    Reduction::Sum,
    Reduction::Mean,
    Reduction::Max,
    Reduction::Min,
];

#[test]
fn every_choice_of_axes_and_layout() {
    let shape = [3, 2, 70, 5];
    let data: Vec<f64> = (0..3 * 2 * 70 * 5).map(number).collect();
    let real: Vec<f32> = data.iter().map(|&x| x as f32).collect();
    let dense = Tensor::from_slice(&shape, &real).unwrap();
    let turned = dense
        .with_layout(dense.layout().permute(&[3, 1, 0, 2]).unwrap(), 0)
        .unwrap();
    let turned = turned.to_dense(&Allocator::default()).unwrap();
    let strided = turned
        .with_layout(turned.layout().permute(&[2, 1, 3, 0]).unwrap(), 0)
        .unwrap();
    assert_eq!(strided.view::<f32>().unwrap().to_vec(), real);
    for choice in 0..16usize {
        let reduced: Vec<bool> = (0..4).map(|axis| choice >> axis & 1 == 1).collect();
        for op in OPS {
            let want = reference(&shape, &data, &reduced, op);
            for x in [&dense, &strided] {
                let got = run::<f32>(op, x, &reduced, want.len()).unwrap();
                for (got, want) in got.iter().zip(&want) {
                    assert_eq!(*got, *want as f32, "{op:?} {reduced:?}");
                }
            }
        }
    }
}

#[test]
fn every_type() {
    fn check<T: Element>(of: fn(f64) -> T, exact: bool) {
        let data: Vec<f64> = (0..4 * 3).map(|i| number(i).abs()).collect();
        let typed: Vec<T> = data.iter().map(|&x| of(x)).collect();
        let x = Tensor::from_slice(&[4, 3], &typed).unwrap();
        for reduced in [[true, false], [false, true], [true, true]] {
            for op in OPS {
                let want = reference(&[4, 3], &data, &reduced, op);
                let want: Vec<T> = want
                    .into_iter()
                    .map(|x| of(if exact { x.trunc() } else { x }))
                    .collect();
                assert_eq!(
                    run::<T>(op, &x, &reduced, want.len()).unwrap(),
                    want,
                    "{op:?} {}",
                    T::DTYPE
                );
            }
        }
        let want: Vec<T> = [3.0, 14.0].map(of).to_vec();
        let x = Tensor::from_slice(&[2, 2], &[1.0, 3.0, 2.0, 7.0].map(of)).unwrap();
        assert_eq!(
            run::<T>(Reduction::Prod, &x, &[false, true], 2).unwrap(),
            want,
            "{}",
            T::DTYPE
        );
    }
    check(|x| x, false);
    check(|x| x as f32, false);
    check(f16::from_f64, false);
    check(bf16::from_f64, false);
    check(|x| x as i8, true);
    check(|x| x as i16, true);
    check(|x| x as i32, true);
    check(|x| x as i64, true);
    check(|x| x as u8, true);
    check(|x| x as u16, true);
    check(|x| x as u32, true);
    check(|x| x as u64, true);
}

#[test]
fn long_sums_are_exact() {
    // 2^24 + 1 ones: adding in f32 stops at 2^24.
    let ones = Tensor::from_slice(&[1], &[1f32]).unwrap();
    let count = (1 << 24) + 2;
    let many = ones
        .with_layout(Layout::strided(&[count], &[0]).unwrap(), 0)
        .unwrap();
    assert_eq!(
        run::<f32>(Reduction::Sum, &many, &[true], 1).unwrap(),
        [count as f32]
    );
    let halves = vec![f16::from_f32(0.25); 100_000];
    let halves = Tensor::from_slice(&[100_000], &halves).unwrap();
    assert_eq!(
        run::<f16>(Reduction::Mean, &halves, &[true], 1).unwrap(),
        [f16::from_f32(0.25)]
    );
    assert_eq!(
        run::<f16>(Reduction::Sum, &halves, &[true], 1).unwrap(),
        [f16::from_f32(25000.0)]
    );
    let tenths = Tensor::from_slice(&[1 << 20], &vec![0.1f64; 1 << 20]).unwrap();
    let sum = run::<f64>(Reduction::Sum, &tenths, &[true], 1).unwrap()[0];
    assert!((sum - 104_857.6).abs() < 1e-9, "{sum}");
}

#[test]
fn nothing_to_reduce() {
    let none = Tensor::from_slice::<f32>(&[2, 0], &[]).unwrap();
    let by = |op| run::<f32>(op, &none, &[false, true], 2).unwrap();
    assert_eq!(by(Reduction::Sum), [0.0; 2]);
    assert_eq!(by(Reduction::Prod), [1.0; 2]);
    assert_eq!(by(Reduction::Max), [f32::NEG_INFINITY; 2]);
    assert_eq!(by(Reduction::Min), [f32::INFINITY; 2]);
    assert!(by(Reduction::Mean).iter().all(|x| x.is_nan()));
    assert!(
        run::<f32>(Reduction::Sum, &none, &[true, false], 0)
            .unwrap()
            .is_empty()
    );
    let none = Tensor::from_slice::<i32>(&[0], &[]).unwrap();
    assert_eq!(
        run::<i32>(Reduction::Max, &none, &[true], 1).unwrap(),
        [i32::MIN]
    );
    assert_eq!(
        run::<i32>(Reduction::Mean, &none, &[true], 1),
        Err(ElementwiseError::Empty)
    );
    let scalar = Tensor::scalar(3i32).unwrap();
    assert_eq!(run::<i32>(Reduction::Mean, &scalar, &[], 1).unwrap(), [3]);
    assert!(matches!(
        run::<i32>(Reduction::Sum, &scalar, &[true], 1),
        Err(ElementwiseError::Shape { .. })
    ));
}

#[test]
fn extremes_keep_nan_and_know_bool() {
    let mut data = vec![1f32; 40];
    data[21] = f32::NAN;
    let x = Tensor::from_slice(&[2, 20], &data).unwrap();
    for op in [Reduction::Max, Reduction::Min] {
        let got = run::<f32>(op, &x, &[false, true], 2).unwrap();
        assert!(got[0] == 1.0 && got[1].is_nan());
    }
    let flags = Tensor::from_slice(&[2, 2], &[0u8, 5, 0, 0])
        .unwrap()
        .reinterpret(DType::Bool)
        .unwrap();
    for (op, want) in [(Reduction::Max, [1, 0]), (Reduction::Min, [0, 0])] {
        let mut out = TensorMut::new(&Allocator::default(), DType::Bool, &[2]).unwrap();
        reduce(op, DType::Bool).unwrap()(&flags, &[false, true], &mut out).unwrap();
        assert_eq!(out.freeze().view::<u8>().unwrap().to_vec(), want);
    }
    assert!(reduce(Reduction::Sum, DType::Bool).is_none());
}

#[test]
fn means_of_integers_do_not_overflow() {
    let x = Tensor::from_slice(&[3], &[i8::MAX, i8::MAX, 100]).unwrap();
    assert_eq!(run::<i8>(Reduction::Mean, &x, &[true], 1).unwrap(), [118]);
    let x = Tensor::from_slice(&[2], &[-3i64, -4]).unwrap();
    assert_eq!(run::<i64>(Reduction::Mean, &x, &[true], 1).unwrap(), [-3]);
    assert_eq!(
        run::<i8>(
            Reduction::Sum,
            &Tensor::from_slice(&[2], &[i8::MAX, 1]).unwrap(),
            &[true],
            1
        )
        .unwrap(),
        [i8::MIN]
    );
}

#[test]
fn positions_of_the_largest() {
    let data = [3f32, 9.0, 9.0, 1.0, -1.0, 7.0];
    let x = Tensor::from_slice(&[2, 3], &data).unwrap();
    let search = |x: &Tensor, axis, last, count| {
        let mut out = TensorMut::new(&Allocator::default(), DType::Int64, &[count]).unwrap();
        arg_max(DType::Float).unwrap()(x, axis, last, &mut out)?;
        Ok::<_, ElementwiseError>(out.freeze().view::<i64>().unwrap().to_vec())
    };
    assert_eq!(search(&x, 1, false, 2).unwrap(), [1, 2]);
    assert_eq!(search(&x, 1, true, 2).unwrap(), [2, 2]);
    assert_eq!(search(&x, 0, false, 3).unwrap(), [0, 0, 0]);
    let turned = x
        .with_layout(x.layout().permute(&[1, 0]).unwrap(), 0)
        .unwrap();
    assert_eq!(search(&turned, 0, true, 2).unwrap(), [2, 2]);
    let nan = Tensor::from_slice(&[1, 3], &[5.0, f32::NAN, 9.0]).unwrap();
    assert_eq!(search(&nan, 1, true, 1).unwrap(), [1]);
    let low = Tensor::from_slice(&[1, 2], &[f32::NEG_INFINITY; 2]).unwrap();
    assert_eq!(search(&low, 1, false, 1).unwrap(), [0]);
    let none = Tensor::from_slice::<f32>(&[2, 0], &[]).unwrap();
    assert_eq!(search(&none, 1, false, 2), Err(ElementwiseError::Empty));
    assert!(search(&none, 0, false, 0).unwrap().is_empty());
}

#[test]
fn running_sums() {
    let x = Tensor::from_slice(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    for (axis, exclusive, reverse, want) in [
        (1, false, false, [1.0, 3.0, 6.0, 4.0, 9.0, 15.0]),
        (1, true, false, [0.0, 1.0, 3.0, 0.0, 4.0, 9.0]),
        (1, false, true, [6.0, 5.0, 3.0, 15.0, 11.0, 6.0]),
        (1, true, true, [5.0, 3.0, 0.0, 11.0, 6.0, 0.0]),
        (0, false, false, [1.0, 2.0, 3.0, 5.0, 7.0, 9.0]),
        (0, true, true, [4.0, 5.0, 6.0, 0.0, 0.0, 0.0]),
    ] {
        let mut out = TensorMut::new(&Allocator::default(), DType::Float, &[2, 3]).unwrap();
        cum_sum(DType::Float).unwrap()(&x, axis, exclusive, reverse, &mut out).unwrap();
        assert_eq!(out.freeze().view::<f32>().unwrap().to_vec(), want);
    }
    let x = Tensor::from_slice(&[3], &[i32::MAX, 1, 1]).unwrap();
    let mut out = TensorMut::new(&Allocator::default(), DType::Int32, &[3]).unwrap();
    cum_sum(DType::Int32).unwrap()(&x, 0, false, false, &mut out).unwrap();
    assert_eq!(
        out.freeze().view::<i32>().unwrap().to_vec(),
        [i32::MAX, i32::MIN, i32::MIN + 1]
    );
}
