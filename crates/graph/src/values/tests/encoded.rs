//! Encoded values.

use super::*;
use refeed_proto::StringStringEntryProto;
use refeed_proto::struct_type_proto::structure::field::Content;
use refeed_values::encoded::Affine;
use refeed_values::{Allocator, EncodedValue, Tensor};

fn decoded(value: &EncodedValue) -> Vec<f32> {
    let dense = value.decode(&Allocator::default()).unwrap();
    dense.view::<f32>().unwrap().to_vec()
}

fn read(proto: &EncodedValueProto) -> Result<EncodedValue, ModelError> {
    encoded_from_proto(proto, &Catalogues::default())
}

#[test]
fn a_message_comes_back_as_it_was_and_its_payload_is_shared() {
    let mut axis = affine(DType::Int4, "2 3", &[0x21, 0x43, 0x65]);
    layout_mut(&mut axis).axis = Some(-1);
    layout_mut(&mut axis).scale = Some(floats("", &[3], &[0.5, 1.0, 2.0]));
    let mut blocked = affine(DType::Uint8, "2 3", &[1, 2, 3, 4, 5, 6]);
    layout_mut(&mut blocked).axis = Some(1);
    layout_mut(&mut blocked).block_size = Some(2);
    layout_mut(&mut blocked).scale = Some(floats("", &[2, 2], &[0.5, 1.0, 2.0, 4.0]));
    let mut signed = affine(DType::Int4, "4", &[0x21, 0x43]);
    layout_mut(&mut signed).storage_type = None;
    layout_mut(&mut signed).signed_storage = Some(true);
    let records = EncodedValueProto {
        doc_string: Some("three bytes".to_string()),
        ..structured(array_of(tensor_type(2, "1"), 3), &[1, 2, 3, 4, 5, 6])
    };
    let empty = affine(DType::Int4, "0", &[]);
    for (proto, expected) in [
        (
            affine(DType::Int8, "3", &[1, 2, 0xFF]),
            Some(vec![0.5, 1.0, -0.5]),
        ),
        (axis, Some(vec![0.5, 2.0, 6.0, 2.0, 5.0, 12.0])),
        (blocked, Some(vec![0.5, 1.0, 3.0, 8.0, 10.0, 24.0])),
        (signed, Some(vec![0.5, 1.0, 1.5, 2.0])),
        (empty, Some(vec![])),
        (records, None),
    ] {
        let value = read(&proto).unwrap();
        if let Some(expected) = expected {
            assert_eq!(decoded(&value), expected);
        }
        let again = encoded_to_proto(&value).unwrap();
        assert_eq!(again, proto);
        let address = |proto: &EncodedValueProto| proto.raw_data.as_ref().map(|raw| raw.as_ptr());
        if !proto.raw_data.as_ref().unwrap().is_empty() {
            assert_eq!(value.payload().as_ptr(), address(&proto).unwrap());
            assert_eq!(address(&again), address(&proto));
        }
    }
}

#[test]
fn a_value_made_here_is_written_from_its_parts() {
    for inferred in [false, true] {
        let affine = Affine {
            inferred,
            axis: Some(1),
            block_size: Some(2),
            scale: Tensor::from_slice(&[2, 2], &[0.5f32, 1.0, 2.0, 4.0]).unwrap(),
            zero_point: Some(Tensor::from_slice(&[2, 2], &[1i8, -1, 0, 2]).unwrap()),
            ..Affine::per_tensor(DType::Int8, Tensor::scalar(1f32).unwrap())
        };
        let payload = Tensor::from_slice(&[6], &[1u8, 2, 3, 4, 5, 6]).unwrap();
        let value = EncodedValue::affine(affine, (DType::Float, &[2, 3]), payload).unwrap();
        let proto = encoded_to_proto(&value).unwrap();
        let mut stated = proto.clone();
        let layout = layout_mut(&mut stated);
        assert_eq!(layout.storage_type.is_none(), inferred);
        assert_eq!(layout.signed_storage, inferred.then_some(true));
        let again = read(&proto).unwrap();
        assert_eq!(decoded(&again), decoded(&value));
        assert_eq!(encoded_to_proto(&again).unwrap(), proto);
        assert_eq!(again.payload().as_ptr(), value.payload().as_ptr());
    }
}

