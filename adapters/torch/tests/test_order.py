"""Calls in different orders on different ranks, on several groups and from several threads."""

from __future__ import annotations

import random
import threading
from typing import Any, Callable, List

import pytest
import torch
import torch.distributed as dist
from ranks import BACKEND, LONG_S, on_each_rank, on_ranks, take_one_core

if BACKEND == "rondo":
    import rondo_torch


def in_threads(*programs: Callable[[], None]) -> None:
    """Runs each program in a thread, and raises the first exception."""
    errors: List[BaseException] = []

    def main(program: Callable[[], None]) -> None:
        try:
            program()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=main, args=(one,), daemon=True) for one in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


def test_groups_may_be_used_in_another_order_on_each_rank() -> None:
    ranks, group_count, rounds = 4, 8, 10

    def program(rank: int) -> None:
        order = random.Random(rank)
        groups = [dist.new_group() for _ in range(group_count)]
        for turn in range(rounds):
            tensors = [torch.full((64 << i,), float(rank + i + turn)) for i in range(group_count)]
            works = [
                dist.all_reduce(tensors[i], group=groups[i], async_op=True)
                for i in order.sample(range(group_count), group_count)
            ]
            for work in works:
                work.wait()
            for i, tensor in enumerate(tensors):
                assert (tensor == 6 + ranks * (i + turn)).all(), (turn, i)

    on_ranks(ranks, program)


@on_each_rank(2)
def test_asking_for_a_future_waits_for_no_late_rank(rank: int) -> None:
    """Also if get_future works for the daemon, because no core is free."""
    take_one_core(rank)
    late, early = dist.new_group(), dist.new_group()
    for turn in range(20):
        first, second = torch.full((1 << 18,), float(rank + turn)), torch.ones(1000)
        if rank == 0:
            future = dist.all_reduce(first, group=late, async_op=True).get_future()
            dist.all_reduce(second, group=early)
        else:
            dist.all_reduce(second, group=early)
            future = dist.all_reduce(first, group=late, async_op=True).get_future()
        future.wait()
        assert (first == 1 + 2 * turn).all() and (second == 2).all(), turn


def test_groups_that_overlap_in_a_circle() -> None:
    """The dining philosophers: each rank shares a group with each of its two neighbours."""
    ranks = 4

    def program(rank: int) -> None:
        groups = [dist.new_group([r, (r + 1) % ranks]) for r in range(ranks)]
        right, left = groups[rank], groups[(rank - 1) % ranks]
        for turn in range(50):
            with_right = torch.full((5000,), float(rank + turn))
            with_left = with_right.clone()
            works = [
                dist.all_reduce(with_right, group=right, async_op=True),
                dist.all_reduce(with_left, group=left, async_op=True),
            ]
            for work in works:
                work.wait()
            assert (with_right == rank + (rank + 1) % ranks + 2 * turn).all()
            assert (with_left == rank + (rank - 1) % ranks + 2 * turn).all()

    on_ranks(ranks, program)


@on_each_rank(2)
def test_threads_may_each_have_a_group(rank: int) -> None:
    groups = [dist.new_group() for _ in range(4)]

    def calls(number: int) -> None:
        for turn in range(50):
            tensor = torch.full((1000 * (number + 1),), float(rank + number + turn))
            dist.all_reduce(tensor, group=groups[number])  # waits
            assert (tensor == 1 + 2 * (number + turn)).all()

    in_threads(*[lambda number=number: calls(number) for number in range(4)])


@on_each_rank(2)
def test_sends_and_receives_do_not_wait_for_collectives(rank: int) -> None:
    total, message = torch.full((1000,), float(rank)), torch.full((1000,), 7.0)
    if rank == 0:
        message_work: Any = dist.isend(message, 1)
        work = dist.all_reduce(total, async_op=True)
    else:
        message.zero_()
        work = dist.all_reduce(total, async_op=True)
        message_work = dist.irecv(message, 0)
    work.wait()
    message_work.wait()
    assert (total == 1).all() and (message == 7).all()


