//! Operators that hold graphs, while they run. The planner (`plan/control.rs`) compiles their bodies once.

mod body;
mod conditional;
mod repeat;
mod scan;
mod sequence_map;
mod stack;

pub(crate) use body::Body;
pub(crate) use conditional::If;
pub(crate) use repeat::{Loop, never_ends};
pub(crate) use scan::{BatchedScan, Scan, Scanned};
pub(crate) use sequence_map::SequenceMap;
