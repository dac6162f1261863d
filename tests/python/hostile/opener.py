"""Opens files in every way that Python code can, in a process of its own, and says what happened to each.

``python opener.py FOLDER`` prints one JSON object a file: its name, for each way the class of the outcome and the
seconds, and the most memory that the process has held so far.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import refeed
import refeed.onnx
from refeed.onnx import checker, shape_inference

# A file that asks for more gets an error, whatever the machine has.
ADDRESS_SPACE = 8 << 30

WAYS: dict[str, Callable[[bytes], object]] = {
    "load": refeed.load,
    "session": lambda wire: refeed.RuntimeSession(refeed.load(wire)),
    "parse": lambda wire: refeed.onnx.ModelProto.FromString(wire).SerializeToString(),
    "check": checker.check_model,
    "infer": lambda wire: shape_inference.infer_shapes(wire, strict_mode=True, data_prop=True),
    "print": lambda wire: str(refeed.onnx.ModelProto.FromString(wire)),
}


def outcome(error: BaseException | None) -> str:
    """The kind of an outcome: accepted, refused by an error of ours, or an accident."""
    if error is None:
        return "accepted"
    return "refused" if isinstance(error, refeed.Error) and not isinstance(error, refeed.InternalError) else repr(error)


def open_all(folder: Path) -> None:
    """Opens every file of a folder, in the order of names."""
    for path in sorted(folder.iterdir()):
        wire = path.read_bytes()
        ways = {}
        for name, way in WAYS.items():
            start, error = time.perf_counter(), None
            try:
                way(wire)
            except Exception as raised:
                error = raised
            ways[name] = [outcome(error), time.perf_counter() - start, str(error)[:4096] if error else ""]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"file": path.name, "size": len(wire), "ways": ways, "peak": peak}), flush=True)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    open_all(Path(sys.argv[1]))
