"""What runs, collectives and communicators use of a context: its life and its observation."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any, Optional, Tuple

from . import _native
from ._enums import Status, Transport
from ._errors import check
from ._native import lib
from ._observe import printed, stuck_report
from ._reports import Counters, StuckReport
from ._state import CLOSE_S, State, end_unclosed, nanoseconds, slices_ns


class BaseContext:
    """One rank of a job. ``Context`` adds the making of groups, collectives and communicators."""

    def __init__(self, config: _native.Config, report_on_timeout: bool) -> None:
        if config.rank_count == 0:
            check(lib.rondo_config_complete(ctypes.byref(config)), "Context")
        self.report_on_timeout = report_on_timeout
        self.rank = int(config.rank)
        self.rank_count = int(config.rank_count)
        handle = _native.Handle()
        check(lib.rondo_init(ctypes.byref(handle), ctypes.byref(config)), "Context")
        self._state = State(handle)
        self._finalizer = weakref.finalize(self, end_unclosed, self._state)

    # ---- observation

    @property
    def event_fd(self) -> int:
        """A file descriptor that is readable after a run has ended. Poll it, but never close it.

        Awaiting a run reads it too.
        """
        fd = ctypes.c_int()
        state = self._state.check_open("event_fd")
        check(lib.rondo_event_fd(state.handle, ctypes.byref(fd)), "event_fd")
        return fd.value

    def counters(self) -> Counters:
        """What this rank has done so far."""
        native, state = _native.Counters(), self._state.check_open("counters")
        check(lib.rondo_counters(state.handle, ctypes.byref(native)), "counters")
        return Counters(**_native.values_of(native))

    def transport(self, rank: int) -> Tuple[Optional[Transport], str]:
        """The transport to ``rank``, ``None`` if it is not known yet, and why it was chosen."""
        how, why = ctypes.c_int(), ctypes.create_string_buffer(_native.REASON_BYTES)
        state = self._state.check_open("transport")
        status = lib.rondo_transport(state.handle, rank, ctypes.byref(how), why, len(why))
        if status == Status.IN_PROGRESS:
            return None, _native.text_of(why)
        check(status, "transport")
        return Transport(how.value), _native.text_of(why)

    def flight_record(self) -> str:
        """The last events of this rank, one JSON object a line, for ``rondo-sim analyse``."""
        state = self._state.check_open("flight_record")
        return printed(lambda stream: lib.rondo_flight_write(state.handle, stream), "flight_record")

    def report(self, limit: int = 1000) -> StuckReport:
        """The stuck report, with at most ``limit`` runs of this rank. Slow; for diagnosis."""
        return stuck_report(self._state.check_open("report"), self.rank, self.rank_count, limit)

    # ---- waiting

    def wait_ready(self, timeout: Optional[float] = None) -> None:
        """Waits until every other rank of the job has joined.

        TimeoutError names the missing ranks, PeerError the ranks that have left or never came.
        """
        self._wait_for_ranks("wait_ready", lib.rondo_wait_ready, timeout)

    def wait_gone(self, timeout: Optional[float] = None) -> None:
        """Waits until every other rank of the job has left; TimeoutError names the others."""
        self._wait_for_ranks("wait_gone", lib.rondo_wait_gone, timeout)

    def _wait_for_ranks(self, name: str, call: Any, timeout: Optional[float]) -> None:
        ranks, count = (ctypes.c_uint32 * self.rank_count)(), ctypes.c_uint32()
        status = Status.ERR_TIMEOUT
        for slice_ns in slices_ns(timeout):
            state = self._state.check_open(name)
            status = call(state.handle, slice_ns, ranks, self.rank_count, ctypes.byref(count))
            if status != Status.ERR_TIMEOUT:
                break
        listed = ", ".join(str(rank) for rank in ranks[: count.value])
        check(status, f"{name}: ranks {listed}" if listed else name)

    def synchronize(self, timeout: Optional[float] = None) -> None:
        """Waits until the daemon has left the device, as cudaDeviceSynchronize would."""
        state = self._state.check_open("synchronize")
        check(lib.rondo_device_synchronize(state.handle, nanoseconds(timeout)), "synchronize")

    # ---- the end

    def abort(self) -> None:
        """Ends every outstanding run of this rank, and of its peers in the same collectives."""
        check(lib.rondo_abort(self._state.check_open("abort").handle), "abort")

    def close(self, timeout: float = CLOSE_S, *, abort: bool = False) -> None:
        """Waits for the outstanding runs and closes the context; with ``abort`` it does not wait.

        TimeoutError: runs were cut short after ``timeout`` seconds, and the context is closed. All
        callbacks have returned. A second call does nothing. A callback must not call this.
        """
        nanoseconds(timeout)
        status = self._state.end(-1.0 if abort else timeout)
        if self._state.is_closed:
            self._finalizer.detach()
        check(status, "close")

    @property
    def closed(self) -> bool:
        """Whether the context is closed."""
        return self._state.is_closed

    def __exit__(self, kind: Optional[type], error: object, trace: object) -> None:
        self.close(abort=kind is not None)

    def __repr__(self) -> str:
        closed = ", closed" if self.closed else ""
        return f"<rondo.Context rank {self.rank} of {self.rank_count}{closed}>"
