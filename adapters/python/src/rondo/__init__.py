"""Rondo: collectives that cannot deadlock on the order of calls.

    job = rondo.unique_id()                                   # the same on all ranks
    with rondo.Context(job, rank=r, rank_count=n) as ctx:     # waits for no other rank
        gradients = ctx.all_reduce(1, 1000, rondo.DType.FLOAT32)
        run = gradients.run(send, recv)                       # in any order, from any thread
        run.wait(timeout=10)                                  # or: await run
        comm = ctx.communicator(key=1)                        # without ids: calls match by order
        comm.all_reduce(send, recv).wait(timeout=10)

Arrays are those of NumPy or of any other package with the buffer protocol or DLPack. Nothing is
copied.

Order of the modules; each imports only earlier ones: _enums, _reports, _native, _errors, _buffers,
_shapes, _state, _observe, _base, _config, _runs, _collectives, _comm, _context.
"""

from ._buffers import Typed, as_dtype
from ._collectives import Collective, Group
from ._comm import Communicator
from ._config import Tuning, unique_id, unique_id_listen, version
from ._context import Context
from ._enums import (
    Backend,
    BudgetPolicy,
    DType,
    Kind,
    OrderPolicy,
    RedOp,
    RunState,
    Status,
    Transport,
)
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
from ._reports import CommunicatorCounters, Counters, Description, StuckReport, StuckRun
from ._runs import Run
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
