"""One exception class for each status. All derive from RondoError."""

from __future__ import annotations

import builtins
import ctypes
from typing import Dict, Optional, Type

from ._enums import Status
from ._native import lib, text_of
from ._reports import StuckReport

__all__ = ["AbortedError", "BusyError", "ClosedError", "ExistsError", "FullError", "InternalError"]
__all__ += ["InvalidError", "MismatchError", "NoMemoryError", "PeerError", "RondoError"]
__all__ += ["SystemRefusedError", "TimeoutError", "UnknownError", "UnsupportedError"]


class RondoError(Exception):
    """A call was refused, or a run failed. A line in the log has the details."""

    #: The status of the call or run.
    status: Status = Status.ERR_INTERNAL

    def __init_subclass__(cls, status: Optional[Status] = None) -> None:
        cls.status = status or cls.status

    def __init__(self, message: str, status: Optional[Status] = None) -> None:
        super().__init__(message)
        if status is not None:
            self.status = status


class InvalidError(RondoError, ValueError, status=Status.ERR_INVALID):
    """An argument is out of range, has the wrong type or layout, or overlaps another."""


class NoMemoryError(RondoError, MemoryError, status=Status.ERR_NO_MEMORY):
    """Memory, or ``connector_bytes``, is exhausted."""


class FullError(RondoError, status=Status.ERR_FULL):
    """A configured limit was reached."""


class UnknownError(RondoError, LookupError, status=Status.ERR_UNKNOWN):
    """The handle or id does not exist, or no longer exists."""


class ExistsError(RondoError, status=Status.ERR_EXISTS):
    """The id or the rank exists already."""


class BusyError(RondoError, status=Status.ERR_BUSY):
    """The object has outstanding runs."""


class TimeoutError(RondoError, builtins.TimeoutError, status=Status.ERR_TIMEOUT):  # noqa: A001
    """The timeout expired; the run goes on. ``report`` is set if ``report_on_timeout`` is."""

    report: Optional[StuckReport] = None


class MismatchError(RondoError, status=Status.ERR_MISMATCH):
    """Ranks registered different descriptors under one id, or made different calls."""


class AbortedError(RondoError, status=Status.ERR_ABORTED):
    """This rank or a peer aborted."""


class PeerError(RondoError, ConnectionError, status=Status.ERR_PEER):
    """A peer left before the run could end."""


class ClosedError(RondoError, status=Status.ERR_CLOSED):
    """The context or communicator is closed, or is being closed."""


class UnsupportedError(RondoError, NotImplementedError, status=Status.ERR_UNSUPPORTED):
    """This build, backend or machine does not support the call."""


class SystemRefusedError(RondoError, OSError, status=Status.ERR_SYSTEM):
    """A system call failed; the log has its error."""


class InternalError(RondoError, status=Status.ERR_INTERNAL):
    """A bug in Rondo; the log says where."""


_CLASSES: Dict[int, Type[RondoError]] = {one.status: one for one in RondoError.__subclasses__()}


def error_of(status: int, what: str) -> RondoError:
    """The exception for a status that is not success."""
    text: bytes = lib.rondo_status_string(status)
    name: bytes = lib.rondo_status_name(status)
    return _CLASSES.get(status, InternalError)(f"{what}: {text.decode()} ({name.decode()})")


def check(status: int, what: str) -> None:
    """Raises unless ``status`` is success."""
    if status != Status.SUCCESS:
        raise error_of(status, what)


def check_reason(status: int, name: str, why: "ctypes.Array[ctypes.c_char]") -> None:
    """Raises unless ``status`` is success, with the reason that the call has written."""
    reason = text_of(why)
    check(status, f"{name}: {reason}" if reason else name)
