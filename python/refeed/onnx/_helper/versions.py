"""Releases of ONNX: which IR version and which operator sets each of them brought."""

from collections.abc import Iterable
from typing import TypeAlias

from refeed.onnx.messages import OperatorSetIdProto

VersionRowType: TypeAlias = tuple[str, int, int, int] | tuple[str, int, int, int, int]
VersionTableType: TypeAlias = list[VersionRowType]
VersionMapType: TypeAlias = dict[tuple[str, int], int]

#: Release, IR version, and the versions of the domains `ai.onnx`, `ai.onnx.ml` and `ai.onnx.training`.
VERSION_TABLE: VersionTableType = [
    ("1.0", 3, 1, 1),
    ("1.1", 3, 5, 1),
    ("1.1.2", 3, 6, 1),
    ("1.2", 3, 7, 1),
    ("1.3", 3, 8, 1),
    ("1.4.1", 4, 9, 1),
    ("1.5.0", 5, 10, 1),
    ("1.6.0", 6, 11, 2),
    ("1.7.0", 7, 12, 2, 1),
    ("1.8.0", 7, 13, 2, 1),
    ("1.8.1", 7, 13, 2, 1),
    ("1.9.0", 7, 14, 2, 1),
    ("1.10.0", 8, 15, 2, 1),
    ("1.10.1", 8, 15, 2, 1),
    ("1.10.2", 8, 15, 2, 1),
    ("1.11.0", 8, 16, 3, 1),
    ("1.12.0", 8, 17, 3, 1),
    ("1.13.0", 8, 18, 3, 1),
    ("1.13.1", 8, 18, 3, 1),
    ("1.14.0", 9, 19, 3, 1),
    ("1.14.1", 9, 19, 3, 1),
    ("1.15.0", 9, 20, 4, 1),
    ("1.16.0", 10, 21, 5, 1),
    ("1.16.1", 10, 21, 5, 1),
    ("1.16.2", 10, 21, 5, 1),
    ("1.17.0", 10, 22, 5, 1),
    ("1.18.0", 11, 23, 5, 1),
    ("1.19.0", 12, 24, 5, 1),
    ("1.19.1", 12, 24, 5, 1),
    ("1.20.0", 13, 25, 5, 1),
    ("1.20.1", 13, 25, 5, 1),
    ("1.21.0", 13, 26, 5, 1),
    ("1.22.0", 13, 27, 5, 1),
    ("1.23.0", 14, 28, 5, 1),
]

_DOMAINS = ("ai.onnx", "ai.onnx.ml", "ai.onnx.training")


def _op_set_id_version_map(table: VersionTableType) -> VersionMapType:
    """Map each domain and version to the IR version of the first release that has it.

    The preview domains take the numbers of the domains that they preview.
    """
    found: VersionMapType = {}
    for _, ir_version, *versions in table:
        for domain, version in zip(_DOMAINS, versions, strict=False):
            found.setdefault((domain, version), ir_version)
            if domain == "ai.onnx":
                found.setdefault(("ai.onnx.preview", version), ir_version)
            elif domain == "ai.onnx.training":
                found.setdefault(("ai.onnx.preview.training", version), ir_version)
    return found


OP_SET_ID_VERSION_MAP = _op_set_id_version_map(VERSION_TABLE)

NEWEST_IR_VERSION, NEWEST_OPSET = VERSION_TABLE[-1][1:3]


def find_min_ir_version_for(opsetidlist: Iterable[OperatorSetIdProto] | None, ignore_unknown: bool = False) -> int:
    """Return the lowest IR version of a model that imports these operator sets.

    Parameters
    ----------
    opsetidlist : iterable of OperatorSetIdProto
        What the model imports; None is nothing.
    ignore_unknown : bool, default False
        Whether operator sets that no release of ONNX has are passed over.

    Raises
    ------
    ValueError
        An operator set is unknown, and `ignore_unknown` is false.

    Examples
    --------
    >>> find_min_ir_version_for([OperatorSetIdProto(domain="", version=9)])
    4
    """
    lowest = VERSION_TABLE[0][1]
    for opset in opsetidlist or ():
        found = OP_SET_ID_VERSION_MAP.get((opset.domain or "ai.onnx", opset.version))
        if found is not None:
            lowest = max(lowest, found)
        elif not ignore_unknown:
            raise ValueError(
                f"no release of ONNX has version {opset.version} of the domain {opset.domain or 'ai.onnx'!r}; the "
                f"newest is {NEWEST_OPSET} of ai.onnx. Give ir_version yourself, or ignore_unknown=True"
            )
    return lowest
