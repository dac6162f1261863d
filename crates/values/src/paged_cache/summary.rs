//! What a sequence knows of its elements as pages, without another look at them.

use super::{PageRun, page};
use crate::encoded::Encoding;
use crate::{DType, RuntimeValue};

/// What consecutive elements of a sequence are, as pages; sequences know it of all their parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// One of them is not built as a page is.
    Other,
    /// They are built as pages are, but break a rule.
    Built,
    /// They keep all rules.
    Checked(PageRun, Payloads),
}

/// What holds for the payloads of all pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Payloads {
    /// None refers to parameters that lie elsewhere.
    pub(super) whole: bool,
    /// Dense numbers are aligned for their type, and codes are affine with FLOAT scales.
    pub(super) decodable: bool,
}

impl Payloads {
    /// Those of keys or values that keep the rules.
    fn of(payload: &RuntimeValue) -> Payloads {
        match payload {
            RuntimeValue::Tensor(tensor) => Payloads {
                whole: true,
                decodable: tensor.is_aligned(),
            },
            RuntimeValue::Encoded(encoded) => Payloads {
                whole: encoded.parameters().is_none(),
                decodable: match encoded.encoding() {
                    Encoding::Affine(affine) => affine.scale.dtype() == DType::Float,
                    Encoding::Struct(_) => false,
                },
            },
            _ => Payloads {
                whole: false,
                decodable: false,
            },
        }
    }

    fn and(self, other: Payloads) -> Payloads {
        Payloads {
            whole: self.whole && other.whole,
            decodable: self.decodable && other.decodable,
        }
    }
}

impl Pages {
    /// One element.
    pub(crate) fn of(value: &RuntimeValue) -> Pages {
        let Ok(page) = page(value) else {
            return Pages::Other;
        };
        match PageRun::of_parts(&page) {
            Ok(run) => Pages::Checked(run, Payloads::of(page.key).and(Payloads::of(page.value))),
            Err(_) => Pages::Built,
        }
    }

    /// Both parts together.
    pub(crate) fn join(&self, next: &Pages) -> Pages {
        match (self, next) {
            (Pages::Other, _) | (_, Pages::Other) => Pages::Other,
            (Pages::Checked(a, first), Pages::Checked(b, second)) => match a.join(b) {
                Ok(run) => Pages::Checked(run, first.and(*second)),
                Err(_) => Pages::Built,
            },
            _ => Pages::Built,
        }
    }

    /// The pages as one run, when they keep all rules.
    pub(super) fn run(&self) -> Option<&PageRun> {
        match self {
            Pages::Checked(run, _) => Some(run),
            _ => None,
        }
    }
}
