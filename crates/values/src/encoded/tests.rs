//! Rules of packing, parameters and sizes, against plain arithmetic.

use super::*;
use crate::DType::*;
use std::string::String;

fn bytes(data: &[u8]) -> Tensor {
    Tensor::from_slice(&[data.len()], data).unwrap()
}

/// A scalar or vector of codes that are packed already.
fn codes(dtype: DType, shape: &[usize], packed: &[u8]) -> Tensor {
    Tensor::dense(dtype, shape, bytes(packed).into_buffer()).unwrap()
}

fn decoded(value: &EncodedValue) -> Vec<f32> {
    let dense = value.decode(&Allocator::default()).unwrap();
    assert_eq!(dense.dtype(), Float);
    dense.view::<f32>().unwrap().to_vec()
}

fn text(made: Result<EncodedValue, EncodedError>) -> String {
    made.unwrap_err().to_string()
}

#[test]
fn codes_are_packed_from_the_low_bits_and_are_twos_complement() {
    let read = |dtype, packed: &[u8], count| -> Vec<i32> {
        (0..count).map(|index| code(packed, dtype, index)).collect()
    };
    assert_eq!(read(Uint4, &[0x21, 0x43, 0x0F], 5), [1, 2, 3, 4, 15]);
    assert_eq!(read(Int4, &[0x87, 0xF0], 4), [7, -8, 0, -1]);
    assert_eq!(read(Uint2, &[0b11_10_01_00, 0b01], 5), [0, 1, 2, 3, 1]);
    assert_eq!(read(Int2, &[0b11_10_01_00], 4), [0, 1, -2, -1]);
    assert_eq!(read(Int8, &[0x7F, 0x80, 0xFF], 3), [127, -128, -1]);
    assert_eq!(read(Uint8, &[0x7F, 0x80, 0xFF], 3), [127, 128, 255]);
    for (dtype, range) in [
        (Int8, (-128, 127)),
        (Uint8, (0, 255)),
        (Int4, (-8, 7)),
        (Uint4, (0, 15)),
        (Int2, (-2, 1)),
        (Uint2, (0, 3)),
    ] {
        assert_eq!(code_range(dtype), range, "{dtype}");
    }
}

/// Encodes without any of the code under test: bit `w*i + b` of the payload is bit `b` of code `i`.
fn pack(codes: &[i32], width: usize) -> Vec<u8> {
    let mut packed = vec![0u8; (codes.len() * width).div_ceil(8)];
    for (index, code) in codes.iter().enumerate() {
        for bit in 0..width {
            if code >> bit & 1 == 1 {
                let at = index * width + bit;
                packed[at / 8] |= 1 << (at % 8);
            }
        }
    }
    packed
}

#[test]
fn a_payload_has_exactly_the_bytes_of_its_codes() {
    for dtype in CODES {
        for count in [0usize, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17] {
            let (low, high) = code_range(dtype);
            let data: Vec<i32> = (0..count as i32)
                .map(|i| low + (i * 7) % (high - low + 1))
                .collect();
            let packed = pack(&data, dtype.bits());
            let affine = || Affine::per_tensor(dtype, Tensor::scalar(0.5f32).unwrap());
            let make =
                |payload: &[u8]| EncodedValue::affine(affine(), (Float, &[count]), bytes(payload));
            let value = make(&packed).unwrap();
            let expected: Vec<f32> = data.iter().map(|&code| code as f32 * 0.5).collect();
            assert_eq!(decoded(&value), expected, "{dtype} {count}");
            let longer = [&packed[..], &[0]].concat();
            assert!(
                text(make(&longer)).starts_with("payload: expected"),
                "{dtype} {count}"
            );
            if let Some(shorter) = packed.len().checked_sub(1) {
                assert!(make(&packed[..shorter]).is_err(), "{dtype} {count}");
            }
        }
    }
}

