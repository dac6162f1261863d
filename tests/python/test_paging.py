"""refeed.page: dense caches become pages, the results stay, and what pages cannot say is refused by name."""

import pathlib
from typing import Any

import numpy as np
import pytest
import refeed
from refeed import onnx
from refeed.onnx import helper, numpy_helper
from refeed.runtime import PageFormat, RuntimeContext, register_paged_attention

FLOAT, FLOAT16 = 1, 10
HEADS, KV_HEADS, WIDTH, VALUE_WIDTH = 6, 2, 8, 4


def info(name: str, dims: list[Any], kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, dims)


def finish(nodes: list[Any], inputs: list[Any], outputs: list[Any], layers: int, opset: int, **more: Any) -> Any:
    graph = helper.make_graph(nodes, "test", inputs, outputs, **more)
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)], ir_version=10
    )
    for layer in range(layers):
        for part in ("key", "value"):
            made.graph.persistent_bindings.add(input_name=f"past.{layer}.{part}", output_name=f"present.{layer}.{part}")
    return made


def attention(
    rank: int = 4, kind: int = FLOAT, layers: int = 1, batch: int = 2, value_width: int = VALUE_WIDTH, **attributes: Any
) -> Any:
    """Layers of ai.onnx Attention side by side, each with caches of its own."""
    nodes, inputs, outputs = [], [], []
    for at in range(layers):
        names = [f"{name}{at}" for name in "qkv"]
        widths, counts = (WIDTH, WIDTH, value_width), (HEADS, KV_HEADS, KV_HEADS)
        for name, count, width in zip(names, counts, widths, strict=True):
            dims: list[Any] = [batch, count, "length", width] if rank == 4 else [batch, "length", count * width]
            inputs.append(info(name, dims, kind))
        more = dict(attributes)
        if rank == 3:
            more |= {"q_num_heads": HEADS, "kv_num_heads": KV_HEADS}
        past = [f"past.{at}.key", f"past.{at}.value"]
        present = [f"present.{at}.key", f"present.{at}.value"]
        nodes.append(
            helper.make_node("Attention", [*names, "", *past], [f"y{at}", *present], name=f"layer{at}", **more)
        )
        for name, width in zip(past, (WIDTH, value_width), strict=True):
            inputs.append(info(name, [batch, KV_HEADS, "past", width], kind))
        outputs.append(
            info(
                f"y{at}",
                [batch, HEADS, "length", value_width] if rank == 4 else [batch, "length", HEADS * value_width],
                kind,
            )
        )
        for name, width in zip(present, (WIDTH, value_width), strict=True):
            outputs.append(info(name, [batch, KV_HEADS, "total", width], kind))
    return finish(nodes, inputs, outputs, layers, 24)


