use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;

use refeed_proto::{GraphProto, Message, ModelProto, NodeProto, TensorProto};
use rustix::fs::{FileType, Mode};
use tempfile::TempDir;

use super::super::*;
use super::{entry, external};

const SECRET: &[u8] = b"the secret outside of the folder";

/// `root/secret` outside, `root/model/` with a model, weights and everything that must not be followed.
fn hostile_root() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let inside = root.path().join("model");
    fs::create_dir_all(inside.join("sub")).unwrap();
    fs::create_dir_all(root.path().join("elsewhere")).unwrap();
    fs::write(root.path().join("secret"), SECRET).unwrap();
    fs::write(root.path().join("elsewhere/secret"), SECRET).unwrap();
    fs::write(inside.join("w"), (0..100u8).collect::<Vec<u8>>()).unwrap();
    fs::write(inside.join("sub/w"), (100..180u8).collect::<Vec<u8>>()).unwrap();
    fs::write(inside.join("empty"), b"").unwrap();
    symlink("../secret", inside.join("link_out")).unwrap();
    symlink(root.path().join("secret"), inside.join("link_absolute")).unwrap();
    symlink("w", inside.join("link_in")).unwrap();
    symlink("loop", inside.join("loop")).unwrap();
    symlink("../elsewhere", inside.join("folder_out")).unwrap();
    symlink("sub", inside.join("folder_in")).unwrap();
    fs::hard_link(root.path().join("secret"), inside.join("hard")).unwrap();
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(
        rustix::fs::CWD,
        inside.join("pipe"),
        FileType::Fifo,
        mode,
        0,
    )
    .unwrap();
    root
}

fn data(root: &TempDir, options: &LoadOptions) -> ExternalData {
    ExternalData::in_folder(&root.path().join("model"), options).unwrap()
}

fn both() -> [LoadOptions; 2] {
    [
        LoadOptions::default(),
        LoadOptions::default().with_mmap(false),
    ]
}

#[test]
fn files_inside_the_folder_are_read_once_and_shared() {
    let root = hostile_root();
    for options in both() {
        let data = data(&root, &options);
        let first = tensor_bytes(&external("w", 10, 5), &data).unwrap();
        assert_eq!(first, [10, 11, 12, 13, 14][..]);
        let second = tensor_bytes(&external("./w", 12, 30), &data).unwrap();
        assert_eq!(second[..3], [12, 13, 14]);
        assert_eq!(first[2..].as_ptr(), second.as_ptr());
        let deep = tensor_bytes(&external("sub/w", 0, 80), &data).unwrap();
        assert_eq!((deep[0], deep[79]), (100, 179));
        let all = tensor_bytes(&external("w", 0, 100), &data).unwrap();
        drop(data);
        assert_eq!(all[99], 99);
    }
}

#[test]
fn no_location_leads_out_of_the_folder() {
    use LocationFault::*;
    let root = hostile_root();
    let absolute = root.path().join("secret").to_string_lossy().into_owned();
    let long = "a/".repeat(3000);
    let cases: [(&str, LocationFault); 19] = [
        ("", Empty),
        ("../secret", Parent),
        ("sub/../../secret", Parent),
        ("#/../secret", Parent),
        ("./../secret", Parent),
        (&absolute, Absolute),
        ("C:\\secret", Absolute),
        ("..\\secret", Backslash),
        ("w\0.bin", Nul),
        ("../secret\0w", Nul),
        (&long, TooLong),
        ("link_out", SymbolicLink),
        ("link_absolute", SymbolicLink),
        ("link_in", SymbolicLink),
        ("loop", SymbolicLink),
        ("folder_out/secret", SymbolicLink),
        ("folder_in/w", SymbolicLink),
        ("hard", HardLink),
        ("pipe", NotRegular),
    ];
    for options in both() {
        let data = data(&root, &options);
        for (location, expected) in cases {
            match tensor_bytes(&external(location, 0, 5), &data).unwrap_err() {
                LoadError::Location {
                    tensor,
                    location: given,
                    fault,
                } => {
                    assert_eq!(
                        (tensor.as_str(), given.as_str(), fault),
                        ("w", location, expected)
                    );
                }
                other => panic!("{location}: {other}"),
            }
        }
        for folder in ["sub", "."] {
            let error = tensor_bytes(&external(folder, 0, 5), &data).unwrap_err();
            let LoadError::Location { fault, .. } = error else {
                panic!("{folder}: {error}")
            };
            assert_eq!(fault, if folder == "." { EmptyPart } else { NotRegular });
        }
        for absent in ["absent", "sub/absent", "w/w"] {
            let error = tensor_bytes(&external(absent, 0, 5), &data).unwrap_err();
            assert!(matches!(error, LoadError::External { .. }), "{error}");
            assert!(error.to_string().contains(absent), "{error}");
        }
    }
}