#[test]
fn bits_past_the_last_code_are_zero() {
    let make = |dtype, count, payload: &[u8]| {
        let affine = Affine::per_tensor(dtype, Tensor::scalar(1f32).unwrap());
        EncodedValue::affine(affine, (Float, &[count]), bytes(payload))
    };
    assert!(make(Int4, 3, &[0x21, 0x03]).is_ok());
    assert!(text(make(Int4, 3, &[0x21, 0x13])).contains("past the last code"));
    assert!(make(Uint2, 1, &[0b11]).is_ok());
    assert!(text(make(Uint2, 1, &[0b111])).contains("0b00000111 in the last byte"));
    assert!(text(make(Int2, 3, &[0x80])).contains("past the last code"));
    assert!(make(Int2, 4, &[0x80]).is_ok());
}

#[test]
fn the_width_of_inferred_codes_is_unique() {
    for (signed, expected) in [(true, [Int2, Int4, Int8]), (false, [Uint2, Uint4, Uint8])] {
        for (dtype, payload) in expected.into_iter().zip([2, 4, 8]) {
            assert_eq!(infer_storage(signed, &[2, 4], payload).unwrap(), dtype);
        }
    }
    let ambiguous = infer_storage(true, &[1], 1).unwrap_err().to_string();
    assert!(
        ambiguous.ends_with("got INT8 and INT4 and INT2"),
        "{ambiguous}"
    );
    // Two codes take one byte in 4 and in 2 bits.
    assert!(infer_storage(false, &[2], 1).is_err());
    let none = infer_storage(false, &[8], 3).unwrap_err().to_string();
    assert!(none.ends_with("got none"), "{none}");
    assert!(infer_storage(false, &[usize::MAX, 3], 3).is_err());
    let inferred = |count: usize, payload: &[u8]| {
        let mut affine = Affine::per_tensor(Uint4, Tensor::scalar(1f32).unwrap());
        affine.inferred = true;
        EncodedValue::affine(affine, (Float, &[count]), bytes(payload))
    };
    assert!(inferred(4, &[0x21, 0x43]).is_ok());
    assert!(inferred(1, &[1]).is_err());
}

#[test]
fn scales_have_the_shape_that_axis_and_blocks_ask_for() {
    let make = |axis, block_size, shape: &[usize]| {
        let count = shape.iter().product::<usize>();
        let affine = Affine {
            scale: Tensor::from_slice(shape, &vec![1f32; count]).unwrap(),
            axis,
            block_size,
            ..Affine::per_tensor(Uint8, Tensor::scalar(1f32).unwrap())
        };
        EncodedValue::affine(affine, (Float, &[2, 5]), bytes(&[0; 10]))
    };
    assert!(make(None, None, &[]).is_ok());
    assert!(text(make(None, None, &[1])).starts_with("scale: expected shape []"));
    assert!(make(Some(1), None, &[5]).is_ok());
    assert!(make(Some(0), None, &[5]).is_err());
    assert!(make(Some(1), Some(2), &[2, 3]).is_ok());
    assert!(make(Some(0), Some(1), &[2, 5]).is_ok());
    assert!(make(Some(1), Some(2), &[2, 2]).is_err());
    assert!(make(Some(1), Some(usize::MAX), &[2, 1]).is_ok());
    assert!(text(make(Some(1), Some(0), &[2, 5])).contains("block_size: expected 1 or more"));
    assert!(text(make(None, Some(2), &[])).contains("an axis beside block_size"));
    assert!(text(make(Some(2), None, &[5])).contains("an axis of 2 dimensions, got 2"));
}

#[test]
fn zero_points_are_of_the_codes_type_and_the_scales_shape() {
    let make = |zero: Tensor| {
        let affine = Affine {
            zero_point: Some(zero),
            ..Affine::per_tensor(Int4, Tensor::scalar(1f32).unwrap())
        };
        EncodedValue::affine(affine, (Float, &[2]), bytes(&[0x21]))
    };
    assert_eq!(
        decoded(&make(codes(Int4, &[], &[0x0F])).unwrap()),
        [2.0, 3.0]
    );
    assert!(
        text(make(codes(Uint4, &[], &[0x0F]))).contains("zero_point: expected INT4, got UINT4")
    );
    assert!(text(make(codes(Int4, &[1], &[0x0F]))).contains("zero_point: expected shape []"));
    let integers = Affine::per_tensor(Int4, Tensor::scalar(1i32).unwrap());
    let made = EncodedValue::affine(integers, (Float, &[2]), bytes(&[0x21]));
    assert!(text(made).contains("scale: expected FLOAT, FLOAT16, DOUBLE, BFLOAT16, got INT32"));
    let wide = Affine::per_tensor(Int16, Tensor::scalar(1f32).unwrap());
    let made = EncodedValue::affine(wide, (Float, &[1]), bytes(&[0, 0]));
    assert!(text(made).contains("an integer type of 2, 4 or 8 bits, got INT16"));
}

