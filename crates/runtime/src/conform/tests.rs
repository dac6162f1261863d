//! Values of every kind against declarations, each test named after its rule.

use super::*;
use refeed_graph::types::{Dim, TensorType, ValueType};
use refeed_graph::{LoadOptions, Model};
use refeed_proto::struct_type_proto::structure::{Field, field::Content};
use refeed_proto::struct_type_proto::{self, Kind, Structure};
use refeed_proto::{GraphProto, ModelProto, OperatorSetIdProto, StructTypeProto, TensorProto};
use refeed_values::encoded::{
    Affine, Field as StoredField, FieldContent, StorageType, StructKind, StructType,
};
use refeed_values::paged_cache::{cache_of, page_of};
use refeed_values::{
    DType, Dims, EncodedValue, RuntimeSequence, RuntimeValue, StructValue, Tensor,
};
use std::sync::Arc;

fn model_of(struct_types: Vec<StructTypeProto>) -> Model {
    let proto = ModelProto {
        ir_version: Some(10),
        opset_import: vec![OperatorSetIdProto {
            version: Some(20),
            ..Default::default()
        }],
        graph: Some(GraphProto {
            name: Some("graph".to_string()),
            ..Default::default()
        }),
        struct_types,
        ..Default::default()
    };
    Model::from_proto(proto, &LoadOptions::default()).unwrap()
}

/// A declared tensor: dimensions are numbers, symbols, or `?`, separated by spaces.
fn tensor(dtype: DType, dims: &str) -> ValueType {
    let dims = dims.split_whitespace().map(|dim| match dim.parse() {
        Ok(n) => Dim::Known(n),
        Err(_) if dim == "?" => Dim::Unknown,
        Err(_) => Dim::Symbol(Arc::from(dim)),
    });
    let (dtype, shape) = (Some(dtype), Some(dims.collect()));
    TensorType { dtype, shape }.into()
}

fn floats(dims: &str) -> ValueType {
    tensor(DType::Float, dims)
}

fn structure(fields: &[(&str, ValueType)]) -> StructTypeProto {
    let field = fields.iter().map(|(name, ty)| Field {
        name: Some((*name).to_string()),
        content: Some(Content::Type(ty.to_proto())),
        ..Default::default()
    });
    StructTypeProto {
        kind: Some(Kind::Structure(Structure {
            field: field.collect(),
        })),
        ..Default::default()
    }
}

fn declared(ty: StructTypeProto) -> ValueType {
    ValueType::Struct(Arc::new(ty))
}

/// One rule, its symbols and a table.
struct Checker {
    rule: Rule,
    table: Table,
}

impl Checker {
    fn new(ty: &ValueType) -> Checker {
        Checker::of_model(&model_of(Vec::new()), ty)
    }

    fn of_model(model: &Model, ty: &ValueType) -> Checker {
        let mut symbols = Symbols::default();
        let rule = symbols.rule(model, "input", Arc::from("x"), ty).unwrap();
        let table = symbols.table();
        Checker { rule, table }
    }

    /// Checks in a call of its own.
    fn check(&mut self, value: impl Into<RuntimeValue>) -> Result<Option<String>, String> {
        self.table.clear();
        let checked = self.rule.check(&value.into(), &mut self.table);
        let clash = checked.map_err(|error| error.to_string())?;
        Ok(clash.map(|clash| clash.to_string()))
    }

    /// What is wrong, or nothing.
    fn says(&mut self, value: impl Into<RuntimeValue>) -> String {
        match self.check(value) {
            Ok(clash) => clash.unwrap_or_default(),
            Err(error) => error,
        }
    }

    fn known_nodes(&self) -> usize {
        self.table.known_nodes()
    }
}

fn zeros(shape: &[usize]) -> RuntimeValue {
    let count = shape.iter().product();
    Tensor::from_slice(shape, &vec![0f32; count])
        .unwrap()
        .into()
}

