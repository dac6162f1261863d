//! Hostile folders and hostile tensors.

mod folders;
mod models;
mod tensors;

use refeed_proto::{Bytes, StringStringEntryProto, TensorProto, tensor_proto::DataLocation};

fn entry(key: &str, value: impl ToString) -> StringStringEntryProto {
    StringStringEntryProto {
        key: Some(key.into()),
        value: Some(value.to_string()),
    }
}

/// A UINT8 tensor of `bytes` elements that is stored in `location`.
fn external(location: &str, offset: u64, bytes: i64) -> TensorProto {
    TensorProto {
        name: Some("w".into()),
        data_type: Some(2),
        dims: vec![bytes],
        data_location: Some(DataLocation::External as i32),
        external_data: vec![
            entry("location", location),
            entry("offset", offset),
            entry("length", bytes),
        ],
        ..Default::default()
    }
}

fn raw(data_type: i32, dims: &[i64], raw_data: &[u8]) -> TensorProto {
    TensorProto {
        name: Some("w".into()),
        data_type: Some(data_type),
        dims: dims.to_vec(),
        raw_data: Some(Bytes::copy_from_slice(raw_data)),
        ..Default::default()
    }
}
