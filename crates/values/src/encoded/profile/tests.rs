//! The profile against the formula, written out once more on plain lists.

use crate::encoded::*;
use crate::{Allocator, DType, Tensor};
use std::sync::Arc;

/// Everything that a set can have.
#[derive(Clone)]
struct Case {
    codes: DType,
    count: usize,
    block: usize,
    scales: Vec<f64>,
    zero_points: Option<Vec<f64>>,
    offsets: Option<Vec<f64>>,
    permutation: Option<Vec<i64>>,
    matrix: Option<(usize, Vec<f64>, Vec<f64>)>,
    outliers: Option<Vec<i64>>,
}

impl Case {
    fn plain(codes: DType, count: usize, block: usize) -> Case {
        let blocks = count.div_ceil(block);
        Case {
            codes,
            count,
            block,
            scales: (0..blocks).map(|i| 0.125 * (1 + i) as f64).collect(),
            zero_points: None,
            offsets: None,
            permutation: None,
            matrix: None,
            outliers: None,
        }
    }

    fn set(&self) -> Result<Arc<ParameterSet>, EncodedError> {
        let mut plan = Plan::affine(self.codes, self.count, self.block)?;
        let list = |values: &[f64]| Tensor::from_slice(&[values.len()], values).unwrap();
        let places = |values: &[i64]| Tensor::from_slice(&[values.len()], values).unwrap();
        let mut tensors = vec![(Role::Scales, list(&self.scales))];
        let mut add = |role, values: &Option<Vec<f64>>| {
            tensors.extend(values.as_ref().map(|values| (role, list(values))));
        };
        add(Role::ZeroPoints, &self.zero_points);
        add(Role::Offsets, &self.offsets);
        if let Some(order) = &self.permutation {
            plan = plan.with_permutation();
            tensors.push((Role::Permutation, places(order)));
        }
        if let Some((side, forward, inverse)) = &self.matrix {
            plan = plan.with_matrix(*side)?;
            tensors.push((Role::Forward, list(forward)));
            tensors.push((Role::Inverse, list(inverse)));
        }
        if let Some(outliers) = &self.outliers {
            plan = plan.with_outliers(outliers.len())?;
            tensors.push((Role::Outliers, places(outliers)));
        }
        let storage = Arc::new(plan.storage_type()?);
        // The type alone tells the plan.
        assert_eq!(Plan::of(&storage)?, plan);
        let set = ParameterSet::new("set", storage, (DType::Double, &[self.count]), tensors)?;
        Ok(Arc::new(set))
    }

    /// What comes back after encoding and decoding.
    fn expected(&self, values: &[f64]) -> Vec<f64> {
        let order: Vec<usize> = match &self.permutation {
            Some(order) => order.iter().map(|&at| at as usize).collect(),
            None => (0..self.count).collect(),
        };
        let product = |matrix: &[f64], side: usize, chunk: &[f64]| -> Vec<f64> {
            (0..side)
                .map(|row| {
                    (0..side)
                        .map(|at| matrix[row * side + at] * chunk[at])
                        .sum()
                })
                .collect()
        };
        let mut moved: Vec<f64> = order.iter().map(|&at| values[at]).collect();
        if let Some((side, forward, _)) = &self.matrix {
            moved = moved
                .chunks(*side)
                .flat_map(|chunk| product(forward, *side, chunk))
                .collect();
        }
        let (low, high) = code_range(self.codes);
        for (index, value) in moved.iter_mut().enumerate() {
            let block = index / self.block;
            let zero = self.zero_points.as_ref().map_or(0.0, |list| list[block]);
            let offset = self.offsets.as_ref().map_or(0.0, |list| list[block]);
            let steps = ((*value - offset) / self.scales[block]).round_ties_even() + zero;
            let code = steps.clamp(f64::from(low), f64::from(high));
            *value = (code - zero) * self.scales[block] + offset;
        }
        if let Some((side, _, inverse)) = &self.matrix {
            moved = moved
                .chunks(*side)
                .flat_map(|chunk| product(inverse, *side, chunk))
                .collect();
        }
        let mut out = vec![0.0; self.count];
        order
            .iter()
            .zip(moved)
            .for_each(|(&at, value)| out[at] = value);
        for &at in self.outliers.iter().flatten() {
            out[at as usize] = values[at as usize];
        }
        out
    }