/// The formula, on coordinates.
fn by_coordinates(
    shape: &[usize],
    data: &[i32],
    axis: Option<usize>,
    block: Option<usize>,
    scale: impl Fn(&[usize]) -> f64,
    zero: impl Fn(&[usize]) -> i32,
) -> Vec<f32> {
    let mut out = Vec::new();
    for (flat, &code) in data.iter().enumerate() {
        let mut coordinate = vec![0; shape.len()];
        let mut rest = flat;
        for at in (0..shape.len()).rev() {
            coordinate[at] = rest % shape[at];
            rest /= shape[at];
        }
        let parameter: Vec<usize> = match (axis, block) {
            (None, _) => vec![],
            (Some(axis), None) => vec![coordinate[axis]],
            (Some(axis), Some(block)) => {
                coordinate[axis] /= block;
                coordinate
            }
        };
        out.push((f64::from(code - zero(&parameter)) * scale(&parameter)) as f32);
    }
    out
}

#[test]
fn decoding_is_done_in_double_with_the_parameters_of_the_coordinate() {
    let shape = [2usize, 3, 5];
    let count = 30;
    for dtype in CODES {
        let (low, high) = code_range(dtype);
        let data: Vec<i32> = (0..count)
            .map(|i| low + (i * 11) % (high - low + 1))
            .collect();
        let payload = pack(&data, dtype.bits());
        for (axis, block) in [
            (None, None),
            (Some(0), None),
            (Some(1), None),
            (Some(2), None),
            (Some(0), Some(1)),
            (Some(1), Some(2)),
            (Some(2), Some(2)),
            (Some(2), Some(7)),
        ] {
            let parameters = parameter_shape(&shape, axis, block).unwrap();
            let number: usize = parameters.iter().product();
            let scales: Vec<f64> = (0..number).map(|i| 0.1 + i as f64 / 3.0).collect();
            let zeros: Vec<i32> = (0..number as i32)
                .map(|i| low + (i * 5) % (high - low + 1))
                .collect();
            let flat = |coordinate: &[usize]| {
                parameters
                    .iter()
                    .zip(coordinate)
                    .fold(0, |flat, (extent, at)| flat * extent + at)
            };
            let scale = Tensor::from_slice(&parameters, &scales).unwrap();
            let zero = codes(dtype, &parameters, &pack(&zeros, dtype.bits()));
            let affine = Affine {
                zero_point: Some(zero),
                axis,
                block_size: block,
                ..Affine::per_tensor(dtype, scale)
            };
            let value = EncodedValue::affine(affine, (Float, &shape), bytes(&payload)).unwrap();
            let expected = by_coordinates(
                &shape,
                &data,
                axis,
                block,
                |at| scales[flat(at)],
                |at| zeros[flat(at)],
            );
            assert_eq!(decoded(&value), expected, "{dtype} {axis:?} {block:?}");
        }
    }
}

#[test]
fn scales_of_every_type_are_read() {
    use half::{bf16, f16};
    let scales = [
        Tensor::scalar(0.1f32).unwrap(),
        Tensor::scalar(0.1f64).unwrap(),
        Tensor::scalar(f16::from_f64(0.1)).unwrap(),
        Tensor::scalar(bf16::from_f64(0.1)).unwrap(),
    ];
    let numbers = [
        f64::from(0.1f32),
        0.1,
        f16::from_f64(0.1).to_f64(),
        bf16::from_f64(0.1).to_f64(),
    ];
    for (scale, number) in scales.into_iter().zip(numbers) {
        let dtype = scale.dtype();
        let affine = Affine::per_tensor(Int8, scale);
        assert_eq!(affine.scale_at(0), number, "{dtype}");
        let value = EncodedValue::affine(affine, (Float, &[1]), bytes(&[0xFD])).unwrap();
        assert_eq!(decoded(&value), [(-3.0 * number) as f32], "{dtype}");
    }
}

