use super::*;
use refeed_values::encoded::{Affine, CODES, code, code_range};
use refeed_values::paged_cache::DENSE;
use refeed_values::{Allocator, DType, EncodedValue, RuntimeValue, Tensor, TensorMut};

fn memory(dtype: DType, shape: &[usize]) -> Result<TensorMut, QuantizeError> {
    let mut made = TensorMut::new(&Allocator::default(), dtype, shape)?;
    // Recycled memory holds anything.
    made.as_mut_bytes().fill(0xA5);
    Ok(made)
}

/// Numbers that differ from their neighbours, some far out.
fn numbers(count: usize) -> Vec<f32> {
    let spread = |i: usize| ((i * 7919 + 13) % 1009) as f32 / 100.0 - 5.0;
    (0..count)
        .map(|i| spread(i) * if i % 11 == 0 { 40.0 } else { 0.3 })
        .collect()
}

fn zero_points(storage: DType, shape: &[usize], codes: &[i32]) -> Tensor {
    let mut made = TensorMut::new(&Allocator::default(), storage, shape).unwrap();
    let bits = storage.bits();
    let mask = (1u32 << bits) - 1;
    for (index, code) in codes.iter().enumerate() {
        let at = index * bits;
        made.as_mut_bytes()[at / 8] |= ((*code as u32 & mask) << (at % 8)) as u8;
    }
    made.freeze()
}

/// A layout with scales and zero points that all differ from their neighbours'.
fn layout(
    storage: DType,
    extents: [usize; 4],
    axis: Option<usize>,
    block: Option<usize>,
) -> Affine {
    let shape = refeed_values::encoded::parameter_shape(&extents, axis, block).unwrap();
    let count: usize = shape.iter().product();
    let scales: Vec<f32> = (0..count)
        .map(|i| 0.037 + 0.011 * (i % 13) as f32)
        .collect();
    let (low, high) = code_range(storage);
    let zeros: Vec<i32> = (0..count as i32)
        .map(|i| low + (i * 5 + 1) % (high - low + 1))
        .collect();
    Affine {
        zero_point: Some(zero_points(storage, &shape, &zeros)),
        axis,
        block_size: block,
        ..Affine::per_tensor(storage, Tensor::from_slice(&shape, &scales).unwrap())
    }
}

/// Which parameter an element goes by, straight from the definition: coordinates divided by the block, row-major.
fn parameter(
    extents: [usize; 4],
    axis: Option<usize>,
    block: Option<usize>,
    at: [usize; 4],
) -> usize {
    match (axis, block) {
        (None, _) => 0,
        (Some(axis), None) => at[axis],
        (Some(axis), Some(block)) => {
            let (mut at, mut extents) = (at, extents);
            at[axis] /= block;
            extents[axis] = extents[axis].div_ceil(block);
            at.iter()
                .zip(extents)
                .fold(0, |index, (at, extent)| index * extent + at)
        }
    }
}

const LAYOUTS: [(Option<usize>, Option<usize>); 11] = [
    (None, None),
    (Some(0), None),
    (Some(1), None),
    (Some(2), None),
    (Some(3), None),
    (Some(0), Some(1)),
    (Some(1), Some(2)),
    (Some(2), Some(3)),
    (Some(3), Some(2)),
    (Some(3), Some(1)),
    (Some(2), Some(100)),
];

