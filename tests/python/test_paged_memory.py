"""Whose memory pages are: arenas, sealed pages, calls that fail, other requests, what is handed on or never copied."""

import gc
import itertools
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pages as p
import pytest
import refeed
import structured as s
from paged_reference import CODES, Array, array, attention, empty, model, one_token, page, random, reconstructed, step
from refeed import onnx, runtime
from refeed.onnx import TensorProto, helper, numpy_helper

ONE = {name: np.ones((1, 1, 1, 4), np.float32) for name in "QKV"}


def feeds(rng: np.random.Generator, length: int = 1, heads: int = 2) -> dict[str, Array]:
    return {name: random(rng, 1, heads, length, 4) for name in "QKV"}


def addresses(cache: Any) -> list[tuple[int, int]]:
    """Where the payloads of each page lie."""

    def address(message: Any) -> int:
        return int(np.frombuffer(message.raw_data_view(), np.uint8).__array_interface__["data"][0])

    return [(address(p.payload(block, "key")), address(p.payload(block, "value"))) for block in cache.blocks]


def forwarded() -> Any:
    """`model`, whose new cache is an intermediate value that Identity hands on."""
    made = model()
    made.graph.node[0].output[1] = "made"
    made.graph.node.append(helper.make_node("Identity", ["made"], ["present"]))
    return made


def with_last(op_type: str) -> Any:
    """`model`, with a node of the domain `my.ops` after the attention."""
    made = model()
    made.graph.node.append(helper.make_node(op_type, ["Y"], ["z"], domain="my.ops"))
    made.graph.output.append(helper.make_tensor_value_info("z", 1, None))
    made.opset_import.append(helper.make_opsetid("my.ops", 1))
    return made


@pytest.mark.parametrize("make", [model, forwarded])
def test_pages_are_leased_from_the_arena_one_by_one(make: Any) -> None:
    """Rule 6.3.12; S205, S242: also where the cache is an intermediate value; each payload is let go by itself."""
    io = runtime.IOArena(256)
    context = runtime.RuntimeContext(io_allocator=io)
    runtime.register_paged_attention(context)
    state = runtime.PersistentValueState(make(), {"past": empty()})
    rng = np.random.default_rng(0)
    leased = []
    for _ in range(4):
        state.run(context, feeds(rng, 3))
        gc.collect()
        leased.append(io.leased_count)
    # Keys and values of each page; the results were dropped.
    assert np.diff(leased).tolist() == [2, 2, 2]
    per_page = 2 * (2 * 3 * 4 * 4)
    assert (leased[0], io.total_allocated_size) == (2, 4 * per_page)
    key = numpy_helper.to_array(state.values["past"].blocks[1].key, copy=False)
    kept = key.copy()
    state.close()
    gc.collect()
    assert io.leased_count == 1
    np.testing.assert_array_equal(key, kept)
    del key
    gc.collect()
    assert (io.leased_count, io.total_allocated_size) == (0, 0)


def test_each_format_is_appended_and_earlier_pages_stay_where_they_are() -> None:
    """Rules 6.3.8, 6.3.9; S253, S256: the descriptor stands in every page; all snapshots are held meanwhile."""
    rng = np.random.default_rng(1)
    storages = [1, *CODES, 10, 16, 1]
    formats = [
        runtime.PageFormat(storage)
        if storage not in CODES
        else runtime.PageFormat(storage, 0.25, CODES[storage][1] + 1)
        for storage in storages
    ]
    turn = iter(formats)
    context = runtime.RuntimeContext()
    runtime.register_paged_attention(context, format_selector=lambda *_: next(turn))
    state = runtime.PersistentValueState(model(), {"past": empty()})
    held, places = [], []
    for number, storage in enumerate(storages, 1):
        state.run(context, feeds(rng, 2))
        cache = state.values["past"]
        held.append((cache, cache.SerializeToString()))
        places.append(addresses(cache))
        assert [(block.start, block.length) for block in cache.blocks] == [(2 * at, 2) for at in range(number)]
        name = p.NAMES[storage]
        assert (p.format_of(cache.blocks[-1], "key"), p.format_of(cache.blocks[-1], "value")) == (name, name)
        if storage in CODES:
            for part in ("key", "value"):
                affine = p.payload(cache.blocks[-1], part).affine
                assert numpy_helper.to_array(affine.scale).tolist() == 0.25
                assert not affine.HasField("axis")
                assert p.unpack(affine.zero_point.raw_data, name, ()) == CODES[storage][1] + 1
    for before, after in itertools.pairwise(places):
        assert after[: len(before)] == before
    for cache, written in held:
        assert cache.SerializeToString() == written


