"""Rondo: collectives that cannot deadlock on the order of calls.

    job = rondo.unique_id()                                   # the same for all ranks
    with rondo.Context(job, rank=r, rank_count=n) as ctx:     # waits for no other rank
        gradients = ctx.all_reduce(1, 1000, rondo.DType.FLOAT32)
        run = gradients.run(send, recv)                       # in any order, from any thread
        run.wait(timeout=10)                                  # or: await run
        comm = ctx.communicator(key=1)                        # without ids: calls match by order
        comm.all_reduce(send, recv).wait(timeout=10)

Arrays are NumPy's, or anything else's that has the buffer protocol or DLPack; nothing is copied.
"""

from ._buffers import Typed, as_dtype
from ._comm import Communicator, CommunicatorCounters
from ._core import (
    Collective,
    Context,
    Counters,
    Group,
    StuckReport,
    StuckRun,
    Tuning,
    unique_id,
    unique_id_listen,
    version,
)
from ._enums import Backend, BudgetPolicy, DType, Kind, OrderPolicy, RedOp, RunState, Status, Transport
from ._errors import (
    AbortedError,
    BusyError,
    ClosedError,
    ExistsError,
    FullError,
    InternalError,
    InvalidError,
    MismatchError,
    NoMemoryError,
    PeerError,
    RondoError,
    SystemRefusedError,
    TimeoutError,
    UnknownError,
    UnsupportedError,
)
from ._runs import Description, Run
from ._state import Callback

__version__ = "{}.{}.{}".format(*version())

__all__ = [
    "AbortedError",
    "Backend",
    "BudgetPolicy",
    "BusyError",
    "Callback",
    "ClosedError",
    "Collective",
    "Communicator",
    "CommunicatorCounters",
    "Context",
    "Counters",
    "DType",
    "Description",
    "ExistsError",
    "FullError",
    "Group",
    "InternalError",
    "InvalidError",
    "Kind",
    "MismatchError",
    "NoMemoryError",
    "OrderPolicy",
    "PeerError",
    "RedOp",
    "RondoError",
    "Run",
    "RunState",
    "Status",
    "StuckReport",
    "StuckRun",
    "SystemRefusedError",
    "TimeoutError",
    "Transport",
    "Tuning",
    "Typed",
    "UnknownError",
    "UnsupportedError",
    "as_dtype",
    "unique_id",
    "unique_id_listen",
    "version",
]
