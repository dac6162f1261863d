"""Structs, sequences, encoded values and caches as states, feeds and outputs: kept, checked, refused."""

from typing import Any

import numpy as np
import pytest
import refeed
import structured as s
from refeed import onnx
from refeed.onnx import helper

NODE = helper.make_node
TICK = {"tick": np.ones(1, np.float32)}


def floats(*shape: int, start: int = 0) -> Any:
    return np.arange(start, start + int(np.prod(shape)), dtype=np.float32).reshape(shape)


# --------------------------------------------------------------------------------------- initial values


def test_every_bound_input_needs_an_initial_value() -> None:
    """Rule 3.5.2; S090."""
    with pytest.raises(refeed.ValueTypeError, match="missing initial whole input `past`"):
        s.state(s.keep(s.struct(a=s.tensor([2]))), {})


def test_initial_values_name_exactly_the_bound_inputs() -> None:
    """Rule 3.5.3; S060."""
    given = {"past": {"a": floats(2)}, "tick": floats(1)}
    with pytest.raises(refeed.ValueTypeError, match="must name exactly the retained whole inputs; `tick`"):
        s.state(s.keep(s.struct(a=s.tensor([2]))), given)


def test_a_paged_cache_initializer_serves_when_the_value_is_left_out() -> None:
    """Rule 3.5.1; S234."""
    model = s.keep(s.any_cache(), paged_cache_initializer=[s.cache_message(3, "past")])
    state = s.state(model, {})
    assert state.run(TICK)["present"] == s.cache_message(3)
    state.reset({"past": s.cache(1)})
    assert state.values["past"] == s.cache_message(1)
    state.reset({})
    assert state.values["past"] == s.cache_message(3)


def test_dense_and_encoded_initializers_are_no_initial_values() -> None:
    """Rule 3.5.4; S090."""
    dense = helper.make_tensor("past", s.FLOAT, [2], [1.0, 2.0])
    for more in ({"initializer": [dense]}, {"encoded_initializer": [s.affine([1, 2], [2], name="past")]}):
        model = s.keep(s.tensor([2]), **more)
        with pytest.raises(refeed.ValueTypeError, match="missing initial whole input `past`"):
            s.state(model, {})
        assert s.state(model, {"past": floats(2)}).run(TICK)["present"].numpy().tolist() == [0, 1]


def test_initial_values_share_one_symbol_table() -> None:
    """Rule 3.5.5."""
    ty = s.tensor(["n", 2])
    model = s.model(
        [NODE("Identity", ["a"], ["c"]), NODE("Identity", ["b"], ["d"])],
        {"a": s.struct(x=ty), "b": s.sequence(ty)},
        {"c": s.struct(x=ty), "d": s.sequence(ty)},
        {"a": "c", "b": "d"},
    )
    s.state(model, {"a": {"x": floats(3, 2)}, "b": [floats(3, 2)]})
    with pytest.raises(refeed.ValueTypeError, match=r"`b\[1\]`: symbolic shape mismatch, `n` is 3"):
        s.state(model, {"a": {"x": floats(3, 2)}, "b": [floats(3, 2), floats(4, 2)]})


def test_a_failed_reset_leaves_the_retained_values() -> None:
    """Rule 3.5.6; S095."""
    state = s.state(s.keep(s.struct(a=s.tensor([2]), b=s.sequence(s.tensor([1])))), {"past": {"a": floats(2), "b": []}})
    before = s.addresses(state.values)
    wrong: list[dict[str, Any]] = [
        {},
        {"past": {"a": floats(2)}},
        {"past": {"a": floats(2), "b": [floats(2)]}},
        {"other": 1},
    ]
    for bad in wrong:
        with pytest.raises((refeed.ValueTypeError, TypeError)):
            state.reset(bad)
        assert s.addresses(state.values) == before
    assert s.plain(state.run(TICK)["present"]) == {"a": [0, 1], "b": []}


class _Untouchable:
    """A value that must not be looked at."""

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("the value was read")

    def __dlpack_device__(self) -> Any:
        raise AssertionError("the value was read")