def test_a_policy_may_switch_as_the_cache_grows() -> None:
    """Rule 6.3.3; S201: FLOAT below 1024 tokens, then INT8 keys and UINT4 values."""
    rng = np.random.default_rng(2)

    def select(_k: runtime.Tensor, _v: runtime.Tensor, retained: int) -> Any:
        if retained < 1024:
            return None
        return runtime.PageFormat(TensorProto.INT8, 0.01), runtime.PageFormat(TensorProto.UINT4, 0.25, 8)

    kernel, cache = runtime.PagedAttention(format_selector=select), empty()
    for length in (1000, 23, 1, 1, 20):
        qkv = tuple(random(rng, 1, 1, length, 4) for _ in range(3))
        _, cache, _ = step(kernel, qkv, cache, block_size=512)
    kinds = [(block.length, p.format_of(block, "key"), p.format_of(block, "value")) for block in cache.blocks]
    dense = [(length, "FLOAT", "FLOAT") for length in (512, 488, 23, 1)]
    assert kinds == [*dense, (1, "INT8", "UINT4"), (20, "INT8", "UINT4")]


# ---- calls that publish nothing


@pytest.mark.parametrize("end", ["fails", "cancelled"])
def test_a_call_that_ends_early_publishes_no_page(end: str) -> None:
    """Rule 6.3.15; S272: what the attention has made is let go, and the retry is that of an undisturbed state."""
    io = runtime.IOArena(256)
    context = runtime.RuntimeContext(io_allocator=io)
    runtime.register_paged_attention(context)
    disturb = False
    completion = runtime.TaskCompletion()

    def last(node: Any, call: Any) -> Any:
        if disturb and end == "fails":
            raise RuntimeError("planned")
        if disturb:
            completion.cancel("too late for this step")
        return call.get(node.input[0])

    context.register_custom_kernel("my.ops", "Last", last)
    states = [runtime.PersistentValueState(with_last("Last"), {"past": empty()}) for _ in range(2)]
    rng = np.random.default_rng(4)
    steps = [feeds(rng, length) for length in (5, 20, 1)]
    for state in states:
        state.run(context, steps[0])
    before = states[0].values["past"]
    digest, places = before.SerializeToString(), addresses(before)
    del before
    gc.collect()
    leased, disturb = io.leased_count, True
    error = RuntimeError if end == "fails" else refeed.CancelledError
    with pytest.raises(error, match="planned" if end == "fails" else "too late"):
        states[0].run(context, steps[1], completion)
    gc.collect()
    assert io.leased_count == leased
    assert addresses(states[0].values["past"]) == places
    assert states[0].values["past"].SerializeToString() == digest
    disturb = False
    for feed in steps[1:]:
        ours, theirs = (state.run(context, feed) for state in states)
        np.testing.assert_array_equal(array(ours["Y"]), array(theirs["Y"]))
    assert states[0].values["past"].SerializeToString() == states[1].values["past"].SerializeToString()


def test_blocks_live_as_long_as_somebody_holds_them() -> None:
    """Rule 6.3.15; S272: other requests and exported views, over reset and close."""
    io = runtime.IOArena(256)
    context = runtime.RuntimeContext(io_allocator=io)
    runtime.register_paged_attention(context)
    rng = np.random.default_rng(5)
    state = runtime.PersistentValueState(model(), {"past": empty()})
    state.run(context, feeds(rng, 3))
    view = state.values["past"]
    other = runtime.PersistentValueState(model(), {"past": view})
    written, places = view.SerializeToString(), addresses(view)
    state.reset({"past": empty()})
    state.close()
    gc.collect()
    assert io.leased_count == 2
    assert view.SerializeToString() == written
    del view
    gc.collect()
    assert io.leased_count == 2
    assert addresses(other.values["past"]) == places
    other.run(context, feeds(rng, 1))
    assert addresses(other.values["past"])[:1] == places
    other.close()
    gc.collect()
    assert (io.leased_count, io.total_allocated_size) == (0, 0)


# ---- pages that are not for this kernel


