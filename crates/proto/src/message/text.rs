//! What text fields hold.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::str::Utf8Error;
use std::sync::Arc;

/// The content of a `string` field. The wire may carry text that is not UTF-8; it is kept as it came.
///
/// Short text lies in place. Longer text that was decoded shares a few kilobytes with its neighbours.
#[derive(Clone)]
pub struct Text(Repr);

#[derive(Clone)]
enum Repr {
    Short {
        length: u8,
        bytes: [u8; SHORT],
    },
    Part {
        start: u16,
        length: u16,
        of: Arc<[u8]>,
    },
    Whole(Arc<[u8]>),
}

/// Fills what the other representations need anyway.
const SHORT: usize = 22;

impl Text {
    /// Takes bytes as they came from the wire.
    pub fn from_wire(bytes: &[u8]) -> Text {
        Text::short(bytes).unwrap_or_else(|| Text(Repr::Whole(Arc::from(bytes))))
    }

    fn short(bytes: &[u8]) -> Option<Text> {
        let length = bytes.len();
        let mut held = [0; SHORT];
        held.get_mut(..length)?.copy_from_slice(bytes);
        let length = length as u8;
        Some(Text(Repr::Short {
            length,
            bytes: held,
        }))
    }

    /// The bytes on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Short { length, bytes } => &bytes[..usize::from(*length)],
            Repr::Part { start, length, of } => {
                let start = usize::from(*start);
                &of[start..start + usize::from(*length)]
            }
            Repr::Whole(bytes) => bytes,
        }
    }

    /// Bytes of the text.
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Short { length, .. } => usize::from(*length),
            Repr::Part { length, .. } => usize::from(*length),
            Repr::Whole(bytes) => bytes.len(),
        }
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The text.
    ///
    /// # Errors
    /// When the bytes are not UTF-8.
    pub fn as_str(&self) -> Result<&str, Utf8Error> {
        std::str::from_utf8(self.as_bytes())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text::from_wire(text.as_bytes())
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Text {}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Text) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Text) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(self.as_bytes()), f)
    }
}

/// Copies the texts of one wire. Where long ones stand close together, a copy of the stretch around them serves all of
/// them, so that a text costs no allocation; a text keeps at most [`STRETCH`] bytes of others alive.
#[derive(Default)]
pub(super) struct Copier {
    stretch: Option<Arc<[u8]>>,
    /// Where the stretch lies on the wire.
    start: usize,
    /// Where the last long text ended.
    last: usize,
}

const STRETCH: usize = 4096;
/// Texts further apart have something else between them.
const CLOSE: usize = 256;

impl Copier {
    /// The text at `range`, which lies within `wire`.
    pub(super) fn copy(&mut self, wire: &[u8], range: Range<usize>) -> Text {
        let bytes = &wire[range.clone()];
        if let Some(text) = Text::short(bytes) {
            return text;
        }
        let close = range.start.saturating_sub(self.last) < CLOSE && self.last > 0;
        self.last = range.end;
        if bytes.len() > STRETCH / 4 {
            return Text(Repr::Whole(Arc::from(bytes)));
        }
        if let Some(of) = &self.stretch
            && range.start >= self.start
            && range.end <= self.start + of.len()
        {
            return part(of, range.start - self.start, bytes.len());
        }
        if !close {
            return Text(Repr::Whole(Arc::from(bytes)));
        }
        let end = wire.len().min(range.start + STRETCH);
        let of = Arc::from(&wire[range.start..end]);
        self.start = range.start;
        part(self.stretch.insert(of), 0, bytes.len())
    }
}

/// Both numbers are at most [`STRETCH`].
fn part(of: &Arc<[u8]>, start: usize, length: usize) -> Text {
    Text(Repr::Part {
        start: start as u16,
        length: length as u16,
        of: of.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_the_text_wherever_it_lies() {
        let wire: Vec<u8> = (0..20_000u32).map(|n| (n * 7 % 251) as u8).collect();
        let mut copier = Copier::default();
        let mut at = 0;
        for length in [0, 1, 22, 23, 24, 100, 1024, 1025, 4096, 23, 30, 40, 5000].repeat(2) {
            let range = at..(at + length).min(wire.len());
            assert_eq!(copier.copy(&wire, range.clone()).as_bytes(), &wire[range]);
            at += length + 3;
        }
        assert!(at > 20_000);
    }

    #[test]
    fn texts_close_together_share_one_stretch() {
        let wire = vec![b'x'; 10_000];
        let mut copier = Copier::default();
        let texts: Vec<Text> = (1..200)
            .map(|n| copier.copy(&wire, n * 50..n * 50 + 40))
            .collect();
        let stretches: std::collections::BTreeSet<usize> = texts
            .iter()
            .filter_map(|text| match &text.0 {
                Repr::Part { of, .. } => Some(of.as_ptr().addr()),
                _ => None,
            })
            .collect();
        assert_eq!(stretches.len(), 3);
        // Far from any other.
        let alone = copier.copy(&vec![0; 30_000], 20_000..20_100);
        assert!(matches!(alone.0, Repr::Whole(_)));
    }

    #[test]
    fn order_and_equality_are_those_of_the_bytes() {
        let long = "n".repeat(60);
        let wire = format!("{long}{long}");
        let mut copier = Copier::default();
        copier.copy(wire.as_bytes(), 0..60);
        let part = copier.copy(wire.as_bytes(), 60..120);
        assert!(matches!(part.0, Repr::Part { .. }));
        assert_eq!(part, Text::from(long.as_str()));
        assert!(Text::from("a") < part && part < Text::from("o"));
        assert_eq!(Text::from("é").as_str(), Ok("é"));
        assert!(Text::from_wire(b"\xC3(").as_str().is_err());
    }
}
