"""A decoder as the commands open it: bound, with the settings and the tokenizer beside it."""

import argparse
import dataclasses
import pathlib
import sys
from typing import Any, TextIO

import refeed
from refeed._native import BindReport, Model
from refeed.commands import binding
from refeed.runtime import GenerationOptions
from refeed.text import ModelSettings, Tokenizer

__all__ = ["OpenedDecoder", "add_generation_options", "open_decoder", "positive"]


# Options of a generation that are options of the command line under the same names.
GENERATION = (
    "max_new_tokens",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "seed",
)


def positive(text: str) -> int:
    """Read a count of at least 1."""
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got `{text}`")
    return count


def _token_id(text: str) -> int:
    try:
        token = int(text)
    except ValueError:
        token = -1
    if token < 0:
        raise argparse.ArgumentTypeError(f"expected a token id, got `{text}`")
    return token


def add_generation_options(parser: argparse.ArgumentParser, max_new_tokens: int) -> None:
    """Add how many tokens are made, how they are chosen, and what ends them."""
    add = parser.add_argument
    add(
        "--max-new-tokens",
        metavar="N",
        type=positive,
        default=max_new_tokens,
        help=f"tokens to make ({max_new_tokens})",
    )
    add("--temperature", metavar="T", type=float, default=0.0, help="0 for the most probable token (0)")
    add("--top-k", metavar="K", type=positive, help="draw among the K most probable tokens")
    add("--top-p", metavar="P", type=float, help="draw among the most probable tokens that together have probability P")
    add("--min-p", metavar="P", type=float, help="draw among tokens at least P times as probable as the best one")
    add(
        "--repetition-penalty", metavar="X", type=float, default=1.0, help="above 1: tokens that stand there count less"
    )
    add("--presence-penalty", metavar="X", type=float, default=0.0, help="taken from logits of tokens generated before")
    add("--frequency-penalty", metavar="X", type=float, default=0.0, help="the same, each time a token was generated")
    add("--seed", metavar="N", type=int, help="make draws repeatable")
    add("--stop", metavar="TEXT", action="append", default=[], help="end before this text; may be given more than once")
    add(
        "--eos-token-id",
        metavar="ID",
        type=_token_id,
        help="the token that ends a text; the model's settings otherwise",
    )
    add("--ignore-eos", action="store_true", help="let no token end a text")


@dataclasses.dataclass(frozen=True)
class OpenedDecoder:
    """A model, what lies beside it, and what `--bind` bound."""

    model: Model
    settings: ModelSettings
    tokenizer: Tokenizer | None
    report: BindReport | None

    def options(self, given: argparse.Namespace) -> GenerationOptions:
        """Return the settings of a generation: those beside the model, and over them those of the command line."""
        fields: dict[str, Any] = self.settings.option_fields()
        fields |= {name: getattr(given, name) for name in GENERATION}
        if given.eos_token_id is not None:
            fields |= {"eos_token_id": given.eos_token_id, "stop_token_ids": []}
        if given.ignore_eos:
            fields |= {"eos_token_id": None, "stop_token_ids": [], "pad_token_id": None}
        return GenerationOptions(**fields)

    def needed_tokenizer(self) -> Tokenizer:
        """Return the tokenizer, or say that there is none."""
        if self.tokenizer is None:
            raise refeed.ValueTypeError("text: expected a tokenizer.json beside the model, got none; see --prompt-ids")
        return self.tokenizer


def open_decoder(options: argparse.Namespace, notes: TextIO | None = None, *, text: bool = True) -> OpenedDecoder:
    """Load a model with what lies beside it, bind what the options ask for, and print what was bound.

    Parameters
    ----------
    options : argparse.Namespace
        With `model`, and the options of `binding.add_options`.
    notes : file, optional
        Where to print; standard error by default.
    text : bool
        Whether a tokenizer is looked for.
    """
    notes = notes or sys.stderr
    path = pathlib.Path(options.model)
    if path.is_dir():
        path /= "model.onnx"
        options.model = str(path)
    settings = ModelSettings.beside(path)
    model, report = binding.bound(refeed.load(path), options, notes=notes)
    if not model.bindings:
        print(binding.NOTHING_BOUND, file=sys.stderr)
    tokenizer = None
    if text and (path.parent / "tokenizer.json").exists():
        tokenizer = Tokenizer.beside(path)
    return OpenedDecoder(model, settings, tokenizer, report)
