"""A PyTorch backend whose operations cannot deadlock on their order.

    import torch.distributed as dist
    import rondo_torch

    dist.init_process_group("rondo")        # or "cpu:rondo,cuda:nccl"

Operations of one process group match by their order, as with every backend; those of different groups
do not wait for each other. Where ranks issue operations of one group in different orders, give
them names:

    with rondo_torch.named("layer 7"):
        work = dist.all_reduce(gradient, async_op=True)

Operations of the same name match by their order, those of different names not at all.
"""

from __future__ import annotations

import atexit
import contextlib
from typing import TYPE_CHECKING, Any, Iterator

import torch
import torch.distributed as dist

from . import _native

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Backend

__all__ = ["named", "register"]


@contextlib.contextmanager
def named(name: str) -> Iterator[None]:
    """Operations that this thread issues inside match those of the same name, in each group for itself.

    A name costs a communicator for as long as its process group is there: use the same names again in
    every step.
    """
    if not name:
        raise ValueError("a name may not be empty")
    before = _native.name_operations(name)
    try:
        yield
    finally:
        _native.name_operations(before)


def _make(options: Any, _: object) -> "Backend":
    return _native.make(
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout,
        options.group_id,
        list(options.global_ranks_in_group),
    )


def _handle_of_stream(stream_id: int, device: int) -> int:
    """What the driver knows a CUDA stream by. Asked for only where PyTorch's C++ interface cannot tell."""
    cuda = 1  # c10::DeviceType::CUDA
    make: Any = torch.cuda.Stream  # untyped
    stream = make(stream_id=stream_id, device_index=device, device_type=cuda)
    return int(stream.cuda_stream)


def register() -> None:
    """Makes the backend known to torch.distributed. Importing the package does it."""
    if not hasattr(dist.Backend, "RONDO"):
        dist.Backend.register_backend("rondo", _make, extended_api=True, devices=["cpu", "cuda"])


_native.set_handle_source(_handle_of_stream)
register()
# What is left when the interpreter ends must not call into it any more.
atexit.register(_native.abort_all)