@pytest.mark.parametrize(
    "broken",
    [
        s.model([NODE("Identity", ["past"], ["present"])], {"past": s.tensor([2])}, {"present": s.tensor([2])}),
        s.model(
            [NODE("Add", ["past", "past"], ["present"])],
            {"past": s.tensor([2])},
            {"present": s.tensor([2])},
            {"past": "present"},
        ),
        s.keep(helper.make_tensor_type_proto(8, [1])),
        s.keep(s.reference(5)),
    ],
    ids=["no binding", "two uses", "strings", "no such type"],
)
def test_declarations_are_checked_before_any_initial_value_is_read(broken: Any) -> None:
    """Rules 3.1.7, 3.1.8; S079."""
    with pytest.raises(refeed.Error):
        s.state(broken, {"past": _Untouchable()})


# ------------------------------------------------------------------------------------------------ feeds


def test_unknown_graph_inputs_are_refused() -> None:
    """Rule 3.6.1; S060."""
    state = s.state(s.keep(s.struct(a=s.tensor([2]))), {"past": {"a": floats(2)}})
    with pytest.raises(refeed.ValueTypeError, match=r"unknown graph input `past\.a`"):
        state.run({**TICK, "past.a": floats(2)})


@pytest.mark.parametrize("value", [{}, [], {"a": floats(2)}, floats(2)])
def test_feeds_override_no_retained_input_whatever_the_value(value: Any) -> None:
    """Rule 3.6.2; S092."""
    state = s.state(s.keep(s.struct(a=s.tensor([2]))), {"past": {"a": floats(2)}})
    with pytest.raises(refeed.ValueTypeError, match="override retained input `past`"):
        state.run({**TICK, "past": value})


def test_missing_current_inputs_are_named() -> None:
    """Rule 3.6.3; S091."""
    state = s.state(s.forward(s.struct(a=s.tensor([2]))), {"past": floats(2)})
    with pytest.raises(refeed.ValueTypeError, match="missing current input `x`"):
        state.run({"d": floats(2)})


def test_inputs_default_to_initializers_of_every_kind_and_feeds_override_them_once() -> None:
    """Rules 3.6.3, 7.4.1; S233, S236."""
    cases: list[tuple[Any, dict[str, Any], Any, Any]] = [
        (s.tensor([2]), {"initializer": [helper.make_tensor("x", s.FLOAT, [2], [5.0, 6.0])]}, floats(2), None),
        (s.tensor([2]), {"encoded_initializer": [s.affine([5, 6], [2], name="x")]}, s.affine([1, 2], [2]), None),
        (s.any_cache(), {"paged_cache_initializer": [s.cache_message(2, "x")]}, s.cache(1), None),
    ]
    told = {
        "initializer": ([5, 6], [0, 1]),
        "encoded_initializer": (s.affine([5, 6], [2], name="x"), s.affine([1, 2], [2])),
        "paged_cache_initializer": (s.cache_message(2), s.cache_message(1)),
    }
    for ty, more, feed, _ in cases:
        state = s.state(s.forward(ty, **more), {"past": floats(2)})
        default, fed = told[next(iter(more))]
        for given, expected in [({}, default), ({"x": feed}, fed), ({}, default)]:
            got = state.run({"d": floats(2), **given})["y"]
            if isinstance(expected, list):
                assert got.numpy().tolist() == expected
            else:
                assert got == expected
        session = refeed.RuntimeSession(s.forward(ty, **more))
        got = session.run({"d": floats(2), "past": floats(2)})["y"]
        assert (got.numpy().tolist() if isinstance(default, list) else got) == default


def test_feeds_are_checked_even_when_they_are_only_forwarded() -> None:
    """Rule 3.6.4."""
    state = s.state(s.forward(s.struct(a=s.tensor(["n"]), b=s.tensor(["n"]))), {"past": floats(2)})
    with pytest.raises(refeed.ValueTypeError, match=r"input `x\.b`: symbolic shape mismatch, `n` is 2"):
        state.run({"d": floats(2), "x": {"a": floats(2), "b": floats(3)}})
    assert state.values["past"].numpy().tolist() == [0, 1]
    out = state.run({"d": floats(2), "x": {"a": floats(3), "b": floats(3)}})
    assert s.plain(out["y"]) == {"a": [0, 1, 2], "b": [0, 1, 2]}