fn fields<const N: usize>(fields: [(&str, RuntimeValue); N]) -> RuntimeValue {
    StructValue::new(fields).unwrap().into()
}

fn sequence(values: impl IntoIterator<Item = RuntimeValue>) -> RuntimeSequence {
    RuntimeSequence::from_values(values).unwrap()
}

fn encoded(shape: &[usize]) -> RuntimeValue {
    let affine = Affine::per_tensor(DType::Int8, Tensor::scalar(0.5f32).unwrap());
    let count: usize = shape.iter().product();
    let payload = Tensor::from_slice(&[count], &vec![3u8; count]).unwrap();
    EncodedValue::affine(affine, (DType::Float, shape), payload)
        .unwrap()
        .into()
}

/// Rules 3.7.1, 3.7.2.
#[test]
fn first_value_binds_a_symbol_for_all_values_of_the_call() {
    let (model, mut symbols) = (model_of(Vec::new()), Symbols::default());
    let mut rule = |name: &str, dims| {
        let rule = symbols.rule(&model, "input", Arc::from(name), &floats(dims));
        rule.unwrap()
    };
    let (a, b) = (rule("a", "n 3"), rule("b", "? n"));
    let mut table = symbols.table();
    assert_eq!(a.check(&zeros(&[2, 3]), &mut table).unwrap(), None);
    assert_eq!(b.check(&zeros(&[7, 2]), &mut table).unwrap(), None);
    let clash = b.check(&zeros(&[7, 5]), &mut table).unwrap().unwrap();
    let text = "input `b`: symbolic shape mismatch, `n` is 2 elsewhere, got [7, 5] (axis 1)";
    assert_eq!(clash.to_string(), text);
    table.clear();
    assert_eq!(b.check(&zeros(&[7, 5]), &mut table).unwrap(), None);
    let wrong = a.check(&zeros(&[2, 4]), &mut table).unwrap_err();
    assert!(matches!(wrong, ConformError::Extent { axis: 1, .. }));
    let wrong = a.check(&zeros(&[2]), &mut table).unwrap_err();
    assert!(matches!(wrong, ConformError::Rank { expected: 2, .. }));
}

/// Rule 3.7.8.
#[test]
fn kinds_must_be_the_declared_ones() {
    let one = || zeros(&[1]);
    let cases: [(ValueType, &str); 3] = [
        (floats("1"), "a tensor"),
        (
            declared(structure(&[("a", floats("1"))])),
            "a structured value",
        ),
        (ValueType::sequence_of(floats("1")), "a sequence"),
    ];
    let values: [(RuntimeValue, &str); 3] = [
        (one(), "a tensor"),
        (fields([("a", one())]), "a structured value"),
        (sequence([one()]).into(), "a sequence"),
    ];
    for (ty, expected) in &cases {
        let mut checker = Checker::new(ty);
        for (value, got) in &values {
            let told = match expected == got {
                true => String::new(),
                false => format!("input `x`: expected {expected}, got {got}"),
            };
            assert_eq!(checker.says(value.clone()), told);
        }
    }
    assert_eq!(Checker::new(&cases[0].0).says(encoded(&[1])), "");
    let told = "input `x`: expected a sequence, got an encoded value";
    assert_eq!(Checker::new(&cases[2].0).says(encoded(&[1])), told);
    let mut anything = Checker::new(&ValueType::Unset);
    values
        .into_iter()
        .for_each(|(value, _)| assert_eq!(anything.says(value), ""));
}

