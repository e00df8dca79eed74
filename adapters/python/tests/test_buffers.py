"""Which arrays are accepted, and how others are refused."""

from __future__ import annotations

import array
import ctypes
from typing import Any, Optional, Tuple

import numpy as np
import pytest
import rondo
from conftest import LONG_S
from rondo import DType

N = 24


@pytest.mark.parametrize(
    "dtype",
    [one for one in DType if one not in (DType.BFLOAT16, DType.FLOAT8_E4M3, DType.FLOAT8_E5M2)],
)
def test_numpy_types_are_known(alone: rondo.Context, dtype: DType) -> None:
    send = np.arange(N).astype(dtype.name.lower())
    recv = np.zeros_like(send)
    alone.all_reduce(1, N, dtype).run(send, recv).wait(LONG_S)
    assert (recv == send).all()
    assert send.itemsize == dtype.itemsize


@pytest.mark.parametrize(
    "dtype, raw",
    [(DType.BFLOAT16, np.uint16), (DType.FLOAT8_E4M3, np.uint8), (DType.FLOAT8_E5M2, np.uint8)],
)
def test_types_without_a_name_come_by_as_dtype(
    alone: rondo.Context, dtype: DType, raw: Any
) -> None:
    send, recv = np.arange(N, dtype=raw), np.zeros(N, raw)
    coll = alone.all_reduce(1, N, dtype)
    coll.run(rondo.as_dtype(send, dtype), rondo.as_dtype(recv, dtype)).wait(LONG_S)
    assert (recv == send).all()
    with pytest.raises(rondo.InvalidError, match=f"no type|not {dtype.name}"):
        coll.run(send, recv)


def test_other_buffers_of_the_standard_library_are_taken(alone: rondo.Context) -> None:
    coll = alone.all_reduce(1, N, DType.FLOAT64)
    send = array.array("d", range(N))
    recv = (ctypes.c_double * N)()
    coll.run(send, recv).wait(LONG_S)
    assert list(recv) == list(send)
    raw = bytearray(8 * N)
    coll.run(memoryview(send), rondo.as_dtype(raw, DType.FLOAT64)).wait(LONG_S)
    assert raw == send.tobytes()


def test_any_shape_counts_by_its_elements(alone: rondo.Context) -> None:
    send = np.arange(N, dtype=np.float32).reshape(2, 3, 4)
    recv = np.zeros((4, 6), np.float32)
    alone.all_reduce(1, N, DType.FLOAT32).run(send, recv).wait(LONG_S)
    assert (recv.ravel() == send.ravel()).all()
    alone.all_reduce(2, 0, DType.FLOAT32).run_in_place(np.zeros(0, np.float32)).wait(LONG_S)
    alone.all_reduce(3, 1, DType.FLOAT32).run_in_place(np.zeros((), np.float32)).wait(LONG_S)


class DLPack:
    """An array that has DLPack and no buffer protocol."""

    def __init__(self, data: Any, device: int = 1, versioned: bool = True) -> None:
        self.data, self.device, self.versioned = data, device, versioned

    def __dlpack_device__(self) -> Tuple[int, int]:
        return self.device, 0

    def __dlpack__(self, *, max_version: Optional[Tuple[int, int]] = None) -> Any:
        if not self.versioned:
            return self.data.__dlpack__()
        try:
            return self.data.__dlpack__(max_version=max_version)
        except TypeError:  # an older NumPy
            return self.data.__dlpack__()


class OldDLPack(DLPack):
    def __dlpack__(self) -> Any:  # type: ignore[override]  # before versions
        return self.data.__dlpack__()


@pytest.mark.parametrize("wrap", [DLPack, OldDLPack])
@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64", "float16", "float32", "float64"])
def test_dlpack_is_taken(alone: rondo.Context, wrap: Any, dtype: str) -> None:
    send, recv = np.arange(N).astype(dtype), np.zeros(N, dtype)
    alone.all_reduce(1, N, DType[dtype.upper()]).run(wrap(send), wrap(recv[:])).wait(LONG_S)
    assert (recv == send).all()


def capsule_of(code: int, bits: int, memory: Any, flags: int = 0, strides: Any = None) -> Any:
    """A versioned capsule, for types that NumPy does not have."""
    from rondo import _buffers

    managed = _buffers._DLVersioned()
    managed.major, managed.flags = 1, flags
    managed.tensor.data = ctypes.addressof(memory)
    managed.tensor.device_type, managed.tensor.ndim = 1, 1
    managed.tensor.code, managed.tensor.bits, managed.tensor.lanes = code, bits, 1
    managed.tensor.shape = (ctypes.c_int64 * 1)(N)
    managed.tensor.strides = strides
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

    class Array:
        def __dlpack_device__(self) -> Tuple[int, int]:
            return 1, 0

        def __dlpack__(self, max_version: Any = None) -> Any:
            return make(ctypes.addressof(managed), b"dltensor_versioned", None)

        keep = (managed, memory)

    return Array()


