"""The results of queries: ``describe``, ``report`` and ``counters``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional, TypedDict

__all__ = [
    "CollectiveCounters",
    "CommunicatorCounters",
    "Counters",
    "Description",
    "Links",
    "StateReport",
    "StuckReport",
    "StuckRun",
]


class Description(TypedDict):
    """What a collective is: the fields of its descriptor, and the ranks of its group."""

    id: int
    kind: str
    count: int
    dtype: str
    op: str
    root: int  # a position in ``ranks``; the sender of a send_recv
    peer: int  # a position in ``ranks``; the receiver of a send_recv
    ranks: List[int]


class StuckRun(TypedDict):
    """What one outstanding run waits for."""

    id: int
    communicator: Optional[int]  # the key of its communicator; None: a registered collective
    kind: str
    count: int
    dtype: str
    ranks: List[int]  # of its group; empty if the run has ended meanwhile
    run: int
    state: str
    block: int
    op: int
    peer: Optional[int]  # the rank whose data or space the run waits for, if known
    missing: int  # ranks that have not submitted the run
    missing_ranks: List[int]  # these ranks, and all ranks in other processes
    reason: str  # why the run will fail; empty if it will not
    waiting_ns: int


class StuckReport(TypedDict):
    """Which run waits for which rank: ``runs`` of this rank, and the ``text`` for the whole job."""

    rank: int
    rank_count: int
    outstanding: int  # may be more than ``runs`` lists
    runs: List[StuckRun]
    cycle_ranks: int  # ranks that wait for each other in a cycle; 0: there is none
    text: str


@dataclass(frozen=True)
class Counters:
    """Sums over a rank's life, except ``connector_bytes``, which is what is in use now."""

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


@dataclass(frozen=True)
class CollectiveCounters:
    """What the blocks of a rank have done with one collective since it was registered.

    ``fetches`` counts each run once for each block; ``queue_sum`` and ``queue_most`` are the sum
    and the greatest of the lengths of the block's task queue at these fetches. The ``waits`` say
    how often a block found the collective stuck, by what it waited for.
    """

    switches: int
    preemptions: int
    loads: int
    saves: int
    fetches: int
    queue_sum: int
    queue_most: int
    waits_data: int
    waits_room: int
    waits_start: int
    waits_readers: int
    waits_completion: int


@dataclass(frozen=True)
class CommunicatorCounters:
    """Sums over a communicator's life, except ``cached`` and ``parting``.

    ``cached`` and ``parting`` count collectives that are registered now; no later call uses the
    ``parting`` ones.
    """

    calls: int
    registrations: int
    cached: int
    parting: int


@dataclass(frozen=True)
class Links:
    """How fast data move between ranks, in bytes a second, from ``Context.measure_links``.

    ``ranks`` are in the order of the ring whose slowest link is fastest: ``ring_rate``.
    ``plain_ring_rate`` is that of the order of numbers. ``rates[i][j]`` is the rate from
    ``ranks[i]`` to ``ranks[j]``, 0 for ``i == j``. ``endpoints[i][j]`` is the number of connections
    over which these data go from now on, 0 if not over the network.
    """

    ranks: List[int]
    rates: List[List[int]]
    endpoints: List[List[int]]
    ring_rate: int
    plain_ring_rate: int


@dataclass(frozen=True)
class StateReport:
    """What one ``SharedState.sync`` has done on this rank.

    ``compared_blocks`` counts this rank's blocks of 1 MiB. ``source`` is the lowest rank whose
    content was chosen; ``senders`` counts the ranks that have sent to this one.
    """

    revision: int
    compared_blocks: int
    sent_bytes: int
    received_bytes: int
    source: int
    senders: int
