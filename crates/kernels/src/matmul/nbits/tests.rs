use super::*;
use crate::{Isa, ThreadPool};
use half::{bf16, f16};
use refeed_values::DType;

/// Numbers that differ from their neighbours.
fn spread(index: usize, seed: usize) -> usize {
    (index * 7919 + seed * 104_729 + 13) % 65_521
}

/// Quantized weights, packed by the definition, and what they stand for in f64, `[k, n]`.
struct Case {
    layout: Layout,
    codes: Vec<u8>,
    scales: Vec<f32>,
    zero_codes: Vec<u8>,
    zero_numbers: Vec<f32>,
    real: [Vec<f64>; 3],
}

fn case(bits: usize, k: usize, n: usize, block: usize) -> Case {
    let layout = Layout::new(bits, k, n, block).unwrap();
    let blocks = k.div_ceil(block);
    assert_eq!(layout.blocks, blocks);
    let top = 1usize << bits;
    let mut made = Case {
        layout,
        codes: vec![0; n * blocks * block * bits / 8],
        scales: (0..n * blocks)
            .map(|i| 0.003 + spread(i, 1) as f32 / 1e6)
            .collect(),
        zero_codes: vec![0; n * (blocks * bits).div_ceil(8)],
        zero_numbers: (0..n * blocks)
            .map(|i| spread(i, 2) as f32 / 65_521.0 * top as f32)
            .collect(),
        real: [vec![0.0; k * n], vec![0.0; k * n], vec![0.0; k * n]],
    };
    for column in 0..n {
        for which in 0..blocks {
            let zero = spread(column * blocks + which, 3) % top;
            let row = column * (blocks * bits).div_ceil(8);
            made.zero_codes[row + which * bits / 8] |= (zero << (which * bits % 8)) as u8;
            let scale = f64::from(made.scales[column * blocks + which]);
            let number = f64::from(made.zero_numbers[column * blocks + which]);
            for i in 0..block {
                let element = which * block + i;
                // What fills the last block up must not matter.
                let code = spread(column * k + element, 4) % top;
                let byte = column * blocks * block * bits / 8 + element * bits / 8;
                made.codes[byte] |= (code << (element * bits % 8)) as u8;
                if element < k {
                    let zeros = [(top / 2) as f64, zero as f64, number];
                    for (real, zero) in made.real.iter_mut().zip(zeros) {
                        real[element * n + column] = (code as f64 - zero) * scale;
                    }
                }
            }
        }
    }
    made
}

impl Case {
    fn weights(&self, zeros: usize) -> Weights<'_> {
        let zeros = match zeros {
            0 => Zeros::Middle,
            1 => Zeros::Codes(&self.zero_codes),
            _ => Zeros::Numbers(Numbers::Float(&self.zero_numbers)),
        };
        let scales = Numbers::Float(&self.scales);
        Weights::new(self.layout, &self.codes, scales, zeros).unwrap()
    }

    /// Checks a product against f64; `tolerance` is relative to the sum of magnitudes.
    fn check<T: Real<Acc = f32>>(
        &self,
        compute: &Compute<'_>,
        m: usize,
        zeros: usize,
        tolerance: f64,
    ) {
        let Layout {
            k, n, bits, block, ..
        } = self.layout;
        let a: Vec<T> = (0..m * k)
            .map(|i| T::from_acc(spread(i, 5) as f32 / 32_760.0 - 1.0))
            .collect();
        let bias: Vec<T> = (0..n)
            .map(|i| T::from_acc(spread(i, 6) as f32 / 65_521.0))
            .collect();
        let view = View::from_slice(&a, &[m, k]).unwrap();
        for bias in [None, Some(&bias[..])] {
            let mut out = vec![T::from_acc(9e9); m * n];
            multiply(compute, &view, &self.weights(zeros), bias, &mut out).unwrap();
            for row in 0..m {
                for column in 0..n {
                    let products = (0..k).map(|i| {
                        f64::from(a[row * k + i].to_acc()) * self.real[zeros][i * n + column]
                    });
                    let (mut want, mut size) = (0.0, 1.0);
                    for x in products {
                        want += x;
                        size += x.abs();
                    }
                    want += bias.map_or(0.0, |bias| f64::from(bias[column].to_acc()));
                    let got = f64::from(out[row * n + column].to_acc());
                    assert!(
                        (got - want).abs() <= tolerance * size,
                        "{} bits {bits} block {block} {m}x{k}x{n} zeros {zeros} at {row}, {column}: got {got}, want {want}",
                        compute.isa
                    );
                }
            }
        }
    }
}

