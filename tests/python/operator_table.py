"""The official operators as a table: what the native schemas are compared with.

Run as a script, it writes the table that the tests of the `graph` crate read. Only facts go into it: names, versions,
numbers of inputs and outputs, names and types of attributes and whether they must be there.
"""

import json
import pathlib
from typing import Any

from onnx import defs

TABLE = pathlib.Path(__file__).resolve().parents[1] / "data" / "onnx_operators.json"
# The official schemas give the largest C int as the bound of a variadic parameter.
UNBOUNDED = 2**31 - 1


def _bounds(low: int, high: int) -> list[int | None]:
    return [low, None if high == UNBOUNDED else high]


def _version(schema: Any) -> dict[str, Any]:
    return {
        "since": schema.since_version,
        "inputs": _bounds(schema.min_input, schema.max_input),
        "outputs": _bounds(schema.min_output, schema.max_output),
        "attributes": {name: [held.type.name, held.required] for name, held in sorted(schema.attributes.items())},
    }


def official() -> list[dict[str, Any]]:
    """Every operator that the installed `onnx` package knows, with all its versions, in a fixed order."""
    operators: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for schema in defs.get_all_schemas_with_history():
        operators.setdefault((schema.domain, schema.name), []).append(_version(schema))
    return [
        {"domain": domain, "op_type": op_type, "versions": sorted(versions, key=lambda version: version["since"])}
        for (domain, op_type), versions in sorted(operators.items())
    ]


def to_text(table: list[dict[str, Any]]) -> str:
    """One version of an operator a line, so that a change shows as a change of few lines."""
    lines = [
        json.dumps(entry).replace('"versions": [{', '"versions": [\n  {').replace("}}, {", "}},\n  {")
        for entry in table
    ]
    return "[\n" + ",\n".join(lines) + "\n]\n"


if __name__ == "__main__":
    TABLE.write_text(to_text(official()))
