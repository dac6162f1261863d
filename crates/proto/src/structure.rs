//! How much memory decoding will take, found out without taking it.

use crate::generated_nesting::{MESSAGES, MODEL};

/// A field whose every occurrence takes memory of its own.
pub(crate) struct Nested {
    field: u64,
    bytes: u64,
    /// Index of the message inside, for fields that are messages.
    message: Option<usize>,
}

impl Nested {
    pub(crate) const fn message<T>(field: u64, message: usize) -> Nested {
        Nested {
            field,
            bytes: size_of::<T>() as u64,
            message: Some(message),
        }
    }

    pub(crate) const fn leaf<T>(field: u64) -> Nested {
        Nested {
            field,
            bytes: size_of::<T>() as u64,
            message: None,
        }
    }
}

/// A list with one element has room for four.
const ROOM: u64 = 4;

/// Messages nested deeper are an error when they are decoded (the limit there is 100).
const DEEPEST: usize = 128;

/// The bytes that the structure of the [`ModelProto`](crate::ModelProto) in `wire` takes at most when it is decoded: its
/// messages and repeated strings, four times their size because a list starts with room for four and grows by doubling.
/// Payloads, text and numbers are not counted: they take no more than a small multiple of `wire`. `None` when it is more
/// than `limit`.
///
/// The walk reads keys and lengths, never a payload, and takes constant memory. It says nothing about whether `wire` is
/// well formed: where the decoder would stop with an error, or later, it stops too.
///
/// ```
/// use refeed_proto::structure_bytes;
/// // A graph of 60 empty nodes.
/// let wire = [&[0x3A, 120][..], &[0x0A, 0].repeat(60)].concat();
/// let bytes = structure_bytes(&wire, u64::MAX).unwrap();
/// assert!(bytes > 60 * 200);
/// assert_eq!(structure_bytes(&wire, bytes - 1), None);
/// ```
pub fn structure_bytes(wire: &[u8], limit: u64) -> Option<u64> {
    let mut walk = Walk { wire, at: 0 };
    let mut open = vec![(MODEL, wire.len())];
    let mut total = 0u64;
    while let Some(&(message, end)) = open.last() {
        if walk.at >= end {
            // As the decoder does, read a field that crosses the end of its message to its own end, then give up.
            if walk.at > end {
                break;
            }
            open.pop();
            continue;
        }
        let Some(key) = walk.varint() else { break };
        if key & 7 != 2 {
            if walk.skip(key & 7).is_none() {
                break;
            }
            continue;
        }
        let Some(inner_end) = walk.length_delimited() else {
            break;
        };
        match MESSAGES[message]
            .iter()
            .find(|nested| nested.field == key >> 3)
        {
            Some(nested) => {
                total = total.saturating_add(nested.bytes * ROOM);
                if total > limit {
                    return None;
                }
                match nested.message {
                    Some(_) if open.len() >= DEEPEST => break,
                    Some(inner) => open.push((inner, inner_end)),
                    None => walk.at = inner_end,
                }
            }
            None => walk.at = inner_end,
        }
    }
    Some(total)
}

struct Walk<'a> {
    wire: &'a [u8],
    at: usize,
}

impl Walk<'_> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for index in 0..10 {
            let byte = *self.wire.get(self.at)?;
            self.at += 1;
            value |= u64::from(byte & 0x7F) << (7 * index);
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Reads a length; gives where it ends.
    fn length_delimited(&mut self) -> Option<usize> {
        let length = usize::try_from(self.varint()?).ok()?;
        self.at
            .checked_add(length)
            .filter(|&end| end <= self.wire.len())
    }

    /// Skips the value after a key of this wire type; a group with everything in it.
    fn skip(&mut self, wire_type: u64) -> Option<()> {
        let mut groups = 0usize;
        let mut wire_type = wire_type;
        loop {
            match wire_type {
                0 => drop(self.varint()?),
                1 => {
                    self.at = self
                        .at
                        .checked_add(8)
                        .filter(|&end| end <= self.wire.len())?
                }
                2 => self.at = self.length_delimited()?,
                3 => groups += 1,
                4 => groups = groups.checked_sub(1)?,
                5 => {
                    self.at = self
                        .at
                        .checked_add(4)
                        .filter(|&end| end <= self.wire.len())?
                }
                _ => return None,
            }
            if groups == 0 {
                return Some(());
            }
            wire_type = self.varint()? & 7;
        }
    }
}
