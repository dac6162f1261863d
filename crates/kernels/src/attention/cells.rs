//! What the rows of keys and values are made of: numbers, or codes that stand for numbers.
//!
//! A row is a run of units (numbers, or bytes that hold one, two or four codes). A register's worth of units gives one
//! register of numbers for each code of a unit, its *parts*: part `p` has in lane `i` the number of element
//! `parts * i + p`. Queries are laid out in that order once ([`arrange`]), so that codes are multiplied where they come
//! up; sums are brought back into their own order ([`in_order`]).

use crate::simd::Simd;
use crate::storage::Real;
use refeed_values::Element;
use std::marker::PhantomData;

/// One kind of rows.
pub(crate) trait Cells: Copy {
    /// What a row consists of.
    type Unit: Element + Default;
    /// A register's worth of units.
    type Held<S: Simd<f32>>: Copy;
    /// Numbers that a unit stands for.
    const PARTS: usize;

    /// The first `LANES` units.
    fn load<S: Simd<f32>>(s: S, units: &[Self::Unit]) -> Self::Held<S>;
    /// Number `part` of each unit.
    fn part<S: Simd<f32>>(s: S, held: Self::Held<S>, part: usize) -> S::V;
}

/// Numbers of a storage type.
#[derive(Clone, Copy)]
pub(crate) struct Numbers<T>(PhantomData<T>);

impl<T: Real<Acc = f32>> Cells for Numbers<T> {
    type Unit = T;
    type Held<S: Simd<f32>> = S::V;
    const PARTS: usize = 1;

    #[inline(always)]
    fn load<S: Simd<f32>>(s: S, units: &[T]) -> S::V {
        T::load(s, units)
    }
    #[inline(always)]
    fn part<S: Simd<f32>>(_: S, held: S::V, _: usize) -> S::V {
        held
    }
}

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident, $parts:literal, |$s:ident, $held:ident, $part:ident| $number:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name<const SIGNED: bool>;

        impl<const SIGNED: bool> Cells for $name<SIGNED> {
            type Unit = u8;
            type Held<S: Simd<f32>> = S::Bytes;
            const PARTS: usize = $parts;

            #[inline(always)]
            fn load<S: Simd<f32>>(s: S, units: &[u8]) -> S::Bytes {
                s.load_bytes::<SIGNED>(units)
            }
            #[inline(always)]
            fn part<S: Simd<f32>>($s: S, $held: S::Bytes, $part: usize) -> S::V {
                $number
            }
        }
    };
}
codes! {
    /// A code a byte.
    Codes8, 1, |s, held, _part| s.whole::<SIGNED>(held)
}
codes! {
    /// Two codes a byte.
    Codes4, 2, |s, held, part| s.half::<SIGNED>(held, part)
}
codes! {
    /// Four codes a byte.
    Codes2, 4, |s, held, part| s.quarter::<SIGNED>(held, part)
}

/// The first units of a row that ends within a register, filled up with units that stand for 0.
#[inline(always)]
pub(crate) fn load_part<C: Cells, S: Simd<f32>>(s: S, units: &[C::Unit]) -> C::Held<S> {
    let mut padded = [C::Unit::default(); 16];
    padded[..units.len()].copy_from_slice(units);
    C::load(s, &padded[..S::LANES])
}

/// Elements of a row of `width` numbers in the order of parts, whole registers.
#[inline(always)]
pub(crate) fn arranged_len<S: Simd<f32>>(width: usize, parts: usize) -> usize {
    width.next_multiple_of(parts * S::LANES)
}

/// Lays a row out in the order of parts; the rest is 0.
#[inline(always)]
pub(crate) fn arrange<S: Simd<f32>>(row: &[f32], parts: usize, out: &mut [f32]) {
    match parts {
        2 => arrange_parts::<S, 2>(row, out),
        4 => arrange_parts::<S, 4>(row, out),
        _ => arrange_parts::<S, 1>(row, out),
    }
}

#[inline(always)]
fn arrange_parts<S: Simd<f32>, const PARTS: usize>(row: &[f32], out: &mut [f32]) {
    let chunk = PARTS * S::LANES;
    for (n, out) in out.chunks_exact_mut(chunk).enumerate() {
        let mut padded = [0.0; 64];
        let row = match row.get(n * chunk..(n + 1) * chunk) {
            Some(row) => row,
            None => {
                let rest = row.get(n * chunk..).unwrap_or_default();
                padded[..rest.len()].copy_from_slice(rest);
                &padded[..chunk]
            }
        };
        for (part, out) in out.chunks_exact_mut(S::LANES).enumerate() {
            for (x, slot) in row[part..].iter().step_by(PARTS).zip(out) {
                *slot = *x;
            }
        }
    }
}

/// The registers of all parts of the same units, in the order of elements.
#[inline(always)]
pub(crate) fn in_order<C: Cells, S: Simd<f32>>(s: S, v: [S::V; 4]) -> [S::V; 4] {
    match C::PARTS {
        2 => {
            let [a, b] = s.interleave(v[0], v[1]);
            [a, b, v[2], v[3]]
        }
        4 => {
            let (even, odd) = (s.interleave(v[0], v[2]), s.interleave(v[1], v[3]));
            let (low, high) = (s.interleave(even[0], odd[0]), s.interleave(even[1], odd[1]));
            [low[0], low[1], high[0], high[1]]
        }
        _ => v,
    }
}
