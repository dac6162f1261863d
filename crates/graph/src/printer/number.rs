//! Floats: the shortest digits that read back as the same number, in the notation that is shorter.

use super::error::Why;
use super::writer::Writer;
use crate::syntax::{CANONICAL_NAN, CANONICAL_NAN_64};
use std::fmt::{LowerExp, Write as _};

/// A float of either width.
pub(super) trait Float: Copy + LowerExp {
    /// The value as a double, and whether it is a NaN that cannot be written.
    fn wide(self) -> (f64, bool);
}

impl Float for f32 {
    fn wide(self) -> (f64, bool) {
        let plain = self.to_bits() & 0x7FFF_FFFF == CANONICAL_NAN;
        let wide = if self.is_nan() {
            // Made from the sign, as a conversion may change a NaN.
            f64::NAN.copysign(if self.is_sign_negative() { -1.0 } else { 1.0 })
        } else {
            f64::from(self)
        };
        (wide, self.is_nan() && !plain)
    }
}

impl Float for f64 {
    fn wide(self) -> (f64, bool) {
        let plain = self.to_bits() & (u64::MAX >> 1) == CANONICAL_NAN_64;
        (self, self.is_nan() && !plain)
    }
}

impl Writer {
    /// Writes floats with `separator` between them, in brackets; notes one NaN that cannot be written.
    pub(super) fn floats<F: Float>(
        &mut self,
        field: &'static str,
        form: [&str; 3],
        values: impl IntoIterator<Item = F>,
    ) {
        let mut digits = String::new();
        let mut lost = None;
        self.list(form, values, |writer, index, value| {
            if !write_float(&mut writer.text, &mut digits, value) {
                lost.get_or_insert(index);
            }
        });
        if let Some(index) = lost {
            // Raw data have bytes for elements of their own.
            let index = (field != "raw_data").then_some(index);
            self.lose_at(field, index, payload());
        }
    }

    /// Writes one float.
    pub(super) fn float<F: Float>(&mut self, field: &'static str, value: F) {
        if !write_float(&mut self.text, &mut String::new(), value) {
            self.lose(field, payload());
        }
    }
}

fn payload() -> Why {
    Why::Value {
        expected: "a number, `nan` or `-nan`",
        got: "a NaN with other bits".to_string(),
    }
}

/// Writes a float; `digits` is room for its digits. False when it is a NaN that the text does not give back.
fn write_float<F: Float>(text: &mut String, digits: &mut String, value: F) -> bool {
    let (wide, lost) = value.wide();
    if wide.is_sign_negative() {
        text.push('-');
    }
    if !wide.is_finite() {
        text.push_str(if wide.is_nan() { "nan" } else { "inf" });
        return !lost;
    }
    // `-1.2345e-7`: the shortest digits, and the power of ten of the first.
    digits.clear();
    let _ = write!(digits, "{value:e}");
    let unsigned = digits.strip_prefix('-').unwrap_or(digits);
    let (mantissa, power) = unsigned.split_once('e').unwrap_or((unsigned, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let (first, rest) = mantissa.split_at(1);
    let rest = rest.strip_prefix('.').unwrap_or(rest);
    let point = usize::from(!rest.is_empty());
    let away = usize::try_from(power.unsigned_abs()).unwrap_or(usize::MAX);
    let scientific = 1 + point + rest.len() + 2 + if away < 100 { 2 } else { 3 };
    let fixed = if power < 0 {
        1 + away + 1 + rest.len()
    } else if rest.len() > away {
        1 + rest.len() + 1
    } else {
        1 + away
    };
    if fixed > scientific {
        let sign = if power < 0 { '-' } else { '+' };
        let _ = write!(
            text,
            "{first}{}{rest}e{sign}{away:02}",
            if point == 1 { "." } else { "" }
        );
    } else if power < 0 {
        text.push_str("0.");
        text.extend(std::iter::repeat_n('0', away - 1));
        text.push_str(first);
        text.push_str(rest);
    } else if rest.len() > away {
        let _ = write!(text, "{first}{}.{}", &rest[..away], &rest[away..]);
    } else if rest.len() == away {
        text.push_str(first);
        text.push_str(rest);
    } else {
        // A whole number with more digits than it needs: all of them, not zeros.
        let _ = write!(text, "{:.0}", wide.abs());
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written<F: Float>(value: F) -> String {
        let mut text = String::new();
        assert!(write_float(&mut text, &mut String::new(), value));
        text
    }

    #[test]
    fn the_shorter_notation_is_taken() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (10000.0, "10000"),
            (100_000.0, "1e+05"),
            (123_456.0, "123456"),
            (0.001, "0.001"),
            (0.0001, "1e-04"),
            (0.00012, "0.00012"),
            (1.5e-10, "1.5e-10"),
            (16_777_216.0, "16777216"),
            (f32::MAX, "3.4028235e+38"),
            (f32::from_bits(1), "1e-45"),
            (f32::INFINITY, "inf"),
            (f32::NEG_INFINITY, "-inf"),
            (f32::from_bits(0x7FC0_0000), "nan"),
            (f32::from_bits(0xFFC0_0000), "-nan"),
            // The nearest float to 1.234568e11 is this whole number.
            (1.234_568e11, "123456798720"),
        ];
        for (value, text) in cases {
            assert_eq!(written(value), text);
        }
        assert_eq!(written(0.1_f64), "0.1");
        assert_eq!(written(1e300_f64), "1e+300");
        assert_eq!(written(-f64::NAN.copysign(1.0)), "-nan");
    }

    #[test]
    fn floats_come_back() {
        let mut bits = 1_u32;
        for _ in 0..20_000 {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = f32::from_bits(bits);
            if value.is_nan() {
                continue;
            }
            assert_eq!(written(value).parse::<f32>().unwrap().to_bits(), bits);
            let wide = f64::from_bits(u64::from(bits) << 32 | u64::from(!bits));
            if !wide.is_nan() {
                assert_eq!(
                    written(wide).parse::<f64>().unwrap().to_bits(),
                    wide.to_bits()
                );
            }
        }
    }

    #[test]
    fn a_nan_with_a_payload_is_noted() {
        for bits in [0x7FC0_0001, 0x7F80_0001, 0xFFFF_FFFF] {
            assert!(!write_float(
                &mut String::new(),
                &mut String::new(),
                f32::from_bits(bits)
            ));
        }
        let wide = f64::from_bits(CANONICAL_NAN_64 | 1);
        assert!(!write_float(&mut String::new(), &mut String::new(), wide));
    }
}
