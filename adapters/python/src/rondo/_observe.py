"""Queries of the library for diagnosis: descriptions, missing ranks, reasons, the stuck report."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, byref, c_size_t, c_uint32, c_void_p
from dataclasses import fields
from typing import Callable, Dict, List, Tuple

from . import _native
from ._enums import DType, Kind, RedOp, RunState, Status
from ._errors import BusyError, ClosedError, UnknownError, check, error_of
from ._native import lib
from ._reports import CollectiveCounters, Description, StuckReport, StuckRun
from ._state import Queue, State


def describe(queue: Queue) -> Description:
    desc, count, handle = _native.Desc(), c_uint32(), _native.Handle(queue.coll)
    call = queue.state.call
    call(lib.rondo_describe, "describe", handle, byref(desc), None, 0, byref(count))
    ranks = (c_uint32 * count.value)()
    call(lib.rondo_describe, "describe", handle, None, ranks, len(ranks), None)
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


def members(queue: Queue, run: int, name: str) -> List[int]:
    state, handle, count = queue.state.check_open(name), _native.Handle(queue.coll), c_uint32()
    status = lib.rondo_run_members(state.handle, handle, run, None, 0, byref(count))
    if status == Status.IN_PROGRESS:
        raise BusyError(f"{name}: has not ended")
    check(status, name)
    ranks = (c_uint32 * count.value)()
    status = lib.rondo_run_members(state.handle, handle, run, ranks, len(ranks), byref(count))
    check(status, name)
    return list(ranks)


def missing(queue: Queue, run: int) -> List[int]:
    handle, count = _native.Handle(queue.coll), c_uint32()
    call = queue.state.call
    call(lib.rondo_missing, "missing", handle, run, None, 0, byref(count))
    ranks = (c_uint32 * count.value)()
    call(lib.rondo_missing, "missing", handle, run, ranks, len(ranks), byref(count))
    return list(ranks[: count.value])


def reason(queue: Queue) -> str:
    text = _native.reason_buffer()
    handle = _native.Handle(queue.coll)
    queue.state.call(lib.rondo_reason, "reason", handle, text, len(text))
    return _native.text_of(text)


def collective_counters(queue: Queue) -> CollectiveCounters:
    native = _native.CollectiveCounters(
        size=ctypes.sizeof(_native.CollectiveCounters), version=_native.COLLECTIVE_COUNTERS_VERSION
    )
    handle = _native.Handle(queue.coll)
    queue.state.call(lib.rondo_collective_counters, "counters", handle, byref(native))
    values = _native.values_of(native)
    return CollectiveCounters(**{one.name: values[one.name] for one in fields(CollectiveCounters)})


_libc = ctypes.CDLL(None)
_memstream = CFUNCTYPE(c_void_p, POINTER(c_void_p), POINTER(c_size_t))(("open_memstream", _libc))
_fclose = CFUNCTYPE(ctypes.c_int, c_void_p)(("fclose", _libc))
_free = CFUNCTYPE(None, c_void_p)(("free", _libc))


def printed(call: Callable[[int], int], name: str) -> str:
    """What ``call`` prints to the C stream that it gets."""
    memory, size = c_void_p(), c_size_t()
    stream = _memstream(byref(memory), byref(size))
    if not stream:
        raise error_of(Status.ERR_NO_MEMORY, name)
    status = call(stream)
    _fclose(stream)
    text = ctypes.string_at(memory.value, size.value).decode() if memory.value else ""
    _free(memory)
    check(status, name)
    return text


def stuck_report(state: State, rank: int, rank_count: int, limit: int) -> StuckReport:
    entries = (_native.Stuck * limit)()
    count, cycle = c_size_t(), c_uint32()
    state.call(lib.rondo_stuck, "report", entries, limit, byref(count))
    text = printed(
        lambda stream: int(lib.rondo_report(state.handle, stream, byref(cycle))), "report"
    )
    known = _outstanding_collectives(state)
    return StuckReport(
        rank=rank,
        rank_count=rank_count,
        outstanding=count.value,
        runs=[_stuck_run(entry, known) for entry in entries[: min(limit, count.value)]],
        cycle_ranks=int(cycle.value),
        text=text,
    )


# The description of a run that has ended meanwhile.
_UNKNOWN = Description(
    id=0, kind="unknown", count=0, dtype="unknown", op="", root=0, peer=0, ranks=[]
)


def _outstanding_collectives(state: State) -> Dict[int, Tuple[Queue, Description]]:
    """The collectives that may have outstanding runs, by id."""
    known = {}
    with state.lock:
        queues = list(state.queues.values())
    for queue in queues:
        try:
            description = describe(queue)
        except (ClosedError, UnknownError):
            continue  # a call of a communicator, which has ended
        known[description["id"]] = (queue, description)
    return known


def _stuck_run(entry: _native.Stuck, known: Dict[int, Tuple[Queue, Description]]) -> StuckRun:
    queue, description = known.get(entry.id, (None, _UNKNOWN))
    ranks, why = [], ""
    try:
        if queue is not None:
            ranks, why = missing(queue, entry.run), reason(queue)
    except (ClosedError, UnknownError):
        pass  # the run has ended
    return StuckRun(
        id=entry.id,
        communicator=queue.key if queue is not None else None,
        kind=description["kind"],
        count=description["count"],
        dtype=description["dtype"],
        ranks=list(description["ranks"]),
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
