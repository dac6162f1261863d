//! To come: elementwise.
