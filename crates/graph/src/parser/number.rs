//! Numbers: literals become values of the width that is asked for, exactly or not at all.

use super::error::Fault;
use crate::load::shown;
use crate::syntax::{CANONICAL_NAN, CANONICAL_NAN_64};
use std::fmt::Display;
use std::str::FromStr;

/// A number as it is written: a sign, then digits, a fraction, an exponent, or one of the words for what is not finite.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number<'t> {
    /// Where it starts.
    pub(super) at: usize,
    pub(super) text: &'t str,
    /// Whether it has digits only, after the sign.
    pub(super) whole: bool,
}

impl Number<'_> {
    pub(super) fn int32(self) -> Result<i32, Fault> {
        self.whole(self.text, i32::MIN, i32::MAX)
    }

    pub(super) fn int64(self) -> Result<i64, Fault> {
        self.whole(self.text, i64::MIN, i64::MAX)
    }

    /// `-0` is zero; other negative numbers are refused, not wrapped.
    pub(super) fn uint64(self) -> Result<u64, Fault> {
        let digits = match self.text.strip_prefix('-') {
            Some(digits) if digits.bytes().all(|b| b == b'0') => digits,
            _ => self.text,
        };
        self.whole(digits, u64::MIN, u64::MAX)
    }

    fn whole<T: FromStr + Display>(self, digits: &str, least: T, most: T) -> Result<T, Fault> {
        digits.parse().map_err(|_| self.out_of_range(least, most))
    }

    /// The nearest float; a number that only infinity is near to is refused.
    pub(super) fn float(self) -> Result<f32, Fault> {
        if let Some((negative, nan)) = self.special() {
            let infinity = f32::INFINITY.to_bits();
            let bits = if nan { CANONICAL_NAN } else { infinity };
            return Ok(f32::from_bits(bits | (u32::from(negative) << 31)));
        }
        match self.text.parse::<f32>() {
            Ok(value) if value.is_finite() => Ok(value),
            _ => Err(self.out_of_range(format!("{:e}", f32::MIN), format!("{:e}", f32::MAX))),
        }
    }

    /// The nearest double; a number that only infinity is near to is refused.
    pub(super) fn double(self) -> Result<f64, Fault> {
        if let Some((negative, nan)) = self.special() {
            let infinity = f64::INFINITY.to_bits();
            let bits = if nan { CANONICAL_NAN_64 } else { infinity };
            return Ok(f64::from_bits(bits | (u64::from(negative) << 63)));
        }
        match self.text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(value),
            _ => Err(self.out_of_range(format!("{:e}", f64::MIN), format!("{:e}", f64::MAX))),
        }
    }

    /// For a word: whether it is negative, and whether it is `nan` rather than infinite.
    fn special(self) -> Option<(bool, bool)> {
        let word = self.text.strip_prefix('-');
        let negative = word.is_some();
        let first = word.unwrap_or(self.text).bytes().next()?;
        let nan = matches!(first, b'n' | b'N');
        first.is_ascii_alphabetic().then_some((negative, nan))
    }

    fn out_of_range<T: Display>(self, least: T, most: T) -> Fault {
        let expected = format!("a number from {least} to {most}");
        Fault::new(self.at, expected, format!("`{}`", shown(self.text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number<'_> {
        Number {
            at: 7,
            text,
            whole: true,
        }
    }

    #[test]
    fn integers_are_checked() {
        assert_eq!(number("-2147483648").int32().unwrap(), i32::MIN);
        assert_eq!(number("0007").int32().unwrap(), 7);
        assert_eq!(number("-0").int64().unwrap(), 0);
        assert_eq!(number("18446744073709551615").uint64().unwrap(), u64::MAX);
        assert_eq!(number("-00").uint64().unwrap(), 0);
        let fault = number("2147483648").int32().unwrap_err();
        assert_eq!(fault.at, 7);
        assert_eq!(fault.expected, "a number from -2147483648 to 2147483647");
        assert_eq!(fault.got, "`2147483648`");
        assert!(number("9223372036854775808").int64().is_err());
        assert!(number("18446744073709551616").uint64().is_err());
        assert!(number("-1").uint64().is_err());
    }

    #[test]
    fn floats_round_to_nearest_and_keep_their_sign() {
        let float = |text| number(text).float().unwrap().to_bits();
        assert_eq!(float("-0"), 0x8000_0000);
        assert_eq!(float("1e-46"), 0);
        // Half way between two floats goes to the even one; a little more goes up.
        assert_eq!(float("16777217"), 16_777_216_f32.to_bits());
        assert_eq!(float("16777217.0000000000001"), 16_777_218_f32.to_bits());
        assert_eq!(float("3.4028235e38"), f32::MAX.to_bits());
        assert_eq!((float("nan"), float("-NaN")), (0x7FC0_0000, 0xFFC0_0000));
        assert_eq!(
            (float("Inf"), float("-infinity")),
            (0x7F80_0000, 0xFF80_0000)
        );
        assert!(number("3.5e38").float().is_err());
        let double = |text| number(text).double().unwrap().to_bits();
        assert_eq!(double("-nan"), 0xFFF8_0000_0000_0000);
        assert_eq!(double(".5"), 0.5_f64.to_bits());
        assert_eq!(double("5."), 5_f64.to_bits());
        let fault = number("1e309").double().unwrap_err();
        assert_eq!(
            fault.expected,
            "a number from -1.7976931348623157e308 to 1.7976931348623157e308"
        );
    }
}
