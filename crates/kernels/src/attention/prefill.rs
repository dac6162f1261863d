//! Many query rows over one range of keys, tile by tile, as two matrix products in registers.
//!
//! The scores of a tile are kept turned, `[key, query row]`: then a register holds one key's scores of many rows, so the
//! softmax has no sums across lanes; the left operand of the first product is the rows of keys as they lie, that of
//! the second one the weights as they lie. Only the query rows are packed, once. A tile that every row sees whole is read
//! in place when it is dense and of the accumulator's type; else its rows are widened into a tile that stays in the
//! second cache, invisible ones being zeros.

use super::Core;
use super::cache::{Head, Part, Widen};
use super::online_softmax::Row;
use super::split::{BLOCK, Found, Work};
use super::visibility::TILE;
use crate::matmul::micro::axpys;
use crate::scratch::Scratch;
use crate::simd::Simd;
use crate::storage::{Accumulator, Real};
use crate::vecmath::bodies;

/// Rows that the second product takes at a time.
const ROWS: usize = 4;

/// Which query rows see which keys of a tile.
#[derive(Clone, Copy)]
struct Seen {
    /// Bits of each row.
    rows: [u64; BLOCK],
    /// Seen by a row.
    any: u64,
    /// Seen by every row.
    every: u64,
}

/// Adds the keys of `work` to what was found.
#[inline(always)]
pub(super) fn pass<T: Real, H: Head<T::Acc>, S: Simd<T::Acc>>(
    s: S,
    core: &Core<'_, '_, T>,
    head: H,
    work: Work,
    found: Found<'_, T::Acc>,
) {
    let l = S::LANES;
    let (size, count) = (core.size, work.count);
    let Found { rows, sums, stride } = found;
    let Some((ranges, low, end)) = work.ranges::<T, BLOCK>(core) else {
        return;
    };
    // Rows beyond the last one are zeros that see nothing.
    let all = count.next_multiple_of(l);
    let mut memory = T::Acc::scratch(all * (size + TILE + 3 + stride) + TILE * (size + stride + 1));
    let (queries, rest) = memory.split_at_mut(size * all);
    let (scores, rest) = rest.split_at_mut(TILE * all);
    let (state, rest) = rest.split_at_mut(3 * all);
    let (weighted, rest) = rest.split_at_mut(stride * all);
    let (key_copy, rest) = rest.split_at_mut(TILE * size);
    let (value_copy, bias) = rest.split_at_mut(TILE * stride);
    queries.fill(T::Acc::ZERO);
    weighted.fill(T::Acc::ZERO);
    let (tops, rest) = state.split_at_mut(all);
    let (totals, factors) = rest.split_at_mut(all);
    tops.fill(T::Acc::NEG_INFINITY);
    totals.fill(T::Acc::ZERO);
    {
        let mut rows = T::Acc::scratch(count * size);
        if !work.queries(core, &mut rows) {
            return; // rows are in range
        }
        for (i, row) in rows.chunks_exact(size.max(1)).enumerate() {
            for (x, slot) in row.iter().zip(queries[i..].iter_mut().step_by(all)) {
                *slot = *x;
            }
        }
    }

    let mut seen = Seen {
        rows: [0; BLOCK],
        any: 0,
        every: 0,
    };
    let mut met = [false; BLOCK];
    let mut start = low / TILE * TILE;
    while start < end {
        look(core, work, &ranges, start, bias, &mut seen);
        if seen.any == 0 {
            start += TILE;
            continue;
        }
        for (met, bits) in met.iter_mut().zip(seen.rows) {
            *met |= bits != 0;
        }
        let parts = || head.parts((low, end), start, [seen.any]);
        let keys = || parts().map(|(segment, part)| (segment.keys, part));
        let mut tile: [&[T::Acc]; TILE] = [&[]; TILE];
        if seen.any != u64::MAX || !lend(keys(), &mut tile) {
            widen(s, keys(), seen.any, key_copy, size);
            place(key_copy, size, &mut tile);
        }
        products(s, &tile, queries, size, all, &seen, scores);
        if H::FINITE {
            for score in scores.iter_mut() {
                *score = *score + T::Acc::ZERO * *score;
            }
        }
        weigh(
            s,
            core,
            (work, &ranges, start),
            &seen,
            bias,
            scores,
            [&mut *tops, &mut *totals, &mut *factors],
        );
        for (i, factor) in factors.iter().enumerate().take(count) {
            if *factor != T::Acc::ONE {
                bodies::scale(s, &mut weighted[i * stride..][..stride], *factor);
            }
        }

        let values = || parts().map(|(segment, part)| (segment.values, part));
        let mut tile: [&[T::Acc]; TILE] = [&[]; TILE];
        let as_wide = stride == core.value_size;
        if seen.every != u64::MAX || !as_wide || !lend(values(), &mut tile) {
            // Columns behind a value must be zeros.
            let written = if as_wide { seen.any } else { 0 };
            widen(s, values(), written, value_copy, stride);
            add_apart(
                s,
                value_copy,
                (core.value_size, stride),
                &seen,
                count,
                scores,
                weighted,
            );
            place(value_copy, stride, &mut tile);
        }
        add(s, scores, &tile, all, &seen, weighted, stride);
        start += TILE;
    }
    for i in 0..count {
        rows[i] = Row {
            top: tops[i],
            total: totals[i],
        };
        rows[i].meet(met[i]);
    }
    sums.copy_from_slice(&weighted[..count * stride]);
}

