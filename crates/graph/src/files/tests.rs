use super::*;
use refeed_proto::encoded_value_proto::Layout;
use refeed_proto::paged_cache_block_proto::{KeyPayload, ValuePayload};
use refeed_proto::{
    Convert, EncodedValueProto, GraphProto, Message, ModelProto, PagedCacheBlockProto,
    PagedCacheProto, TensorProto,
};

/// A model with three float tensors of 2, 500 and 500 elements; the last two hold the same numbers.
fn model() -> Arc<FrozenMessage> {
    let numbers: Vec<u8> = (0..500u32).flat_map(|n| (n as f32).to_le_bytes()).collect();
    let tensor = |name: &str, raw: &[u8]| TensorProto {
        name: Some(name.to_string()),
        data_type: Some(1),
        dims: vec![raw.len() as i64 / 4],
        raw_data: Some(Bytes::copy_from_slice(raw)),
        ..Default::default()
    };
    let graph = GraphProto {
        initializer: vec![
            tensor("small", &numbers[..8]),
            tensor("w/1", &numbers),
            tensor("w2", &numbers[..1600]),
        ],
        ..Default::default()
    };
    let model = ModelProto {
        ir_version: Some(10),
        graph: Some(graph),
        ..Default::default()
    };
    decode(Bytes::from(model.encode_to_vec()))
}

fn decode(wire: Bytes) -> Arc<FrozenMessage> {
    let limits = DecodeLimits::default();
    Arc::new(FrozenMessage::decode(&descriptors::MODEL_PROTO, wire, &limits).unwrap())
}

fn read_back(path: &Path) -> Arc<FrozenMessage> {
    let limits = DecodeLimits::default();
    read(
        path,
        &descriptors::MODEL_PROTO,
        &LoadOptions::default(),
        &limits,
    )
    .unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_message_comes_back_from_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    let model = model();
    write(&path, &model, None).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), model.encode().unwrap());
    assert_eq!(read_back(&path), model);
    assert_eq!(names(folder.path()), ["m.onnx"]);
}

#[test]
fn payloads_move_to_a_data_file_and_come_back_as_slices_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    let model = model();
    let before = model.encode().unwrap();
    write(&path, &model, Some(&Split::new("m.data", 1024))).unwrap();
    assert_eq!(
        model.encode().unwrap(),
        before,
        "the message stays as it is"
    );
    assert_eq!(names(folder.path()), ["m.data", "m.onnx"]);
    // 2000 bytes at 0, 1600 bytes at the next multiple of 64.
    assert_eq!(
        std::fs::metadata(folder.path().join("m.data"))
            .unwrap()
            .len(),
        2048 + 1600
    );
    let split = read_back(&path);
    let proto = ModelProto::decode(Bytes::from(split.encode().unwrap())).unwrap();
    let [small, first, second] = &proto.graph.as_ref().unwrap().initializer[..] else {
        panic!("three tensors")
    };
    assert!(small.raw_data.is_some() && first.raw_data.is_none());
    let entries: Vec<_> = second
        .external_data
        .iter()
        .map(|e| (e.key(), e.value()))
        .collect();
    assert_eq!(
        entries,
        [
            ("location", "m.data"),
            ("offset", "2048"),
            ("length", "1600")
        ]
    );

    let external = ExternalData::in_folder(folder.path(), &LoadOptions::default()).unwrap();
    let whole = bring_in(&split, &external, Some("m.data")).unwrap();
    // Official readers set the location back to DEFAULT instead of clearing it.
    let proto = ModelProto::decode(Bytes::from(whole.encode().unwrap())).unwrap();
    let original = ModelProto::decode(Bytes::from(before)).unwrap();
    for (got, expected) in proto
        .graph
        .unwrap()
        .initializer
        .iter()
        .zip(&original.graph.unwrap().initializer)
    {
        assert_eq!(got.raw_data, expected.raw_data);
        assert!(got.external_data.is_empty());
    }
    let error = bring_in(&split, &external, Some("other.data")).unwrap_err();
    assert!(matches!(error, FileError::OtherFile { .. }), "{error}");
}

