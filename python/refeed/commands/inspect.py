"""`refeed inspect`: what a model has, what its bindings will do, and what refeed lacks to run it."""

import argparse
from typing import Any

import refeed
from refeed._native import Model, RuntimeSession, RuntimeSessionOptions
from refeed.commands import binding, session
from refeed.commands.table import rows

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("inspect", help="show inputs, outputs, bindings and operators of a model")
    parser.add_argument("model", metavar="MODEL", help="path of an ONNX file, or of its folder")
    binding.add_options(parser)
    session.add_options(parser)
    parser.set_defaults(run=run)


def _bindings(model: Model, built: RuntimeSessionOptions) -> list[str]:
    if not model.bindings:
        return ["bindings: none; `--bind known` tries the table of known naming schemes"]
    try:
        forecast = RuntimeSession(model, options=built).forecast()
    except refeed.ModelError:
        forecast = ["not known: the model cannot be computed"] * len(model.bindings)
    lines = [
        (pair.input, "<-", pair.output, f"publish {pair.publish}", outcome)
        for pair, outcome in zip(model.bindings, forecast, strict=True)
    ]
    return [f"bindings (uses: {model.binding_uses}):", rows(lines)]


def _attention(model: Model, built: RuntimeSessionOptions) -> list[str]:
    try:
        return [str(form) for form in RuntimeSession(model, options=built).attention]
    except refeed.ModelError:
        return []


def run(options: argparse.Namespace) -> int:
    """Print what there is to know; 1 when an operator is missing."""
    model, _ = binding.bound(binding.load(options), options)
    given = set(model.initializer_names)
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(model.opsets.items()))
    print(f"opsets: {opsets}")
    print("inputs:")
    print(rows([value.name, value.type, "has a default" if value.name in given else ""] for value in model.inputs))
    print("outputs:")
    print(rows([value.name, value.type] for value in model.outputs))
    built = session.session_options(options)
    print("\n".join(_bindings(model, built)))
    for line in _attention(model, built):
        print(line)
    operators = model.operators
    lacking = [use for use in operators if use.problems]
    print("operators:")
    names = {id(use): f"{use.domain}:{use.op_type}" if use.domain else use.op_type for use in operators}
    print(rows([names[id(use)], str(use.nodes), "; ".join(use.problems)] for use in operators))
    print(f"payloads moved because they are not aligned: {model.moved_payloads}")
    for warning in model.warnings:
        print(f"warning: {warning}")
    if lacking:
        print(f"refeed cannot run this model: {', '.join(names[id(use)] for use in lacking)}")
        return 1
    print("refeed can run this model")
    return 0
