use refeed_values::{DType, ExtentError};

use super::super::*;
use super::{external, raw};
use refeed_proto::TensorProto;

fn bytes(tensor: &TensorProto) -> Result<Bytes, LoadError> {
    tensor_bytes(tensor, &ExternalData::none())
}

fn of(dtype: DType, dims: &[i64]) -> TensorProto {
    TensorProto {
        name: Some("w".into()),
        data_type: Some(dtype.to_onnx()),
        dims: dims.to_vec(),
        ..Default::default()
    }
}

/// Every fixed-width type, 0 to 17 elements, 0 to 40 bytes: accepted exactly when the sizes agree.
#[test]
fn raw_data_has_exactly_the_bytes_of_its_elements() {
    let widths: [(i32, usize); 27] = [
        (1, 32),
        (2, 8),
        (3, 8),
        (4, 16),
        (5, 16),
        (6, 32),
        (7, 64),
        (9, 8),
        (10, 16),
        (11, 64),
        (12, 32),
        (13, 64),
        (14, 64),
        (15, 128),
        (16, 16),
        (17, 8),
        (18, 8),
        (19, 8),
        (20, 8),
        (21, 4),
        (22, 4),
        (23, 4),
        (24, 8),
        (25, 2),
        (26, 2),
        (27, 6),
        (28, 6),
    ];
    let payload: Vec<u8> = (1..=40).collect();
    let mut accepted = 0;
    for (data_type, bits) in widths {
        for count in 0..=17usize {
            for size in 0..=40usize {
                let tensor = raw(data_type, &[count as i64], &payload[..size]);
                let fits = size == (count * bits).div_ceil(8);
                match bytes(&tensor) {
                    Ok(out) => {
                        assert!(fits, "{data_type} {count} {size}");
                        assert_eq!(out.as_ptr(), tensor.raw_data.as_ref().unwrap().as_ptr());
                        accepted += 1;
                    }
                    Err(error) => {
                        assert!(
                            !fits && matches!(error, LoadError::DataSize { .. }),
                            "{error}"
                        );
                    }
                }
            }
        }
    }
    assert!(accepted > 200);
}

#[test]
fn dimensions_are_checked_before_anything_is_allocated() {
    for dims in [&[-1][..], &[2, i64::MIN], &[0, -1]] {
        let error = bytes(&raw(1, dims, &[])).unwrap_err();
        assert!(
            matches!(
                error,
                LoadError::Dims {
                    source: ExtentError::Negative { .. },
                    ..
                }
            ),
            "{error}"
        );
    }
    for dims in [
        &[i64::MAX, 2][..],
        &[1 << 32, 1 << 32],
        &[0, i64::MAX, i64::MAX],
        &[1 << 61],
    ] {
        let error = bytes(&raw(1, dims, &[])).unwrap_err();
        assert!(
            matches!(
                error,
                LoadError::Dims {
                    source: ExtentError::Overflow { .. },
                    ..
                }
            ),
            "{error}"
        );
    }
    // Large, but possible: an error because there are no elements, and no memory is asked for.
    for tensor in [
        of(DType::Float, &[1 << 60]),
        of(DType::Int2, &[1 << 60]),
        of(DType::Complex128, &[1 << 50]),
    ] {
        assert!(matches!(
            bytes(&tensor),
            Err(LoadError::DataSize { got: 0, .. })
        ));
    }
    // A scalar is one element; no dimensions are no reason for no data.
    assert_eq!(bytes(&raw(1, &[], &[1, 2, 3, 4])).unwrap().len(), 4);
    assert!(bytes(&of(DType::Float, &[])).is_err());
    assert_eq!(bytes(&of(DType::Float, &[0, 3])).unwrap().len(), 0);
}

#[test]
fn unknown_types_and_places_are_refused() {
    for number in [0, 29, 99, -1, i32::MAX, i32::MIN] {
        let error = bytes(&raw(number, &[1], &[0])).unwrap_err();
        assert!(matches!(error, LoadError::DataType { number: got, .. } if got == number));
    }
    assert!(matches!(
        bytes(&TensorProto::default()),
        Err(LoadError::DataType { number: 0, .. })
    ));
    let text = TensorProto {
        string_data: vec![Bytes::from_static(b"a")],
        ..of(DType::String, &[1])
    };
    assert!(matches!(
        bytes(&text),
        Err(LoadError::Dims {
            source: ExtentError::NoFixedWidth,
            ..
        })
    ));
    for number in [2, -1] {
        let tensor = TensorProto {
            data_location: Some(number),
            ..raw(2, &[1], &[0])
        };
        assert!(matches!(
            bytes(&tensor),
            Err(LoadError::DataLocation { .. })
        ));
    }
    assert!(
        bytes(&TensorProto {
            data_location: Some(0),
            ..raw(2, &[1], &[0])
        })
        .is_ok()
    );
    let segmented = TensorProto {
        segment: Some(Default::default()),
        ..raw(2, &[1], &[0])
    };
    assert!(matches!(
        bytes(&segmented),
        Err(LoadError::Segmented { .. })
    ));
}

