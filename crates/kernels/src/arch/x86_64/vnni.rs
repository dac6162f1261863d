//! Dot products of bytes: AVX-512 VNNI.

use super::Avx512;
use std::arch::x86_64::*;

/// Proof that the CPU has AVX-512 VNNI and what [`Avx512`] asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Vnni(Avx512);

/// A computation on bytes. Implementations mark `run` `#[inline(always)]`.
pub(crate) trait ByteOp {
    /// Runs on the vectors of `v`.
    fn run(self, v: Vnni);
}

/// A register of 64 bytes or of sixteen i32.
pub(crate) type Bytes = __m512i;

impl Vnni {
    /// `None` when the CPU lacks a feature.
    pub(crate) fn new() -> Option<Vnni> {
        let found = std::arch::is_x86_feature_detected!("avx512vnni");
        Avx512::new().filter(|_| found).map(Vnni)
    }

    /// The vectors of f32.
    #[inline(always)]
    pub(crate) fn numbers(self) -> Avx512 {
        self.0
    }

    /// Runs `op` in a function of its own.
    pub(crate) fn apart<O: ByteOp>(self, op: O) {
        #[inline(never)]
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
        fn inner<O: ByteOp>(v: Vnni, op: O) {
            op.run(v);
        }
        // SAFETY: the token proves the features.
        unsafe { inner(self, op) }
    }

    /// Asks for bytes that will be read at once, for the first cache.
    #[inline(always)]
    pub(crate) fn fetch(self, x: &[u8]) {
        for line in x.chunks(64) {
            // SAFETY: a hint that reads nothing; the address is inside the slice.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
        }
    }

    /// All lanes `x`.
    #[inline(always)]
    pub(crate) fn splat(self, x: i32) -> Bytes {
        // SAFETY: the token proves the features.
        unsafe { _mm512_set1_epi32(x) }
    }

    /// All bytes `x`.
    #[inline(always)]
    pub(crate) fn splat_byte(self, x: u8) -> Bytes {
        self.splat(i32::from_ne_bytes([x; 4]))
    }

    /// The first four bytes in all lanes.
    #[inline(always)]
    pub(crate) fn splat_four(self, x: &[u8]) -> Bytes {
        self.splat(i32::from_ne_bytes([x[0], x[1], x[2], x[3]]))
    }

    /// The first 64 bytes.
    #[inline(always)]
    pub(crate) fn load(self, x: &[u8]) -> Bytes {
        // SAFETY: the token proves the features; the slice holds the bytes read.
        unsafe { _mm512_loadu_si512(x[..64].as_ptr().cast()) }
    }

    /// Writes 64 bytes.
    #[inline(always)]
    pub(crate) fn store(self, x: Bytes, out: &mut [u8]) {
        // SAFETY: the token proves the features; the slice holds the bytes written.
        unsafe { _mm512_storeu_si512(out[..64].as_mut_ptr().cast(), x) }
    }

    /// The lowest byte of each lane.
    #[inline(always)]
    pub(crate) fn low_bytes(self, x: Bytes) -> [u8; 16] {
        let mut out = [0; 16];
        // SAFETY: the token proves the features; the array holds the bytes written.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(x)) }
        out
    }

    /// `x` without the bits of `flip` that it has, and with those that it lacks.
    #[inline(always)]
    pub(crate) fn xor(self, x: Bytes, flip: Bytes) -> Bytes {
        // SAFETY: the token proves the features.
        unsafe { _mm512_xor_si512(x, flip) }
    }

    /// Code number `part` of each byte, of `PARTS` codes a byte, without a sign.
    #[inline(always)]
    pub(crate) fn part<const PARTS: usize>(self, x: Bytes, part: usize) -> Bytes {
        // SAFETY: the token proves the features.
        unsafe {
            match (PARTS, part) {
                (1, _) => x,
                (2, 0) => _mm512_and_si512(x, _mm512_set1_epi8(15)),
                (2, _) => _mm512_and_si512(_mm512_srli_epi16::<4>(x), _mm512_set1_epi8(15)),
                (_, 0) => _mm512_and_si512(x, _mm512_set1_epi8(3)),
                (_, 1) => _mm512_and_si512(_mm512_srli_epi16::<2>(x), _mm512_set1_epi8(3)),
                (_, 2) => _mm512_and_si512(_mm512_srli_epi16::<4>(x), _mm512_set1_epi8(3)),
                (_, _) => _mm512_and_si512(_mm512_srli_epi16::<6>(x), _mm512_set1_epi8(3)),
            }
        }
    }

    /// Differences of bytes.
    #[inline(always)]
    pub(crate) fn minus(self, a: Bytes, b: Bytes) -> Bytes {
        // SAFETY: the token proves the features.
        unsafe { _mm512_sub_epi8(a, b) }
    }

