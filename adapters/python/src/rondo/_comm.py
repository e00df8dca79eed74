"""Communicators, whose calls match by their order."""

from __future__ import annotations

import ctypes
import time
from ctypes import byref
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple

from . import _native
from ._buffers import Counts, Parts, Shape, measure
from ._collectives import Run, submit
from ._enums import DType, Kind, RedOp, Status
from ._errors import ClosedError, InvalidError, TimeoutError, check, error_of
from ._native import lib
from ._reports import CommunicatorCounters
from ._state import CLOSE_S, Callback, Queue, State, nanoseconds, slices_ns

if TYPE_CHECKING:
    from ._context import Context


class Communicator:
    """Collectives without ids, from ``Context.communicator``: the n-th call of each rank match.

    Type and number of elements come from the arrays. Different communicators are independent. In
    one communicator, sends and receives of different pairs or directions are independent of each
    other and of collectives. If the calls of two ranks differ, the communicator fails on all
    members with MismatchError, and ``state`` names both calls.

    No call waits for another rank. Each returns a ``Run``: wait for it, await it, or drop it. The
    run keeps its arrays alive until it has ended; until then do not touch them.
    """

    def __init__(self, context: Context, config: _native.CommConfig, ranks: Sequence[int]) -> None:
        create = context._state.create
        self._handle = create(lib.rondo_comm_create, "communicator", byref(config))
        self.context = context
        self.key = int(config.key)
        self.ranks: Tuple[int, ...] = tuple(ranks)
        self.position = self.ranks.index(context.rank)
        self._is_destroyed = False

    def _open(self, call: str) -> State:
        if self._is_destroyed:
            raise ClosedError(f"{call}: the communicator was destroyed")
        return self.context._state.check_open(call)

    def _ask(self, function: Any, call: str, *args: Any) -> None:
        check(function(self._open(call).handle, self._handle, *args), f"{self!r}")

    # ---- calls

    def _shape(self, kind: Kind, count: int, dtype: DType, **more: Any) -> Shape:
        return Shape(kind, count, dtype, len(self.ranks), self.position, **more)

    def _call(self, shape: Shape, send: Any, recv: Any, callback: Optional[Callback]) -> Run:
        state = self._open("call")
        name = f"{shape.kind.name.lower()} of {self!r}"
        desc, ticket = shape.desc(), _native.Ticket()

        def call(args: _native.RunArgs) -> Tuple[int, int, Queue]:
            status = lib.rondo_comm_call(
                state.handle, self._handle, byref(desc), byref(args), byref(ticket)
            )
            coll = ticket.coll.handle
            queue = state.queues.get(coll) or Queue(state, coll, self._handle.handle, self.key)
            return status, int(ticket.run), queue

        held = shape.hold(send, recv, name)
        return submit(self.context, name, held, callback, call, why=self._why)

    def _why(self) -> str:
        try:
            why = self.state()[1]
        except (ClosedError, InvalidError):
            return ""
        return f": {why}" if why else ""

    def _run(
        self, kind: Kind, send: Any, recv: Any, callback: Optional[Callback], **more: Any
    ) -> Run:
        """Makes a call whose type and count are those of one of its arrays."""
        use_recv = send is None or kind in (Kind.REDUCE_SCATTER, Kind.BROADCAST, Kind.SCATTER)
        dtype, count = measure(recv, "recv") if use_recv else measure(send, "send")
        return self._call(self._shape(kind, count, dtype, **more), send, recv, callback)

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
        return self._run(Kind.ALL_REDUCE, send, recv, callback, op=op, scalar=scalar)

    def all_gather(self, send: Any, recv: Any, callback: Optional[Callback] = None) -> Run:
        """Concatenates the arrays of all ranks in ``recv`` of all."""
        return self._run(Kind.ALL_GATHER, send, recv, callback)

    def reduce_scatter(
        self,
        send: Any,
        recv: Any,
        op: RedOp = RedOp.SUM,
        callback: Optional[Callback] = None,
        *,
        scalar: float = 1.0,
    ) -> Run:
        """Reduces the arrays of all ranks, and each rank receives its part."""
        return self._run(Kind.REDUCE_SCATTER, send, recv, callback, op=op, scalar=scalar)

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
        """Reduces the arrays of all ranks into ``recv`` of the root; others may pass ``None``."""
        return self._run(Kind.REDUCE, send, recv, callback, op=op, root=root, scalar=scalar)

    def broadcast(
        self, send: Any, recv: Any, callback: Optional[Callback] = None, *, root: int = 0
    ) -> Run:
        """Copies ``send`` of the root into ``recv`` of all; others may pass ``send`` ``None``."""
        return self._run(Kind.BROADCAST, send, recv, callback, root=root)

    def send(self, array: Any, peer: int, callback: Optional[Callback] = None) -> Run:
        """Sends the array to the member at position ``peer``."""
        return self._run(Kind.SEND_RECV, array, None, callback, root=self.position, peer=peer)

    def recv(self, array: Any, peer: int, callback: Optional[Callback] = None) -> Run:
        """Receives an array of the same size and type from the member at position ``peer``."""
        return self._run(Kind.SEND_RECV, None, array, callback, root=peer, peer=self.position)

    def send_to_self(self, send: Any, recv: Any, callback: Optional[Callback] = None) -> Run:
        """Sends to this rank itself and receives, in one call."""
        here = self.position
        return self._run(Kind.SEND_RECV, send, recv, callback, root=here, peer=here)

    def all_to_all(self, send: Any, recv: Any, callback: Optional[Callback] = None) -> Run:
        """Sends an equal part of ``send`` to each rank and receives one from each."""
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
        """Sends an uneven part to each rank: see ``Context.all_to_all_v``."""
        dtype, _ = measure(send, "send")
        parts = Parts(send_counts, recv_counts, send_displacements, recv_displacements)
        shape = self._shape(Kind.ALL_TO_ALL_V, 0, dtype, parts=parts)
        return self._call(shape, send, recv, callback)

    def gather(
        self, send: Any, recv: Any, callback: Optional[Callback] = None, *, root: int = 0
    ) -> Run:
        """Concatenates the arrays of all ranks in the root's ``recv``; others may pass ``None``."""
        return self._run(Kind.GATHER, send, recv, callback, root=root)

    def scatter(
        self, send: Any, recv: Any, callback: Optional[Callback] = None, *, root: int = 0
    ) -> Run:
        """Sends each rank its part of ``send`` of the root; others may pass ``None``."""
        return self._run(Kind.SCATTER, send, recv, callback, root=root)

    def barrier(self, callback: Optional[Callback] = None) -> Run:
        """Ends when every member has called it."""
        return self._call(self._shape(Kind.BARRIER, 0, DType.INT8), None, None, callback)

    # ---- all calls together

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits at most ``timeout`` seconds until all calls have ended; raises if one failed."""
        for slice_ns in slices_ns(timeout):
            state = self._open("wait")
            status = lib.rondo_comm_wait(state.handle, self._handle, None, slice_ns)
            if status != Status.ERR_TIMEOUT:
                break
        else:
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
        """SUCCESS, or the status of its failure, and the reason; for a mismatch, both calls."""
        how, why = ctypes.c_int(), _native.reason_buffer()
        self._ask(lib.rondo_comm_status, "state", byref(how), why, len(why))
        return Status(how.value), _native.text_of(why)

    def counters(self) -> CommunicatorCounters:
        """What the communicator has done so far."""
        native = _native.CommCounters()
        self._ask(lib.rondo_comm_counters, "counters", byref(native))
        return CommunicatorCounters(**_native.values_of(native))

    # ---- the end

    def abort(self) -> None:
        """Ends the communicator and all its calls, on all members. Other communicators go on."""
        self._ask(lib.rondo_comm_abort, "abort")

    def destroy(self, timeout: float = CLOSE_S, *, abort: bool = False) -> None:
        """Waits for the calls and destroys the communicator here; with ``abort`` it does not wait.

        TimeoutError: calls were cut short after ``timeout`` seconds, and the communicator is
        destroyed. A second call does nothing. A callback must not call this.
        """
        nanoseconds(timeout)
        if self._is_destroyed or self.context.closed:
            return
        state = self.context._state.check_open("destroy")
        deadline = time.monotonic() + timeout
        for queue in self._queues(state) if not abort else ():
            queue.drain(deadline)
        self._reap(state)
        left = 0.0 if abort else max(0.0, deadline - time.monotonic())
        status = lib.rondo_comm_destroy(
            state.handle, self._handle, 1 if abort else 0, nanoseconds(left)
        )
        if status in (Status.SUCCESS, Status.ERR_TIMEOUT):
            self._is_destroyed = True
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
