"""State that all ranks of a job hold with the same bits."""

from __future__ import annotations

import ctypes
from ctypes import byref
from typing import Any, Dict, List, Mapping

from . import _native
from ._buffers import Held
from ._context import Context
from ._enums import StateStrategy
from ._errors import InvalidError, check_reason
from ._native import lib
from ._reports import StateReport
from ._state import nanoseconds


class SharedState:
    """Named arrays that ``sync`` makes equal on all ranks; see docs/elastic.md.

    All ranks list the same names, types and sizes in the same order. Keep one SharedState for as
    long as the process lives, also when the job, and so the context, changes.
    """

    def __init__(
        self,
        tensors: Mapping[str, Any],
        strategy: StateStrategy = StateStrategy.MOST_FREQUENT,
    ) -> None:
        self.tensors: Dict[str, Any] = dict(tensors)
        self.strategy = strategy
        self._native = _native.default_state()

    @property
    def revision(self) -> int:
        """The number of this content; 0 before the first ``sync``. It rises by 1 at a change."""
        return int(self._native.revision)

    @property
    def digest(self) -> int:
        """64 bits that stand for the content of this revision."""
        return int(self._native.digest)

    @property
    def is_partial(self) -> bool:
        """Whether a ``sync`` failed halfway: the arrays are mixed until one succeeds."""
        return bool(self._native.is_partial)

    def sync(self, context: Context, timeout: float = 60.0) -> StateReport:
        """Makes the arrays equal on all ranks that are left in the job of ``context``.

        All of them call it, and no array changes meanwhile. Only blocks that differ are sent. Waits
        at most ``timeout`` seconds, and handles no signals meanwhile. MismatchError: the ranks
        cannot agree, and nothing has changed; PeerError: a rank was lost, and another ``sync``
        mends what this one left halfway.
        """
        held: List[Held] = []
        native = (_native.StateTensor * len(self.tensors))()
        try:
            for at, (name, array) in enumerate(self.tensors.items()):
                one = Held(array, f"sync: {name}")
                held.append(one)
                if one.dtype is None or one.readonly:
                    raise InvalidError(f"sync: {name} is read-only")
                native[at].name, native[at].memory = name.encode(), one.address
                native[at].count, native[at].dtype = one.nbytes // one.dtype.itemsize, one.dtype
            return self._sync(context, native, timeout)
        finally:
            for one in held:
                one.release()

    def _sync(
        self, context: Context, tensors: "ctypes.Array[_native.StateTensor]", timeout: float
    ) -> StateReport:
        self._native.tensors = ctypes.cast(tensors, ctypes.POINTER(_native.StateTensor))
        self._native.tensor_count = len(tensors)
        self._native.strategy = self.strategy
        report, why = _native.StateReport(), _native.reason_buffer()
        state, ns = context._state.check_open("sync"), nanoseconds(timeout)
        status = lib.rondo_state_sync(state.handle, byref(self._native), ns, byref(report), why)
        self._native.tensors = None
        check_reason(status, "sync", why)
        return StateReport(**_native.values_of(report))

    def __repr__(self) -> str:
        return f"<rondo.SharedState {list(self.tensors)}, revision {self.revision}>"
