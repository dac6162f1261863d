"""`refeed demo`: the shipped decoder tells a story, with its state kept and beside the same model run statelessly."""

import argparse
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import refeed
from refeed._native import Model
from refeed.commands import binding
from refeed.commands.decoder import OpenedDecoder, open_decoder, positive
from refeed.commands.generate import answer
from refeed.commands.live_text import LiveText
from refeed.commands.table import LiveLine, amount, rows
from refeed.decoding import Counters, Stateful, Stateless, Stepper, decode, shipped_model
from refeed.runtime import GenerationOptions, Generator, empty_caches
from refeed.text import TextStream

__all__ = ["add_parser"]

# The prompt of the shipped decoder, and that of others.
BEGINNING = "Once upon a time"
PROMPT = [1, 17, 42, 99, 7]
# How the shipped decoder tells.
TEMPERATURE, SEED = 0.5, 1
# How many of the new tokens are printed.
SHOWN = 24


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("demo", help="decode a small shipped model with its state kept, and without")
    parser.add_argument("--max-new-tokens", metavar="N", type=positive, default=200, help="tokens to make (200)")
    parser.add_argument("--model", metavar="MODEL", default=None, help="another decoder in place of the shipped one")
    binding.add_options(parser)
    parser.set_defaults(run=run)


def _decode(
    title: str, stepper: Stepper, prompt: list[int], count: int, line: LiveLine
) -> tuple[list[int], list[float]]:
    tokens: list[int] = []
    times: list[float] = []
    for token, seconds in decode(stepper, prompt, count):
        tokens.append(token)
        times.append(seconds)
        line.show(f"{title}: {len(tokens)} of {count} tokens, {1 / seconds:.0f} tokens/s")
    line.clear()
    return tokens, times


class _Measured:
    """One way of running the model: a pass that counts, and a pass that is timed with events off."""

    def __init__(
        self,
        title: str,
        make: Callable[[Counters | None], Stepper],
        prompt: list[int],
        count: int,
        line: LiveLine,
    ) -> None:
        self.title = title
        self.counters = Counters()
        self._prompt_tokens = len(prompt)
        stepper = make(self.counters)
        self.tokens, _ = _decode(f"{title}, counting", stepper, prompt, count, line)
        self.stepper = stepper
        timed, times = _decode(title, make(None), prompt, count, line)
        self.same = timed == self.tokens
        # The first step runs the prompt.
        self.seconds = times[1:] or times

    def cells(self) -> list[str]:
        """Return the column of the closing table."""
        counters, steps = self.counters, self.counters.steps
        written = "not counted"
        if counters.rewritten_known:
            parts = [f"{amount(value / steps)} {name}" for name, value in sorted(counters.rewritten.items())]
            written = ", ".join(parts) or "0 B"
        return [
            self.title,
            f"{1 / statistics.median(self.seconds):.0f}",
            f"{statistics.median(self.seconds) * 1e3:.3f} ms",
            # Every token but the last new one is in the cache.
            amount(counters.append_copied_bytes / (self._prompt_tokens + steps - 1)),
            amount(counters.prefix_copied_bytes),
            str(counters.allocations),
            written,
        ]


REPEATED = (
    "this export repeats its key-value heads: Reshape writes the cache again each step;\n"
    "exports with Attention or GroupQueryAttention do not"
)

LABELS = [
    "",
    "tokens per second",
    "time per token (median)",
    "cache bytes appended per token",
    "prefix bytes copied",
    "cache buffers allocated",
    "cache bytes written by other operators, per token",
]


def _capacity(model: Model, stepper: Stateful) -> Sequence[str]:
    reports = stepper.state.explain().bindings
    axes = {value.name: value.shape for value in model.inputs}
    lengths: set[int] = set()
    for report in reports:
        declared = axes[report.input] or ()
        lengths.update(n for n, dim in zip(report.shape[1:], declared[1:], strict=True) if not isinstance(dim, int))
    capacities = {report.capacity for report in reports}
    return [
        f"cache length: {', '.join(map(str, sorted(lengths))) or 'fixed'}",
        f"cache capacity: {', '.join(map(str, sorted(capacities)))} rows",
    ]


def _tell(opened: OpenedDecoder, prompt: list[int]) -> None:
    """Let the shipped decoder tell a story, as its tokens come."""
    options = GenerationOptions(
        **{**opened.settings.option_fields(), "max_new_tokens": 256, "temperature": TEMPERATURE, "seed": SEED}
    )
    generator = Generator(opened.model, options)
    generator.append(prompt)
    live = LiveText()
    live.write(BEGINNING)
    answer(generator, options, TextStream(opened.needed_tokenizer(), prompt=prompt), live)
    live.finish()


def run(options: argparse.Namespace) -> int:
    """Tell a story; then decode four times: with and without the state, counting and timed."""
    shipped = options.model is None
    options.model = options.model or shipped_model()
    try:
        opened = open_decoder(options, text=shipped)
    except ImportError as error:
        print(f"{error}, and the demo tells a story")
        opened = open_decoder(options, text=False)
    model = opened.model
    if not model.bindings:
        raise refeed.ModelError(binding.NOTHING_BOUND)
    prompt = PROMPT
    if opened.tokenizer is not None:
        prompt = opened.tokenizer.encode(BEGINNING)
        print("the shipped decoder, whose file says which output feeds which input, tells a story:\n")
        _tell(opened, prompt)
    line, count = LiveLine(), options.max_new_tokens
    empty = empty_caches(model)
    kept = _Measured("state kept", lambda c: Stateful(model, empty, c), prompt, count, line)
    fed = _Measured("stateless", lambda c: Stateless(model, empty, c), prompt, count, line)
    print()
    print(f"{len(prompt)} prompt tokens, {count} new tokens, one sequence")
    print(rows(zip(LABELS, kept.cells(), fed.cells(), strict=True), indent=""))
    if kept.counters.rewritten.get("Reshape"):
        print(REPEATED)
    print()
    if isinstance(kept.stepper, Stateful):
        print("\n".join(_capacity(model, kept.stepper)))
    agree = kept.same and fed.same and kept.tokens == fed.tokens
    shown = ",".join(map(str, kept.tokens[:SHOWN]))
    print(f"tokens: {shown}{',...' if len(kept.tokens) > SHOWN else ''}")
    print("both ways, each run twice, gave the same tokens" if agree else "TOKENS DIFFER between the runs")
    return 0 if agree else 1
