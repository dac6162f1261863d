use super::*;
use crate::{Isa, ThreadPool, reference};
use half::{bf16, f16};

fn values(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    (0..n)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // multiples of 1/32 below 1 in size are exact in every type
            ((state >> 40) % 64) as f64 / 32.0 - 1.0
        })
        .collect()
}

/// A matrix in memory of the wanted kind, as a view `[rows, cols]`, with NaN wherever the view does not reach.
fn laid_out<T: Real>(values: &[f64], rows: usize, cols: usize, kind: usize) -> Memory<T> {
    let (row, col) = match kind {
        0 => (cols.max(1), 1),     // dense
        1 => (1, rows.max(1)),     // transposed
        2 => (cols + 3, 1),        // a part of wider rows
        3 => (1, rows + 5),        // a part of longer columns
        _ => (2 * cols.max(1), 2), // every second element
    };
    let size = (rows.max(1) - 1) * row + (cols.max(1) - 1) * col + 1;
    let nan = T::from_acc(T::Acc::from_f64(f64::NAN));
    let mut data = vec![nan; size];
    for i in 0..rows {
        for j in 0..cols {
            data[i * row + j * col] = T::from_acc(T::Acc::from_f64(values[i * cols + j]));
        }
    }
    Memory {
        data,
        shape: [rows, cols],
        strides: [row as isize, col as isize],
    }
}

struct Memory<T> {
    data: Vec<T>,
    shape: [usize; 2],
    strides: [isize; 2],
}

impl<T: Element> Memory<T> {
    fn tensor(&self) -> refeed_values::Tensor {
        let all = refeed_values::Tensor::from_slice(&[self.data.len()], &self.data).unwrap();
        let layout = refeed_values::Layout::strided(&self.shape, &self.strides).unwrap();
        all.with_layout(layout, 0).unwrap()
    }
}

use crate::storage::Accumulator;

fn check<T: MatMulElement + Real>(
    compute: &Compute<'_>,
    m: usize,
    k: usize,
    n: usize,
    kinds: [usize; 2],
    tolerance: f64,
) {
    let (a, b) = (values(m * k, 7 + m as u64), values(k * n, 11 + n as u64));
    let want = reference::matmul(&a, &b, m, k, n);
    let at = laid_out::<T>(&a, m, k, kinds[0]).tensor();
    let bt = laid_out::<T>(&b, k, n, kinds[1]).tensor();
    let mut out = vec![T::from_acc(T::Acc::from_f64(7.0)); m * n];
    matmul(
        compute,
        &at.view::<T>().unwrap(),
        &bt.view::<T>().unwrap(),
        &mut out,
    )
    .unwrap();
    for (i, (got, want)) in out.iter().zip(&want).enumerate() {
        let got = got.to_acc().to_f64();
        let bound = tolerance * (1.0 + want.abs());
        assert!(
            (got - want).abs() <= bound,
            "{} {m}x{k}x{n} layouts {kinds:?} at {i}: got {got}, want {want}",
            compute.isa
        );
    }
}

#[test]
fn every_layout_and_edge() {
    let pool = ThreadPool::new(2);
    for isa in Isa::available() {
        let compute = Compute::new(isa, &pool);
        for (m, k, n) in [
            (1, 1, 1),
            (1, 3, 2),
            (1, 64, 67),
            (1, 129, 300),
            (2, 5, 31),
            (3, 17, 33),
            (8, 40, 65),
            (9, 257, 35),
            (12, 16, 32),
            (13, 31, 1),
            (25, 1, 49),
            (97, 300, 71),
        ] {
            for left in 0..5 {
                for right in 0..5 {
                    check::<f32>(&compute, m, k, n, [left, right], 1e-6);
                }
                check::<f64>(&compute, m, k, n, [left, (left + 1) % 5], 1e-14);
                check::<f16>(&compute, m, k, n, [left, (left + 1) % 5], 5e-4);
                check::<bf16>(&compute, m, k, n, [(left + 2) % 5, left], 4e-3);
            }
        }
    }
}

#[test]
fn tiles_larger_than_a_block() {
    let pool = ThreadPool::new(2);
    for isa in Isa::available() {
        let compute = Compute::new(isa, &pool);
        check::<f32>(&compute, 401, 520, 270, [0, 0], 1e-6);
        check::<f32>(&compute, 401, 270, 523, [1, 1], 1e-6);
        check::<f32>(&compute, 1, 1100, 2100, [0, 0], 2e-6);
        check::<bf16>(&compute, 4, 1100, 1050, [0, 1], 4e-3);
    }
}