#[test]
fn parameters_in_typed_fields_are_read() {
    let mut proto = affine(DType::Int4, "1 4", &[0x21, 0x43]);
    let layout = layout_mut(&mut proto);
    layout.axis = Some(0);
    layout.scale = Some(TensorProto {
        data_type: Some(10),
        dims: vec![1],
        // The bits of 0.25 in FLOAT16.
        int32_data: vec![0x3400],
        ..TensorProto::default()
    });
    layout.zero_point = Some(TensorProto {
        data_type: Some(DType::Int4.to_onnx()),
        dims: vec![1],
        int32_data: vec![0x0F],
        ..TensorProto::default()
    });
    let value = read(&proto).unwrap();
    assert_eq!(decoded(&value), [0.5, 0.75, 1.0, 1.25]);
    assert_eq!(encoded_to_proto(&value).unwrap(), proto);

    // Two 4-bit codes in one entry: -1 and 2.
    let mut two = affine(DType::Int4, "1 1 2 2", &[0x21, 0x43]);
    let layout = layout_mut(&mut two);
    layout.axis = Some(-1);
    layout.scale = Some(TensorProto {
        data_type: Some(FLOAT),
        dims: vec![2],
        float_data: vec![0.25, 0.5],
        ..TensorProto::default()
    });
    layout.zero_point = Some(TensorProto {
        data_type: Some(DType::Int4.to_onnx()),
        dims: vec![2],
        int32_data: vec![0x2F],
        ..TensorProto::default()
    });
    assert_eq!(decoded(&read(&two).unwrap()), [0.5, 0.0, 1.0, 1.0]);
}

#[test]
fn the_rules_of_a_file_are_the_rules_of_a_value() {
    let good = || affine(DType::Int4, "3", &[0x21, 0x03]);
    let with = |change: fn(&mut EncodedValueProto)| {
        let mut proto = good();
        change(&mut proto);
        read(&proto)
    };
    assert!(read(&good()).is_ok());
    refused(
        with(|v| v.layout = None),
        &["an affine layout or a struct type"],
    );
    refused(
        with(|v| v.raw_data = None),
        &["raw_data: expected a payload, got none"],
    );
    refused(
        with(|v| v.raw_data = raw(&[0x21, 0x13])),
        &["past the last code"],
    );
    refused(with(|v| v.logical_type = None), &["logical_type"]);
    refused(
        with(|v| v.logical_type = Some(tensor_type(FLOAT, "n"))),
        &["expected a number"],
    );
    refused(with(|v| layout_mut(v).scale = None), &["affine.scale"]);
    refused(with(|v| layout_mut(v).axis = Some(1)), &["affine.axis"]);
    refused(
        with(|v| layout_mut(v).axis = Some(i64::MIN)),
        &["affine.axis"],
    );
    refused(
        with(|v| {
            v.raw_data = None;
            v.data_location = Some(1);
            v.external_data = [("location", "w.bin"), ("length", "2")]
                .map(|(key, value)| StringStringEntryProto {
                    key: Some(key.to_string()),
                    value: Some(value.to_string()),
                })
                .into();
        }),
        &["w.bin"],
    );
    refused(
        with(|v| v.parameter_ref = Some("set".to_string())),
        &["parameter_ref"],
    );
}

#[test]
fn hostile_sizes_are_refused_before_anything_is_made() {
    for dims in [
        "9223372036854775807 9223372036854775807",
        "4294967296 4294967296 4294967296",
        "-1",
    ] {
        refused(read(&affine(DType::Int8, dims, &[0])), &["logical_type"]);
    }
    refused(
        read(&affine(DType::Int8, "9223372036854775807", &[0])),
        &["raw_data"],
    );
    let huge = array_of(tensor_type(FLOAT, "9223372036854775807"), 1);
    refused(read(&structured(huge, &[0])), &["dimensions with a size"]);
    let many = array_of(tensor_type(FLOAT, "1073741824"), u64::MAX);
    refused(read(&structured(many, &[0])), &["64 bits"]);
    let mut deep = tensor_type(2, "1");
    for _ in 0..70 {
        deep = of_struct(array_of(deep, 1));
    }
    refused(
        read(&structured(array_of(deep, 1), &[0])),
        &["nested at most 64 deep"],
    );
    let mut blocks = affine(DType::Int8, "3", &[0; 3]);
    layout_mut(&mut blocks).axis = Some(0);
    layout_mut(&mut blocks).block_size = Some(u64::MAX);
    layout_mut(&mut blocks).scale = Some(floats("", &[1], &[0.5]));
    assert_eq!(decoded(&read(&blocks).unwrap()), [0.0; 3]);
}