/// Rule 3.2.3; S118.
#[test]
fn kinds_that_no_value_is_of_are_refused_wherever_they_stand() {
    let map = ValueType::Map {
        key: Some(DType::Int64),
        value: Box::new(floats("1")),
    };
    let optional = ValueType::optional_of(floats("1"));
    let nested = ValueType::sequence_of(ValueType::sequence_of(map.clone()));
    let inside = declared(structure(&[("a", floats("1")), ("b", optional.clone())]));
    let cases = [
        (map, "x", "map"),
        (ValueType::optional_of(optional), "x", "optional"),
        (nested, "x[][]", "map"),
        (ValueType::sequence_of(inside), "x[].b", "optional"),
        (
            ValueType::SparseTensor(TensorType::of(DType::Float)),
            "x",
            "sparse tensor",
        ),
        (
            ValueType::Opaque {
                domain: Arc::from("d"),
                name: Arc::from("n"),
            },
            "x",
            "opaque",
        ),
    ];
    let model = model_of(Vec::new());
    // An input may be optional as a whole, which its rule notes.
    let whole = ValueType::optional_of(floats("1"));
    let rule = Symbols::default().rule(&model, "input", Arc::from("x"), &whole);
    assert!(rule.unwrap().optional);
    for (ty, path, what) in cases {
        let refused = Symbols::default().rule(&model, "input", Arc::from("x"), &ty);
        let Err(Refused::Kind { name, kind }) = refused else {
            panic!("{ty} is accepted");
        };
        assert_eq!((name.as_str(), kind), (path, what));
    }
}

/// Rule 3.7.6; S061, S108.
#[test]
fn structs_have_exactly_the_declared_fields() {
    let inner = declared(structure(&[("k", floats("n 2"))]));
    let ty = structure(&[
        ("a", floats("n")),
        ("b", inner),
        ("c", tensor(DType::Int64, "")),
    ]);
    let mut checker = Checker::new(&declared(ty));
    let count = || RuntimeValue::from(Tensor::scalar(1i64).unwrap());
    let b = |k| fields([("k", k)]);
    let good = fields([("a", zeros(&[3])), ("b", b(zeros(&[3, 2]))), ("c", count())]);
    assert_eq!(checker.says(good), "");
    let shuffled = fields([("c", count()), ("a", zeros(&[3])), ("b", b(zeros(&[3, 2])))]);
    assert_eq!(checker.says(shuffled), "");
    let short = fields([("a", zeros(&[3])), ("c", count())]);
    assert_eq!(checker.says(short), "input `x`: missing field `b`");
    let more = fields([
        ("a", zeros(&[3])),
        ("b", b(zeros(&[3, 2]))),
        ("c", count()),
        ("d", count()),
    ]);
    assert_eq!(
        checker.says(more),
        "input `x`: unexpected structured field `d`"
    );
    let renamed = fields([("a", zeros(&[3])), ("b", b(zeros(&[3, 2]))), ("C", count())]);
    assert_eq!(checker.says(renamed), "input `x`: missing field `c`");
    let deep = fields([("a", zeros(&[3])), ("b", b(zeros(&[3]))), ("c", count())]);
    let told = "input `x.b.k`: rank mismatch, expected 2 axes, got shape [3]";
    assert_eq!(checker.says(deep), told);
    let wrong = fields([
        ("a", zeros(&[3])),
        ("b", b(zeros(&[3, 2]))),
        ("c", zeros(&[])),
    ]);
    let told = "input `x.c`: dtype mismatch, expected INT64, got FLOAT";
    assert_eq!(checker.says(wrong), told);
    let clash = fields([("a", zeros(&[3])), ("b", b(zeros(&[4, 2]))), ("c", count())]);
    let told = "input `x.b.k`: symbolic shape mismatch, `n` is 3 elsewhere, got [4, 2] (axis 0)";
    assert_eq!(checker.check(clash), Ok(Some(told.to_string())));
    let empty = StructValue::new::<&str>([]).unwrap();
    assert_eq!(checker.says(empty), "input `x`: missing field `a`");
}

