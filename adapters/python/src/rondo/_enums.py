"""The enumerations of include/rondo/status.h and types.h. A test compares them with the headers."""

from __future__ import annotations

import enum

__all__ = ["Backend", "BudgetPolicy", "DType", "Kind", "OnLoss", "OrderPolicy"]
__all__ += ["Quantisation", "RedOp"]
__all__ += ["RunState", "StateStrategy", "Status", "Transport"]


class Status(enum.IntEnum):
    """How a call or a run ended. 0 is success."""

    SUCCESS = 0
    ERR_INVALID = 1
    ERR_NO_MEMORY = 2
    ERR_FULL = 3
    ERR_UNKNOWN = 4
    ERR_EXISTS = 5
    ERR_BUSY = 6
    ERR_TIMEOUT = 7
    ERR_MISMATCH = 8
    ERR_ABORTED = 9
    ERR_PEER = 10
    ERR_CLOSED = 11
    ERR_UNSUPPORTED = 12
    ERR_SYSTEM = 13
    ERR_INTERNAL = 14
    IN_PROGRESS = 15


class DType(enum.IntEnum):
    """Element types, with NCCL's numbers."""

    INT8 = 0
    UINT8 = 1
    INT32 = 2
    UINT32 = 3
    INT64 = 4
    UINT64 = 5
    FLOAT16 = 6
    FLOAT32 = 7
    FLOAT64 = 8
    BFLOAT16 = 9
    FLOAT8_E4M3 = 10
    FLOAT8_E5M2 = 11

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)[self]


class RedOp(enum.IntEnum):
    """Reductions, with NCCL's numbers."""

    SUM = 0
    PROD = 1
    MAX = 2
    MIN = 3
    AVG = 4
    PREMUL_SUM = 5


class Kind(enum.IntEnum):
    """Kinds of collective. ``count`` is a number of elements:

    - ALL_REDUCE, REDUCE, BROADCAST: of each buffer;
    - ALL_GATHER, GATHER: of the send buffer; the receive buffer holds ``count`` for each rank;
    - REDUCE_SCATTER, SCATTER: of the receive buffer; the send buffer holds ``count`` for each rank;
    - ALL_TO_ALL: for each rank, in both buffers;
    - SEND_RECV: from the root to the peer.

    ALL_TO_ALL_V has a count for each pair of ranks. BARRIER has no buffers.
    """

    ALL_REDUCE = 0
    ALL_GATHER = 1
    REDUCE_SCATTER = 2
    REDUCE = 3
    BROADCAST = 4
    SEND_RECV = 5
    ALL_TO_ALL = 6
    ALL_TO_ALL_V = 7
    GATHER = 8
    SCATTER = 9
    BARRIER = 10


class Backend(enum.IntEnum):
    """Where a rank's daemon runs."""

    HOST = 0
    CUDA = 1


class OrderPolicy(enum.IntEnum):
    """The order in which a daemon runs collectives."""

    FIFO = 0
    PRIORITY = 1


class BudgetPolicy(enum.IntEnum):
    """How long a stuck collective spins. NEVER never preempts: it deadlocks, for comparison."""

    ADAPTIVE = 0
    FIXED = 1
    NEVER = 2


class RunState(enum.IntEnum):
    """What an outstanding run is doing."""

    WAITING = 0
    QUEUED = 1
    EXECUTING = 2


class Transport(enum.IntEnum):
    """How data moves between two ranks."""

    NONE = 0
    LOCAL = 1
    SHARED_MEMORY = 2
    UCX = 3
    NCCL = 4


class OnLoss(enum.IntEnum):
    """What becomes of a run that meets the death of a rank.

    FAIL: it raises PeerError. RETRY: the ranks that are left do it again; for ALL_REDUCE, REDUCE
    and BROADCAST.
    """

    FAIL = 0
    RETRY = 1


class Quantisation(enum.IntEnum):
    """What stands for an element in the messages of an all-reduce of FLOAT32 by SUM or AVG.

    NONE: the element. INT8, FLOAT8_E4M3: a code of 8 bits, with a scale for each 256 of them.
    """

    NONE = 0
    INT8 = 1
    FLOAT8_E4M3 = 2


class StateStrategy(enum.IntEnum):
    """Whose content all ranks have after ``SharedState.sync``.

    MOST_FREQUENT: that of most ranks. SEND_ONLY: this rank's. RECEIVE_ONLY: another rank's.
    """

    MOST_FREQUENT = 0
    SEND_ONLY = 1
    RECEIVE_ONLY = 2