#[test]
fn codes_round_to_even_saturate_and_decode_within_half_a_scale() {
    let (extents, length) = ([2, 3, 5, 7], 4);
    let [batch, heads, capacity, width] = extents;
    let values = numbers(batch * heads * length * width);
    let rows = Rows::new(&values, [batch, heads, length, width]).unwrap();
    for storage in CODES {
        for (axis, block) in LAYOUTS {
            let affine = layout(storage, extents, axis, block);
            let scales = affine.scale.view::<f32>().unwrap().to_vec();
            let (low, high) = code_range(storage);
            let to = Storage::Affine(affine.clone());
            let page = encode(&rows, capacity, &to, Division::Double, memory).unwrap();
            let codes = page
                .encoded()
                .unwrap()
                .payload()
                .as_bytes()
                .unwrap()
                .to_vec();
            let mut decoded = vec![f32::NAN; values.len()];
            let payload = Payload::of(&page).unwrap();
            payload.decode(length, &mut decoded).unwrap();
            let mut index = 0;
            for b in 0..batch {
                for h in 0..heads {
                    for r in 0..capacity {
                        for c in 0..width {
                            let which = parameter(extents, axis, block, [b, h, r, c]);
                            let zero = affine.zero_point_at(which);
                            let scale = f64::from(scales[which]);
                            let got = code(&codes, storage, index);
                            index += 1;
                            if r >= length {
                                assert_eq!(got, zero, "{storage} {axis:?} {block:?}");
                                continue;
                            }
                            let at = ((b * heads + h) * length + r) * width + c;
                            let x = f64::from(values[at]);
                            let exact = x / scale + f64::from(zero);
                            let told = (got, exact, storage, axis, block);
                            if exact > f64::from(high) + 0.5 {
                                assert_eq!(got, high, "{told:?}");
                            } else if exact < f64::from(low) - 0.5 {
                                assert_eq!(got, low, "{told:?}");
                            } else {
                                assert!((f64::from(got) - exact).abs() <= 0.5 + 1e-9, "{told:?}");
                                let off = (f64::from(decoded[at]) - x).abs();
                                assert!(off <= scale / 2.0 + 1e-6, "{told:?}");
                            }
                            let real = (f64::from(got - zero) * scale) as f32;
                            assert_eq!(decoded[at], real, "{told:?}");
                        }
                    }
                }
            }
            // Nothing stands past the last code.
            let used = index * storage.bits() % 8;
            assert!(used == 0 || codes.last().unwrap() >> used == 0);
        }
    }
}

#[test]
fn ties_go_to_even_and_large_numbers_to_the_end_of_the_range() {
    let rows = [0.5, 1.5, 2.5, 3.5, 1e30];
    let expected: [(DType, &[u8]); 6] = [
        (DType::Int8, &[0, 2, 2, 4, 127]),
        (DType::Uint8, &[0, 2, 2, 4, 255]),
        (DType::Int4, &[0x20, 0x42, 7]),
        (DType::Uint4, &[0x20, 0x42, 15]),
        (DType::Int2, &[0b01_01_01_00, 1]),
        (DType::Uint2, &[0b11_10_10_00, 3]),
    ];
    for (storage, bytes) in expected {
        let to = Format::affine(storage, 1.0, 0).storage().unwrap();
        for division in [Division::Single, Division::Double] {
            let rows = Rows::new(&rows, [1, 1, 1, 5]).unwrap();
            let page = encode(&rows, 1, &to, division, memory).unwrap();
            assert_eq!(
                page.encoded().unwrap().payload().as_bytes(),
                Some(bytes),
                "{storage}"
            );
        }
    }
}

#[test]
fn the_whole_signed_range_is_used() {
    let codes = [-200.0, -129.0, -128.0, -127.0, 127.0, 128.0]
        .map(|x| quantize(x, 1.0, 0, code_range(DType::Int8), Division::Single));
    assert_eq!(codes, [-128, -128, -128, -127, 127, 127]);
}

#[test]
fn single_division_rounds_the_quotient_first() {
    let scale = 0.1f32;
    let found = (1..200_000u32).find_map(|i| {
        let x = i as f32 * 0.001;
        let exact = f64::from(x) / f64::from(scale);
        let one = quantize(x, f64::from(scale), 0, (-128, 127), Division::Single);
        let two = quantize(x, f64::from(scale), 0, (-128, 127), Division::Double);
        (one != two).then_some((exact, x / scale, one, two))
    });
    let (exact, quotient, single, double) = found.unwrap();
    assert_eq!(f64::from(quotient).fract().abs(), 0.5);
    assert_eq!(f64::from(double), exact.round());
    assert_eq!(f64::from(single), f64::from(quotient).round_ties_even());
}

