"""Contexts, groups, collectives and runs."""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import os
import sys
import threading
import time
import types
import weakref
from collections import deque
from dataclasses import dataclass, fields
from typing import Any, Callable, Deque, Dict, Generator, List, Optional, Sequence, Tuple, TypedDict

from . import _native
from ._buffers import Held, hold
from ._enums import Backend, BudgetPolicy, DType, Kind, OrderPolicy, RedOp, RunState, Status
from ._errors import (
    ClosedError,
    InvalidError,
    RondoError,
    TimeoutError,
    UnsupportedError,
    check,
    error_of,
)
from ._native import lib

#: Called with how a run ended, on the context's poller thread.
Callback = Callable[[Status], object]

# The kinds whose buffers this package knows the sizes of.
_KINDS = (Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.REDUCE, Kind.BROADCAST)

_SLICE_S = 0.1  # a wait returns to Python this often, so that signals are handled
_CLOSE_S = 10.0


def _nanoseconds(seconds: Optional[float]) -> int:
    """A bound in seconds, ``None`` for none, as the library takes it."""
    if seconds is None:
        return _native.FOREVER_NS
    if not seconds >= 0:
        raise InvalidError(f"a time of {seconds} s")
    return min(int(seconds * 1e9), _native.FOREVER_NS)


def version() -> Tuple[int, int, int]:
    """The version of the library that is mapped."""
    number = int(lib.rondo_version())
    return number // 10000, number // 100 % 100, number % 100


def unique_id() -> bytes:
    """The identity of a new job whose ranks are all threads of this process."""
    made = _native.UniqueId()
    check(lib.rondo_unique_id_create(ctypes.byref(made)), "unique_id")
    return bytes(made.bytes)


def unique_id_listen() -> bytes:
    """The identity of a new job whose ranks may be other processes, which this one listens for."""
    made = _native.UniqueId()
    check(lib.rondo_unique_id_listen(ctypes.byref(made), None), "unique_id_listen")
    return bytes(made.bytes)


@dataclass(frozen=True)
class Tuning:
    """Times that steer a daemon; 0 is the default of the machine."""

    front_budget_ns: int = 0
    min_budget_ns: int = 0
    max_budget_ns: int = 0
    success_factor: int = 0
    quit_period_ns: int = 0
    residency_ns: int = 0
    restart_min_ns: int = 0
    restart_max_ns: int = 0

    @classmethod
    def _of(cls, native: _native.Tuning) -> "Tuning":
        return cls(**{field.name: getattr(native, field.name) for field in fields(cls)})

    def _native(self) -> _native.Tuning:
        return _native.Tuning(**{field.name: getattr(self, field.name) for field in fields(self)})

    @classmethod
    def profile(cls, duration: float = 0.05) -> "Tuning":
        """Measures this machine for about ``duration`` seconds."""
        native = _native.Tuning()
        check(lib.rondo_profile(ctypes.byref(native), _nanoseconds(duration)), "Tuning.profile")
        return cls._of(native)

    @classmethod
    def parse(cls, text: str) -> "Tuning":
        """Reads what ``str`` gives, and what RONDO_TUNING takes."""
        native = _native.Tuning()
        check(lib.rondo_tuning_parse(ctypes.byref(native), text.encode()), f"Tuning.parse({text!r})")
        return cls._of(native)

    def __str__(self) -> str:
        native, text = self._native(), ctypes.create_string_buffer(320)
        check(lib.rondo_tuning_print(ctypes.byref(native), text, len(text)), "Tuning")
        return text.value.decode()


@dataclass(frozen=True)
class Counters:
    """Sums over a rank's life; ``connector_bytes`` is what is in use now."""

    submitted: int
    completed: int
    steps: int
    primitives: int
    preemptions: int
    context_loads: int
    context_saves: int
    quits: int
    starts: int
    helped: int
    connector_bytes: int