def test_one_table_of_symbols_serves_the_inputs_and_outputs_of_a_call() -> None:
    """Rule 3.6.5."""
    model = s.model(
        [NODE("Identity", ["past"], ["present"]), NODE("Concat", ["x", "x"], ["y"], axis=0)],
        {"past": s.tensor(["n"]), "x": s.tensor(["m"])},
        {"present": s.tensor(["n"]), "y": s.tensor(["n"])},
        {"past": "present"},
    )
    state = s.state(model, {"past": floats(4)})
    assert state.run({"x": floats(2)})["y"].shape == (4,)
    with pytest.raises(refeed.ValueTypeError, match="output `y`: symbolic shape mismatch, `n` is 4 elsewhere"):
        state.run({"x": floats(3)})


# ------------------------------------------------------------------------------- values and declarations


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ({"a": floats(2)}, "`x`: missing field `b`"),
        ({"a": floats(2), "b": [], "c": floats(1)}, "`x`: unexpected structured field `c`"),
        ({"a": floats(2), "b": floats(1)}, r"`x\.b`: expected a sequence, got a tensor"),
        ({"a": [], "b": []}, r"`x\.a`: expected a tensor, got a sequence"),
        ({"a": floats(2), "b": [floats(2)]}, r"`x\.b\[0\]`: expected a structured value, got a tensor"),
        ([], "`x`: expected a structured value, got a sequence"),
        ({"a": floats(2).astype(np.float64), "b": []}, r"`x\.a`: dtype mismatch, expected FLOAT, got DOUBLE"),
        ({"a": floats(2, 1), "b": []}, r"`x\.a`: rank mismatch, expected 1 axes"),
        ({"a": floats(2), "b": [{"k": floats(2, 3)}, {"k": floats(2, 4)}]}, r"`x\.b\[1\]\.k`: shape mismatch"),
        ({"a": floats(2), "b": [{"k": floats(1, 3)}]}, r"`x\.b\[0\]\.k`: symbolic shape mismatch, `n` is 2"),
        ({"a": s.affine([1], [1, 1]), "b": []}, r"`x\.a`: rank mismatch"),
    ],
)
def test_values_fit_their_declarations_part_by_part(value: Any, match: str) -> None:
    """Rules 3.7.1, 3.7.6, 3.7.7, 3.7.8; S061."""
    ty = s.struct(a=s.tensor(["n"]), b=s.sequence(s.struct(k=s.tensor(["n", 3]))))
    state = s.state(s.forward(ty), {"past": floats(2)})
    with pytest.raises(refeed.ValueTypeError, match=match):
        state.run({"d": floats(2), "x": value})


def test_references_lead_to_the_models_struct_types() -> None:
    inner = s.layout(k=s.tensor(["n", 3]))
    model = s.forward(s.sequence(s.reference(7)), entries={7: inner})
    state = s.state(model, {"past": floats(2)})
    assert s.plain(state.run({"d": floats(2), "x": [{"k": floats(1, 3)}]})["y"]) == [{"k": [[0, 1, 2]]}]
    with pytest.raises(refeed.ValueTypeError, match=r"`x\[0\]`: missing field `k`"):
        state.run({"d": floats(2), "x": [{}]})


def test_structs_without_a_kind_take_caches_only() -> None:
    """Rule 3.7.9; S128."""
    state = s.state(s.forward(s.any_cache()), {"past": floats(2)})
    assert state.run({"d": floats(2), "x": {"blocks": []}})["y"] == onnx.PagedCacheProto()
    for bad in ({"a": floats(2)}, {"blocks": floats(2)}, {"blocks": [{"start": floats(1)}]}):
        with pytest.raises(refeed.ValueTypeError, match="`x"):
            state.run({"d": floats(2), "x": bad})


def test_pages_of_a_cache_follow_each_other() -> None:
    state = s.state(s.keep(s.any_cache()), {"past": s.cache(2)})
    gap = s.cache(3)
    gap["blocks"][2]["start"] = np.array(5)
    with pytest.raises(refeed.ValueTypeError, match=r"`past\.blocks\[2\]\.start`: expected 4, got 5"):
        state.reset({"past": gap})
    long = s.cache(3)
    long["blocks"][1]["length"] = np.array(3)
    with pytest.raises(refeed.ValueTypeError, match=r"`past\.blocks\[1\]\.length`: expected at most 2"):
        state.reset({"past": long})
    assert state.run(TICK)["present"] == s.cache_message(2)


