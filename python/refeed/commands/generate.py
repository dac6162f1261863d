"""`refeed generate`: greedy decoding of a prompt, with the caches kept in a state."""

import argparse
import sys
import time
from typing import Any

import refeed
from refeed.commands import binding
from refeed.commands.table import LiveLine, rows
from refeed.decoding import Stateful, decode, empty_caches
from refeed.runtime import RuntimeContext

__all__ = ["add_parser"]

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


def positive(text: str) -> int:
    """Read a count of at least 1."""
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got `{text}`")
    return count


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
    parser = commands.add_parser("generate", help="decode a prompt greedily")
    parser.add_argument("model", metavar="MODEL", help="path of an exported decoder")
    parser.add_argument("--prompt-ids", metavar="IDS", type=_ids, required=True, help="token ids, separated by commas")
    parser.add_argument("--max-new-tokens", metavar="N", type=positive, default=20, help="tokens to make (20)")
    parser.add_argument("--eos-token-id", metavar="ID", type=int, help="a token that ends the sequence")
    parser.add_argument(
        "--trace", metavar="FILE", help="write a trace for Perfetto or Chrome, and print the slowest nodes"
    )
    binding.add_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Decode, print the tokens and a closing table; after Ctrl-C, what there is so far."""
    model = binding.bound(refeed.load(options.model), options)
    if not model.bindings:
        raise refeed.ModelError(binding.NOTHING_BOUND)
    context = RuntimeContext(events_enabled=options.trace is not None)
    stepper = Stateful(model, empty_caches(model), context=context)
    line, tokens, times, interrupted = LiveLine(), [], [], False
    begun = time.perf_counter()
    try:
        for token, seconds in decode(stepper, options.prompt_ids, options.max_new_tokens, options.eos_token_id):
            tokens.append(token)
            times.append(seconds)
            rate = len(tokens) / (time.perf_counter() - begun)
            line.show(f"{len(tokens)} of {options.max_new_tokens} tokens, {rate:.0f} tokens/s, last {token}")
    except KeyboardInterrupt:
        interrupted = True
    line.clear()
    print("tokens:", ",".join(map(str, tokens)))
    later = times[1:]
    prompt = f"{len(options.prompt_ids)} tokens"
    table = [["prompt", f"{prompt}, {times[0] * 1e3:.2f} ms" if times else prompt]]
    if later:
        mean = sum(later) / len(later)
        table.append(["per new token", f"{mean * 1e3:.3f} ms, {1 / mean:.0f} tokens/s"])
    print(rows(table, indent=""))
    print(stepper.state.explain())
    if options.trace is not None:
        context.export_trace(options.trace)
        print(rows(slowest(context), indent=""))
    if interrupted:
        print(f"interrupted after {len(tokens)} of {options.max_new_tokens} tokens", file=sys.stderr)
        return INTERRUPTED
    return 0