class StuckRun(TypedDict):
    """What one outstanding run waits for."""

    id: int
    kind: str
    count: int
    dtype: str
    run: int
    state: str
    block: int
    op: int
    peer: Optional[int]  # the rank whose data or room it waits for, where known
    missing: int  # ranks that have not submitted it
    waiting_ns: int


class StuckReport(TypedDict):
    """Who waits for whom: ``runs`` of this rank, the ``cycle`` and the ``text`` of the whole job."""

    rank: int
    rank_count: int
    outstanding: int  # may be more than there are runs listed
    runs: List[StuckRun]
    cycle_ranks: int  # ranks that wait for each other in a circle; 0: there is none
    text: str


class _Outstanding:
    """A submitted run: what it needs until it has ended, and then how it ended."""

    __slots__ = ("number", "held", "status")

    def __init__(self, number: int, held: Tuple[Held, ...]) -> None:
        self.number = number
        self.held = held
        self.status: Optional[Status] = None

    def end(self, status: Status) -> None:
        self.status = status
        for one in self.held:
            one.release()
        self.held = ()


# ---------------------------------------------------------------- callbacks ---

_callbacks: Dict[int, Callback] = {}
_callback_keys = itertools.count(1)


def _on_end(key: Optional[int], status: int) -> None:
    """What the library calls. An exception of the user's goes where those of finalizers go."""
    callback = _callbacks.pop(key or 0, None)
    if callback is None:
        return
    try:
        callback(Status(status))
    except BaseException as error:  # the library's thread must not see it
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


# -------------------------------------------------------------------- state ---


class _State:
    """What must outlive a Context until the library has let go of it."""

    def __init__(self, handle: _native.Handle) -> None:
        self.handle = handle
        self.lock = threading.RLock()
        self.is_closed = False
        self.is_closing = False
        self.runs: Dict[int, Deque[_Outstanding]] = {}
        self.registered: Dict[int, Tuple[Kind, int, DType]] = {}
        self.waiters: List[_Waiter] = []

    def reap(self, coll: int) -> None:
        """Notes which runs of a collective have ended, and lets their buffers go."""
        with self.lock:
            runs = self.runs.get(coll)
            while runs and not self.is_closed:
                status = lib.rondo_test(self.handle, _native.Handle(coll), runs[0].number)
                if status == Status.IN_PROGRESS:
                    break
                runs.popleft().end(Status(status))

    def end(self, drain_s: float = -1.0) -> int:
        """Ends the context: after ``drain_s`` seconds at most, or at once if negative."""
        with self.lock:
            if self.is_closed or self.is_closing:
                return Status.SUCCESS
            self.is_closing = True
            colls = list(self.runs)
        deadline = time.monotonic() + drain_s
        try:
            for coll in colls if drain_s > 0 else ():
                self._drain(coll, deadline)
        finally:
            for coll in colls:
                self.reap(coll)
            left = max(0.0, deadline - time.monotonic()) if drain_s >= 0 else 0.0
            status = int(lib.rondo_destroy(self.handle, 0 if drain_s >= 0 else 1, _nanoseconds(left)))
            with self.lock:
                self.is_closing = False
                # In a callback the library refuses; the context is still there.
                if status != Status.ERR_INVALID:
                    self._forget()
        return status

    def _drain(self, coll: int, deadline: float) -> None:
        status = Status.ERR_TIMEOUT
        while status == Status.ERR_TIMEOUT and time.monotonic() < deadline:
            left = min(_SLICE_S, max(0.0, deadline - time.monotonic()))
            status = lib.rondo_wait(self.handle, _native.Handle(coll), 2**64 - 1, _nanoseconds(left))

    def _forget(self) -> None:
        self.is_closed = True
        for runs in self.runs.values():
            for one in runs:
                one.end(Status.ERR_ABORTED)
        self.runs.clear()
        for waiter in list(self.waiters):
            waiter.look()

    def abandon(self) -> None:
        """After a fork: the child has none of the threads, and must not touch the context."""
        self.lock = threading.RLock()
        self.is_closed = True
        self.is_closing = False
        self.runs.clear()
        self.waiters.clear()