def structured_cache(made: Any, kind: str, part: str) -> Any:
    """Two pages; one payload of the second is a portable structured encoding, or one by reference to a set."""
    storage = runtime.make_affine_quantization_type(p.CODES["INT4"], 8, 8)
    logical = helper.make_tensor_type_proto(p.FLOAT, [1, 1, 2, 4])
    runtime.add_quantization_parameters(made, "set", storage, logical, scales=np.array([0.25]))
    rows = np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 1, 2, 4)
    shared = runtime.quantize_tensor_shared(rows, made, "set")
    value = shared.encoded if kind == "shared" else runtime.materialize_quantized_value(shared)
    assert value.HasField("parameter_ref") == (kind == "shared")
    assert value.WhichOneof("layout") == "struct_type"
    cache = onnx.PagedCacheProto()
    for at in range(2):
        block = p.add_page(cache, 2)
        for side in ("key", "value"):
            if (at, side) == (1, part):
                getattr(block, f"encoded_{side}").CopyFrom(value)
            else:
                p.set_dense(block, side, rows)
    return cache


@pytest.mark.parametrize("part", ["key", "value"])
@pytest.mark.parametrize("kind", ["portable", "shared"])
def test_structured_and_shared_pages_are_refused_and_handed_on(kind: str, part: str) -> None:
    """Rules 6.2.8, 6.3.13; S251, S255: refused by name, nothing decoded; Identity and a state hand the memory on."""
    made = model()
    cache = structured_cache(made, kind, part)
    context = runtime.RuntimeContext()
    kernel = runtime.register_paged_attention(context)
    state = runtime.PersistentValueState(made, {"past": cache})
    before, written = addresses(state.values["past"]), cache.SerializeToString()
    for attributes in ({}, {"left_window_size": 1}):
        for name, number in attributes.items():
            made.graph.node[0].attribute.append(helper.make_attribute(name, number))
        own = runtime.PersistentValueState(made, {"past": cache})
        with pytest.raises(refeed.KernelValueError, match=rf"blocks\[1\]\.{part}: expected an affine encoding"):
            own.run(context, ONE)
    with pytest.raises(refeed.KernelValueError, match=rf"blocks\[1\]\.{part}: expected an affine encoding"):
        state.run(context, ONE)
    assert set(kernel.total_statistics().as_dict().values()) == {0}
    assert addresses(state.values["past"]) == before == addresses(cache)
    # A consumer that does not look into the payload keeps it and hands it on.
    other = s.keep(s.any_cache())
    other.graph.initializer.extend(made.graph.initializer)
    other.graph.quantization_annotation.extend(made.graph.quantization_annotation)
    passing = s.state(other, {"past": cache})
    for _ in range(2):
        out = passing.run({"tick": np.ones(1, np.float32)})["present"]
        assert addresses(out) == before
        assert out.SerializeToString() == written


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16])
def test_scales_of_other_types_are_refused(kind: int) -> None:
    """Rule 6.3.13; S255."""
    cache = onnx.PagedCacheProto()
    block = p.add_page(cache, 2)
    for part in ("key", "value"):
        p.set_codes(block, part, np.ones((1, 1, 2, 4), np.int64), "INT8", 0.5)
    scale = block.encoded_value.affine.scale
    scale.CopyFrom(helper.make_tensor("", kind, [], [0.5]))
    kernel = runtime.PagedAttention()
    with pytest.raises(ValueError, match=r"blocks\[0\]\.value.*scale.*FLOAT"):
        step(kernel, one_token(4), cache)
    assert kernel.total_statistics().copied_bytes == 0


def test_payloads_in_files_are_refused() -> None:
    """Rule 6.3.13; S255, S271."""
    rows = np.ones((1, 1, 2, 4), np.float32)
    for payload in ("key", "encoded_key"):
        cache = onnx.PagedCacheProto(blocks=[page(rows, rows, 2)])
        if payload == "encoded_key":
            p.set_codes(cache.blocks[0], "key", rows, "INT8", 0.5)
        held = getattr(cache.blocks[0], payload)
        held.ClearField("raw_data")
        held.external_data.add(key="location", value="pages.bin")
        held.data_location = TensorProto.EXTERNAL
        with pytest.raises(ValueError, match=rf"blocks\[0\]\.{payload}"):
            runtime.PersistentValueState(model(), {"past": cache})


def test_operators_on_tensors_refuse_a_cache() -> None:
    """Rules 6.2.9, 7.4.2; S271: a consumer that cannot be is an error, when the session is made or when it runs."""
    made = s.keep(s.any_cache())
    made.graph.node[0].op_type = "Neg"
    with pytest.raises(ValueError, match="Neg"):
        s.state(made, {"past": s.cache(1)}).run({"tick": np.ones(1, np.float32)})


