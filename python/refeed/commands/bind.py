"""`refeed bind`: write bindings into a model file."""

import argparse
import sys
from typing import Any

import refeed
from refeed.commands import binding

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("bind", help="write bindings into a model and save it")
    parser.add_argument("model", metavar="MODEL", help="path of an ONNX file")
    parser.add_argument("out", metavar="OUT", help="path to write to")
    binding.add_options(parser, required=True)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Bind, print what was bound, and save."""
    model, report = binding.bind(refeed.load(options.model), options)
    print(report)
    for warning in report.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    model.save(options.out)
    return 0
