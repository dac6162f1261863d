//! What bytes fields hold.

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
