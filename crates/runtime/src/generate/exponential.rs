//! The exponential function of numbers that are not positive, the same bits on every machine.
//!
//! The C library chooses its own by instruction set, so that equal logits could draw different tokens.

const LOG2_E: f64 = std::f64::consts::LOG2_E;
/// ln 2 in two parts: the first one has trailing zeros, so that multiples of it are exact.
const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// Adding and taking it away rounds to an integer.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// Below this the result is 0 here: it is smaller than the smallest normal number.
const LEAST: f64 = -708.0;

/// 1/n! for n from 13 down to 0.
const TERMS: [f64; 14] = [
    1.0 / 6_227_020_800.0,
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
    1.0,
    1.0,
];

/// `exp(x)` for `x <= 0`, within two units in the last place; 0 from -708 on.
pub(super) fn exp(x: f64) -> f64 {
    let clamped = if x > LEAST { x } else { LEAST };
    let shifted = clamped * LOG2_E + ROUND;
    let n = shifted - ROUND;
    let rest = (clamped - n * LN2_HIGH) - n * LN2_LOW;
    let mut sum = TERMS[0];
    for term in &TERMS[1..] {
        sum = sum * rest + term;
    }
    // The low bits of `shifted` are n; n >= -1022, so that the power is a normal number.
    let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    if x > LEAST { sum * power } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_exponential_function() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-709.0), 0.0);
        assert_eq!(exp(f64::NEG_INFINITY), 0.0);
        for step in 0..70_000 {
            let x = -f64::from(step) * 0.0101;
            let (got, want) = (exp(x), x.exp());
            if x > LEAST {
                assert!((got - want).abs() <= 5e-16 * want, "{x}: {got} {want}");
            }
        }
    }
}