#[test]
fn every_width_block_and_zero_point() {
    let pool = ThreadPool::new(2);
    for isa in Isa::available() {
        let compute = Compute::new(isa, &pool);
        for bits in [2, 4, 8] {
            for (k, n, block) in [
                (1, 1, 16),
                (16, 3, 16),
                (17, 5, 16),
                (48, 7, 16),
                (80, 6, 32),
                (33, 4, 32),
                (100, 9, 64),
                (300, 5, 128),
                (257, 3, 256),
                (700, 11, 32),
                (5, 2, 512),
            ] {
                let case = case(bits, k, n, block);
                for m in [1, 2, 3, 4, 5, 7, 8, 9, 13] {
                    for zeros in 0..3 {
                        case.check::<f32>(&compute, m, zeros, 2e-6);
                    }
                }
                case.check::<f16>(&compute, 3, 1, 1e-3);
                case.check::<bf16>(&compute, 10, 0, 8e-3);
            }
        }
    }
}

#[test]
fn scales_and_zero_points_of_half_types() {
    let case = case(4, 96, 5, 32);
    let halves: Vec<f16> = case.scales.iter().map(|x| f16::from_f32(*x)).collect();
    let brains: Vec<bf16> = case
        .zero_numbers
        .iter()
        .map(|x| bf16::from_f32(*x))
        .collect();
    let weights = Weights::new(
        case.layout,
        &case.codes,
        Numbers::Float16(&halves),
        Zeros::Numbers(Numbers::Bfloat16(&brains)),
    )
    .unwrap();
    // The same numbers as f32 give the same bits.
    let scales: Vec<f32> = halves.iter().map(|x| x.to_f32()).collect();
    let zeros: Vec<f32> = brains.iter().map(|x| x.to_f32()).collect();
    let same = Weights::new(
        case.layout,
        &case.codes,
        Numbers::Float(&scales),
        Zeros::Numbers(Numbers::Float(&zeros)),
    )
    .unwrap();
    let a: Vec<f32> = (0..12 * 96).map(|i| spread(i, 7) as f32 / 9e4).collect();
    for m in [1, 12] {
        let view = View::from_slice(&a[..m * 96], &[m, 96]).unwrap();
        let (mut one, mut two) = (vec![0f32; m * 5], vec![1f32; m * 5]);
        let compute = Compute::default();
        multiply(&compute, &view, &weights, None, &mut one).unwrap();
        multiply(&compute, &view, &same, None, &mut two).unwrap();
        assert_eq!(one, two);
    }
}

#[test]
fn thread_counts_do_not_change_a_bit() {
    let (one, five) = (ThreadPool::new(1), ThreadPool::new(5));
    for (m, k, n) in [(1, 1024, 1100), (6, 512, 700), (40, 600, 333)] {
        let case = case(4, k, n, 32);
        let a: Vec<f32> = (0..m * k)
            .map(|i| spread(i, 8) as f32 / 7e4 - 0.4)
            .collect();
        let view = View::from_slice(&a, &[m, k]).unwrap();
        for isa in Isa::available() {
            let mut outs = [vec![0f32; m * n], vec![1f32; m * n]];
            for (pool, out) in [&one, &five].into_iter().zip(&mut outs) {
                let compute = Compute::new(isa, pool);
                multiply(&compute, &view, &case.weights(1), None, out).unwrap();
            }
            assert_eq!(outs[0], outs[1]);
        }
    }
}

#[test]
fn rows_of_any_strides_and_none_at_all() {
    let case = case(8, 48, 3, 16);
    let a: Vec<f32> = (0..2 * 48).map(|i| spread(i, 9) as f32 / 1e5).collect();
    let turned: Vec<f32> = (0..96).map(|i| a[i % 2 * 48 + i / 2]).collect();
    let compute = Compute::default();
    let (mut one, mut two) = (vec![0f32; 6], vec![1f32; 6]);
    let dense = View::from_slice(&a, &[2, 48]).unwrap();
    let strided = View::from_slice(&turned, &[48, 2])
        .unwrap()
        .swap(0, 1)
        .unwrap();
    multiply(&compute, &dense, &case.weights(0), None, &mut one).unwrap();
    multiply(&compute, &strided, &case.weights(0), None, &mut two).unwrap();
    assert_eq!(one, two);
    let none = View::from_slice(&[], &[0, 48]).unwrap();
    multiply::<f32>(&compute, &none, &case.weights(0), None, &mut []).unwrap();
}

