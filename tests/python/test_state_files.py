"""`save` and `load`: every kind of value comes back, damage is found, and a killed writer leaves a whole file."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import graphs
import numpy as np
import pytest
import refeed
import structured
from onnx import TensorProto, helper
from refeed import runtime

Array = graphs.Array
B, H, D = 2, 3, 5


def rows(count: int, first: int = 0) -> Array:
    return np.arange(first, first + B * H * count * D, dtype=np.float32).reshape(B, H, count, D)


def concat_state(length: int = 4) -> runtime.PersistentValueState:
    model, _ = refeed.bind(graphs.concat(B, H, D), [("past", "present")])
    state = runtime.PersistentValueState(model, {"past": rows(0)})
    state.run({"new": rows(length)})
    return state


def past(state: runtime.PersistentValueState) -> Array:
    return np.asarray(state.values["past"])


def test_a_strided_cache_comes_back(tmp_path: pathlib.Path) -> None:
    state = concat_state()
    assert not past(state).flags.c_contiguous
    state.save(tmp_path / "a.state")
    state.run({"new": rows(2, 800)})
    longer = past(state)
    state.load(tmp_path / "a.state")
    assert np.array_equal(past(state), rows(4))
    state.run({"new": rows(2, 800)})
    assert np.array_equal(past(state), longer)
    other = concat_state(1)
    other.load(str(tmp_path / "a.state"))
    assert np.array_equal(past(other), rows(4))
    assert list(tmp_path.iterdir()) == [tmp_path / "a.state"]


def identity(elements: int) -> refeed.Model:
    node = helper.make_node("Identity", ["new"], ["present"])
    sink = helper.make_node("Shape", ["past"], ["shape"])
    proto = graphs.model(
        [node, sink],
        [graphs.info("new", elements, ["n", 3]), graphs.info("past", elements, ["p", 3])],
        [graphs.info("present", elements, ["q", 3]), graphs.info("shape", TensorProto.INT64, [2])],
    )
    return refeed.bind(proto, [("past", "present")])[0]


INTEGERS = [f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
WIDTHS = ["FLOAT", "DOUBLE", "FLOAT16", "BOOL", *INTEGERS]


@pytest.mark.parametrize("name", WIDTHS)
def test_tensors_of_every_type_numpy_has(name: str, tmp_path: pathlib.Path) -> None:
    elements = TensorProto.DataType.Value(name)
    dtype = helper.tensor_dtype_to_np_dtype(elements)
    value = (np.arange(12).reshape(4, 3) % 2 if name == "BOOL" else np.arange(12).reshape(4, 3)).astype(dtype)
    model = identity(elements)
    runtime.PersistentValueState(model, {"past": value}).save(tmp_path / "a.state")
    state = runtime.PersistentValueState.from_file(model, tmp_path / "a.state")
    back = np.asarray(state.values["past"])
    assert back.dtype == dtype
    assert np.array_equal(back, value)
    empty = value[:0].copy()
    state.reset({"past": empty})
    state.save(tmp_path / "a.state")
    state.load(tmp_path / "a.state")
    assert np.asarray(state.values["past"]).shape == (0, 3)


def test_what_was_published_once_stays_published(tmp_path: pathlib.Path) -> None:
    node = helper.make_node("Add", ["fixed", "delta"], ["fixed_out"])
    vector: graphs.Shape = [2]
    proto = graphs.model(
        [node],
        [graphs.info(name, graphs.FLOAT, vector) for name in ("delta", "fixed")],
        [graphs.info("fixed_out", graphs.FLOAT, vector)],
    )
    model, _ = refeed.bind(proto, [("fixed", "fixed_out")], publish="once")
    one = np.ones(2, np.float32)
    state = runtime.PersistentValueState(model, {"fixed": one * 0})
    state.save(tmp_path / "before")
    state.run({"delta": one})
    state.save(tmp_path / "after")
    for name, expected in (("after", 1), ("before", 7)):
        resumed = runtime.PersistentValueState.from_file(model, tmp_path / name)
        resumed.run({"delta": one * 7})
        assert float(np.asarray(resumed.values["fixed"])[0]) == expected


def small(tmp_path: pathlib.Path) -> tuple[runtime.PersistentValueState, bytes]:
    model, _ = refeed.bind(graphs.accumulate(), [("past", "present")])
    state = runtime.PersistentValueState(model, {"past": np.array([3, 4], np.float32)})
    state.save(tmp_path / "whole")
    return state, (tmp_path / "whole").read_bytes()


def refused(state: runtime.PersistentValueState, data: bytes, path: pathlib.Path) -> str:
    path.write_bytes(data)
    before = graphs.address(past(state))
    with pytest.raises(refeed.StateFileError) as caught:
        state.load(path)
    assert graphs.address(past(state)) == before
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_a_file_cut_off_anywhere_is_refused(tmp_path: pathlib.Path) -> None:
    state, data = small(tmp_path)
    for length in range(len(data)):
        refused(state, data[:length], tmp_path / "cut")
    refused(state, data + b"\0", tmp_path / "cut")
    state.load(tmp_path / "whole")


def test_every_flipped_bit_is_found(tmp_path: pathlib.Path) -> None:
    state, data = small(tmp_path)
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        refused(state, bytes(damaged), tmp_path / "flipped")


def test_the_message_says_what_is_wrong(tmp_path: pathlib.Path) -> None:
    state, data = small(tmp_path)
    path = tmp_path / "a"
    assert "expected a state file" in refused(state, b"\x89PNG1234" + data[8:], path)
    assert "expected version 2 of the format, got 1" in refused(state, data[:8] + b"\1\0\0\0" + data[12:], path)
    assert "damaged: expected checksum" in refused(state, data[:-1] + bytes([data[-1] ^ 1]), path)
    assert "bytes" in refused(state, b"", path)


def test_numbers_of_the_file_are_not_believed(tmp_path: pathlib.Path) -> None:
    """Each 8-byte number is made huge: no memory is asked for, and nothing loops."""
    state, data = small(tmp_path)
    for at in range(12, len(data) - 8):
        for number in (2**63 - 1, 2**64 - 1, 2**40):
            refused(state, data[:at] + number.to_bytes(8, "little") + data[at + 8 :], tmp_path / "huge")


def test_values_of_another_model_are_refused_with_both_sides(tmp_path: pathlib.Path) -> None:
    state, _ = small(tmp_path)
    other = concat_state()
    with pytest.raises(refeed.StateFileError, match=r"the file has `past` FLOAT\[2\].*the model has `past` FLOAT\[2,"):
        other.load(tmp_path / "whole")
    assert np.array_equal(past(other), rows(4))
    with pytest.raises(refeed.StateFileError, match="another model"):
        runtime.PersistentValueState.from_file(other.model, tmp_path / "whole")
    with pytest.raises(refeed.ModelError, match="binds no input"):
        runtime.PersistentValueState.from_file(graphs.accumulate(), tmp_path / "whole")
    state.close()
    for attempt in (state.save, state.load):
        with pytest.raises(refeed.StateClosedError):
            attempt(tmp_path / "whole")


def test_values_of_a_model_with_other_weights_are_refused(tmp_path: pathlib.Path) -> None:
    def state(weight: list[float], name: str = "w") -> runtime.PersistentValueState:
        tensor = helper.make_tensor(name, graphs.FLOAT, [2], weight)
        proto = graphs.model(
            [helper.make_node("Mul", ["past", name], ["present"])],
            [graphs.info("past", graphs.FLOAT, [2])],
            [graphs.info("present", graphs.FLOAT, [2])],
            initializers=[tensor],
        )
        model, _ = refeed.bind(proto, [("past", "present")])
        return runtime.PersistentValueState(model, {"past": np.ones(2, np.float32)})

    def coded(codes: list[int]) -> runtime.PersistentValueState:
        keep = structured.keep(structured.tensor([2]), encoded_initializer=[structured.affine(codes, [2], name="c")])
        return structured.state(keep, {"past": np.ones(2, np.float32)})

    for first, same, others in (
        (state([2, 3]), state([2, 3]), [state([2, 4]), state([2, 3], "v")]),
        (coded([1, 2]), coded([1, 2]), [coded([1, 3])]),
    ):
        first.save(tmp_path / "a.state")
        same.load(tmp_path / "a.state")
        for other in others:
            with pytest.raises(refeed.StateFileError, match="of a model with other weights"):
                other.load(tmp_path / "a.state")
            assert np.asarray(other.values["past"]).tolist() == [1, 1]


def test_files_that_cannot_be_opened_or_made(tmp_path: pathlib.Path) -> None:
    state, data = small(tmp_path)
    with pytest.raises(FileNotFoundError):
        state.load(tmp_path / "none")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(OSError, match="expected a regular file"):
            state.load(path)
    with pytest.raises(OSError, match="regular file"):
        state.save(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError):
        state.save(tmp_path)
    with pytest.raises(FileNotFoundError):
        state.save(tmp_path / "none" / "a")
    with pytest.raises(TypeError):
        state.save(3)  # type: ignore[arg-type]
    assert (tmp_path / "whole").read_bytes() == data


def test_a_name_may_be_as_long_as_the_file_system_lets_it_be(tmp_path: pathlib.Path) -> None:
    state, data = small(tmp_path)
    for name in ("a" * 255, "ä" * 127):
        state.save(tmp_path / name)
        assert (tmp_path / name).read_bytes() == data
    with pytest.raises(OSError, match="name too long"):
        state.save(tmp_path / ("a" * 256))


def test_the_values_are_those_of_the_moment_of_the_call(tmp_path: pathlib.Path) -> None:
    """The file is written from handles: calls meanwhile neither wait nor show."""
    model, _ = refeed.bind(graphs.concat(B, 64, 64), [("past", "present")])
    big = np.zeros((B, 64, 500, 64), np.float32)
    state = runtime.PersistentValueState(model, {"past": big})

    def save() -> None:
        while True:
            try:
                return state.save(tmp_path / "big")
            except refeed.StateBusyError:
                continue

    thread = threading.Thread(target=save)
    thread.start()
    new = np.ones((B, 64, 1, 64), np.float32)
    ran = 0
    while thread.is_alive():
        try:
            state.run({"new": new})
            ran += 1
        except refeed.StateBusyError:
            continue
    thread.join()
    back = runtime.PersistentValueState.from_file(model, tmp_path / "big")
    length = past(back).shape[2]
    assert 500 <= length <= 500 + ran
    assert not past(back)[:, :, :500].any()
    assert (past(back)[:, :, 500:] == 1).all()


WRITER = """
import sys
import graphs, numpy as np, refeed
from refeed import runtime
model, _ = refeed.bind(graphs.concat(2, 8, 64), [("past", "present")])
number = 0
while True:
    number += 1
    state = runtime.PersistentValueState(model, {"past": np.full((2, 8, 400 + number % 7, 64), number, np.float32)})
    state.save(sys.argv[1])
    if number == 1:
        print("first", flush=True)
