"""A PyTorch backend whose operations cannot deadlock on their order.

    import torch.distributed as dist
    import rondo_torch

    dist.init_process_group("rondo")        # or "cpu:rondo,cuda:nccl"

Operations of one process group match by their order, as with every backend. Operations of different
groups do not wait for each other. If ranks issue operations of one group in different orders, name
the operations:

    with rondo_torch.named("layer 7"):
        work = dist.all_reduce(gradient, async_op=True)

Operations of one name match by their order. Operations of different names are independent.
"""

from __future__ import annotations

import atexit
import contextlib
import os
from typing import TYPE_CHECKING, Any, Iterator

import torch
import torch.distributed as dist

from . import _native

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Backend

__all__ = ["named", "register"]

# Streams that share a hardware queue wait for each other, so a stream that waits for an operation
# could hold up the stream that the operation needs. There are 8 queues if nothing is set, and
# PyTorch makes 32 streams at once. CUDA reads this when it starts.
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")


@contextlib.contextmanager
def named(name: str) -> Iterator[None]:
    """Names the operations that this thread issues inside the ``with``.

    They match operations of the same name, in each process group. A name keeps a communicator until
    its process group ends, so use the same names in every step.
    """
    if not name:
        raise ValueError("the name is empty")
    previous = _native.name_operations(name)
    try:
        yield
    finally:
        _native.name_operations(previous)


def _make(options: Any, _: object) -> "Backend":
    return _native.make(
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout,
        options.group_id,
        list(options.global_ranks_in_group),
    )


def _stream_handle(stream_id: int, device: int) -> int:
    """The handle of a CUDA stream. Called only if the C++ interface of PyTorch has none."""
    cuda = 1  # c10::DeviceType::CUDA
    make: Any = torch.cuda.Stream  # untyped
    stream = make(stream_id=stream_id, device_index=device, device_type=cuda)
    return int(stream.cuda_stream)


def register() -> None:
    """Registers the backend with torch.distributed. The import of this package calls it."""
    if not hasattr(dist.Backend, "RONDO"):
        dist.Backend.register_backend("rondo", _make, extended_api=True, devices=["cpu", "cuda"])


_native.set_handle_source(_stream_handle)
register()
# After the interpreter's exit no callback may run in it.
atexit.register(_native.abort_all)
