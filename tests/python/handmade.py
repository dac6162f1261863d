"""DLPack producers whose headers are written by hand."""

import ctypes
from collections.abc import Callable
from typing import Any

import graphs
import numpy as np


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Legacy(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_NEW = ctypes.pythonapi.PyCapsule_New
_NEW.restype = ctypes.py_object
_NEW.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

# In a destructor the capsule is no object to Python any more: it is passed on as an address.
_IS_VALID = ctypes.pythonapi.PyCapsule_IsValid
_IS_VALID.restype = ctypes.c_int
_IS_VALID.argtypes = [ctypes.c_void_p, ctypes.c_char_p]


class Handmade:
    """A producer whose header is written by hand, and who counts the calls of its deleter.

    `deleted` counts calls of the deleter, whoever made them; `abandoned` those of the capsule's destructor that found
    the capsule unused. As the protocol demands, such a destructor calls the deleter.
    """

    def __init__(
        self,
        shape: list[int],
        strides: list[int] | None = None,
        *,
        offset: int = 0,
        lanes: int = 1,
        device: int = 1,
        told_device: int = 1,
        ndim: int | None = None,
        code: int = 2,
        bits: int = 32,
        version: tuple[int, int] | None = (1, 0),
        null: bool = False,
        no_shape: bool = False,
        no_deleter: bool = False,
        flags: int = 0,
        name: bytes | None = None,
        on_delete: Callable[[], None] = lambda: None,
    ) -> None:
        self.deleted = 0
        self.abandoned = 0
        self.told_device = told_device
        self.memory = np.arange(256, dtype=np.float32)
        self._on_delete = on_delete
        self._shape = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        self._strides = (ctypes.c_int64 * max(1, len(strides)))(*strides) if strides is not None else None
        self._deleter = _Deleter() if no_deleter else _Deleter(self._delete)
        self._destructor = _Destructor(self._destroy)
        self._managed: Any = _Legacy() if version is None else _Versioned()
        if version is not None:
            self._managed.major, self._managed.minor = version
            self._managed.flags = flags
        self._managed.deleter = self._deleter
        header = self._managed.tensor
        header.data = None if null else graphs.address(self.memory)
        header.device_type, header.device_id = device, 0
        header.ndim = len(shape) if ndim is None else ndim
        header.code, header.bits, header.lanes = code, bits, lanes
        if not no_shape:
            header.shape = ctypes.cast(self._shape, ctypes.POINTER(ctypes.c_int64))
        if self._strides is not None:
            header.strides = ctypes.cast(self._strides, ctypes.POINTER(ctypes.c_int64))
        header.byte_offset = offset
        self._fresh_name = b"dltensor" if version is None else b"dltensor_versioned"
        self._name = self._fresh_name if name is None else name

    def _delete(self, _managed: int | None) -> None:
        self.deleted += 1
        self._on_delete()

    def _destroy(self, capsule: int) -> None:
        if _IS_VALID(capsule, self._name):
            self.abandoned += 1
            self._delete(None)

    def capsule(self) -> Any:
        destructor = ctypes.cast(self._destructor, ctypes.c_void_p)
        return _NEW(ctypes.addressof(self._managed), self._name, destructor)

    def __dlpack__(self, **_keywords: Any) -> Any:
        return self.capsule()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.told_device, 0)
