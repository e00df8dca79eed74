"""One exception class for each status. All derive from RondoError."""

from __future__ import annotations

import builtins
from typing import Dict, Optional, Type

from ._enums import Status
from ._native import lib
from ._reports import StuckReport


class RondoError(Exception):
    """A call was refused, or a run failed. A line in the log has the details."""

    #: The status of the call or run.
    status: Status = Status.ERR_INTERNAL

    def __init__(self, message: str, status: Optional[Status] = None) -> None:
        super().__init__(message)
        if status is not None:
            self.status = status


class InvalidError(RondoError, ValueError):
    """An argument is out of range, has the wrong type or layout, or overlaps another."""

    status = Status.ERR_INVALID


class NoMemoryError(RondoError, MemoryError):
    """Memory, or ``connector_bytes``, is exhausted."""

    status = Status.ERR_NO_MEMORY


class FullError(RondoError):
    """A configured limit was reached."""

    status = Status.ERR_FULL


class UnknownError(RondoError, LookupError):
    """The handle or id does not exist, or no longer exists."""

    status = Status.ERR_UNKNOWN


class ExistsError(RondoError):
    """The id or the rank exists already."""

    status = Status.ERR_EXISTS


class BusyError(RondoError):
    """The object has outstanding runs."""

    status = Status.ERR_BUSY


class TimeoutError(RondoError, builtins.TimeoutError):  # noqa: A001
    """The timeout expired; the run goes on. ``report`` is set if ``report_on_timeout`` is."""

    status = Status.ERR_TIMEOUT
    report: Optional[StuckReport] = None


class MismatchError(RondoError):
    """Ranks registered different descriptors under one id, or made different calls."""

    status = Status.ERR_MISMATCH


class AbortedError(RondoError):
    """This rank or a peer aborted."""

    status = Status.ERR_ABORTED


class PeerError(RondoError, ConnectionError):
    """A peer left before the run could end."""

    status = Status.ERR_PEER


class ClosedError(RondoError):
    """The context or communicator is closed, or is being closed."""

    status = Status.ERR_CLOSED


class UnsupportedError(RondoError, NotImplementedError):
    """This build, backend or machine does not support the call."""

    status = Status.ERR_UNSUPPORTED


class SystemRefusedError(RondoError, OSError):
    """A system call failed; the log has its error."""

    status = Status.ERR_SYSTEM


class InternalError(RondoError):
    """A bug in Rondo; the log says where."""

    status = Status.ERR_INTERNAL


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