/// Rule 3.7.6.
#[test]
fn constant_fields_are_no_part_of_a_value() {
    let mut ty = structure(&[("a", floats("1"))]);
    let Some(Kind::Structure(fields_of)) = &mut ty.kind else {
        panic!("no structure");
    };
    fields_of.field.push(Field {
        name: Some("version".to_string()),
        content: Some(Content::Constant(TensorProto {
            data_type: Some(DType::Int64.to_onnx()),
            int64_data: vec![1],
            ..Default::default()
        })),
        ..Default::default()
    });
    let mut checker = Checker::new(&declared(ty));
    assert_eq!(checker.says(fields([("a", zeros(&[1]))])), "");
    let more = fields([("a", zeros(&[1])), ("version", zeros(&[]))]);
    assert_eq!(
        checker.says(more),
        "input `x`: unexpected structured field `version`"
    );
}

#[test]
fn references_stand_for_entries_of_the_catalogue_however_often() {
    // 30 levels of two references each: the expansion has 2^29 parts.
    let reference = |id| StructTypeProto {
        kind: Some(Kind::TypeRef(id)),
        ..Default::default()
    };
    let mut entries = Vec::new();
    for id in 1..=30u64 {
        let inner = match id {
            1 => floats("n"),
            id => declared(reference(id - 1)),
        };
        let fields: &[(&str, ValueType)] = match id {
            1 => &[("a", inner)],
            _ => &[("a", inner.clone()), ("b", inner)],
        };
        entries.push(StructTypeProto {
            type_id: Some(id),
            ..structure(fields)
        });
    }
    let model = model_of(entries);
    Checker::of_model(&model, &declared(reference(30)));
    let mut checker = Checker::of_model(&model, &declared(reference(2)));
    let leaf = |n| fields([("a", zeros(&[n]))]);
    assert_eq!(checker.says(fields([("a", leaf(3)), ("b", leaf(3))])), "");
    let told = "input `x.b.a`: symbolic shape mismatch, `n` is 3 elsewhere, got [4] (axis 0)";
    assert_eq!(checker.says(fields([("a", leaf(3)), ("b", leaf(4))])), told);
}

/// Rule 3.7.4; S116, S119.
#[test]
fn encoded_values_are_tensors_of_their_decoded_type() {
    let mut checker = Checker::new(&floats("n 2"));
    assert_eq!(checker.says(encoded(&[3, 2])), "");
    let told = "input `x`: rank mismatch, expected 2 axes, got shape [3]";
    assert_eq!(checker.says(encoded(&[3])), told);
    let told = "input `x`: shape mismatch, expected FLOAT[n, 2], got [3, 4] (axis 1)";
    assert_eq!(checker.says(encoded(&[3, 4])), told);
    let mut half = Checker::new(&tensor(DType::Float16, "n 2"));
    let told = "input `x`: dtype mismatch, expected FLOAT16, got FLOAT";
    assert_eq!(half.says(encoded(&[3, 2])), told);
}

/// Records of two FLOATs.
fn record(logical: Option<(DType, &[usize])>) -> RuntimeValue {
    let fields = ["a", "b"].map(|name| StoredField {
        name: Arc::from(name),
        content: FieldContent::Type(StorageType::Tensor {
            dtype: DType::Float,
            shape: Dims::from_slice(&[]),
        }),
    });
    let ty = StructType::new(StructKind::Structure(fields.into())).unwrap();
    let payload = Tensor::from_slice(&[16], &[0u8; 16]).unwrap();
    EncodedValue::records(Arc::new(ty), logical, payload)
        .unwrap()
        .into()
}

