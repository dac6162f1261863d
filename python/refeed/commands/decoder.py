"""A decoder as the commands open it: bound, with the settings and the tokenizer beside it."""

import argparse
import dataclasses
import pathlib
import sys
from collections.abc import Collection
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


# Inputs that a generation makes, by what the settings call them.
MADE = ("input_ids", "attention_mask", "position_ids")


def positive(text: str) -> int:
    """Read a count of at least 1."""
    try:
        count = int(text)
    except ValueError:
        count = 0
    if not 1 <= count < 2**63:
        raise argparse.ArgumentTypeError(f"expected a positive integer of 63 bits, got `{text}`")
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
        help=f"most tokens to make ({max_new_tokens})",
    )
    parser.set_defaults(few=max_new_tokens)
    add("--temperature", metavar="T", type=float, help="0 for the most probable token (0)")
    add("--top-k", metavar="K", type=positive, help="draw among the K most probable tokens")
    add("--top-p", metavar="P", type=float, help="draw among the most probable tokens that together have probability P")
    add("--min-p", metavar="P", type=float, help="draw among tokens at least P times as probable as the best one")
    add("--repetition-penalty", metavar="X", type=float, help="above 1: tokens that stand there count less (1)")
    add("--presence-penalty", metavar="X", type=float, help="taken from logits of tokens generated before (0)")
    add("--frequency-penalty", metavar="X", type=float, help="the same, each time a token was generated (0)")
    add("--seed", metavar="N", type=int, help="make draws repeatable")
    add("--stop", metavar="TEXT", action="append", default=[], help="end before this text; may be given more than once")
    add(
        "--eos-token-id",
        metavar="ID",
        type=_token_id,
        help="the token that ends a text; the model's settings otherwise",
    )
    add("--ignore-eos", action="store_true", help="let no token end a text")


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of a generation that the command line gives."""
    fields = {name: getattr(options, name) for name in (*GENERATION, "eos_token_id")}
    fields = {name: value for name, value in fields.items() if value is not None}
    if options.ignore_eos:
        fields |= {"eos_token_id": None, "pad_token_id": None}
    return fields


@dataclasses.dataclass(frozen=True)
class OpenedDecoder:
    """A model, what lies beside it, and what `--bind` bound."""

    model: Model
    settings: ModelSettings
    tokenizer: Tokenizer | None
    report: BindReport | None

    def options(self, given: argparse.Namespace) -> GenerationOptions:
        """Return the settings of a generation: those beside the model, and over them those of the command line."""
        fields = _given(given)
        options = self.settings.options(**fields)
        if "max_new_tokens" not in fields and self.settings.max_new_tokens is None:
            options = options.replace(max_new_tokens=given.few)
        return options

    def stop(self, given: argparse.Namespace) -> tuple[str, ...]:
        """Return the texts that end a text: those of the command line, or else those of the settings."""
        return tuple(given.stop) or self.settings.stop_strings

    def tell(self, given: argparse.Namespace, notes: TextIO | None = None) -> None:
        """Print what the settings decide that the command line does not."""
        replaced = set(_given(given))
        if given.stop:
            replaced.add("stop_strings")
        if "temperature" in replaced:
            replaced.add("do_sample")
        for line in self.settings.notes(*replaced):
            print(line, file=notes or sys.stderr)

    def needed_tokenizer(self, instead: str = "") -> Tokenizer:
        """Return the tokenizer, or say that there is none, and what may do instead."""
        if self.tokenizer is None:
            raise refeed.ValueTypeError(f"text: expected a tokenizer.json beside the model, got none{instead}")
        return self.tokenizer

    def check_inputs(self, feeds: Collection[str] = ()) -> None:
        """Refuse a model with an input that nothing gives a value, and say what might."""
        named = {name: self.settings.names.get(name, name) for name in MADE}
        given = {*named.values(), *feeds, *self.model.initializer_names, *(pair.input for pair in self.model.bindings)}
        left = next((value.name for value in self.model.inputs if value.name not in given), None)
        if left is None or named["input_ids"] not in {value.name for value in self.model.inputs}:
            # Nothing is missing, or the generator tells that this is no language model.
            return
        instead = "" if self.model.bindings else "; --bind known --uses any binds the caches of most exports"
        raise refeed.ValueTypeError(f"input {left}: expected a binding or a default, got neither{instead}")

    def check_ids(self, ids: list[int]) -> None:
        """Refuse token ids that the declared vocabulary does not have."""
        name = self.settings.names.get("logits", "logits")
        shape = next((value.shape for value in self.model.outputs if value.name == name), None)
        vocabulary = shape[-1] if shape else None
        wrong = [token for token in ids if isinstance(vocabulary, int) and token >= vocabulary]
        if wrong:
            raise refeed.ValueTypeError(
                f"--prompt-ids: expected tokens of the vocabulary, below {vocabulary}, got {wrong[0]}"
            )


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
    loaded = binding.load(options)
    path = pathlib.Path(options.model)
    settings = ModelSettings.beside(path)
    model, report = binding.bound(loaded, options, notes=notes)
    if not model.bindings:
        print(binding.NOTHING_BOUND, file=sys.stderr)
    tokenizer = None
    if text and (path.parent / "tokenizer.json").exists():
        tokenizer = Tokenizer.beside(path)
    return OpenedDecoder(model, settings, tokenizer, report)
