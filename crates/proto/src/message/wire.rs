//! Numbers, keys and lengths on the wire.

use thiserror::Error;

/// What is wrong with bytes that should be a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Malformed {
    /// A number that is not complete.
    #[error("expected a number, got the end of the message in the middle of it")]
    NumberEnds,
    /// A number without an end.
    #[error("expected a number of at most {limit} bytes, got a longer one")]
    NumberTooLong {
        /// The most bytes that it may have.
        limit: usize,
    },
    /// A key with a field number outside of 1 to 2^29 - 1, or of a wire type that does not exist.
    #[error(
        "expected a key of a field numbered 1 to 536870911 and of a wire type 0 to 5, got field {field} of wire type {wire_type}"
    )]
    Key {
        /// The number of the field.
        field: u64,
        /// The wire type.
        wire_type: u8,
    },
    /// A value that is longer than what follows.
    #[error("expected {length} bytes, got {left} before the end of the message")]
    Truncated {
        /// Bytes that it needs.
        length: u64,
        /// Bytes that are left.
        left: u64,
    },
    /// A packed list whose length is not a multiple of its items' size.
    #[error("expected a packed list of items of {item} bytes each, got {length} bytes")]
    Packed {
        /// Bytes of the list.
        length: u64,
        /// Bytes of an item.
        item: u64,
    },
    /// The end of a group that is not open, or no end of one that is.
    #[error("expected {}, got {}", Boundary(*.expected), Boundary(*.got))]
    Group {
        /// Number of the group that is open; 0 for none.
        expected: u32,
        /// Number of the group that ends here; 0 for the end of the message.
        got: u32,
    },
    /// Messages or groups nested too deep.
    #[error("expected at most {limit} levels of messages and groups, got more")]
    Depth {
        /// The limit.
        limit: usize,
    },
    /// Messages and lists that would take too much memory.
    #[error(
        "expected a structure that takes at most {limit} bytes of memory, got a larger one; if the source is trusted, raise the limit"
    )]
    Structure {
        /// The limit.
        limit: u64,
    },
    /// A field that is declared only to be refused.
    #[error(
        "paths into parts of a value are retired: a binding names a whole input and a whole output"
    )]
    Retired,
}

/// A fault on its way out: one word, so that results of reading stay in registers.
pub(super) type Fault = Box<Malformed>;

/// Where a group ends, in words.
struct Boundary(u32);

impl std::fmt::Display for Boundary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            0 => f.write_str("the end of the message"),
            number => write!(f, "the end of group {number}"),
        }
    }
}

pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const LENGTH: u8 = 2;
pub(super) const GROUP: u8 = 3;
pub(super) const GROUP_END: u8 = 4;
pub(super) const FIXED32: u8 = 5;

/// The largest number of a field.
const LARGEST_FIELD: u64 = (1 << 29) - 1;

/// Reads a message. Nothing is read beyond the end of `wire`.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) wire: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(wire: &'a [u8]) -> Reader<'a> {
        Reader { wire, at: 0 }
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, Fault> {
        match self.wire.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(byte.into())
            }
            _ => self.long_varint(10),
        }
    }

    /// As protobuf does, bits beyond the 64th are dropped.
    #[cold]
    #[inline(never)]
    fn long_varint(&mut self, limit: usize) -> Result<u64, Fault> {
        let rest = self.wire.get(self.at..).unwrap_or_default();
        let mut value = 0;
        for (index, &byte) in rest.iter().take(limit).enumerate() {
            value |= u64::from(byte & 0x7F) << (7 * index);
            if byte < 0x80 {
                self.at += index + 1;
                return Ok(value);
            }
        }
        Err(Box::new(if rest.len() < limit {
            Malformed::NumberEnds
        } else {
            Malformed::NumberTooLong { limit }
        }))
    }

    /// A field number and a wire type.
    #[inline]
    pub(super) fn key(&mut self) -> Result<(u32, u8), Fault> {
        let key = match self.wire.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                byte.into()
            }
            _ => self.long_varint(5)?,
        };
        let (field, wire_type) = (key >> 3, (key & 7) as u8);
        if field == 0 || field > LARGEST_FIELD || wire_type > FIXED32 {
            return Err(Box::new(Malformed::Key { field, wire_type }));
        }
        Ok((field as u32, wire_type))
    }

    /// Moves over `length` bytes.
    #[inline]
    pub(super) fn take(&mut self, length: u64) -> Result<&'a [u8], Fault> {
        let left = self.wire.len() - self.at;
        match usize::try_from(length) {
            Ok(length) if length <= left => {
                let start = self.at;
                self.at += length;
                Ok(&self.wire[start..self.at])
            }
            _ => Err(truncated(length, left)),
        }
    }

    /// The bytes of a length-delimited value.
    #[inline]
    pub(super) fn delimited(&mut self) -> Result<&'a [u8], Fault> {
        let length = self.varint()?;
        self.take(length)
    }

    pub(super) fn fixed32(&mut self) -> Result<[u8; 4], Fault> {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(self.take(4)?);
        Ok(bytes)
    }

    pub(super) fn fixed64(&mut self) -> Result<[u8; 8], Fault> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.take(8)?);
        Ok(bytes)
    }

    /// Moves over the value after a key, a group with all that is in it. `room` is how many groups may be nested.
    pub(super) fn skip(&mut self, key: (u32, u8), room: Room) -> Result<(), Fault> {
        let mut open: Vec<u32> = Vec::new();
        let mut key = key;
        loop {
            match key {
                (_, VARINT) => drop(self.varint()?),
                (_, FIXED64) => drop(self.take(8)?),
                (_, LENGTH) => drop(self.delimited()?),
                (_, FIXED32) => drop(self.take(4)?),
                (number, GROUP) if open.len() < room.left => open.push(number),
                (_, GROUP) => return Err(Box::new(Malformed::Depth { limit: room.limit })),
                (number, _) => match open.pop() {
                    Some(expected) if expected == number => {}
                    expected => {
                        return Err(Box::new(Malformed::Group {
                            expected: expected.unwrap_or(0),
                            got: number,
                        }));
                    }
                },
            }
            let Some(&expected) = open.last() else {
                return Ok(());
            };
            if self.at == self.wire.len() {
                return Err(Box::new(Malformed::Group { expected, got: 0 }));
            }
            key = self.key()?;
        }
    }
}

#[cold]
fn truncated(length: u64, left: usize) -> Fault {
    let left = left as u64;
    Box::new(Malformed::Truncated { length, left })
}

/// Levels that are left below a message.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub(super) left: usize,
    pub(super) limit: usize,
}

/// Bytes that a number takes.
#[inline]
pub(super) fn varint_len(value: u64) -> usize {
    // 7 bits a byte, one byte at least: 9/64 is a little less than 1/7, enough of it for 64 bits.
    let bits = 64 - (value | 1).leading_zeros() as usize;
    (bits * 9 + 64) / 64
}