    fn check(&self) {
        let set = self.set().unwrap();
        let values: Vec<f64> = (0..self.count)
            .map(|i| (i as f64 * 0.7 - 2.0) * 0.31)
            .collect();
        let tensor = Tensor::from_slice(&[self.count], &values).unwrap();
        let shared = quantize_shared(&tensor, &set).unwrap();
        let whole = materialize(&shared).unwrap();
        let expected = self.expected(&values);
        for value in [&shared, &whole] {
            let got = value.decode(&Allocator::default()).unwrap();
            assert_eq!(got.view::<f64>().unwrap().to_vec(), expected);
        }
        assert!(whole.parameters().is_none() && shared.parameters().is_some());
        let outliers = self.outliers.as_ref().map_or(0, Vec::len);
        let blocks = set.plan().unwrap().runs().iter();
        let codes: u64 = blocks
            .map(|run| run.blocks * (run.count as u64 * u64::from(run.bits)).div_ceil(8))
            .sum();
        assert_eq!(
            shared.payload().bytes() as u64,
            1 + 8 * outliers as u64 + codes
        );
    }
}

#[test]
fn every_width_and_block_size_decodes_to_the_nearest_code() {
    for codes in CODES {
        for (count, block) in [(1, 1), (4, 4), (5, 4), (7, 100), (12, 3), (9, 2)] {
            Case::plain(codes, count, block).check();
        }
    }
}

#[test]
fn zero_points_offsets_permutation_matrix_and_outliers_are_applied() {
    let plain = Case::plain(DType::Uint4, 6, 4);
    let zeros = Case {
        zero_points: Some(vec![8.0, 3.0]),
        ..plain.clone()
    };
    let offsets = Case {
        offsets: Some(vec![-0.5, 0.25]),
        ..zeros.clone()
    };
    let permuted = Case {
        permutation: Some(vec![5, 0, 4, 2, 1, 3]),
        ..offsets.clone()
    };
    let turned = Case {
        // A rotation of a right angle, and the way back.
        matrix: Some((2, vec![0.0, -1.0, 1.0, 0.0], vec![0.0, 1.0, -1.0, 0.0])),
        ..permuted.clone()
    };
    let kept = Case {
        outliers: Some(vec![4, 1]),
        ..turned.clone()
    };
    for case in [plain, zeros, offsets, permuted, turned, kept] {
        case.check();
    }
}

#[test]
fn four_codes_of_four_bits_take_three_bytes() {
    let set = Case::plain(DType::Int4, 4, 4).set().unwrap();
    let values = [0.125, -0.125, 100.0, -100.0];
    let tensor = Tensor::from_slice(&[4], &values).unwrap();
    let shared = quantize_shared(&tensor, &set).unwrap();
    // Codes 1, -1, 7, -8: the last two saturate.
    assert_eq!(shared.payload().as_bytes().unwrap(), [0, 0xF1, 0x87]);
}

#[test]
fn codes_of_any_width_up_to_eight_bits_are_read_across_bytes() {
    // Three codes of 3 bits in the wire form that another writer may choose.
    let layout: [i64; 9] = [3, 0, 3, 1, 0, 0, 0, 0, 0];
    let plan = Plan::affine(DType::Int4, 3, 3).unwrap();
    let storage = edited(&plan.storage_type().unwrap(), &layout);
    let plan = Plan::of(&storage).unwrap();
    assert_eq!(plan.runs()[0].bits, 3);
    let set = ParameterSet::new(
        "set",
        Arc::new(storage),
        (DType::Double, &[3]),
        [(Role::Scales, Tensor::from_slice(&[1], &[1f64]).unwrap())],
    );
    let set = Arc::new(set.unwrap());
    let tensor = Tensor::from_slice(&[3], &[-4f64, 3.0, -1.0]).unwrap();
    let shared = quantize_shared(&tensor, &set).unwrap();
    // 100, 011, 111 from the low bits on.
    assert_eq!(shared.payload().as_bytes().unwrap(), [0, 0b11_011_100, 0b1]);
    let back = shared.decode(&Allocator::default()).unwrap();
    assert_eq!(back.view::<f64>().unwrap().to_vec(), [-4.0, 3.0, -1.0]);
}