_states: "weakref.WeakSet[_State]" = weakref.WeakSet()


def _end_unclosed(state: _State) -> None:
    """For a context that nobody closed: at its collection, or when the interpreter ends."""
    if state.end() == Status.ERR_INVALID:  # collected inside a callback
        threading.Thread(target=state.end, name="rondo-close").start()


def _after_fork() -> None:
    for state in list(_states):
        state.abandon()


os.register_at_fork(after_in_child=_after_fork)


class _Waiter:
    """A coroutine that awaits a run: looks again whenever the context's event fd can be read."""

    def __init__(self, state: _State, coll: int, run: _Outstanding, fd: int) -> None:
        self.state, self.coll, self.run = state, coll, run
        self.loop = asyncio.get_running_loop()
        self.future: "asyncio.Future[None]" = self.loop.create_future()
        # A descriptor of its own, so that loops and coroutines do not get in each other's way
        # and the context's may go first.
        self.fd = os.dup(fd)
        self.loop.add_reader(self.fd, self.on_readable)
        with state.lock:
            state.waiters.append(self)
        self.look()

    def on_readable(self) -> None:
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            pass  # another waiter has read it, and looks for all
        with self.state.lock:
            waiters = list(self.state.waiters)
        for waiter in waiters:
            waiter.look()

    def look(self) -> None:
        """Wakes the coroutine if its run has ended, from whatever thread."""
        self.state.reap(self.coll)
        if self.run.status is None and not self.state.is_closed:
            return
        try:
            self.loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            pass  # its loop is closed

    def _wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)

    def close(self) -> None:
        with self.state.lock:
            if self in self.state.waiters:
                self.state.waiters.remove(self)
        self.loop.remove_reader(self.fd)
        os.close(self.fd)


# --------------------------------------------------------------------- runs ---


