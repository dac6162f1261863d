"""The signatures of the official operators: what the native checker holds nodes to.

Run as a script, it writes the table that the `graph` crate reads. One version of an operator a line, its fields
separated by blanks: domain, name, version, `D` when deprecated, inputs, outputs, attributes.

Inputs and outputs are `least-most:parameters`, with `*` for any number and one letter a parameter: S for one that must
be there, O for an optional one, V for a variadic one. Attributes are `name:TYPE`, with `!` after those that must be
there.
"""

import pathlib
from typing import Any

from onnx import defs

TABLE = pathlib.Path(__file__).resolve().parents[2] / "crates/graph/src/validate/operators/onnx-1.23.txt"
# The official schemas give the largest C int as the bound of a variadic parameter.
UNBOUNDED = 2**31 - 1
OPTIONS = {
    defs.OpSchema.FormalParameterOption.Single: "S",
    defs.OpSchema.FormalParameterOption.Optional: "O",
    defs.OpSchema.FormalParameterOption.Variadic: "V",
}


def _parameters(least: int, most: int, parameters: Any) -> str:
    bound = "*" if most == UNBOUNDED else str(most)
    return f"{least}-{bound}:{''.join(OPTIONS[parameter.option] for parameter in parameters)}"


def _line(schema: Any) -> str:
    attributes = (
        f"{name}:{attribute.type.name}{'!' if attribute.required else ''}"
        for name, attribute in sorted(schema.attributes.items())
    )
    fields = (
        schema.domain or "ai.onnx",
        schema.name,
        str(schema.since_version),
        "D" if schema.deprecated else "-",
        _parameters(schema.min_input, schema.max_input, schema.inputs),
        _parameters(schema.min_output, schema.max_output, schema.outputs),
        *attributes,
    )
    return " ".join(fields)


def official() -> str:
    """Every version of every operator that the installed `onnx` package knows, as the table's text."""
    schemas = sorted(
        defs.get_all_schemas_with_history(),
        key=lambda schema: (schema.domain, schema.name, schema.since_version),
    )
    return "".join(f"{_line(schema)}\n" for schema in schemas)


if __name__ == "__main__":
    TABLE.write_text(official())
