"""Contexts and their configuration: the identity of the job, and the times that steer a daemon."""

from __future__ import annotations

import ctypes
import weakref
from ctypes import byref
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple, TypedDict

from . import _native
from ._buffers import Counts, Parts, Shape
from ._collectives import Collective, Group
from ._comm import Communicator
from ._enums import Backend, BudgetPolicy, DType, Kind, OnLoss, OrderPolicy, Quantisation
from ._enums import RedOp, Status
from ._enums import Transport
from ._errors import InvalidError, UnsupportedError, check, check_reason
from ._native import lib
from ._observe import printed, stuck_report
from ._reports import Counters, Links, StuckReport
from ._state import CLOSE_S, State, end_unclosed, nanoseconds, slices_ns

if TYPE_CHECKING:
    from typing_extensions import Unpack  # of typing since Python 3.11


def version() -> Tuple[int, int, int]:
    """The version of the loaded library."""
    number = int(lib.rondo_version())
    return number // 10000, number // 100 % 100, number % 100


def _make_id(function: Any, name: str, *args: Any) -> bytes:
    id = _native.UniqueId()
    check(function(byref(id), *args), name)
    return bytes(id.bytes)


def _native_id(id: bytes, call: str) -> _native.UniqueId:
    if len(id) != _native.UNIQUE_ID_BYTES:
        raise InvalidError(f"{call}: an id of {len(id)} bytes, not {_native.UNIQUE_ID_BYTES}")
    return _native.UniqueId((ctypes.c_ubyte * _native.UNIQUE_ID_BYTES)(*id))


def unique_id() -> bytes:
    """Creates the id of a job whose ranks are all threads of this process."""
    return _make_id(lib.rondo_unique_id_create, "unique_id")


def unique_id_listen() -> bytes:
    """Creates the id of a job whose ranks may be in other processes, and listens for them."""
    return _make_id(lib.rondo_unique_id_listen, "unique_id_listen", None)


def grow_listen() -> bytes:
    """Opens a port on which this process accepts newcomers for its job, and returns its id.

    Whoever has the id can ask to ``join``. One id serves any number of ``Context.grow``.
    """
    return _make_id(lib.rondo_grow_listen, "grow_listen", None)


def grow_close(id: bytes) -> None:
    """Closes the port of ``grow_listen``. Newcomers that wait there get PeerError."""
    check(lib.rondo_grow_close(byref(_native_id(id, "grow_close"))), "grow_close")


def pending(id: bytes) -> int:
    """How many newcomers wait at the port of ``grow_listen`` that this process has opened."""
    count = ctypes.c_uint32()
    check(lib.rondo_pending(byref(_native_id(id, "pending")), byref(count)), "pending")
    return count.value


def join(id: bytes, timeout: float = 60.0, **settings: Any) -> "Context":
    """Asks the members of a running job to admit this process; returns its context in the new job.

    ``id`` is from ``grow_listen``; ``settings`` are the keywords of ``Context``, without ``rank``,
    ``rank_count``, ``least_ranks`` and ``most_ranks``, which the members give. Waits at most
    ``timeout`` seconds, and handles no signals meanwhile. TimeoutError: no vote has admitted it;
    FullError: the job has ``most_ranks`` ranks; PeerError: the process with the id is gone.
    """
    return Context(id, _admission_timeout=timeout, **settings)


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
    def profile(cls, duration: float = 0.05) -> "Tuning":
        """Measures this machine for about ``duration`` seconds."""
        native = _native.Tuning()
        check(lib.rondo_profile(byref(native), nanoseconds(duration)), "Tuning.profile")
        return cls(**_native.values_of(native))

    @classmethod
    def parse(cls, text: str) -> "Tuning":
        """Reads the format of ``str`` and of RONDO_TUNING."""
        native = _native.Tuning()
        check(lib.rondo_tuning_parse(byref(native), text.encode()), f"Tuning.parse({text!r})")
        return cls(**_native.values_of(native))

    def _native(self) -> _native.Tuning:
        return _native.Tuning(**asdict(self))

    def __str__(self) -> str:
        native, text = self._native(), ctypes.create_string_buffer(320)
        check(lib.rondo_tuning_print(byref(native), text, len(text)), "Tuning")
        return text.value.decode()