/// Finds the rows of a tile where they lie; false when one is not there as an accumulator's row.
#[inline(always)]
fn lend<'s, E: Accumulator, W: Widen<'s, E>>(
    parts: impl Iterator<Item = (W, Part<1>)>,
    rows: &mut [&'s [E]; TILE],
) -> bool {
    for (source, part) in parts {
        if !source.lend(part, rows) {
            return false;
        }
    }
    true
}

/// Writes the rows of a tile, `stride` apart. What is not among the `written` places is zero.
#[inline(always)]
fn widen<'s, E: Accumulator, W: Widen<'s, E>, S: Simd<E>>(
    s: S,
    parts: impl Iterator<Item = (W, Part<1>)>,
    written: u64,
    copy: &mut [E],
    stride: usize,
) {
    if written != u64::MAX {
        copy.fill(E::ZERO);
    }
    for (source, part) in parts {
        source.widen(s, part, copy, stride);
    }
}

/// The rows of a tile that was copied.
#[inline(always)]
fn place<'s, E>(copy: &'s [E], stride: usize, rows: &mut [&'s [E]; TILE]) {
    for (place, row) in rows.iter_mut().enumerate() {
        *row = &copy[place * stride..][..stride];
    }
}

/// Which keys of the tile from `start` on each row sees.
#[inline(always)]
fn look<T: Real>(
    core: &Core<'_, '_, T>,
    work: Work,
    ranges: &[(usize, usize); BLOCK],
    start: usize,
    bias: &mut [T::Acc],
    seen: &mut Seen,
) {
    (seen.any, seen.every) = (0, u64::MAX);
    for (i, range) in ranges.iter().enumerate().take(work.count) {
        let (query_head, position) = work.place(core, i);
        let at = [work.batch, query_head, position];
        let bits = core.visible.tile(at, *range, start, bias);
        seen.rows[i] = bits;
        seen.any |= bits;
        seen.every &= bits;
    }
}

/// Scores of the keys of a tile, `[key, query row]`. Those of rows and keys that no row of the strip sees are left alone.
#[inline(always)]
fn products<E: Accumulator, S: Simd<E>>(
    s: S,
    keys: &[&[E]; TILE],
    queries: &[E],
    size: usize,
    all: usize,
    seen: &Seen,
    scores: &mut [E],
) {
    let l = S::LANES;
    let mut col = 0;
    while col < all {
        let registers = (all - col) / l;
        let taken = if registers >= 3 && S::TILE_ROWS > 2 {
            3
        } else if registers >= 2 && S::TILE_ROWS > 2 {
            2
        } else {
            1
        };
        let strip = &seen.rows[col..BLOCK.min(col + taken * l)];
        let any = strip.iter().fold(0, |any, bits| any | bits);
        let at = (col, all);
        match (S::TILE_ROWS == 12, taken) {
            (true, 3) => strip_of::<E, S, 8, 3>(s, keys, queries, size, at, any, scores),
            (true, 2) => strip_of::<E, S, 8, 2>(s, keys, queries, size, at, any, scores),
            (true, _) => strip_of::<E, S, 8, 1>(s, keys, queries, size, at, any, scores),
            (false, 3) => strip_of::<E, S, 4, 3>(s, keys, queries, size, at, any, scores),
            (false, 2) => strip_of::<E, S, 4, 2>(s, keys, queries, size, at, any, scores),
            (false, _) => strip_of::<E, S, 4, 1>(s, keys, queries, size, at, any, scores),
        }
        col += taken * l;
    }
}

/// Scores of `C` registers of query rows from `col` on with the keys of a tile, `R` keys at a time.
#[inline(always)]
fn strip_of<E: Accumulator, S: Simd<E>, const R: usize, const C: usize>(
    s: S,
    keys: &[&[E]; TILE],
    queries: &[E],
    size: usize,
    (col, all): (usize, usize),
    any: u64,
    scores: &mut [E],
) {
    let l = S::LANES;
    let group = u64::MAX >> (TILE - R);
    for first in (0..TILE).step_by(R) {
        if any >> first & group == 0 {
            continue;
        }
        let mut key: [&[E]; R] = [&[]; R];
        for r in 0..R {
            key[r] = &keys[first + r][..size];
        }
        let mut acc = [[s.splat(E::ZERO); C]; R];
        for d in 0..size {
            let q = &queries[d * all + col..][..C * l];
            let mut b = [s.splat(E::ZERO); C];
            for c in 0..C {
                b[c] = s.load(&q[c * l..]);
            }
            for r in 0..R {
                let x = s.splat(key[r][d]);
                for c in 0..C {
                    acc[r][c] = s.fma(x, b[c], acc[r][c]);
                }
            }
        }
        for r in 0..R {
            let out = &mut scores[(first + r) * all + col..][..C * l];
            for c in 0..C {
                s.store(acc[r][c], &mut out[c * l..]);
            }
        }
    }
}

/// Turns scores into weights, and updates what was found: `(largest scores, sums of exponentials)`; the third slice
/// gets what older sums are multiplied by.
#[inline(always)]
fn weigh<T: Real, S: Simd<T::Acc>>(
    s: S,
    core: &Core<'_, '_, T>,
    (work, ranges, start): (Work, &[(usize, usize); BLOCK], usize),
    seen: &Seen,
    bias: &mut [T::Acc],
    scores: &mut [T::Acc],
    [tops, totals, factors]: [&mut [T::Acc]; 3],
) {
    let l = S::LANES;
    let all = tops.len();
    if core.softcap != T::Acc::ZERO {
        let cap = s.splat(core.softcap);
        for part in scores.chunks_exact_mut(l) {
            // A product with the inverse would be NaN at 0 for caps whose inverse is infinite.
            let v = s.div(s.load(part), cap);
            s.store(s.mul(bodies::tanh_vector(s, v), cap), part);
        }
    }
    for i in 0..all {
        let bits = if i < work.count { seen.rows[i] } else { 0 };
        if core.visible.has_bias() && bits != 0 {
            let (query_head, position) = work.place(core, i);
            let at = [work.batch, query_head, position];
            core.visible.tile(at, ranges[i], start, bias);
            for (x, score) in bias.iter().zip(scores[i..].iter_mut().step_by(all)) {
                *score += *x;
            }
        }
        if bits != u64::MAX {
            for (j, score) in scores[i..].iter_mut().step_by(all).enumerate() {
                if bits >> j & 1 == 0 {
                    *score = T::Acc::NEG_INFINITY;
                }
            }
        }
    }
    let low = s.splat(T::Acc::NEG_INFINITY);
    let zero = s.splat(T::Acc::ZERO);
    for col in (0..all).step_by(l) {
        let old = s.load(&tops[col..]);
        let mut top = [old; 4];
        for lines in scores.chunks_exact(4 * all) {
            for j in 0..4 {
                top[j] = s.max(s.load(&lines[j * all + col..]), top[j]);
            }
        }
        let top = s.max(s.max(top[0], top[1]), s.max(top[2], top[3]));
        // A row that has seen nothing keeps weights of zero: e^(-inf - 0).
        let shift = s.select_lt(low, top, top, zero);
        let mut sum = [zero; 2];
        for lines in scores.chunks_exact_mut(2 * all) {
            for j in 0..2 {
                let slot = &mut lines[j * all + col..][..l];
                let weight = s.exp(s.sub(s.load(slot), shift));
                s.store(weight, slot);
                sum[j] = s.add(sum[j], weight);
            }
        }
        let factor = s.exp(s.sub(old, shift));
        let factor = s.select_lt(old, top, factor, s.splat(T::Acc::ONE));
        let total = s.mul(s.load(&totals[col..]), factor);
        s.store(s.add(total, s.add(sum[0], sum[1])), &mut totals[col..]);
        s.store(top, &mut tops[col..]);
        s.store(factor, &mut factors[col..]);
    }
}

/// Values that are not finite and that only some rows see would spoil the others, 0 times infinity being NaN: they are
/// added to the sums of those rows alone and taken out of the tile.
#[inline(always)]
fn add_apart<E: Accumulator, S: Simd<E>>(
    s: S,
    values: &mut [E],
    (width, stride): (usize, usize),
    seen: &Seen,
    count: usize,
    weights: &[E],
    sums: &mut [E],
) {
    let all = weights.len() / TILE;
    let mut left = seen.any & !seen.every;
    while left != 0 {
        let place = left.trailing_zeros() as usize;
        left &= left - 1;
        let value = &mut values[place * stride..][..width];
        if value.iter().all(|x| x.is_finite()) {
            continue;
        }
        for i in (0..count).filter(|i| seen.rows[*i] >> place & 1 == 1) {
            let weight = [weights[place * all + i]];
            axpys::<E, S, 1>(s, weight, [&*value], &mut sums[i * stride..][..width]);
        }
        value.fill(E::ZERO);
    }
}

/// Adds the values of a tile, weighted, to the sums.
#[inline(always)]
fn add<E: Accumulator, S: Simd<E>>(
    s: S,
    weights: &[E],
    values: &[&[E]; TILE],
    all: usize,
    seen: &Seen,
    sums: &mut [E],
    stride: usize,
) {
    let l = S::LANES;
    let most = match S::TILE_ROWS {
        12 => 4,
        6 => 3,
        _ => 1,
    };
    let mut col = 0;
    while col < stride {
        let taken = ((stride - col) / l).min(most);
        let taken = if taken == 3 && most == 4 { 2 } else { taken };
        for row in (0..all).step_by(ROWS) {
            let own = &seen.rows[row..row + ROWS];
            let any = own.iter().fold(0, |any, bits| any | bits);
            if any == 0 {
                continue;
            }
            // Places before the first and after the last one that these rows see are skipped.
            let first = any.trailing_zeros() as usize;
            let last = TILE - any.leading_zeros() as usize;
            let weights = &weights[first * all..last * all];
            let values = &values[first..last];
            let at = (row, all, col, stride);
            match taken {
                4 => add_of::<E, S, 4>(s, weights, values, at, sums),
                3 => add_of::<E, S, 3>(s, weights, values, at, sums),
                2 => add_of::<E, S, 2>(s, weights, values, at, sums),
                _ => add_of::<E, S, 1>(s, weights, values, at, sums),
            }
        }
        col += taken.max(1) * l;
    }
}

/// Adds `C` registers of columns from `col` on to the sums of four rows.
#[inline(always)]
fn add_of<E: Accumulator, S: Simd<E>, const C: usize>(
    s: S,
    weights: &[E],
    values: &[&[E]],
    (row, all, col, stride): (usize, usize, usize, usize),
    sums: &mut [E],
) {
    let l = S::LANES;
    let mut acc = [[s.splat(E::ZERO); C]; ROWS];
    for (r, acc) in acc.iter_mut().enumerate() {
        let sums = &sums[(row + r) * stride + col..][..C * l];
        for c in 0..C {
            acc[c] = s.load(&sums[c * l..]);
        }
    }
    for (weights, value) in weights.chunks_exact(all).zip(values) {
        let w = &weights[row..][..ROWS];
        let v = &value[col..][..C * l];
        let mut b = [s.splat(E::ZERO); C];
        for c in 0..C {
            b[c] = s.load(&v[c * l..]);
        }
        for r in 0..ROWS {
            let x = s.splat(w[r]);
            for c in 0..C {
                acc[r][c] = s.fma(x, b[c], acc[r][c]);
            }
        }
    }
    for (r, acc) in acc.iter().enumerate() {
        let sums = &mut sums[(row + r) * stride + col..][..C * l];
        for c in 0..C {
            s.store(acc[c], &mut sums[c * l..]);
        }
    }
}