#[test]
fn hard_links_can_be_allowed() {
    let root = hostile_root();
    let data = data(&root, &LoadOptions::default().with_allow_hard_links(true));
    assert_eq!(
        tensor_bytes(&external("hard", 4, 6), &data).unwrap(),
        SECRET[4..10]
    );
}

#[test]
fn ranges_end_inside_their_file() {
    let root = hostile_root();
    for options in both() {
        let data = data(&root, &options);
        for (offset, length) in [(0, 100), (99, 1), (100, 0), (0, 0)] {
            let bytes = tensor_bytes(&external("w", offset, length), &data).unwrap();
            assert_eq!(bytes.len(), length as usize);
        }
        for (offset, length) in [
            (0, 101),
            (99, 2),
            (100, 1),
            (101, 0),
            (u64::MAX, 1),
            (u64::MAX, 100),
            (1 << 63, 1),
        ] {
            let error = tensor_bytes(&external("w", offset, length), &data).unwrap_err();
            assert!(
                matches!(error, LoadError::ExternalRange { size: 100, .. }),
                "{offset}+{length}: {error}"
            );
        }
        let huge = external("w", 0, i64::MAX);
        assert!(matches!(
            tensor_bytes(&huge, &data),
            Err(LoadError::ExternalRange { size: 100, .. })
        ));
        assert!(
            tensor_bytes(&external("empty", 0, 0), &data)
                .unwrap()
                .is_empty()
        );
        assert!(tensor_bytes(&external("empty", 0, 1), &data).is_err());
    }
}

#[test]
fn length_follows_from_type_and_dimensions() {
    let root = hostile_root();
    let data = data(&root, &LoadOptions::default());
    let with = |data_type: i32, dims: &[i64], length: Option<&str>| TensorProto {
        data_type: Some(data_type),
        dims: dims.to_vec(),
        external_data: [
            ("location", Some("w")),
            ("length", length),
            ("checksum", Some("x")),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some(entry(key, value?)))
        .collect(),
        ..external("w", 0, 0)
    };
    for length in [None, Some("0"), Some("24")] {
        assert_eq!(
            tensor_bytes(&with(1, &[2, 3], length), &data)
                .unwrap()
                .len(),
            24
        );
    }
    // Five 4-bit elements take three bytes.
    for length in [None, Some("0"), Some("3")] {
        assert_eq!(
            tensor_bytes(&with(22, &[5], length), &data).unwrap(),
            [0, 1, 2][..]
        );
    }
    for length in ["23", "25", "100", "1"] {
        let error = tensor_bytes(&with(1, &[2, 3], Some(length)), &data).unwrap_err();
        assert!(
            matches!(error, LoadError::ExternalLength { expected: 24, .. }),
            "{error}"
        );
    }
    for text in [
        "-1",
        "",
        " 24",
        "24.0",
        "0x18",
        "18446744073709551616",
        "99999999999999999999999",
    ] {
        let error = tensor_bytes(&with(1, &[2, 3], Some(text)), &data).unwrap_err();
        assert!(
            matches!(error, LoadError::ExternalNumber { key: "length", .. }),
            "{text:?}: {error}"
        );
    }
}