class Run:
    """One run of a collective. May be awaited, as well as waited for."""

    def __init__(self, collective: "Collective", outstanding: _Outstanding) -> None:
        self._collective = collective
        self._outstanding = outstanding

    @property
    def number(self) -> int:
        """1 for the first run of the collective, then 2, and so on: equal on all ranks."""
        return self._outstanding.number

    @property
    def status(self) -> Status:
        """How it ended; IN_PROGRESS as long as it has not."""
        self._collective.context._state.reap(self._collective._handle.handle)
        status = self._outstanding.status
        return Status.IN_PROGRESS if status is None else status

    def test(self) -> bool:
        """Whether it has ended. Raises if it failed. Never waits."""
        status = self.status
        if status == Status.IN_PROGRESS:
            return False
        check(status, self._name())
        return True

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until it has ended, ``timeout`` seconds at most; raises if it failed.

        The interpreter's lock is released meanwhile, and signals are handled. A thread that waits
        works for the daemon. Not from a callback, unless ``timeout`` is 0.
        """
        state, coll = self._collective.context._state, self._collective._handle
        deadline = None if timeout is None else time.monotonic() + _nanoseconds(timeout) / 1e9
        while self.status == Status.IN_PROGRESS:
            left = _SLICE_S if deadline is None else deadline - time.monotonic()
            if state.is_closed:
                raise ClosedError(f"{self._name()}: the context is closed")
            if left <= 0:
                raise self._timeout(timeout or 0.0)
            status = lib.rondo_wait(state.handle, coll, self.number, _nanoseconds(min(left, _SLICE_S)))
            if status in (Status.ERR_INVALID, Status.ERR_CLOSED) and not self._has_ended():
                raise error_of(status, self._name())
        check(self.status, self._name())

    def _has_ended(self) -> bool:
        return self.status != Status.IN_PROGRESS

    def _timeout(self, timeout: float) -> TimeoutError:
        error = TimeoutError(f"{self._name()}: not ended within {timeout} s")
        context = self._collective.context
        if timeout > 0 and context.report_on_timeout:
            try:
                error.report = context.report()
            except RondoError:
                return error  # closed meanwhile
            error.args = (f"{error.args[0]}\n{error.report['text'].rstrip()}",)
        return error

    def _name(self) -> str:
        return f"run {self.number} of {self._collective!r}"

    async def _awaited(self) -> None:
        if self.status == Status.IN_PROGRESS:
            context = self._collective.context
            waiter = _Waiter(
                context._state, self._collective._handle.handle, self._outstanding, context.event_fd
            )
            try:
                await waiter.future
            finally:
                waiter.close()
        if self.status == Status.IN_PROGRESS:
            raise ClosedError(f"{self._name()}: the context is closed")
        check(self.status, self._name())

    def __await__(self) -> Generator[Any, None, None]:
        return self._awaited().__await__()

    def __repr__(self) -> str:
        return f"<rondo.Run {self.number} of {self._collective!r}: {self.status.name}>"


# -------------------------------------------------------------- collectives ---


class Group:
    """An ordered set of ranks. Made by ``Context.group``."""

    def __init__(self, context: "Context", ranks: Sequence[int]) -> None:
        self.context = context
        self.ranks: Tuple[int, ...] = tuple(ranks)
        if any(not 0 <= rank < 2**32 for rank in self.ranks):
            raise InvalidError(f"group: ranks {list(self.ranks)}")
        array = (ctypes.c_uint32 * len(self.ranks))(*self.ranks)
        handle = _native.Handle()
        state = context._open("group")
        check(lib.rondo_group_create(state.handle, array, len(array), ctypes.byref(handle)), "group")
        self._handle = handle
        self._finalizer = weakref.finalize(self, Group._destroy, state, handle)
        self._finalizer.atexit = False

    @staticmethod
    def _destroy(state: _State, handle: _native.Handle) -> None:
        if not state.is_closed:
            lib.rondo_group_destroy(state.handle, handle)

    def destroy(self) -> None:
        """Forgets the group. Collectives registered with it are not affected."""
        self._finalizer()

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, *exception: object) -> None:
        self.destroy()

    def __repr__(self) -> str:
        return f"<rondo.Group {list(self.ranks)}>"


class Collective:
    """An operation registered once, run many times. Made by ``Context.all_reduce`` and its like.

    It stays registered until ``deregister``, the end of a ``with``, or the end of its context.
    """

    def __init__(self, context: "Context", desc: _native.Desc, ranks: int, position: int) -> None:
        handle = _native.Handle()
        state = context._open("register")
        check(lib.rondo_register(state.handle, ctypes.byref(desc), ctypes.byref(handle)), "register")
        self.context = context
        self.kind = Kind(desc.kind)
        self.id = int(desc.id)
        self.count = int(desc.count)
        self.dtype = DType(desc.dtype)
        self.op = RedOp(desc.redop)
        self.root = int(desc.root)
        self._handle = handle
        self._ranks, self._position = ranks, position
        with state.lock:
            state.runs[handle.handle] = deque()
            state.registered[self.id] = (self.kind, self.count, self.dtype)

    def _count(self, is_send: bool) -> int:
        """Elements of a buffer; 0 if this rank does not use it."""
        wide = Kind.REDUCE_SCATTER if is_send else Kind.ALL_GATHER
        rooted = Kind.BROADCAST if is_send else Kind.REDUCE
        if self.kind == rooted and self._position != self.root:
            return 0
        return self.count * self._ranks if self.kind == wide else self.count

    def _hold(self, array: Any, name: str) -> Optional[Held]:
        is_send = name == "send"
        count = self._count(is_send)
        is_used = not (self.kind == (Kind.BROADCAST if is_send else Kind.REDUCE)
                       and self._position != self.root)
        if not is_used:
            return None
        if array is None:
            raise InvalidError(f"{self!r}: {name} is None, and this rank needs it")
        return hold(array, f"{self!r}: {name}", self.dtype, count, not is_send)

    def run(self, send: Any, recv: Any, callback: Optional[Callback] = None) -> Run:
        """Submits a run. Never waits; any thread, any order, any number outstanding.

        ``send`` and ``recv`` are contiguous arrays of the collective's type and of exactly as many
        elements as ``rondo.Kind`` asks for; ``recv`` must be writable. They may be the same array,
        or overlap in place as rondo_run(3) says. A buffer that this rank does not use may be
        ``None``. Both are kept alive, and must be left alone, until the run has ended.
        ``callback`` is called with how it ended, on a thread of the context.
        """
        state = self.context._open("run")
        held: List[Held] = []
        try:
            for array, name in ((send, "send"), (recv, "recv")):
                one = self._hold(array, name)
                if one is not None:
                    held.append(one)
            addresses = self._addresses(held)
        except BaseException:
            for one in held:
                one.release()
            raise
        outstanding = _Outstanding(0, tuple(held))
        self._submit(state, addresses, callback, outstanding)
        return Run(self, outstanding)

    def _addresses(self, held: List[Held]) -> Tuple[int, int]:
        """Of the send and the receive buffer; the one that is not used is 0."""
        if len(held) == 2:
            return held[0].address, held[1].address
        if self.kind == Kind.BROADCAST:
            return 0, held[0].address
        return held[0].address, 0

    def _submit(
        self,
        state: _State,
        addresses: Tuple[int, int],
        callback: Optional[Callback],
        outstanding: _Outstanding,
    ) -> None:
        key = 0
        if callback is not None:
            key = next(_callback_keys)
            _callbacks[key] = callback
        args = _native.RunArgs(*addresses, _trampoline if key else _no_callback, key)
        number = ctypes.c_uint64()
        with state.lock:
            self.context._open("run")
            status = lib.rondo_run_numbered(
                state.handle, self._handle, ctypes.byref(args), ctypes.byref(number)
            )
            if status == Status.SUCCESS:
                outstanding.number = number.value
                state.runs[self._handle.handle].append(outstanding)
        if status != Status.SUCCESS:
            _callbacks.pop(key, None)
            outstanding.end(Status(status))
            check(status, f"{self!r}")
        state.reap(self._handle.handle)

    def run_in_place(self, array: Any, callback: Optional[Callback] = None) -> Run:
        """``run(array, array)``, for kinds whose buffers are of one size."""
        return self.run(array, array, callback)

    def reason(self) -> str:
        """Why runs of it fail, in words, such as what two ranks registered; empty if none has to."""
        state = self.context._open("reason")
        text = ctypes.create_string_buffer(512)  # RONDO_REASON_BYTES
        check(lib.rondo_reason(state.handle, self._handle, text, len(text)), f"{self!r}")
        return text.value.decode("utf-8", "replace")

    def missing(self, run: int) -> List[int]:
        """The ranks that have not submitted run ``run``, or are in other processes. For diagnosis; slow."""
        state = self.context._open("missing")
        ranks = (ctypes.c_uint32 * self._ranks)()
        count = ctypes.c_uint32()
        check(
            lib.rondo_missing(
                state.handle, self._handle, run, ranks, self._ranks, ctypes.byref(count)
            ),
            f"{self!r}",
        )
        return list(ranks[: count.value])

    def deregister(self) -> None:
        """Gives back what it holds. BusyError while a run is outstanding."""
        state = self.context._open("deregister")
        with state.lock:
            state.reap(self._handle.handle)
            check(lib.rondo_deregister(state.handle, self._handle), f"{self!r}")
            state.runs.pop(self._handle.handle, None)
            state.registered.pop(self.id, None)

    def __enter__(self) -> "Collective":
        return self

    def __exit__(self, *exception: object) -> None:
        if not self.context._state.is_closed and exception[0] is None:
            self.deregister()

    def __repr__(self) -> str:
        return f"<rondo {self.kind.name.lower()} {self.id}: {self.count} {self.dtype.name.lower()}>"


# ----------------------------------------------------------------- contexts ---


class Context:
    """One rank of a job. Close it, or use it in a ``with``: after an exception it aborts.

    ``id`` is the same on all ranks, from ``unique_id``; without it the context is a job of its own.
    ``rank_count`` 0 takes rank and number of ranks from the launcher. What is left at 0, ``None``
    or empty is looked for in the environment and else is the library's default:
    docs/configuration.md. Times are in seconds.
    """

    def __init__(
        self,
        id: Optional[bytes] = None,
        *,
        rank: int = 0,
        rank_count: int = 1,
        backend: Backend = Backend.HOST,
        device: int = 0,
        blocks: int = 0,
        workers: int = 0,
        first_worker: int = -1,
        order: OrderPolicy = OrderPolicy.FIFO,
        budget: BudgetPolicy = BudgetPolicy.ADAPTIVE,
        tuning: Optional[Tuning] = None,
        max_collectives: int = 0,
        max_runs: int = 0,
        connector_bytes: int = 0,
        slot_bytes: int = 0,
        peer_timeout: float = 0.0,
        join_timeout: float = 0.0,
        address_family: int = 0,
        interfaces: str = "",
        threads: int = 0,
        multiprocessors: int = 0,
        report_on_timeout: bool = True,
    ) -> None:
        if id is not None and len(id) != _native.UNIQUE_ID_BYTES:
            raise InvalidError(f"Context: an id of {len(id)} bytes, not {_native.UNIQUE_ID_BYTES}")
        if rank < 0 or rank_count < 0 or len(interfaces) > 63:
            raise InvalidError("Context: a rank or a number of ranks is negative, or interfaces too long")
        config = _native.default_config()
        ctypes.memmove(config.id.bytes, id or bytes(_native.UNIQUE_ID_BYTES), _native.UNIQUE_ID_BYTES)
        config.rank, config.rank_count = rank, rank_count
        config.backend, config.device = backend, device
        config.blocks, config.workers, config.first_worker = blocks, workers, first_worker
        config.order, config.budget = order, budget
        config.tuning = (tuning or Tuning())._native()
        config.max_collectives, config.max_runs = max_collectives, max_runs
        config.connector_bytes, config.slot_bytes = connector_bytes, slot_bytes
        config.peer_timeout_ns = _nanoseconds(peer_timeout)
        config.join_timeout_ns = _nanoseconds(join_timeout)
        config.address_family, config.interfaces = address_family, interfaces.encode()
        config.threads, config.multiprocessors = threads, multiprocessors
        config.report_on_timeout = 0  # waits are cut into slices; Run.wait reports itself
        self.report_on_timeout = report_on_timeout
        self._join(config)

    def _join(self, config: _native.Config) -> None:
        if config.rank_count == 0:
            check(lib.rondo_config_complete(ctypes.byref(config)), "Context")
        self.rank = int(config.rank)
        self.rank_count = int(config.rank_count)
        handle = _native.Handle()
        check(lib.rondo_init(ctypes.byref(handle), ctypes.byref(config)), "Context")
        self._state = _State(handle)
        _states.add(self._state)
        self._finalizer = weakref.finalize(self, _end_unclosed, self._state)

    def _open(self, call: str) -> _State:
        if self._state.is_closed:
            raise ClosedError(f"{call}: the context is closed")
        return self._state

    # ---- registration

    def group(self, ranks: Sequence[int]) -> Group:
        """The ordered set of these ranks. Local; the others make their own."""
        return Group(self, ranks)

    def register(
        self,
        kind: Kind,
        id: int,
        count: int,
        dtype: DType,
        op: RedOp = RedOp.SUM,
        *,
        root: int = 0,
        group: Optional[Group] = None,
        priority: int = 0,
        scalar: float = 1.0,
    ) -> Collective:
        """Registers a collective under ``id``, with what all ranks of the group register equal.

        Local; it may come in any order on each rank. ``count`` is as in rondo_run(3): of what
        each rank sends for all-gather, receives for reduce-scatter. ``root`` is a position in the
        group, ``scalar`` this rank's factor for PREMUL_SUM.
        """
        if kind not in _KINDS:
            raise UnsupportedError(f"register: kind {kind!r} is not offered by this package yet")
        if not 0 <= id < 2**64 or not 0 <= count < 2**64 or not 0 <= root < 2**32:
            raise InvalidError(f"register: id {id}, count {count} or root {root} is out of range")
        ranks = group.ranks if group is not None else tuple(range(self.rank_count))
        if group is not None and group.context is not self:
            raise InvalidError("register: the group is another context's")
        position = ranks.index(self.rank) if self.rank in ranks else 0
        desc = _native.Desc(
            size=ctypes.sizeof(_native.Desc),
            version=_native.DESC_VERSION,
            kind=kind,
            id=id,
            count=count,
            dtype=dtype,
            redop=op,
            root=root,
            priority=priority,
            scalar=scalar,
        )
        if group is not None:
            desc.group = group._handle
        return Collective(self, desc, len(ranks), position)

    def all_reduce(
        self,
        id: int,
        count: int,
        dtype: DType,
        op: RedOp = RedOp.SUM,
        *,
        group: Optional[Group] = None,
        priority: int = 0,
        scalar: float = 1.0,
    ) -> Collective:
        """Registers an all-reduce of ``count`` elements."""
        return self.register(
            Kind.ALL_REDUCE, id, count, dtype, op, group=group, priority=priority, scalar=scalar
        )

    def all_gather(
        self, id: int, count: int, dtype: DType, *, group: Optional[Group] = None, priority: int = 0
    ) -> Collective:
        """Registers an all-gather of ``count`` elements from each rank."""
        return self.register(Kind.ALL_GATHER, id, count, dtype, group=group, priority=priority)

    def reduce_scatter(
        self,
        id: int,
        count: int,
        dtype: DType,
        op: RedOp = RedOp.SUM,
        *,
        group: Optional[Group] = None,
        priority: int = 0,
        scalar: float = 1.0,
    ) -> Collective:
        """Registers a reduce-scatter of ``count`` elements to each rank."""
        return self.register(
            Kind.REDUCE_SCATTER, id, count, dtype, op, group=group, priority=priority, scalar=scalar
        )

    def reduce(
        self,
        id: int,
        count: int,
        dtype: DType,
        op: RedOp = RedOp.SUM,
        *,
        root: int = 0,
        group: Optional[Group] = None,
        priority: int = 0,
        scalar: float = 1.0,
    ) -> Collective:
        """Registers a reduce of ``count`` elements to the root."""
        return self.register(
            Kind.REDUCE, id, count, dtype, op, root=root, group=group, priority=priority, scalar=scalar
        )

    def broadcast(
        self,
        id: int,
        count: int,
        dtype: DType,
        *,
        root: int = 0,
        group: Optional[Group] = None,
        priority: int = 0,
    ) -> Collective:
        """Registers a broadcast of ``count`` elements from the root."""
        return self.register(Kind.BROADCAST, id, count, dtype, root=root, group=group, priority=priority)

    # ---- observation

    @property
    def event_fd(self) -> int:
        """Can be read whenever a run has ended since. The context's: poll it, never close it.

        Awaiting runs reads it too.
        """
        fd = ctypes.c_int()
        check(lib.rondo_event_fd(self._open("event_fd").handle, ctypes.byref(fd)), "event_fd")
        return fd.value

    def counters(self) -> Counters:
        """What this rank has done so far."""
        native = _native.Counters()
        check(lib.rondo_counters(self._open("counters").handle, ctypes.byref(native)), "counters")
        return Counters(**{field.name: getattr(native, field.name) for field in fields(Counters)})

    def report(self, limit: int = 1000) -> StuckReport:
        """The stuck report: ``limit`` outstanding runs of this rank at most. For diagnosis; slow."""
        state = self._open("report")
        entries = (_native.Stuck * limit)()
        count = ctypes.c_size_t()
        check(lib.rondo_stuck(state.handle, entries, limit, ctypes.byref(count)), "report")
        text, cycle = _report_text(state)
        return StuckReport(
            rank=self.rank,
            rank_count=self.rank_count,
            outstanding=count.value,
            runs=[_stuck_run(state, entry) for entry in entries[: min(limit, count.value)]],
            cycle_ranks=cycle,
            text=text,
        )

    # ---- the end

    def synchronize(self, timeout: Optional[float] = None) -> None:
        """Waits until the daemon has left the device, as cudaDeviceSynchronize would."""
        status = lib.rondo_device_synchronize(self._open("synchronize").handle, _nanoseconds(timeout))
        check(status, "synchronize")

    def abort(self) -> None:
        """Ends every outstanding run of this rank, and its peers' in the same collectives."""
        check(lib.rondo_abort(self._open("abort").handle), "abort")

    def close(self, timeout: float = _CLOSE_S, *, abort: bool = False) -> None:
        """Ends the context, after what is outstanding, or with ``abort`` at once.

        TimeoutError says that runs were cut short after ``timeout`` seconds; the context is closed
        all the same. All callbacks have returned. A second call does nothing. Not from a callback.
        """
        _nanoseconds(timeout)
        status = self._state.end(-1.0 if abort else timeout)
        if self._state.is_closed:
            self._finalizer.detach()
        check(status, "close")

    @property
    def closed(self) -> bool:
        """Whether the context is closed."""
        return self._state.is_closed

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, kind: Optional[type], error: object, trace: object) -> None:
        self.close(abort=kind is not None)

    def __repr__(self) -> str:
        closed = ", closed" if self.closed else ""
        return f"<rondo.Context rank {self.rank} of {self.rank_count}{closed}>"


