//! Mapped files as shared bytes.
