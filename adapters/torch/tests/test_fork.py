"""Forked workers, such as a DataLoader's, do not touch the process groups of their parent."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import tempfile
import traceback
from typing import Callable

import pytest
import torch
import torch.distributed as dist
from ranks import BACKEND, on_ranks

GUARD_S = 40  # then a hanging worker is killed

pytestmark = pytest.mark.skipif(BACKEND != "rondo", reason="other backends promise nothing")


def on_worker(work: Callable[[], object], *, exits: bool) -> str:
    """Runs ``work`` in a forked child, which must succeed, and returns its standard error.

    With ``exits`` the child releases its groups and calls the interpreter's exit functions.
    """
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            os.dup2(said.fileno(), 2)
            signal.alarm(GUARD_S)
            status = 1
            try:
                work()
                status = 0
            except BaseException:  # any exception ends the worker
                traceback.print_exc()
            if exits:
                dist.distributed_c10d.GroupMember.WORLD = None
                dist.distributed_c10d._world.pg_map.clear()
                atexit._run_exitfuncs()
            sys.stderr.flush()
            os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        text = said.read().decode()
        assert status == 0, f"{status}: {text}"
        return text


def test_workers_come_and_go_in_the_middle_of_operations() -> None:
    def program(rank: int) -> None:
        group = dist.new_group([0, 1])
        for step in range(8):
            data = torch.full((1000,), float(rank + step))
            works = [dist.all_reduce(data, async_op=True)]
            if step % 2 == rank:
                assert on_worker(lambda: torch.ones(10).sum(), exits=step % 4 < 2) == ""
            works.append(dist.all_reduce(torch.ones(10), group=group, async_op=True))
            for work in works:
                work.wait()
            assert data[0] == 2 * step + 1

    on_ranks(2, program)


def test_a_worker_is_refused_the_groups_of_its_rank() -> None:
    def program(rank: int) -> None:
        work = dist.all_reduce(torch.ones(10), async_op=True) if rank == 0 else None

        def call() -> None:
            for one in (lambda: dist.all_reduce(torch.ones(10)), dist.barrier, work and work.wait):
                if one is None:
                    continue
                with pytest.raises(RuntimeError, match="parent"):
                    one()
            dist.destroy_process_group()

        on_worker(call, exits=True)
        if work is None:
            dist.all_reduce(torch.ones(10))
        else:
            work.wait()
        dist.barrier()

    on_ranks(2, program)


def test_a_worker_has_a_group_of_its_own() -> None:
    def program(rank: int) -> None:
        work = dist.all_reduce(torch.ones(10), async_op=True)

        def have_group() -> None:
            dist.destroy_process_group()
            store = dist.HashStore()
            dist.init_process_group("rondo", store=store, rank=0, world_size=1)
            data = torch.ones(10)
            dist.all_reduce(data)
            assert data[0] == 1
            dist.destroy_process_group()

        on_worker(have_group, exits=True)
        work.wait()
        dist.barrier()

    on_ranks(2, program)
