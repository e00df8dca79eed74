"""Contexts, groups, collectives and runs."""

from __future__ import annotations

import ctypes
import time
import weakref
from dataclasses import dataclass, fields
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, TypedDict

from . import _native
from ._comm import Communicator
from ._enums import Backend, BudgetPolicy, DType, Kind, OrderPolicy, RedOp, RunState, Status, Transport
from ._errors import ClosedError, InvalidError, UnknownError, UnsupportedError, check, error_of
from ._native import lib
from ._runs import Description, Run, describe, missing, reason
from ._shapes import Counts, Parts, Shape
from ._state import (
    SLICE_S,
    Callback,
    Outstanding,
    Queue,
    State,
    end_unclosed,
    forget_callback,
    nanoseconds,
    run_args,
)

_CLOSE_S = 10.0


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
    look_ns: int = 0
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
        check(lib.rondo_profile(ctypes.byref(native), nanoseconds(duration)), "Tuning.profile")
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
    communicator: Optional[int]  # whose call it is; None: of a collective that was registered
    kind: str
    count: int
    dtype: str
    ranks: List[int]  # of its group; empty where it has ended meanwhile
    run: int
    state: str
    block: int
    op: int
    peer: Optional[int]  # the rank whose data or room it waits for, where known
    missing: int  # ranks that have not submitted it
    missing_ranks: List[int]  # these, and those in other processes
    reason: str  # why it has to fail; empty if it has not
    waiting_ns: int