def group_query(packed: bool = False, batch: int = 2, **attributes: Any) -> Any:
    names = ["q0", "", ""] if packed else ["q0", "k0", "v0"]
    width = (HEADS + 2 * KV_HEADS) * WIDTH if packed else HEADS * WIDTH
    inputs = [info("q0", [batch, "length", width])]
    if not packed:
        inputs += [info(name, [batch, "length", KV_HEADS * WIDTH]) for name in ("k0", "v0")]
    inputs += [info(name, [batch, KV_HEADS, "past", WIDTH]) for name in ("past.0.key", "past.0.value")]
    inputs += [info("lengths", [batch], 6), info("total", [], 6)]
    tail = []
    initializers = []
    if attributes.get("do_rotary"):
        half = attributes.pop("half", WIDTH // 2)
        angles = np.arange(64)[:, None] / 100 ** (np.arange(half) / half)
        tail = ["cos", "sin"]
        initializers = [
            numpy_helper.from_array(np.cos(angles).astype(np.float32), "cos"),
            numpy_helper.from_array(np.sin(angles).astype(np.float32), "sin"),
        ]
    node = helper.make_node(
        "GroupQueryAttention",
        [*names, "past.0.key", "past.0.value", "lengths", "total", *tail],
        ["y0", "present.0.key", "present.0.value"],
        name="layer0",
        domain="com.microsoft",
        num_heads=HEADS,
        kv_num_heads=KV_HEADS,
        **attributes,
    )
    outputs = [info("y0", [batch, "length", HEADS * WIDTH])]
    outputs += [info(name, [batch, KV_HEADS, "total", WIDTH]) for name in ("present.0.key", "present.0.value")]
    return finish([node], inputs, outputs, 1, 21, initializer=initializers)


def steps(model: Any, lengths: tuple[int, ...] = (5, 1, 3, 1)) -> list[dict[str, Any]]:
    """Random feeds of several steps."""
    rng = np.random.default_rng(0)
    bound = {binding.input_name for binding in model.graph.persistent_bindings}
    made, past = [], 0
    for length in lengths:
        feeds: dict[str, Any] = {}
        for value in model.graph.input:
            if value.name in bound:
                continue
            dims = [dim.dim_value or length for dim in value.type.tensor_type.shape.dim]
            if value.name == "lengths":
                feeds[value.name] = np.full(dims, past + length - 1, np.int32)
            elif value.name == "total":
                feeds[value.name] = np.array(past + length, np.int32)
            else:
                kind = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
                feeds[value.name] = rng.normal(size=dims).astype(kind)
        past += length
        made.append(feeds)
    return made


@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize(
    "attributes",
    [{"is_causal": 1}, {}, {"is_causal": 1, "scale": 1 / np.sqrt(WIDTH)}, {"is_causal": 1, "softcap": 0.0}],
)
def test_attention_in_pages_gives_the_same(rank: int, attributes: dict[str, Any]) -> None:
    model = attention(rank, **attributes)
    before = model.SerializeToString()
    paged, report = refeed.page(model, block_size=4, check=steps(model))
    assert model.SerializeToString() == before
    assert report.largest_difference is not None
    assert report.largest_difference < 1e-5
    assert [(cache.past, cache.present) for cache in report.caches] == [("past.0", "present.0")]
    assert "layer0 (Attention): past.0 <- present.0" in str(report)
    assert [(binding.input, binding.output) for binding in paged.bindings] == [("past.0", "present.0")]
    assert {use.op_type for use in paged.operators} >= {"PagedAttention"}
    assert "Attention" not in {use.op_type for use in paged.operators}


def test_layers_have_a_cache_each_and_states_start_empty() -> None:
    model = attention(4, layers=3, is_causal=1)
    paged, report = refeed.page(model, block_size=2, max_tokens=100, check=steps(model))
    assert len(report.caches) == 3
    context = RuntimeContext()
    register_paged_attention(context, format_selector=lambda k, v, n: PageFormat(3, 0.05))  # noqa: ARG005
    state = refeed.PersistentValueState(paged, {}, context=context)
    for feeds in steps(model):
        state.run(context, feeds)
    cache = state.values["past.2"]
    assert isinstance(cache, onnx.PagedCacheProto)
    assert [block.length for block in cache.blocks] == [2, 2, 1, 1, 2, 1, 1]
    assert cache.blocks[0].has_encoded_key()


def test_half_precision_stays_half() -> None:
    model = attention(4, FLOAT16, is_causal=1)
    _, report = refeed.page(model, check=steps(model), tolerance=2e-3)
    assert report.largest_difference is not None


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"do_rotary": 1},
        {"do_rotary": 1, "rotary_interleaved": 1},
        {"do_rotary": 1, "half": 2},
        {"local_window_size": 3},
        {"scale": float(1 / np.sqrt(WIDTH))},
    ],
)
def test_group_query_attention_in_pages_gives_the_same(packed: bool, attributes: dict[str, Any]) -> None:
    model = group_query(packed, **attributes)
    _, report = refeed.page(model, padded=False, check=steps(model))
    assert report.largest_difference is not None
    assert report.largest_difference < 1e-5