#[test]
fn encoded_values_move_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    let records = |bytes: &'static [u8]| EncodedValueProto {
        name: Some("records".into()),
        raw_data: Some(Bytes::from_static(bytes)),
        layout: Some(Layout::StructType(Default::default())),
        ..Default::default()
    };
    let block = PagedCacheBlockProto {
        key_payload: Some(KeyPayload::EncodedKey(records(&[7; 70]))),
        value_payload: Some(ValuePayload::EncodedValue(records(b"few"))),
        ..Default::default()
    };
    let graph = GraphProto {
        encoded_initializer: vec![records(&[9; 90]), records(b"")],
        paged_cache_initializer: vec![PagedCacheProto {
            blocks: vec![block],
            ..Default::default()
        }],
        ..Default::default()
    };
    let model = ModelProto {
        graph: Some(graph),
        ..Default::default()
    };
    let model = decode(Bytes::from(model.encode_to_vec()));
    write(&path, &model, Some(&Split::new("m.data", 10))).unwrap();
    let data = std::fs::read(folder.path().join("m.data")).unwrap();
    assert_eq!((data.len(), data[0], data[128]), (128 + 70, 9, 7));
    let split = read_back(&path);
    let proto = ModelProto::from_message(&split).unwrap();
    let graph = proto.graph.as_ref().unwrap();
    assert!(graph.encoded_initializer[0].raw_data.is_none());
    assert_eq!(
        graph.encoded_initializer[1].raw_data.as_deref(),
        Some(&b""[..])
    );
    let external = ExternalData::in_folder(folder.path(), &LoadOptions::default()).unwrap();
    let whole = bring_in(&split, &external, Some("m.data")).unwrap();
    let whole = ModelProto::from_message(&whole).unwrap().graph.unwrap();
    assert_eq!(
        whole.encoded_initializer[0].raw_data.as_deref(),
        Some(&[9; 90][..])
    );
    let block = &whole.paged_cache_initializer[0].blocks[0];
    let Some(KeyPayload::EncodedKey(key)) = &block.key_payload else {
        panic!("an encoded key")
    };
    assert_eq!(key.raw_data.as_deref(), Some(&[7; 70][..]));
    assert!(key.external_data.is_empty());

    // The reference alone tells the size.
    let mut broken = proto;
    let graph = broken.graph.as_mut().unwrap();
    graph.encoded_initializer[0].external_data.pop();
    let error = bring_in(&Arc::new(broken.to_message().unwrap()), &external, None).unwrap_err();
    assert!(error.to_string().contains("length"), "{error}");
}

#[test]
fn tensors_get_files_of_their_own_under_usable_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    let split = Split::new("", 1).one_file_each();
    write(&path, &model(), Some(&split)).unwrap();
    assert_eq!(
        names(folder.path()),
        ["m.onnx", "small", "tensor-0.data", "w2"]
    );
    let external = ExternalData::in_folder(folder.path(), &LoadOptions::default()).unwrap();
    bring_in(&read_back(&path), &external, None).unwrap();
}

#[test]
fn nothing_is_left_behind_when_a_file_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    std::fs::create_dir(&path).unwrap();
    write(&path, &model(), Some(&Split::new("m.data", 1))).unwrap_err();
    assert_eq!(names(folder.path()), ["m.onnx"]);
    let outside = write(
        &folder.path().join("x.onnx"),
        &model(),
        Some(&Split::new("../m.data", 1)),
    );
    assert!(matches!(outside.unwrap_err(), FileError::Location { .. }));
    assert_eq!(names(folder.path()), ["m.onnx"]);
}

#[test]
fn data_files_are_named_from_the_folder_of_the_message() {
    let location = |data: &str, message: &str| location_of(Path::new(data), Path::new(message));
    assert_eq!(location("w.data", "/a/b/m.onnx").unwrap(), "w.data");
    assert_eq!(location("/a/b/w.data", "/a/b/m.onnx").unwrap(), "w.data");
    assert_eq!(
        location("/a/b/c/w.data", "/a/b/m.onnx").unwrap(),
        "c/w.data"
    );
    assert_eq!(location("out/w.data", "out/m.onnx").unwrap(), "w.data");
    assert_eq!(location("sub/w.data", "out/m.onnx").unwrap(), "sub/w.data");
    assert_eq!(location("w.data", "m.onnx").unwrap(), "w.data");
    for data in ["/a/w.data", "../w.data", ""] {
        assert!(location(data, "/a/b/m.onnx").is_err(), "{data}");
    }
}
