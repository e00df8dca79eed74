"""Groups of ranks, and collectives that are registered under an id."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any, List, Optional, Sequence, Tuple

from . import _native, _observe
from ._base import BaseContext
from ._errors import InvalidError, check
from ._native import lib
from ._reports import Description
from ._runs import Run, submit
from ._shapes import Shape
from ._state import Callback, Queue, State


class Group:
    """An ordered set of ranks, from ``Context.group``."""

    def __init__(self, context: BaseContext, ranks: Sequence[int]) -> None:
        self.context = context
        self.ranks: Tuple[int, ...] = tuple(ranks)
        if any(not 0 <= rank < 2**32 for rank in self.ranks):
            raise InvalidError(f"group: a rank of {list(self.ranks)} is out of range")
        array = (ctypes.c_uint32 * len(self.ranks))(*self.ranks)
        handle = _native.Handle()
        state = context._state.check_open("group")
        check(
            lib.rondo_group_create(state.handle, array, len(array), ctypes.byref(handle)), "group"
        )
        self._handle = handle
        self._finalizer = weakref.finalize(self, Group._destroy, state, handle)
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

    def __init__(self, context: BaseContext, desc: _native.Desc, shape: Shape) -> None:
        handle = _native.Handle()
        state = context._state.check_open("register")
        check(
            lib.rondo_register(state.handle, ctypes.byref(desc), ctypes.byref(handle)), "register"
        )
        self.context = context
        self.kind = shape.kind
        self.id = int(desc.id)
        self.count = shape.count
        self.dtype = shape.dtype
        self.op = shape.op
        self.root = shape.root
        self.peer = shape.peer
        self._handle = handle
        self._shape = shape
        self._queue = Queue(state, handle.handle)
        with state.lock:
            state.queues[handle.handle] = self._queue

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
            status = lib.rondo_run_numbered(
                state.handle, self._handle, ctypes.byref(args), ctypes.byref(number)
            )
            return status, number.value, self._queue

        name = repr(self)
        return submit(self.context, name, self._shape.hold(send, recv, name), callback, call)

    def run_in_place(self, array: Any, callback: Optional[Callback] = None) -> Run:
        """``run(array, array)``, for kinds whose buffers have one size."""
        return self.run(array, array, callback)

    def describe(self) -> Description:
        """The fields of its descriptor, and the ranks of its group."""
        return _observe.describe(self.context._state.check_open("describe"), self._handle.handle)

    def reason(self) -> str:
        """Why its runs fail, such as the two descriptors that differ; empty if they do not fail."""
        return _observe.reason(self.context._state.check_open("reason"), self._handle.handle)

    def missing(self, run: int) -> List[int]:
        """The ranks that have not submitted ``run``, and all in other processes. Slow."""
        return _observe.missing(self.context._state.check_open("missing"), self._handle.handle, run)

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
