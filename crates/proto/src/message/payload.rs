//! What bytes and text fields hold.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// The content of a `bytes` field: memory that is shared and never changes, and the object that it came from.
#[derive(Clone)]
pub struct Payload {
    bytes: Bytes,
    source: Option<Arc<dyn Any + Send + Sync>>,
}

impl Payload {
    /// Shares memory.
    pub fn new(bytes: Bytes) -> Payload {
        Payload {
            bytes,
            source: None,
        }
    }

    /// Shares memory and remembers the object whose whole content it is, so that it can be handed back.
    pub fn with_source(bytes: Bytes, source: Arc<dyn Any + Send + Sync>) -> Payload {
        Payload {
            bytes,
            source: Some(source),
        }
    }

    /// The shared memory.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The object that the payload was made from.
    pub fn source(&self) -> Option<&Arc<dyn Any + Send + Sync>> {
        self.source.as_ref()
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Payload) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Payload {}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.bytes.len())
    }
}

/// The content of a `string` field. The wire may carry text that is not UTF-8; it is kept as it came.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Arc<[u8]>);

impl Text {
    /// Takes bytes as they came from the wire.
    pub fn from_wire(bytes: &[u8]) -> Text {
        Text(Arc::from(bytes))
    }

    /// The bytes on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text.
    ///
    /// # Errors
    /// When the bytes are not UTF-8.
    pub fn as_str(&self) -> Result<&str, std::str::Utf8Error> {
        std::str::from_utf8(&self.0)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text(Arc::from(text.as_bytes()))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.0), f)
    }
}