class Options(TypedDict, total=False):
    """What every registration takes: the ranks, by default all, the priority, and ``on_loss``."""

    group: Optional[Group]
    priority: int
    on_loss: OnLoss


class Context:
    """One rank of a job. Close it, or use it in a ``with``, which aborts it after an exception.

    ``id`` comes from ``unique_id`` and is equal on all ranks; without it the job has one rank.
    ``rank_count`` 0 takes the rank and the number of ranks from the launcher. A parameter of 0,
    ``None`` or "" takes its value from the environment, else the library's default; see
    docs/configuration.md. Times are in seconds. ``transport`` is the transport between processes;
    with NONE the library chooses. ``least_ranks`` and ``most_ranks`` limit a job whose members
    change (docs/elastic.md). The ``options`` of a registration are ``group``, ``priority`` and
    ``on_loss``.
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
        heartbeat: float = 0.0,
        join_timeout: float = 0.0,
        address_family: int = 0,
        transport: Transport = Transport.NONE,
        interfaces: str = "",
        threads: int = 0,
        multiprocessors: int = 0,
        endpoints: int = 0,
        huge_pages: bool = False,
        collective_counters: bool = False,
        least_ranks: int = 0,
        most_ranks: int = 0,
        report_on_timeout: bool = True,
        _admission_timeout: Optional[float] = None,
    ) -> None:
        if rank < 0 or rank_count < 0 or len(interfaces) > 63:
            raise InvalidError(
                "Context: rank or rank_count is negative, or interfaces is longer than 63"
            )
        config = _native.default_config()
        if id is not None:
            config.id = _native_id(id, "Context")
        config.rank, config.rank_count = rank, rank_count
        config.backend, config.device = backend, device
        config.blocks, config.workers, config.first_worker = blocks, workers, first_worker
        config.order, config.budget = order, budget
        config.tuning = (tuning or Tuning())._native()
        config.max_collectives, config.max_runs = max_collectives, max_runs
        config.connector_bytes, config.slot_bytes = connector_bytes, slot_bytes
        config.peer_timeout_ns = nanoseconds(peer_timeout)
        config.heartbeat_ns = nanoseconds(heartbeat)
        config.join_timeout_ns = nanoseconds(join_timeout)
        config.address_family, config.interfaces = address_family, interfaces.encode()
        config.transport = transport
        config.threads, config.multiprocessors = threads, multiprocessors
        config.endpoints = endpoints
        config.huge_pages = int(huge_pages)
        config.collective_counters = int(collective_counters)
        config.least_ranks, config.most_ranks = least_ranks, most_ranks
        config.report_on_timeout = 0  # the library sees slices of a wait; Run.wait reports itself
        if config.rank_count == 0:
            check(lib.rondo_config_complete(byref(config)), "Context")
        handle = _native.Handle()
        if _admission_timeout is None:
            check(lib.rondo_init(byref(handle), byref(config)), "Context")
        else:
            timeout_ns, why = nanoseconds(_admission_timeout), _native.reason_buffer()
            status = lib.rondo_join(byref(handle), byref(config), timeout_ns, why)
            check_reason(status, "join", why)
        self._begin(handle, report_on_timeout)

    def _begin(self, handle: _native.Handle, report_on_timeout: bool) -> None:
        self.report_on_timeout = report_on_timeout
        self._state = State(handle)
        self._finalizer = weakref.finalize(self, end_unclosed, self._state)
        rank, rank_count = ctypes.c_uint32(), ctypes.c_uint32()
        call = self._state.call
        call(lib.rondo_describe_rank, "Context", byref(rank), byref(rank_count))
        self.rank = rank.value
        self.rank_count = rank_count.value

    def _ranks_of(self, group: Optional[Group], call: str) -> Tuple[int, ...]:
        if group is None:
            return tuple(range(self.rank_count))
        if group.context is not self:
            raise InvalidError(f"{call}: the group belongs to another context")
        return group.ranks

    # ---- registration

    def group(self, ranks: Sequence[int]) -> Group:
        """The ordered set of ``ranks``. Local: each rank makes its own."""
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
        on_loss: OnLoss = OnLoss.FAIL,
        quantisation: Quantisation = Quantisation.NONE,
    ) -> Collective:
        """Registers a collective under ``id``. All ranks of the group pass equal arguments.

        Local; each rank may register in its own order. ``rondo.Kind`` explains ``count``. ``root``
        and ``peer`` are positions in the group. ``scalar`` is this rank's factor for PREMUL_SUM.
        """
        if kind == Kind.ALL_TO_ALL_V:
            raise UnsupportedError("register: register an all_to_all_v by Context.all_to_all_v")
        shape = self._shape(kind, count, dtype, op, group, root=root, peer=peer, scalar=scalar)
        return self._register(id, shape, group, priority, on_loss, quantisation)

    def _shape(
        self, kind: Kind, count: int, dtype: DType, op: RedOp, group: Optional[Group], **more: Any
    ) -> Shape:
        ranks = self._ranks_of(group, "register")
        position = ranks.index(self.rank) if self.rank in ranks else 0
        return Shape(kind, count, dtype, len(ranks), position, op, **more)

    def _register(
        self,
        id: int,
        shape: Shape,
        group: Optional[Group],
        priority: int,
        on_loss: OnLoss = OnLoss.FAIL,
        quantisation: Quantisation = Quantisation.NONE,
    ) -> Collective:
        if not 0 <= id < 2**64:
            raise InvalidError(f"register: id {id} is out of range")
        desc = shape.desc()
        desc.id, desc.priority, desc.on_loss = id, priority, on_loss
        desc.quantisation = quantisation
        if group is not None:
            desc.group = group._handle
        return Collective(self, desc, shape)

    def all_reduce(
        self,
        id: int,
        count: int,
        dtype: DType,
        op: RedOp = RedOp.SUM,
        *,
        scalar: float = 1.0,
        quantisation: Quantisation = Quantisation.NONE,
        **options: Unpack[Options],
    ) -> Collective:
        """Registers an all-reduce of ``count`` elements. With ``quantisation`` it is inexact."""
        return self.register(
            Kind.ALL_REDUCE,
            id,
            count,
            dtype,
            op,
            scalar=scalar,
            quantisation=quantisation,
            **options,
        )

    def all_gather(
        self, id: int, count: int, dtype: DType, **options: Unpack[Options]
    ) -> Collective:
        """Registers an all-gather of ``count`` elements from each rank."""
        return self.register(Kind.ALL_GATHER, id, count, dtype, **options)

    def reduce_scatter(
        self,
        id: int,
        count: int,
        dtype: DType,
        op: RedOp = RedOp.SUM,
        *,
        scalar: float = 1.0,
        **options: Unpack[Options],
    ) -> Collective:
        """Registers a reduce-scatter of ``count`` elements to each rank."""
        return self.register(Kind.REDUCE_SCATTER, id, count, dtype, op, scalar=scalar, **options)

    def reduce(
        self,
        id: int,
        count: int,
        dtype: DType,
        op: RedOp = RedOp.SUM,
        *,
        root: int = 0,
        scalar: float = 1.0,
        **options: Unpack[Options],
    ) -> Collective:
        """Registers a reduce of ``count`` elements to the root."""
        return self.register(Kind.REDUCE, id, count, dtype, op, root=root, scalar=scalar, **options)

    def broadcast(
        self, id: int, count: int, dtype: DType, *, root: int = 0, **options: Unpack[Options]
    ) -> Collective:
        """Registers a broadcast of ``count`` elements from the root."""
        return self.register(Kind.BROADCAST, id, count, dtype, root=root, **options)

    def send_recv(
        self, id: int, count: int, dtype: DType, *, root: int, peer: int, **options: Unpack[Options]
    ) -> Collective:
        """Registers a send of ``count`` elements from the root to the peer, on these two ranks.

        The root runs it with ``send``, the peer with ``recv``.
        """
        return self.register(Kind.SEND_RECV, id, count, dtype, root=root, peer=peer, **options)

    def all_to_all(
        self, id: int, count: int, dtype: DType, **options: Unpack[Options]
    ) -> Collective:
        """Registers an all-to-all of ``count`` elements from each rank to each rank."""
        return self.register(Kind.ALL_TO_ALL, id, count, dtype, **options)

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
        """Registers an all-to-all of uneven parts, with a count for each member of the group.

        A rank's send count for a peer equals the peer's receive count for that rank. Displacements
        are in elements from the start of the array; without them the parts are contiguous.
        """
        parts = Parts(send_counts, recv_counts, send_displacements, recv_displacements)
        shape = self._shape(Kind.ALL_TO_ALL_V, 0, dtype, RedOp.SUM, group, parts=parts)
        return self._register(id, shape, group, priority)

    def gather(
        self, id: int, count: int, dtype: DType, *, root: int = 0, **options: Unpack[Options]
    ) -> Collective:
        """Registers a gather of ``count`` elements from each rank to the root."""
        return self.register(Kind.GATHER, id, count, dtype, root=root, **options)

    def scatter(
        self, id: int, count: int, dtype: DType, *, root: int = 0, **options: Unpack[Options]
    ) -> Collective:
        """Registers a scatter of ``count`` elements to each rank from the root."""
        return self.register(Kind.SCATTER, id, count, dtype, root=root, **options)

    def barrier(self, id: int, **options: Unpack[Options]) -> Collective:
        """Registers a barrier: a run ends when every member has submitted it. It has no arrays."""
        return self.register(Kind.BARRIER, id, 0, DType.INT8, **options)

    def communicator(
        self,
        key: int,
        *,
        group: Optional[Group] = None,
        priority: int = 0,
        cached_collectives: int = 0,
        cached_pairs: int = 0,
    ) -> Communicator:
        """Creates a communicator, whose calls match by their order and need no ids. Never waits.

        All members pass the same ``key``. Two communicators with a common member need different
        keys, even if one has been destroyed.
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
        """A file descriptor that is readable after a run has ended. Poll it, but never close it.

        Awaiting a run reads it too.
        """
        fd = ctypes.c_int()
        self._state.call(lib.rondo_event_fd, "event_fd", byref(fd))
        return fd.value

    def counters(self) -> Counters:
        """What this rank has done so far."""
        native = _native.Counters()
        self._state.call(lib.rondo_counters, "counters", byref(native))
        return Counters(**_native.values_of(native))

    def transport(self, rank: int) -> Tuple[Optional[Transport], str]:
        """The transport to ``rank``, ``None`` if it is not known yet, and why it was chosen."""
        how, why = ctypes.c_int(), _native.reason_buffer()
        state = self._state.check_open("transport")
        status = lib.rondo_transport(state.handle, rank, byref(how), why, len(why))
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
            status = call(state.handle, slice_ns, ranks, self.rank_count, byref(count))
            if status != Status.ERR_TIMEOUT:
                break
        listed = ", ".join(str(rank) for rank in ranks[: count.value])
        check(status, f"{name}: ranks {listed}" if listed else name)

    def synchronize(self, timeout: Optional[float] = None) -> None:
        """Waits until the daemon has left the device, as cudaDeviceSynchronize would."""
        self._state.call(lib.rondo_device_synchronize, "synchronize", nanoseconds(timeout))

    # ---- members that change

    def grow(
        self, newcomers: Optional[int] = None, *, id: Optional[bytes] = None, timeout: float = 60.0
    ) -> Optional["Context"]:
        """Votes for a new job of all ranks that are left, and of newcomers: see docs/elastic.md.

        All ranks that are left call it with the same ``newcomers``: how many, or ``None`` for all
        that wait. Only the rank whose process has made it passes the ``id`` of ``grow_listen``.
        Returns this rank's context in the new job; or ``None`` if all were asked for and none
        waits, or there is room for none. This context goes on: close it when its runs are no longer
        needed. The call waits at most ``timeout`` seconds, and handles no signals meanwhile.
        MismatchError: the votes differ; FullError, PeerError: the new job would have more ranks
        than ``most_ranks``, or fewer than ``least_ranks``.
        """
        if newcomers is not None and not 1 <= newcomers < _native.ALL_PENDING:
            raise InvalidError(f"grow: {newcomers} newcomers")
        number = _native.ALL_PENDING if newcomers is None else newcomers
        native = byref(_native_id(id, "grow")) if id is not None else None
        return self._vote(lib.rondo_grow, "grow", (native, number), timeout)

    def shrink(self, excluded: Sequence[int] = (), *, timeout: float = 60.0) -> "Context":
        """Votes for a new job of all ranks that are left, except the ``excluded`` ones.

        All others call it with the same ``excluded``. The rest is as in ``grow``.
        """
        if any(not 0 <= rank < 2**32 for rank in excluded):
            raise InvalidError(f"shrink: a rank of {list(excluded)} is out of range")
        ranks = (ctypes.c_uint32 * len(excluded))(*excluded)
        next = self._vote(lib.rondo_shrink, "shrink", (ranks, len(ranks)), timeout)
        assert next is not None  # it does not end with IN_PROGRESS
        return next

    def measure_links(self, timeout: float = 60.0) -> Links:
        """Measures the links between all ranks that are left, which all call it.

        Make a ``group`` of the ranks in the order of the result: its rings avoid slow links. The
        call waits at most ``timeout`` seconds, and handles no signals meanwhile.
        """
        ranks = (ctypes.c_uint32 * self.rank_count)()
        rates = (ctypes.c_uint64 * self.rank_count**2)()
        native = _native.Links(ctypes.sizeof(_native.Links), _native.LINKS_VERSION, len(ranks))
        endpoints = (ctypes.c_uint32 * self.rank_count**2)()
        native.ranks, native.rates, native.endpoints = ranks, rates, endpoints
        state, why = self._state.check_open("measure_links"), _native.reason_buffer()
        status = lib.rondo_links_measure(state.handle, byref(native), nanoseconds(timeout), why)
        check_reason(status, "measure_links", why)
        count = native.count

        def rows(matrix: Any) -> List[List[int]]:
            return [list(matrix[i * count : (i + 1) * count]) for i in range(count)]

        rings = native.ring_rate, native.plain_ring_rate
        return Links(list(ranks[:count]), rows(rates), rows(endpoints), *rings)

    def _vote(
        self, call: Any, name: str, ballot: Tuple[Any, Any], timeout: float
    ) -> Optional["Context"]:
        handle, why = _native.Handle(), _native.reason_buffer()
        state = self._state.check_open(name)
        status = call(state.handle, *ballot, nanoseconds(timeout), byref(handle), why)
        if status == Status.IN_PROGRESS:  # grow: no newcomer waits
            return None
        check_reason(status, name, why)
        next = Context.__new__(Context)
        next._begin(handle, self.report_on_timeout)
        return next

    # ---- the end

    def abort(self) -> None:
        """Ends every outstanding run of this rank, and of its peers in the same collectives."""
        self._state.call(lib.rondo_abort, "abort")

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

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, kind: Optional[type], error: object, trace: object) -> None:
        self.close(abort=kind is not None)

    def __repr__(self) -> str:
        closed = ", closed" if self.closed else ""
        return f"<rondo.Context rank {self.rank} of {self.rank_count}{closed}>"
