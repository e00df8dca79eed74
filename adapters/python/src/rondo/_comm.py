"""Communicators, whose calls match by their order."""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple

from . import _native
from ._buffers import measure
from ._enums import DType, Kind, RedOp, Status
from ._errors import ClosedError, InvalidError, TimeoutError, check, error_of
from ._native import lib
from ._runs import Run
from ._shapes import Counts, Parts, Shape
from ._state import SLICE_S, Callback, Outstanding, Queue, State, forget_callback, nanoseconds, run_args

if TYPE_CHECKING:
    from ._core import Context

_CLOSE_S = 10.0


@dataclass(frozen=True)
class CommunicatorCounters:
    """Sums over a communicator's life; ``cached`` and ``parting`` are what is there now."""

    calls: int
    registrations: int
    cached: int
    parting: int


class Communicator:
    """Calls without ids: the n-th on one rank belongs to the n-th on the others. ``Context.communicator``.

    Type and number of elements come from the arrays. Calls of one communicator match by their
    order; different communicators are independent, and so are sends of different pairs or
    directions, and sends and all other kinds. Where two ranks' calls differ, it fails on all its
    members with MismatchError, for good, and ``state`` names both calls.

    No call waits for another rank; each gives a ``Run`` to wait for, to await or to forget.
    Arrays are kept, and must be left alone, until it has ended.
    """

    def __init__(
        self, context: "Context", config: _native.CommConfig, ranks: Sequence[int]
    ) -> None:
        handle = _native.Handle()
        state = context._open("communicator")
        check(
            lib.rondo_comm_create(state.handle, ctypes.byref(config), ctypes.byref(handle)),
            "communicator",
        )
        self.context = context
        self.key = int(config.key)
        self.ranks: Tuple[int, ...] = tuple(ranks)
        self.position = self.ranks.index(context.rank)
        self._handle = handle
        self._is_gone = False

    def _open(self, call: str) -> State:
        if self._is_gone:
            raise ClosedError(f"{call}: the communicator is destroyed")
        return self.context._open(call)

    # ---- calls

    def _shape(self, kind: Kind, count: int, dtype: DType, **more: Any) -> Shape:
        return Shape(kind, count, dtype, len(self.ranks), self.position, **more)

    def _call(self, shape: Shape, send: Any, recv: Any, callback: Optional[Callback]) -> Run:
        state = self._open("call")
        name = f"{shape.kind.name.lower()} of {self!r}"
        desc = shape.desc()
        kept = shape.parts.give(desc, shape.ranks) if shape.parts is not None else []
        held, addresses = shape.hold(send, recv, name)
        outstanding = Outstanding(held)
        args, ticket = run_args(addresses, callback), _native.Ticket()
        with state.lock:
            status = Status.ERR_CLOSED if state.is_closed else lib.rondo_comm_call(
                state.handle,
                self._handle,
                ctypes.byref(desc),
                ctypes.byref(args),
                ctypes.byref(ticket),
            )
            queue = self._queue_of(state, ticket.coll.handle)
            if status == Status.SUCCESS:
                outstanding.number = int(ticket.run)
                queue.runs.append(outstanding)
                state.queues[queue.coll] = queue
        del kept  # the library has copied the numbers
        if status != Status.SUCCESS:
            forget_callback(args)
            outstanding.end(Status(status))
            check(status, f"{name}{self._why()}")
        queue.reap()
        return Run(self.context, queue, outstanding, name)

    def _queue_of(self, state: State, coll: int) -> Queue:
        return state.queues.get(coll) or Queue(state, coll, self._handle.handle, self.key)

    def _why(self) -> str:
        try:
            why = self.state()[1]
        except (ClosedError, InvalidError):
            return ""
        return f": {why}" if why else ""

    def all_reduce(
        self,
        send: Any,
        recv: Any,
        op: RedOp = RedOp.SUM,
        callback: Optional[Callback] = None,
        *,
        scalar: float = 1.0,
    ) -> Run:
        """Reduces the arrays of all ranks into ``recv`` of all."""
        dtype, count = measure(send, "send")
        shape = self._shape(Kind.ALL_REDUCE, count, dtype, op=op, scalar=scalar)
        return self._call(shape, send, recv, callback)

    def all_gather(self, send: Any, recv: Any, callback: Optional[Callback] = None) -> Run:
        """Puts the arrays of all ranks into ``recv`` of all, one behind the other."""
        dtype, count = measure(send, "send")
        return self._call(self._shape(Kind.ALL_GATHER, count, dtype), send, recv, callback)

    def reduce_scatter(
        self,
        send: Any,
        recv: Any,
        op: RedOp = RedOp.SUM,
        callback: Optional[Callback] = None,
        *,
        scalar: float = 1.0,
    ) -> Run:
        """Reduces the arrays of all ranks, and gives each rank its part."""
        dtype, count = measure(recv, "recv")
        shape = self._shape(Kind.REDUCE_SCATTER, count, dtype, op=op, scalar=scalar)
        return self._call(shape, send, recv, callback)

    def reduce(
        self,
        send: Any,
        recv: Any,
        op: RedOp = RedOp.SUM,
        callback: Optional[Callback] = None,
        *,
        root: int = 0,
        scalar: float = 1.0,
    ) -> Run:
        """Reduces the arrays of all ranks into ``recv`` of the root; the others' may be ``None``."""
        dtype, count = measure(send, "send")
        shape = self._shape(Kind.REDUCE, count, dtype, op=op, root=root, scalar=scalar)
        return self._call(shape, send, recv, callback)

    def broadcast(
        self, send: Any, recv: Any, callback: Optional[Callback] = None, *, root: int = 0
    ) -> Run:
        """Copies ``send`` of the root, the others' may be ``None``, into ``recv`` of all."""
        dtype, count = measure(recv, "recv")
        return self._call(self._shape(Kind.BROADCAST, count, dtype, root=root), send, recv, callback)

    def send(self, array: Any, peer: int, callback: Optional[Callback] = None) -> Run:
        """Sends the array to the member at position ``peer``, which receives it."""
        dtype, count = measure(array, "array")
        shape = self._shape(Kind.SEND_RECV, count, dtype, root=self.position, peer=peer)
        return self._call(shape, array, None, callback)

    def recv(self, array: Any, peer: int, callback: Optional[Callback] = None) -> Run:
        """Receives what the member at position ``peer`` sends here, as much of it and of the same type."""
        dtype, count = measure(array, "array")
        shape = self._shape(Kind.SEND_RECV, count, dtype, root=peer, peer=self.position)
        return self._call(shape, None, array, callback)

    def send_to_self(self, send: Any, recv: Any, callback: Optional[Callback] = None) -> Run:
        """A send to this rank itself and its receive, which are one call."""
        dtype, count = measure(send, "send")
        shape = self._shape(Kind.SEND_RECV, count, dtype, root=self.position, peer=self.position)
        return self._call(shape, send, recv, callback)

    def all_to_all(self, send: Any, recv: Any, callback: Optional[Callback] = None) -> Run:
        """Sends an equal part of ``send`` to each rank, and receives one from each."""
        dtype, count = measure(send, "send")
        if count % len(self.ranks):
            raise InvalidError(f"all_to_all: {count} elements for {len(self.ranks)} ranks")
        shape = self._shape(Kind.ALL_TO_ALL, count // len(self.ranks), dtype)
        return self._call(shape, send, recv, callback)

    def all_to_all_v(
        self,
        send: Any,
        recv: Any,
        send_counts: Counts,
        recv_counts: Counts,
        callback: Optional[Callback] = None,
        *,
        send_displacements: Optional[Counts] = None,
        recv_displacements: Optional[Counts] = None,
    ) -> Run:
        """Sends a part of its own size to each rank, and receives one from each: see ``Context``'s."""
        dtype, _ = measure(send, "send")
        parts = Parts(send_counts, recv_counts, send_displacements, recv_displacements)
        return self._call(self._shape(Kind.ALL_TO_ALL_V, 0, dtype, parts=parts), send, recv, callback)

    def gather(self, send: Any, recv: Any, callback: Optional[Callback] = None, *, root: int = 0) -> Run:
        """Puts the arrays of all ranks into ``recv`` of the root; the others' may be ``None``."""
        dtype, count = measure(send, "send")
        return self._call(self._shape(Kind.GATHER, count, dtype, root=root), send, recv, callback)

    def scatter(
        self, send: Any, recv: Any, callback: Optional[Callback] = None, *, root: int = 0
    ) -> Run:
        """Gives each rank its part of ``send`` of the root; the others' may be ``None``."""
        dtype, count = measure(recv, "recv")
        return self._call(self._shape(Kind.SCATTER, count, dtype, root=root), send, recv, callback)

    def barrier(self, callback: Optional[Callback] = None) -> Run:
        """Ends when every member has called it."""
        return self._call(self._shape(Kind.BARRIER, 0, DType.INT8), None, None, callback)

    # ---- all calls together

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until all calls so far have ended, ``timeout`` seconds at most; raises if it has failed."""
        deadline = None if timeout is None else time.monotonic() + nanoseconds(timeout) / 1e9
        while True:
            left = SLICE_S if deadline is None else max(0.0, deadline - time.monotonic())
            state = self._open("wait")
            status = lib.rondo_comm_wait(
                state.handle, self._handle, None, nanoseconds(min(left, SLICE_S))
            )
            if status != Status.ERR_TIMEOUT:
                break
            if deadline is not None and time.monotonic() >= deadline:
                error = TimeoutError(f"{self!r}: calls have not ended within {timeout} s")
                if timeout and self.context.report_on_timeout:
                    error.report = self.context.report()
                raise error
        self._reap(state)
        if status != Status.SUCCESS:
            raise error_of(status, f"{self!r}{self._why()}")

    def _queues(self, state: State) -> List[Queue]:
        with state.lock:
            return [one for one in state.queues.values() if one.comm == self._handle.handle]

    def _reap(self, state: State) -> None:
        for queue in self._queues(state):
            queue.reap()

    def state(self) -> Tuple[Status, str]:
        """SUCCESS, or with what it has failed, and the reason in words: of a mismatch both calls."""
        state, how = self._open("state"), ctypes.c_int()
        why = ctypes.create_string_buffer(_native.REASON_BYTES)
        check(
            lib.rondo_comm_status(state.handle, self._handle, ctypes.byref(how), why, len(why)),
            f"{self!r}",
        )
        return Status(how.value), why.value.decode("utf-8", "replace")

    def counters(self) -> CommunicatorCounters:
        """What it has done so far."""
        state, native = self._open("counters"), _native.CommCounters()
        check(
            lib.rondo_comm_counters(state.handle, self._handle, ctypes.byref(native)), f"{self!r}"
        )
        return CommunicatorCounters(
            **{one.name: getattr(native, one.name) for one in fields(CommunicatorCounters)}
        )

    # ---- the end

    def abort(self) -> None:
        """Ends all its calls, here and on the other members, for good. Other communicators go on."""
        state = self._open("abort")
        check(lib.rondo_comm_abort(state.handle, self._handle), f"{self!r}")

    def destroy(self, timeout: float = _CLOSE_S, *, abort: bool = False) -> None:
        """Ends this rank's end, after its calls, or with ``abort`` at once.

        TimeoutError says that calls were cut short after ``timeout`` seconds; it is gone all the
        same. A second call does nothing. Not from a callback.
        """
        nanoseconds(timeout)
        if self._is_gone or self.context.closed:
            return
        state = self.context._open("destroy")
        deadline = time.monotonic() + timeout
        for queue in self._queues(state) if not abort else ():
            queue.drain(deadline)
        self._reap(state)
        left = 0.0 if abort else max(0.0, deadline - time.monotonic())
        status = lib.rondo_comm_destroy(
            state.handle, self._handle, 1 if abort else 0, nanoseconds(left)
        )
        if status in (Status.SUCCESS, Status.ERR_TIMEOUT):
            self._is_gone = True
            with state.lock:
                for queue in self._queues(state):
                    queue.abandon()
                    state.queues.pop(queue.coll, None)
                state.wake()
        check(status, f"{self!r}")

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, kind: Optional[type], error: object, trace: object) -> None:
        self.destroy(abort=kind is not None)

    def __repr__(self) -> str:
        return f"<rondo.Communicator {self.key} of ranks {list(self.ranks)}>"
