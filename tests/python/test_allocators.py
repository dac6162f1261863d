"""Allocators that a context brings: rules 2.9, 3.6, 4.2 (step 10) and 4.4."""

import gc

import numpy as np
import pytest
import refeed
from refeed import runtime
from refeed.onnx import parser
from refeed.onnx.reference import ReferenceEvaluator

MODEL = (
    '<ir_version: 10, opset_import: ["" : 18]>'
    "g (float[n, 3] past, float[k, 3] rows) => (float[m, 3] next, float[k, 3] out)"
    "{ a = Neg(rows) b = Abs(a) out = Sqrt(b) next = Concat<axis = 0>(past, rows) }"
)
EMPTY = np.zeros((0, 3), np.float32)


def rows(count: int) -> np.ndarray:
    return np.arange(count * 3, dtype=np.float32).reshape(count, 3)


def make_state(capacity: int = 4) -> runtime.PersistentValueState:
    model = parser.parse_model(MODEL)
    binding = model.graph.persistent_bindings.add()
    binding.input_name, binding.output_name = "past", "next"
    return runtime.PersistentValueState(model, {"past": EMPTY}, persistent_tensor_initial_capacity=capacity)


def test_outputs_and_appends_come_from_the_io_arena_and_the_rest_from_the_other() -> None:
    """Rules 4.2.4, 4.4.6; S073, S081, S140. S016."""
    execution, io = runtime.ExecutionArena(64), runtime.IOArena(64)
    context = runtime.RuntimeContext(allocator=execution, io_allocator=io)
    assert context.execution_allocator is execution
    assert context.io_allocator is io
    state = make_state()
    outputs = state.run(context, {"rows": rows(2)})
    assert (io.leased_count, io.total_allocated_size) == (2, 4 * 12 + 2 * 12)
    assert (execution.allocated_count, execution.retained_count) == (0, 2)
    np.testing.assert_array_equal(outputs["out"].numpy(), np.sqrt(rows(2)))
    del outputs
    assert (io.leased_count, io.retained_count) == (1, 1)


def test_a_lease_ends_with_close_or_with_the_last_view() -> None:
    """Rule 4.4.6; S071, S242."""
    io = runtime.IOArena(64)
    context = runtime.RuntimeContext(io_allocator=io)
    state = make_state()
    array = state.run(context, {"rows": rows(2)})["next"].numpy()
    gc.collect()
    assert io.leased_count == 1
    state.close()
    assert io.leased_count == 1
    np.testing.assert_array_equal(array, rows(2))
    del array
    gc.collect()
    assert (io.leased_count, io.total_allocated_size) == (0, 0)


def test_an_arena_outlives_its_handle() -> None:
    """Rule 3.8.4; S069, S070."""
    state = make_state()
    context = runtime.RuntimeContext(io_allocator=runtime.IOArena(64))
    outputs = state.run(context, {"rows": rows(3)})
    del context, state
    gc.collect()
    np.testing.assert_array_equal(outputs["next"].numpy(), rows(3))
    np.testing.assert_array_equal(outputs["out"].numpy(), np.sqrt(rows(3)))


def test_each_growth_is_one_request_and_a_refusal_is_not_tried_again() -> None:
    """Rule 5.2.6; S153."""
    simple = runtime.SimpleRawBufferAllocator(3)
    context = runtime.RuntimeContext(io_allocator=simple)
    state = make_state(2)
    held = []
    counts = []
    for _ in range(2):
        held.append(state.run(context, {"rows": rows(1)}))
        counts.append(simple.allocated_count)
    # One block and one plain output a call; the third call needs a second block.
    assert counts == [2, 3]
    with pytest.raises(MemoryError, match="3 of 3 buffers are in use"):
        state.run(context, {"rows": rows(1)})
    assert simple.allocated_count == 3
    np.testing.assert_array_equal(state.values["past"].numpy(), np.concatenate([rows(1)] * 2))
    held.clear()
    outputs = state.run(context, {"rows": rows(1)})
    np.testing.assert_array_equal(outputs["next"].numpy(), np.concatenate([rows(1)] * 3))
    # The old block of 2 rows went when the state moved to one of 4.
    assert simple.allocated_count == 2
    assert simple.peak_allocated_size >= simple.total_allocated_size == 4 * 12 + 12
    simple.reset_peak()
    assert simple.peak_allocated_size == simple.total_allocated_size


