//! To come: conv.
