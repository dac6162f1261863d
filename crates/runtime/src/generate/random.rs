//! Random numbers that depend on nothing but a seed and a place: Philox 4x32-10.
//!
//! J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011. The counter is the row
//! and the number of tokens before the draw, the key is the seed: neither threads, nor the split of a batch, nor the rows
//! that have ended change what a row draws.

use std::hash::{BuildHasher, Hasher, RandomState};

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// One block of four numbers.
pub(super) fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    let product = |a: u32, b: u32| {
        let wide = u64::from(a) * u64::from(b);
        ((wide >> 32) as u32, wide as u32)
    };
    for round in 0..ROUNDS {
        if round > 0 {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        let (high0, low0) = product(MULTIPLIERS[0], counter[0]);
        let (high1, low1) = product(MULTIPLIERS[1], counter[2]);
        counter = [
            high1 ^ counter[1] ^ key[0],
            low1,
            high0 ^ counter[3] ^ key[1],
            low0,
        ];
    }
    counter
}

fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

/// The random number in [0, 1) of a row before its token number `place`, in steps of 2^-53.
pub(super) fn uniform(seed: u64, row: u64, place: u64) -> f64 {
    let [place0, place1] = halves(place);
    let [row0, row1] = halves(row);
    let [a, b, ..] = philox([place0, place1, row0, row1], halves(seed));
    let bits = (u64::from(b) << 32 | u64::from(a)) >> 11;
    bits as f64 / (1u64 << 53) as f64
}

/// A seed for callers that give none: the operating system's entropy behind the hashing keys of the process, which differ
/// at each call.
pub(super) fn fresh_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that the authors publish with Random123.
    #[test]
    fn known_answers() {
        assert_eq!(
            philox([0; 4], [0; 2]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox(
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn numbers_lie_in_the_unit_interval_and_differ_by_seed_row_and_place() {
        let mut seen = Vec::new();
        for seed in [0, 1, 1 << 32] {
            for row in [0, 1, 1 << 32] {
                for place in [0, 1, 1 << 32] {
                    let number = uniform(seed, row, place);
                    assert!((0.0..1.0).contains(&number));
                    assert!(!seen.contains(&number.to_bits()));
                    seen.push(number.to_bits());
                }
            }
        }
    }

    #[test]
    fn fresh_seeds_differ() {
        assert_ne!(fresh_seed(), fresh_seed());
    }
}
