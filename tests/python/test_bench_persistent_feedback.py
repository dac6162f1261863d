"""`benches/bench_persistent_feedback.py`: its table, and that it fails when a step is wrong."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest


@pytest.fixture(scope="module")
def bench(root: pathlib.Path) -> Any:
    path = root / "benches" / "bench_persistent_feedback.py"
    spec = importlib.util.spec_from_file_location("bench_persistent_feedback", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def column(result: dict[str, Any], name: str) -> list[Any]:
    return [row[name] for row in result["tokens"]]


def test_four_tokens_cost_what_is_promised(root: pathlib.Path) -> None:
    """S017, S018, S019, S020, S023, S024, S025, S026."""
    command = [sys.executable, "benches/bench_persistent_feedback.py", "--tokens", "4"]
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True, timeout=120)  # noqa: S603
    result = json.loads(ended.stdout)
    assert column(result, "token") == [1, 2, 3, 4]
    assert column(result, "retained_logical_bytes") == [16, 32, 48, 64]
    assert column(result, "event_workspace_peak_bytes") == [0, 0, 0, 0]
    assert column(result, "kernel_allocations") == [2, 0, 0, 0]
    assert column(result, "kernel_allocated_bytes") == [64, 0, 0, 0]
    assert column(result, "kernel_prefix_copied_bytes") == [0, 0, 0, 0]
    assert column(result, "kernel_append_copied_bytes") == [16, 16, 16, 16]
    assert column(result, "kernel_reuse_count") == [0, 2, 2, 2]
    assert all(column(result, "numerically_equal"))
    assert all(column(result, "pointers_identical"))
    for side in ("stateful", "stateless"):
        assert all(isinstance(ns, int) and ns > 0 for ns in column(result, f"{side}_ns"))
        assert result["setup_ns"][side] > 0
    assert {"source_revision", "target_revision"} <= result.keys()
    assert result["model"]["bindings"] == [["past_key", "present_key"], ["past_value", "present_value"]]
    assert len(result["model"]["sha256"]) == 64
    assert result["execution_policy"]["persistent_tensor_initial_capacity"] == 4
    # That the state layer copies nothing is shown by identity, so there is no such counter.
    assert not any("payload" in key for row in result["tokens"] for key in row)


def test_revisions_are_commits_or_nothing(bench: Any) -> None:
    """S018."""
    assert bench.revision("no/such/revision") is None
    head = bench.revision("HEAD")
    assert head is None or len(head) == 40


def test_workspace_is_what_neither_results_nor_caches_hold(bench: Any) -> None:
    """S024."""

    class Event(NamedTuple):
        allocated_bytes: int
        peak_bytes: int

    assert bench.workspace_peak([Event(64, 100), Event(96, 100), Event(80, 100)]) == 16
    # A kernel's own scratch memory shows in the peak alone.
    assert bench.workspace_peak([Event(64, 100), Event(96, 150), Event(80, 150)]) == 70
    assert bench.workspace_peak([Event(64, 100), Event(80, 100)]) == 0


@pytest.mark.parametrize("tokens", [1, 17])
def test_any_number_of_tokens(bench: Any, tokens: int) -> None:
    """S017, S020, S023."""
    result = bench.measure(tokens, bench.attention_model())
    assert column(result, "retained_logical_bytes") == [16 * (step + 1) for step in range(tokens)]
    assert sum(column(result, "kernel_allocated_bytes")) == 16 * tokens


def test_only_the_bindings_say_what_is_handed_back(bench: Any) -> None:
    """S021."""
    model = bench.attention_model()
    names = {"past_key": "a", "present_key": "z", "past_value": "m", "present_value": "b"}
    node = model.graph.node[0]
    for i, name in enumerate(list(node.input)):
        node.input[i] = names.get(name, name)
    for i, name in enumerate(list(node.output)):
        node.output[i] = names.get(name, name)
    for value in [*model.graph.input, *model.graph.output]:
        value.name = names.get(value.name, value.name)
    for binding in model.graph.persistent_bindings:
        binding.input_name, binding.output_name = names[binding.input_name], names[binding.output_name]
    result = bench.measure(3, model)
    assert column(result, "retained_logical_bytes") == [16, 32, 48]


def wrong(outputs: dict[str, Any], name: str) -> dict[str, Any]:
    return {**outputs, name: np.array(outputs[name].numpy() + 0.01, np.float32)}


@pytest.mark.parametrize("name", ["attended", "present_key", "present_value"])
@pytest.mark.parametrize("side", ["stateful", "stateless"])
def test_a_wrong_value_fails_the_run(bench: Any, name: str, side: str) -> None:
    """S022."""

    class Stateful(bench.Stateful):  # type: ignore[misc]
        def step(self, fed: dict[str, Any]) -> dict[str, Any]:
            return wrong(super().step(fed), name)

    class Stateless(bench.Stateless):  # type: ignore[misc]
        def step(self, fed: dict[str, Any]) -> dict[str, Any]:
            return wrong(super().step(fed), name)

    makers = {"make_stateful": Stateful} if side == "stateful" else {"make_stateless": Stateless}
    with pytest.raises(bench.CheckFailedError, match=f"token 1: {side} output `{name}`"):
        bench.measure(4, bench.attention_model(), **makers)


def test_a_copy_fails_the_run(bench: Any) -> None:
    """S022, S026."""

    class Copies(bench.Stateful):  # type: ignore[misc]
        def retained(self) -> dict[str, Any]:
            return {name: np.from_dlpack(tensor).copy() for name, tensor in super().retained().items()}

    with pytest.raises(bench.CheckFailedError, match="retains a copy of `present_key`"):
        bench.measure(4, bench.attention_model(), make_stateful=Copies)


def test_a_cache_that_moves_fails_the_run(bench: Any) -> None:
    """S022."""

    class Moves(bench.Stateful):  # type: ignore[misc]
        def step(self, fed: dict[str, Any]) -> dict[str, Any]:
            outputs: dict[str, Any] = super().step(fed)
            self.moved = {name: np.from_dlpack(outputs[output]).copy() for name, output in self.bindings}
            return {**outputs, **{output: self.moved[name] for name, output in self.bindings}}

        def retained(self) -> dict[str, Any]:
            return self.moved

    with pytest.raises(bench.CheckFailedError, match=r"token 2: .*the caches moved"):
        bench.measure(4, bench.attention_model(), make_stateful=Moves)


def test_a_failed_run_ends_with_one(bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(bench, "formula", lambda *_: np.ones((1, 1, 1, bench.WIDTH)))
    assert bench.main(["--tokens", "2"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "token 1: stateful output `attended`" in captured.err


def test_the_file_alone_is_enough(root: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """S018, S026: outside of any repository, without a model file or a network, and with no revision to tell."""
    alone = tmp_path / "bench_persistent_feedback.py"
    alone.write_bytes((root / "benches" / alone.name).read_bytes())
    guard = (
        "import runpy, sys\n"
        "def refuse(event, arguments):\n"
        "    if event in ('socket.connect', 'socket.getaddrinfo', 'urllib.Request'):\n"
        "        raise RuntimeError(event)\n"
        "    if event == 'open' and str(arguments[0]).endswith(('.onnx', '.bin', '.npz', '.safetensors')):\n"
        "        raise RuntimeError(arguments[0])\n"
        "sys.addaudithook(refuse)\n"
        f"sys.argv = [{str(alone)!r}, '--tokens', '2']\n"
        f"runpy.run_path({str(alone)!r}, run_name='__main__')\n"
    )
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    command = [sys.executable, "-c", guard]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    result = json.loads(ended.stdout)
    assert (result["source_revision"], result["target_revision"]) == (None, None)
    assert column(result, "token") == [1, 2]
