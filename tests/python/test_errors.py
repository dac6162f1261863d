"""Which exception says what."""

import inspect
import os
import pathlib
import pickle
from collections.abc import Callable
from typing import Any

import graphs
import numpy as np
import onnx
import pytest
import refeed
from onnx import TensorProto, helper
from refeed import errors, runtime

ONES = np.ones(2, np.float32)
ZEROS = np.zeros(2, np.float32)
MakeState = Callable[..., runtime.PersistentValueState]


def test_the_tree() -> None:
    bases = {
        name: {base.__name__ for base in getattr(errors, name).__mro__}
        for name in errors.__all__
        if issubclass(getattr(errors, name), Exception) and not issubclass(getattr(errors, name), Warning)
    }
    assert all("Error" in names for names in bases.values())
    assert {name for name, names in bases.items() if "ValueError" in names} == {
        "CancelledError",
        "CompletionError",
        "DecodeError",
        "EncodeError",
        "InferenceError",
        "KernelValueError",
        "ModelError",
        "ParseError",
        "PrintError",
        "ValidationError",
        "ValueTypeError",
        "StateBusyError",
        "StateClosedError",
        "StateFileError",
    }
    assert {name for name, names in bases.items() if "RuntimeError" in names} == {
        "CancelledError",
        "CompletionError",
        "DuplicateValueError",
        "KernelError",
        "KernelValueError",
        "StateBusyError",
        "StateClosedError",
    }
    assert issubclass(refeed.MissingValueError, IndexError)
    assert issubclass(refeed.InternalError, Exception)
    for name in errors.__all__:
        assert getattr(refeed, name) is getattr(errors, name)
        assert inspect.getdoc(getattr(errors, name))


def test_exceptions_survive_pickling() -> None:
    error = refeed.KernelError("text", node="n", op_type="Add")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (str(again), again.node, again.op_type) == ("text", "n", "Add")


# Wrong on purpose, so nothing checks their types.
VALUE = refeed.ValueTypeError
Attempt = Callable[[Any, Any], Any]
State: Any = runtime.PersistentValueState
load: Any = refeed.load
bind: Any = refeed.bind
Options: Any = runtime.RuntimeSessionOptions

STATE_ERRORS: dict[str, tuple[Attempt, type[Exception], str]] = {
    "unknown feed": (lambda s, _: s.run({"delta": ONES, "dleta": ONES}), VALUE, "unknown graph input `dleta`"),
    "override": (lambda s, _: s.run({"delta": ONES, "past": ONES}), VALUE, "override retained input `past`"),
    "missing feed": (lambda s, _: s.run({}), VALUE, "missing current input `delta`"),
    "missing initial": (
        lambda _, m: State(m, {}),
        VALUE,
        "missing initial whole input `past`",
    ),
    "extra initial": (
        lambda _, m: State(m, {"past": ZEROS, "delta": ZEROS}),
        VALUE,
        "must name exactly the retained whole inputs",
    ),
    "reset missing": (lambda s, _: s.reset({}), VALUE, "missing initial whole input `past`"),
    "reset unknown": (lambda s, _: s.reset({"x": ZEROS}), VALUE, "exactly the retained"),
    "dtype": (lambda s, _: s.run({"delta": np.ones(2, np.int64)}), VALUE, "dtype mismatch.*FLOAT.*INT64"),
    "rank": (lambda s, _: s.run({"delta": np.ones((1, 2), np.float32)}), VALUE, "rank mismatch"),
    "shape": (lambda s, _: s.run({"delta": np.ones(3, np.float32)}), VALUE, "shape mismatch"),
    "no bindings": (
        lambda _s, _m: State(graphs.accumulate(), {}),
        refeed.ModelError,
        "missing graph persistence",
    ),
    "feeds is a list": (lambda s, _: s.run([ONES]), TypeError, "expected a dict"),
    "feeds is missing": (lambda s, _: s.run(), TypeError, "feeds"),
    "feeds is None": (lambda s, _: s.run(runtime.RuntimeContext()), TypeError, "feeds"),
    "context is not one": (lambda s, _: s.run("context", {"delta": ONES}), TypeError, "RuntimeContext"),
    "key is not a name": (lambda s, _: s.run({1: ONES}), TypeError, "names as keys"),
    "model is none": (lambda _s, _m: load(7), TypeError, "expected a path"),
    "unknown keyword": (lambda _, m: State(m, {}, nonsense=1), TypeError, "nonsense"),
    "options and keywords": (
        lambda _, m: State(m, {"past": ZEROS}, Options(), max_length=3),
        TypeError,
        "got both",
    ),
}