#[test]
fn entries_are_unambiguous() {
    let root = hostile_root();
    let data = data(&root, &LoadOptions::default());
    let mut negative = external("w", 0, 5);
    negative.external_data[1] = entry("offset", -1);
    assert!(matches!(
        tensor_bytes(&negative, &data),
        Err(LoadError::ExternalNumber { key: "offset", .. })
    ));
    for key in ["location", "offset", "length"] {
        let mut twice = external("w", 0, 5);
        twice.external_data.push(entry(key, "5"));
        let error = tensor_bytes(&twice, &data).unwrap_err();
        assert!(
            matches!(error, LoadError::ExternalTwice { key: found, .. } if found == key),
            "{error}"
        );
    }
    let mut nowhere = external("w", 0, 5);
    nowhere.external_data.clear();
    let error = tensor_bytes(&nowhere, &data).unwrap_err();
    assert!(
        matches!(
            error,
            LoadError::Location {
                fault: LocationFault::Empty,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn large_files_are_refused_when_a_limit_says_so() {
    let root = hostile_root();
    for options in both() {
        let data = data(&root, &options.clone().with_max_file_bytes(99));
        let error = tensor_bytes(&external("w", 0, 5), &data).unwrap_err();
        assert!(
            matches!(
                error,
                LoadError::TooLarge {
                    size: 100,
                    limit: 99,
                    ..
                }
            ),
            "{error}"
        );
        assert!(tensor_bytes(&external("sub/w", 0, 5), &data).is_ok());
    }
}

/// A folder that is swapped for a link while files are opened: what is read is never from outside.
#[test]
fn a_race_with_a_link_reads_nothing_outside() {
    let root = hostile_root();
    let inside = root.path().join("model");
    fs::write(inside.join("sub/secret"), [7; 32]).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                fs::rename(inside.join("sub"), inside.join("parked")).unwrap();
                symlink("../elsewhere", inside.join("sub")).unwrap();
                fs::remove_file(inside.join("sub")).unwrap();
                fs::rename(inside.join("parked"), inside.join("sub")).unwrap();
            }
        });
        let mut read = 0;
        let mut tries = 0;
        while tries < 3_000 || (read == 0 && tries < 300_000) {
            tries += 1;
            if let Ok(bytes) = tensor_bytes(
                &external("sub/secret", 0, 32),
                &data(&root, &LoadOptions::default()),
            ) {
                assert_eq!(bytes, [7; 32][..]);
                read += 1;
            }
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(read > 0);
    });
}

fn model_with(tensors: Vec<TensorProto>) -> ModelProto {
    ModelProto {
        ir_version: Some(10),
        graph: Some(GraphProto {
            node: vec![NodeProto {
                op_type: Some("Add".into()),
                ..Default::default()
            }],
            initializer: tensors,
            ..Default::default()
        }),
        ..Default::default()
    }
}

#[test]
fn a_model_file_finds_its_tensors_beside_it() {
    let root = hostile_root();
    let path = root.path().join("model/model.onnx");
    let inner = super::raw(2, &[3], &[9, 8, 7]);
    fs::write(
        &path,
        model_with(vec![external("sub/w", 3, 4), inner]).encode_to_vec(),
    )
    .unwrap();
    let link = root.path().join("elsewhere/linked.onnx");
    symlink(&path, &link).unwrap();
    for options in both() {
        let loaded = read_model_file(&path, &options).unwrap();
        let tensors = loaded.model.graph.unwrap().initializer;
        assert_eq!(
            tensor_bytes(&tensors[0], &loaded.external).unwrap(),
            [103, 104, 105, 106][..]
        );
        let raw = tensor_bytes(&tensors[1], &loaded.external).unwrap();
        assert_eq!(raw, [9, 8, 7][..]);
        assert_eq!(raw.as_ptr(), tensors[1].raw_data.as_ref().unwrap().as_ptr());

        // The model itself may be a link; its folder is then the link's.
        let linked = read_model_file(&link, &options).unwrap();
        let tensors = linked.model.graph.unwrap().initializer;
        assert!(matches!(
            tensor_bytes(&tensors[0], &linked.external),
            Err(LoadError::External { .. })
        ));
        let based = read_model_file(
            &link,
            &options.with_external_base(root.path().join("model")),
        )
        .unwrap();
        assert!(tensor_bytes(&tensors[0], &based.external).is_ok());
    }
}

#[test]
fn a_mapped_model_is_shared_and_outlives_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    let wire = model_with(vec![super::raw(2, &[50_000], &[5; 50_000])]).encode_to_vec();
    fs::write(&path, &wire).unwrap();
    let loaded = read_model_file(&path, &LoadOptions::default()).unwrap();
    drop(folder);
    let graph = loaded.model.graph.unwrap();
    assert_eq!(
        tensor_bytes(&graph.initializer[0], &loaded.external).unwrap(),
        [5; 50_000][..]
    );
}