#[test]
fn elements_are_in_one_place_only() {
    let both = TensorProto {
        float_data: vec![1.0],
        ..raw(1, &[1], &[0; 4])
    };
    assert!(matches!(
        bytes(&both),
        Err(LoadError::MixedData {
            first: "raw_data",
            second: "float_data",
            ..
        })
    ));
    let empty_raw = TensorProto {
        int64_data: vec![1],
        ..raw(7, &[1], &[])
    };
    assert!(matches!(
        bytes(&empty_raw),
        Err(LoadError::MixedData { .. })
    ));
    let two = TensorProto {
        float_data: vec![1.0],
        int32_data: vec![1],
        ..of(DType::Float, &[1])
    };
    assert!(matches!(
        bytes(&two),
        Err(LoadError::MixedData {
            first: "float_data",
            second: "int32_data",
            ..
        })
    ));
    let elsewhere = TensorProto {
        raw_data: Some(Bytes::from_static(b"x")),
        ..external("w", 0, 1)
    };
    assert!(matches!(
        bytes(&elsewhere),
        Err(LoadError::MixedData {
            first: "external data",
            ..
        })
    ));
    let wrong = TensorProto {
        int64_data: vec![1],
        ..of(DType::Float, &[1])
    };
    assert!(matches!(
        bytes(&wrong),
        Err(LoadError::WrongField {
            expected: "float_data",
            got: "int64_data",
            ..
        })
    ));
}

#[test]
fn wide_fields_become_little_endian_bytes() {
    let floats = TensorProto {
        float_data: vec![1.0, -2.5, f32::NAN],
        ..of(DType::Float, &[3])
    };
    let expected: Vec<u8> = [0x3F80_0000u32, 0xC020_0000, f32::NAN.to_bits()]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    assert_eq!(bytes(&floats).unwrap(), expected);
    let complex = TensorProto {
        float_data: vec![1.0, 2.0, 3.0, 4.0],
        ..of(DType::Complex64, &[2])
    };
    assert_eq!(bytes(&complex).unwrap().len(), 16);
    let half_a_number = TensorProto {
        float_data: vec![1.0, 2.0, 3.0],
        ..of(DType::Complex64, &[2])
    };
    assert!(matches!(
        bytes(&half_a_number),
        Err(LoadError::DataSize {
            expected: 4,
            got: 3,
            ..
        })
    ));
    let doubles = TensorProto {
        double_data: vec![-0.0, 1.0],
        ..of(DType::Double, &[2])
    };
    assert_eq!(
        bytes(&doubles).unwrap(),
        [[0, 0, 0, 0, 0, 0, 0, 0x80], [0, 0, 0, 0, 0, 0, 0xF0, 0x3F]].concat()
    );
    let pairs = TensorProto {
        double_data: vec![0.5; 2],
        ..of(DType::Complex128, &[])
    };
    assert_eq!(bytes(&pairs).unwrap().len(), 16);
    let longs = TensorProto {
        int64_data: vec![i64::MIN, -1],
        ..of(DType::Int64, &[1, 2])
    };
    assert_eq!(
        bytes(&longs).unwrap(),
        [[0, 0, 0, 0, 0, 0, 0, 0x80], [0xFF; 8]].concat()
    );
    let unsigned = TensorProto {
        uint64_data: vec![u64::MAX, 1],
        ..of(DType::Uint64, &[2])
    };
    assert_eq!(
        bytes(&unsigned).unwrap(),
        [[0xFF; 8], [1, 0, 0, 0, 0, 0, 0, 0]].concat()
    );
    let narrow = TensorProto {
        uint64_data: vec![u32::MAX.into(), 258],
        ..of(DType::Uint32, &[2])
    };
    assert_eq!(bytes(&narrow).unwrap(), [[0xFF; 4], [2, 1, 0, 0]].concat());
    let too_wide = TensorProto {
        uint64_data: vec![0, 1 << 32],
        ..of(DType::Uint32, &[2])
    };
    assert!(matches!(
        bytes(&too_wide),
        Err(LoadError::ValueRange {
            index: 1,
            value: 0x1_0000_0000,
            ..
        })
    ));
    for count in [0, 1, 3] {
        let tensor = TensorProto {
            float_data: vec![0.0; count],
            ..of(DType::Float, &[2])
        };
        assert!(
            matches!(bytes(&tensor), Err(LoadError::DataSize { .. })),
            "{count}"
        );
    }
}

fn narrow(dtype: DType, dims: &[i64], values: &[i32]) -> Result<Bytes, LoadError> {
    bytes(&TensorProto {
        int32_data: values.to_vec(),
        ..of(dtype, dims)
    })
}

