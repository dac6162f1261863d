//! Codes as numbers.

use super::Weights;
use crate::attention::cells::{Cells, Codes2, Codes4, Codes8, in_order, load_part};
use crate::matmul::micro::Pieces;
use crate::simd::Simd;

/// Runs an expression with the cells of codes of a number of bits, as `$cells`.
macro_rules! with_codes {
    ($bits:expr, $cells:ident => $body:expr) => {
        match $bits {
            8 => {
                type $cells = Codes8<false>;
                $body
            }
            4 => {
                type $cells = Codes4<false>;
                $body
            }
            _ => {
                type $cells = Codes2<false>;
                $body
            }
        }
    };
}
pub(super) use with_codes;

/// Most numbers that a register of bytes stands for.
const MOST: usize = 64;

/// The first codes of `bytes` as numbers, as many as `out` has.
#[inline(always)]
pub(super) fn decode<C: Cells<Unit = u8>, S: Simd<f32>>(s: S, bytes: &[u8], out: &mut [f32]) {
    let (lanes, chunk) = (S::LANES, C::PARTS * S::LANES);
    for (bytes, out) in bytes.chunks(lanes).zip(out.chunks_mut(chunk)) {
        let held = match bytes.len() == lanes {
            true => C::load(s, bytes),
            false => load_part::<C, S>(s, bytes),
        };
        let mut numbers = [s.splat(0.0); 4];
        for (part, slot) in numbers.iter_mut().take(C::PARTS).enumerate() {
            *slot = C::part(s, held, part);
        }
        let numbers = in_order::<C, S>(s, numbers);
        let mut whole = [0.0; MOST];
        for (x, slot) in numbers.iter().zip(whole[..chunk].chunks_exact_mut(lanes)) {
            s.store(*x, slot);
        }
        out.copy_from_slice(&whole[..out.len()]);
    }
}

/// The columns of weights, decoded.
pub(super) struct Decoded<'w>(pub(super) &'w Weights<'w>);

impl Pieces<f32> for Decoded<'_> {
    #[inline(always)]
    fn piece<S: Simd<f32>>(&self, s: S, column: usize, start: usize, out: &mut [f32]) {
        let weights = self.0;
        let (bits, block) = (weights.layout.bits, weights.layout.block);
        // Pieces start at a multiple of the depth of a panel, which is one of whole bytes.
        let bytes = &weights.column(column)[start * bits / 8..];
        with_codes!(bits, C => decode::<C, S>(s, bytes, out));
        let mut at = start;
        let mut rest = out;
        while !rest.is_empty() {
            let which = at / block;
            let taken = ((which + 1) * block - at).min(rest.len());
            let (part, more) = rest.split_at_mut(taken);
            let (scale, zero) = (weights.scale(column, which), weights.zero(column, which));
            for x in part {
                *x = (*x - zero) * scale;
            }
            (at, rest) = (at + taken, more);
        }
    }
}
