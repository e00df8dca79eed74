"""What may outlive a context, until the library has released it: handles, runs, callbacks."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
import time
import types
import weakref
from collections import deque
from ctypes import byref
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Tuple

from . import _native
from ._buffers import Held
from ._enums import Status
from ._errors import ClosedError, InvalidError, check
from ._native import lib

#: Called with the status of a run that has ended, on the context's poller thread.
Callback = Callable[[Status], object]

SLICE_S = 0.1  # the longest wait in the library, so that Python handles signals between two
CLOSE_S = 10.0  # the default timeout of close and destroy


def nanoseconds(seconds: Optional[float]) -> int:
    """A timeout in seconds as the library takes it; ``None`` waits forever."""
    if seconds is None:
        return _native.FOREVER_NS
    if not seconds >= 0:
        raise InvalidError(f"a time of {seconds} s")
    return min(int(seconds * 1e9), _native.FOREVER_NS)


def slices_ns(timeout: Optional[float]) -> Iterator[int]:
    """Cuts a wait of ``timeout`` seconds into slices. The last one is 0, when the time is over."""
    deadline = None if timeout is None else time.monotonic() + nanoseconds(timeout) / 1e9
    while True:
        left = SLICE_S if deadline is None else max(0.0, deadline - time.monotonic())
        slice_ns = nanoseconds(min(left, SLICE_S))
        yield slice_ns
        if slice_ns == 0:
            return


class Outstanding:
    """A submitted run: its buffers until it has ended, and then its status."""

    __slots__ = ("number", "held", "status")

    def __init__(self, held: Tuple[Held, ...]) -> None:
        self.number = 0
        self.held = held
        self.status: Optional[Status] = None

    def end(self, status: Status) -> None:
        self.status = status
        for one in self.held:
            one.release()
        self.held = ()


class Queue:
    """The runs of one collective that may be outstanding, the oldest first.

    ``comm`` is the communicator whose call registered the collective, or 0. The library may
    deregister such a collective at any time, so its runs are tested through the communicator.
    """

    def __init__(self, state: "State", coll: int, comm: int = 0, key: Optional[int] = None) -> None:
        self.state = state
        self.coll = coll
        self.comm = comm
        self.key = key  # of the communicator
        self.runs: Deque[Outstanding] = deque()

    def _run(self, number: int) -> Tuple[Any, ...]:
        """How the library names a run."""
        coll = _native.Handle(self.coll)
        if self.comm:
            return _native.Handle(self.comm), byref(_native.Ticket(coll, number))
        return coll, number

    def test(self, number: int) -> int:
        function = lib.rondo_comm_test if self.comm else lib.rondo_test
        return int(function(self.state.handle, *self._run(number)))

    def wait(self, number: int, ns: int) -> int:
        function = lib.rondo_comm_wait if self.comm else lib.rondo_wait
        return int(function(self.state.handle, *self._run(number), ns))

    def reap(self) -> None:
        """Takes off the runs that have ended, and releases their buffers."""
        with self.state.lock:
            while self.runs and not self.state.is_closed:
                status = self.test(self.runs[0].number)
                # A close or destroy is in progress, and sets the status; the buffers may be in use.
                if status in (Status.IN_PROGRESS, Status.ERR_CLOSED, Status.ERR_UNKNOWN):
                    break
                self.runs.popleft().end(Status(status))
            if self.comm and not self.runs and self.state.queues.get(self.coll) is self:
                del self.state.queues[self.coll]

    def drain(self, deadline: float) -> None:
        """Waits for the last run, until ``deadline``."""
        with self.state.lock:
            last = self.runs[-1].number if self.runs else 0
        for slice_ns in slices_ns(max(0.0, deadline - time.monotonic())):
            if not last or not slice_ns or self.wait(last, slice_ns) != Status.ERR_TIMEOUT:
                return

    def abandon(self) -> None:
        """Ends all runs as aborted: the library has released them."""
        while self.runs:
            self.runs.popleft().end(Status.ERR_ABORTED)


# ---------------------------------------------------------------- callbacks ---

_callbacks: Dict[int, Callback] = {}
_callback_keys = itertools.count(1)


def _on_end(key: Optional[int], status: int) -> None:
    """Called by the library. An exception of the user's callback goes to ``sys.unraisablehook``."""
    callback = _callbacks.pop(key or 0, None)
    if callback is None:
        return
    try:
        callback(Status(status))
    except BaseException as error:  # must not reach the library's thread
        unraisable = types.SimpleNamespace(
            exc_type=type(error),
            exc_value=error,
            exc_traceback=error.__traceback__,
            err_msg="Exception ignored in a callback of rondo",
            object=callback,
        )
        hook: Callable[[Any], object] = sys.unraisablehook
        hook(unraisable)


_trampoline = _native.CALLBACK(_on_end)
_no_callback = _native.CALLBACK()