# ---- messages in and out


def test_states_take_and_return_messages() -> None:
    """Rule 6.2.10; S237: at the beginning, in values, in outputs and at a reset."""
    first, second = s.cache_message(3), s.cache_message(1)
    state = s.state(s.keep(s.any_cache()), {"past": first})
    assert isinstance(state.values["past"], onnx.PagedCacheProto)
    assert isinstance(state.values["past"].blocks[0], onnx.PagedCacheBlockProto)
    assert state.values["past"] == first == state.run({"tick": np.ones(1, np.float32)})["present"]
    state.reset({"past": second})
    assert state.values["past"] == second == state.run({"tick": np.ones(1, np.float32)})["present"]


@pytest.mark.parametrize("name", ["FLOAT16", "BFLOAT16"])
def test_typed_patterns_are_packed_once_and_raw_bytes_stay_where_they_are(name: str) -> None:
    """Rule 6.2.4; S190."""
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(2, 1, 3, 4)).astype(p.NUMPY[name])
    cache = onnx.PagedCacheProto()
    block = p.add_page(cache, 3)
    p.set_dense(block, "key", rows, name, typed=True)
    p.set_dense(block, "value", rows, name)
    state = s.state(s.keep(s.any_cache()), {"past": cache})
    ((key, value),) = addresses(state.values["past"])
    raw = int(np.frombuffer(block.value.raw_data_view(), np.uint8).__array_interface__["data"][0])
    assert value == raw
    # What was packed is the state's own: the message may change, and calls go on with the same memory.
    del block.key.int32_data[:]
    for _ in range(2):
        out = state.run({"tick": np.ones(1, np.float32)})["present"]
        assert addresses(out) == [(key, value)]
        assert out.blocks[0].key.raw_data == rows.tobytes()


def test_conversions_keep_every_byte_of_layouts_and_references() -> None:
    """Rule 6.2.5; S223."""
    rng = np.random.default_rng(7)
    for _ in range(30):
        cache = p.random_cache(rng, typed=0)
        context = runtime.RuntimeContext()
        context.put_value("cache", cache)
        assert context.get_value("cache").SerializeToString() == cache.SerializeToString()


# ---- memory that is not taken


def bounded(code: str) -> None:
    """Runs code in a process that may call `limit(bytes)` to bound what it can still allocate, until `limit(None)`."""
    head = (
        "import resource\n"
        "import numpy as np\n"
        "import paged_reference as r\n"
        "from refeed import onnx, runtime\n"
        "from refeed.onnx import helper, numpy_helper\n"
        "unlimited = resource.getrlimit(resource.RLIMIT_AS)\n"
        "def limit(room):\n"
        "    pages = int(open('/proc/self/statm').read().split()[0])\n"
        "    total = unlimited[0] if room is None else pages * resource.getpagesize() + room\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (total, unlimited[1]))\n"
        "def nothing_larger(megabytes):\n"
        "    try:\n"
        "        np.ones(megabytes << 20, np.uint8)\n"
        "    except MemoryError:\n"
        "        return\n"
        "    raise AssertionError('there is room')\n"
    )
    folder = __file__.rpartition("/")[0]
    # Memory that is freed goes back at once, so that the limit is what is left.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", head + code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@linux
def test_neither_keys_are_joined_nor_scores_kept() -> None:
    """Rule 6.3.16; S259: joined keys of 2^20 tokens take 16 MiB, scores of 64 queries 256 MiB, and 8 MiB are there."""
    bounded(
        "tokens = 1 << 20\n"
        "shape = (1, 1, tokens, 4)\n"
        "rows = np.tile(np.array([1, -2, 3, 0], np.float32), tokens).reshape(shape)\n"
        "codes = r.encoded(3, rows.astype(np.int8).tobytes(), list(shape), np.array(1.0))\n"
        "def tensor(*shape):\n"
        "    return runtime.tensor_from_proto(numpy_helper.from_array(np.zeros(shape, np.float32)))\n"
        "def inputs(length):\n"
        "    return tensor(1, 16, length, 4), tensor(1, 1, length, 4), tensor(1, 1, length, 4)\n"
        "for payload in (rows, codes):\n"
        "    cache = onnx.PagedCacheProto(blocks=[r.page(payload, payload, tokens)])\n"
        "    kernel = runtime.PagedAttention()\n"
        "    options = {'block_size': tokens, 'max_tokens': 2 * tokens}\n"
        "    kernel(*inputs(1), cache, **options)  # starts the threads\n"
        "    four = inputs(4)\n"
        "    limit(8 << 20)\n"
        "    nothing_larger(16)\n"
        "    y, present, statistics = kernel(*four, cache, **options)\n"
        "    limit(None)\n"
        "    np.testing.assert_allclose(r.array(y)[0, 5, 3], [1, -2, 3, 0], rtol=1e-4, atol=1e-4)\n"
        "    assert statistics.peak_workspace_bytes == 32\n"
    )


