//! Tensors of STRING and their messages.

use super::tensor;
use crate::error::ModelError;
use crate::load::LoadError;
use refeed_proto::TensorProto;
use refeed_values::{DType, ExtentError, RuntimeValue, StringTensor, TensorError};

/// Whether a message is of texts.
pub(crate) fn is_of_strings(proto: &TensorProto) -> bool {
    proto.data_type() == DType::String.to_onnx()
}

/// The texts of a message; their bytes stay shared with it.
///
/// # Errors
/// When the message is of another type, has its elements in another field, or has other than as many as its dimensions say.
pub fn strings_from_proto(proto: &TensorProto) -> Result<StringTensor, ModelError> {
    let name = || proto.name().to_string();
    let broken = |source: TensorError| ModelError::Tensor {
        tensor: name(),
        source,
    };
    if !is_of_strings(proto) {
        let number = proto.data_type();
        return Err(LoadError::DataType {
            tensor: name(),
            number,
        }
        .into());
    }
    if proto.raw_data.is_some() || proto.is_external() {
        return Err(LoadError::WrongField {
            tensor: name(),
            dtype: DType::String,
            expected: "string_data",
            got: "raw_data",
        }
        .into());
    }
    let dims = proto.dims.iter().enumerate();
    let shape = dims.map(|(axis, &dim)| {
        usize::try_from(dim).map_err(|_| ExtentError::Negative {
            axis,
            shape: proto.dims.clone(),
        })
    });
    let shape: Vec<usize> = shape
        .collect::<Result<_, _>>()
        .map_err(|error| broken(error.into()))?;
    StringTensor::new(&shape, proto.string_data.iter().cloned()).map_err(broken)
}

/// The message of texts; their bytes are shared.
pub fn strings_to_proto(strings: &StringTensor) -> TensorProto {
    TensorProto {
        data_type: Some(DType::String.to_onnx()),
        // Extents of values that exist fit.
        dims: strings.shape().iter().map(|&dim| dim as i64).collect(),
        string_data: strings.elements().to_vec(),
        ..TensorProto::default()
    }
}

/// The value of a tensor message of any type.
///
/// # Errors
/// As [`strings_from_proto`] and [`super::tensor_from_proto`].
pub fn value_from_proto(proto: &TensorProto) -> Result<RuntimeValue, ModelError> {
    match is_of_strings(proto) {
        true => Ok(strings_from_proto(proto)?.into()),
        false => Ok(tensor::tensor_from_proto(proto)?.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refeed_proto::Bytes;

    fn proto(dims: &[i64], texts: &[&'static str]) -> TensorProto {
        TensorProto {
            data_type: Some(8),
            dims: dims.to_vec(),
            string_data: texts
                .iter()
                .map(|text| Bytes::from_static(text.as_bytes()))
                .collect(),
            ..TensorProto::default()
        }
    }

    #[test]
    fn texts_go_there_and_back_shared() {
        for message in [
            proto(&[2, 2], &["a", "", "b\0c", "é"]),
            proto(&[], &["one"]),
            proto(&[3, 0], &[]),
        ] {
            let read = strings_from_proto(&message).unwrap();
            assert_eq!(strings_to_proto(&read), message);
            for (old, new) in message.string_data.iter().zip(read.elements()) {
                assert!(old.is_empty() || old.as_ptr() == new.as_ptr());
            }
        }
    }

    #[test]
    fn broken_messages_are_refused() {
        let raw = TensorProto {
            raw_data: Some(Bytes::from_static(b"a")),
            ..proto(&[1], &[])
        };
        let number = TensorProto {
            data_type: Some(1),
            ..proto(&[1], &["a"])
        };
        let outside = TensorProto {
            data_location: Some(1),
            ..proto(&[1], &[])
        };
        for (message, part) in [
            (proto(&[2], &["a"]), "2"),
            (proto(&[], &[]), "elements"),
            (proto(&[-1], &["a"]), "negative"),
            (proto(&[i64::MAX, i64::MAX], &["a"]), "elements"),
            (proto(&[1; 80], &["a"]), "axes"),
            (raw, "string_data"),
            (outside, "string_data"),
            (number, "1"),
        ] {
            let text = strings_from_proto(&message).unwrap_err().to_string();
            assert!(text.contains(part), "{text}");
        }
    }
}
