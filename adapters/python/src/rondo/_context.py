"""Contexts: what a rank registers, and its communicators."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Optional, Sequence, Tuple, TypedDict

from . import _native
from ._base import BaseContext
from ._collectives import Collective, Group
from ._comm import Communicator
from ._config import Tuning
from ._enums import Backend, BudgetPolicy, DType, Kind, OrderPolicy, RedOp, Transport
from ._errors import InvalidError, UnsupportedError
from ._shapes import Counts, Parts, Shape
from ._state import nanoseconds

if TYPE_CHECKING:
    from typing_extensions import Unpack  # of typing since Python 3.11


class Options(TypedDict, total=False):
    """What every registration takes: the ranks, by default all, and the priority."""

    group: Optional[Group]
    priority: int


class Context(BaseContext):
    """One rank of a job. Close it, or use it in a ``with``, which aborts it after an exception.

    ``id`` comes from ``unique_id`` and is equal on all ranks; without it the job has one rank.
    ``rank_count`` 0 takes the rank and the number of ranks from the launcher. A parameter of 0,
    ``None`` or "" takes its value from the environment, else the library's default; see
    docs/configuration.md. Times are in seconds. ``transport`` is the transport between processes;
    with NONE the library chooses. The ``options`` of a registration are ``group`` and ``priority``.
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
            raise InvalidError(
                "Context: rank or rank_count is negative, or interfaces is longer than 63"
            )
        config = _native.default_config()
        ctypes.memmove(
            config.id.bytes, id or bytes(_native.UNIQUE_ID_BYTES), _native.UNIQUE_ID_BYTES
        )
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
        config.report_on_timeout = 0  # the library sees slices of a wait; Run.wait reports itself
        super().__init__(config, report_on_timeout)

    def __enter__(self) -> "Context":
        return self

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
    ) -> Collective:
        """Registers a collective under ``id``. All ranks of the group pass equal arguments.

        Local; each rank may register in its own order. ``rondo.Kind`` explains ``count``. ``root``
        and ``peer`` are positions in the group. ``scalar`` is this rank's factor for PREMUL_SUM.
        """
        if kind == Kind.ALL_TO_ALL_V:
            raise UnsupportedError("register: register an all_to_all_v by Context.all_to_all_v")
        shape = self._shape(kind, count, dtype, op, group, root=root, peer=peer, scalar=scalar)
        return self._register(id, shape, group, priority)

    def _shape(
        self, kind: Kind, count: int, dtype: DType, op: RedOp, group: Optional[Group], **more: Any
    ) -> Shape:
        ranks = self._ranks_of(group, "register")
        position = ranks.index(self.rank) if self.rank in ranks else 0
        return Shape(kind, count, dtype, len(ranks), position, op, **more)

    def _register(self, id: int, shape: Shape, group: Optional[Group], priority: int) -> Collective:
        if not 0 <= id < 2**64:
            raise InvalidError(f"register: id {id} is out of range")
        desc = shape.desc()
        desc.id, desc.priority = id, priority
        if group is not None:
            desc.group = group._handle
        kept = shape.parts.fill(desc, shape.ranks) if shape.parts is not None else []
        coll = Collective(self, desc, shape)
        del kept  # the library has copied the counts
        return coll

    def all_reduce(
        self,
        id: int,
        count: int,
        dtype: DType,
        op: RedOp = RedOp.SUM,
        *,
        scalar: float = 1.0,
        **options: Unpack[Options],
    ) -> Collective:
        """Registers an all-reduce of ``count`` elements."""
        return self.register(Kind.ALL_REDUCE, id, count, dtype, op, scalar=scalar, **options)

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
