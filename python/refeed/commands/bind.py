"""`refeed bind`: write bindings into a model file."""

import argparse
import pathlib
import sys
from typing import Any

from refeed.commands import binding

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("bind", help="write bindings into a model and save it")
    parser.add_argument("model", metavar="MODEL", help="path of an ONNX file, or of its folder")
    parser.add_argument("out", metavar="OUT", help="path to write to")
    binding.add_options(parser, required=True)
    parser.set_defaults(run=run)


def _stamp(path: pathlib.Path) -> tuple[int, int] | None:
    """Return what changes when a file is written: its number and its time; None when there is no file."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_ino, stat.st_mtime_ns


def run(options: argparse.Namespace) -> int:
    """Bind, save, and print what was bound and written."""
    model, report = binding.bind(binding.load(options), options)
    payloads = pathlib.Path(f"{options.out}.data")
    before = _stamp(payloads)
    model.save(options.out)
    print(report)
    for warning in report.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(f"wrote {options.out}")
    if _stamp(payloads) != before:
        print(f"wrote {payloads}")
    return 0
