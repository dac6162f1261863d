"""The hostile files: 150 models in bytes, by the rule that each breaks. All of them must be refused."""

from __future__ import annotations

from hostile.wire import (
    BYTES,
    END,
    FIXED32,
    FIXED64,
    START,
    VARINT,
    attribute,
    block,
    key,
    model,
    nested,
    node,
    number,
    tensor,
    value_info,
    varint,
)

IN, OUT = block(11, value_info("x", [2])), block(12, value_info("y", [2]))
IDENTITY = block(1, node("Identity", ["x"], ["y"]))
GOOD = model(IDENTITY + IN + OUT)


def graph(*nodes: bytes, more: bytes = b"", inputs: bytes = IN, outputs: bytes = OUT) -> bytes:
    """A model of nodes, with the usual input and output."""
    return model(b"".join(block(1, one) for one in nodes) + inputs + outputs + more)


def initializer(content: bytes) -> bytes:
    """A model with one initializer."""
    return graph(node("Identity", ["x"], ["y"]), more=block(5, content))


def bytes_that_lie() -> dict[str, bytes]:
    """Lengths, numbers and keys that the file does not keep."""
    cases = {
        "empty file": b"",
        "one byte": b"\x08",
        "text": b"ir_version: 10 graph { name: 'g' }",
        "zeros": bytes(64),
        "ones": b"\xff" * 64,
        "field zero": varint(VARINT) + b"\x01" + GOOD,
        "varint of 11 bytes": key(1, VARINT) + b"\xff" * 10 + b"\x01" + GOOD,
        "varint that never ends": key(1, VARINT) + b"\x80" * 9,
        "group that never ends": GOOD + key(60, START) + b"\x00",
        "group with another end": GOOD + key(60, START) + key(61, END),
        "end without a group": GOOD + key(60, END),
        "reserved wire type": GOOD + varint(60 << 3 | 6) + b"\x00",
        "fixed32 cut short": GOOD + key(60, FIXED32) + b"\x00",
        "fixed64 cut short": GOOD + key(60, FIXED64) + b"\x00" * 4,
        "packed floats of 3 bytes": initializer(tensor("w", [1], more=block(4, b"\0\0\0"))),
        "packed doubles of 7 bytes": initializer(tensor("w", [1], 11, block(10, b"\0" * 7))),
        "packed varint cut short": initializer(tensor("w", [1], 7, block(7, b"\x80"))),
    }
    claims = [1, 2**31 - 1, 2**31, 2**32, 2**62, 2**63, 2**64 - 1]
    for claim in claims:
        cases[f"graph of {claim} bytes that are not there"] = number(1, 10) + block(7, b"", claim)
        cases[f"payload of {claim} bytes that are not there"] = block(5, block(9, b"", claim))
        cases[f"unknown field of {claim} bytes that are not there"] = GOOD + key(99, BYTES) + varint(claim)
    for cut in (len(GOOD) // 4, len(GOOD) // 2, len(GOOD) - 3):
        cases[f"cut after {cut} bytes"] = GOOD[:cut]
    return cases


def nesting() -> dict[str, bytes]:
    """Messages in messages."""
    cases = {}
    for depth in (101, 1000, 100_000):
        cases[f"{depth} groups"] = GOOD + key(60, START) * depth + key(60, END) * depth
        cases[f"{depth} subgraphs"] = number(1, 10) + block(7, nested([1, 5, 6], depth))
        cases[f"{depth} sequence types"] = model(
            IDENTITY + IN + block(12, block(1, "y") + block(2, nested([4, 1], depth)))
        )
        cases[f"{depth} optional types"] = model(
            IDENTITY + IN + block(12, block(1, "y") + block(2, nested([9, 1], depth)))
        )
        cases[f"{depth} struct types"] = model(
            IDENTITY + IN + block(12, block(1, "y") + block(2, nested([1000, 1, 1], depth)))
        )
        cases[f"{depth} struct decoders"] = GOOD + block(1000, nested([5, 7, 5, 14, 1000], depth))
    return cases


def names() -> dict[str, bytes]:
    """Names that are no text, or that say nothing or too much."""
    bad = b"\xff\xfe"
    return {
        "operator that is not text": graph(block(1, "x") + block(2, "y") + block(4, bad)),
        "input that is not text": graph(block(1, bad) + block(2, "y") + block(4, "Identity")),
        "graph name that is not text": number(1, 10)
        + block(8, number(2, 23))
        + block(7, block(2, bad) + IDENTITY + IN + OUT),
        "initializer name that is not text": initializer(number(1, 1) + number(2, 1) + block(8, bad)),
        "no operator": graph(block(1, "x") + block(2, "y")),
        "unnamed graph input": graph(node("Identity", ["x"], ["y"]), more=block(11, value_info("", [1]))),
        "unnamed graph output": graph(node("Identity", ["x"], ["y"]), more=block(12, value_info("", [1]))),
        "unnamed initializer": initializer(tensor("", [1], more=block(9, b"\0" * 4))),
        "unnamed attribute": graph(node("Identity", ["x"], ["y"], block(5, attribute("", 2, number(3, 1))))),
    }


def structure() -> dict[str, bytes]:
    """Graphs that are no graphs."""
    relu = node("Relu", ["x"], ["y"])
    branch = block(2, "b") + block(12, value_info("z", [1]))
    condition = block(5, attribute("then_branch", 5, block(6, branch)))
    weight = tensor("w", [1], more=block(9, b"\0" * 4))
    return {
        "no graph": number(1, 10) + block(8, number(2, 23)),
        "no operator set": number(1, 10) + block(7, block(2, "g") + IDENTITY + IN + OUT),
        "operator set twice": model(IDENTITY + IN + OUT, more=block(8, number(2, 22))),
        "operator set of version 0": model(IDENTITY + IN + OUT, opset=0),
        "operator set of version -1": model(IDENTITY + IN + OUT, opset=-1),
        "operator set of another domain only": number(1, 10)
        + block(8, block(1, "other") + number(2, 1))
        + block(7, block(2, "g") + IDENTITY + IN + OUT),
        "format of the future": number(1, 10_000) + GOOD[2:],
        "format of -1": number(1, -1) + GOOD[2:],
        "input that nothing makes": graph(node("Relu", ["nothing"], ["y"])),
        "output that nothing makes": graph(node("Relu", ["x"], ["z"])),
        "value made twice": graph(relu, relu),
        "value made by an input and a node": graph(node("Relu", ["x"], ["x"]), relu),
        "cycle of two": graph(node("Relu", ["b"], ["a"]), node("Relu", ["a"], ["b"]), relu),
        "node that reads itself": graph(node("Add", ["x", "y"], ["y"])),
        "nodes in the wrong order": graph(node("Relu", ["a"], ["y"]), node("Relu", ["x"], ["a"])),
        "input twice": graph(relu, more=IN),
        "output twice": graph(relu, more=OUT),
        "initializer twice": graph(relu, more=block(5, weight) * 2),
        "attribute twice": graph(
            node("Elu", ["x"], ["y"], block(5, attribute("alpha", 1, key(2, FIXED32) + b"\0" * 4)) * 2)
        ),
        "attribute without a type": graph(node("Elu", ["x"], ["y"], block(5, block(1, "alpha")))),
        "attribute of type 99": graph(node("Elu", ["x"], ["y"], block(5, attribute("alpha", 99, b"")))),
        "reference to an attribute outside of a function": graph(
            node("Elu", ["x"], ["y"], block(5, block(1, "alpha") + number(20, 1) + block(21, "a")))
        ),
        "graph input without a type": graph(relu, more=block(11, block(1, "z"))),
        "graph input of element type 0": graph(relu, more=block(11, value_info("z", [1], 0))),
        "graph input of element type 999": graph(relu, more=block(11, value_info("z", [1], 999))),
        "branch whose output nothing makes": graph(node("If", ["x"], ["y"], condition)),
    }


def functions() -> dict[str, bytes]:
    """Functions that call too much."""

    def function(name: str, calls: list[str]) -> bytes:
        nodes, value = [], "a"
        for index, callee in enumerate(calls):
            made = "b" if index == len(calls) - 1 else f"v{index}"
            nodes.append(block(7, node(callee, [value], [made], block(7, "f"))))
            value = made
        opsets = block(9, number(2, 23)) + block(9, block(1, "f") + number(2, 1))
        return block(25, block(1, name) + block(10, "f") + block(4, "a") + block(5, "b") + opsets + b"".join(nodes))

    def calling(bodies: bytes) -> bytes:
        call = block(1, node("f0", ["x"], ["y"], block(7, "f")))
        return model(call + IN + OUT, more=block(8, block(1, "f") + number(2, 1)) + bodies)

    chain = b"".join(function(f"f{n}", [f"f{n + 1}"]) for n in range(3000)) + function("f3000", [])
    doubling = b"".join(function(f"f{n}", [f"f{n + 1}"] * 2) for n in range(40)) + function("f40", ["f41"])
    return {
        "function that calls itself": calling(function("f0", ["f0"])),
        "functions that call each other": calling(function("f0", ["f1"]) + function("f1", ["f0"])),
        "function twice": calling(function("f0", ["g"]) * 2),
        "function without a name": calling(function("", ["g"])),
        "chain of 3,000 functions": calling(chain),
        "2^40 calls": calling(doubling),
    }


def dimensions() -> dict[str, bytes]:
    """Sizes that are no sizes."""
    cases = {}
    shapes = {
        "negative": [-1],
        "smallest": [-(2**63)],
        "product beyond 64 bits": [2**32, 2**32],
        "product that wraps to 4": [4_194_305, 4_194_305, 211_106_198_978_564],
        "product beyond 64 bits, then 0": [2**62, 4, 2**62],
        "largest": [2**63 - 1],
        "more than the data": [3],
        "fewer than the data": [1],
    }
    for title, dims in shapes.items():
        cases[f"dims {title}: raw"] = initializer(tensor("w", dims, more=block(9, b"\0" * 8)))
        cases[f"dims {title}: typed"] = initializer(tensor("w", dims, more=block(4, b"\0" * 8)))
        cases[f"dims {title}: 4 bit"] = initializer(tensor("w", dims, 22, block(9, b"\0" * 9)))
    cases["rank of 100,000"] = initializer(tensor("w", [1] * 100_000, more=block(9, b"\0" * 4)))
    return cases


def payloads() -> dict[str, bytes]:
    """Tensors whose data do not fit their type."""
    cases = {
        "raw and typed data": initializer(tensor("w", [1], more=block(9, b"\0" * 4) + block(4, b"\0" * 4))),
        "data of another type": initializer(tensor("w", [1], 1, block(7, b"\0"))),
        "raw strings": initializer(tensor("w", [1], 8, block(9, b"\0" * 4))),
        "element type 0": initializer(tensor("w", [1], 0, block(9, b"\0" * 4))),
        "element type 999": initializer(tensor("w", [1], 999, block(9, b"\0" * 4))),
        "no data": initializer(tensor("w", [1])),
        "int4 in one byte too many": initializer(tensor("w", [3], 22, block(9, b"\0" * 3))),
        "sparse tensor without indices": graph(
            node("Relu", ["x"], ["y"]),
            more=block(15, block(1, tensor("w", [1], more=block(9, b"\0" * 4))) + number(3, 4)),
        ),
    }
    for width, kind in ((2, 10), (2, 16), (8, 11), (8, 7), (4, 6), (1, 9), (8, 14), (16, 15)):
        cases[f"element type {kind} short of a byte"] = initializer(
            tensor("w", [5], kind, block(9, b"\0" * (5 * width - 1)))
        )
    return cases


def external() -> dict[str, bytes]:
    """Data in other files, seen from a model in memory."""

    def outside(**entries: str) -> bytes:
        pairs = b"".join(block(13, block(1, name) + block(2, value)) for name, value in entries.items())
        return initializer(tensor("w", [1], more=number(14, 1) + pairs))

    return {
        "no location": outside(offset="0"),
        "parent folder": outside(location="../secret"),
        "absolute": outside(location="/etc/hostname"),
        "through a folder and back": outside(location="a/../../secret"),
        "empty location": outside(location=""),
        "negative offset": outside(location="w", offset="-1"),
        "offset that is no number": outside(location="w", offset="0x10"),
        "offset beyond 64 bits": outside(location="w", offset=str(2**64)),
        "length beyond 64 bits": outside(location="w", length=str(2**70)),
        "offset and length that wrap": outside(location="w", offset=str(2**63 - 1), length=str(2**63 - 1)),
        "device": outside(location="/dev/zero", length="4"),
        "location with NUL": outside(location="w\0x"),
        "file that is not there": outside(location="nothing.bin", length="4"),
    }


def extensions() -> dict[str, bytes]:
    """Bindings and structured types that cannot be."""
    binding = block(1001, block(1, "x") + block(2, "y"))
    relu = node("Relu", ["x"], ["y"])

    def bound(content: bytes) -> bytes:
        return graph(relu, more=block(1001, content))

    def struct(content: bytes) -> bytes:
        return GOOD + block(1000, content)

    cyclic = number(10, 1) + block(2, block(1, block(1, "a") + block(2, block(1000, number(4, 1)))))
    return {
        "binding of a part": bound(block(1, "x") + block(2, "y") + block(3, "part")),
        "binding to a part": bound(block(1, "x") + block(2, "y") + block(4, "part")),
        "binding without an output": bound(block(1, "x")),
        "binding of an unknown input": bound(block(1, "q") + block(2, "y")),
        "binding of an unknown output": bound(block(1, "x") + block(2, "q")),
        "binding twice": graph(relu, more=binding * 2),
        "binding of strings": model(
            block(1, node("Identity", ["x"], ["y"]))
            + block(11, value_info("x", [1], 8))
            + block(12, value_info("y", [1], 8))
            + binding
        ),
        "binding in a branch": graph(
            node("If", ["x"], ["y"], block(5, attribute("then_branch", 5, block(6, block(2, "b") + binding)))), relu
        ),
        "struct type without identity": struct(block(7, "s")),
        "struct type that refers to itself": struct(cyclic),
        "struct type twice": struct(cyclic) + block(1000, cyclic),
        "paged cache without a name": graph(relu, more=block(1002, b"")),
        "encoded value without a layout": graph(relu, more=block(1000, block(7, "e"))),
        "encoded value without a name": graph(relu, more=block(1000, block(1, number(1, 3)))),
    }


def all_files() -> dict[str, bytes]:
    """Every hostile file by its title."""
    families = [bytes_that_lie, nesting, names, structure, functions, dimensions, payloads, external, extensions]
    return {f"{family.__name__}: {title}": wire for family in families for title, wire in family().items()}