    /// Differences of lanes.
    #[inline(always)]
    pub(crate) fn less(self, a: Bytes, b: Bytes) -> Bytes {
        // SAFETY: the token proves the features.
        unsafe { _mm512_sub_epi32(a, b) }
    }

    /// Sums of lanes.
    #[inline(always)]
    pub(crate) fn plus(self, a: Bytes, b: Bytes) -> Bytes {
        // SAFETY: the token proves the features.
        unsafe { _mm512_add_epi32(a, b) }
    }

    /// The lanes without their lowest byte.
    #[inline(always)]
    pub(crate) fn drop_byte(self, x: Bytes) -> Bytes {
        // SAFETY: the token proves the features.
        unsafe { _mm512_srai_epi32::<8>(x) }
    }

    /// The lowest byte of each lane, with its sign.
    #[inline(always)]
    pub(crate) fn signed_byte(self, x: Bytes) -> Bytes {
        // SAFETY: the token proves the features.
        unsafe { _mm512_srai_epi32::<24>(_mm512_slli_epi32::<24>(x)) }
    }

    /// Each lane of `sums` and the products of its four bytes: those of `unsigned` have no sign, those of `signed` one.
    #[inline(always)]
    pub(crate) fn dot(self, sums: Bytes, unsigned: Bytes, signed: Bytes) -> Bytes {
        // SAFETY: the token proves the features.
        unsafe { _mm512_dpbusd_epi32(sums, unsigned, signed) }
    }

    /// Lanes as numbers.
    #[inline(always)]
    pub(crate) fn to_numbers(self, x: Bytes) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_cvtepi32_ps(x) }
    }

    /// The nearest whole numbers; ties go to even ones.
    #[inline(always)]
    pub(crate) fn nearest(self, x: __m512) -> Bytes {
        // SAFETY: the token proves the features.
        unsafe { _mm512_cvtps_epi32(x) }
    }

    /// Sum of the lanes.
    #[inline(always)]
    pub(crate) fn sum(self, x: Bytes) -> i32 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_reduce_add_epi32(x) }
    }

    /// Bytes `at..at + 16` of sixteen rows, `width` bytes each, four at a time: lane `j` of register `n` holds bytes
    /// `at + 4 * n..` of row `j`.
    #[inline(always)]
    pub(crate) fn sixteen_rows(self, rows: &[u8], width: usize, at: usize) -> [Bytes; 4] {
        let all = &rows[..15 * width + at + 16];
        // SAFETY: the token proves the features; the slice reaches to the last byte read, that of row 15.
        unsafe {
            let row = |j: usize| _mm_loadu_si128(all.as_ptr().add(j * width + at).cast());
            macro_rules! four {
                ($i:literal) => {{
                    let v = _mm512_castsi128_si512(row($i));
                    let v = _mm512_inserti32x4::<1>(v, row(4 + $i));
                    let v = _mm512_inserti32x4::<2>(v, row(8 + $i));
                    _mm512_inserti32x4::<3>(v, row(12 + $i))
                }};
            }
            let (a, b, c, d) = (four!(0), four!(1), four!(2), four!(3));
            let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
            let (ab2, cd2) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
            [
                _mm512_unpacklo_epi64(ab, cd),
                _mm512_unpackhi_epi64(ab, cd),
                _mm512_unpacklo_epi64(ab2, cd2),
                _mm512_unpackhi_epi64(ab2, cd2),
            ]
        }
    }

    /// Up to 64 bytes from `at` on of four rows, `width` bytes each, side by side: lane `i` of register `n` holds byte
    /// `at + 16 * n + i` of each row. What lies behind the end of the rows is 0.
    #[inline(always)]
    pub(crate) fn four_rows(self, rows: &[u8], width: usize, at: usize) -> [Bytes; 4] {
        let count = (width - at).min(64);
        let all = &rows[..3 * width + at + count];
        // SAFETY: the token proves the features; the slice reaches to the last byte read, that of row 3: bytes whose bit in the
        // mask is 0 are not read.
        unsafe {
            let mask = u64::MAX >> (64 - count);
            // In each quarter of a register every fourth of the groups of four bytes.
            let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            let row = |j: usize| {
                let from = all.as_ptr().add(j * width + at).cast();
                _mm512_permutexvar_epi32(order, _mm512_maskz_loadu_epi8(mask, from))
            };
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            let (ab, cd) = (_mm512_unpacklo_epi8(a, b), _mm512_unpacklo_epi8(c, d));
            let (ab2, cd2) = (_mm512_unpackhi_epi8(a, b), _mm512_unpackhi_epi8(c, d));
            [
                _mm512_unpacklo_epi16(ab, cd),
                _mm512_unpackhi_epi16(ab, cd),
                _mm512_unpacklo_epi16(ab2, cd2),
                _mm512_unpackhi_epi16(ab2, cd2),
            ]
        }
    }
}
