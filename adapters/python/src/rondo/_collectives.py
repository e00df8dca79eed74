"""Groups of ranks, collectives that are registered under an id, and their runs."""

from __future__ import annotations

import ctypes
import weakref
from ctypes import byref
from typing import TYPE_CHECKING, Any, Callable, Generator, List, Optional, Sequence, Tuple

from . import _native, _observe
from ._buffers import Held, Shape
from ._enums import Status
from ._errors import ClosedError, InvalidError, RondoError, TimeoutError, check, error_of
from ._native import lib
from ._reports import CollectiveCounters, Description
from ._state import Callback, Outstanding, Queue, State, Waiter
from ._state import forget_callback, run_args, slices_ns

if TYPE_CHECKING:
    from ._context import Context


class Run:
    """One run of a collective, or one call of a communicator. Wait for it, or await it."""

    def __init__(self, context: Context, queue: Queue, outstanding: Outstanding, name: str) -> None:
        self._context = context
        self._queue = queue
        self._outstanding = outstanding
        self._name = f"run {outstanding.number} of {name}"

    @property
    def number(self) -> int:
        """1 for the first run of the collective, then 2, and so on; equal on all ranks.

        Calls of a communicator are counted among equal calls.
        """
        return self._outstanding.number

    @property
    def status(self) -> Status:
        """The status with which the run ended, or IN_PROGRESS."""
        self._queue.reap()
        status = self._outstanding.status
        return Status.IN_PROGRESS if status is None else status

    def test(self) -> bool:
        """Whether the run has ended. Raises if it failed. Never waits."""
        status = self.status
        if status == Status.IN_PROGRESS:
            return False
        check(status, self._name)
        return True

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until the run has ended, at most ``timeout`` seconds; raises if it failed.

        The GIL is released meanwhile, and signals are handled. The waiting thread works for the
        daemon. A callback must not call this, except with ``timeout`` 0.
        """
        state = self._queue.state
        for slice_ns in slices_ns(timeout):
            if self._has_ended():
                break
            if state.is_closed:
                raise ClosedError(f"{self._name}: {state.why_closed()}")
            if slice_ns == 0:
                raise self._timeout(timeout or 0.0)
            status = self._queue.wait(self.number, slice_ns)
            if status in (Status.ERR_INVALID, Status.ERR_CLOSED) and not self._has_ended():
                raise error_of(status, self._name)
        check(self.status, self._name)

    def _has_ended(self) -> bool:
        return self.status != Status.IN_PROGRESS

    def _timeout(self, timeout: float) -> TimeoutError:
        error = TimeoutError(f"{self._name}: has not ended within {timeout} s")
        if timeout > 0 and self._context.report_on_timeout:
            try:
                error.report = self._context.report()
            except RondoError:
                return error  # the context was closed meanwhile
            error.args = (f"{error.args[0]}\n{error.report['text'].rstrip()}",)
        return error

    def describe(self) -> Description:
        """The collective and its ranks. UnknownError if a call has ended and was deregistered."""
        return _observe.describe(self._queue)

    def missing(self) -> List[int]:
        """The ranks that have not submitted the run, and all in other processes. Slow."""
        return _observe.missing(self._queue, self.number)

    def reason(self) -> str:
        """Why the run fails, such as the two calls that differ; empty if it does not fail."""
        return _observe.reason(self._queue)

    def members(self) -> List[int]:
        """The ranks of whose data the result is: the group, less those that a RETRY has lost.

        BusyError while the run goes on. Raises if the run failed.
        """
        return _observe.members(self._queue, self.number, self._name)

    async def _awaited(self) -> None:
        if self.status == Status.IN_PROGRESS:
            waiter = Waiter(self._queue, self._outstanding, self._context.event_fd)
            try:
                await waiter.future
            finally:
                waiter.close()
        if self.status == Status.IN_PROGRESS:
            raise ClosedError(f"{self._name}: {self._queue.state.why_closed()}")
        check(self.status, self._name)

    def __await__(self) -> Generator[Any, None, None]:
        return self._awaited().__await__()

    def __repr__(self) -> str:
        return f"<rondo {self._name}: {self.status.name}>"


def submit(
    context: Context,
    name: str,
    buffers: Tuple[Tuple[Held, ...], Tuple[int, int]],
    callback: Optional[Callback],
    call: Callable[[_native.RunArgs], Tuple[int, int, Queue]],
    why: Callable[[], str] = str,
) -> Run:
    """Submits a run by ``call``, which returns a status, the run's number and its queue.

    If the library refuses the run, the message of the error ends with ``why()``.
    """
    held, addresses = buffers
    state, outstanding, args = context._state, Outstanding(held), run_args(addresses, callback)
    status: int = Status.ERR_CLOSED
    with state.lock:
        if not state.is_closed:
            status, outstanding.number, queue = call(args)
        if status == Status.SUCCESS:
            queue.runs.append(outstanding)
            state.queues[queue.coll] = queue
    if status != Status.SUCCESS:
        forget_callback(args)
        outstanding.end(Status(status))
        check(status, f"{name}{why()}")
    queue.reap()
    return Run(context, queue, outstanding, name)


class Group:
    """An ordered set of ranks, from ``Context.group``."""

    def __init__(self, context: Context, ranks: Sequence[int]) -> None:
        self.context = context
        self.ranks: Tuple[int, ...] = tuple(ranks)
        if any(not 0 <= rank < 2**32 for rank in self.ranks):
            raise InvalidError(f"group: a rank of {list(self.ranks)} is out of range")
        array = (ctypes.c_uint32 * len(self.ranks))(*self.ranks)
        state = context._state
        self._handle = state.create(lib.rondo_group_create, "group", array, len(array))
        self._finalizer = weakref.finalize(self, Group._destroy, state, self._handle)
        self._finalizer.atexit = False

    @staticmethod
    def _destroy(state: State, handle: _native.Handle) -> None:
        if not state.is_closed:
            lib.rondo_group_destroy(state.handle, handle)

    def destroy(self) -> None:
        """Destroys the group. Collectives that were registered with it go on."""
        self._finalizer()

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, *exception: object) -> None:
        self.destroy()

    def __repr__(self) -> str:
        return f"<rondo.Group {list(self.ranks)}>"


class Collective:
    """An operation, registered once and run many times; from ``Context.all_reduce`` and others.

    It stays registered until ``deregister``, the end of its ``with``, or the end of its context.
    """

    def __init__(self, context: Context, desc: _native.Desc, shape: Shape) -> None:
        state = context._state
        self._handle = state.create(lib.rondo_register, "register", byref(desc))
        self.context = context
        self.kind = shape.kind
        self.id = int(desc.id)
        self.count = shape.count
        self.dtype = shape.dtype
        self.op = shape.op
        self.root = shape.root
        self.peer = shape.peer
        self._shape = shape
        self._queue = Queue(state, self._handle.handle)
        with state.lock:
            state.queues[self._queue.coll] = self._queue

    def run(self, send: Any = None, recv: Any = None, callback: Optional[Callback] = None) -> Run:
        """Submits a run. Never waits. Any thread may submit any number of runs in any order.

        ``send`` and ``recv`` are contiguous arrays of the collective's type and of the sizes that
        ``rondo.Kind`` lists; ``recv`` must be writable. They may be the same array, or overlap in
        place as rondo_run(3) says. A buffer that this rank does not use may be ``None``. The run
        keeps both arrays alive until it has ended; until then do not touch them. ``callback`` is
        called with the run's status, on a thread of the context.
        """
        state = self.context._state.check_open("run")
        number = ctypes.c_uint64()

        def call(args: _native.RunArgs) -> Tuple[int, int, Queue]:
            status = lib.rondo_run_numbered(state.handle, self._handle, byref(args), byref(number))
            return status, number.value, self._queue

        name = repr(self)
        return submit(self.context, name, self._shape.hold(send, recv, name), callback, call)

    def run_in_place(self, array: Any, callback: Optional[Callback] = None) -> Run:
        """``run(array, array)``, for kinds whose buffers have one size."""
        return self.run(array, array, callback)

    def describe(self) -> Description:
        """The fields of its descriptor, and the ranks of its group."""
        return _observe.describe(self._queue)

    def reason(self) -> str:
        """Why its runs fail, such as the two descriptors that differ; empty if they do not fail."""
        return _observe.reason(self._queue)

    def counters(self) -> CollectiveCounters:
        """What the rank's blocks have done with it; needs ``Context(collective_counters=True)``."""
        return _observe.collective_counters(self._queue)

    def missing(self, run: int) -> List[int]:
        """The ranks that have not submitted ``run``, and all in other processes. Slow."""
        return _observe.missing(self._queue, run)

    def deregister(self) -> None:
        """Deregisters the collective. BusyError while a run is outstanding."""
        state = self.context._state.check_open("deregister")
        with state.lock:
            self._queue.reap()
            check(lib.rondo_deregister(state.handle, self._handle), f"{self!r}")
            state.queues.pop(self._handle.handle, None)

    def __enter__(self) -> "Collective":
        return self

    def __exit__(self, *exception: object) -> None:
        if not self.context.closed and exception[0] is None:
            self.deregister()

    def __repr__(self) -> str:
        return f"<rondo {self.kind.name.lower()} {self.id}: {self.count} {self.dtype.name.lower()}>"