def run_args(addresses: Tuple[int, int], callback: Optional[Callback]) -> _native.RunArgs:
    """The arguments of a run. If the library refuses them, call ``forget_callback``."""
    key = 0
    if callback is not None:
        key = next(_callback_keys)
        _callbacks[key] = callback
    return _native.RunArgs(*addresses, _trampoline if key else _no_callback, key)


def forget_callback(args: _native.RunArgs) -> None:
    _callbacks.pop(args.arg or 0, None)


# -------------------------------------------------------------------- state ---


class State:
    """A context in the library, and what its runs need."""

    def __init__(self, handle: _native.Handle) -> None:
        self.handle = handle
        self.lock = threading.RLock()
        self.is_closed = False
        self.is_closing = False
        self.owner: Optional[int] = None  # in a forked child: the process that made the context
        self.pid = os.getpid()
        self.queues: Dict[int, Queue] = {}  # by the handle of the collective
        self.waiters: List[Waiter] = []
        states.add(self)

    def check_open(self, call: str) -> "State":
        if self.is_closed:
            raise ClosedError(f"{call}: {self.why_closed()}")
        return self

    def call(self, function: Any, what: str, *args: Any) -> None:
        """Calls the library for this context. Raises unless it succeeds; ``what`` is the call."""
        check(function(self.check_open(what).handle, *args), what)

    def create(self, function: Any, what: str, *args: Any) -> _native.Handle:
        """As ``call``, for a function whose last argument is the handle that it sets."""
        made = _native.Handle()
        self.call(function, what, *args, byref(made))
        return made

    def reap(self) -> None:
        for queue in list(self.queues.values()):
            queue.reap()

    def end(self, drain_s: float = -1.0) -> int:
        """Destroys the context; waits for at most ``drain_s`` seconds, or aborts if negative."""
        with self.lock:
            if self.is_closed or self.is_closing:
                return Status.SUCCESS
            self.is_closing = True
            queues = list(self.queues.values())
        deadline = time.monotonic() + drain_s
        try:
            for queue in queues if drain_s > 0 else ():
                queue.drain(deadline)
        finally:
            self.reap()
            left = max(0.0, deadline - time.monotonic()) if drain_s >= 0 else 0.0
            status = int(
                lib.rondo_destroy(self.handle, 0 if drain_s >= 0 else 1, nanoseconds(left))
            )
            with self.lock:
                self.is_closing = False
                # ERR_INVALID: a callback called this, and the context is still there.
                if status != Status.ERR_INVALID:
                    self._forget()
        return status

    def _forget(self) -> None:
        self.is_closed = True
        for queue in self.queues.values():
            queue.abandon()
        self.queues.clear()
        self.wake()

    def wake(self) -> None:
        """Wakes the coroutines whose runs have ended."""
        for waiter in list(self.waiters):
            waiter.poll()

    def abandon(self) -> None:
        """In a forked child: it lacks the context's threads and must not use the context."""
        self.lock = threading.RLock()
        self.owner = self.owner or self.pid
        self.is_closed = True
        self.is_closing = False
        self.queues.clear()
        self.waiters.clear()

    def why_closed(self) -> str:
        if self.owner is None:
            return "the context is closed"
        return f"the context belongs to process {self.owner}, which forked this one"


states: "weakref.WeakSet[State]" = weakref.WeakSet()


def end_unclosed(state: State) -> None:
    """Aborts a context that was not closed, at its collection or when the interpreter ends."""
    if state.end() == Status.ERR_INVALID:  # collected inside a callback
        threading.Thread(target=state.end, name="rondo-close").start()


def _after_fork() -> None:
    for state in list(states):
        state.abandon()


os.register_at_fork(after_in_child=_after_fork)


class Waiter:
    """A coroutine that awaits a run. It polls when the context's event fd is readable."""

    def __init__(self, queue: Queue, run: Outstanding, fd: int) -> None:
        self.queue, self.run = queue, run
        self.loop = asyncio.get_running_loop()
        self.future: "asyncio.Future[None]" = self.loop.create_future()
        # A duplicate: a loop takes one reader a descriptor, and the context may be closed first.
        self.fd = os.dup(fd)
        self.loop.add_reader(self.fd, self.on_readable)
        with queue.state.lock:
            queue.state.waiters.append(self)
        self.poll()

    def on_readable(self) -> None:
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            pass  # another waiter has read it, and polls for all
        with self.queue.state.lock:
            waiters = list(self.queue.state.waiters)
        for waiter in waiters:
            waiter.poll()

    def poll(self) -> None:
        """Wakes the coroutine if its run has ended. Any thread may call this."""
        self.queue.reap()
        if self.run.status is None and not self.queue.state.is_closed:
            return
        try:
            self.loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            pass  # the loop is closed

    def _wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)

    def close(self) -> None:
        with self.queue.state.lock:
            if self in self.queue.state.waiters:
                self.queue.state.waiters.remove(self)
        self.loop.remove_reader(self.fd)
        os.close(self.fd)