@pytest.mark.parametrize("name", sorted(STATE_ERRORS))
def test_wrong_calls_leave_the_state_as_it_was(name: str, make_state: MakeState, accumulate: refeed.Model) -> None:
    attempt, kind, text = STATE_ERRORS[name]
    state = make_state()
    before = state.run({"delta": ONES})["present"]
    with pytest.raises(kind, match=text):
        attempt(state, accumulate)
    assert graphs.address(state.values["past"].numpy()) == graphs.address(before.numpy())
    assert state.run({"delta": ONES})["present"].numpy().tolist() == [2, 2]


def _failing() -> tuple[refeed.Model, dict[str, Any]]:
    """A model whose node `pick` fails on an index that is out of range."""
    nodes = [
        helper.make_node("Gather", ["data", "index"], ["picked"], name="pick"),
        helper.make_node("Add", ["past", "picked"], ["present"]),
    ]
    proto = graphs.model(
        nodes,
        [
            graphs.info("data", graphs.FLOAT, [4]),
            graphs.info("index", TensorProto.INT64, []),
            graphs.info("past", graphs.FLOAT, []),
        ],
        [graphs.info("present", graphs.FLOAT, [])],
    )
    model, _ = refeed.bind(proto, [("past", "present")])
    return model, {"data": np.arange(4, dtype=np.float32), "index": np.array(2)}


def test_a_failing_node_is_named_and_nothing_is_published() -> None:
    """Rule 4.2.6; S094."""
    model, feeds = _failing()
    state = runtime.PersistentValueState(model, {"past": np.array(0, np.float32)})
    assert float(state.run(feeds)["present"].numpy()) == 2
    with pytest.raises(refeed.KernelError, match="node 0 `pick` \\(Gather\\)") as caught:
        state.run({**feeds, "index": np.array(4)})
    assert (caught.value.node, caught.value.op_type) == ("pick", "Gather")
    assert isinstance(caught.value, RuntimeError)
    assert float(state.values["past"].numpy()) == 2
    assert float(state.run(feeds)["present"].numpy()) == 4


def test_memory_limits_are_memory_errors() -> None:
    model, _ = refeed.bind(graphs.concat(2, 4, 48), [("past", "present")])
    empty = np.zeros((2, 4, 0, 48), np.float32)
    state = runtime.PersistentValueState(model, {"past": empty}, memory_limit=1000)
    with pytest.raises(MemoryError, match="budget"):
        state.run({"new": np.ones((2, 4, 1, 48), np.float32)})
    assert state.values["past"].shape == (2, 4, 0, 48)


def test_models_that_refeed_cannot_compute() -> None:
    node = helper.make_node("NoSuchOperator", ["x"], ["y"], name="odd")
    proto = graphs.model([node], [graphs.info("x", graphs.FLOAT, [2])], [graphs.info("y", graphs.FLOAT, [2])])
    model = refeed.load(proto)
    assert [use.op_type for use in model.operators if use.problems] == ["NoSuchOperator"]
    with pytest.raises(refeed.ModelError, match=r"odd.*NoSuchOperator.*no kernel"):
        runtime.RuntimeSession(model)


@pytest.mark.parametrize("wire", [b"", b"\x00", b"not a model at all", bytes(100)], ids=repr)
def test_bytes_that_are_no_model(wire: bytes) -> None:
    with pytest.raises(refeed.ModelError):
        refeed.load(wire)


