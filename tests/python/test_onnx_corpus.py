"""Every node-test model and every real model: `onnx` reads what we write as the same message, and the reverse."""

import pathlib

import onnx
import refeed.onnx
from node_models import node_models


def test_there_are_1884_node_models() -> None:
    assert len(node_models()) == 1884
    assert len(dict(node_models())) == 1884


def test_node_models_survive_both_ways() -> None:
    for name, wire in node_models():
        official = onnx.ModelProto.FromString(wire)
        canonical = official.SerializeToString(deterministic=True)
        ours = refeed.onnx.ModelProto.FromString(wire)
        written = ours.SerializeToString()
        assert written == canonical, name
        assert onnx.ModelProto.FromString(written) == official, name
        assert refeed.onnx.ModelProto.FromString(written) == ours, name
        assert ours.ByteSize() == len(written), name


def test_real_models_survive_both_ways(cases: pathlib.Path) -> None:
    paths = sorted(cases.rglob("*.onnx"))
    assert len(paths) >= 16
    for path in paths:
        wire = path.read_bytes()
        canonical = onnx.ModelProto.FromString(wire).SerializeToString(deterministic=True)
        ours = refeed.onnx.ModelProto.FromString(wire)
        assert ours.SerializeToString() == canonical, path
        assert str(ours) == str(onnx.ModelProto.FromString(wire)), path


def test_text_forms_agree() -> None:
    for name, wire in node_models()[::7]:
        official = onnx.ModelProto.FromString(wire)
        assert str(refeed.onnx.ModelProto.FromString(wire)) == str(official), name
