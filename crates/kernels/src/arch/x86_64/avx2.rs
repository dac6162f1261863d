//! AVX2 with FMA and F16C: eight f32 a register.

use crate::simd::{Op, Simd, exp_f32};
use half::{bf16, f16};
use std::arch::asm;
use std::arch::x86_64::*;

super::token! {
    /// Proof that the CPU has AVX2, FMA and F16C.
    Avx2, "avx2,fma,f16c", ["avx2", "fma", "f16c"]
}

/// The register as it is: no instruction, but one that the compiler leaves where it stands among its like.
#[inline]
#[target_feature(enable = "avx")]
fn kept(mut v: __m256) -> __m256 {
    // SAFETY: there is no instruction.
    unsafe { asm!("/* {v} */", v = inout(ymm_reg) v, options(nomem, nostack, preserves_flags)) };
    v
}

impl Simd<f32> for Avx2 {
    type V = __m256;
    const LANES: usize = 8;
    const TILE_ROWS: usize = 6;

    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        // SAFETY: the token proves the features.
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    fn load(self, x: &[f32]) -> __m256 {
        // SAFETY: the token proves the features; the slice holds the eight elements read.
        unsafe { _mm256_loadu_ps(x[..8].as_ptr()) }
    }
    #[inline(always)]
    fn load_f16(self, x: &[f16]) -> __m256 {
        // SAFETY: as for `load`.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(x[..8].as_ptr().cast())) }
    }
    #[inline(always)]
    fn load_bf16(self, x: &[bf16]) -> __m256 {
        // SAFETY: as for `load`.
        unsafe {
            let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(x[..8].as_ptr().cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16))
        }
    }
    #[inline(always)]
    fn apart<O: Op<f32>>(self, op: O) -> O::Output {
        self.apart_f32(op)
    }
    #[inline(always)]
    fn in_turn(self, v: __m256) -> __m256 {
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
    fn store(self, v: __m256, out: &mut [f32]) {
        // SAFETY: the token proves the features; the slice holds the eight elements written.
        unsafe { _mm256_storeu_ps(out[..8].as_mut_ptr(), v) }
    }
    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token proves the features.
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token proves the features.
        unsafe { _mm256_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token proves the features.
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token proves the features.
        unsafe { _mm256_div_ps(a, b) }
    }
    #[inline(always)]
    fn fma(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: the token proves the features.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token proves the features.
        unsafe { _mm256_max_ps(a, b) }
    }
    #[inline(always)]
    fn min(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the token proves the features.
        unsafe { _mm256_min_ps(a, b) }
    }
    #[inline(always)]
    fn select_lt(self, a: __m256, b: __m256, x: __m256, y: __m256) -> __m256 {
        // SAFETY: the token proves the features.
        unsafe { _mm256_blendv_ps(y, x, _mm256_cmp_ps::<_CMP_LT_OQ>(a, b)) }
    }
    #[inline(always)]
    fn sum(self, v: __m256) -> f32 {
        // SAFETY: the token proves the features.
        unsafe {
            let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }
    #[inline(always)]
    fn sum_four(self, [a, b, c, d]: [__m256; 4]) -> [f32; 4] {
        let mut out = [0.0; 4];
        // SAFETY: the token proves the features; `out` holds the four elements written.
        unsafe {
            let ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            let cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
            let (ab, cd) = (_mm256_castps_pd(ab), _mm256_castps_pd(cd));
            let low = _mm256_castpd_ps(_mm256_unpacklo_pd(ab, cd));
            let high = _mm256_castpd_ps(_mm256_unpackhi_pd(ab, cd));
            let all = _mm256_add_ps(low, high);
            let four = _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps::<1>(all));
            _mm_storeu_ps(out.as_mut_ptr(), four);
        }
        out
    }
    #[inline(always)]
    fn largest(self, v: __m256) -> f32 {
        // SAFETY: the token proves the features.
        unsafe {
            let four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
        }
    }
    #[inline(always)]
    fn exp(self, v: __m256) -> __m256 {
        use exp_f32::*;
        // SAFETY: the token proves the features.
        unsafe {
            // min and max give their second operand for NaN, so NaN stays.
            let x = _mm256_min_ps(_mm256_set1_ps(HIGH), v);
            let x = _mm256_max_ps(_mm256_set1_ps(LOW), x);
            let n = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(
                _mm256_mul_ps(x, _mm256_set1_ps(LOG2_E)),
            );
            let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN2_HIGH), x);
            let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN2_LOW), r);
            let mut p = _mm256_set1_ps(P[0]);
            for c in &P[1..] {
                p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(*c));
            }
            let y = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r);
            let y = _mm256_add_ps(y, _mm256_set1_ps(1.0));
            // 2^n in two factors, so that results may be subnormal or infinite.
            let n = _mm256_cvtps_epi32(n);
            let half = _mm256_srai_epi32::<1>(n);
            let bias = _mm256_set1_epi32(127);
            let low = _mm256_slli_epi32::<23>(_mm256_add_epi32(half, bias));
            let high = _mm256_slli_epi32::<23>(_mm256_add_epi32(_mm256_sub_epi32(n, half), bias));
            let y = _mm256_mul_ps(y, _mm256_castsi256_ps(low));
            _mm256_mul_ps(y, _mm256_castsi256_ps(high))
        }
    }
    type Bytes = __m256i;
    #[inline(always)]
    fn load_bytes<const SIGNED: bool>(self, x: &[u8]) -> __m256i {
        // SAFETY: the token proves the features; the slice holds the eight bytes read.
        unsafe {
            let bytes = _mm_loadl_epi64(x[..8].as_ptr().cast());
            match SIGNED {
                true => _mm256_cvtepi8_epi32(bytes),
                false => _mm256_cvtepu8_epi32(bytes),
            }
        }
    }
    #[inline(always)]
    fn whole<const SIGNED: bool>(self, x: __m256i) -> __m256 {
        // SAFETY: the token proves the features.
        unsafe { _mm256_cvtepi32_ps(x) }
    }
    #[inline(always)]
    fn half<const SIGNED: bool>(self, x: __m256i, part: usize) -> __m256 {
        // SAFETY: the token proves the features.
        unsafe {
            // Bytes were loaded with or without their sign, which is that of the high half.
            let codes = match (SIGNED, part) {
                (true, 0) => _mm256_srai_epi32::<28>(_mm256_slli_epi32::<28>(x)),
                (true, _) => _mm256_srai_epi32::<4>(x),
                (false, 0) => _mm256_and_si256(x, _mm256_set1_epi32(15)),
                (false, _) => _mm256_srli_epi32::<4>(x),
            };
            _mm256_cvtepi32_ps(codes)
        }
    }
    #[inline(always)]
    fn quarter<const SIGNED: bool>(self, x: __m256i, part: usize) -> __m256 {
        // SAFETY: the token proves the features.
        unsafe {
            // The lowest three bits of a lane choose an entry; the third one changes nothing.
            let table = match SIGNED {
                true => _mm256_setr_ps(0.0, 1.0, -2.0, -1.0, 0.0, 1.0, -2.0, -1.0),
                false => _mm256_setr_ps(0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0),
            };
            let which = match part {
                0 => x,
                1 => _mm256_srli_epi32::<2>(x),
                2 => _mm256_srli_epi32::<4>(x),
                _ => _mm256_srli_epi32::<6>(x),
            };
            _mm256_permutevar8x32_ps(table, which)
        }
    }
    #[inline(always)]
    fn interleave(self, a: __m256, b: __m256) -> [__m256; 2] {
        // SAFETY: the token proves the features.
        unsafe {
            let (low, high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            [
                _mm256_permute2f128_ps::<0x20>(low, high),
                _mm256_permute2f128_ps::<0x31>(low, high),
            ]
        }
    }
    #[inline(always)]
    fn sums(self, v: &[__m256], out: &mut [f32]) {
        let (mut eights, mut slots) = (v.chunks_exact(8), out.chunks_exact_mut(8));
        for (v, out) in (&mut eights).zip(&mut slots) {
            // SAFETY: the token proves the features; the slice holds eight elements.
            unsafe {
                // Pairs of registers are added so that each lane of the sum belongs to one of them. Macros, because a
                // closure that stays a call would be compiled for the baseline CPU.
                macro_rules! two {
                    ($at:expr) => {
                        _mm256_add_ps(
                            _mm256_unpacklo_ps(v[$at], v[$at + 1]),
                            _mm256_unpackhi_ps(v[$at], v[$at + 1]),
                        )
                    };
                }
                macro_rules! four {
                    ($at:expr) => {{
                        let (a, b) = (_mm256_castps_pd(two!($at)), _mm256_castps_pd(two!($at + 2)));
                        _mm256_add_ps(
                            _mm256_castpd_ps(_mm256_unpacklo_pd(a, b)),
                            _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)),
                        )
                    }};
                }
                let (low, high) = (four!(0), four!(4));
                let all = _mm256_add_ps(
                    _mm256_permute2f128_ps::<0x20>(low, high),
                    _mm256_permute2f128_ps::<0x31>(low, high),
                );
                _mm256_storeu_ps(out.as_mut_ptr(), all);
            }
        }
        for (v, slot) in eights.remainder().iter().zip(slots.into_remainder()) {
            *slot = self.sum(*v);
        }
    }
}