class StuckReport(TypedDict):
    """Who waits for whom: ``runs`` of this rank, the ``cycle`` and the ``text`` of the whole job."""

    rank: int
    rank_count: int
    outstanding: int  # may be more than there are runs listed
    runs: List[StuckRun]
    cycle_ranks: int  # ranks that wait for each other in a circle; 0: there is none
    text: str


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
    def _destroy(state: State, handle: _native.Handle) -> None:
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

    def __init__(self, context: "Context", desc: _native.Desc, shape: Shape) -> None:
        handle = _native.Handle()
        state = context._open("register")
        check(lib.rondo_register(state.handle, ctypes.byref(desc), ctypes.byref(handle)), "register")
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
        """Submits a run. Never waits; any thread, any order, any number outstanding.

        ``send`` and ``recv`` are contiguous arrays of the collective's type and of exactly as many
        elements as ``rondo.Kind`` asks for; ``recv`` must be writable. They may be the same array,
        or overlap in place as rondo_run(3) says. A buffer that this rank does not use may be
        ``None``. Both are kept alive, and must be left alone, until the run has ended.
        ``callback`` is called with how it ended, on a thread of the context.
        """
        state = self.context._open("run")
        held, addresses = self._shape.hold(send, recv, repr(self))
        outstanding = Outstanding(held)
        args = run_args(addresses, callback)
        number = ctypes.c_uint64()
        with state.lock:
            status = Status.ERR_CLOSED if state.is_closed else lib.rondo_run_numbered(
                state.handle, self._handle, ctypes.byref(args), ctypes.byref(number)
            )
            if status == Status.SUCCESS:
                outstanding.number = number.value
                self._queue.runs.append(outstanding)
        if status != Status.SUCCESS:
            forget_callback(args)
            outstanding.end(Status(status))
            check(status, repr(self))
        self._queue.reap()
        return Run(self.context, self._queue, outstanding, repr(self))

    def run_in_place(self, array: Any, callback: Optional[Callback] = None) -> Run:
        """``run(array, array)``, for kinds whose buffers are of one size."""
        return self.run(array, array, callback)

    def describe(self) -> Description:
        """What it is, and the ranks of its group, as a dictionary."""
        return describe(self.context._open("describe"), self._handle.handle)

    def reason(self) -> str:
        """Why runs of it fail, in words, such as what two ranks registered; empty if none has to."""
        return reason(self.context._open("reason"), self._handle.handle)

    def missing(self, run: int) -> List[int]:
        """The ranks that have not submitted run ``run``, or are in other processes. For diagnosis; slow."""
        return missing(self.context._open("missing"), self._handle.handle, run)

    def deregister(self) -> None:
        """Gives back what it holds. BusyError while a run is outstanding."""
        state = self.context._open("deregister")
        with state.lock:
            self._queue.reap()
            check(lib.rondo_deregister(state.handle, self._handle), f"{self!r}")
            state.queues.pop(self._handle.handle, None)

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
    docs/configuration.md. Times are in seconds. ``transport`` is what may lie between processes;
    NONE leaves the choice to the library.
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
        transport: Transport = Transport.NONE,
        interfaces: str = "",
        threads: int = 0,
        multiprocessors: int = 0,
        endpoints: int = 0,
        huge_pages: bool = False,
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
        config.peer_timeout_ns = nanoseconds(peer_timeout)
        config.join_timeout_ns = nanoseconds(join_timeout)
        config.address_family, config.interfaces = address_family, interfaces.encode()
        config.transport = transport
        config.threads, config.multiprocessors = threads, multiprocessors
        config.endpoints = endpoints
        config.huge_pages = int(huge_pages)
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
        self._state = State(handle)
        self._finalizer = weakref.finalize(self, end_unclosed, self._state)

    def _open(self, call: str) -> State:
        if self._state.is_closed:
            raise ClosedError(f"{call}: {self._state.why_closed()}")
        return self._state

    def _ranks_of(self, group: Optional[Group], call: str) -> Tuple[int, ...]:
        if group is None:
            return tuple(range(self.rank_count))
        if group.context is not self:
            raise InvalidError(f"{call}: the group is another context's")
        return group.ranks

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
        peer: int = 0,
        group: Optional[Group] = None,
        priority: int = 0,
        scalar: float = 1.0,
    ) -> Collective:
        """Registers a collective under ``id``, with what all ranks of the group register equal.

        Local; it may come in any order on each rank. ``count`` is as ``rondo.Kind`` says. ``root``
        and ``peer`` are positions in the group, ``scalar`` is this rank's factor for PREMUL_SUM.
        """
        if kind == Kind.ALL_TO_ALL_V:
            raise UnsupportedError("register: an all_to_all_v is registered by the call of that name")
        shape = self._shape(kind, count, dtype, op, group, root=root, peer=peer, scalar=scalar)
        return self._register(id, shape, group, priority)

    def _shape(
        self,
        kind: Kind,
        count: int,
        dtype: DType,
        op: RedOp,
        group: Optional[Group],
        **more: Any,
    ) -> Shape:
        ranks = self._ranks_of(group, "register")
        position = ranks.index(self.rank) if self.rank in ranks else 0
        return Shape(kind, count, dtype, len(ranks), position, op, **more)

    def _register(
        self, id: int, shape: Shape, group: Optional[Group], priority: int
    ) -> Collective:
        if not 0 <= id < 2**64:
            raise InvalidError(f"register: id {id} is out of range")
        desc = shape.desc()
        desc.id, desc.priority = id, priority
        if group is not None:
            desc.group = group._handle
        kept = shape.parts.give(desc, shape.ranks) if shape.parts is not None else []
        made = Collective(self, desc, shape)
        del kept  # the library has copied the numbers
        return made

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

    def send_recv(
        self,
        id: int,
        count: int,
        dtype: DType,
        *,
        root: int,
        peer: int,
        group: Optional[Group] = None,
        priority: int = 0,
    ) -> Collective:
        """Registers that the root sends ``count`` elements to the peer, on these two ranks alone.

        The root runs it with ``send``, the peer with ``recv``.
        """
        return self.register(
            Kind.SEND_RECV, id, count, dtype, root=root, peer=peer, group=group, priority=priority
        )

    def all_to_all(
        self, id: int, count: int, dtype: DType, *, group: Optional[Group] = None, priority: int = 0
    ) -> Collective:
        """Registers an all-to-all of ``count`` elements from each rank to each."""
        return self.register(Kind.ALL_TO_ALL, id, count, dtype, group=group, priority=priority)

    def all_to_all_v(
        self,
        id: int,
        dtype: DType,
        send_counts: Counts,
        recv_counts: Counts,
        *,
        send_displacements: Optional[Counts] = None,
        recv_displacements: Optional[Counts] = None,
        group: Optional[Group] = None,
        priority: int = 0,
    ) -> Collective:
        """Registers an all-to-all of uneven parts, a number for each member of the group.

        What this rank sends to each and receives from each is what they receive and send. Without
        displacements, in elements, the parts are one behind the other; with them the arrays may be
        longer than the parts need.
        """
        parts = Parts(send_counts, recv_counts, send_displacements, recv_displacements)
        shape = self._shape(Kind.ALL_TO_ALL_V, 0, dtype, RedOp.SUM, group, parts=parts)
        return self._register(id, shape, group, priority)

    def gather(
        self,
        id: int,
        count: int,
        dtype: DType,
        *,
        root: int = 0,
        group: Optional[Group] = None,
        priority: int = 0,
    ) -> Collective:
        """Registers a gather of ``count`` elements from each rank to the root."""
        return self.register(Kind.GATHER, id, count, dtype, root=root, group=group, priority=priority)

    def scatter(
        self,
        id: int,
        count: int,
        dtype: DType,
        *,
        root: int = 0,
        group: Optional[Group] = None,
        priority: int = 0,
    ) -> Collective:
        """Registers a scatter of ``count`` elements to each rank from the root."""
        return self.register(Kind.SCATTER, id, count, dtype, root=root, group=group, priority=priority)

    def barrier(
        self, id: int, *, group: Optional[Group] = None, priority: int = 0
    ) -> Collective:
        """Registers a barrier: a run ends when every member has submitted it. ``run()``, without arrays."""
        return self.register(Kind.BARRIER, id, 0, DType.INT8, group=group, priority=priority)

    def communicator(
        self,
        key: int,
        *,
        group: Optional[Group] = None,
        priority: int = 0,
        cached_collectives: int = 0,
        cached_pairs: int = 0,
    ) -> Communicator:
        """This rank's end of a communicator, whose calls match by their order and need no ids.

        ``key`` names it: equal on all its members, and another than that of any communicator that
        has a member in common with it, also of an earlier one. Waits for nobody.
        """
        ranks = self._ranks_of(group, "communicator")
        config = _native.default_comm_config()
        config.key, config.priority = key, priority
        config.cached_collectives, config.cached_pairs = cached_collectives, cached_pairs
        if group is not None:
            config.group = group._handle
        return Communicator(self, config, ranks)

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

    def transport(self, rank: int) -> Tuple[Optional[Transport], str]:
        """How this rank reaches ``rank``, ``None`` if it is not known yet, and for which reason."""
        how, why = ctypes.c_int(), ctypes.create_string_buffer(_native.REASON_BYTES)
        state = self._open("transport")
        status = lib.rondo_transport(state.handle, rank, ctypes.byref(how), why, len(why))
        if status == Status.IN_PROGRESS:
            return None, why.value.decode("utf-8", "replace")
        check(status, "transport")
        return Transport(how.value), why.value.decode("utf-8", "replace")

    def flight_record(self) -> str:
        """The last events of this rank, a JSON object a line: what ``rondo-sim analyse`` reads."""
        state = self._open("flight_record")
        return _printed(lambda stream: lib.rondo_flight_write(state.handle, stream), "flight_record")

    def report(self, limit: int = 1000) -> StuckReport:
        """The stuck report: ``limit`` outstanding runs of this rank at most. For diagnosis; slow."""
        state = self._open("report")
        entries = (_native.Stuck * limit)()
        count = ctypes.c_size_t()
        check(lib.rondo_stuck(state.handle, entries, limit, ctypes.byref(count)), "report")
        text, cycle = _report_text(state)
        known = _known(state)
        return StuckReport(
            rank=self.rank,
            rank_count=self.rank_count,
            outstanding=count.value,
            runs=[_stuck_run(state, entry, known) for entry in entries[: min(limit, count.value)]],
            cycle_ranks=cycle,
            text=text,
        )

    def wait_ready(self, timeout: Optional[float] = None) -> None:
        """Waits until every other rank of the job is there.

        TimeoutError names those that are missing, PeerError those that have gone or never came.
        """
        self._await_others("wait_ready", lib.rondo_wait_ready, timeout)

    def wait_gone(self, timeout: Optional[float] = None) -> None:
        """Waits until every other rank of the job has gone; TimeoutError names those that have not."""
        self._await_others("wait_gone", lib.rondo_wait_gone, timeout)

    def _await_others(self, name: str, call: Any, timeout: Optional[float]) -> None:
        ranks, count = (ctypes.c_uint32 * self.rank_count)(), ctypes.c_uint32()
        deadline = None if timeout is None else time.monotonic() + nanoseconds(timeout) / 1e9
        status = Status.ERR_TIMEOUT
        left = SLICE_S
        while status == Status.ERR_TIMEOUT and left > 0:
            state = self._open(name)  # in slices: signals are handled meanwhile
            left = SLICE_S if deadline is None else deadline - time.monotonic()
            slice_ns = nanoseconds(max(0.0, min(left, SLICE_S)))
            status = call(state.handle, slice_ns, ranks, self.rank_count, ctypes.byref(count))
        who = ", ".join(str(rank) for rank in ranks[: count.value])
        check(status, f"{name}: ranks {who}" if who else name)

    # ---- the end

    def synchronize(self, timeout: Optional[float] = None) -> None:
        """Waits until the daemon has left the device, as cudaDeviceSynchronize would."""
        status = lib.rondo_device_synchronize(self._open("synchronize").handle, nanoseconds(timeout))
        check(status, "synchronize")

    def abort(self) -> None:
        """Ends every outstanding run of this rank, and its peers' in the same collectives."""
        check(lib.rondo_abort(self._open("abort").handle), "abort")

    def close(self, timeout: float = _CLOSE_S, *, abort: bool = False) -> None:
        """Ends the context, after what is outstanding, or with ``abort`` at once.

        TimeoutError says that runs were cut short after ``timeout`` seconds; the context is closed
        all the same. All callbacks have returned. A second call does nothing. Not from a callback.
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


def _printed(call: Callable[[int], int], name: str) -> str:
    """What a call prints to a C stream."""
    memory, size = ctypes.c_void_p(), ctypes.c_size_t()
    stream = _libc.open_memstream(ctypes.byref(memory), ctypes.byref(size))
    if not stream:
        raise error_of(Status.ERR_NO_MEMORY, name)
    status = call(stream)
    _libc.fclose(stream)
    text = ctypes.string_at(memory.value, size.value).decode() if memory.value else ""
    _libc.free(memory)
    check(status, name)
    return text


def _report_text(state: State) -> Tuple[str, int]:
    """What rondo_report prints, and the number of ranks in the circle."""
    cycle = ctypes.c_uint32()
    text = _printed(
        lambda stream: int(lib.rondo_report(state.handle, stream, ctypes.byref(cycle))), "report"
    )
    return text, int(cycle.value)


def _known(state: State) -> Dict[int, Tuple[Queue, Description]]:
    """The collectives that may have runs outstanding, by their ids."""
    known = {}
    with state.lock:
        queues = list(state.queues.values())
    for queue in queues:
        try:
            told = describe(state, queue.coll)
        except UnknownError:
            continue  # a call's, which has ended
        known[told["id"]] = (queue, told)
    return known


def _stuck_run(
    state: State, entry: _native.Stuck, known: Dict[int, Tuple[Queue, Description]]
) -> StuckRun:
    queue, told = known.get(entry.id, (None, None))
    try:
        who = missing(state, queue.coll, entry.run) if queue is not None else []
        why = reason(state, queue.coll) if queue is not None else ""
    except UnknownError:
        who, why = [], ""
    return StuckRun(
        id=entry.id,
        communicator=(queue.key if queue is not None else None),
        kind=told["kind"] if told is not None else "unknown",
        count=told["count"] if told is not None else 0,
        dtype=told["dtype"] if told is not None else "unknown",
        ranks=told["ranks"] if told is not None else [],
        run=entry.run,
        state=RunState(entry.state).name.lower(),
        block=entry.block,
        op=entry.op,
        peer=entry.peer if entry.peer >= 0 else None,
        missing=entry.missing,
        missing_ranks=who,
        reason=why,
        waiting_ns=entry.waiting_ns,
    )