def test_encoded_values_stand_where_tensors_are_declared() -> None:
    """Rule 3.7.4; S119."""
    code = s.affine([2, -4, 6], [3])
    state = s.state(s.keep(s.tensor(["n"])), {"past": code})
    assert state.run(TICK)["present"] == code
    assert state.values["past"] == code
    with pytest.raises(refeed.ValueTypeError, match="`past`: dtype mismatch, expected FLOAT16, got FLOAT"):
        s.state(s.keep(s.tensor(["n"], s.FLOAT16)), {"past": code})


def test_operators_on_tensors_refuse_encoded_ones() -> None:
    """Rule 7.4.2; S245."""
    model = s.model([NODE("Neg", ["x"], ["y"])], {"x": s.tensor([3])}, {"y": s.tensor([3])})
    session = refeed.RuntimeSession(model)
    assert session.run({"x": floats(3)})["y"].numpy().tolist() == [0, -1, -2]
    with pytest.raises(refeed.Error, match="expected a tensor, got an encoded value"):
        session.run({"x": s.affine([1, 2, 3], [3])})


def test_nested_graphs_have_initializers_of_every_kind() -> None:
    """Rules 4.5.1, 7.4.1: in branches, and captured from a branch inside of a loop's body."""

    def branch(kind: str, ty: Any, value: Any) -> Any:
        graph = helper.make_graph([NODE("Identity", ["w"], ["out"])], "b", [], [helper.make_value_info("out", ty)])
        getattr(graph, kind).append(value)
        return graph

    code, cache = s.affine([5, 6, -7], [3], name="w"), s.cache_message(2, "w")
    dense = helper.make_tensor("w", s.FLOAT, [3], [1.0, 2.0, 3.0])
    ten = s.tensor([3])
    choice = s.model(
        [
            NODE(
                "If",
                ["c"],
                ["y"],
                then_branch=branch("encoded_initializer", ten, code),
                else_branch=branch("initializer", ten, dense),
            ),
            NODE(
                "If",
                ["c"],
                ["z"],
                then_branch=branch("paged_cache_initializer", s.any_cache(), cache),
                else_branch=branch("paged_cache_initializer", s.any_cache(), s.cache_message(0, "w")),
            ),
        ],
        {"c": helper.make_tensor_type_proto(9, [])},
        {"y": ten, "z": s.any_cache()},
    )
    session = refeed.RuntimeSession(choice)
    for _ in range(2):
        out = session.run({"c": np.array(True)})
        assert (out["y"], out["z"]) == (s.affine([5, 6, -7], [3], name="w"), s.cache_message(2))
        out = session.run({"c": np.array(False)})
        assert (out["y"].numpy().tolist(), out["z"]) == ([1, 2, 3], onnx.PagedCacheProto())

    inner = branch("initializer", ten, dense)
    inner.node[0].input[0] = "outer"
    del inner.initializer[:]
    body = helper.make_graph(
        [
            NODE("Identity", ["go"], ["on"]),
            NODE("If", ["go"], ["next"], then_branch=inner, else_branch=branch("initializer", ten, dense)),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", s.INT64, []),
            helper.make_tensor_value_info("go", 9, []),
            helper.make_value_info("held", ten),
        ],
        [helper.make_tensor_value_info("on", 9, []), helper.make_value_info("next", ten)],
    )
    body.encoded_initializer.append(s.affine([1, 2, 3], [3], name="outer"))
    loop = s.model(
        [NODE("Loop", ["trips", "", "x"], ["y"], body=body)],
        {"trips": helper.make_tensor_type_proto(s.INT64, []), "x": ten},
        {"y": ten},
    )
    session = refeed.RuntimeSession(loop)
    assert session.run({"trips": np.array(0), "x": floats(3)})["y"].numpy().tolist() == [0, 1, 2]
    assert session.run({"trips": np.array(2), "x": floats(3)})["y"] == s.affine([1, 2, 3], [3], name="outer")


def test_an_initializer_of_a_nested_graph_that_breaks_a_rule_is_told() -> None:
    bad = s.affine([1], [3], name="w")
    graph = helper.make_graph(
        [NODE("Identity", ["w"], ["out"])], "b", [], [helper.make_value_info("out", s.tensor([3]))]
    )
    graph.encoded_initializer.append(bad)
    model = s.model(
        [NODE("If", ["c"], ["y"], then_branch=graph, else_branch=graph)],
        {"c": helper.make_tensor_type_proto(9, [])},
        {"y": s.tensor([3])},
    )
    with pytest.raises(refeed.ModelError, match="raw_data"):
        refeed.RuntimeSession(model)


