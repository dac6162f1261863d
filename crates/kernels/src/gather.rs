//! To come: gather.
