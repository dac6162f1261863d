use super::*;
use refeed_graph::parser::parse_model;
use refeed_graph::{BindRequest, LoadOptions, bind};
use refeed_values::encoded::Affine;
use refeed_values::{
    Allocator, DType, EncodedValue, RuntimeSequence, StructValue, Tensor, paged_cache,
};

fn model() -> Model {
    let text = "<ir_version: 10, opset_import: [\"\" : 18]>
        add (float[2] delta, float[2] past) => (float[2] present) { present = Add(delta, past) }";
    let proto = parse_model(text).unwrap();
    let model = Model::from_proto(proto, &LoadOptions::default()).unwrap();
    bind(&model, &BindRequest::pairs([("past", "present")]))
        .unwrap()
        .0
}

/// What a value looks like, down to its bytes.
fn shown(value: &RuntimeValue) -> String {
    match value {
        RuntimeValue::Tensor(tensor) => {
            let dense = tensor.to_dense(&Allocator::default()).unwrap();
            format!(
                "{}{:?}{:?}",
                tensor.dtype(),
                tensor.shape(),
                dense.as_bytes().unwrap()
            )
        }
        RuntimeValue::Struct(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(n, v)| format!("{n}={}", shown(v)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        RuntimeValue::Sequence(elements) => {
            let elements: Vec<String> = elements.iter().map(shown).collect();
            format!("[{}]", elements.join(","))
        }
        RuntimeValue::Encoded(encoded) => format!(
            "{:?}{:?}{:?}",
            encoded
                .affine_layout()
                .map(|affine| (affine.storage, affine.axis)),
            encoded.logical(),
            encoded.payload().as_bytes().unwrap()
        ),
        other => panic!("{other:?}"),
    }
}

fn tensor(numbers: &[f32]) -> RuntimeValue {
    Tensor::from_slice(&[numbers.len()], numbers)
        .unwrap()
        .into()
}

fn encoded() -> EncodedValue {
    let payload = Tensor::from_slice(&[6], &[1u8, 2, 3, 4, 5, 6]).unwrap();
    let affine = Affine::per_tensor(DType::Int4, Tensor::scalar(0.25f32).unwrap());
    EncodedValue::affine(affine, (DType::Float, &[1, 1, 3, 4]), payload).unwrap()
}

/// A value of every kind, and some of the corners.
fn values() -> Vec<RuntimeValue> {
    let packed = Tensor::from_slice(&[2], &[0x21u8, 0x03])
        .unwrap()
        .into_buffer();
    let strided = Tensor::from_slice(&[2, 3], &[1i64, 2, 3, 4, 5, 6]).unwrap();
    let turned = strided.layout().permute(&[1, 0]).unwrap();
    let scalar = |n: i64| Tensor::scalar(n).unwrap();
    let dense = Tensor::from_slice(&[1, 1, 3, 2], &[0f32; 6]).unwrap();
    let page = paged_cache::page_of(scalar(0), scalar(2), encoded().into(), dense.into()).unwrap();
    let nested = StructValue::new([
        ("a", tensor(&[1.0])),
        (
            "b",
            RuntimeSequence::from_values([tensor(&[]), tensor(&[2.0, 3.0])])
                .unwrap()
                .into(),
        ),
    ]);
    vec![
        tensor(&[1.5, -2.0]),
        scalar(7).into(),
        Tensor::dense(DType::Int4, &[3], packed).unwrap().into(),
        strided.with_layout(turned, 0).unwrap().into(),
        nested.unwrap().into(),
        RuntimeSequence::default().into(),
        StructValue::new(Vec::<(&str, RuntimeValue)>::new())
            .unwrap()
            .into(),
        encoded().into(),
        paged_cache::cache_of([page]).unwrap(),
        paged_cache::cache_of([]).unwrap(),
    ]
}

fn written(folder: &std::path::Path, value: &RuntimeValue) -> std::path::PathBuf {
    let path = folder.join("a.state");
    let held = [(Arc::from("past"), value.clone(), true)];
    write(&path, &model(), &held).unwrap();
    path
}

#[test]
fn values_of_every_kind_come_back() {
    let folder = tempfile::tempdir().unwrap();
    for value in values() {
        let path = written(folder.path(), &value);
        let back = read(&path, &model(), &Allocator::default()).unwrap();
        assert_eq!(back.len(), 1);
        assert!(back[0].published);
        assert_eq!(shown(&back[0].value), shown(&value));
    }
}

#[test]
fn cut_off_or_changed_anywhere_it_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for value in values() {
        let path = written(folder.path(), &value);
        let whole = std::fs::read(&path).unwrap();
        let refused = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            read(&path, &model(), &Allocator::default())
                .map(drop)
                .unwrap_err()
        };
        for length in 0..whole.len() {
            refused(&whole[..length]);
        }
        for bit in 0..8 * whole.len() {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            refused(&changed);
        }
    }
}

#[test]
fn nesting_has_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), &RuntimeSequence::default().into());
    let whole = std::fs::read(&path).unwrap();
    // One more sequence of one element, again and again: the kind, and the number 1.
    let at = whole.len() - 8 - 9;
    let mut deep = whole[..at].to_vec();
    for _ in 0..100_000 {
        deep.push(SEQUENCE);
        deep.extend(1u64.to_le_bytes());
    }
    deep.extend(&whole[at..]);
    std::fs::write(&path, deep).unwrap();
    let refused = read(&path, &model(), &Allocator::default())
        .map(drop)
        .unwrap_err();
    assert!(
        refused.to_string().contains("nested deeper than 64"),
        "{refused}"
    );
}

#[test]
fn memory_is_that_of_the_budget() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), &tensor(&[0.0; 1000]));
    let small = Allocator::with_limit(100);
    let refused = read(&path, &model(), &small).map(drop).unwrap_err();
    assert!(
        matches!(refused, StateFileError::Tensor { .. }),
        "{refused}"
    );
    assert_eq!(small.live_bytes(), 0);
}