def test_files_that_cannot_be_read(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.onnx"):
        refeed.load(tmp_path / "missing.onnx")
    with pytest.raises(refeed.ModelError, match="regular file"):
        refeed.load(tmp_path)
    secret = tmp_path / "secret.onnx"
    secret.write_bytes(graphs.accumulate().SerializeToString())
    secret.chmod(0)
    if os.geteuid() != 0:
        with pytest.raises(PermissionError):
            refeed.load(secret)
    secret.chmod(0o600)
    with pytest.raises(FileNotFoundError):
        refeed.load(secret).save(tmp_path / "no" / "such" / "folder.onnx")


def test_missing_external_data_is_a_missing_file(tmp_path: pathlib.Path) -> None:
    proto = graphs.accumulate()
    weight = onnx.numpy_helper.from_array(np.ones(2, np.float32), "delta")
    proto.graph.initializer.append(weight)
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert refeed.load(path).run({"past": ONES})["present"].numpy().tolist() == [2, 2]
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"weights\.bin"):
        refeed.load(path)


def test_bind_refuses_what_is_ambiguous_or_unknown() -> None:
    proto = graphs.accumulate()
    texts: tuple[tuple[dict[str, Any], str], ...] = (
        ({"pairs": [("past", "presen")]}, "no output"),
        ({"pairs": [("pas", "present")]}, "no input"),
        ({"patterns": "x.{i} -> y.{i}"}, "matches no pair"),
        ({"patterns": "nonsense"}, "unknown naming scheme"),
        ({"pairs": [("past", "present"), ("delta", "present")]}, "ambiguous"),
    )
    for keywords, text in texts:
        with pytest.raises(refeed.ModelError, match=text):
            bind(proto, **keywords)
    kinds: tuple[tuple[dict[str, Any], type[Exception]], ...] = (
        ({"pairs": "past"}, TypeError),
        ({"pairs": [("past",)]}, TypeError),
        ({"pairs": [("past", 3)]}, TypeError),
        ({"pairs": 3}, TypeError),
        ({"pairs": [("past", "present")], "uses": "two"}, refeed.ValueTypeError),
        ({"pairs": [("past", "present")], "uses": 2}, TypeError),
        ({"pairs": [("past", "present")], "publish": "never"}, VALUE),
    )
    for keywords, kind in kinds:
        with pytest.raises(kind):
            bind(proto, **keywords)


def test_the_single_use_rule() -> None:
    """Rule 3.4.7; S012."""
    nodes = [helper.make_node("Add", ["past", "past"], ["present"])]
    proto = graphs.model(nodes, [graphs.info("past", graphs.FLOAT, [2])], [graphs.info("present", graphs.FLOAT, [2])])
    with pytest.raises(refeed.ModelError, match="exactly once, got 2"):
        refeed.bind(proto, [("past", "present")])
    model, _ = refeed.bind(proto, [("past", "present")], uses="any")
    with pytest.raises(refeed.ModelError, match="exactly once"):
        runtime.PersistentValueState(model, {"past": ONES}, binding_uses="one")
    state = runtime.PersistentValueState(model, {"past": ONES})
    assert state.run({})["present"].numpy().tolist() == [2, 2]
    declared = refeed.onnx.ModelProto()
    declared.ParseFromString(proto.SerializeToString())
    declared.graph.persistent_bindings.add(input_name="past", output_name="present")
    places: list[Callable[[], Any]] = [
        lambda: refeed.onnx.verify.verify_model(declared),
        lambda: runtime.RuntimeSession(declared),
        lambda: runtime.PersistentValueState(declared, {"past": ONES}),
    ]
    for place in places:
        with pytest.raises(refeed.ModelError, match="`past` must be used exactly once, got 2"):
            place()