# ---------------------------------------------------------------------------------- outputs and retention


def test_a_struct_state_is_handed_on_without_a_copy() -> None:
    """Through a model-local function and through `If`, leaf by leaf the memory of the caller's arrays.

    Rules 4.4.1, 4.5.1; S015, S129.
    """
    ty = s.struct(a=s.tensor([2]), b=s.sequence(s.struct(k=s.tensor([1, 3]))))
    branch = helper.make_graph([NODE("Identity", ["past"], ["out"])], "branch", [], [helper.make_value_info("out", ty)])
    zero = helper.make_graph([NODE("Identity", ["other"], ["out2"])], "other", [], [helper.make_value_info("out2", ty)])
    model = s.model(
        [
            NODE("If", ["yes"], ["held"], then_branch=branch, else_branch=zero),
            NODE("Pass", ["held"], ["present"], domain="local"),
        ],
        {"past": ty, "other": ty, "yes": helper.make_tensor_type_proto(9, [])},
        {"present": ty},
        {"past": "present"},
    )
    opsets = [helper.make_opsetid("", 20)]
    function = helper.make_function("local", "Pass", ["i"], ["o"], [NODE("Identity", ["i"], ["o"])], opsets)
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("local", 1))
    initial = {"a": floats(2), "b": [{"k": floats(1, 3, start=9)}, {"k": floats(1, 3)}]}
    other = {"a": floats(2, start=5), "b": []}
    state = s.state(model, {"past": initial})
    given = s.addresses(initial)
    for _ in range(3):
        out = state.run({"yes": np.array(True), "other": other})["present"]
        assert s.addresses(out) == s.addresses(state.values["past"]) == given
    # A value that is fed is not kept in memory that the caller may refill for the next call.
    out = state.run({"yes": np.array(False), "other": other})["present"]
    assert s.addresses(out) == s.addresses(state.values["past"]) != s.addresses(other)
    other["a"][:] = 77
    assert s.plain(state.values["past"]) == {"a": [5, 6], "b": []}


def test_outputs_share_no_memory_with_feeds_unless_handed_straight_through() -> None:
    """Rule 4.2.10; S083."""
    ty = s.sequence(s.tensor([2]))
    model = s.model(
        [NODE("Identity", ["x"], ["same"]), NODE("SequenceInsert", ["x", "more"], ["longer"])],
        {"x": ty, "more": s.tensor([2])},
        {"same": ty, "longer": ty},
    )
    feed, more = [floats(2), floats(2, start=4)], floats(2, start=8)
    out = refeed.RuntimeSession(model).run({"x": feed, "more": more})
    assert s.addresses(out["same"]) == s.addresses(feed)
    assert not set(s.addresses(out["longer"])) & set(s.addresses([*feed, more]))
    for refilled in [*feed, more]:
        refilled[:] = -1
    assert s.plain(out["longer"]) == [[0, 1], [4, 5], [8, 9]]


def test_a_sequence_state_grows_and_shares_its_elements() -> None:
    """Rule 7.3.1; S244."""
    ty = s.sequence(s.tensor([2]))
    model = s.model(
        [NODE("SequenceInsert", ["past", "x"], ["present"])],
        {"past": ty, "x": s.tensor([2])},
        {"present": ty},
        {"past": "present"},
    )
    first = [floats(2, start=step) for step in range(3)]
    state = s.state(model, {"past": first})
    buffer, held, outputs = floats(2), s.addresses(first), []
    for step in range(40):
        buffer[:] = step
        outputs.append(state.run({"x": buffer})["present"])
        addresses = s.addresses(outputs[-1])
        assert addresses[:-1] == held
        held = addresses
    expected = [[float(step), step + 1.0] for step in range(3)] + [[float(step)] * 2 for step in range(40)]
    for step, output in enumerate(outputs):
        assert s.plain(output) == expected[: step + 4]
    assert s.plain(state.values["past"]) == expected
    state.close()
    assert s.plain(outputs[-1]) == expected


