//! To come: constant.
