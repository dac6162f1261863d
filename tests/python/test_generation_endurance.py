"""Long generations: many interrupts at random moments, and many tokens with flat memory.

`make interrupts` and `make tokens` run them at length.
"""

import os
import pathlib
import random
import signal
import threading
import time

import generation_models as models
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


def test_memory_is_flat() -> None:
    """A recurrent model: what grows is the list of tokens alone, 17 bytes each and their copy in the result."""
    model, _ = refeed.bind(models.recurrent(), pairs=[("past", "present")])
    generator = runtime.Generator(model)
    generator.append([1])
    generator.generate(max_new_tokens=TOKENS // 20)
    live, resident = generator.live_bytes, _resident()
    for _ in range(19):
        tokens = generator.generate(max_new_tokens=TOKENS // 20).tokens[0]
        assert len(tokens) == TOKENS // 20
        assert generator.live_bytes == live
    assert generator.length == 1 + 20 * (TOKENS // 20)
    assert _resident() - resident < 8 * 2**20 + 100 * TOKENS
