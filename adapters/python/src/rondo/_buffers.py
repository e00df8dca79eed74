"""The memory of arrays, and the sizes of the buffers of each kind of collective.

Memory comes through the buffer protocol or DLPack. Nothing is copied.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_ssize_t, c_uint32, c_void_p
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import _native
from ._enums import DType, Kind, RedOp
from ._errors import InvalidError, UnsupportedError
from ._native import fields_of


class _PyBuffer(ctypes.Structure):
    _fields_ = [
        *fields_of(c_void_p, "buf", "obj"),
        *fields_of(c_ssize_t, "len", "itemsize"),
        *fields_of(c_int, "readonly", "ndim"),
        ("format", c_char_p),
        *fields_of(c_void_p, "shape", "strides", "suboffsets", "internal"),
    ]


def _of_python(name: str, result: Any, *arguments: Any) -> Any:
    """A function of Python's C interface."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_PYBUF_FULL_RO = 0x11C
_get_buffer = _of_python("PyObject_GetBuffer", c_int, ctypes.py_object, POINTER(_PyBuffer), c_int)
_release_buffer = _of_python("PyBuffer_Release", None, POINTER(_PyBuffer))
_is_contiguous = _of_python("PyBuffer_IsContiguous", c_int, POINTER(_PyBuffer), ctypes.c_char)


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        *fields_of(c_int32, "device_type", "device_id", "ndim"),
        *fields_of(ctypes.c_uint8, "code", "bits"),
        ("lanes", ctypes.c_uint16),
        *fields_of(POINTER(ctypes.c_int64), "shape", "strides"),
        ("byte_offset", ctypes.c_uint64),
    ]


class _DLVersioned(ctypes.Structure):
    _fields_ = [
        *fields_of(c_uint32, "major", "minor"),
        *fields_of(c_void_p, "manager_ctx", "deleter"),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    ]


_DL_READ_ONLY = 1
_DL_CPU, _DL_CUDA_HOST = 1, 3
# By DLPack's code of the kind of number, and the bits of an element.
_DTYPES: Dict[Tuple[int, int], DType] = {
    (0, 8): DType.INT8,
    (0, 32): DType.INT32,
    (0, 64): DType.INT64,
    (1, 8): DType.UINT8,
    (1, 32): DType.UINT32,
    (1, 64): DType.UINT64,
    (2, 16): DType.FLOAT16,
    (2, 32): DType.FLOAT32,
    (2, 64): DType.FLOAT64,
    (4, 16): DType.BFLOAT16,
    (10, 8): DType.FLOAT8_E4M3,
    (12, 8): DType.FLOAT8_E5M2,
}
# DLPack's code of each letter of the struct module. The size is the itemsize.
_LETTERS = {
    **dict.fromkeys("bhilqn", 0),
    **dict.fromkeys("BHILQN", 1),
    **dict.fromkeys("efd", 2),
}
_capsule_pointer = _of_python("PyCapsule_GetPointer", c_void_p, ctypes.py_object, c_char_p)
_capsule_is = _of_python("PyCapsule_IsValid", c_int, ctypes.py_object, c_char_p)


class Typed:
    """An array whose memory holds elements of ``dtype``."""

    def __init__(self, array: Any, dtype: DType) -> None:
        self.array = array
        self.dtype = dtype


def as_dtype(array: Any, dtype: DType) -> Typed:
    """Treats the memory of ``array`` as elements of ``dtype`` instead of the array's own type.

    For types that the buffer protocol cannot name: bfloat16 in an array of uint16, float8 in an
    array of uint8, any type in a bytearray. The memory must hold a whole number of elements.
    """
    return Typed(array, DType(dtype))


