"""Long generations: many interrupts at random moments, and many tokens with flat memory.

`make interrupts` and `make tokens` run them at length.
"""

import os
import pathlib
import random
import signal
import statistics
import threading
import time
from collections.abc import Callable

import generation_models as models
import pytest
import refeed
from generation_models import after_history, ids
from refeed import runtime

INTERRUPTS = int(os.environ.get("REFEED_INTERRUPTS", "20"))
TOKENS = int(os.environ.get("REFEED_TOKENS", "20000"))
FOREVER = 10**9


class _Interrupt:
    """Sends SIGINT from another thread, after a while."""

    def __init__(self, delay: float) -> None:
        self.sent = 0.0
        self._timer = threading.Timer(delay, self._send)

    def start(self) -> None:
        self._timer.start()

    def _send(self) -> None:
        self.sent = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    def join(self) -> None:
        self._timer.join()


def test_interrupts_at_random_moments() -> None:
    chance = random.Random(5)  # noqa: S311
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    late: list[float] = []
    done = 0
    try:
        while done < INTERRUPTS:
            generator = runtime.Generator(models.bound_history())
            generator.append([4, 2])
            native = done % 2 == 1
            feeds = {"input_ids": ids([4, 2]), "past": models.empty()}
            interrupt = _Interrupt(chance.uniform(0.0, 0.1))
            try:
                interrupt.start()
                if native:
                    options = runtime.GenerationOptions(max_new_tokens=FOREVER)
                    made = runtime.generate(models.bound_history(), runtime.RuntimeContext(), feeds, options)
                    got = made.numpy()[0, 2:].tolist()
                else:
                    generation = generator.generate(max_new_tokens=FOREVER)
                    got = generation.tokens[0]
                    assert generation.finish_reasons == ["interrupted"]
            except KeyboardInterrupt:
                # It came before the call.
                interrupt.join()
                continue
            late.append(time.monotonic() - interrupt.sent)
            interrupt.join()
            assert got == after_history([4, 2], len(got))
            said = generator.tokens[0]
            assert generator.generate(max_new_tokens=5).tokens == [after_history(said, 5)]
            done += 1
    finally:
        signal.signal(signal.SIGINT, before)
    if "REFEED_INTERRUPTS" in os.environ:
        print(f"{done} interrupts, the slowest took {max(late) * 1e3:.0f} ms")
        assert max(late) < 0.2


def _resident() -> int:
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _lstm() -> refeed.Model:
    """An exported language model with a state of a fixed shape."""
    folder = pathlib.Path(__file__).resolve().parents[1] / "data" / "models" / "ts17_lstmlm"
    model, _ = refeed.bind(folder / "model.onnx", pairs=[("h_in", "h_out"), ("c_in", "c_out")], uses="any")
    return model


def _recurrent() -> refeed.Model:
    model, _ = refeed.bind(models.recurrent(), pairs=[("past", "present")])
    return model


@pytest.mark.filterwarnings("ignore::refeed.SymbolWarning")
@pytest.mark.parametrize("make", [_recurrent, _lstm])
def test_memory_is_flat(make: Callable[[], refeed.Model]) -> None:
    """Recurrent models: what grows is the list of tokens alone, 17 bytes each and their copy in the result."""
    generator = runtime.Generator(make())
    generator.append([1])
    part = TOKENS // 20
    generator.generate(max_new_tokens=part)
    live, resident = generator.live_bytes, _resident()
    seconds = []
    for _ in range(19):
        begun = time.process_time()
        tokens = generator.generate(max_new_tokens=part).tokens[0]
        seconds.append(time.process_time() - begun)
        assert len(tokens) == part
        assert generator.live_bytes == live
    assert generator.length == 1 + 20 * part
    grown = _resident() - resident
    assert grown < 8 * 2**20 + 100 * TOKENS
    if "REFEED_TOKENS" in os.environ:
        first, last = statistics.median(seconds[:6]), statistics.median(seconds[-6:])
        print(
            f"{generator.length} tokens: {part / first:.0f} a second of the processor at first, {part / last:.0f} at "
            f"last; {grown / generator.length:.0f} bytes more for each"
        )
        # The machine may be busy; what depends on the length would show by far more.
        assert last < 1.5 * first
