use super::*;
use crate::encoded::{Affine, ParameterSet, Role, StorageType, StructKind, StructType};
use crate::{Allocator, Buffer, DType, Dims, Layout};
use std::sync::Arc;

fn floats(shape: &[usize], first: f32) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|i| first + i as f32).collect();
    Tensor::from_slice(shape, &values).unwrap()
}

/// A tensor in memory that somebody lends.
fn lent(values: Vec<u8>) -> Tensor {
    let shape = [values.len()];
    let buffer = Buffer::from_owner(values, Provenance::Foreign);
    Tensor::dense(DType::Uint8, &shape, buffer).unwrap()
}

fn affine() -> EncodedValue {
    let scale = Tensor::from_slice(&[3], &[0.5f32, 0.25, 2.0]).unwrap();
    let affine = Affine {
        zero_point: Some(Tensor::from_slice(&[3], &[1i8, 0, -1]).unwrap()),
        axis: Some(1),
        ..Affine::per_tensor(DType::Int8, scale)
    };
    let payload = Tensor::from_slice(&[6], &[1u8, 2, 3, 4, 5, 250]).unwrap();
    EncodedValue::affine(affine, (DType::Float, &[2, 3]), payload).unwrap()
}

/// A value of a set: a reserved byte and two bytes of codes.
fn shared() -> (EncodedValue, Arc<ParameterSet>) {
    let byte = || StorageType::Tensor {
        dtype: DType::Uint8,
        shape: Dims::from_slice(&[1]),
    };
    let bytes = |count| {
        let array = StructKind::Array {
            element: byte(),
            dimension: count,
        };
        Arc::new(StructType::new(array).unwrap())
    };
    let scales = Tensor::from_slice(&[1], &[0.5f64]).unwrap();
    let logical = (DType::Float, &[4usize][..]);
    let set = ParameterSet::new("set", bytes(3), logical, [(Role::Scales, scales)]).unwrap();
    let set = Arc::new(set);
    let payload = Tensor::from_slice(&[3], &[0u8, 0x21, 0x43]).unwrap();
    let value = EncodedValue::shared(bytes(3), logical, payload, set.clone()).unwrap();
    (value, set)
}

/// A struct with a bit of everything, and the tensors in it.
fn everything() -> RuntimeValue {
    let base = floats(&[3, 4], 7.0);
    let turned = Layout::contiguous(&[3, 4]).permute(&[1, 0]).unwrap();
    let strided = base.with_layout(turned, 0).unwrap();
    let nested = RuntimeSequence::from_values([floats(&[2], 1.0).into(), affine().into()]).unwrap();
    let fields: [(&str, RuntimeValue); 5] = [
        ("lent", lent(vec![9, 8, 7]).into()),
        ("strided", strided.into()),
        ("empty", floats(&[2, 0, 3], 0.0).into()),
        ("nested", nested.into()),
        ("none", RuntimeSequence::default().into()),
    ];
    StructValue::new(fields).unwrap().into()
}

/// Every payload, in order: tensors, and of encoded values the codes and their parameters.
fn payloads(value: &RuntimeValue, found: &mut Vec<Tensor>) {
    match value {
        RuntimeValue::Tensor(tensor) => found.push(tensor.clone()),
        RuntimeValue::Struct(fields) => fields.iter().for_each(|(_, value)| payloads(value, found)),
        RuntimeValue::Sequence(elements) => {
            elements.iter().for_each(|value| payloads(value, found))
        }
        RuntimeValue::Strings(_) => {}
        RuntimeValue::Encoded(encoded) => {
            found.push(encoded.payload().clone());
            if let Some(affine) = encoded.affine_layout() {
                found.push(affine.scale.clone());
                found.extend(affine.zero_point.clone());
            }
        }
    }
}

fn all_payloads(value: &RuntimeValue) -> Vec<Tensor> {
    let mut found = Vec::new();
    payloads(value, &mut found);
    found
}

fn addresses(value: &RuntimeValue) -> Vec<*const u8> {
    all_payloads(value).iter().map(Tensor::as_ptr).collect()
}