def test_a_step_that_fails_publishes_nothing_of_a_struct() -> None:
    """Rules 3.8.2, 4.2.5; S094."""
    ty = s.struct(a=s.tensor(["n"]))
    model = s.model(
        [NODE("Identity", ["x"], ["present"]), NODE("Identity", ["past"], ["before"])],
        {"past": ty, "x": s.struct(a=s.tensor([None]))},
        {"present": s.struct(a=s.tensor([2])), "before": ty},
        {"past": "present"},
    )
    state = s.state(model, {"past": {"a": floats(2)}})
    before = s.addresses(state.values["past"])
    with pytest.raises(refeed.ValueTypeError, match=r"output `present\.a`: shape mismatch"):
        state.run({"x": {"a": floats(3)}})
    assert s.addresses(state.values["past"]) == before
    out = state.run({"x": {"a": floats(2, start=4)}})
    assert s.plain(out) == {"present": {"a": [4, 5]}, "before": {"a": [0, 1]}}
    assert s.plain(state.values["past"]) == {"a": [4, 5]}


def test_a_bound_output_must_fit_the_input_that_it_feeds_and_the_last_may_fail_still() -> None:
    """Rules 3.8.3, 4.2.5; S094."""
    model = s.model(
        [NODE("Identity", ["x"], ["first"]), NODE("Identity", ["y"], ["second"]), NODE("Add", ["a", "b"], ["sum"])],
        {"a": s.tensor([2]), "b": s.tensor([2]), "x": s.tensor([None]), "y": s.tensor([None])},
        {"first": s.tensor([None]), "second": s.tensor([None]), "sum": s.tensor([2])},
        {"a": "first", "b": "second"},
    )
    state = s.state(model, {"a": floats(2), "b": floats(2)})
    before = s.addresses(state.values)
    # Both outputs fit their own declarations; the second does not fit what it would be next time.
    with pytest.raises(refeed.ValueTypeError, match="retained input `b`: shape mismatch"):
        state.run({"x": floats(2, start=7), "y": floats(3)})
    assert s.addresses(state.values) == before
    out = state.run({"x": floats(2, start=7), "y": floats(2, start=1)})
    assert s.plain(out["sum"]) == [0, 2]
    assert s.plain(state.values) == {"a": [7, 8], "b": [1, 2]}


def test_a_sequence_of_encoded_values_is_handed_on_as_it_is() -> None:
    """Rule 7.3.2; S245."""
    ty = s.struct(frames=s.sequence(s.sequence(s.tensor([2]))), more=s.tensor([1]))
    for declared, value in [
        (s.sequence(s.tensor([3])), [s.affine([1, 2, 3], [3]), floats(3)]),
        (ty, {"frames": [[floats(2)], [s.affine([1, 2], [2]), floats(2)]], "more": floats(1)}),
    ]:
        state = s.state(s.keep(declared), {"past": value})
        for _ in range(2):
            out = state.run(TICK)["present"]
            held = out[0] if isinstance(out, list) else out["frames"][1][0]
            assert isinstance(held, onnx.EncodedValueProto)
        assert isinstance(state.values["past"], type(value))


def test_values_outlive_their_state() -> None:
    """Rule 4.4.2; S069."""
    state = s.state(
        s.keep(s.struct(a=s.tensor([2]), c=s.tensor([3]))), {"past": {"a": floats(2), "c": s.affine([1, 2, 3], [3])}}
    )
    values, out = state.values, state.run(TICK)
    state.close()
    del state
    for value in (values["past"], out["present"]):
        assert value["a"].numpy().tolist() == [0, 1]
        assert value["c"] == s.affine([1, 2, 3], [3])


def test_a_closed_state_reads_no_values() -> None:
    """Rule 4.1.2; S250."""
    state = s.state(s.keep(s.struct(a=s.tensor([2]))), {"past": {"a": floats(2)}})
    state.close()
    with pytest.raises(refeed.StateClosedError):
        state.run({**TICK, "past": {"a": object()}})
    with pytest.raises(refeed.StateClosedError):
        state.reset({"past": {"a": object()}})
    with pytest.raises(refeed.StateClosedError):
        _ = state.values


# ------------------------------------------------------------------------------------ values in Python


def test_kinds_come_back_as_they_went_in() -> None:
    """Rules 3.2.4, 7.1.1; S112, S115."""
    ty = s.struct(
        t=s.tensor([2]), q=s.tensor([3]), l=s.sequence(s.sequence(s.tensor([1]))), e=s.sequence(s.tensor([1]))
    )
    value = {"t": floats(2), "q": s.affine([1, 2, 3], [3]), "l": [[floats(1)], []], "e": []}
    state = s.state(s.keep(ty), {"past": value})
    for got in (state.values["past"], state.run(TICK)["present"]):
        assert list(got) == ["t", "q", "l", "e"]
        assert isinstance(got["t"], refeed.runtime.Tensor)
        assert isinstance(got["q"], onnx.EncodedValueProto)
        assert s.plain(got["l"]) == [[[0.0]], []]
        assert got["e"] == []
        state.reset({"past": got})