NUMBERS = ["persistent_tensor_initial_capacity", "max_length", "memory_limit"]


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_options(name: str) -> None:
    """Rule 5.2.10; S155."""
    options = Options()
    right: tuple[Any, ...] = (0, 5, np.int32(7), 2**64 - 1)
    for value in right:
        setattr(options, name, value)
        assert getattr(options, name) == value
        assert getattr(Options(**{name: value}), name) == value
    wrong: tuple[tuple[Any, type[Exception]], ...] = (
        (-1, OverflowError),
        (2**64, OverflowError),
        (1.5, TypeError),
        (True, TypeError),
        ("3", TypeError),
    )
    for value, kind in wrong:
        with pytest.raises(kind, match=name):
            setattr(options, name, value)
        with pytest.raises(kind, match=name):
            Options(**{name: value})
        assert getattr(options, name) == 2**64 - 1
    if name == "persistent_tensor_initial_capacity":
        with pytest.raises(TypeError):
            options.persistent_tensor_initial_capacity = None
    else:
        setattr(options, name, None)
        assert getattr(options, name) is None


def test_other_options() -> None:
    """Rule 5.2.10; S150."""
    options = Options()
    assert options.persistent_tensor_initial_capacity == 32
    assert (options.append_reuse, options.binding_uses, options.check_shapes) == ("always", None, False)
    options.append_reuse = "exclusive"
    options.binding_uses = "any"
    options.check_shapes = True
    assert (options.append_reuse, options.binding_uses, options.check_shapes) == ("exclusive", "any", True)
    assert options == Options(append_reuse="exclusive", binding_uses="any", check_shapes=True)
    assert "exclusive" in repr(options)
    for keywords in ({"append_reuse": "never"}, {"binding_uses": "two"}):
        with pytest.raises(refeed.ValueTypeError, match=next(iter(keywords))):
            Options(**keywords)
    for numbers in ({"append_reuse": 1}, {"check_shapes": 1}, {"nonsense": 1}):
        with pytest.raises(TypeError):
            Options(**numbers)
    with pytest.raises(TypeError):
        Options(4)


def test_contexts_accept_only_what_works() -> None:
    with pytest.raises(TypeError):
        runtime.RuntimeContext(release=None)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        runtime.RuntimeContext(verbose="x")  # type: ignore[arg-type]
    with pytest.raises(refeed.ValueTypeError, match="verbose"):
        runtime.RuntimeContext(verbose=1)
    context_options: Any = runtime.RuntimeContextOptions
    cases: list[tuple[str, Any, type[Exception]]] = [
        ("events_enabled", 1, TypeError),
        ("release_intermediates", "yes", TypeError),
        ("device", "cuda", refeed.ValueTypeError),
        ("device", -1, TypeError),
        ("allocator", "arena", TypeError),
        ("verbose", 2, refeed.ValueTypeError),
    ]
    for name, wrong, error in cases:
        keywords: dict[str, Any] = {name: wrong}
        with pytest.raises(error, match=name if error is not TypeError else None):
            runtime.RuntimeContext(**keywords)
        with pytest.raises(error):
            context_options(**keywords)
        with pytest.raises(error):
            setattr(context_options(), name, wrong)
    with pytest.raises(TypeError, match="got both"):
        runtime.RuntimeContext(None, runtime.RuntimeContextOptions(), events_enabled=True)
    with pytest.raises(TypeError):
        context_options(True)
    context = runtime.RuntimeContext(runtime.KernelContext(runtime.OpsetId("", 18)), events_enabled=True)
    assert context.kernel_ctx.opset == runtime.default_opset(18)
    assert context.events_enabled


def test_stateless_sessions_check_feeds_and_outputs() -> None:
    session = runtime.RuntimeSession(graphs.accumulate())
    with pytest.raises(refeed.ValueTypeError, match="missing current input `past`: the model binds no input"):
        session.run({"delta": ONES})
    with pytest.raises(refeed.ValueTypeError, match="unknown graph input"):
        session.run({"delta": ONES, "past": ONES, "more": ONES})
    lying = graphs.accumulate()
    lying.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 3
    feeds = {"delta": ONES, "past": ONES}
    assert runtime.RuntimeSession(lying).run(feeds)["present"].shape == (2,)
    with pytest.raises(refeed.ValueTypeError, match="output `present`"):
        runtime.RuntimeSession(lying, check_shapes=True).run(feeds)
