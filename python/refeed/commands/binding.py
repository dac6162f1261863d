"""The options that say what to bind. Without `--bind` nothing is bound."""

import argparse
import pathlib
import sys
from typing import TextIO

import refeed
from refeed._native import BindReport, Model
from refeed.text import ModelSettings
from refeed.text.settings_file import MODELS, model_file

__all__ = ["NOTHING_BOUND", "add_options", "bind", "bound", "check", "load", "named_load"]

NOTHING_BOUND = "the model binds no input to an output; say what to bind with --bind known or --bind PAIRS"
GENAI_CONFIG = "genai_config"


def add_options(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Add `--bind`, `--uses` and `--publish`."""
    parser.set_defaults(usage_error=parser.error)
    parser.add_argument(
        "--bind",
        metavar="WHAT",
        action="append",
        required=required,
        help="`known` for the table of known naming schemes, the name of one scheme, a template such as "
        "'past.{i}.key -> present.{i}.key', pairs INPUT=OUTPUT separated by commas, or `genai_config` for the names in "
        "the genai_config.json beside the model; may be given more than once",
    )
    parser.add_argument(
        "--uses",
        choices=("one", "any"),
        help="how often a bound input may be used: once, or any number of times (what most exported decoders need)",
    )
    parser.add_argument(
        "--publish",
        metavar="POLICY",
        action="append",
        default=[],
        help="always, once or if_present for all bindings, or INPUT=POLICY for one",
    )


def load(options: argparse.Namespace) -> Model:
    """Load the model that `options.model` names, which becomes the path of its file where it is that of a folder.

    Raises
    ------
    FileNotFoundError
        When a folder has no model.
    ModelError
        When the file is none; the message begins with its path.
    """
    path = model_file(options.model)
    if path != pathlib.Path(options.model) and not path.exists():
        raise FileNotFoundError(f"{options.model}: expected {' or '.join(MODELS)} in this folder, got none of them")
    options.model = str(path)
    return named_load(path)


def named_load(path: pathlib.Path) -> Model:
    """Load a model; errors name its path."""
    try:
        return refeed.load(path)
    except refeed.ModelError as error:
        if str(path) in str(error):
            raise
        raise refeed.ModelError(f"{path}: {error}") from error


def check(options: argparse.Namespace) -> None:
    """End with a usage error when `--uses` or `--publish` stand without the `--bind` that they modify."""
    if not options.bind and (options.uses or options.publish):
        name = "--uses" if options.uses else "--publish"
        options.usage_error(f"{name}: expected --bind as well, which it modifies")


def _pairs_and_patterns(texts: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    pairs, patterns = [], []
    for text in texts:
        if "->" in text or "=" not in text:
            patterns.append(text)
            continue
        for part in text.split(","):
            given, separator, output = part.partition("=")
            if not separator:
                raise refeed.ValueTypeError(f"--bind: expected INPUT=OUTPUT, got `{part}`")
            pairs.append((given.strip(), output.strip()))
    return pairs, patterns


def bound(model: Model, options: argparse.Namespace, *, notes: TextIO | None = None) -> tuple[Model, BindReport | None]:
    """Return the model with what `--bind` asks for, and the report, which is printed to `notes` (standard output)."""
    if not options.bind:
        return model, None
    result, report = bind(model, options)
    print(report, file=notes or sys.stdout)
    for warning in report.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return result, report


def bind(model: Model, options: argparse.Namespace) -> tuple[Model, BindReport]:
    """Bind what the options ask for."""
    pairs, patterns = _pairs_and_patterns([text for text in options.bind if text != GENAI_CONFIG])
    if GENAI_CONFIG in options.bind:
        named = ModelSettings.beside(options.model).pairs
        if not named:
            raise refeed.ValueTypeError(
                f"--bind {GENAI_CONFIG}: expected names of caches beside {options.model}, got none"
            )
        pairs += named
    single = dict(text.rsplit("=", 1) for text in options.publish if "=" in text)
    general = [text for text in options.publish if "=" not in text]
    if len(general) > 1 or (general and single):
        raise refeed.ValueTypeError("--publish: expected one policy for all, or INPUT=POLICY for single inputs")
    publish = general[0] if general else single or None
    return refeed.bind(model, pairs, patterns, uses=options.uses, publish=publish)
