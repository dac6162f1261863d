"""`refeed generate`: continue a text, or token ids, as a model predicts."""

import argparse
import dataclasses
import json
import pathlib
import sys
import time
from typing import Any

import refeed
from refeed.commands import binding, encoder, session
from refeed.commands.decoder import OpenedDecoder, add_generation_options, open_decoder
from refeed.commands.live_text import LiveText
from refeed.commands.table import LiveLine, rows
from refeed.runtime import GenerationOptions, Generator, RuntimeContext
from refeed.text import TextStream

__all__ = ["Answer", "add_parser", "answer"]

INTERRUPTED = 130
# Rows of the table of slow nodes.
SHOWN = 10


def _ids(text: str) -> list[int]:
    try:
        ids = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected token ids separated by commas, got `{text}`") from None
    if any(token < 0 for token in ids):
        raise argparse.ArgumentTypeError(f"expected nonnegative token ids, got `{text}`")
    return ids


def slowest(context: RuntimeContext) -> list[list[str]]:
    """Return the nodes that took the most time, as lines of a table."""
    table = context.node_table()
    total = sum(row["total_ns"] for row in table if row["subgraph_node_index"] < 0)
    lines = [["node", "operator", "calls", "total us", "share"]]
    for row in table[:SHOWN]:
        share = f"{100 * row['total_ns'] / max(1, total):.1f} %"
        name = row["name"] or str(row["node_index"])
        lines.append([name, row["op_type"], str(row["calls"]), f"{row['total_ns'] / 1e3:.1f}", share])
    return lines


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("generate", help="continue a text, or token ids, as a model predicts")
    parser.add_argument("model", metavar="MODEL", help="path of an exported decoder, or of its folder")
    prompt = parser.add_mutually_exclusive_group()
    prompt.add_argument("text", metavar="TEXT", nargs="?", help="the prompt; `-` reads it from standard input")
    prompt.add_argument("--prompt-ids", metavar="IDS", type=_ids, help="token ids in place of a text")
    add_generation_options(parser, 20)
    parser.add_argument("--chat", action="store_true", help="write the text as a user's message, by the chat template")
    parser.add_argument("--json", action="store_true", help="print one JSON object in place of the text")
    parser.add_argument(
        "--trace", metavar="FILE", help="write a trace for Perfetto or Chrome, and print the slowest nodes"
    )
    encoder.add_options(parser)
    binding.add_options(parser)
    session.add_options(parser)
    parser.set_defaults(run=run)


@dataclasses.dataclass
class Answer:
    """What a generation made, and how fast.

    Attributes
    ----------
    tokens : list of int
        The new tokens.
    text : str
        Their text, up to a stop string.
    finish_reason : str
        `eos`, `stop`, `length` or `interrupted`.
    first_seconds, later_seconds : float
        Until the first token, and from there to the last one.
    """

    tokens: list[int] = dataclasses.field(default_factory=list)
    text: str = ""
    finish_reason: str = "length"
    first_seconds: float = 0.0
    later_seconds: float = 0.0

    @property
    def tokens_per_second(self) -> float | None:
        """The rate after the first token; None for less than two tokens."""
        return (len(self.tokens) - 1) / self.later_seconds if len(self.tokens) > 1 else None


def answer(generator: Generator, options: GenerationOptions, stream: TextStream | None, live: LiveText) -> Answer:
    """Generate, and show each token at once; after Ctrl-C, what there is so far."""
    made, counting = Answer(), LiveLine()
    begun = time.perf_counter()
    tokens = generator.stream(options)
    try:
        for token in tokens:
            made.tokens.append(token.token)
            elapsed = time.perf_counter() - begun
            if len(made.tokens) == 1:
                made.first_seconds = elapsed
            made.later_seconds = elapsed - made.first_seconds
            if token.finish_reason is not None:
                made.finish_reason = token.finish_reason
            if stream is not None:
                piece = stream.take(token)
                made.text += piece
                live.show(piece, len(made.tokens))
                if stream.stopped is not None:
                    made.finish_reason = "stop"
                    break
            else:
                rate = len(made.tokens) / elapsed
                limit = options.max_new_tokens
                counting.show(f"{len(made.tokens)} of {limit} tokens, {rate:.0f} tokens/s, last {token.token}")
    except KeyboardInterrupt:
        made.finish_reason = "interrupted"
    finally:
        tokens.close()
        counting.clear()
    if stream is not None:
        rest = stream.finish()
        made.text += rest
        live.write(rest)
    return made