@linux
def test_a_bound_model_is_neither_written_nor_copied() -> None:
    """Rule 6.3.15; S273: beside weights of 192 MiB there is room for 64 MiB when the state is made and runs."""
    bounded(
        "made = r.model()\n"
        "weights = np.ones((48, 1 << 20), np.float32)\n"
        "made.graph.initializer.append(numpy_helper.from_array(weights, 'w'))\n"
        "made.graph.node.append(helper.make_node('Gather', ['w', 'row'], ['picked']))\n"
        "made.graph.input.append(helper.make_tensor_value_info('row', 7, [1]))\n"
        "made.graph.node.append(helper.make_node('ReduceSum', ['picked'], ['sum']))\n"
        "made.graph.output.append(helper.make_tensor_value_info('sum', 1, None))\n"
        "context = runtime.RuntimeContext()\n"
        "runtime.register_paged_attention(context)\n"
        "limit(64 << 20)\n"
        "nothing_larger(192)\n"
        "state = runtime.PersistentValueState(made, {'past': r.empty()})\n"
        "feeds = {name: np.ones((1, 1, 1, 4), np.float32) for name in 'QKV'}\n"
        "for row in range(3):\n"
        "    out = state.run(context, {**feeds, 'row': np.array([row])})\n"
        "assert float(r.array(out['sum']).ravel()[0]) == 1 << 20\n"
        "assert len(state.values['past'].blocks) == 3\n"
        "state.reset({'past': r.empty()})\n"
        "state.close()\n"
    )


def test_the_defaults_of_the_attributes() -> None:
    """Rule 6.1.2; S194: causal, pages of 16, 4096 tokens."""
    rng = np.random.default_rng(8)
    q, k, v = (random(rng, 1, 1, 4096, 1) for _ in range(3))
    kernel = runtime.PagedAttention()
    y, cache, _ = step(kernel, (q, k, v), empty())
    assert {block.length for block in cache.blocks} == {16}
    np.testing.assert_allclose(y[:, :, :50], attention(q, k, v)[:, :, :50], atol=1e-5)
    np.testing.assert_array_equal(step(kernel, (q, k, v), empty(), is_causal=True, left_window_size=-1)[0], y)
    with pytest.raises(ValueError, match="at most 4096"):
        step(kernel, (q[:, :, :1], k[:, :, :1], v[:, :, :1]), cache)
    context = runtime.RuntimeContext()
    runtime.register_paged_attention(context)
    state = runtime.PersistentValueState(model(), {"past": empty()})
    out = state.run(context, {"Q": q, "K": k, "V": v})
    np.testing.assert_array_equal(array(out["Y"]), y)
    with pytest.raises(ValueError, match="at most 4096"):
        state.run(context, {"Q": q[:, :, :1], "K": k[:, :, :1], "V": v[:, :, :1]})


def test_a_model_imports_the_domain() -> None:
    """Rules 6.1.1, 6.1.7; S198: from an empty cache, three appends; without the import the model is refused."""
    rng = np.random.default_rng(9)
    context = runtime.RuntimeContext()
    runtime.register_paged_attention(context)
    starts: list[Any] = [empty(), {"blocks": []}]
    for start in starts:
        state = runtime.PersistentValueState(model(), {"past": start})
        keys: list[Array] = []
        for length in (2, 3, 1):
            x = random(rng, 1, 2, length, 4)
            keys.append(x)
            out = state.run(context, {"Q": x, "K": x, "V": x})
            whole = np.concatenate(keys, axis=2)
            np.testing.assert_allclose(array(out["Y"]), attention(x, whole, whole), atol=1e-5)
        np.testing.assert_array_equal(reconstructed(state.values["past"])[0], np.concatenate(keys, axis=2))
    made = model()
    del made.opset_import[1]
    with pytest.raises(refeed.ModelError, match=r"domain `ai\.rt` is not imported"):
        runtime.PersistentValueState(made, {"past": empty()})