"""


def test_a_killed_writer_leaves_a_whole_file(tmp_path: pathlib.Path) -> None:
    """REFEED_KILLS children are killed at random moments while they save in a loop (200 by `make kills`)."""
    kills = int(os.environ.get("REFEED_KILLS", "10"))
    model, _ = refeed.bind(graphs.concat(2, 8, 64), [("past", "present")])
    path = tmp_path / "a.state"
    draw = np.random.default_rng(5)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    seen = set()
    for _ in range(kills):
        child = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-c", WRITER, str(path)], env=environment, stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"first\n"
        time.sleep(draw.random() * 0.05)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        value = past(runtime.PersistentValueState.from_file(model, path))
        number = int(value.flat[0])
        assert value.shape == (2, 8, 400 + number % 7, 64)
        assert (value == number).all()
        seen.add(number)
    assert seen
    assert kills < 10 or len(seen) > 1


def decode(
    state: runtime.PersistentValueState, tokens: list[int], position: int, count: int
) -> tuple[list[int], list[Array]]:
    """Greedy tokens and their logits, feeding what the decoder asks for besides its caches."""
    names = {info.name for info in state.model.inputs}
    out, logits = [], []
    for _ in range(count):
        new = np.array([tokens], np.int64)
        feeds: dict[str, Any] = {"input_ids": new}
        if "attention_mask" in names:
            feeds["attention_mask"] = np.ones((1, position + len(tokens)), np.int64)
        if "position_ids" in names:
            feeds["position_ids"] = np.arange(position, position + len(tokens), dtype=np.int64)[None]
        outputs = state.run(feeds)
        position += len(tokens)
        logits.append(np.asarray(outputs["logits"])[0, -1].copy())
        tokens = [int(logits[-1].argmax())]
        out += tokens
    return out, logits


def llama(folder: pathlib.Path) -> tuple[refeed.Model, dict[str, Array]]:
    model, report = refeed.bind(folder / "model.onnx", patterns="known", uses="any")
    empty = {}
    for pair in report.pairs:
        info = next(info for info in model.inputs if info.name == pair.input)
        shape = [extent if isinstance(extent, int) else int(axis == 0) for axis, extent in enumerate(info.shape or ())]
        empty[pair.input] = np.zeros(shape, np.float32)
    return model, empty


@pytest.mark.filterwarnings("ignore::refeed.SymbolWarning")
def test_a_decoder_goes_on_in_another_process(cases: pathlib.Path, tmp_path: pathlib.Path) -> None:
    model, empty = llama(cases / "dynamo18_llama")
    state = runtime.PersistentValueState(model, empty)
    prompt = [1, 17, 42, 5]
    first, _ = decode(state, prompt, 0, 3)
    state.save(tmp_path / "a.state")
    position = len(prompt) + 2
    expected, logits = decode(state, first[-1:], position, 8)
    program = (
        "import sys, pathlib, numpy as np\n"
        "from test_state_files import decode, llama\n"
        "from refeed import runtime\n"
        "model, _ = llama(pathlib.Path(sys.argv[1]))\n"
        "state = runtime.PersistentValueState.from_file(model, sys.argv[2])\n"
        "tokens, logits = decode(state, [int(sys.argv[3])], int(sys.argv[4]), 8)\n"
        "np.savez(sys.argv[5], tokens=tokens, logits=logits)\n"
    )
    arguments = [str(cases / "dynamo18_llama"), str(tmp_path / "a.state"), str(first[-1]), str(position)]
    here = str(pathlib.Path(__file__).parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, *filter(None, sys.path)])}
    subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-W", "ignore", "-c", program, *arguments, str(tmp_path / "out.npz")],
        env=environment,
        check=True,
    )
    resumed = np.load(tmp_path / "out.npz")
    assert list(resumed["tokens"]) == expected
    assert np.array_equal(resumed["logits"], np.array(logits))
