"""The encoder of an encoder-decoder: run once, its results fed to the decoder beside it."""

import argparse
import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

import refeed
from refeed._native import Model, RuntimeSession, RuntimeSessionOptions
from refeed.commands import binding
from refeed.commands.decoder import OpenedDecoder

__all__ = ["Encoded", "add_options", "encode", "find"]

# What encoders beside decoders are called, and the decoder of a first step beside one that needs its caches.
NAMES = ("encoder_model.onnx", "encoder.onnx")
FIRST_DECODER = "decoder_model.onnx"
STATES, MASK, SWITCH = "encoder_hidden_states", "encoder_attention_mask", "use_cache_branch"


@dataclasses.dataclass(frozen=True)
class Encoded:
    """What a decoder is fed of an encoder, and the tokens that it begins with.

    Attributes
    ----------
    feeds, later_feeds : dict of str to value
        As for `Generator`.
    start : list of int
        The decoder's prompt.
    """

    feeds: dict[str, Any]
    later_feeds: dict[str, Any]
    start: list[int]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add `--encoder` and `--encoder-feed`."""
    parser.add_argument(
        "--encoder",
        metavar="FILE",
        help=f"the encoder that TEXT goes into; {NAMES[0]} beside a decoder that takes {STATES} otherwise",
    )
    parser.add_argument(
        "--encoder-feed",
        metavar="NAME=FILE",
        type=_feed,
        action="append",
        default=[],
        help="a .npy array for an input of the encoder, such as features of speech; the prompt is then the decoder's "
        "own, and may be missing",
    )


def _feed(text: str) -> tuple[str, str]:
    name, separator, file = text.partition("=")
    if not (name and separator and file):
        raise argparse.ArgumentTypeError(f"expected NAME=FILE, got `{text}`")
    return name, file


def find(options: argparse.Namespace, decoder: Model) -> pathlib.Path | None:
    """Return the encoder that the options name, or the one beside a decoder that takes an encoder's states.

    Raises
    ------
    ValueTypeError
        When the decoder needs one and there is none.
    """
    if options.encoder is not None:
        return pathlib.Path(options.encoder)
    if STATES not in {value.name for value in decoder.inputs}:
        if options.encoder_feed:
            raise refeed.ValueTypeError(f"--encoder-feed: expected a decoder that takes {STATES}, or --encoder")
        return None
    folder = pathlib.Path(options.model).parent
    for name in NAMES:
        if (folder / name).exists():
            return folder / name
    raise refeed.ValueTypeError(
        f"the decoder takes {STATES}: expected {' or '.join(NAMES)} in {os.fspath(folder)}, or --encoder FILE"
    )


def encode(
    path: pathlib.Path,
    opened: OpenedDecoder,
    files: Mapping[str, str],
    ids: list[int],
    folder: pathlib.Path,
    built: RuntimeSessionOptions | None = None,
) -> Encoded:
    """Run the encoder and tell what the decoder is fed.

    Parameters
    ----------
    path : pathlib.Path
        The encoder.
    opened : OpenedDecoder
        The decoder.
    files : mapping of str to str
        Arrays for the encoder, by input.
    ids : list of int
        The prompt: tokens for the encoder, or for the decoder where there are files.
    folder : pathlib.Path
        Where the decoder lies.
    built : RuntimeSessionOptions, optional
        Settings of the encoder's session.

    Raises
    ------
    ValueTypeError
        When an array is none, or an input of one of the models stays without a value.
    """
    model = binding.named_load(path)
    given = {name: _array(file) for name, file in files.items()}
    if not files:
        given["input_ids"] = np.array([ids], np.int64)
    declared = {value.name for value in model.inputs}
    if "attention_mask" in declared and "attention_mask" not in given and "input_ids" in given:
        given["attention_mask"] = np.ones_like(given["input_ids"])
    missing = declared - given.keys() - set(model.initializer_names)
    if missing:
        raise refeed.ValueTypeError(f"{path}: input {sorted(missing)[0]}: expected --encoder-feed, got none")
    session = RuntimeSession(model, options=built)
    made = dict(session.run({name: _typed(model, name, array) for name, array in given.items()}))
    start = ids if files and ids else _start(opened)
    return _feeds(opened.model, made, given.get("attention_mask"), start, folder)


def _feeds(decoder: Model, made: dict[str, Any], mask: Any, start: list[int], folder: pathlib.Path) -> Encoded:
    """Tell what of an encoder's outputs goes where."""
    bound = {pair.input for pair in decoder.bindings}
    inputs = {value.name for value in decoder.inputs} - bound
    feeds = {name: value for name, value in made.items() if name in inputs}
    states = made.get("last_hidden_state", next(iter(made.values())))
    if STATES in inputs:
        feeds.setdefault(STATES, states)
    if MASK in inputs:
        whole = np.ones(np.asarray(states).shape[:2], np.int64) if mask is None else mask
        feeds[MASK] = _typed(decoder, MASK, whole)
    later = {}
    if SWITCH in inputs:
        feeds[SWITCH], later[SWITCH] = np.array([False]), np.array([True])
    crossed = sorted(name for name in inputs - feeds.keys() if ".encoder." in name)
    if crossed:
        feeds |= _crossed(folder / FIRST_DECODER, crossed, feeds, states, mask, start)
    return Encoded(feeds, later, start)


def _crossed(
    first: pathlib.Path, names: list[str], feeds: dict[str, Any], states: Any, mask: Any, start: list[int]
) -> dict[str, Any]:
    """Compute the caches of the encoder's keys and values by the decoder that makes the first step."""
    if not first.exists():
        raise refeed.ValueTypeError(
            f"{names[0]}: expected a binding (--bind), or {first.name} beside the model, which computes it, got neither"
        )
    model = binding.named_load(first)
    known = {**feeds, STATES: states, "input_ids": np.array([start], np.int64)}
    if mask is not None:
        known[MASK] = mask
    wanted = {value.name for value in model.inputs}
    results = RuntimeSession(model).run({name: value for name, value in known.items() if name in wanted})
    made = {}
    for name in names:
        present = name.replace("past_key_values.", "present.", 1)
        if present not in results:
            raise refeed.ValueTypeError(f"{first}: expected an output {present} for {name}, got none")
        made[name] = results[present]
    return made


def _start(opened: OpenedDecoder) -> list[int]:
    """Return what the decoder begins with, as the settings say."""
    settings = opened.settings
    first = settings.decoder_start_token_id
    first = settings.bos_token_id if first is None else first
    if first is None:
        raise refeed.ValueTypeError(
            "decoder_start_token_id: expected one in generation_config.json beside the model, got none"
        )
    return [first]


def _array(file: str) -> np.ndarray[Any, Any]:
    try:
        array = np.load(file, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise refeed.ValueTypeError(f"--encoder-feed: {file}: expected a .npy array, got: {error}") from None
    if not isinstance(array, np.ndarray):
        raise refeed.ValueTypeError(f"--encoder-feed: {file}: expected one .npy array, got an archive")
    return array


def _typed(model: Model, name: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return integers as the model declares them."""
    if "int32" in next((str(value.type) for value in model.inputs if value.name == name), "").lower():
        return array.astype(np.int32)
    return array