#[test]
fn dense_formats_narrow_once_and_fill_unused_rows_with_zeros() {
    let (batch, heads, length, capacity, width) = (2, 1, 2, 3, 5);
    let values = numbers(batch * heads * length * width);
    let rows = Rows::new(&values, [batch, heads, length, width]).unwrap();
    for dtype in DENSE {
        let to = Format::dense(dtype).storage().unwrap();
        let page = encode(&rows, capacity, &to, Division::Double, memory).unwrap();
        let tensor = page.tensor().unwrap();
        assert_eq!(
            (tensor.dtype(), tensor.shape()),
            (dtype, &[batch, heads, capacity, width][..])
        );
        let mut all = vec![f32::NAN; batch * heads * capacity * width];
        Payload::of(&page)
            .unwrap()
            .decode(capacity, &mut all)
            .unwrap();
        for (at, got) in all.iter().enumerate() {
            let (slice, row, column) = (at / width / capacity, at / width % capacity, at % width);
            let x = match row < length {
                true => values[(slice * length + row) * width + column],
                false => 0.0,
            };
            let expected = match dtype {
                DType::Float16 => half::f16::from_f32(x).to_f32(),
                DType::Bfloat16 => half::bf16::from_f32(x).to_f32(),
                _ => x,
            };
            assert_eq!(got.to_bits(), expected.to_bits());
        }
    }
}

#[test]
fn only_valid_rows_are_read_whatever_the_strides() {
    let (heads, capacity, width) = (2, 3, 2);
    let mut numbers = vec![f32::NAN; heads * capacity * width];
    for (at, slot) in numbers.iter_mut().enumerate() {
        if at / width % capacity < 2 {
            *slot = at as f32;
        }
    }
    let dense = Tensor::from_slice(&[1, heads, capacity, width], &numbers).unwrap();
    let mut expected = [0.0; 8];
    let page = RuntimeValue::from(dense.clone());
    Payload::of(&page)
        .unwrap()
        .decode(2, &mut expected)
        .unwrap();
    assert_eq!(expected, [0.0, 1.0, 2.0, 3.0, 6.0, 7.0, 8.0, 9.0]);
    // The same page with its width outermost in memory.
    let turned: Vec<f32> = (0..numbers.len())
        .map(|at| numbers[at % (heads * capacity) * width + at / (heads * capacity)])
        .collect();
    let turned = Tensor::from_slice(&[width, 1, heads, capacity], &turned).unwrap();
    let layout = turned.layout().permute(&[1, 2, 3, 0]).unwrap();
    let page = RuntimeValue::from(turned.with_layout(layout, 0).unwrap());
    let mut got = [0.0; 8];
    Payload::of(&page).unwrap().decode(2, &mut got).unwrap();
    assert_eq!(got, expected);
    let refused = Payload::of(&page)
        .unwrap()
        .decode(3, &mut [0.0; 12])
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "payload: expected a finite number at [0, 0, 2, 0], got NaN"
    );
}

#[test]
fn packed_rows_need_not_start_at_a_byte() {
    // Three rows of three 4-bit codes in five bytes: the second row starts in the middle of a byte.
    let affine = Affine::per_tensor(DType::Uint4, Tensor::scalar(1f32).unwrap());
    let bytes = Tensor::from_slice(&[5], &[0x21u8, 0x43, 0x65, 0x87, 0x09]).unwrap();
    let value = EncodedValue::affine(affine, (DType::Float, &[1, 1, 3, 3]), bytes).unwrap();
    let page = RuntimeValue::from(value);
    let mut row = [0.0; 3];
    Payload::of(&page).unwrap().row(0, 1, &mut row).unwrap();
    assert_eq!(row, [4.0, 5.0, 6.0]);
}

#[test]
fn blocks_are_consecutive_elements() {
    let affine = Affine {
        axis: Some(3),
        block_size: Some(2),
        zero_point: Some(zero_points(DType::Uint8, &[1, 1, 1, 4], &[1, 2, 3, 4])),
        ..Affine::per_tensor(
            DType::Uint8,
            Tensor::from_slice(&[1, 1, 1, 4], &[1f32, 2.0, 3.0, 4.0]).unwrap(),
        )
    };
    let bytes = Tensor::from_slice(&[8], &[9u8; 8]).unwrap();
    let value = EncodedValue::affine(affine, (DType::Float, &[1, 1, 1, 8]), bytes).unwrap();
    let mut row = [0.0; 8];
    let page = RuntimeValue::from(value);
    Payload::of(&page).unwrap().decode(1, &mut row).unwrap();
    assert_eq!(row, [8.0, 8.0, 14.0, 14.0, 18.0, 18.0, 20.0, 20.0]);
}