#[test]
fn models_from_bytes_have_no_folder() {
    let root = hostile_root();
    let wire = Bytes::from(model_with(vec![external("w", 1, 2)]).encode_to_vec());
    let loaded = decode_model(wire.clone(), &LoadOptions::default()).unwrap();
    let tensors = loaded.model.graph.unwrap().initializer;
    let error = tensor_bytes(&tensors[0], &loaded.external).unwrap_err();
    assert!(matches!(error, LoadError::NoBaseFolder { .. }), "{error}");
    assert_eq!(loaded.external.folder(), None);
    let options = LoadOptions::default().with_external_base(root.path().join("model"));
    let loaded = decode_model(wire, &options).unwrap();
    assert_eq!(
        tensor_bytes(&tensors[0], &loaded.external).unwrap(),
        [1, 2][..]
    );
    let options = LoadOptions::default().with_external_base(root.path().join("absent"));
    let absent = decode_model(Bytes::from_static(b"\x3A\x00"), &options).unwrap();
    let error = tensor_bytes(&tensors[0], &absent.external).unwrap_err();
    assert!(matches!(error, LoadError::Open { .. }), "{error}");
}

#[test]
fn what_is_no_model_is_refused() {
    let root = hostile_root();
    let inside = root.path().join("model");
    for options in both() {
        for (name, is_expected) in [
            (
                "absent",
                (|e| matches!(e, LoadError::Open { .. })) as fn(&LoadError) -> bool,
            ),
            ("sub", |e| matches!(e, LoadError::NotRegular { .. })),
            ("pipe", |e| matches!(e, LoadError::NotRegular { .. })),
            ("empty", |e| matches!(e, LoadError::NoGraph { size: 0 })),
            ("w", |e| matches!(e, LoadError::Decode { .. })),
        ] {
            let error = read_model_file(&inside.join(name), &options).unwrap_err();
            assert!(is_expected(&error), "{name}: {error}");
        }
        let small = options.with_max_file_bytes(10);
        assert!(matches!(
            read_model_file(&inside.join("w"), &small),
            Err(LoadError::TooLarge { .. })
        ));
    }
    assert!(matches!(
        read_model_file(Path::new("a\0b"), &LoadOptions::default()),
        Err(LoadError::Open { .. })
    ));
}

#[test]
fn a_small_file_cannot_ask_for_a_large_structure() {
    // A graph of 50,000 empty nodes: 100,004 bytes that would take twelve million and more.
    let wire = Bytes::from([&[0x3A, 0xA0, 0x8D, 0x06][..], &[0x0A, 0].repeat(50_000)].concat());
    let options = LoadOptions::default().with_max_structure_bytes(10_000_000);
    let error = decode_model(wire.clone(), &options).unwrap_err();
    assert!(
        matches!(
            error,
            LoadError::Structure {
                size: 100_004,
                limit: 10_000_000
            }
        ),
        "{error}"
    );
    let loaded = decode_model(wire, &LoadOptions::default()).unwrap();
    assert_eq!(loaded.model.graph.unwrap().node.len(), 50_000);
}

/// A sparse file, so that the test needs no space: the model's structure at the front, a payload beyond 2 GiB.
#[test]
fn files_over_two_gibibytes_load() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    let payload: usize = (1 << 31) + 4099;
    let push_key = |out: &mut Vec<u8>, field: u8, mut length: usize| {
        out.push(field << 3 | 2);
        while length >= 0x80 {
            out.push(length as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
    };
    let front = TensorProto {
        data_type: Some(2),
        dims: vec![payload as i64],
        ..Default::default()
    }
    .encode_to_vec();
    let mut raw_key = Vec::new();
    push_key(&mut raw_key, 9, payload);
    let tensor = front.len() + raw_key.len() + payload;
    let mut tensor_key = Vec::new();
    push_key(&mut tensor_key, 5, tensor);
    let mut wire = Vec::new();
    push_key(&mut wire, 7, tensor_key.len() + tensor);
    wire.extend([tensor_key, front, raw_key].concat());
    let start = wire.len();
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(&wire).unwrap();
    file.set_len((start + payload) as u64).unwrap();
    std::os::unix::fs::FileExt::write_at(&file, b"end", (start + payload - 3) as u64).unwrap();
    drop(file);
    let loaded = read_model_file(&path, &LoadOptions::default()).unwrap();
    let graph = loaded.model.graph.unwrap();
    let bytes = tensor_bytes(&graph.initializer[0], &loaded.external).unwrap();
    assert_eq!(bytes.len(), payload);
    assert_eq!(bytes[payload - 3..], *b"end");
    assert_eq!(bytes[0], 0);
}
