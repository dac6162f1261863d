//! AVX-512 (F, BW, VL, DQ): sixteen f32 a register.

use crate::simd::{Op, Simd, exp_f32};
use half::{bf16, f16};
use std::arch::asm;
use std::arch::x86_64::*;

super::token! {
    /// Proof that the CPU has AVX-512 F, BW, VL and DQ, and what [`super::Avx2`] asks for.
    Avx512, "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c",
    ["avx512f", "avx512bw", "avx512vl", "avx512dq", "avx2", "fma", "f16c"]
}

/// The register as it is: no instruction, but one that the compiler leaves where it stands among its like.
#[inline]
#[target_feature(enable = "avx512f")]
fn kept(mut v: __m512) -> __m512 {
    // SAFETY: there is no instruction.
    unsafe { asm!("/* {v} */", v = inout(zmm_reg) v, options(nomem, nostack, preserves_flags)) };
    v
}

impl Simd<f32> for Avx512 {
    type V = __m512;
    const LANES: usize = 16;
    const TILE_ROWS: usize = 12;

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    fn load(self, x: &[f32]) -> __m512 {
        // SAFETY: the token proves the features; the slice holds the sixteen elements read.
        unsafe { _mm512_loadu_ps(x[..16].as_ptr()) }
    }
    #[inline(always)]
    fn load_f16(self, x: &[f16]) -> __m512 {
        // SAFETY: as for `load`.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(x[..16].as_ptr().cast())) }
    }
    #[inline(always)]
    fn load_bf16(self, x: &[bf16]) -> __m512 {
        // SAFETY: as for `load`.
        unsafe {
            let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(x[..16].as_ptr().cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits))
        }
    }
    #[inline(always)]
    fn apart<O: Op<f32>>(self, op: O) -> O::Output {
        self.apart_f32(op)
    }
    #[inline(always)]
    fn in_turn(self, v: __m512) -> __m512 {
        // SAFETY: the token proves the feature.
        unsafe { kept(v) }
    }
    #[inline(always)]
    fn prefetch<T>(self, x: &[T]) {
        let bytes = size_of_val(x);
        let mut at = 0;
        while at < bytes {
            // SAFETY: a hint that reads nothing; the address is inside the slice.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(x.as_ptr().cast::<i8>().add(at)) };
            at += 64;
        }
    }
    #[inline(always)]
    fn store(self, v: __m512, out: &mut [f32]) {
        // SAFETY: the token proves the features; the slice holds the sixteen elements written.
        unsafe { _mm512_storeu_ps(out[..16].as_mut_ptr(), v) }
    }
    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_min_ps(a, b) }
    }
    #[inline(always)]
    fn select_lt(self, a: __m512, b: __m512, x: __m512, y: __m512) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), y, x) }
    }
    #[inline(always)]
    fn sum(self, v: __m512) -> f32 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_reduce_add_ps(v) }
    }
    #[inline(always)]
    fn sum_four(self, [a, b, c, d]: [__m512; 4]) -> [f32; 4] {
        let mut out = [0.0; 4];
        // SAFETY: the token proves the features; `out` holds the four elements written.
        unsafe {
            let ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
            let cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
            let (ab, cd) = (_mm512_castps_pd(ab), _mm512_castps_pd(cd));
            let low = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd));
            let high = _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd));
            let all = _mm512_add_ps(low, high);
            let half = _mm256_add_ps(
                _mm512_castps512_ps256(all),
                _mm512_extractf32x8_ps::<1>(all),
            );
            let four = _mm_add_ps(
                _mm256_castps256_ps128(half),
                _mm256_extractf128_ps::<1>(half),
            );
            _mm_storeu_ps(out.as_mut_ptr(), four);
        }
        out
    }
    #[inline(always)]
    fn largest(self, v: __m512) -> f32 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_reduce_max_ps(v) }
    }
    #[inline(always)]
    fn exp(self, v: __m512) -> __m512 {
        use exp_f32::*;
        // SAFETY: the token proves the features.
        unsafe {
            // min and max give their second operand for NaN, so NaN stays.
            let x = _mm512_min_ps(_mm512_set1_ps(HIGH), v);
            let x = _mm512_max_ps(_mm512_set1_ps(LOW), x);
            let n = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(
                _mm512_mul_ps(x, _mm512_set1_ps(LOG2_E)),
            );
            let r = _mm512_fnmadd_ps(n, _mm512_set1_ps(LN2_HIGH), x);
            let r = _mm512_fnmadd_ps(n, _mm512_set1_ps(LN2_LOW), r);
            let mut p = _mm512_set1_ps(P[0]);
            for c in &P[1..] {
                p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(*c));
            }
            let y = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r);
            let y = _mm512_add_ps(y, _mm512_set1_ps(1.0));
            _mm512_scalef_ps(y, n)
        }
    }
    type Bytes = __m512i;
    #[inline(always)]
    fn load_bytes<const SIGNED: bool>(self, x: &[u8]) -> __m512i {
        // SAFETY: the token proves the features; the slice holds the sixteen bytes read.
        unsafe {
            let bytes = _mm_loadu_si128(x[..16].as_ptr().cast());
            match SIGNED {
                true => _mm512_cvtepi8_epi32(bytes),
                false => _mm512_cvtepu8_epi32(bytes),
            }
        }
    }
    #[inline(always)]
    fn whole<const SIGNED: bool>(self, x: __m512i) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_cvtepi32_ps(x) }
    }
    #[inline(always)]
    fn half<const SIGNED: bool>(self, x: __m512i, part: usize) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe {
            // The lowest four bits of a lane choose an entry.
            let table = match SIGNED {
                true => _mm512_setr_ps(
                    0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, -8.0, -7.0, -6.0, -5.0, -4.0, -3.0,
                    -2.0, -1.0,
                ),
                false => _mm512_setr_ps(
                    0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0,
                    15.0,
                ),
            };
            let which = match part {
                0 => x,
                _ => _mm512_srli_epi32::<4>(x),
            };
            _mm512_permutexvar_ps(which, table)
        }
    }
    #[inline(always)]
    fn quarter<const SIGNED: bool>(self, x: __m512i, part: usize) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe {
            // The lowest four bits of a lane choose an entry; the upper two of them change nothing.
            let table = match SIGNED {
                true => _mm512_setr4_ps(0.0, 1.0, -2.0, -1.0),
                false => _mm512_setr4_ps(0.0, 1.0, 2.0, 3.0),
            };
            let which = match part {
                0 => x,
                1 => _mm512_srli_epi32::<2>(x),
                2 => _mm512_srli_epi32::<4>(x),
                _ => _mm512_srli_epi32::<6>(x),
            };
            _mm512_permutexvar_ps(which, table)
        }
    }
    #[inline(always)]
    fn interleave(self, a: __m512, b: __m512) -> [__m512; 2] {
        // SAFETY: the token proves the features.
        unsafe {
            let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            let high =
                _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
            [
                _mm512_permutex2var_ps(a, low, b),
                _mm512_permutex2var_ps(a, high, b),
            ]
        }
    }
    #[inline(always)]
    fn sums(self, v: &[__m512], out: &mut [f32]) {
        let (mut all, mut slots) = (v.chunks_exact(16), out.chunks_exact_mut(16));
        for (v, out) in (&mut all).zip(&mut slots) {
            // SAFETY: the token proves the features; the slice holds sixteen elements.
            unsafe {
                // Pairs of registers are added so that each lane of the sum belongs to one of them. Macros, because a
                // closure that stays a call would be compiled for the baseline CPU.
                macro_rules! two {
                    ($at:expr) => {
                        _mm512_add_ps(
                            _mm512_unpacklo_ps(v[$at], v[$at + 1]),
                            _mm512_unpackhi_ps(v[$at], v[$at + 1]),
                        )
                    };
                }
                macro_rules! four {
                    ($at:expr) => {{
                        let (a, b) = (_mm512_castps_pd(two!($at)), _mm512_castps_pd(two!($at + 2)));
                        _mm512_add_ps(
                            _mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                            _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)),
                        )
                    }};
                }
                macro_rules! quarters {
                    ($a:expr, $b:expr) => {{
                        let (a, b) = ($a, $b);
                        _mm512_add_ps(
                            _mm512_shuffle_f32x4::<0x88>(a, b),
                            _mm512_shuffle_f32x4::<0xDD>(a, b),
                        )
                    }};
                }
                let (low, high) = (
                    quarters!(four!(0), four!(4)),
                    quarters!(four!(8), four!(12)),
                );
                _mm512_storeu_ps(out.as_mut_ptr(), quarters!(low, high));
            }
        }
        for (v, slot) in all.remainder().iter().zip(slots.into_remainder()) {
            *slot = self.sum(*v);
        }
    }
}
