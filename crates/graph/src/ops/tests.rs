//! What all schemas and their rules must hold to.

mod hostile;
mod table;
