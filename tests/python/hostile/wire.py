"""Bytes of the wire format, written by hand so that they can be wrong."""

from __future__ import annotations

VARINT, FIXED64, BYTES, START, END, FIXED32 = range(6)


def varint(value: int) -> bytes:
    """A number below 2**64 in groups of seven bits."""
    out = bytearray()
    while True:
        value, low = value >> 7, value & 127
        out.append(low | (128 if value else 0))
        if not value:
            return bytes(out)


def key(field: int, kind: int) -> bytes:
    """The key in front of a field."""
    return varint(field << 3 | kind)


def number(field: int, value: int) -> bytes:
    """A field that is a number; negative ones as 64 bits."""
    return key(field, VARINT) + varint(value % 2**64)


def block(field: int, content: bytes | str, claim: int | None = None) -> bytes:
    """A field with a length, true or claimed."""
    content = content.encode() if isinstance(content, str) else content
    return key(field, BYTES) + varint(len(content) if claim is None else claim) + content


def nested(fields: list[int], depth: int, inside: bytes = b"") -> bytes:
    """Messages in each other through the given fields in turn."""
    for level in reversed(range(depth)):
        inside = block(fields[level % len(fields)], inside)
    return inside


def model(graph: bytes = b"", *, opset: int = 23, more: bytes = b"") -> bytes:
    """A model around the fields of its graph."""
    return number(1, 10) + block(8, number(2, opset)) + block(7, block(2, "g") + graph) + more


def value_info(name: str, dims: list[int] | None = None, elem_type: int = 1) -> bytes:
    """A typed value."""
    shape = b"" if dims is None else block(2, b"".join(block(1, number(1, n)) for n in dims))
    return block(1, name) + block(2, block(1, number(1, elem_type) + shape))


def node(op_type: str, inputs: list[str], outputs: list[str], more: bytes = b"") -> bytes:
    """A node of the default domain."""
    names = b"".join(block(1, name) for name in inputs) + b"".join(block(2, name) for name in outputs)
    return names + block(4, op_type) + more


def tensor(name: str, dims: list[int], data_type: int = 1, more: bytes = b"") -> bytes:
    """A tensor whose dimensions and data need not agree."""
    return b"".join(number(1, n) for n in dims) + number(2, data_type) + block(8, name) + more


def attribute(name: str, kind: int, more: bytes) -> bytes:
    """An attribute with its payload field."""
    return block(1, name) + number(20, kind) + more
