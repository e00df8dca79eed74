"""Runs of collectives and calls of communicators, and how they are submitted."""

from __future__ import annotations

from typing import Any, Callable, Generator, List, Optional, Tuple

from . import _native, _observe
from ._base import BaseContext
from ._buffers import Held
from ._enums import Status
from ._errors import ClosedError, RondoError, TimeoutError, check, error_of
from ._reports import Description
from ._state import Callback, Outstanding, Queue, Waiter, forget_callback, run_args, slices_ns


class Run:
    """One run of a collective, or one call of a communicator. Wait for it, or await it."""

    def __init__(
        self, context: BaseContext, queue: Queue, outstanding: Outstanding, name: str
    ) -> None:
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
        return _observe.describe(self._context._state.check_open("describe"), self._queue.coll)

    def missing(self) -> List[int]:
        """The ranks that have not submitted the run, and all in other processes. Slow."""
        return _observe.missing(
            self._context._state.check_open("missing"), self._queue.coll, self.number
        )

    def reason(self) -> str:
        """Why the run fails, such as the two calls that differ; empty if it does not fail."""
        return _observe.reason(self._context._state.check_open("reason"), self._queue.coll)

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
    context: BaseContext,
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