/// Rule 3.7.5; S119.
#[test]
fn encoded_values_are_structs_of_compatible_layouts() {
    let mut same = Checker::new(&declared(structure(&[
        ("a", floats("")),
        ("b", floats("")),
    ])));
    assert_eq!(same.says(record(None)), "");
    let mut other = Checker::new(&declared(structure(&[
        ("a", floats("")),
        ("c", floats("")),
    ])));
    let told = other.says(record(None));
    assert!(
        told.starts_with("input `x: ") && told.contains("`c`"),
        "{told}"
    );
    let affine = same.says(encoded(&[1]));
    assert!(
        affine.contains("expected a structured encoding, got an affine one"),
        "{affine}"
    );
    let mut tensor = Checker::new(&floats("2"));
    let told = "input `x`: expected a tensor, got an encoded value without a decoded type";
    assert_eq!(tensor.says(record(None)), told);
    assert_eq!(tensor.says(record(Some((DType::Float, &[2])))), "");
    let array = struct_type_proto::Array {
        element_type: Some(Box::new(floats("").to_proto())),
        dimension: Some(2),
    };
    let mut packed = Checker::new(&declared(StructTypeProto {
        kind: Some(Kind::Array(Box::new(array))),
        ..Default::default()
    }));
    let told = "input `x`: expected an encoded value, got a structured value";
    assert_eq!(packed.says(fields([("a", zeros(&[]))])), told);
}

/// Rule 3.7.7; S119, S127.
#[test]
fn elements_are_checked_one_by_one_and_named() {
    let mut checker = Checker::new(&ValueType::sequence_of(floats("n ?")));
    assert_eq!(checker.says(RuntimeSequence::default()), "");
    assert_eq!(checker.says(sequence((1..9).map(|m| zeros(&[3, m])))), "");
    let rank = sequence((0..9).map(|i| zeros(if i == 6 { &[3] } else { &[3, 1] })));
    let told = "input `x[6]`: rank mismatch, expected 2 axes, got shape [3]";
    assert_eq!(checker.says(rank), told);
    let kind = sequence([zeros(&[3, 1]), fields([("a", zeros(&[3, 1]))])]);
    let told = "input `x[1]`: expected a tensor, got a structured value";
    assert_eq!(checker.says(kind), told);
    let nested = ValueType::sequence_of(declared(structure(&[(
        "frames",
        ValueType::sequence_of(floats("n")),
    )])));
    let mut checker = Checker::new(&nested);
    let frames = |n: [usize; 3]| fields([("frames", sequence(n.map(|n| zeros(&[n]))).into())]);
    assert_eq!(
        checker.says(sequence([frames([2, 2, 2]), frames([2, 2, 2])])),
        ""
    );
    let told =
        "input `x[1].frames[2]`: symbolic shape mismatch, `n` is 2 elsewhere, got [5] (axis 0)";
    let clash = sequence([frames([2, 2, 2]), frames([2, 2, 5])]);
    assert_eq!(checker.check(clash), Ok(Some(told.to_string())));
}

/// Rules 3.7.2, 3.7.7.
#[test]
fn symbols_agree_across_elements_and_with_the_table() {
    let ty = ValueType::sequence_of(floats("n m"));
    let model = model_of(Vec::new());
    let mut symbols = Symbols::default();
    let frames = symbols
        .rule(&model, "input", Arc::from("frames"), &ty)
        .unwrap();
    let next = symbols
        .rule(&model, "input", Arc::from("next"), &floats("n"))
        .unwrap();
    let mut table = symbols.table();
    let told = |clash: Option<ConformError>| clash.map(|clash| clash.to_string());
    let good = RuntimeValue::from(sequence((0..9).map(|_| zeros(&[4, 2]))));
    let bad = sequence((0..9).map(|i| zeros(&[4, if i < 5 { 2 } else { 3 }])));
    // The sequence first, then a tensor that contradicts it, and the other way round.
    assert_eq!(frames.check(&good, &mut table).unwrap(), None);
    let clash = told(next.check(&zeros(&[5]), &mut table).unwrap());
    assert_eq!(
        clash.unwrap(),
        "input `next`: symbolic shape mismatch, `n` is 4 elsewhere, got [5] (axis 0)"
    );
    for _ in 0..2 {
        table.clear();
        assert_eq!(next.check(&zeros(&[5]), &mut table).unwrap(), None);
        let clash = told(frames.check(&good, &mut table).unwrap());
        assert_eq!(
            clash.unwrap(),
            "input `frames[0]`: symbolic shape mismatch, `n` is 5 elsewhere, got [4, 2] (axis 0)"
        );
        table.clear();
        let clash = told(frames.check(&bad.clone().into(), &mut table).unwrap());
        assert_eq!(
            clash.unwrap(),
            "input `frames[5]`: symbolic shape mismatch, `m` is 2 elsewhere, got [4, 3] (axis 1)"
        );
    }
    table.clear();
    assert_eq!(frames.check(&good, &mut table).unwrap(), None);
}

