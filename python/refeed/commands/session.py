"""The option that says how a session is built."""

import argparse

from refeed._native import RuntimeSessionOptions

__all__ = ["add_options", "session_options"]

# The option as it is written, for commands that start others.
NO_RECOGNITION = "--no-recognize-attention"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add `--no-recognize-attention`."""
    parser.add_argument(
        NO_RECOGNITION,
        dest="recognize_attention",
        action="store_false",
        help="run attention that is written out node by node as it is written",
    )


def session_options(options: argparse.Namespace) -> RuntimeSessionOptions:
    """Return the settings of sessions and states that the command line asks for."""
    return RuntimeSessionOptions(recognize_attention=options.recognize_attention)
