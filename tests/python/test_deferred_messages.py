"""Caches that steps hand out: messages that are made when they are looked at, of the value as it was."""

import copy
import gc
import pickle
import threading
from typing import Any

import numpy as np
import pytest
import refeed
from refeed import onnx
from refeed.onnx import PagedCacheProto, TensorProto, helper, numpy_helper
from refeed.runtime import PageFormat, RuntimeContext, register_paged_attention

HEADS, WIDTH = 2, 8


def model() -> Any:
    cache = onnx.TypeProto(struct_type=onnx.StructTypeProto())
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, HEADS, "l", WIDTH]) for name in "QKVY"]
    past, present = (helper.make_value_info(name, cache) for name in ("past", "present"))
    node = helper.make_node("PagedAttention", ["Q", "K", "V", "past"], ["Y", "present"], domain="ai.rt", block_size=4)
    graph = helper.make_graph([node], "g", [*tensors[:3], past], [tensors[3], present])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.rt", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    made.graph.persistent_bindings.add(input_name="past", output_name="present")
    return made


def feeds(seed: int, length: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(-1, 1, (1, HEADS, length, WIDTH)).astype(np.float32) for name in "QKV"}


FORMATS = {
    "FLOAT": None,
    "FLOAT16": lambda *_: PageFormat(TensorProto.FLOAT16),
    "codes": lambda *_: (PageFormat(TensorProto.INT8, 1 / 64), PageFormat(TensorProto.UINT4, 0.25, 8)),
}


def _filled(fill: Any, message: Any) -> PagedCacheProto:
    """Return a new message that `fill` has filled from another."""
    made = PagedCacheProto()
    fill(made, message)
    return made


class Decoder:
    """A state with its context and kernel."""

    def __init__(self, selector: Any = None, partial_blocks: Any = "sealed", past: Any = None) -> None:
        self.context = RuntimeContext()
        more = {"format_selector": selector, "partial_blocks": partial_blocks}
        self.kernel: Any = register_paged_attention(self.context, **more)
        past = PagedCacheProto() if past is None else past
        self.state = refeed.PersistentValueState(model(), {"past": past}, context=self.context)

    def step(self, seed: int, length: int = 1) -> dict[str, Any]:
        return self.state.run(self.context, feeds(seed, length))


