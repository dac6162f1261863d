//! Sparse tensors.

use super::*;

fn indices(dims: &[i64], numbers: &[i64]) -> TensorProto {
    TensorProto {
        data_type: Some(INT64),
        dims: dims.to_vec(),
        int64_data: numbers.to_vec(),
        ..TensorProto::default()
    }
}

fn sparse(count: usize, positions: TensorProto, dims: &[i64]) -> SparseTensorProto {
    SparseTensorProto {
        values: Some(floats("w", &[count as i64], &vec![0.5; count])),
        indices: Some(positions),
        dims: dims.to_vec(),
    }
}

fn verdict(tensor: &SparseTensorProto) -> Result<(), String> {
    PartVerifier::default()
        .check_sparse_tensor(tensor)
        .map_err(|error| error.to_string())
}

#[track_caller]
fn fits(tensor: &SparseTensorProto) {
    assert_eq!(verdict(tensor), Ok(()));
}

#[track_caller]
fn faulty(tensor: &SparseTensorProto, expected: &str) {
    assert_eq!(verdict(tensor), Err(format!("sparse_tensor.{expected}")));
}

#[test]
fn values_stand_in_one_row() {
    let good = sparse(2, indices(&[2], &[0, 9]), &[2, 5]);
    fits(&good);
    faulty(
        &SparseTensorProto {
            values: None,
            ..good.clone()
        },
        "values: expected a tensor, got none",
    );
    faulty(
        &SparseTensorProto {
            values: Some(floats("w", &[1, 2], &[0.5; 2])),
            ..good.clone()
        },
        "values.dims: expected one axis, got 2 axes",
    );
    let text = verdict(&SparseTensorProto {
        values: Some(floats("w", &[3], &[0.5; 2])),
        ..good
    })
    .unwrap_err();
    assert!(
        text.starts_with("sparse_tensor.values: tensor `w`"),
        "{text}"
    );
}

#[test]
fn dimensions_are_there_and_not_empty() {
    fits(&sparse(1, indices(&[1], &[6]), &[7]));
    faulty(
        &sparse(1, indices(&[1], &[6]), &[]),
        "dims: expected at least one axis, got none",
    );
    faulty(
        &sparse(1, indices(&[1], &[6]), &[7, 0]),
        "dims[1]: expected 1 or more, got 0",
    );
}

#[test]
fn every_value_has_a_position() {
    let without = |count| SparseTensorProto {
        indices: None,
        ..sparse(count, TensorProto::default(), &[7])
    };
    fits(&without(0));
    faulty(
        &without(2),
        "indices: expected the positions of 2 values, got none",
    );
    fits(&sparse(
        2,
        indices(&[2, 3], &[0, 1, 2, 1, 0, 4]),
        &[2, 3, 5],
    ));
    for dims in [vec![3], vec![2, 2], vec![2, 3, 1], vec![]] {
        let count = dims.iter().product::<i64>();
        let numbers: Vec<i64> = (0..count).collect();
        faulty(
            &sparse(2, indices(&dims, &numbers), &[2, 3, 5]),
            &format!("indices.dims: expected [2] or [2, 3], got {dims:?}"),
        );
    }
    let narrow = TensorProto {
        data_type: Some(6),
        int64_data: vec![],
        int32_data: vec![0, 1],
        ..indices(&[2], &[])
    };
    faulty(
        &sparse(2, narrow, &[7]),
        "indices.data_type: expected INT64, got INT32",
    );
}

#[test]
fn positions_are_inside_and_ascend() {
    let row = |numbers: &[i64]| sparse(3, indices(&[3], numbers), &[2, 5]);
    fits(&row(&[0, 4, 9]));
    faulty(
        &row(&[0, 4, 10]),
        "indices.position[2]: expected 0 to 9, got 10",
    );
    faulty(
        &row(&[-1, 4, 9]),
        "indices.position[0]: expected 0 to 9, got -1",
    );
    faulty(
        &row(&[0, 9, 4]),
        "indices.position[2]: expected more than 9, got 4",
    );
    faulty(
        &row(&[0, 4, 4]),
        "indices.position[2]: expected more than 4, got 4",
    );
    let pairs = |numbers: &[i64]| sparse(3, indices(&[3, 2], numbers), &[2, 5]);
    fits(&pairs(&[0, 4, 1, 0, 1, 3]));
    faulty(
        &pairs(&[0, 4, 1, 0, 2, 0]),
        "indices.position[2].axis[0]: expected 0 to 1, got 2",
    );
    faulty(
        &pairs(&[0, 4, 1, -1, 1, 3]),
        "indices.position[1].axis[1]: expected 0 to 4, got -1",
    );
    faulty(
        &pairs(&[0, 4, 1, 3, 1, 0]),
        "indices.position[2]: expected a position after [1, 3], got [1, 0]",
    );
    faulty(
        &pairs(&[0, 4, 1, 3, 1, 3]),
        "indices.position[2]: expected a position after [1, 3], got [1, 3]",
    );
    // More elements than a number can count.
    fits(&sparse(
        1,
        indices(&[1], &[i64::MAX - 1]),
        &[i64::MAX, i64::MAX],
    ));
}

#[test]
fn sparse_initializers_and_attributes_are_held_to_the_rules() {
    let broken = || sparse(2, indices(&[2], &[4, 0]), &[7]);
    let mut model = chain(vec![node("Neg", "x", "y")]);
    model
        .graph
        .as_mut()
        .unwrap()
        .sparse_initializer
        .push(broken());
    refused(model, &["graph.sparse_initializer[0].indices.position[1]"]);
    let attribute = AttributeProto {
        sparse_tensor: Some(Box::new(broken())),
        ..attribute("value", AttributeType::SparseTensor)
    };
    refused(
        chain(vec![node("Op", "x", "y").with(attribute)]),
        &["attribute[\"value\"].sparse_tensor.indices.position[1]"],
    );
}
