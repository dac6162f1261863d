"""The pages of a paged cache as NumPy sees them: formats, stored bytes, valid rows."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from refeed._native import check_paged_cache, dequantize_tensor
from refeed.onnx import PagedCacheProto, TensorProto, numpy_helper

__all__ = ["CachePart", "cache_parts", "refuse_faults", "stored_bytes"]

#: What a page has two of.
PARTS = ("key", "value")


class CachePart(NamedTuple):
    """Keys or values of one page."""

    #: Position of the page.
    page: int
    #: `"key"` or `"value"`.
    part: str
    #: Name of the element type of the numbers or codes: `"FLOAT"`, `"INT4"`, ...; `"STRUCT"` for structured encodings.
    format: str
    #: Batch, heads, capacity, width.
    shape: tuple[int, ...]
    #: Valid rows.
    length: int
    #: Bytes of the numbers or codes, and of the scales and zero points that belong to them.
    nbytes: int
    #: The message: a `TensorProto` or an `EncodedValueProto`.
    message: Any

    def rows(self, model: Any = None) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Decode the valid rows: `[batch, heads, length, width]`.

        Parameters
        ----------
        model : model-like, optional
            Where shared quantisation parameters are looked up.
        """
        if isinstance(self.message, TensorProto):
            whole = numpy_helper.to_array(self.message)
        else:
            whole = dequantize_tensor(self.message, model).numpy()
        return whole[:, :, : self.length].astype(np.float64)


def refuse_faults(argument: str, cache: Any, model: Any = None) -> None:
    """Hold a cache to the rules of pages; nothing is decoded.

    Raises
    ------
    TypeError
        When it is no PagedCacheProto.
    ValueError
        With the number of the page and the field that breaks a rule.
    """
    if not isinstance(cache, PagedCacheProto):
        raise TypeError(f"{argument}: expected a PagedCacheProto, got {type(cache).__name__}")
    try:
        check_paged_cache(cache, model)
    except ValueError as error:
        raise type(error)(f"{argument}: {error}") from None


def stored_bytes(tensor: TensorProto) -> int:
    """Bytes that the elements of a tensor take when they are packed, wherever the message keeps them."""
    bits = np.dtype(numpy_helper.to_array(tensor).dtype).itemsize * 8
    width = {"INT4": 4, "UINT4": 4, "INT2": 2, "UINT2": 2}.get(TensorProto.DataType.Name(tensor.data_type), bits)
    return -(-int(np.prod(tensor.dims, dtype=np.int64)) * width // 8)


def cache_parts(cache: PagedCacheProto) -> Iterator[CachePart]:
    """Go through keys and values of every page of a cache that keeps the rules, in order; nothing is decoded."""
    for index, block in enumerate(cache.blocks):
        for part in PARTS:
            field = str(block.WhichOneof(f"{part}_payload"))
            message = getattr(block, field)
            if field == part:
                shape = tuple(message.dims)
                name, nbytes = TensorProto.DataType.Name(message.data_type), stored_bytes(message)
            else:
                shape = tuple(dim.dim_value for dim in message.logical_type.tensor_type.shape.dim)
                name, nbytes = "STRUCT", len(message.raw_data)
                if message.WhichOneof("layout") == "affine":
                    name = _storage(message, shape)
                    nbytes += sum(
                        stored_bytes(getattr(message.affine, field))
                        for field in ("scale", "zero_point")
                        if message.affine.HasField(field)
                    )
            yield CachePart(index, part, name, shape, int(block.length), nbytes, message)


def _storage(message: Any, shape: tuple[int, ...]) -> str:
    """Return the code type of an affine encoding, which may be stated by its sign alone."""
    affine = message.affine
    if affine.HasField("storage_type"):
        return str(TensorProto.DataType.Name(affine.storage_type))
    elements = int(np.prod(shape, dtype=np.int64))
    (width,) = (bits for bits in (2, 4, 8) if -(-elements * bits // 8) == len(message.raw_data))
    return f"{'' if affine.signed_storage else 'U'}INT{width}"
