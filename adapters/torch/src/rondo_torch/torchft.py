"""A process group for torchft, which goes on with the ranks that are left when others fail.

    from torchft import Manager
    from rondo_torch.torchft import ProcessGroupRondo

    manager = Manager(pg=ProcessGroupRondo(timeout=timedelta(seconds=10)), ...)

Each quorum of torchft is a new job of Rondo. ``configure`` joins it, and ends the operations of the
quorum before.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import Generator, Optional

import torch
from torch._C._distributed_c10d import ProcessGroup as BaseProcessGroup
from torch._C._distributed_c10d import Store, Work
from torchft.process_group import (  # type: ignore[import-untyped]
    ProcessGroup,
    ProcessGroupWrapper,
)

from . import _native

__all__ = ["ProcessGroupRondo"]


class _GroupWork(Work):
    """An operation whose failed wait aborts its group.

    The program takes its tensors back after a failed wait, so nothing may write to them any more.
    """

    def __init__(self, group: "ProcessGroupRondo", work: Work) -> None:
        super().__init__()
        self._group = group
        self._work = work

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        try:
            return self._work.wait(timeout) if timeout else self._work.wait()
        except RuntimeError as error:
            self._group._fail(error)
            raise

    def is_completed(self) -> bool:
        return self._work.is_completed()

    def synchronize(self) -> None:
        self._work.synchronize()

    def get_future(self) -> "torch.futures.Future[object]":
        return self._work.get_future()


class ProcessGroupRondo(ProcessGroupWrapper):  # type: ignore[misc]
    """A process group of torchft whose operations cannot deadlock on their order.

    ``timeout`` bounds how long ``configure`` waits for rank 0, and each operation. ``configure``
    does not wait for the other ranks: a rank that does not come ends the first operation. After a
    wait that failed, operations raise until the next ``configure``. Operations take
    ``rondo_torch.named`` as in other groups.
    """

    def __init__(self, timeout: timedelta = timedelta(seconds=60)) -> None:
        super().__init__(timeout)
        self._errored: Optional[Exception] = None

    def _create_pg(self, store: Store, rank: int, world_size: int) -> BaseProcessGroup:
        self._errored = None
        backend = _native.make(
            store,
            rank,
            world_size,
            self._timeout,
            f"torchft quorum {self._quorum_id}",
            list(range(world_size)),
            is_separate=True,
        )
        group = BaseProcessGroup(store, rank, world_size)
        group._set_default_backend(ProcessGroup.BackendType.CUSTOM)
        devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
        for device in devices:
            group._register_backend(torch.device(device), ProcessGroup.BackendType.CUSTOM, backend)
        return group

    def _fail(self, error: Exception) -> None:
        if self._errored is None:
            self._errored = RuntimeError(f"rondo: the process group was aborted: {error}")
        group = self._pg
        if group is not None:
            group.abort()

    def _wrap_work(self, work: Work, opts: object) -> Work:
        return _GroupWork(self, work)

    @contextmanager
    def _run_context(self) -> Generator[None, None, None]:
        if self._errored is not None:
            raise RuntimeError(str(self._errored)) from self._errored
        yield

    def abort(self, errored: bool = True) -> None:
        if errored and self._errored is None:
            self._errored = RuntimeError("rondo: the process group was aborted")
        super().abort(errored)

    def errored(self) -> Optional[Exception]:
        return self._errored

    def getBackendName(self) -> str:
        return "torchft-rondo"