#[test]
fn narrow_integers_are_exact() {
    assert_eq!(
        narrow(DType::Int32, &[2], &[-2, 258]).unwrap(),
        [0xFE, 0xFF, 0xFF, 0xFF, 2, 1, 0, 0][..]
    );
    for (dtype, low, high) in [
        (DType::Int16, -32768, 32767),
        (DType::Uint16, 0, 65535),
        (DType::Int8, -128, 127),
        (DType::Uint8, 0, 255),
        (DType::Float16, -32768, 65535),
        (DType::Bfloat16, -32768, 65535),
        (DType::Float8E5M2, -128, 255),
    ] {
        let size = dtype.size().unwrap();
        let out = narrow(dtype, &[2], &[low, high]).unwrap();
        let expected = [&low.to_le_bytes()[..size], &high.to_le_bytes()[..size]].concat();
        assert_eq!(out, expected, "{dtype}");
        for value in [low - 1, high + 1, i32::MIN, i32::MAX] {
            let error = narrow(dtype, &[2], &[0, value]).unwrap_err();
            assert!(
                matches!(error, LoadError::ValueRange { index: 1, .. }),
                "{dtype} {value}: {error}"
            );
        }
    }
    assert_eq!(
        narrow(DType::Bool, &[4], &[0, 1, 256, -1]).unwrap(),
        [0, 1, 1, 1][..]
    );
}

/// Codes 0, 1, 2, ... of each width, packed by hand.
#[test]
fn packed_types_take_bytes_or_words() {
    // Five 4-bit codes: 0x10, 0x32, 0x_4.
    let expected = [0x10, 0x32, 0x04];
    assert_eq!(
        narrow(DType::Uint4, &[5], &[0x10, 0x32, 0x04]).unwrap(),
        expected[..]
    );
    assert_eq!(
        narrow(DType::Int4, &[5], &[0x0004_3210]).unwrap(),
        expected[..]
    );
    assert_eq!(narrow(DType::Int4, &[1], &[0x0F]).unwrap(), [0x0F][..]);
    assert_eq!(narrow(DType::Float4E2M1, &[2], &[-1]).unwrap(), [0xFF][..]);
    // Nine 2-bit codes 0, 1, 2, 3, 0, 1, 2, 3, 0.
    assert_eq!(
        narrow(DType::Uint2, &[9], &[0xE4, 0xE4, 0x00]).unwrap(),
        [0xE4, 0xE4, 0][..]
    );
    assert_eq!(
        narrow(DType::Int2, &[9], &[0xE4E4]).unwrap(),
        [0xE4, 0xE4, 0][..]
    );
    // Five 6-bit codes 1, 2, 3, 63, 33: 1 + (2 << 6) + (3 << 12) + (63 << 18) = 0xFC3081.
    let six = narrow(DType::Float6E2M3, &[5], &[1, 2, 3, 63, 33]).unwrap();
    assert_eq!(six, [0x81, 0x30, 0xFC, 33][..]);
    assert!(matches!(
        narrow(DType::Float6E3M2, &[5], &[0, 0, 0, 0, 64]),
        Err(LoadError::ValueRange { index: 4, .. })
    ));
    assert!(matches!(
        narrow(DType::Uint4, &[5], &[0, 0, 256]),
        Err(LoadError::ValueRange { index: 2, .. })
    ));
    for count in [0, 2, 4, 5] {
        let error = narrow(DType::Uint4, &[5], &vec![0; count]).unwrap_err();
        assert!(
            matches!(error, LoadError::DataSize { expected: 3, .. }) || count == 0,
            "{count}: {error}"
        );
    }
}

#[test]
fn messages_are_short_and_readable() {
    let hostile = format!("\u{1b}[31m\u{202e}{}", "x".repeat(1_000_000));
    let mut tensor = raw(1, &[2; 100], &[]);
    tensor.name = Some(hostile.clone());
    let mut errors = vec![bytes(&tensor).unwrap_err()];
    let mut elsewhere = external(&hostile, 0, 3);
    elsewhere.name = Some(hostile.clone());
    errors.push(bytes(&elsewhere).unwrap_err());
    elsewhere.external_data[2].value = Some(hostile.clone());
    errors.push(bytes(&elsewhere).unwrap_err());
    let folder =
        ExternalData::in_folder(std::path::Path::new(""), &LoadOptions::default()).unwrap();
    errors.push(tensor_bytes(&external(&hostile, 0, 3), &folder).unwrap_err());
    tensor.dims = vec![-5; 10_000];
    errors.push(bytes(&tensor).unwrap_err());
    for error in errors {
        let message = error.to_string();
        assert!(message.len() < 1_000, "{} bytes", message.len());
        assert!(
            message.chars().all(|c| !c.is_control() && c != '\u{202e}'),
            "{message}"
        );
        assert!(message.starts_with(|c: char| c.is_lowercase()), "{message}");
    }
    let error = bytes(&raw(1, &[2, 3], &[0; 7])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tensor `w`: expected 24 bytes in raw_data, got 7"
    );
}
