//! Reads the text of a dimension.

use super::{DEPTH_LIMIT, DimExpr, TEXT_LIMIT};

/// Brackets and calls inside one another, as they are written: more than the expression itself may nest, because
/// brackets cost nothing there.
const BRACKET_LIMIT: usize = 4 * DEPTH_LIMIT;

/// Whether a text is one name that needs no backticks.
pub(super) fn is_name(text: &str) -> bool {
    let length = name_length(text);
    length > 0 && length == text.len()
}

fn starts_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

/// Length of the name at the start of a text, 0 when there is none.
///
/// Dots and colons belong to it, because exporters name dimensions after values (`onnx::Add_0_dim_1`), and so does a
/// hyphen between letters (`seq-len`): a minus sign has blanks beside it, or a number after it.
fn name_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    if !bytes.first().copied().is_some_and(starts_name) {
        return 0;
    }
    let belongs = |at: usize| match bytes[at] {
        b'.' | b':' | b'0'..=b'9' => true,
        b'-' => bytes.get(at + 1).copied().is_some_and(starts_name),
        byte => starts_name(byte),
    };
    (0..bytes.len()).take_while(|&at| belongs(at)).count()
}

/// The expression that the whole text is; `None` when it is none, when it is a plain number, or beyond the limits.
pub(super) fn expression(text: &str) -> Option<DimExpr> {
    if text.len() > TEXT_LIMIT {
        return None;
    }
    let mut reader = Reader {
        text,
        at: 0,
        depth: 0,
    };
    let expr = reader.quotient_or_sum()?;
    // A dimension whose name is a number is not that number: numbers have a field of their own.
    (reader.next().is_none() && expr.constant().is_none()).then_some(expr)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl<'t> Reader<'t> {
    /// The next byte that is no blank, not taken.
    fn next(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at) == Some(&b' ') {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    /// Takes a sign when it is next.
    fn take(&mut self, sign: &str) -> bool {
        self.next();
        let found = self.text.as_bytes()[self.at..].starts_with(sign.as_bytes());
        if found {
            self.at += sign.len();
        }
        found
    }

    /// `a / b` is rounded down when it is all there is; `a / 2 + 1 / 2` has another meaning, and is not read.
    fn quotient_or_sum(&mut self) -> Option<DimExpr> {
        let start = self.at;
        if let Some((dividend, divisor)) = self.quotient()
            && matches!(self.next(), None | Some(b')'))
        {
            return dividend.div_floor(&divisor);
        }
        self.at = start;
        self.sum()
    }

    fn quotient(&mut self) -> Option<(DimExpr, DimExpr)> {
        let depth = self.depth;
        let dividend = self.power();
        // What failed inside brackets left them open.
        self.depth = depth;
        let dividend = dividend?;
        if self.take("//") || !self.take("/") {
            return None;
        }
        let divisor = self.power();
        self.depth = depth;
        Some((dividend, divisor?))
    }

    fn sum(&mut self) -> Option<DimExpr> {
        let mut sum = if self.take("-") {
            DimExpr::from(0).minus(&self.product()?)?
        } else {
            self.product()?
        };
        loop {
            if self.take("+") {
                sum = sum.plus(&self.product()?)?;
            } else if self.take("-") {
                sum = sum.minus(&self.product()?)?;
            } else {
                return Some(sum);
            }
        }
    }

    fn product(&mut self) -> Option<DimExpr> {
        let mut product = self.power()?;
        loop {
            product = if self.take("//") {
                product.div_floor(&self.power()?)?
            } else if self.take("/") {
                product.div_exact(&self.power()?)?
            } else if self.take("%") {
                product.rem(&self.power()?)?
            } else if self.take("*") {
                product.times(&self.power()?)?
            } else {
                return Some(product);
            };
        }
    }

    fn power(&mut self) -> Option<DimExpr> {
        let base = self.operand()?;
        if !self.take("**") {
            return Some(base);
        }
        self.next();
        let exponent = self.number()?;
        if !(0..=super::SIZE_LIMIT as i64).contains(&exponent) {
            return None;
        }
        (0..exponent).try_fold(DimExpr::from(1), |power, _| power.times(&base))
    }

    fn number(&mut self) -> Option<i64> {
        let rest = &self.text[self.at..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        self.at += digits;
        rest[..digits].parse().ok()
    }

    fn operand(&mut self) -> Option<DimExpr> {
        match self.next()? {
            b'(' => self.bracketed(Reader::sum),
            b'`' => {
                let rest = &self.text[self.at + 1..];
                let length = rest.find('`')?;
                self.at += length + 2;
                (length > 0).then(|| DimExpr::name(&rest[..length]))
            }
            byte if byte.is_ascii_digit() => self.number().map(DimExpr::from),
            byte if starts_name(byte) => {
                let rest = &self.text[self.at..];
                let name = &rest[..name_length(rest)];
                self.at += name.len();
                if self.next() == Some(b'(') {
                    self.call(name)
                } else {
                    Some(DimExpr::name(name))
                }
            }
            _ => None,
        }
    }

    fn bracketed(&mut self, inside: fn(&mut Self) -> Option<DimExpr>) -> Option<DimExpr> {
        if !self.take("(") || self.depth == BRACKET_LIMIT {
            return None;
        }
        self.depth += 1;
        let expr = inside(self)?;
        self.depth -= 1;
        self.take(")").then_some(expr)
    }

    fn call(&mut self, name: &str) -> Option<DimExpr> {
        match name {
            "max" | "Max" => self.bracketed(|reader| reader.fold(DimExpr::larger)),
            "min" | "Min" => self.bracketed(|reader| reader.fold(DimExpr::smaller)),
            "Mod" => self.bracketed(|reader| {
                let dividend = reader.sum()?;
                reader.take(",").then_some(())?;
                dividend.rem(&reader.sum()?)
            }),
            "floor" => self.bracketed(Reader::quotient_or_sum),
            "ceil" | "ceiling" => self.bracketed(|reader| {
                let (dividend, divisor) = reader.quotient()?;
                dividend.div_ceil(&divisor)
            }),
            _ => None,
        }
    }

    /// Arguments joined by a function of two.
    fn fold(&mut self, join: fn(&DimExpr, &DimExpr) -> Option<DimExpr>) -> Option<DimExpr> {
        let mut held = self.sum()?;
        while self.take(",") {
            held = join(&held, &self.sum()?)?;
        }
        Some(held)
    }
}
