"""One exception class for each status, all of them below RondoError."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Dict, Optional, Type

from ._enums import Status
from ._native import lib

if TYPE_CHECKING:
    from ._core import StuckReport


class RondoError(Exception):
    """A call was refused, or a run failed. The log has a line that says more."""

    #: How it ended.
    status: Status = Status.ERR_INTERNAL

    def __init__(self, message: str, status: Optional[Status] = None) -> None:
        super().__init__(message)
        if status is not None:
            self.status = status


class InvalidError(RondoError, ValueError):
    """An argument is out of its range, of the wrong type or layout, or overlaps another."""

    status = Status.ERR_INVALID


class NoMemoryError(RondoError, MemoryError):
    """Memory, or the configured budget for connectors, is used up."""

    status = Status.ERR_NO_MEMORY


class FullError(RondoError):
    """A configured limit is reached."""

    status = Status.ERR_FULL


class UnknownError(RondoError, LookupError):
    """The handle or id was never given out, or is no longer valid."""

    status = Status.ERR_UNKNOWN


class ExistsError(RondoError):
    """The id, or the rank, is there already."""

    status = Status.ERR_EXISTS


class BusyError(RondoError):
    """The object still has runs outstanding."""

    status = Status.ERR_BUSY


class TimeoutError(RondoError, builtins.TimeoutError):  # noqa: A001
    """Time ran out; the run goes on. ``report`` says what it waits for, where that was asked for."""

    status = Status.ERR_TIMEOUT
    report: Optional["StuckReport"] = None


class MismatchError(RondoError):
    """Ranks registered different descriptions under one id."""

    status = Status.ERR_MISMATCH


class AbortedError(RondoError):
    """This rank, or a peer, aborted."""

    status = Status.ERR_ABORTED


class PeerError(RondoError, ConnectionError):
    """A peer left before the run could complete."""

    status = Status.ERR_PEER


class ClosedError(RondoError):
    """The context is closed, or is being closed."""

    status = Status.ERR_CLOSED


class UnsupportedError(RondoError, NotImplementedError):
    """This build, backend or machine cannot do it."""

    status = Status.ERR_UNSUPPORTED


class SystemRefusedError(RondoError, OSError):
    """The operating system refused; the log line has its reason."""

    status = Status.ERR_SYSTEM


class InternalError(RondoError):
    """A defect of Rondo; the log line says where."""

    status = Status.ERR_INTERNAL


_CLASSES: Dict[int, Type[RondoError]] = {
    one.status: one
    for one in (
        InvalidError,
        NoMemoryError,
        FullError,
        UnknownError,
        ExistsError,
        BusyError,
        TimeoutError,
        MismatchError,
        AbortedError,
        PeerError,
        ClosedError,
        UnsupportedError,
        SystemRefusedError,
        InternalError,
    )
}


def error_of(status: int, what: str) -> RondoError:
    """The exception for a status that is not success."""
    text: bytes = lib.rondo_status_string(status)
    name: bytes = lib.rondo_status_name(status)
    return _CLASSES.get(status, InternalError)(f"{what}: {text.decode()} ({name.decode()})")


def check(status: int, what: str) -> None:
    """Raises unless ``status`` is success."""
    if status != Status.SUCCESS:
        raise error_of(status, what)
