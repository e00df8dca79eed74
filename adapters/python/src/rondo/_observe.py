"""Queries of the library for diagnosis: descriptions, missing ranks, reasons, the stuck report."""

from __future__ import annotations

import ctypes
from typing import Callable, Dict, List, Tuple

from . import _native
from ._enums import DType, Kind, RedOp, RunState, Status
from ._errors import UnknownError, check, error_of
from ._native import lib
from ._reports import Description, StuckReport, StuckRun
from ._state import Queue, State


def describe(state: State, coll: int) -> Description:
    desc = _native.Desc()
    count = ctypes.c_uint32()
    handle = _native.Handle(coll)
    check(
        lib.rondo_describe(state.handle, handle, ctypes.byref(desc), None, 0, ctypes.byref(count)),
        "describe",
    )
    ranks = (ctypes.c_uint32 * count.value)()
    check(lib.rondo_describe(state.handle, handle, None, ranks, len(ranks), None), "describe")
    return Description(
        id=int(desc.id),
        kind=Kind(desc.kind).name.lower(),
        count=int(desc.count),
        dtype=DType(desc.dtype).name.lower(),
        op=RedOp(desc.redop).name.lower(),
        root=int(desc.root),
        peer=int(desc.peer),
        ranks=list(ranks),
    )


def missing(state: State, coll: int, run: int) -> List[int]:
    handle, count = _native.Handle(coll), ctypes.c_uint32()
    check(lib.rondo_missing(state.handle, handle, run, None, 0, ctypes.byref(count)), "missing")
    ranks = (ctypes.c_uint32 * count.value)()
    check(
        lib.rondo_missing(state.handle, handle, run, ranks, len(ranks), ctypes.byref(count)),
        "missing",
    )
    return list(ranks[: count.value])


def reason(state: State, coll: int) -> str:
    text = ctypes.create_string_buffer(_native.REASON_BYTES)
    check(lib.rondo_reason(state.handle, _native.Handle(coll), text, len(text)), "reason")
    return _native.text_of(text)


_libc = ctypes.CDLL(None)
_libc.open_memstream.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t)]
_libc.open_memstream.restype = ctypes.c_void_p
_libc.fclose.argtypes = [ctypes.c_void_p]
_libc.free.argtypes = [ctypes.c_void_p]
_libc.free.restype = None


def printed(call: Callable[[int], int], name: str) -> str:
    """What ``call`` prints to the C stream that it gets."""
    memory, size = ctypes.c_void_p(), ctypes.c_size_t()
    stream = _libc.open_memstream(ctypes.byref(memory), ctypes.byref(size))
    if not stream:
        raise error_of(Status.ERR_NO_MEMORY, name)
    status = call(stream)
    _libc.fclose(stream)
    text = ctypes.string_at(memory.value, size.value).decode() if memory.value else ""
    _libc.free(memory)
    check(status, name)
    return text


def stuck_report(state: State, rank: int, rank_count: int, limit: int) -> StuckReport:
    entries = (_native.Stuck * limit)()
    count, cycle = ctypes.c_size_t(), ctypes.c_uint32()
    check(lib.rondo_stuck(state.handle, entries, limit, ctypes.byref(count)), "report")
    text = printed(
        lambda stream: int(lib.rondo_report(state.handle, stream, ctypes.byref(cycle))), "report"
    )
    known = _outstanding_collectives(state)
    return StuckReport(
        rank=rank,
        rank_count=rank_count,
        outstanding=count.value,
        runs=[_stuck_run(state, entry, known) for entry in entries[: min(limit, count.value)]],
        cycle_ranks=int(cycle.value),
        text=text,
    )


def _outstanding_collectives(state: State) -> Dict[int, Tuple[Queue, Description]]:
    """The collectives that may have outstanding runs, by id."""
    known = {}
    with state.lock:
        queues = list(state.queues.values())
    for queue in queues:
        try:
            description = describe(state, queue.coll)
        except UnknownError:
            continue  # a call of a communicator, which has ended
        known[description["id"]] = (queue, description)
    return known


def _stuck_run(
    state: State, entry: _native.Stuck, known: Dict[int, Tuple[Queue, Description]]
) -> StuckRun:
    queue, description = known.get(entry.id, (None, None))
    ranks, why = [], ""
    try:
        if queue is not None:
            ranks, why = missing(state, queue.coll, entry.run), reason(state, queue.coll)
    except UnknownError:
        pass  # the run has ended
    return StuckRun(
        id=entry.id,
        communicator=queue.key if queue is not None else None,
        kind=description["kind"] if description is not None else "unknown",
        count=description["count"] if description is not None else 0,
        dtype=description["dtype"] if description is not None else "unknown",
        ranks=description["ranks"] if description is not None else [],
        run=entry.run,
        state=RunState(entry.state).name.lower(),
        block=entry.block,
        op=entry.op,
        peer=entry.peer if entry.peer >= 0 else None,
        missing=entry.missing,
        missing_ranks=ranks,
        reason=why,
        waiting_ns=entry.waiting_ns,
    )
