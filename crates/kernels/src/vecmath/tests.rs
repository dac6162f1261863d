use super::*;
use half::{bf16, f16};

/// Distance in units of the last place of the f32 nearest to `want`.
fn ulps(got: f32, want: f64) -> f64 {
    let near = want as f32;
    if got == near || (got.is_nan() && near.is_nan()) {
        return 0.0;
    }
    let spacing = f64::from(f32::from_bits(near.abs().to_bits() + 1)) - f64::from(near.abs());
    (f64::from(got) - want).abs() / spacing
}

/// Lengths around the edges of registers.
const LENGTHS: [usize; 13] = [0, 1, 7, 8, 9, 15, 16, 17, 35, 63, 64, 65, 200];

fn values(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

#[test]
fn exp_is_within_two_ulps() {
    for isa in Isa::available() {
        // every 601st float of the range, subnormal results included
        let mut worst = 0f64;
        let mut block = Vec::with_capacity(4096);
        let ranges = [
            (0f32.to_bits(), 88.7f32.to_bits()),
            ((-0.0f32).to_bits(), (-104.5f32).to_bits()),
        ];
        for (low, high) in ranges {
            let mut bits = low;
            while bits <= high {
                block.clear();
                while block.len() < 4096 && bits <= high {
                    block.push(f32::from_bits(bits));
                    bits += 601;
                }
                let mut got = block.clone();
                exp(isa, &mut got);
                for (x, y) in block.iter().zip(&got) {
                    worst = worst.max(ulps(*y, f64::from(*x).exp()));
                }
            }
        }
        assert!(worst <= 2.0, "{isa}: {worst} ulp");
    }
}

#[test]
fn exp_at_the_ends() {
    for isa in Isa::available() {
        let mut x = [
            f32::NEG_INFINITY,
            -1e30,
            -150.0,
            0.0,
            -0.0,
            100.0,
            f32::INFINITY,
            f32::NAN,
        ];
        exp(isa, &mut x);
        assert_eq!(
            x[..7],
            [0.0, 0.0, 0.0, 1.0, 1.0, f32::INFINITY, f32::INFINITY]
        );
        assert!(x[7].is_nan(), "{isa}");
    }
}

#[test]
fn sums_of_every_length_and_type() {
    for isa in Isa::available() {
        for n in LENGTHS {
            // one more element in front, so that starts are not aligned
            let (a, b) = (values(n + 1, 1), values(n + 1, 2));
            let (a, b) = (&a[1..], &b[1..]);
            let want: f64 = a
                .iter()
                .zip(b)
                .map(|(a, b)| f64::from(*a) * f64::from(*b))
                .sum();
            assert!((f64::from(dot(isa, a, b)) - want).abs() < 1e-5, "{isa} {n}");
            let half: Vec<f16> = b.iter().map(|x| f16::from_f32(*x)).collect();
            let want: f64 = a
                .iter()
                .zip(&half)
                .map(|(a, b)| f64::from(*a) * b.to_f64())
                .sum();
            assert!(
                (f64::from(dot(isa, a, &half)) - want).abs() < 1e-5,
                "{isa} {n}"
            );
            let brain: Vec<bf16> = b.iter().map(|x| bf16::from_f32(*x)).collect();
            let want: f64 = a
                .iter()
                .zip(&brain)
                .map(|(a, b)| f64::from(*a) * b.to_f64())
                .sum();
            assert!(
                (f64::from(dot(isa, a, &brain)) - want).abs() < 1e-5,
                "{isa} {n}"
            );
            let wide: Vec<f64> = a.iter().map(|x| f64::from(*x)).collect();
            let want: f64 = wide.iter().map(|x| x * x).sum();
            assert!((dot(isa, &wide, &wide) - want).abs() < 1e-13, "{isa} {n}");
            let want: f64 = wide.iter().sum();
            assert!((f64::from(sum(isa, a)) - want).abs() < 1e-5, "{isa} {n}");
            let want: f64 = wide.iter().map(|x| (x - 0.5).powi(2)).sum();
            assert!(
                (f64::from(sum_squares(isa, a, 0.5)) - want).abs() < 1e-4,
                "{isa} {n}"
            );
            let want = a.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(max(isa, a), want, "{isa} {n}");
            let mut y = b.to_vec();
            axpy(isa, 1.5, &half, &mut y);
            for ((y, b), h) in y.iter().zip(b).zip(&half) {
                assert!((y - (b + 1.5 * h.to_f32())).abs() < 1e-6, "{isa} {n}");
            }
        }
    }
}

#[test]
fn max_passes_over_nan() {
    for isa in Isa::available() {
        for at in [0, 3, 17, 30] {
            let mut x = vec![-5.0f32; 33];
            x[at] = f32::NAN;
            x[(at + 5) % 33] = -2.0;
            assert_eq!(max(isa, &x), -2.0, "{isa} {at}");
        }
    }
}

#[test]
fn activations_follow_their_formulas() {
    for isa in Isa::available() {
        let x: Vec<f32> = (-3000..3000).map(|i| i as f32 / 137.0).collect();
        let mut t = x.clone();
        tanh(isa, &mut t);
        let mut g = x.clone();
        sigmoid(isa, &mut g);
        for ((x, t), g) in x.iter().zip(&t).zip(&g) {
            assert!(ulps(*t, f64::from(*x).tanh()) <= 3.0, "{isa} tanh {x}");
            let want = 1.0 / (1.0 + (-f64::from(*x)).exp());
            assert!(ulps(*g, want) <= 4.0, "{isa} sigmoid {x}");
        }
        let mut edge = [f32::NEG_INFINITY, f32::INFINITY, f32::NAN, 1e-30, 0.0];
        tanh(isa, &mut edge);
        assert_eq!(
            (edge[0], edge[1], edge[3], edge[4]),
            (-1.0, 1.0, 1e-30, 0.0)
        );
        assert!(edge[2].is_nan());
        let wide: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        let mut t = wide.clone();
        tanh(isa, &mut t);
        for (x, t) in wide.iter().zip(&t) {
            assert!((t - x.tanh()).abs() <= 1e-15, "{isa} {x}");
        }
    }
}

#[test]
fn softmax_of_every_length() {
    for isa in Isa::available() {
        for n in LENGTHS {
            let x: Vec<f32> = values(n, 9).iter().map(|x| x * 90.0).collect();
            let exact: Vec<f64> = x.iter().map(|x| f64::from(*x).exp()).collect();
            let total: f64 = exact.iter().sum();
            let mut p = x.clone();
            softmax(isa, &mut p);
            let mut l = x.clone();
            log_softmax(isa, &mut l);
            for i in 0..n {
                assert!(
                    (f64::from(p[i]) - exact[i] / total).abs() < 1e-6,
                    "{isa} {n}"
                );
                let want = f64::from(x[i]) - total.ln();
                assert!((f64::from(l[i]) - want).abs() < 2e-5, "{isa} {n}");
            }
        }
    }
}
