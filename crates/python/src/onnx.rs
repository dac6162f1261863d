//! `refeed.onnx`: the messages of the ONNX format as Python classes.

pub(crate) mod message;
pub(crate) mod repeated;
pub(crate) mod scalar;
pub(crate) mod tree;
