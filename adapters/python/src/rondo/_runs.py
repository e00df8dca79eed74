"""Runs: of a collective with an id, or calls of a communicator."""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING, Any, Generator, List, Optional, TypedDict

from . import _native
from ._enums import DType, Kind, RedOp, Status
from ._errors import ClosedError, RondoError, TimeoutError, check, error_of
from ._native import lib
from ._state import SLICE_S, Outstanding, Queue, State, Waiter, nanoseconds

if TYPE_CHECKING:
    from ._core import Context


class Description(TypedDict):
    """What a collective is: the numbers of its descriptor in words, and the ranks of its group."""

    id: int
    kind: str
    count: int
    dtype: str
    op: str
    root: int  # a position in ``ranks``; of the sender
    peer: int  # of the receiver
    ranks: List[int]


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
        lib.rondo_missing(state.handle, handle, run, ranks, len(ranks), ctypes.byref(count)), "missing"
    )
    return list(ranks[: count.value])


def reason(state: State, coll: int) -> str:
    text = ctypes.create_string_buffer(_native.REASON_BYTES)
    check(lib.rondo_reason(state.handle, _native.Handle(coll), text, len(text)), "reason")
    return text.value.decode("utf-8", "replace")


class Run:
    """One run of a collective, or one call of a communicator. May be awaited, as well as waited for."""

    def __init__(self, context: "Context", queue: Queue, outstanding: Outstanding, of: str) -> None:
        self._context = context
        self._queue = queue
        self._outstanding = outstanding
        self._of = of

    @property
    def number(self) -> int:
        """1 for the first run of the collective, then 2, and so on: equal on all ranks.

        Of a call of a communicator: counted among the calls that are equal to it.
        """
        return self._outstanding.number

    @property
    def status(self) -> Status:
        """How it ended; IN_PROGRESS as long as it has not."""
        self._queue.reap()
        status = self._outstanding.status
        return Status.IN_PROGRESS if status is None else status

    def test(self) -> bool:
        """Whether it has ended. Raises if it failed. Never waits."""
        status = self.status
        if status == Status.IN_PROGRESS:
            return False
        check(status, self._name())
        return True

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until it has ended, ``timeout`` seconds at most; raises if it failed.

        The interpreter's lock is released meanwhile, and signals are handled. A thread that waits
        works for the daemon. Not from a callback, unless ``timeout`` is 0.
        """
        state = self._queue.state
        deadline = None if timeout is None else time.monotonic() + nanoseconds(timeout) / 1e9
        while self.status == Status.IN_PROGRESS:
            left = SLICE_S if deadline is None else deadline - time.monotonic()
            if state.is_closed:
                raise ClosedError(f"{self._name()}: {state.why_closed()}")
            if left <= 0:
                raise self._timeout(timeout or 0.0)
            status = self._queue.wait(self.number, nanoseconds(min(left, SLICE_S)))
            if status in (Status.ERR_INVALID, Status.ERR_CLOSED) and not self._has_ended():
                raise error_of(status, self._name())
        check(self.status, self._name())

    def _has_ended(self) -> bool:
        return self.status != Status.IN_PROGRESS

    def _timeout(self, timeout: float) -> TimeoutError:
        error = TimeoutError(f"{self._name()}: not ended within {timeout} s")
        if timeout > 0 and self._context.report_on_timeout:
            try:
                error.report = self._context.report()
            except RondoError:
                return error  # closed meanwhile
            error.args = (f"{error.args[0]}\n{error.report['text'].rstrip()}",)
        return error

    def _name(self) -> str:
        return f"run {self.number} of {self._of}"

    def describe(self) -> Description:
        """What was called, and by which ranks. UnknownError where it has ended and is forgotten."""
        return describe(self._context._open("describe"), self._queue.coll)

    def missing(self) -> List[int]:
        """The ranks that have not submitted it, or are in other processes. For diagnosis; slow."""
        return missing(self._context._open("missing"), self._queue.coll, self.number)

    def reason(self) -> str:
        """Why it fails, in words, such as what two ranks called; empty if it does not have to."""
        return reason(self._context._open("reason"), self._queue.coll)

    async def _awaited(self) -> None:
        if self.status == Status.IN_PROGRESS:
            waiter = Waiter(self._queue, self._outstanding, self._context.event_fd)
            try:
                await waiter.future
            finally:
                waiter.close()
        if self.status == Status.IN_PROGRESS:
            raise ClosedError(f"{self._name()}: {self._queue.state.why_closed()}")
        check(self.status, self._name())

    def __await__(self) -> Generator[Any, None, None]:
        return self._awaited().__await__()

    def __repr__(self) -> str:
        return f"<rondo.Run {self.number} of {self._of}: {self.status.name}>"