#[test]
fn scales_that_no_page_can_have_are_found() {
    for (scale, fits) in [
        (1e-30f32, true),
        (0.0, false),
        (-0.5, false),
        (f32::INFINITY, false),
        (f32::NAN, false),
    ] {
        let affine = Affine::per_tensor(Int8, Tensor::scalar(scale).unwrap());
        assert_eq!(affine.unfit_scale().is_none(), fits, "{scale}");
    }
}

fn tensor(dtype: DType, shape: &[usize]) -> StorageType {
    StorageType::Tensor {
        dtype,
        shape: Dims::from_slice(shape),
    }
}

fn array(element: StorageType, dimension: u64) -> Result<StructType, EncodedError> {
    StructType::new(StructKind::Array { element, dimension })
}

fn field(name: &str, content: FieldContent) -> Field {
    Field {
        name: name.into(),
        content,
    }
}

#[test]
fn bits_are_laid_side_by_side_without_padding() {
    let part = |name: &str, bits| Component {
        name: name.into(),
        bits,
    };
    let packed = StructType::new(StructKind::BitPacking {
        components: [part("a", 3), part("b", 6)].into(),
        dimension: 5,
    })
    .unwrap();
    assert_eq!(packed.bits(), 45);
    assert!(packed.record_bytes().is_err());
    let whole = StructType::new(StructKind::Structure(
        [
            field(
                "constant",
                FieldContent::Constant(Tensor::scalar(7i64).unwrap()),
            ),
            field("codes", FieldContent::Type(tensor(Int4, &[3]))),
            field(
                "packed",
                FieldContent::Type(StorageType::Struct(Arc::new(packed))),
            ),
            field("scale", FieldContent::Type(tensor(Float16, &[]))),
            field("six", FieldContent::Type(tensor(Float6E2M3, &[1]))),
            field("odd", FieldContent::Type(tensor(Uint2, &[1]))),
            field("none", FieldContent::Type(tensor(Double, &[0, 9]))),
        ]
        .into(),
    ))
    .unwrap();
    // 12 + 45 + 16 + 6 + 2
    assert_eq!(whole.bits(), 81);
    let eight = array(StorageType::Struct(Arc::new(whole)), 8).unwrap();
    assert_eq!(eight.record_bytes().unwrap(), 81);
}

#[test]
fn records_are_whole_and_make_up_the_payload() {
    let three = Arc::new(array(tensor(Uint8, &[1]), 3).unwrap());
    for (len, count) in [(0, Some(0)), (3, Some(1)), (9, Some(3)), (4, None)] {
        let made = EncodedValue::records(three.clone(), None, bytes(&vec![0; len]));
        match count {
            Some(count) => assert_eq!(made.unwrap().record_count(), Some(count)),
            None => assert!(text(made).contains("whole records of 3 bytes, got 4 bytes")),
        }
    }
    for bad in [array(tensor(Uint4, &[1]), 3), array(tensor(Float, &[0]), 3)] {
        let made = EncodedValue::records(Arc::new(bad.unwrap()), None, bytes(&[]));
        assert!(text(made).contains("records of whole bytes, at least one"));
    }
    let value = EncodedValue::records(three, None, bytes(&[1, 2, 3])).unwrap();
    assert!(matches!(
        value.decode(&Allocator::default()),
        Err(EncodedError::Unsupported { .. })
    ));
    assert_eq!((value.logical(), value.shape()), (None, &[][..]));
}