#[test]
fn batches_broadcast_like_numpy() {
    let compute = Compute::default();
    // [2, 1, 3, 4] · [5, 4, 6] -> [2, 5, 3, 6]
    let (a, b) = (values(24, 1), values(120, 2));
    let single = |x: &[f64]| x.iter().map(|x| *x as f32).collect::<Vec<f32>>();
    let (af, bf) = (single(&a), single(&b));
    let av = View::from_slice(&af, &[2, 1, 3, 4]).unwrap();
    let bv = View::from_slice(&bf, &[5, 4, 6]).unwrap();
    assert_eq!(
        matmul_shape(av.shape(), bv.shape()).unwrap()[..],
        [2, 5, 3, 6]
    );
    let mut out = vec![0f32; 180];
    matmul(&compute, &av, &bv, &mut out).unwrap();
    for i in 0..2 {
        for j in 0..5 {
            let want = reference::matmul(&a[i * 12..][..12], &b[j * 24..][..24], 3, 4, 6);
            let got = &out[(i * 5 + j) * 18..][..18];
            assert!(got.iter().zip(&want).all(|(g, w)| f64::from(*g) == *w));
        }
    }
    // leading axes on the left alone, with a vector on the right
    let vector = View::from_slice(&bf[..4], &[4]).unwrap();
    let mut out = vec![0f32; 6];
    assert_eq!(matmul_shape(&[2, 1, 3, 4], &[4]).unwrap()[..], [2, 1, 3]);
    matmul(&compute, &av, &vector, &mut out).unwrap();
    let want = reference::matmul(&a, &b[..4], 6, 4, 1);
    assert!(out.iter().zip(&want).all(|(g, w)| f64::from(*g) == *w));
}

#[test]
fn thread_counts_do_not_change_a_bit() {
    let (one, five) = (ThreadPool::new(1), ThreadPool::new(5));
    for (m, k, n) in [(1, 700, 900), (5, 333, 1200), (130, 600, 77)] {
        let single = |seed| {
            values(m.max(n) * k, seed)
                .iter()
                .map(|x| (*x * 0.37) as f32)
                .collect::<Vec<_>>()
        };
        let (a, b) = (single(3), single(4));
        let av = View::from_slice(&a[..m * k], &[m, k]).unwrap();
        for turned in [false, true] {
            let shape = if turned { [n, k] } else { [k, n] };
            let bv = View::from_slice(&b[..k * n], &shape).unwrap();
            let bv = if turned { bv.swap(0, 1).unwrap() } else { bv };
            let run = |pool| {
                let mut out = vec![0f32; m * n];
                matmul(&Compute::new(Isa::best(), pool), &av, &bv, &mut out).unwrap();
                out
            };
            assert_eq!(run(&one), run(&five), "{m}x{k}x{n} {turned}");
        }
    }
}

#[test]
fn integers_wrap_around() {
    let compute = Compute::default();
    let a = View::from_slice(&[i32::MAX, 2, 3, 4, 5, 6], &[2, 3]).unwrap();
    let b = View::from_slice(&[2, 1, 1, 0, 0, 1], &[3, 2]).unwrap();
    let mut out = vec![9; 4];
    matmul(&compute, &a, &b, &mut out).unwrap();
    assert_eq!(out, [0, i32::MIN + 2, 13, 10]);
    let turned = b.swap(0, 1).unwrap();
    let mut out = vec![9; 9];
    matmul(&compute, &b, &turned, &mut out).unwrap();
    assert_eq!(out, [5, 2, 1, 2, 1, 0, 1, 0, 1]);
}

#[test]
fn empty_operands_and_wrong_ones() {
    let compute = Compute::default();
    let none = View::<f32>::from_slice(&[], &[3, 0]).unwrap();
    let also = View::<f32>::from_slice(&[], &[0, 2]).unwrap();
    let mut out = vec![1f32; 6];
    matmul(&compute, &none, &also, &mut out).unwrap();
    assert_eq!(out, [0.0; 6]);
    matmul(
        &compute,
        &also,
        &View::from_slice(&[1., 2.], &[2, 1]).unwrap(),
        &mut [],
    )
    .unwrap();
    assert!(matches!(
        matmul(&compute, &also, &also, &mut []),
        Err(KernelError::Mismatch { .. })
    ));
    assert!(matches!(
        matmul(&compute, &none, &also, &mut out[..5]),
        Err(KernelError::Length {
            expected: 6,
            got: 5,
            ..
        })
    ));
    assert!(matmul_shape(&[], &[2]).is_err());
    assert!(matmul_shape(&[2, 3, 4], &[3, 4, 5]).is_err());
}
