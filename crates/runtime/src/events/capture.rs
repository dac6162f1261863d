//! What an event keeps of a value: a few numbers of a small tensor.

use refeed_values::{DType, RuntimeValue, Tensor};
use std::sync::Arc;

/// The most elements that are kept.
pub const CAPTURED: usize = 8;

/// A small tensor as it was when the event was recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Captured {
    /// Number of the element type in `onnx.TensorProto`; -1 when nothing was kept.
    pub data_type: i32,
    /// Extents; empty when nothing was kept.
    pub shape: Vec<usize>,
    /// Number of elements of the value; of a struct or sequence, of fields or elements.
    pub value_count: usize,
    /// The elements of integer types, BOOL included.
    pub integers: Vec<i64>,
    /// The elements of floating point types.
    pub reals: Vec<f64>,
    /// The texts of STRING, with what is not UTF-8 replaced.
    pub texts: Vec<Arc<str>>,
}

impl Default for Captured {
    fn default() -> Self {
        Captured {
            data_type: -1,
            shape: Vec::new(),
            value_count: 0,
            integers: Vec::new(),
            reals: Vec::new(),
            texts: Vec::new(),
        }
    }
}

impl Captured {
    /// What is kept of a value: everything of a tensor of at most [`CAPTURED`] elements, else their number.
    pub fn of(value: &RuntimeValue) -> Captured {
        let value_count = match value {
            RuntimeValue::Tensor(tensor) => tensor.elements(),
            RuntimeValue::Struct(fields) => fields.len(),
            RuntimeValue::Sequence(elements) => elements.len(),
            RuntimeValue::Encoded(encoded) => encoded.shape().iter().product(),
            RuntimeValue::Strings(strings) => strings.elements().len(),
            _ => 0,
        };
        let counted = Captured {
            value_count,
            ..Captured::default()
        };
        match value {
            RuntimeValue::Tensor(tensor) if value_count <= CAPTURED => {
                let (integers, reals) = elements(tensor);
                Captured {
                    data_type: tensor.dtype().to_onnx(),
                    shape: tensor.shape().to_vec(),
                    integers,
                    reals,
                    ..counted
                }
            }
            RuntimeValue::Strings(strings) if value_count <= CAPTURED => {
                let texts = (0..value_count).filter_map(|index| strings.text(index));
                Captured {
                    data_type: DType::String.to_onnx(),
                    shape: strings.shape().to_vec(),
                    texts: texts.map(Arc::from).collect(),
                    ..counted
                }
            }
            _ => counted,
        }
    }
}

/// The elements of the types that have a view; of others nothing.
fn elements(tensor: &Tensor) -> (Vec<i64>, Vec<f64>) {
    macro_rules! read {
        ($ty:ty, $each:expr) => {
            tensor
                .view::<$ty>()
                .map(|view| view.iter().map($each).collect())
                .unwrap_or_default()
        };
    }
    match tensor.dtype() {
        DType::Int64 => (read!(i64, |v| v), Vec::new()),
        DType::Int32 => (read!(i32, i64::from), Vec::new()),
        DType::Int16 => (read!(i16, i64::from), Vec::new()),
        DType::Int8 => (read!(i8, i64::from), Vec::new()),
        DType::Uint8 | DType::Bool => (read!(u8, i64::from), Vec::new()),
        DType::Uint16 => (read!(u16, i64::from), Vec::new()),
        DType::Uint32 => (read!(u32, i64::from), Vec::new()),
        DType::Float => (Vec::new(), read!(f32, f64::from)),
        DType::Double => (Vec::new(), read!(f64, |v| v)),
        DType::Float16 => (Vec::new(), read!(half::f16, f64::from)),
        DType::Bfloat16 => (Vec::new(), read!(half::bf16, f64::from)),
        _ => (Vec::new(), Vec::new()),
    }
}