/// Rule 7.2.3; S123.
#[test]
fn a_step_looks_at_new_nodes_only() {
    let element = declared(structure(&[("k", floats("n 2")), ("v", floats("n ?"))]));
    let mut checker = Checker::new(&ValueType::sequence_of(element));
    let page = |n| fields([("k", zeros(&[n, 2])), ("v", zeros(&[n, 1]))]);
    let mut pages = sequence((0..10_000).map(|_| page(3)));
    assert_eq!(checker.says(pages.clone()), "");
    assert_eq!(checker.known_nodes(), 19_999);
    for _ in 0..50 {
        let before = checker.known_nodes();
        pages.push(page(3)).unwrap();
        assert_eq!(checker.says(pages.clone()), "");
        let new = checker.known_nodes() - before;
        assert!((2..=50).contains(&new), "{new}");
        // Once more, in another call: nothing is new.
        assert_eq!(checker.says(pages.clone()), "");
        assert_eq!(checker.known_nodes(), before + new);
    }
    // What was found in earlier calls still tells symbols apart in this one.
    pages.set(7_777, page(4)).unwrap();
    let told =
        "input `x[7777].k`: symbolic shape mismatch, `n` is 3 elsewhere, got [4, 2] (axis 0)";
    assert_eq!(checker.check(pages), Ok(Some(told.to_string())));
}

#[test]
fn a_declaration_in_many_places_has_a_memo_in_each() {
    let entry = StructTypeProto {
        type_id: Some(7),
        ..structure(&[("frames", ValueType::sequence_of(floats("n")))])
    };
    let reference = declared(StructTypeProto {
        kind: Some(Kind::TypeRef(7)),
        ..Default::default()
    });
    let names: Vec<String> = (0..24).map(|layer| format!("layer{layer}")).collect();
    let layers: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), reference.clone()))
        .collect();
    let mut checker = Checker::of_model(&model_of(vec![entry]), &declared(structure(&layers)));
    let mut frames: Vec<RuntimeSequence> = (0..24)
        .map(|_| sequence((0..100).map(|_| zeros(&[2]))))
        .collect();
    let whole = |frames: &[RuntimeSequence]| {
        let layer = |frames: &RuntimeSequence| fields([("frames", frames.clone().into())]);
        StructValue::new(
            names
                .iter()
                .map(String::as_str)
                .zip(frames.iter().map(layer)),
        )
        .unwrap()
    };
    assert_eq!(checker.says(whole(&frames)), "");
    assert_eq!(checker.known_nodes(), 24 * 199);
    for frames in &mut frames {
        frames.push(zeros(&[2])).unwrap();
    }
    assert_eq!(checker.says(whole(&frames)), "");
    assert!(checker.known_nodes() <= 24 * (199 + 3 * 9));
}

fn page(start: i64, length: i64, key: RuntimeValue, value: RuntimeValue) -> RuntimeValue {
    let number = |n| Tensor::scalar(n).unwrap();
    page_of(number(start), number(length), key, value).unwrap()
}

/// Pages of one token each.
fn pages(count: i64, capacity: usize) -> Vec<RuntimeValue> {
    let (key, value) = (zeros(&[1, 2, capacity, 4]), zeros(&[1, 2, capacity, 3]));
    (0..count)
        .map(|at| page(at, 1, key.clone(), value.clone()))
        .collect()
}

fn cache_type(key: &str, value: &str) -> ValueType {
    let number = || tensor(DType::Int64, "");
    let page = structure(&[
        ("start", number()),
        ("length", number()),
        ("key", floats(key)),
        ("value", floats(value)),
    ]);
    declared(structure(&[(
        "blocks",
        ValueType::sequence_of(declared(page)),
    )]))
}

