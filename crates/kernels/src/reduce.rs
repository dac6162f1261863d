//! To come: reduce.