@pytest.mark.parametrize(
    "dtype, code", [(DType.BFLOAT16, 4), (DType.FLOAT8_E4M3, 10), (DType.FLOAT8_E5M2, 12)]
)
def test_dlpack_names_the_short_floats(alone: rondo.Context, dtype: DType, code: int) -> None:
    send = (ctypes.c_ubyte * (N * dtype.itemsize))(*range(N))
    recv = (ctypes.c_ubyte * (N * dtype.itemsize))()
    bits = 8 * dtype.itemsize
    coll = alone.all_reduce(1, N, dtype)
    coll.run(capsule_of(code, bits, send, 1), capsule_of(code, bits, recv)).wait(LONG_S)
    assert bytes(recv) == bytes(send)
    with pytest.raises(rondo.InvalidError, match="read-only"):
        coll.run(capsule_of(code, bits, send), capsule_of(code, bits, recv, 1))
    with pytest.raises(rondo.InvalidError, match="not contiguous"):
        coll.run(capsule_of(code, bits, send, 0, (ctypes.c_int64 * 1)(2)), recv)
    with pytest.raises(rondo.InvalidError, match="no type"):
        coll.run(capsule_of(13, 8, send), recv)


def test_memory_of_another_device_is_refused(alone: rondo.Context) -> None:
    coll = alone.all_reduce(1, N, DType.FLOAT32)
    with pytest.raises(rondo.UnsupportedError, match="device type 2"):
        coll.run_in_place(DLPack(np.zeros(N, np.float32), device=2))


def read_only() -> Any:
    made = np.zeros(N, np.float32)
    made.flags.writeable = False
    return made


@pytest.mark.parametrize(
    "bad, why",
    [
        (np.zeros(2 * N, np.float32)[::2], "not contiguous"),
        (np.zeros((4, 6), np.float32).T, "not contiguous"),
        (np.zeros(N, np.float64), "FLOAT64"),
        (np.zeros(N, ">f4"), "no type"),
        (np.zeros(N, np.complex64), "no type"),
        (np.zeros(N, bool), "no type"),
        (np.zeros(N, "f4,f4"), "no type"),
        (np.zeros(N, np.int16), "no type"),
        (np.zeros(N - 1, np.float32), "23 elements, not 24"),
        (np.zeros(N + 1, np.float32), "25 elements, not 24"),
        (bytearray(4 * N), "UINT8"),
        (rondo.as_dtype(bytearray(4 * N - 1), DType.FLOAT32), "not a whole number"),
        (read_only(), "read-only"),
        (rondo.as_dtype(bytes(4 * N), DType.FLOAT32), "read-only"),
        ([0.0] * N, "neither the buffer protocol"),
        (None, "None"),
    ],
)
def test_what_cannot_be_received_into_is_refused(alone: rondo.Context, bad: Any, why: str) -> None:
    coll = alone.all_reduce(1, N, DType.FLOAT32)
    good = np.zeros(N, np.float32)
    with pytest.raises(rondo.InvalidError, match=why) as caught:
        coll.run(good, bad)
    assert caught.value.status is rondo.Status.ERR_INVALID and isinstance(caught.value, ValueError)
    assert alone.counters().submitted == 0
    coll.run_in_place(good).wait(LONG_S)


def test_what_is_only_read_may_be_read_only(alone: rondo.Context) -> None:
    out = np.ones(N, np.float32)
    alone.all_reduce(1, N, DType.FLOAT32).run(read_only(), out).wait(LONG_S)
    assert not out.any()


def test_overlap_is_refused_by_the_library(alone: rondo.Context) -> None:
    both = np.zeros(N + 1, np.float32)
    with pytest.raises(rondo.InvalidError):
        alone.all_reduce(1, N, DType.FLOAT32).run(both[:-1], both[1:])


@pytest.mark.parametrize(
    "arguments",
    [
        {"rank": 1},
        {"rank": -1},
        {"rank_count": 10**6},
        {"id": b"short"},
        {"blocks": 1000},
        {"slot_bytes": 3},
        {"interfaces": "x" * 64},
        {"order": 17},
    ],
)
def test_contexts_that_make_no_sense_are_refused(arguments: Any) -> None:
    with pytest.raises(rondo.InvalidError):
        rondo.Context(**arguments)


def test_registrations_that_make_no_sense_are_refused(alone: rondo.Context) -> None:
    for arguments in (
        {"id": -1},
        {"id": 2**64},
        {"count": -1},
        {"dtype": 99},
        {"op": 99},
        {"priority": 1000},
    ):
        full: Any = {"id": 1, "count": 1, "dtype": DType.INT32, **arguments}
        with pytest.raises(rondo.InvalidError):
            alone.all_reduce(**full)
    with pytest.raises(rondo.InvalidError):
        alone.broadcast(1, 1, DType.INT32, root=1)
    alone.all_reduce(1, 1, DType.INT32)
    with pytest.raises(rondo.ExistsError):
        alone.all_reduce(1, 1, DType.INT32)
    with pytest.raises(rondo.InvalidError):
        alone.group([0, 0])
    with pytest.raises(rondo.InvalidError):
        alone.group([-1])
