//! The second half of `Gemm`: scaling a product and adding a scaled matrix.

use crate::KernelError;
use half::{bf16, f16};
use refeed_values::{Element, View};

/// An element type that `Gemm` scales and adds.
pub trait Affine: Element {
    /// `alpha * self + beta * c`, rounded once. Integers wrap around where both factors are 1, and go through f64,
    /// cut towards zero, where they are not.
    fn affine(self, alpha: f32, c: Self, beta: f32) -> Self;
}

macro_rules! affine_integers {
    ($($t:ty),*) => { $(impl Affine for $t {
        fn affine(self, alpha: f32, c: $t, beta: f32) -> $t {
            match (alpha, beta) {
                (1.0, 1.0) => self.wrapping_add(c),
                (1.0, 0.0) => self,
                _ => (f64::from(alpha) * self as f64 + f64::from(beta) * c as f64) as $t,
            }
        }
    })* };
}
affine_integers!(i32, i64, u32, u64);

impl Affine for f32 {
    fn affine(self, alpha: f32, c: f32, beta: f32) -> f32 {
        alpha * self + beta * c
    }
}
impl Affine for f64 {
    fn affine(self, alpha: f32, c: f64, beta: f32) -> f64 {
        f64::from(alpha) * self + f64::from(beta) * c
    }
}
macro_rules! affine_halves {
    ($($t:ty),*) => { $(impl Affine for $t {
        fn affine(self, alpha: f32, c: $t, beta: f32) -> $t {
            <$t>::from_f32(alpha * self.to_f32() + beta * c.to_f32())
        }
    })* };
}
affine_halves!(f16, bf16);

/// Turns a product of shape `[m, n]` into `alpha * product + beta * c`, where `c` broadcasts to it; `c` is not read when
/// `beta` is 0.
///
/// Source: ONNX operator `Gemm`.
///
/// # Errors
/// When `c` does not broadcast to the product or `product` has another length.
pub fn scale_and_add<T: Affine>(
    product: &mut [T],
    [m, n]: [usize; 2],
    alpha: f32,
    c: Option<&View<'_, T>>,
    beta: f32,
) -> Result<(), KernelError> {
    KernelError::check_len("product", m.saturating_mul(n), product.len())?;
    // A factor of 0 means that C is not there: its infinities and NaN must not come through.
    let Some(c) = c.filter(|_| beta != 0.0) else {
        if alpha != 1.0 {
            for value in product {
                *value = value.affine(alpha, T::default(), 0.0);
            }
        }
        return Ok(());
    };
    let c = c
        .broadcast(&[m, n])
        .ok_or_else(|| KernelError::shape("C", &[m, n], c.shape()))?;
    if product.is_empty() {
        return Ok(());
    }
    for (lane, row) in c.lanes().zip(product.chunks_exact_mut(n)) {
        match lane.as_slice() {
            Some(c) => row
                .iter_mut()
                .zip(c)
                .for_each(|(value, &c)| *value = value.affine(alpha, c, beta)),
            None => row
                .iter_mut()
                .zip(lane.iter())
                .for_each(|(value, c)| *value = value.affine(alpha, c, beta)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_broadcast_of_c() {
        let product: Vec<f64> = (0..6).map(|i| f64::from(i) - 2.5).collect();
        let data: Vec<f64> = (0..6).map(|i| f64::from(i * i)).collect();
        for (shape, at) in [
            (&[2, 3][..], (|i, j| i * 3 + j) as fn(usize, usize) -> usize),
            (&[3], |_, j| j),
            (&[2, 1], |i, _| i),
            (&[1, 1], |_, _| 0),
            (&[], |_, _| 0),
        ] {
            let c = View::from_slice(&data[..shape.iter().product()], shape).unwrap();
            let mut out = product.clone();
            scale_and_add(&mut out, [2, 3], 0.5, Some(&c), -2.0).unwrap();
            for i in 0..2 {
                for j in 0..3 {
                    assert_eq!(
                        out[i * 3 + j],
                        0.5 * product[i * 3 + j] - 2.0 * data[at(i, j)],
                        "{shape:?}"
                    );
                }
            }
        }
        let c = View::from_slice(&data[..2], &[2]).unwrap();
        assert!(scale_and_add(&mut product.clone(), [2, 3], 1.0, Some(&c), 1.0).is_err());
        assert!(scale_and_add(&mut product.clone(), [2, 2], 1.0, None, 1.0).is_err());
    }

    #[test]
    fn integers_stay_exact_without_factors() {
        let mut out = [i64::MAX, 3];
        let c = View::from_slice(&[1i64, (1 << 60) + 1], &[2]).unwrap();
        scale_and_add(&mut out, [1, 2], 1.0, Some(&c), 1.0).unwrap();
        assert_eq!(out, [i64::MIN, (1 << 60) + 4]);
        let mut out = [5u32, 7];
        scale_and_add(&mut out, [1, 2], 0.5, None, 1.0).unwrap();
        assert_eq!(out, [2, 3]);
    }

    #[test]
    fn a_factor_of_zero_does_not_read_c() {
        let c = [f32::NAN, f32::INFINITY];
        let c = View::from_slice(&c, &[2]).unwrap();
        let mut product = [1.0f32, 2.0];
        scale_and_add(&mut product, [1, 2], 3.0, Some(&c), 0.0).unwrap();
        assert_eq!(product, [3.0, 6.0]);
    }
}