@pytest.mark.parametrize("selector", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("policy", ["sealed", "fill"])
def test_a_message_is_what_the_cache_was_when_it_was_handed_out(selector: Any, policy: Any) -> None:
    """One that is looked at at once and one that is looked at after all steps are the same."""
    late, early = Decoder(selector, policy), Decoder(selector, policy)
    held, looked = [], []
    for seed in range(9):
        held.append(late.step(seed)["present"])
        message = early.step(seed)["present"]
        looked.append(message.SerializeToString())
    assert [type(message) for message in held] == [PagedCacheProto] * 9
    assert [message.SerializeToString() for message in held] == looked
    for seed, message in enumerate(held):
        assert sum(page.length for page in message.blocks) == seed + 1


def test_everything_that_looks_makes_it() -> None:
    decoder = Decoder()
    whole = decoder.step(0, 3)["present"].SerializeToString()
    looks: dict[str, Any] = {
        "blocks": lambda message: message.blocks[0].length == 3,
        "len": lambda message: len(message.blocks) == 1,
        "HasField": lambda message: not message.HasField("name"),
        "ListFields": lambda message: [field.name for field, _ in message.ListFields()] == ["blocks"],
        "ByteSize": lambda message: message.ByteSize() == len(whole),
        "equality": lambda message: message == PagedCacheProto.FromString(whole),
        "other way": lambda message: PagedCacheProto.FromString(whole) == message,
        "str": lambda message: "length: 3" in str(message),
        "repr": lambda message: "length: 3" in repr(message),
        "copy": lambda message: copy.copy(message).SerializeToString() == whole,
        "deepcopy": lambda message: copy.deepcopy(message).SerializeToString() == whole,
        "pickle": lambda message: pickle.loads(pickle.dumps(message)).SerializeToString() == whole,  # noqa: S301
        "CopyFrom": lambda message: _filled(PagedCacheProto.CopyFrom, message) == message,
        "MergeFrom": lambda message: _filled(PagedCacheProto.MergeFrom, message) == message,
        "same list": lambda message: message.blocks is message.blocks and message.blocks[0] is message.blocks[0],
        "DESCRIPTOR": lambda message: message.DESCRIPTOR.name == "PagedCacheProto",
    }
    for name, look in looks.items():
        message = decoder.state.values["past"]
        assert look(message), name
        assert message.SerializeToString() == whole, name


def test_what_is_changed_is_read_anew_and_changes_nobody_else() -> None:
    decoder = Decoder()
    message = decoder.step(0, 3)["present"]
    before = message.SerializeToString()
    page = message.blocks[0]
    page.length = 2
    assert decoder.state.values["past"].SerializeToString() == before
    shorter = Decoder(past=message)
    assert shorter.state.values["past"].blocks[0].length == 2
    page.length = 4
    with pytest.raises(refeed.Error, match=r"blocks\[0\]\.length"):
        Decoder(past=message)
    # Back to what it was, it is read page by page, and is the same.
    page.length = 3
    assert Decoder(past=message).state.values["past"].SerializeToString() == before
    for change in (PagedCacheProto.Clear, lambda each: each.ClearField("blocks"), lambda each: each.blocks.pop()):
        emptied = decoder.state.values["past"]
        change(emptied)
        assert len(emptied.blocks) == 0
        assert len(Decoder(past=emptied).state.values["past"].blocks) == 0
    assert decoder.state.values["past"].SerializeToString() == before


@pytest.mark.parametrize("looked_at", [False, True])
def test_an_unchanged_message_goes_back_as_the_value(looked_at: bool) -> None:
    """The kernel knows its pages by identity: it looks at the new one only."""
    decoder = Decoder()
    for seed in range(40):
        message = decoder.step(seed)["present"]
    if looked_at:
        assert len(message.blocks) == 40
    _, _, found = decoder.kernel(*feeds(1).values(), message, block_size=4)
    again, _, _ = decoder.kernel(
        *feeds(1).values(), PagedCacheProto.FromString(message.SerializeToString()), block_size=4
    )
    np.testing.assert_array_equal(np.asarray(_y(decoder, message)), np.asarray(again))
    assert found.validated_pages == 41  # calls outside of models have a memory of their own
    _, _, found = decoder.kernel(*feeds(1).values(), message, block_size=4)
    assert found.validated_pages == 1
    decoder.state.reset({"past": message})
    decoder.step(40)
    assert decoder.kernel.statistics().validated_pages == 1


def _y(decoder: Decoder, message: Any) -> Any:
    y, _, _ = decoder.kernel(*feeds(1).values(), message, block_size=4)
    return y


def test_payloads_are_shared_with_the_state() -> None:
    decoder = Decoder()
    first = decoder.step(0, 4)["present"]
    second = decoder.step(1, 4)["present"]
    array = numpy_helper.to_array(first.blocks[0].key)
    same = numpy_helper.to_array(second.blocks[0].key)
    assert array.__array_interface__["data"] == same.__array_interface__["data"]


def test_a_message_outlives_its_state() -> None:
    decoder = Decoder(FORMATS["codes"])
    message = decoder.step(0, 5)["present"]
    expected = decoder.state.values["past"].SerializeToString()
    decoder.state.close()
    del decoder
    gc.collect()
    assert message.SerializeToString() == expected


def test_threads_that_look_at_once_see_one_message() -> None:
    decoder = Decoder()
    for seed in range(200):
        decoder.step(seed)
    for _ in range(20):
        message = decoder.state.values["past"]
        barrier = threading.Barrier(4)
        seen: list[Any] = []

        def look(message: Any = message, barrier: Any = barrier, seen: Any = seen) -> None:
            barrier.wait()
            seen.append(message.blocks[7])

        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seen[0].length = 9
        assert [page.length for page in seen] == [9] * 4


def test_forks_and_cuts_keep_what_is_known_of_pages() -> None:
    """Counts, not times: whoever goes on from a cache looks at the pages that are new."""
    decoder = Decoder()
    decoder.step(0, 800)
    for seed in range(60):
        decoder.step(seed)
    fork = decoder.state.fork()
    for state in (fork, decoder.state, fork.fork()):
        state.run(decoder.context, feeds(1))
        assert decoder.kernel.statistics().validated_pages == 1
    point = decoder.state.checkpoint()
    # Within a page of four tokens: the page that says so is new, and that of the step.
    for length, new in ((830, 1), (801, 1), (799, 2), (400, 1)):
        decoder.state.truncate(length)
        decoder.state.run(decoder.context, feeds(2))
        assert decoder.kernel.statistics().validated_pages == new
        assert sum(page.length for page in decoder.state.values["past"].blocks) == length + 1
    decoder.state.restore(point)
    decoder.state.run(decoder.context, feeds(3))
    assert decoder.kernel.statistics().validated_pages == 1


def test_a_step_looks_at_its_own_page_alone() -> None:
    """Counts, not times: of 3,000 pages, each step looks at one."""
    decoder = Decoder()
    decoder.step(0, 1)
    for seed in range(1, 3000):
        decoder.step(seed)
        assert decoder.kernel.statistics().validated_pages == 1
    assert decoder.kernel.total_statistics().validated_pages == 3000