def test_many_outstanding_calls_of_many_groups_need_no_thread_each() -> None:
    """More calls are outstanding than a thread pool has threads; the peers call in other orders."""
    groups_count = 24

    def program(rank: int) -> None:
        groups = [dist.new_group() for _ in range(groups_count)]
        tensors = [torch.full((10,), float(i + rank)) for i in range(groups_count)]
        order = range(groups_count) if rank == 0 else range(groups_count - 1, -1, -1)
        works = [dist.all_reduce(tensors[i], group=groups[i], async_op=True) for i in order]
        for work in works:
            work.wait()
        assert all((one == 2 * i + 1).all() for i, one in enumerate(tensors))

    on_ranks(2, program)


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_mixture_of_operations_in_random_order_over_groups(ranks: int) -> None:
    def start(kind: int, group: Any, value: float) -> Any:
        mine = torch.full((500,), value)
        if kind == 0:
            return mine, dist.all_reduce(mine, group=group, async_op=True)
        if kind == 1:
            whole = torch.empty(500 * ranks)
            return whole, dist.all_gather_into_tensor(whole, mine, group=group, async_op=True)
        if kind == 2:
            part = torch.empty(500)
            whole = torch.full((500 * ranks,), value)
            return part, dist.reduce_scatter_tensor(part, whole, group=group, async_op=True)
        return mine, dist.broadcast(mine, 0, group=group, async_op=True)

    def program(rank: int) -> None:
        order = random.Random(100 + rank)
        groups = [dist.new_group() for _ in range(12)]
        total = ranks * (ranks - 1) / 2
        for turn in range(10):
            chosen = order.sample(range(len(groups)), len(groups))
            started = {i: start(i % 4, groups[i], float(rank)) for i in chosen}
            for i, (out, work) in started.items():
                work.wait()
                if i % 4 == 1:
                    expected = torch.arange(ranks, dtype=torch.float32).repeat_interleave(500)
                else:
                    expected = torch.full((500,), 0.0 if i % 4 == 3 else total)
                assert torch.equal(out, expected), (turn, i)

    on_ranks(ranks, program)


@pytest.mark.parametrize("ranks", [2, 4])
def test_names_match_in_any_order_inside_one_group(ranks: int) -> None:
    def program(rank: int) -> None:
        order = random.Random(rank)
        count = 20
        for turn in range(10):
            tensors = [torch.full((16 + 100 * i,), float(rank + i + turn)) for i in range(count)]
            works = []
            for i in order.sample(range(count), count):
                with rondo_torch.named(f"tensor {i}"):
                    works.append(dist.all_reduce(tensors[i], async_op=True))
            total = torch.tensor([1.0])
            dist.all_reduce(total)  # without a name: the named operations do not wait for it
            for work in works:
                work.wait()
            assert total.item() == ranks
            for i, tensor in enumerate(tensors):
                assert (tensor == ranks * (ranks - 1) / 2 + ranks * (i + turn)).all(), (turn, i)

    on_ranks(ranks, program)


@on_each_rank(2)
def test_operations_of_one_name_match_by_their_order(rank: int) -> None:
    first, second = torch.full((5,), 1.0), torch.full((9,), 2.0)
    with rondo_torch.named("both"):
        works = [dist.all_reduce(first, async_op=True), dist.all_reduce(second, async_op=True)]
    for work in reversed(works):
        work.wait()
    assert first.tolist() == [2.0] * 5 and second.tolist() == [4.0] * 9


@on_each_rank(2)
def test_names_belong_to_the_thread_that_gives_them_and_nest(rank: int) -> None:
    tensors = {name: torch.full((8,), 1.0) for name in ("left", "right", "inner", "none")}
    works: List[Any] = []

    def issue(name: str) -> None:
        works.append(dist.all_reduce(tensors[name], async_op=True))

    def left() -> None:
        with rondo_torch.named("left"):
            with rondo_torch.named("inner"):
                in_threads(lambda: issue("none"))  # another thread has no name
                issue("inner")
            issue("left")

    def right() -> None:
        with rondo_torch.named("right"):
            issue("right")

    for one in (left, right) if rank == 0 else (right, left):
        in_threads(one)
    for work in works:
        work.wait()
    assert all(one.tolist() == [2.0] * 8 for one in tensors.values())


@on_each_rank(2)
def test_threads_that_name_their_calls_may_share_a_group(rank: int) -> None:
    def calls(number: int) -> None:
        for turn in range(50):
            tensor = torch.full((100 * (number + 1),), float(rank + number + turn))
            with rondo_torch.named(f"thread {number}"):
                dist.all_reduce(tensor)
            assert (tensor == 1 + 2 * (number + turn)).all()

    in_threads(*[lambda number=number: calls(number) for number in range(4)])


def test_a_name_is_not_empty() -> None:
    with pytest.raises(ValueError), rondo_torch.named(""):
        pass