/// Elements in row-major order.
fn bits(tensor: &Tensor) -> Vec<u8> {
    let dense = tensor.to_dense(&Allocator::default()).unwrap();
    dense.as_bytes().unwrap().to_vec()
}

/// Rules 7.1.2, 7.1.3; S086.
#[test]
fn what_is_retained_and_viewed_is_one_payload() {
    let value = everything();
    let before = addresses(&value);
    let retained = value.clone().retain_storage().unwrap();
    let view = retained.borrow_view();
    for handle in [&value, &retained, &view] {
        assert_eq!(addresses(handle), before);
        // Reading moves nothing.
        assert_eq!(addresses(handle), before);
    }
    assert!(value.holds_foreign() && !retained.holds_foreign() && !view.holds_foreign());
    let lent = &all_payloads(&view)[0];
    assert_eq!(lent.provenance(), Provenance::Kept);
    let alone = RuntimeValue::from(self::lent(vec![1, 2]));
    let address = addresses(&alone);
    let alone = alone.retain_storage().unwrap();
    assert_eq!(addresses(&alone), address);
    assert_eq!(alone.tensor().unwrap().provenance(), Provenance::Kept);
    // What nobody lent stays the very same value.
    let own = RuntimeValue::from(StructValue::new([("a", floats(&[2], 0.0).into())]).unwrap());
    assert!(own.clone().retain_storage().unwrap().same(&own));
}

/// Rule 7.1.2; S122.
#[test]
fn a_deep_copy_has_payloads_of_its_own() {
    let value = everything();
    let memory = Allocator::default();
    let copy = value.deep_copy(&memory).unwrap();
    let (old, new) = (all_payloads(&value), all_payloads(&copy));
    assert_eq!((old.len(), new.len()), (7, 7));
    for (old, new) in old.iter().zip(&new) {
        assert_eq!((old.dtype(), old.shape()), (new.dtype(), new.shape()));
        assert_eq!(bits(old), bits(new));
        assert!(new.is_contiguous());
        assert!(!old.buffer().same_allocation(new.buffer()));
        assert_eq!(new.provenance(), Provenance::Heap);
    }
    let names = |value: &RuntimeValue| -> Vec<Arc<str>> {
        let fields = value.fields().unwrap().iter();
        fields.map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&copy), names(&value));
    let bytes: usize = new.iter().map(Tensor::bytes).sum();
    assert!(memory.live_bytes() >= bytes);
    drop((copy, new));
    assert_eq!(memory.live_bytes(), 0);
}

#[test]
fn a_deep_copy_shares_the_parameters_of_the_catalogue_alone() {
    let (value, set) = shared();
    let copy = RuntimeValue::from(value.clone())
        .deep_copy(&Allocator::default())
        .unwrap();
    let copy = copy.encoded().unwrap();
    assert!(Arc::ptr_eq(copy.parameters().unwrap(), &set));
    assert!(Arc::ptr_eq(
        copy.struct_type().unwrap(),
        value.struct_type().unwrap()
    ));
    assert_ne!(copy.payload().as_ptr(), value.payload().as_ptr());
    assert_eq!(bits(copy.payload()), bits(value.payload()));
}

#[test]
fn a_deep_copy_of_what_nests_deepest_and_of_more_than_there_is_memory_for() {
    let mut value = RuntimeValue::from(floats(&[2], 1.0));
    for _ in 0..MAX_DEPTH {
        value = RuntimeSequence::from_values([value]).unwrap().into();
    }
    assert_eq!(value.depth(), MAX_DEPTH);
    let copy = value.deep_copy(&Allocator::default()).unwrap();
    assert_eq!(copy.depth(), MAX_DEPTH);
    assert_ne!(addresses(&copy), addresses(&value));
    let little = Allocator::with_limit(4);
    let refused = everything().deep_copy(&little).unwrap_err();
    assert!(
        matches!(refused, ValueError::Tensor(TensorError::Alloc(_))),
        "{refused}"
    );
    assert_eq!(little.live_bytes(), 0);
}