REFUSED: list[tuple[str, Any]] = [
    ("attn_mask", lambda m: m.graph.node[0].input.__setitem__(3, "mask")),
    ("PagedAttention has no softcap, got 2", lambda m: m.graph.node[0].attribute.add(name="softcap", type=1, f=2.0)),
    (r"expected the scale 0\.3535534.*got 1", lambda m: m.graph.node[0].attribute.add(name="scale", type=1, f=1.0)),
    ("softmax_precision", lambda m: m.graph.node[0].attribute.add(name="softmax_precision", type=2, i=11)),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_what_pages_cannot_say_is_refused_by_name(case: int) -> None:
    expected, change = REFUSED[case]
    model = attention(4)
    if expected == "attn_mask":
        model.graph.input.append(info("mask", ["length", "all"]))
    change(model)
    with pytest.raises(refeed.ModelError, match=rf"page: node `layer0` \(Attention\).*{expected}"):
        refeed.page(model)


def test_padding_is_refused_unless_it_is_ruled_out() -> None:
    with pytest.raises(refeed.ModelError, match=r"layer0.*seqlens_k `lengths` may tell of padding"):
        refeed.page(group_query())
    model = attention(4)
    model.graph.input.append(info("valid", [2], 7))
    model.graph.node[0].input.append("valid")
    with pytest.raises(refeed.ModelError, match="nonpad_kv_seqlen"):
        refeed.page(model)


def test_a_model_that_no_session_takes_is_told_as_sessions_tell_it() -> None:
    model = group_query(local_window_size=0)
    with pytest.raises(refeed.ModelError, match=r"^node \d+ .*`local_window_size`: expected -1 or a positive number"):
        refeed.page(model, padded=False, check=steps(group_query()))


def test_caches_that_others_read_and_graphs_without_any_are_refused() -> None:
    model = attention(4)
    model.graph.node.append(helper.make_node("Shape", ["present.0.key"], ["extents"], name="reader"))
    model.graph.output.append(info("extents", [4], 7))
    with pytest.raises(refeed.ModelError, match=r"`present\.0\.key` is also read by node `reader` \(Shape\)"):
        refeed.page(model)
    model = attention(4)
    del model.graph.persistent_bindings[:]
    with pytest.raises(refeed.ModelError, match="whose caches are bound, found none"):
        refeed.page(model)
    model = attention(4, layers=2)
    del model.graph.persistent_bindings[2:]
    model.graph.persistent_bindings[1].output_name = "present.1.value"
    with pytest.raises(refeed.ModelError) as told:
        refeed.page(model)
    assert "Attention `layer0`: expected a binding of `past.0.value` to `present.0.value`" in str(told.value)
    assert "Attention `layer1`: expected a binding of `past.1.key` to `present.1.key`" in str(told.value)


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"block_size": 0}, ValueError, r"block_size: expected 1 to 2\*\*63 - 1, got 0"),
    ({"max_tokens": 2**63}, ValueError, r"max_tokens: expected 1 to 2\*\*63 - 1, got 9223372036854775808"),
    ({"block_size": "a"}, TypeError, "block_size: expected an integer, got str"),
    ({"max_tokens": True}, TypeError, "max_tokens: expected an integer, got bool"),
    ({"tolerance": float("nan")}, ValueError, "tolerance: expected a finite number of 0 or more, got nan"),
    ({"tolerance": float("inf")}, ValueError, "tolerance: expected a finite number of 0 or more, got inf"),
    ({"tolerance": -1.0}, ValueError, "tolerance: expected a finite number of 0 or more, got -1"),
    ({"check": []}, ValueError, "check: expected one step or more, got none"),
    ({"check": iter(())}, ValueError, "check: expected one step or more, got none"),
    ({"check": {}}, TypeError, "check: expected a sequence of feeds, got one dict"),
    ({"check": [{}, 3]}, TypeError, r"check\[1\]: expected feeds by name, got int"),
    ({"initial": {}}, ValueError, "initial: expected steps to check beside it"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_arguments_that_mean_nothing_are_refused_by_name(case: int) -> None:
    options, kind, expected = WRONG[case]
    with pytest.raises(kind, match=expected):
        refeed.page(attention(4), **options)


@pytest.mark.parametrize("length", [0, 1, 3, 4, 11])
@pytest.mark.parametrize("kind", [FLOAT, FLOAT16])
def test_a_check_begins_both_models_with_the_tokens_that_are_given(length: int, kind: int) -> None:
    model = attention(4, kind, is_causal=1)
    rng = np.random.default_rng(length)
    numbers = np.float32 if kind == FLOAT else np.float16
    initial = {
        f"past.0.{part}": rng.normal(size=(2, KV_HEADS, length, width)).astype(numbers)
        for part, width in (("key", WIDTH), ("value", VALUE_WIDTH))
    }
    tolerance = 1e-5 if kind == FLOAT else 2e-3
    _, report = refeed.page(model, block_size=4, check=steps(model), initial=initial, tolerance=tolerance)
    assert report.largest_difference is not None
    initial["past.0.value"] = initial["past.0.value"][:, :, :0]
    if length:
        (values,) = (value for value in model.graph.input if value.name == "past.0.value")
        values.type.tensor_type.shape.dim[2].dim_param = "elsewhere"
        with pytest.raises(
            refeed.ModelError, match=r"initial: expected as many tokens of `past.0.value` as of `past.0.k"
        ):
            refeed.page(model, check=steps(model), initial=initial)


def test_a_result_that_differs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that computes something else stands in for the native one."""

    def other(_: Any, call: Any) -> None:
        query, past = np.asarray(call.inputs[0]), call.get_value(call.input_names[3])
        call.put(call.output_names[0], np.full((*query.shape[:3], VALUE_WIDTH), 7, np.float32))
        call.put_value(call.output_names[1], past)

    def register(context: Any) -> None:
        context.register_custom_kernel("ai.rt", "PagedAttention", other)

    monkeypatch.setattr("refeed.paging_check.register_paged_attention", register)
    model = attention(4, is_causal=1)
    told = r"page: step 0: output `y0` is off by [\d.]+, expected at most [\d.e-]+ with tolerance 0\.001"
    with pytest.raises(refeed.ModelError, match=told):
        refeed.page(model, check=steps(model), tolerance=1e-3)


MODELS = pathlib.Path(__file__).resolve().parents[1] / "data" / "models"


def decoder(name: str) -> Any:
    return refeed.bind(MODELS / name / "model.onnx", patterns="known", uses="any")[0]


def decoder_steps(model: Any, lengths: tuple[int, ...] = (5, 1, 3, 1), hidden: int = 0) -> list[dict[str, Any]]:
    """Steps of token ids, positions, and an attention mask, whose first `hidden` tokens are out of sight."""
    rng, made, past = np.random.default_rng(3), [], 0
    names = {info.name for info in model.to_proto().graph.input}
    for length in lengths:
        mask = np.ones((1, past + length), np.int64)
        mask[:, :hidden] = 0
        feeds = {
            "input_ids": rng.integers(0, 90, (1, length)),
            "attention_mask": mask,
            "position_ids": np.arange(past, past + length)[None],
        }
        made.append({name: value for name, value in feeds.items() if name in names})
        past += length
    return made


@pytest.mark.parametrize(
    "name",
    ["dynamo18_llama", "dynamo20_phi3", "dynamo23_llama", "optimum_llama", "mobius_llama", "genai_llama_fp32"],
)
def test_exported_decoders_go_on_in_pages(name: str) -> None:
    """Attention in one node and in single nodes; nothing of what computed masks and repeated heads is left."""
    model = decoder(name)
    feeds = decoder_steps(model)
    paged, report = refeed.page(model, padded=False, check=feeds, block_size=4)
    assert report.largest_difference is not None
    assert report.largest_difference < 1e-5
    assert len(report.caches) == 2
    kinds = [node.op_type for node in paged.to_proto().graph.node]
    assert kinds.count("PagedAttention") == 2
    assert not {"Softmax", "Attention", "GroupQueryAttention"}.intersection(kinds)
    # Codes are near.
    context = RuntimeContext()

    def codes(k: Any, v: Any, _: int) -> tuple[PageFormat, PageFormat]:
        scales = (float(np.abs(np.asarray(each)).max()) / 127 for each in (k, v))
        key, value = (PageFormat(onnx.TensorProto.INT8, scale) for scale in scales)
        return key, value

    register_paged_attention(context, format_selector=codes)
    state = refeed.PersistentValueState(paged, {}, context=context)
    reference = refeed.PersistentValueState(paged, {}, context=(dense := RuntimeContext()))
    register_paged_attention(dense)
    for step in feeds:
        got, want = state.run(context, step)["logits"], reference.run(dense, step)["logits"]
        assert np.abs(np.asarray(got) - np.asarray(want)).max() < 0.1
    assert state.values[report.caches[0].past].blocks[0].has_encoded_key()


@pytest.mark.parametrize("name", ["optimum_llama", "mobius_llama"])
def test_a_mask_that_hides_more_is_found_by_the_check(name: str) -> None:
    model = decoder(name)
    with pytest.raises(refeed.ModelError, match=r"mask `.*` may tell of padding or more"):
        refeed.page(model)
    with pytest.raises(refeed.ModelError, match=r"mask `.*` may tell of padding or more"):
        refeed.page(model, padded=False)
    with pytest.raises(refeed.ModelError, match=r"may tell of padding or more"):
        refeed.page(model, check=decoder_steps(model))
    with pytest.raises(refeed.ModelError, match=r"page: step \d: output `logits` is off by"):
        refeed.page(model, padded=False, check=decoder_steps(model, hidden=2))


def single_nodes(**changes: Any) -> Any:
    """Attention in single nodes without a mask: `changes` replace the scale, the axis, or what follows the keys."""
    scale = numpy_helper.from_array(np.array(changes.get("scale", WIDTH**-0.5), np.float32), "scale")
    axis = changes.get("axis", 2)
    nodes = [
        helper.make_node("Concat", ["past.0.key", "k0"], ["present.0.key"], axis=axis),
        helper.make_node("Concat", ["past.0.value", "v0"], ["present.0.value"], axis=2),
        helper.make_node("Transpose", ["present.0.key"], ["turned"], perm=[0, 1, 3, 2]),
        *([helper.make_node("Tanh", ["turned"], ["squeezed"])] if "through" in changes else []),
        helper.make_node("MatMul", ["q0", "squeezed" if "through" in changes else "turned"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1, name="softmax"),
        helper.make_node("MatMul", ["weights", "present.0.value"], ["y0"], name="last"),
        *([helper.make_node("Abs", ["weights"], ["seen"])] if "seen" in changes else []),
    ]
    inputs = [info(name, [2, HEADS, "length", WIDTH]) for name in ("q0", "k0", "v0")]
    inputs += [info(name, [2, HEADS, "past", WIDTH]) for name in ("past.0.key", "past.0.value")]
    outputs = [info("y0", [2, HEADS, "length", WIDTH])]
    outputs += [info(name, [2, HEADS, "total", WIDTH]) for name in ("present.0.key", "present.0.value")]
    if "seen" in changes:
        outputs.append(info("seen", [2, HEADS, "length", "total"]))
    return finish(nodes, inputs, outputs, 1, 18, initializer=[scale])


def test_single_nodes_without_a_mask() -> None:
    model = single_nodes()
    rng = np.random.default_rng(0)
    feeds = [
        {name: rng.normal(size=(2, HEADS, length, WIDTH)).astype(np.float32) for name in ("q0", "k0", "v0")}
        for length in (3, 1, 4)
    ]
    paged, report = refeed.page(model, check=feeds)
    assert report.caches[0].op_type == "MatMul, Softmax, MatMul"
    (node,) = [node for node in paged.to_proto().graph.node if node.op_type == "PagedAttention"]
    assert {attribute.name: attribute.i for attribute in node.attribute}["is_causal"] == 0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"scale": 0.5}, r"node `last` \(MatMul\): expected the scale 0\.35355"),
        ({"axis": 1}, r"Softmax `softmax`: expected keys from a Concat of a bound cache and new rows along axis 2"),
        ({"through": "Tanh"}, r"Softmax `softmax`: expected keys that are appended to a cache.*; at `squeezed`"),
        ({"seen": True}, r"Softmax `softmax`: expected that weights only go to a product with values"),
    ],
)
def test_single_nodes_that_pages_cannot_say_are_refused_by_name(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(refeed.ModelError, match=why):
        refeed.page(single_nodes(**changes))


def appended_outside(rank: int = 4, nodes: Any = (), **attributes: Any) -> Any:
    """Attention that is given all keys and values, appended and repeated before it."""
    more: dict[str, Any] = {"q_num_heads": HEADS, "kv_num_heads": HEADS} if rank == 3 else {}
    shape = numpy_helper.from_array(np.array([0, KV_HEADS, HEADS // KV_HEADS, -1, WIDTH], np.int64), "five")
    made = [helper.make_node("Concat", [f"past.0.{part}", new], [f"present.0.{part}"], axis=-2) for part, new in PARTS]
    axes = numpy_helper.from_array(np.array([2], np.int64), "two")
    ones = numpy_helper.from_array(np.array([1, 1, HEADS // KV_HEADS, 1, 1], np.int64), "ones")
    four = numpy_helper.from_array(np.array([0, HEADS, -1, WIDTH], np.int64), "four")
    for part, _ in PARTS:
        made.append(helper.make_node("Unsqueeze", [f"present.0.{part}", "two"], [f"{part}.five"]))
        made.append(helper.make_node("Expand", [f"{part}.five", "ones"], [f"{part}.many"]))
        made.append(helper.make_node("Reshape", [f"{part}.many", "four"], [f"{part}.all"]))
    made += nodes
    inputs = ["q0", "key.all", "value.all", *attributes.pop("more", [])]
    made.append(helper.make_node("Attention", inputs, ["y0"], name="last", **more, **attributes))
    fed = [info("q0", [2, HEADS, "length", WIDTH] if rank == 4 else [2, "length", HEADS * WIDTH])]
    fed += [info(new, [2, KV_HEADS, "length", WIDTH]) for _, new in PARTS]
    fed += [info(f"past.0.{part}", [2, KV_HEADS, "past", WIDTH]) for part, _ in PARTS]
    fed += [info(name, ["length", "total"]) for name in inputs[3:4] if name] + [
        info(name, [2], 7) for name in inputs[6:7]
    ]
    outputs = [info("y0", [2, HEADS, "length", WIDTH] if rank == 4 else [2, "length", HEADS * WIDTH])]
    outputs += [info(f"present.0.{part}", [2, KV_HEADS, "total", WIDTH]) for part, _ in PARTS]
    return finish(made, fed, outputs, 1, 24, initializer=[shape, axes, ones, four])


PARTS = (("key", "k0"), ("value", "v0"))


@pytest.mark.parametrize("attributes", [{}, {"scale": float(WIDTH**-0.5)}, {"softcap": 0.0}])
def test_attention_behind_concats_onto_bound_caches(attributes: dict[str, Any]) -> None:
    model = appended_outside(**attributes)
    paged, report = refeed.page(model, block_size=4, check=steps(model))
    assert report.largest_difference is not None
    assert report.largest_difference < 1e-5
    assert report.caches[0].op_type == "Concat, Attention"
    assert [node.op_type for node in paged.to_proto().graph.node] == ["PagedAttention"]


OUTSIDE: list[tuple[dict[str, Any], str]] = [
    ({"is_causal": 1}, r"Attention `last`: expected a mask in place of is_causal"),
    ({"scale": 1.0}, r"node `last` \(Attention\): expected the scale 0\.35355.*got 1"),
    ({"softcap": 2.0}, r"node `last` \(Attention\): PagedAttention has no softcap, got 2\.0"),
    ({"left_window_size": 3}, r"node `last` \(Attention\): PagedAttention has no left_window_size, got 3"),
    ({"more": ["mask"]}, r"node `last` \(Attention\): the mask `mask` may tell of padding or more"),
    ({"more": ["", "", "", "valid"]}, r"Attention `last`: expected no nonpad_kv_seqlen, got `valid`"),
    ({"rank": 3}, r"node `last` \(Attention\): expected a query of 4 axes, got `q0` of 3"),
]


@pytest.mark.parametrize("case", range(len(OUTSIDE)))
def test_attention_behind_concats_that_pages_cannot_say_is_refused_by_name(case: int) -> None:
    changes, expected = OUTSIDE[case]
    model = appended_outside(**changes)
    with pytest.raises(refeed.ModelError, match=expected):
        refeed.page(model)


def test_values_that_are_no_caches_begin_with_zeros() -> None:
    """A hybrid of attention and of states that do not grow."""
    model = decoder("genai_qwen35_fp32")
    feeds = decoder_steps(model)
    paged, report = refeed.page(model, padded=False, check=feeds, block_size=4)
    assert len(report.caches) == 1
    assert len(paged.bindings) == len(model.bindings) - 1