#[test]
fn references_need_the_catalogue_that_has_them() {
    let entry = StructTypeProto {
        type_id: Some(9),
        ..array_of(tensor_type(2, "1"), 3)
    };
    let catalogues = types(vec![entry.clone()]);
    let proto = structured(of_kind(Kind::TypeRef(9)), &[1, 2, 3]);
    refused(read(&proto), &["struct_types, got 9"]);
    let value = encoded_from_proto(&proto, &catalogues).unwrap();
    assert_eq!(value.record_count(), Some(1));
    assert_eq!(encoded_to_proto(&value).unwrap(), proto);
    // Both values are of the entry's one layout.
    let second = encoded_from_proto(&proto, &catalogues).unwrap();
    assert!(Arc::ptr_eq(
        value.struct_type().unwrap(),
        second.struct_type().unwrap()
    ));
    // And what is written without its message refers to the entry as well.
    let ty = value.struct_type().unwrap();
    assert_eq!(struct_type_to_proto(ty).unwrap(), of_kind(Kind::TypeRef(9)));
}

/// Rules 3.3.4, 3.3.6, 3.7.5.
#[test]
fn an_encoded_value_is_held_to_a_declared_struct_type() {
    let entry = |id| StructTypeProto {
        type_id: Some(id),
        ..array_of(tensor_type(2, "1"), 3)
    };
    let catalogues = types(vec![entry(9), entry(8)]);
    let reference = |id| of_kind(Kind::TypeRef(id));
    let value =
        |declared| encoded_from_proto(&structured(declared, &[1, 2, 3]), &catalogues).unwrap();
    let inline = || array_of(tensor_type(2, "1"), 3);
    let check = |value: &EncodedValue, declared| check_encoded(value, &declared, &catalogues);
    check(&value(reference(9)), reference(9)).unwrap();
    check(&value(inline()), inline()).unwrap();
    refused(
        check(&value(reference(9)), reference(8)),
        &["expected struct type 8, got struct type 9"],
    );
    // One has an identity, the other none.
    refused(check(&value(inline()), reference(9)), &["struct_type"]);
    refused(
        check(&value(inline()), array_of(tensor_type(2, "1"), 1)),
        &["1 elements"],
    );
    refused(
        check(&value(inline()), reference(7)),
        &["struct_types, got 7"],
    );
    let dense = encoded_from_proto(&affine(DType::Int8, "3", &[0; 3]), &catalogues).unwrap();
    refused(
        check(&dense, inline()),
        &["a structured encoding, got an affine one"],
    );
}

/// Rule 3.3.6.
#[test]
fn constants_are_compared_as_they_were_declared() {
    let with = |constant: TensorProto| {
        structure(vec![
            ("version", Content::Constant(constant)),
            ("codes", Content::Type(tensor_type(2, "3"))),
        ])
    };
    let typed = |n: i64| TensorProto {
        data_type: Some(INT64),
        int64_data: vec![n],
        ..TensorProto::default()
    };
    let catalogues = Catalogues::default();
    let proto = structured(with(typed(1)), &[1, 2, 3]);
    let value = encoded_from_proto(&proto, &catalogues).unwrap();
    assert_eq!(encoded_to_proto(&value).unwrap(), proto);
    check_encoded(&value, &with(typed(1)), &catalogues).unwrap();
    refused(
        check_encoded(&value, &with(typed(2)), &catalogues),
        &["an equal constant"],
    );
    let texts = TensorProto {
        data_type: Some(STRING),
        dims: vec![1],
        string_data: vec![Bytes::from_static(b"a")],
        ..TensorProto::default()
    };
    refused(
        encoded_from_proto(&structured(with(texts), &[1, 2, 3]), &catalogues),
        &["constant", "elements of fixed size", "STRING"],
    );
}