class Held:
    """The memory of an array, which stays valid until ``release``."""

    def __init__(self, array: Any, name: str) -> None:
        override: Optional[DType] = None
        if isinstance(array, Typed):
            array, override = array.array, array.dtype
        self._view: Optional[_PyBuffer] = None
        self._capsule: Any = None
        self.address = 0
        self.nbytes = 0
        self.readonly = False
        self.dtype: Optional[DType] = None
        if not self._hold_buffer(array, name, override) and not self._hold_dlpack(array, name):
            raise InvalidError(
                f"{name}: {type(array).__name__} has neither the buffer protocol nor DLPack"
                " (for a type that neither can name, pass an unsigned view through rondo.as_dtype)"
            )
        if override is not None:
            self.dtype = override
            if self.nbytes % override.itemsize:
                self.release()
                raise InvalidError(
                    f"{name}: {self.nbytes} bytes are not a whole number of {override.name}"
                )

    def _hold_buffer(self, array: Any, name: str, override: Optional[DType]) -> bool:
        view = _PyBuffer()
        try:
            _get_buffer(array, byref(view), _PYBUF_FULL_RO)
        except (TypeError, ValueError, BufferError):
            return False
        self._view = view
        if not _is_contiguous(byref(view), b"C"):
            self.release()
            raise InvalidError(f"{name}: the array is not contiguous; pass a contiguous copy")
        self.address, self.nbytes = view.buf or 0, view.len
        self.readonly = bool(view.readonly)
        text = (view.format or b"B").decode()
        # A byte order may precede the letter. Big-endian elements have no type.
        if text[:1] not in (">", "!"):
            self.dtype = _DTYPES.get((_LETTERS.get(text.lstrip("@=<"), -1), 8 * view.itemsize))
        if self.dtype is None and override is None:
            self.release()
            raise InvalidError(f"{name}: Rondo has no type for elements of format {text!r}")
        return True

    def _hold_dlpack(self, array: Any, name: str) -> bool:
        if not hasattr(array, "__dlpack__") or not hasattr(array, "__dlpack_device__"):
            return False
        device = int(array.__dlpack_device__()[0])
        if device not in (_DL_CPU, _DL_CUDA_HOST):
            raise UnsupportedError(
                f"{name}: memory of DLPack device type {device} is not CPU memory"
            )
        try:
            try:
                capsule = array.__dlpack__(max_version=(1, 0))
            except TypeError:
                capsule = array.__dlpack__()
        except BufferError as error:
            raise InvalidError(f"{name}: {error}") from error
        self._hold_capsule(capsule, name)
        return True

    def _hold_capsule(self, capsule: Any, name: str) -> None:
        if _capsule_is(capsule, b"dltensor_versioned"):
            versioned = _DLVersioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
            if versioned.major != 1:
                raise InvalidError(f"{name}: DLPack version {versioned.major} is not supported")
            self.readonly = bool(versioned.flags & _DL_READ_ONLY)
            tensor = versioned.tensor
        else:
            tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
        dtype = _DTYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
        if dtype is None:
            raise InvalidError(
                f"{name}: Rondo has no type for elements of DLPack type {tensor.code}"
                f" and {tensor.bits} bits"
            )
        count = 1
        for axis in reversed(range(tensor.ndim)):
            if tensor.strides and tensor.shape[axis] > 1 and tensor.strides[axis] != count:
                raise InvalidError(f"{name}: the array is not contiguous; pass a contiguous copy")
            count *= tensor.shape[axis]
        # The capsule is not consumed. The memory is valid while the capsule is.
        self._capsule = capsule
        self.dtype = dtype
        self.address = (tensor.data or 0) + tensor.byte_offset
        self.nbytes = count * dtype.itemsize

    def release(self) -> None:
        """Releases the memory. A second call does nothing."""
        view, self._view = self._view, None
        if view is not None:
            _release_buffer(byref(view))
        self._capsule = None


def measure(array: Any, name: str) -> Tuple[DType, int]:
    """The type and number of the elements of an array."""
    held = Held(array, name)
    held.release()
    if held.dtype is None:  # Held refuses an array without a type; for the type checker
        raise InvalidError(f"{name}: the array has no type")
    return held.dtype, held.nbytes // held.dtype.itemsize


def hold(
    array: Any, name: str, dtype: DType, count: int, writable: bool, may_be_longer: bool = False
) -> Held:
    """Holds the memory of ``array``, which must be ``count`` elements of ``dtype``."""
    held = Held(array, name)
    problem = ""
    has = held.nbytes // dtype.itemsize
    if held.dtype is not dtype:
        found = held.dtype.name if held.dtype is not None else "other"
        problem = f"has {found} elements, not {dtype.name}"
    elif has < count or (has > count and not may_be_longer):
        problem = f"has {has} elements, not {count}"
    elif writable and held.readonly:
        problem = "is read-only"
    if problem:
        held.release()
        raise InvalidError(f"{name}: the array {problem}")
    return held


#: A number of elements for each member of the group.
Counts = Sequence[int]


