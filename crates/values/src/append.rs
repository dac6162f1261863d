//! Append-only blocks (under construction).

/// Geometry and watermark of a block.
#[derive(Debug)]
pub struct Block {}

/// Rows written by one reservation.
#[derive(Debug)]
pub struct Tail {}
