"""The process group for torchft: it goes on with the ranks that are left."""

from __future__ import annotations

import os
import signal
import threading
import time
from datetime import timedelta
from typing import Callable, Iterator

import pytest
import torch
import torch.distributed as dist
from ranks import BACKEND, LONG_S, on_ranks

if BACKEND != "rondo":
    pytest.skip("of this backend", allow_module_level=True)
pytest.importorskip("torchft", exc_type=ImportError)

import rondo_torch  # noqa: E402
from rondo_torch.torchft import ProcessGroupRondo  # noqa: E402

Address = Callable[[int], str]


@pytest.fixture()
def address() -> Iterator[Address]:
    """The address of a store, and of another part of it for each quorum."""
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    yield lambda quorum: f"localhost:{store.port}/quorum/{quorum}"


def group_make(address: str, rank: int, size: int) -> ProcessGroupRondo:
    group = ProcessGroupRondo(timeout=timedelta(seconds=LONG_S))
    group.configure(address, str(rank), rank, size, quorum_id=1)
    return group


def total(group: ProcessGroupRondo) -> float:
    """All-reduces a one of each rank."""
    tensor = torch.ones(1)
    group.allreduce([tensor], dist.AllreduceOptions()).wait()
    return tensor.item()


def test_it_has_reduce_scatter_and_all_to_all(address: Address) -> None:
    def program(rank: int) -> None:
        group = group_make(address(1), rank, 2)
        parts, part = [torch.full((3,), 1.0 + rank), torch.full((3,), 10.0)], torch.empty(3)
        group.reduce_scatter([part], [parts], dist.ReduceScatterOptions()).wait()
        assert part.tolist() == [3.0 if rank == 0 else 20.0] * 3
        got = torch.empty(4)
        mine = torch.full((4,), float(rank))
        group.alltoall_base(got, mine, [2, 2], [2, 2], dist.AllToAllOptions()).wait()
        assert got.tolist() == [0.0, 0.0, 1.0, 1.0]

    on_ranks(2, program, init=False)


def test_the_survivors_of_a_killed_rank_go_on(address: Address) -> None:
    def program(rank: int) -> None:
        group = group_make(address(1), rank, 3)
        assert total(group) == 3
        if rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        with pytest.raises(RuntimeError, match=r"rank.*\b2\b"):
            total(group)
        group.configure(address(2), str(rank), rank, 2, quorum_id=2)
        assert group.size() == 2
        assert total(group) == 2

    on_ranks(3, program, init=False, may_die=[2])


def test_a_rank_that_was_missing_joins_the_next_quorum(address: Address) -> None:
    def program(rank: int) -> None:
        group = ProcessGroupRondo(timeout=timedelta(seconds=LONG_S))
        if rank < 2:
            group.configure(address(1), str(rank), rank, 2, quorum_id=1)
            assert total(group) == 2
        group.configure(address(2), str(rank), rank, 3, quorum_id=2)
        assert total(group) == 3

    on_ranks(3, program, init=False)


def test_abort_ends_what_waits_for_another_rank(address: Address) -> None:
    def program(rank: int) -> None:
        group = group_make(address(1), rank, 2)
        assert total(group) == 2
        if rank == 0:
            threading.Timer(0.2, group.abort).start()
            began = time.monotonic()
            with pytest.raises(RuntimeError, match="abort"):
                total(group)
            assert time.monotonic() - began < LONG_S / 2
        group.configure(address(2), str(rank), rank, 2, quorum_id=2)
        assert total(group) == 2

    on_ranks(2, program, init=False)


def test_a_rank_that_does_not_come_ends_configure_in_time(address: Address) -> None:
    def program(rank: int) -> None:
        group = ProcessGroupRondo(timeout=timedelta(seconds=0.5))
        began = time.monotonic()
        with pytest.raises(RuntimeError):
            group.configure(address(1), "0", 0, 2)
            total(group)
        assert time.monotonic() - began < LONG_S / 2

    on_ranks(1, program, init=False)


def test_nothing_writes_to_a_tensor_after_its_wait_has_failed(address: Address) -> None:
    def program(rank: int) -> None:
        group = group_make(address(1), rank, 2)
        assert total(group) == 2
        store = dist.TCPStore("localhost", int(address(1).split(":")[1].split("/")[0]))
        if rank == 1:
            store.get("rank 0 has given up")
            with pytest.raises(RuntimeError, match="abort"):
                total(group)
            return
        tensor = torch.ones(1)
        work = group.allreduce([tensor], dist.AllreduceOptions())
        with pytest.raises(RuntimeError, match="timed out"):
            work.wait(timedelta(seconds=0.2))
        assert "timed out" in str(group.errored())
        with pytest.raises(RuntimeError, match="aborted.*timed out"):
            total(group)
        store.set("rank 0 has given up", "")
        time.sleep(0.2)
        assert tensor.item() == 1

    on_ranks(2, program, init=False)


def test_named_operations_have_no_order(address: Address) -> None:
    def program(rank: int) -> None:
        group = group_make(address(1), rank, 2)
        works, tensors = [], {}
        for name in ["a", "b", "c"] if rank == 0 else ["c", "a", "b"]:
            tensors[name] = torch.full((4,), float(ord(name)))
            with rondo_torch.named(name):
                works.append(group.allreduce([tensors[name]], dist.AllreduceOptions()))
        for work in works:
            work.wait()
        for name, tensor in tensors.items():
            assert tensor.tolist() == [2.0 * ord(name)] * 4

    on_ranks(2, program, init=False)


def test_its_ranks_are_not_those_of_the_default_group(address: Address) -> None:
    def program(rank: int) -> None:
        group = group_make(address(1), 1 - rank, 2)
        tensor = torch.full((1,), float(rank))
        group.broadcast_one(tensor, 0).wait()
        assert tensor.item() == 1
        half = dist.new_group([rank], use_local_synchronization=True)
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=half)
        assert tensor.item() == 1
        dist.all_reduce(tensor)
        assert tensor.item() == 2
        group.shutdown()
        dist.all_reduce(tensor)
        assert tensor.item() == 4

    on_ranks(2, program)