/// Rule 3.7.9; S125.
#[test]
fn caches_get_the_full_page_check() {
    for ty in [
        declared(StructTypeProto::default()),
        cache_type("b h c 4", "b h c 3"),
    ] {
        let mut checker = Checker::new(&ty);
        assert_eq!(checker.says(cache_of([]).unwrap()), "");
        let mut blocks = pages(9, 5);
        assert_eq!(checker.says(cache_of(blocks.clone()).unwrap()), "");
        blocks[6] = page(7, 1, zeros(&[1, 2, 5, 4]), zeros(&[1, 2, 5, 3]));
        let told = checker.says(cache_of(blocks.clone()).unwrap());
        assert_eq!(told, "input `x.blocks[6].start`: expected 6, got 7");
        blocks[6] = page(6, 6, zeros(&[1, 2, 5, 4]), zeros(&[1, 2, 5, 3]));
        let told = checker.says(cache_of(blocks.clone()).unwrap());
        let expected = "input `x.blocks[6].length`: expected at most 5, the capacity of the page";
        assert!(told.starts_with(expected), "{told}");
        blocks[6] = fields([("start", zeros(&[]))]);
        let told = checker.says(cache_of(blocks).unwrap());
        assert!(told.starts_with("input `x.blocks[6]`: expected"), "{told}");
        let late = cache_of([page(1, 1, zeros(&[1, 1, 1, 4]), zeros(&[1, 1, 1, 3]))]).unwrap();
        assert_eq!(
            checker.says(late),
            "input `x.blocks[0].start`: expected 0, got 1"
        );
    }
}

/// Rule 3.7.9; S128.
#[test]
fn a_struct_without_a_kind_takes_caches_only() {
    let mut checker = Checker::new(&declared(StructTypeProto::default()));
    let told = checker.says(fields([("a", zeros(&[1]))]));
    assert!(
        told.starts_with("input `x`: expected a structure of the one field `blocks`"),
        "{told}"
    );
    let told = checker.says(fields([("blocks", zeros(&[1]))]));
    assert!(
        told.starts_with("input `x`: expected a structure of the one field `blocks`"),
        "{told}"
    );
    assert!(checker.check(record(None)).is_err());
    assert!(checker.check(zeros(&[1])).is_err());
}

/// Rule 3.7.9; S213.
#[test]
fn pages_of_other_formats_are_of_the_declared_logical_type() {
    let half = |shape: &[usize]| {
        let count: usize = shape.iter().product();
        let zero = vec![half::f16::ZERO; count];
        RuntimeValue::from(Tensor::from_slice(shape, &zero).unwrap())
    };
    let blocks = vec![
        page(0, 2, half(&[1, 2, 3, 4]), encoded(&[1, 2, 3, 5])),
        page(2, 3, encoded(&[1, 2, 3, 4]), zeros(&[1, 2, 3, 5])),
    ];
    let mut checker = Checker::new(&cache_type("1 h 3 4", "1 h 3 5"));
    assert_eq!(checker.says(cache_of(blocks.clone()).unwrap()), "");
    let mut narrow = Checker::new(&cache_type("1 h 3 4", "1 h 3 6"));
    let told = "input `x.blocks[0].value`: shape mismatch, expected [1, h, 3, 6], got [1, 2, 3, 5] (axis 3)";
    assert_eq!(narrow.says(cache_of(blocks.clone()).unwrap()), told);
    let mut clashing = Checker::new(&cache_type("1 n 3 4", "1 2 n 5"));
    let told = "input `x.blocks[0].value`: symbolic shape mismatch, `n` is 2 elsewhere, got [1, 2, 3, 5] (axis 2)";
    assert_eq!(
        clashing.check(cache_of(blocks).unwrap()),
        Ok(Some(told.to_string()))
    );
    // Other fields keep the exact type.
    let mut plain = Checker::new(&declared(structure(&[("key", floats("1"))])));
    let told = "input `x.key`: dtype mismatch, expected FLOAT, got FLOAT16";
    assert_eq!(plain.says(fields([("key", half(&[1]))])), told);
}

