//! To come: movement.
