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
_state, _observe, _collectives, _comm, _context, _shared_state.
"""

from . import _enums, _errors, _reports
from ._buffers import Typed, as_dtype
from ._collectives import Collective, Group, Run
from ._comm import Communicator
from ._context import Context, Tuning, grow_close, grow_listen, join, pending
from ._context import unique_id, unique_id_listen, version
from ._enums import *  # noqa: F403
from ._errors import *  # noqa: F403
from ._reports import *  # noqa: F403
from ._shared_state import SharedState
from ._state import Callback

__version__ = "{}.{}.{}".format(*version())

__all__ = ["Callback", "Collective", "Communicator", "Context", "Group", "Run", "SharedState"]
__all__ += ["Tuning", "Typed", "as_dtype", "grow_close", "grow_listen", "join", "pending"]
__all__ += ["unique_id", "unique_id_listen", "version"]
__all__ += _enums.__all__
__all__ += _errors.__all__
__all__ += _reports.__all__