_libc = ctypes.CDLL(None)
_libc.open_memstream.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t)]
_libc.open_memstream.restype = ctypes.c_void_p
_libc.fclose.argtypes = [ctypes.c_void_p]
_libc.free.argtypes = [ctypes.c_void_p]
_libc.free.restype = None


def _report_text(state: _State) -> Tuple[str, int]:
    """What rondo_report prints, and the number of ranks in the circle."""
    memory, size, cycle = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_uint32()
    stream = _libc.open_memstream(ctypes.byref(memory), ctypes.byref(size))
    if not stream:
        raise error_of(Status.ERR_NO_MEMORY, "report")
    status = lib.rondo_report(state.handle, stream, ctypes.byref(cycle))
    _libc.fclose(stream)
    text = ctypes.string_at(memory.value, size.value).decode() if memory.value else ""
    _libc.free(memory)
    check(status, "report")
    return text, int(cycle.value)


def _stuck_run(state: _State, entry: _native.Stuck) -> StuckRun:
    kind, count, dtype = state.registered.get(entry.id, (None, 0, None))
    return StuckRun(
        id=entry.id,
        kind=kind.name.lower() if kind is not None else "unknown",
        count=count,
        dtype=dtype.name.lower() if dtype is not None else "unknown",
        run=entry.run,
        state=RunState(entry.state).name.lower(),
        block=entry.block,
        op=entry.op,
        peer=entry.peer if entry.peer >= 0 else None,
        missing=entry.missing,
        waiting_ns=entry.waiting_ns,
    )