#[test]
fn sizes_that_overflow_are_refused() {
    assert!(array(tensor(Uint8, &[1 << 40]), 1 << 40).is_err());
    assert!(array(tensor(Uint8, &[usize::MAX / 8, 9]), 1).is_err());
    let mut ty = array(tensor(Uint8, &[]), 1 << 16).unwrap();
    for _ in 0..2 {
        ty = array(StorageType::Struct(Arc::new(ty)), 1 << 16).unwrap();
    }
    let text = array(StorageType::Struct(Arc::new(ty)), 1 << 16)
        .unwrap_err()
        .to_string();
    assert!(text.contains("a size that fits in 64 bits"), "{text}");
    let affine = Affine::per_tensor(Uint2, Tensor::scalar(1f32).unwrap());
    let made = EncodedValue::affine(affine, (Float, &[usize::MAX, 2]), bytes(&[]));
    assert!(matches!(made, Err(EncodedError::Extent(_))));
}

#[test]
fn struct_types_nest_64_deep_and_no_deeper() {
    let mut ty = array(tensor(Uint8, &[]), 1).unwrap();
    for _ in 1..crate::MAX_DEPTH {
        ty = array(StorageType::Struct(Arc::new(ty)), 1).unwrap();
    }
    let deeper = array(StorageType::Struct(Arc::new(ty)), 1).unwrap_err();
    assert!(
        deeper
            .to_string()
            .contains("nested at most 64 deep, got 65 levels")
    );
}

#[test]
fn p23_shared_values_agree_with_their_set() {
    let local = Arc::new(array(tensor(Uint8, &[1]), 3).unwrap());
    let scales = || [(Role::Scales, Tensor::scalar(0.5f32).unwrap())];
    let set = ParameterSet::new("set", local.clone(), (Float, &[4]), scales()).unwrap();
    let set = Arc::new(set);
    let make = |logical, payload: &[u8]| {
        EncodedValue::shared(local.clone(), logical, bytes(payload), set.clone())
    };
    let value = make((Float, &[4]), &[0, 0x21, 0x43]).unwrap();
    assert!(Arc::ptr_eq(value.parameters().unwrap(), &set));
    assert!(text(make((Float, &[5]), &[0, 1, 2])).contains("FLOAT[4], as `set` has, got FLOAT[5]"));
    assert!(text(make((Double, &[4]), &[0, 1, 2])).contains("got DOUBLE[4]"));
    assert!(text(make((Float, &[4]), &[9, 1, 2])).contains("reserved first byte, got 9"));
    assert!(make((Float, &[4]), &[0, 1]).is_err());
    let none = ParameterSet::new("set", local.clone(), (Float, &[4]), []);
    assert!(none.unwrap_err().to_string().contains("role scales, got 0"));
    let twice = scales().into_iter().chain(scales());
    let twice = ParameterSet::new("set", local.clone(), (Float, &[4]), twice);
    assert!(
        twice
            .unwrap_err()
            .to_string()
            .contains("role scales, got 2")
    );
}

#[test]
fn a_payload_is_one_run_of_bytes() {
    let make = |payload| {
        let affine = Affine::per_tensor(Uint8, Tensor::scalar(1f32).unwrap());
        EncodedValue::affine(affine, (Float, &[2]), payload)
    };
    assert!(make(bytes(&[1, 2])).is_ok());
    assert!(make(Tensor::from_slice(&[2], &[1i8, 2]).unwrap()).is_err());
    assert!(make(Tensor::from_slice(&[1, 2], &[1u8, 2]).unwrap()).is_err());
    let strided = crate::Layout::strided(&[2], &[2]).unwrap();
    assert!(make(bytes(&[1, 2, 3]).with_layout(strided, 0).unwrap()).is_err());
}

#[test]
fn sharing_bytes_back_and_forth_adds_no_layers() {
    let first = bytes(&[1, 2, 3]);
    let mut handle = first.to_bytes().unwrap();
    for _ in 0..3 {
        let buffer = crate::Buffer::from_owner(handle.clone(), crate::Provenance::Foreign);
        let tensor = Tensor::dense(Uint8, &[3], buffer).unwrap();
        assert_eq!(tensor.as_ptr(), first.as_ptr());
        // The handle that the tensor was made of, not one around it.
        handle = tensor.to_bytes().unwrap();
        drop(tensor);
        assert_eq!(&handle[..], [1, 2, 3]);
    }
    let tail = first
        .with_layout(crate::Layout::contiguous(&[2]), 1)
        .unwrap();
    assert_eq!(&tail.to_bytes().unwrap()[..], [2, 3]);
}