def _prompt(opened: OpenedDecoder, options: argparse.Namespace) -> tuple[str | None, list[int]]:
    """Return the prompt as text, if it is one, and as token ids."""
    if options.prompt_ids is not None:
        return None, options.prompt_ids
    if options.text is None:
        return None, []
    text = sys.stdin.read() if options.text == "-" else options.text
    tokenizer = opened.needed_tokenizer("; see --prompt-ids")
    if options.chat:
        return text, tokenizer.encode_chat([{"role": "user", "content": text}])
    return text, tokenizer.encode(text)


def _rates(prompt_tokens: int, made: Answer) -> str:
    """Return the closing table."""
    prompt = f"{prompt_tokens} tokens"
    table = [["prompt", f"{prompt}, {made.first_seconds * 1e3:.2f} ms" if made.tokens else prompt]]
    if made.tokens_per_second is not None:
        mean = 1e3 / made.tokens_per_second
        table.append(["per new token", f"{mean:.3f} ms, {made.tokens_per_second:.0f} tokens/s"])
    return rows(table, indent="")


def _generator(
    opened: OpenedDecoder,
    options: argparse.Namespace,
    settings: GenerationOptions,
    ids: list[int],
    context: RuntimeContext,
) -> tuple[Generator, list[int]]:
    """Return a generator that has the prompt, behind an encoder where there is one, and its tokens so far."""
    path = encoder.find(options, opened.model)
    built = session.session_options(options)
    if path is None:
        opened.check_ids(ids)
        opened.check_inputs()
        generator = Generator(opened.model, settings, context=context, session_options=built)
        start = ids
    else:
        folder = pathlib.Path(options.model).parent
        encoded = encoder.encode(path, opened, dict(options.encoder_feed), ids, folder, built)
        start = encoded.start
        feeds, later = encoded.feeds, encoded.later_feeds
        opened.check_inputs(feeds)
        generator = Generator(
            opened.model, settings, feeds=feeds, later_feeds=later, context=context, session_options=built
        )
    generator.append(start)
    return generator, start


def run(options: argparse.Namespace) -> int:
    """Generate and print; after Ctrl-C, what there is so far."""
    if options.text is None and options.prompt_ids is None and not options.encoder_feed:
        options.usage_error("expected TEXT or --prompt-ids, got neither")
    if options.trace is not None and not pathlib.Path(options.trace).parent.is_dir():
        raise refeed.ValueTypeError(f"--trace: expected a path in a folder that exists, got {options.trace}")
    of_ids = options.prompt_ids is not None
    notes = sys.stdout if of_ids and not options.json else sys.stderr
    opened = open_decoder(options, notes, text=not of_ids or options.json)
    settings = opened.options(options)
    opened.tell(options, notes)
    text, ids = _prompt(opened, options)
    context = RuntimeContext(events_enabled=options.trace is not None)
    generator, start = _generator(opened, options, settings, ids, context)
    stream = None
    if opened.tokenizer is not None:
        stream = TextStream(opened.tokenizer, opened.stop(options), start)
    elif options.stop:
        raise refeed.ValueTypeError("--stop: expected a tokenizer.json beside the model, got none")
    live = LiveText(on=not of_ids and not options.json)
    made = answer(generator, settings, stream, live)
    live.finish()
    if options.json:
        result = _json(opened, options, text, ids, made)
        if start is not ids:
            result["decoder_prompt_tokens"] = start
        print(json.dumps(result))
    elif of_ids:
        print("tokens:", ",".join(map(str, made.tokens)))
    if not options.json:
        print(_rates(len(ids), made), file=notes)
        if of_ids and opened.model.bindings:
            print(generator.explain(), file=notes)
    if options.trace is not None:
        context.export_trace(options.trace)
        print(rows(slowest(context), indent=""), file=notes)
    if made.finish_reason == "interrupted":
        print(f"interrupted after {len(made.tokens)} of {settings.max_new_tokens} tokens", file=sys.stderr)
        return INTERRUPTED
    return 0


def _json(
    opened: OpenedDecoder, options: argparse.Namespace, text: str | None, ids: list[int], made: Answer
) -> dict[str, Any]:
    """Return the result for machines. Times are in seconds."""
    return {
        "model": options.model,
        "bindings": [[pair.input, pair.output] for pair in opened.model.bindings],
        "prompt": text,
        "prompt_tokens": ids,
        "tokens": made.tokens,
        "text": made.text if opened.tokenizer is not None else None,
        "finish_reason": made.finish_reason,
        "first_token_seconds": made.first_seconds,
        "later_tokens_seconds": made.later_seconds,
        "tokens_per_second": made.tokens_per_second,
    }