@dataclass(frozen=True)
class Parts:
    """What a rank sends to each member and receives from each member in an all_to_all_v."""

    send_counts: Counts
    recv_counts: Counts
    send_displacements: Optional[Counts] = None
    recv_displacements: Optional[Counts] = None

    @staticmethod
    def extent(counts: Counts, displacements: Optional[Counts]) -> int:
        """The number of elements up to the end of the last part."""
        if displacements is None:
            return sum(counts)
        return max((at + count for at, count in zip(displacements, counts) if count), default=0)

    def fill(self, desc: _native.Desc, ranks: int) -> None:
        """Sets the counts of ``desc``, which keeps the arrays alive."""
        for name in ("send_counts", "recv_counts", "send_displacements", "recv_displacements"):
            numbers: Optional[Counts] = getattr(self, name)
            if numbers is None:
                continue
            if len(numbers) != ranks or any(not 0 <= int(one) < 2**64 for one in numbers):
                raise InvalidError(
                    f"all_to_all_v: {name} are {list(numbers)}, not one for each of {ranks} ranks"
                )
            setattr(desc, name, (ctypes.c_uint64 * ranks)(*(int(one) for one in numbers)))


@dataclass(frozen=True)
class Shape:
    """A collective as one rank sees it, which determines its buffers."""

    kind: Kind
    count: int
    dtype: DType
    ranks: int  # of the group
    position: int  # of this rank in the group
    op: RedOp = RedOp.SUM
    root: int = 0
    peer: int = 0
    scalar: float = 1.0
    parts: Optional[Parts] = field(default=None, compare=False)

    def desc(self) -> _native.Desc:
        """The descriptor, without id, group and priority."""
        if not 0 <= self.count < 2**64 or not 0 <= self.root < 2**32 or not 0 <= self.peer < 2**32:
            raise InvalidError(
                f"{self.kind.name.lower()}: count {self.count}, root {self.root}"
                f" or peer {self.peer} is out of range"
            )
        desc = _native.Desc(
            size=ctypes.sizeof(_native.Desc),
            version=_native.DESC_VERSION,
            kind=self.kind,
            count=self.count,
            dtype=self.dtype,
            redop=self.op,
            root=self.root,
            peer=self.peer,
            scalar=self.scalar,
        )
        if self.parts is not None:
            self.parts.fill(desc, self.ranks)
        return desc

    def elements(self) -> Tuple[Optional[int], Optional[int]]:
        """The sizes of the send and receive buffers; ``None``: not used by this rank."""
        count, wide = self.count, self.count * self.ranks
        if self.parts is not None:
            parts = self.parts
            return (
                parts.extent(parts.send_counts, parts.send_displacements),
                parts.extent(parts.recv_counts, parts.recv_displacements),
            )
        is_root = self.position == self.root
        send, recv = {
            Kind.ALL_REDUCE: (count, count),
            Kind.ALL_GATHER: (count, wide),
            Kind.REDUCE_SCATTER: (wide, count),
            Kind.REDUCE: (count, count if is_root else None),
            Kind.BROADCAST: (count if is_root else None, count),
            Kind.SEND_RECV: (
                count if is_root else None,
                count if self.position == self.peer else None,
            ),
            Kind.ALL_TO_ALL: (wide, wide),
            Kind.GATHER: (count, wide if is_root else None),
            Kind.SCATTER: (wide if is_root else None, count),
            Kind.BARRIER: (None, None),
        }[self.kind]
        return send, recv

    def hold(self, send: Any, recv: Any, name: str) -> Tuple[Tuple[Held, ...], Tuple[int, int]]:
        """Holds the buffers that this rank uses. Returns them, and both addresses; 0: not used."""
        held: List[Held] = []
        addresses = [0, 0]
        # The arrays of an all_to_all_v may be longer than their parts.
        may_be_longer = self.parts is not None
        try:
            for i, (array, count) in enumerate(zip((send, recv), self.elements())):
                side = f"{name}: {('send', 'recv')[i]}"
                if count is None:
                    continue
                if array is None:
                    raise InvalidError(f"{side} is None, but this rank uses it")
                one = hold(array, side, self.dtype, count, i == 1, may_be_longer)
                held.append(one)
                addresses[i] = one.address
        except BaseException:
            for one in held:
                one.release()
            raise
        return tuple(held), (addresses[0], addresses[1])