#[test]
fn what_cannot_be_kept_is_refused_by_name() {
    let nan = [0.0, f32::NAN, 1.0, 2.0];
    let rows = Rows::new(&nan, [1, 2, 1, 2]).unwrap();
    let large = [0.0, 70000.0];
    let large = Rows::new(&large, [1, 1, 1, 2]).unwrap();
    let int8 = Format::affine(DType::Int8, 1.0, 0).storage().unwrap();
    let wrong = |affine: Affine| Storage::Affine(affine);
    let text = |rows: &Rows<'_>, capacity, to: &Storage| {
        encode(rows, capacity, to, Division::Double, memory)
            .unwrap_err()
            .to_string()
    };
    let scale = |numbers: &[f32]| Tensor::from_slice(&[numbers.len()], numbers).unwrap();
    let cases = [
        (
            text(&rows, 1, &int8),
            "rows: expected a finite number at [0, 0, 0, 1], got NaN",
        ),
        (
            text(&large, 1, &Storage::Dense(DType::Float16)),
            "rows: expected a number within FLOAT16 at [0, 0, 0, 1], got 70000",
        ),
        (
            text(&large, 1, &Storage::Dense(DType::Double)),
            "storage type: expected FLOAT, FLOAT16 or BFLOAT16, got DOUBLE",
        ),
        (
            text(&large.range(0, 1).unwrap(), 0, &int8),
            "rows: expected at most 0 rows, got 1",
        ),
        (
            text(
                &large,
                1,
                &wrong(Affine::per_tensor(
                    DType::Int16,
                    Tensor::scalar(1f32).unwrap(),
                )),
            ),
            "storage type: expected an integer type of 2, 4 or 8 bits, got INT16",
        ),
        (
            text(
                &large,
                1,
                &wrong(Affine::per_tensor(
                    DType::Int8,
                    Tensor::scalar(1f64).unwrap(),
                )),
            ),
            "scale: expected elements of FLOAT, got DOUBLE",
        ),
        (
            text(
                &large,
                1,
                &wrong(Affine::per_tensor(DType::Int8, scale(&[1.0]))),
            ),
            "scale: expected shape [], got [1]",
        ),
        (
            text(
                &large,
                1,
                &wrong(Affine {
                    axis: Some(3),
                    ..Affine::per_tensor(DType::Int8, scale(&[1.0, 0.0]))
                }),
            ),
            "scale: expected positive finite numbers, got 0 at 1",
        ),
    ];
    for (got, expected) in cases {
        assert_eq!(got, expected);
    }
    for refused in [
        Format::affine(DType::Int4, f32::INFINITY, 0),
        Format::affine(DType::Int4, -1.0, 0),
        Format::affine(DType::Int4, 1.0, 8),
        Format::affine(DType::Uint2, 1.0, -1),
        Format::affine(DType::Float16, 2.0, 0),
        Format::affine(DType::Float, 1.0, 1),
        Format::dense(DType::Double),
        Format::dense(DType::Int32),
    ] {
        assert!(refused.check().is_err(), "{refused:?}");
    }
    let bytes = Tensor::from_slice(&[1], &[0u8]).unwrap();
    let half = Affine::per_tensor(
        DType::Int8,
        Tensor::scalar(half::f16::from_f32(1.0)).unwrap(),
    );
    let half = EncodedValue::affine(half, (DType::Float, &[1, 1, 1, 1]), bytes.clone()).unwrap();
    for (value, expected) in [
        (
            RuntimeValue::from(half),
            "scale: expected elements of FLOAT, got FLOAT16",
        ),
        (
            RuntimeValue::from(bytes),
            "payload: expected FLOAT, FLOAT16 or BFLOAT16, or affine codes, got UINT8",
        ),
        (
            RuntimeValue::from(Tensor::scalar(1f32).unwrap()),
            "payload: expected four axes: batch, heads, capacity, width, got []",
        ),
    ] {
        assert_eq!(Payload::of(&value).unwrap_err().to_string(), expected);
    }
}