/// The type with another layout constant in its one run.
fn edited(ty: &StructType, layout: &[i64]) -> StructType {
    let FieldContent::Type(StorageType::Struct(blocks)) = &ty.fields().unwrap()[6].content else {
        panic!("blocks");
    };
    let run = &blocks.fields().unwrap()[1];
    let FieldContent::Type(StorageType::Struct(array)) = &run.content else {
        panic!("a run");
    };
    let StructKind::Array {
        element: StorageType::Struct(block),
        dimension,
    } = array.kind()
    else {
        panic!("an array");
    };
    let structure =
        |fields: Vec<Field>| StructType::new(StructKind::Structure(fields.into())).unwrap();
    let of = |name: &str, ty: StructType| Field {
        name: name.into(),
        content: FieldContent::Type(StorageType::Struct(Arc::new(ty))),
    };
    let mut parts = block.fields().unwrap().to_vec();
    parts[0].content = FieldContent::Constant(Tensor::from_slice(&[layout.len()], layout).unwrap());
    let array = StructType::new(StructKind::Array {
        element: StorageType::Struct(Arc::new(structure(parts))),
        dimension: *dimension,
    });
    let mut runs = blocks.fields().unwrap().to_vec();
    runs[1] = of(&run.name, array.unwrap());
    let mut fields = ty.fields().unwrap().to_vec();
    fields[6] = of("blocks", structure(runs));
    structure(fields).named(ty.name().unwrap().clone())
}

/// Rule 7.5.9.
#[test]
fn other_methods_are_recognised_and_refused() {
    let ty = Plan::affine(DType::Int4, 4, 4)
        .unwrap()
        .storage_type()
        .unwrap();
    let with = |layout: [i64; 9]| Plan::of(&edited(&ty, &layout)).unwrap_err();
    for (layout, what) in [
        ([4, 1, 4, 1, 1, 16, 1, 0, 0], "codebooks"),
        ([4, 2, 4, 1, 0, 0, 0, 0, 17], "casts"),
        ([4, 0, 2, 1, 0, 0, 0, 1, 0], "base-3"),
    ] {
        let error = with(layout);
        assert!(matches!(&error, EncodedError::Unsupported { what: got } if got.contains(what)));
        // Such a set can be kept, and its values forwarded, but not decoded.
        let scales = [(Role::Scales, Tensor::from_slice(&[1], &[1f64]).unwrap())];
        let storage = Arc::new(edited(&ty, &layout));
        let set = ParameterSet::new("set", storage.clone(), (DType::Float, &[4]), scales).unwrap();
        assert_eq!(set.plan().unwrap_err(), error);
        let record = storage.record_bytes().unwrap() as usize;
        let payload = Tensor::from_slice(&[record], &vec![0u8; record]).unwrap();
        let value = EncodedValue::shared(storage, (DType::Float, &[4]), payload, Arc::new(set));
        let refused = value.unwrap().decode(&Allocator::default()).unwrap_err();
        assert_eq!(refused, error);
    }
    for layout in [
        [4, 3, 4, 1, 0, 0, 0, 0, 0],
        [4, 0, 0, 1, 0, 0, 0, 0, 0],
        [4, 0, 9, 1, 0, 0, 0, 0, 0],
        [i64::MAX, 0, 8, 1, 0, 0, 0, 0, 0],
        [-4, 0, 4, 1, 0, 0, 0, 0, 0],
        [5, 0, 4, 1, 0, 0, 0, 0, 0],
    ] {
        assert!(
            matches!(with(layout), EncodedError::Part { .. }),
            "{layout:?}"
        );
    }
}

#[test]
fn tensors_of_a_set_are_those_that_its_plan_asks_for() {
    let plain = || Case::plain(DType::Int8, 6, 4);
    let refused = |case: Case, part: &str| {
        let text = case.set().unwrap_err().to_string();
        assert!(text.starts_with(part), "{text}");
    };
    refused(
        Case {
            scales: vec![1.0],
            ..plain()
        },
        "scales: expected 2 numbers",
    );
    for scale in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        refused(
            Case {
                scales: vec![1.0, scale],
                ..plain()
            },
            "scales: expected positive",
        );
    }
    refused(
        Case {
            zero_points: Some(vec![0.0; 3]),
            ..plain()
        },
        "zero_points",
    );
    refused(
        Case {
            offsets: Some(vec![0.0, f64::NAN]),
            ..plain()
        },
        "offsets: expected finite",
    );
    for order in [
        vec![0, 1, 2, 3, 4, 4],
        vec![0, 1, 2, 3, 4, 6],
        vec![0, 1, 2, 3, 4, -1],
        vec![0],
    ] {
        refused(
            Case {
                permutation: Some(order),
                ..plain()
            },
            "permutation",
        );
    }
    refused(
        Case {
            outliers: Some(vec![6]),
            ..plain()
        },
        "outliers",
    );
    refused(
        Case {
            matrix: Some((4, vec![0.0; 16], vec![0.0; 16])),
            ..plain()
        },
        "forward: expected a side that divides 6",
    );
    refused(
        Case {
            matrix: Some((2, vec![0.0; 4], vec![0.0; 3])),
            ..plain()
        },
        "inverse",
    );
    // A set without the matrices that its type asks for.
    let plan = Plan::affine(DType::Int8, 6, 6)
        .unwrap()
        .with_matrix(2)
        .unwrap();
    let scales = [(Role::Scales, Tensor::from_slice(&[1], &[1f64]).unwrap())];
    let storage = Arc::new(plan.storage_type().unwrap());
    let text = ParameterSet::new("set", storage, (DType::Float, &[6]), scales)
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("forward: expected 4 numbers, got none"),
        "{text}"
    );
}