#[test]
fn caches_are_known_by_themselves() {
    let mut checker = Checker::new(&cache_type("b h c 4", "b h c 3"));
    let mut blocks = sequence(pages(1000, 1));
    let cache = |blocks: &RuntimeSequence| fields([("blocks", blocks.clone().into())]);
    let more = pages(1040, 1).split_off(1000);
    for page in more {
        blocks.push(page).unwrap();
        assert_eq!(checker.says(cache(&blocks)), "");
    }
    // Nothing is kept of them, so another state need not find it out again.
    assert_eq!(checker.known_nodes(), 0);
}

/// Where pages differ in what a symbol stands for, each is looked at, once.
#[test]
fn a_step_looks_at_new_pages_only() {
    let mut checker = Checker::new(&cache_type("b h c 4", "b h c 3"));
    let mut all = pages(1000, 1);
    all[700] = page(700, 1, zeros(&[1, 2, 6, 4]), zeros(&[1, 2, 6, 3]));
    let mut blocks = sequence(all);
    let cache = |blocks: &RuntimeSequence| fields([("blocks", blocks.clone().into())]);
    let told = "input `x.blocks[700].key`: symbolic shape mismatch, `c` is 1 elsewhere, got [1, 2, 6, 4] (axis 2)";
    assert_eq!(checker.says(cache(&blocks)), told);
    assert_eq!(checker.known_nodes(), 1999);
    let more = pages(1040, 1).split_off(1000);
    for page in more {
        let before = checker.known_nodes();
        blocks.push(page).unwrap();
        assert_eq!(checker.says(cache(&blocks)), told);
        assert!(checker.known_nodes() - before <= 40);
    }
}

/// What is read off the whole cache and what a look at each page finds is the same.
#[test]
fn declared_extents_of_pages_are_held_to_the_whole_cache() {
    for (key, value, told) in [
        ("1 2 5 4", "1 2 5 3", ""),
        ("? ? ? ?", "b h c w", ""),
        (
            "b b c 4",
            "? ? ? 3",
            "`b` is 1 elsewhere, got [1, 2, 5, 4] (axis 1)",
        ),
        (
            "b h c w",
            "b h c w",
            "`w` is 4 elsewhere, got [1, 2, 5, 3] (axis 3)",
        ),
        (
            "b h 6 4",
            "b h c 3",
            "shape mismatch, expected [b, h, 6, 4]",
        ),
        (
            "b h c 4",
            "b 3 c 3",
            "shape mismatch, expected [b, 3, c, 3]",
        ),
    ] {
        let mut checker = Checker::new(&cache_type(key, value));
        let said = checker.says(cache_of(pages(40, 5)).unwrap());
        assert!(
            said.contains(told) && said.is_empty() == told.is_empty(),
            "{key}; {value}: {said}"
        );
        assert!(
            said.is_empty() || said.starts_with("input `x.blocks[0]."),
            "{said}"
        );
        assert_eq!(checker.known_nodes() == 0, !told.starts_with('`'), "{key}");
    }
}

/// Rule 3.7.3.
#[test]
fn a_declaration_without_a_shape_takes_any() {
    let any = ValueType::from(TensorType::of(DType::Float));
    let mut checker = Checker::new(&any);
    for shape in [&[][..], &[0], &[2, 3], &[1, 1, 1, 5]] {
        assert_eq!(checker.says(zeros(shape)), "");
        assert_eq!(checker.says(encoded(shape)), "");
    }
    let told = "input `x`: dtype mismatch, expected FLOAT, got INT64";
    assert_eq!(checker.says(Tensor::scalar(1i64).unwrap()), told);
}
