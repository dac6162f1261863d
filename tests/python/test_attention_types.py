"""`Attention` of values and masks of other types than the query's, what each opset has, lengths as a padding mask."""

from typing import Any

import numpy as np
import onnx
import pytest
import refeed
from onnx import helper

Array = np.ndarray[Any, Any]


def _model(
    op_type: str,
    inputs: dict[str, Array],
    outputs: dict[str, Any],
    opset: int = 24,
    domain: str = "",
    **attributes: Any,
) -> onnx.ModelProto:
    def declared(name: str, dtype: Any) -> onnx.ValueInfoProto:
        tensor = onnx.TypeProto.Tensor(elem_type=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
        return onnx.ValueInfoProto(name=name, type=onnx.TypeProto(tensor_type=tensor))

    names = attributes.pop("names", list(inputs))
    node = helper.make_node(op_type, names, list(outputs), domain=domain, **attributes)
    ins = [declared(name, array.dtype) for name, array in inputs.items()]
    outs = [declared(name, dtype) for name, dtype in outputs.items()]
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(helper.make_graph([node], "g", ins, outs), opset_imports=imports, ir_version=11)


def _operands(dtype: Any, values: Any, rng: np.random.Generator) -> dict[str, Array]:
    def made(shape: tuple[int, ...], kind: Any) -> Array:
        return rng.standard_normal(shape).astype(kind)

    return {"q": made((2, 4, 3, 8), dtype), "k": made((2, 2, 5, 8), dtype), "v": made((2, 2, 5, 6), values)}


def _formula(q: Array, k: Array, v: Array, summand: Array | None = None) -> Array:
    """Return attention in double precision; heads of a group share keys."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat(group, axis=1), v.repeat(group, axis=1)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if summand is not None:
        scores = scores + summand.astype(np.float64)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True) @ v)


@pytest.mark.parametrize(
    ("query", "values"), [(np.float32, np.float16), (np.float64, np.float32), (np.float64, np.float16)]
)
def test_values_of_a_narrower_type_are_computed_with_and_kept_as_they_are(query: Any, values: Any) -> None:
    rng = np.random.default_rng(11)
    feeds = _operands(query, values, rng)
    past = {
        "pk": rng.standard_normal((2, 2, 7, 8)).astype(query),
        "pv": rng.standard_normal((2, 2, 7, 6)).astype(values),
    }
    names = ["q", "k", "v", "", "pk", "pv"]
    outputs = {"y": query, "a": query, "b": values}
    model = _model("Attention", feeds | past, outputs, names=names)
    made = refeed.load(model).run(feeds | past)
    keys = np.concatenate([past["pk"], feeds["k"]], axis=2)
    held = np.concatenate([past["pv"], feeds["v"]], axis=2)
    np.testing.assert_allclose(np.asarray(made["y"]), _formula(feeds["q"], keys, held), atol=1e-5)
    np.testing.assert_array_equal(np.asarray(made["a"]), keys)
    got = np.asarray(made["b"])
    assert got.dtype == values
    np.testing.assert_array_equal(got, held)


def test_a_cache_of_a_narrower_type_grows_in_place() -> None:
    rng = np.random.default_rng(12)
    feeds = _operands(np.float32, np.float16, rng)
    past: dict[str, Array] = {"pk": np.zeros((2, 2, 0, 8), np.float32), "pv": np.zeros((2, 2, 0, 6), np.float16)}
    outputs = {"y": np.float32, "a": np.float32, "b": np.float16}
    model = _model("Attention", feeds | past, outputs, names=["q", "k", "v", "", "pk", "pv"])
    bound, _ = refeed.bind(model, [("pk", "a"), ("pv", "b")])
    state = refeed.PersistentValueState(bound, past)
    keys, held = past["pk"], past["pv"]
    for step in range(4):
        feeds = _operands(np.float32, np.float16, rng)
        keys, held = np.concatenate([keys, feeds["k"]], axis=2), np.concatenate([held, feeds["v"]], axis=2)
        made = state.run(feeds)
        np.testing.assert_allclose(np.asarray(made["y"]), _formula(feeds["q"], keys, held), atol=1e-5)
        np.testing.assert_array_equal(np.asarray(made["b"]), held)
        if step:
            assert [binding.outcome for binding in state.explain().bindings] == ["in place"] * 2


@pytest.mark.parametrize(("query", "values"), [(np.float32, np.float64), (np.float16, np.float32)])
def test_values_that_the_querys_type_does_not_hold_are_refused(query: Any, values: Any) -> None:
    feeds = _operands(query, values, np.random.default_rng(13))
    with pytest.raises(
        refeed.ModelError, match=r"input 2: expected elements of (FLOAT|FLOAT16) as the query, or of a type"
    ):
        refeed.runtime.RuntimeSession(_model("Attention", feeds, {"y": query}))


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16"])
def test_a_mask_of_any_number_is_added(kind: str) -> None:
    rng = np.random.default_rng(14)
    feeds = _operands(np.float32, np.float32, rng)
    low = 0 if kind.startswith("u") else -3
    feeds["m"] = rng.integers(low, 4, (2, 1, 3, 5)).astype(kind)
    made = refeed.load(_model("Attention", feeds, {"y": np.float32})).run(feeds)
    want = _formula(feeds["q"], feeds["k"], feeds["v"], feeds["m"])
    np.testing.assert_allclose(np.asarray(made["y"]), want, atol=1e-5)


def test_a_mask_that_has_no_number_in_the_querys_type_is_refused() -> None:
    feeds = _operands(np.float16, np.float16, np.random.default_rng(15))
    feeds["m"] = np.full((3, 5), -100_000, np.int64)
    with pytest.raises(refeed.Error, match="attn_mask: expected integers that are finite as FLOAT16"):
        refeed.load(_model("Attention", feeds, {"y": np.float16})).run(feeds)
    feeds["m"] = np.zeros((3, 5), np.float32)
    with pytest.raises(refeed.Error, match="input 3: expected elements of BOOL, an integer type, FLOAT16 as"):
        refeed.load(_model("Attention", feeds, {"y": np.float16})).run(feeds)


def test_each_opset_has_its_own_inputs_and_attributes() -> None:
    feeds = _operands(np.float32, np.float32, np.random.default_rng(16))
    lengths = {"n": np.array([5, 4], np.int64)}
    names = ["q", "k", "v", "", "", "", "n"]
    for opset, window, fits in [(23, False, False), (24, False, True), (24, True, False), (25, True, True)]:
        attributes: dict[str, Any] = {"left_window_size": 1} if window else {"names": names}
        inputs = feeds if window else feeds | lengths
        model = _model("Attention", inputs, {"y": np.float32}, opset, **attributes)
        if fits:
            refeed.load(model).run(inputs)
            continue
        named = "left_window_size" if window else "nonpad_kv_seqlen"
        with pytest.raises(refeed.ModelError, match=rf"{named}.* at opset {opset} \(Attention has it from opset"):
            refeed.runtime.RuntimeSession(model)


def _multi_head(mask: Array, **attributes: Any) -> Array:
    rng = np.random.default_rng(17)
    feeds = {
        "q": rng.standard_normal((2, 3, 8)).astype(np.float32),
        "k": rng.standard_normal((2, 5, 8)).astype(np.float32),
        "v": rng.standard_normal((2, 5, 12)).astype(np.float32),
        "m": mask,
    }
    names = ["q", "k", "v", "", "m"]
    attributes |= {"num_heads": 2, "names": names, "domain": "com.microsoft"}
    return np.asarray(refeed.load(_model("MultiHeadAttention", feeds, {"y": np.float32}, **attributes)).run(feeds)["y"])


@pytest.mark.parametrize("lengths", [[5, 3], [1, 5], [0, 2]])
@pytest.mark.parametrize("low", [-10000.0, -2.5])
def test_lengths_mask_as_their_flags_do(lengths: list[int], low: float) -> None:
    flags = np.array([[key < length for key in range(5)] for length in lengths], np.int32)
    want = _multi_head(flags, mask_filter_value=low)
    np.testing.assert_array_equal(_multi_head(np.array(lengths, np.int32), mask_filter_value=low), want)
    # Lengths; where queries begin and end; where keys begin and end.
    packed = np.array([*lengths, 0, 3, 6, 0, 5, 10], np.int32)
    np.testing.assert_array_equal(_multi_head(packed, mask_filter_value=low), want)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ([6, 1], r"key_padding_mask: expected a length of 0\.\.=5, got 6"),
        ([-1, 1], r"key_padding_mask: expected a length of 0\.\.=5, got -1"),
        ([5, 3, 0, 3, 6, 0, 4, 10], "key_padding_mask: expected 1 times 5, got 4"),
        ([5, 3, 0, 2, 6, 0, 5, 10], "key_padding_mask: expected 1 times 3, got 2"),
        ([5, 3, 1], r"key_padding_mask: expected shape \[2\], \[8\], \[2, 5\] or"),
    ],
)
def test_lengths_that_do_not_fit_are_refused(mask: list[int], message: str) -> None:
    with pytest.raises(refeed.Error, match=message):
        _multi_head(np.array(mask, np.int32))