#[test]
fn elements_that_are_not_finite_are_refused() {
    let set = Case::plain(DType::Int8, 2, 2).set().unwrap();
    for bad in [f64::NAN, f64::INFINITY] {
        let tensor = Tensor::from_slice(&[2], &[0.0, bad]).unwrap();
        let text = quantize_shared(&tensor, &set).unwrap_err().to_string();
        assert!(text.contains("finite elements"), "{text}");
    }
    let other = Tensor::from_slice(&[1, 2], &[0.0, 1.0]).unwrap();
    assert!(
        quantize_shared(&other, &set)
            .unwrap_err()
            .to_string()
            .contains("DOUBLE[2], as `set` has")
    );
    // A number that the declared element type cannot hold.
    let scales = [(Role::Scales, Tensor::from_slice(&[1], &[1e5f64]).unwrap())];
    let storage = Arc::new(
        Plan::affine(DType::Int8, 1, 1)
            .unwrap()
            .storage_type()
            .unwrap(),
    );
    let set = Arc::new(ParameterSet::new("set", storage, (DType::Float16, &[1]), scales).unwrap());
    let tensor = Tensor::from_slice(&[1], &[half::f16::MAX]).unwrap();
    let value = quantize_shared(&tensor, &set).unwrap();
    let text = value.decode(&Allocator::default()).unwrap_err().to_string();
    assert!(
        text.contains("numbers that the element type holds, got 100000"),
        "{text}"
    );
}

#[test]
fn a_plan_is_bounded() {
    assert!(Plan::affine(DType::Int4, 0, 4).is_err());
    assert!(Plan::affine(DType::Int4, 4, 0).is_err());
    assert!(Plan::affine(DType::Float, 4, 4).is_err());
    assert!(Plan::affine(DType::Int4, usize::MAX, 1).is_err());
    assert!(Plan::affine(DType::Int8, usize::MAX, usize::MAX).is_err());
    let plan = Plan::affine(DType::Int4, 4, 4).unwrap();
    assert!(plan.clone().with_outliers(5).is_err());
    assert!(plan.with_matrix(3).is_err());
}

#[test]
fn a_type_that_claims_more_elements_than_memory_holds_is_refused_without_them() {
    // One block of 2^50 elements of one bit, and one outlier.
    let count = 1usize << 50;
    let plan = Plan::affine(DType::Uint2, count, count).unwrap();
    let plan = plan.with_outliers(1).unwrap();
    let storage = Arc::new(plan.storage_type().unwrap());
    let tensors = |outlier: i64| {
        [
            (Role::Scales, Tensor::from_slice(&[1], &[1f64]).unwrap()),
            (
                Role::Outliers,
                Tensor::from_slice(&[1], &[outlier]).unwrap(),
            ),
        ]
    };
    let logical = (DType::Float, &[count][..]);
    let set = ParameterSet::new("set", storage.clone(), logical, tensors(5)).unwrap();
    assert_eq!(set.plan().unwrap().count(), count);
    let past = ParameterSet::new("set", storage.clone(), logical, tensors(count as i64));
    assert!(
        past.unwrap_err()
            .to_string()
            .starts_with("outliers: expected positions below")
    );
    // A value of it has no room for the codes that the type asks for.
    let payload = Tensor::from_slice(&[9], &[0u8; 9]).unwrap();
    let local = set.local_type().unwrap().clone();
    let value = EncodedValue::shared(local, logical, payload, Arc::new(set));
    assert!(value.unwrap_err().to_string().contains("whole records"));
}

#[test]
fn a_matrix_that_overflows_is_refused() {
    let case = Case {
        matrix: Some((1, vec![f64::MAX], vec![1.0])),
        ..Case::plain(DType::Int8, 2, 2)
    };
    let tensor = Tensor::from_slice(&[2], &[0.5, 3.0]).unwrap();
    let text = quantize_shared(&tensor, &case.set().unwrap())
        .unwrap_err()
        .to_string();
    assert!(text.contains("the matrix keeps finite, got inf"), "{text}");
}