def test_caches_come_back_as_messages_and_can_be_fed_again() -> None:
    """Rules 7.1.5, 7.1.6; S206, S208."""
    state = s.state(s.keep(s.any_cache()), {"past": s.cache(3)})
    message = state.run(TICK)["present"]
    assert isinstance(message, onnx.PagedCacheProto)
    assert message == s.cache_message(3)
    other = s.state(s.keep(s.any_cache()), {"past": message})
    assert other.values["past"] == message
    inside = s.state(s.keep(s.struct(c=s.any_cache(), a=s.tensor([2]))), {"past": {"c": message, "a": floats(2)}})
    assert inside.values["past"]["c"] == message


def test_payloads_are_shared_with_python() -> None:
    """Rules 4.4.1, 7.3.3; S126."""
    value = {"a": floats(2), "b": [floats(1, 3), np.array(4, np.float32)]}
    ty = s.struct(a=s.tensor([2]), b=s.sequence(s.tensor(None)))
    state = s.state(s.keep(ty), {"past": value})
    assert s.addresses(state.values["past"]) == s.addresses(value)
    tensors = state.values["past"]
    again = s.state(s.keep(ty), {"past": tensors})
    assert s.addresses(again.values["past"]) == s.addresses(value)


def _cyclic() -> Any:
    inner: list[Any] = []
    inner.append(inner)
    return {"a": inner}


def _cyclic_dict() -> Any:
    inner: dict[str, Any] = {}
    inner["a"] = inner
    return inner


def _deep(levels: int) -> Any:
    value: Any = floats(1)
    for _ in range(levels):
        value = [value]
    return value


def _doubling(levels: int) -> Any:
    value: Any = [floats(1)]
    for _ in range(levels):
        value = [value, value]
    return value


class _Unwilling:
    """As a tensor that requires a gradient is."""

    def __dlpack__(self, **_: Any) -> Any:
        raise BufferError("detach it first")

    def __dlpack_device__(self) -> Any:
        return (1, 0)


@pytest.mark.parametrize(
    ("value", "error", "match"),
    [
        ({"a": "text"}, TypeError, r"feed `x\.a`: expected a tensor.*got str"),
        ({"a": [floats(1), "text"]}, TypeError, r"feed `x\.a\[1\]`: .*got str"),
        ({"a": np.array(["text"])}, ValueError, r"`x\.a`: dtype mismatch, expected FLOAT, got STRING"),
        ({"a": np.array([floats(1), None], object)}, TypeError, r"feed `x\.a`: .*Python objects"),
        ({"a": (floats(1),)}, TypeError, r"feed `x\.a`: .*got tuple"),
        ({"a": {1.0}}, TypeError, r"feed `x\.a`: .*got set"),
        ({"a": iter([floats(1)])}, TypeError, r"feed `x\.a`"),
        ({"a": 1.5}, TypeError, r"feed `x\.a`: .*got float"),
        ({"a": None}, TypeError, r"feed `x\.a`: .*got NoneType"),
        ({"a": {1: floats(1)}}, TypeError, r"feed `x\.a`: expected names as keys"),
        ({"a": floats(4)[::2]}, TypeError, r"feed `x\.a`: .*contiguous"),
        ({"a": floats(2, 3).T}, TypeError, r"feed `x\.a`: .*contiguous"),
        ({"a": floats(2).astype(">f4")}, ValueError, r"feed `x\.a`: .*byte order"),
        (_cyclic(), ValueError, r"nested deeper than 64, or it contains itself"),
        (_cyclic_dict(), ValueError, r"nested deeper than 64, or it contains itself"),
        ({"a": _deep(64)}, ValueError, r"nested deeper than 64"),
        ({"a": onnx.TensorProto()}, TypeError, r"feed `x\.a`"),
    ],
)
def test_what_stands_for_no_value_is_refused_with_its_path(value: Any, error: type, match: str) -> None:
    """Rules 4.4.9, 7.1.1, 7.3.3; S065, S066, S067, S127."""
    state = s.state(s.forward(s.struct(a=s.tensor([2]))), {"past": floats(2)})
    with pytest.raises(error, match=match):
        state.run({"d": floats(2), "x": value})
    assert state.values["past"].numpy().tolist() == [0, 1]