@pytest.mark.parametrize("other", [None, runtime.IOArena(4), runtime.SimpleRawBufferAllocator(4)])
def test_a_state_stays_with_the_allocators_of_its_first_call(other: runtime.RawBufferAllocator | None) -> None:
    """Rule 3.6.6; S075."""
    io = runtime.IOArena(64)
    state = make_state()
    state.run(runtime.RuntimeContext(io_allocator=io), {"rows": rows(1)})
    with pytest.raises(refeed.ValueTypeError, match="context allocators changed between calls"):
        state.run(runtime.RuntimeContext(io_allocator=other), {"rows": rows(1)})
    outputs = state.run(runtime.RuntimeContext(io_allocator=io), {"rows": rows(1)})
    assert outputs["next"].shape == (2, 3)


def test_a_first_call_that_fails_binds_the_state_to_no_allocator() -> None:
    """Rule 3.6.6."""
    state = make_state()
    with pytest.raises(MemoryError):
        state.run(runtime.RuntimeContext(io_allocator=runtime.IOArena(0)), {"rows": rows(1)})
    io = runtime.IOArena(64)
    outputs = state.run(runtime.RuntimeContext(io_allocator=io), {"rows": rows(1)})
    np.testing.assert_array_equal(outputs["next"].numpy(), rows(1))
    assert io.leased_count > 0
    with pytest.raises(refeed.ValueTypeError, match="context allocators changed"):
        state.run(runtime.RuntimeContext(), {"rows": rows(1)})


def test_feeds_are_checked_before_the_allocators() -> None:
    """Rule 3.6.6."""
    state = make_state()
    arena = runtime.IOArena(64)
    with pytest.raises(refeed.ValueTypeError, match="unknown graph input"):
        state.run(runtime.RuntimeContext(io_allocator=arena), {"row": rows(1)})
    # That call did not settle anything.
    state.run(runtime.RuntimeContext(), {"rows": rows(1)})


def test_free_buffers_are_kept_up_to_a_cap() -> None:
    arena = runtime.IOArena(64, retention_cap=100)
    evaluator = ReferenceEvaluator(parser.parse_model(MODEL), io_allocator=arena)
    results = evaluator.run(None, {"past": rows(4), "rows": rows(2)})
    assert arena.leased_count == 2
    del results
    gc.collect()
    # 64 bytes of `out` fit; the 72 bytes of `next` take 96 and do not.
    assert (arena.leased_count, arena.retained_size, arena.retained_count) == (0, 64, 1)
    arena.trim()
    assert (arena.retained_size, arena.retention_cap) == (0, 100)
    arena.retention_cap = 1 << 40
    assert arena.retention_cap == 1 << 40


def test_event_bytes_are_those_of_the_io_allocator() -> None:
    """Rule 5.5.7; S181."""
    io = runtime.IOArena(64)
    context = runtime.RuntimeContext(events_enabled=True, io_allocator=io)
    state = make_state()
    outputs = state.run(context, {"rows": rows(1)})
    actions = runtime.RuntimeEventAction
    event = next(event for event in context.events() if event.action == actions.kPersistentStorage)
    assert event.storage_allocated_bytes == 48
    assert event.allocated_bytes == 48 + 12
    assert event.peak_bytes == io.peak_allocated_size
    assert outputs["next"].shape == (1, 3)


@pytest.mark.parametrize("kind", [runtime.SimpleRawBufferAllocator, runtime.ExecutionArena, runtime.IOArena])
def test_arguments_are_checked(kind: type) -> None:
    assert kind(7).capacity == 7
    with pytest.raises(TypeError):
        kind("7")
    with pytest.raises(OverflowError):
        kind(-1)
    with pytest.raises(TypeError):
        runtime.RawBufferAllocator()
    with pytest.raises(TypeError):
        runtime.RuntimeContext(allocator="arena")  # type: ignore[arg-type]
    assert runtime.RuntimeContext().io_allocator is None