#[test]
fn parts_that_do_not_fit_are_errors() {
    for (bits, k, n, block) in [
        (3, 16, 1, 16),
        (4, 0, 1, 16),
        (4, 16, 0, 16),
        (4, 16, 1, 8),
        (4, 16, 1, 48),
        (4, usize::MAX, 1, 16),
        (8, 1 << 31, 1 << 31, 1 << 30),
    ] {
        assert!(matches!(
            Layout::new(bits, k, n, block),
            Err(KernelError::Range { .. })
        ));
    }
    let layout = Layout::new(4, 32, 2, 16).unwrap();
    let (codes, scales) = ([0u8; 32], [0f32; 4]);
    let make = |codes, scales, zeros| {
        Weights::new(layout, codes, Numbers::Float(scales), zeros).map(|_| ())
    };
    assert!(make(&codes, &scales, Zeros::Middle).is_ok());
    assert!(make(&codes[1..], &scales, Zeros::Middle).is_err());
    assert!(make(&codes, &scales[1..], Zeros::Middle).is_err());
    assert!(make(&codes, &scales, Zeros::Codes(&[0; 3])).is_err());
    assert!(
        make(
            &codes,
            &scales,
            Zeros::Numbers(Numbers::Float(&scales[1..]))
        )
        .is_err()
    );
    let weights = Weights::new(layout, &codes, Numbers::Float(&scales), Zeros::Middle).unwrap();
    let (compute, a) = (Compute::default(), [0f32; 32]);
    let view = View::from_slice(&a, &[1, 32]).unwrap();
    let short = View::from_slice(&a[1..], &[1, 31]).unwrap();
    assert!(multiply(&compute, &short, &weights, None, &mut [0.0; 2]).is_err());
    assert!(multiply(&compute, &view, &weights, None, &mut [0.0; 3]).is_err());
    assert!(multiply(&compute, &view, &weights, Some(&[0.0]), &mut [0.0; 2]).is_err());
}

/// Codes in row-major order, packed by the definition.
fn packed(codes: &[i32], bits: usize) -> Vec<u8> {
    let mut bytes = vec![0u8; (codes.len() * bits).div_ceil(8)];
    for (index, code) in codes.iter().enumerate() {
        let code = code.cast_unsigned() & ((1 << bits) - 1);
        bytes[index * bits / 8] |= (code << (index * bits % 8)) as u8;
    }
    bytes
}

#[test]
fn codes_by_row_become_codes_by_column() {
    let compute = Compute::default();
    for (dtype, low) in [
        (DType::Int2, -2),
        (DType::Uint2, 0),
        (DType::Int4, -8),
        (DType::Uint4, 0),
        (DType::Int8, -128),
        (DType::Uint8, 0),
    ] {
        let bits = dtype.bits();
        for (k, n, block) in [(64, 5, 32), (50, 3, 16), (96, 70, 48), (33usize, 2, 512)] {
            let blocks = k.div_ceil(block);
            let draw = |count: usize, seed| -> Vec<i32> {
                (0..count)
                    .map(|i| low + (spread(i, seed) % (1 << bits)) as i32)
                    .collect()
            };
            let (codes, zeros) = (draw(k * n, 1), draw(blocks * n, 2));
            let scales: Vec<f32> = (0..blocks * n)
                .map(|i| 0.01 + spread(i, 3) as f32 / 1e6)
                .collect();
            let (bytes, zero_bytes) = (packed(&codes, bits), packed(&zeros, bits));
            for with_zeros in [false, true] {
                let rows = RowCodes {
                    dtype,
                    k,
                    n,
                    codes: &bytes,
                    block,
                    scales: View::from_slice(&scales, &[blocks, n]).unwrap(),
                    zeros: with_zeros.then_some(&zero_bytes[..]),
                };
                let repacked = repack(&compute, &rows).unwrap();
                let weights = repacked.weights().unwrap();
                // The product with a unit row is a row of the matrix.
                for row in [0, 1, k / 2, k - 1] {
                    let mut unit = vec![0f32; k];
                    unit[row] = 1.0;
                    let view = View::from_slice(&unit, &[1, k]).unwrap();
                    let mut out = vec![0f32; n];
                    multiply(&compute, &view, &weights, None, &mut out).unwrap();
                    for (column, got) in out.iter().enumerate() {
                        let at = row / block * n + column;
                        let zero = if with_zeros { zeros[at] } else { 0 };
                        let want = (codes[row * n + column] - zero) as f32 * scales[at];
                        assert!((got - want).abs() <= 1e-5 * (1.0 + want.abs()), "{dtype}");
                    }
                }
            }
        }
    }
}

#[test]
fn layouts_that_products_do_not_know_are_left() {
    let (codes, scales) = ([0u8; 320], [1f32; 40]);
    let rows = |block, blocks: usize, dtype| RowCodes {
        dtype,
        k: 40,
        n: 8,
        codes: &codes,
        block,
        scales: View::from_slice(&scales[..blocks * 8], &[blocks, 8]).unwrap(),
        zeros: None,
    };
    let compute = Compute::default();
    assert!(repack(&compute, &rows(16, 3, DType::Int8)).is_some());
    for left in [
        rows(20, 2, DType::Int8),
        rows(8, 5, DType::Int8),
        rows(16, 2, DType::Int8),
        rows(16, 3, DType::Int4),
        rows(16, 3, DType::Int16),
    ] {
        assert!(repack(&compute, &left).is_none());
    }
}