def test_values_nested_as_deep_as_a_file_can_declare_are_read() -> None:
    levels, ty = 46, s.tensor([1])
    for _ in range(levels):
        ty = s.sequence(ty)
    state = s.state(s.keep(ty), {"past": _deep(levels)})
    got = state.run(TICK)["present"]
    for _ in range(levels):
        (got,) = got
    assert got.numpy().tolist() == [0]


def test_small_lists_that_stand_for_more_than_any_memory_are_refused() -> None:
    state = s.state(s.keep(s.sequence(s.tensor([1]))), {"past": []})
    with pytest.raises(refeed.ValueTypeError, match="more than 4194304 values"):
        state.reset({"past": _doubling(60)})


def test_an_exception_of_a_producer_stays_and_tells_the_place() -> None:
    """S068."""
    state = s.state(s.forward(s.struct(a=s.tensor([2]))), {"past": floats(2)})
    with pytest.raises(BufferError, match="detach it first") as caught:
        state.run({"d": floats(2), "x": {"a": _Unwilling()}})
    assert getattr(caught.value, "__notes__", ["while reading feed `x.a`"]) == ["while reading feed `x.a`"]


def test_messages_are_checked_when_they_are_read() -> None:
    """Rules 3.6.4, 3.7.10; S117, S248."""
    state = s.state(s.forward(s.struct(a=s.tensor([2]))), {"past": floats(2)})
    short = s.affine([1], [2])
    symbolic = s.affine([1, 2], [2])
    symbolic.logical_type.tensor_type.shape.dim[0].Clear()
    symbolic.logical_type.tensor_type.shape.dim[0].dim_param = "n"
    stray = s.affine([1, 2], [2])
    stray.parameter_ref = "nowhere"
    bare = onnx.EncodedValueProto()
    for bad in (short, symbolic, stray, bare):
        with pytest.raises(refeed.ValueTypeError, match=r"feed `x\.a`: "):
            state.run({"d": floats(2), "x": {"a": bad}})
    gap = s.cache_message(2)
    gap.blocks[1].start = 3
    cached = s.state(s.forward(s.any_cache()), {"past": floats(2)})
    with pytest.raises(refeed.ValueTypeError, match=r"feed `x`: .*start"):
        cached.run({"d": floats(2), "x": gap})


def test_a_dictionary_that_changes_while_it_is_read_is_read_as_it_was() -> None:
    value: dict[str, Any] = {}

    class Meddler:
        def __dlpack__(self, **_: Any) -> Any:
            value.clear()
            return floats(2).__dlpack__()

        def __dlpack_device__(self) -> Any:
            return (1, 0)

    value.update(a=Meddler(), b=floats(2))
    state = s.state(s.forward(s.struct(a=s.tensor([2]), b=s.tensor([2]))), {"past": floats(2)})
    assert s.plain(state.run({"d": floats(2), "x": value})["y"]) == {"a": [0, 1], "b": [0, 1]}


# ----------------------------------------------------------------------------------------- declarations


@pytest.mark.parametrize("where", [lambda ty: ty, s.sequence, lambda ty: s.struct(a=s.tensor([1]), b=ty)])
def test_kinds_without_values_are_refused_when_the_session_is_built(where: Any) -> None:
    """Rule 3.2.3; S118."""
    sparse = helper.make_sparse_tensor_type_proto(s.FLOAT, [2])
    mapped = helper.make_map_type_proto(s.INT64, s.tensor([1]))
    for ty, what in ((sparse, "sparse"), (mapped, "map")):
        model = s.model([NODE("Identity", ["x"], ["y"])], {"x": where(ty)}, {"y": where(ty)})
        with pytest.raises(refeed.ModelError, match=what):
            refeed.RuntimeSession(model)


@pytest.mark.parametrize("where", [lambda ty: ty, s.sequence, lambda ty: s.struct(a=s.tensor([1]), b=ty)])
def test_strings_are_no_state_wherever_they_stand(where: Any) -> None:
    """Rule 3.2.1; S077."""
    with pytest.raises(refeed.ModelError, match="String tensors cannot be persistent"):
        s.state(s.keep(where(helper.make_tensor_type_proto(8, [1]))), {"past": floats(1)})
