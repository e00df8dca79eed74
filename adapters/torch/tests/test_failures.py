"""Failures end in time, on every rank, and name their reason and the ranks."""

from __future__ import annotations

import os
import re
import signal
import time
from datetime import timedelta
from typing import Callable, List

import pytest
import torch
import torch.distributed as dist
from ranks import HAS_MONITORED_BARRIER, on_each_rank, on_ranks


def error_of(call: Callable[[], object]) -> str:
    """The error text of a call that must fail."""
    try:
        call()
    except RuntimeError as error:
        return str(error)
    raise AssertionError("the call did not fail")


def names_rank(text: str, rank: int) -> bool:
    return re.search(rf"\brank(s)?\b[^.\n]*\b{rank}\b", text, re.IGNORECASE) is not None


@pytest.mark.parametrize(
    "calls, words",
    [
        (
            [lambda: dist.all_reduce(torch.ones(100)), lambda: dist.all_reduce(torch.ones(200))],
            [r"all.?reduce", r"100", r"200"],
        ),
        (
            [lambda: dist.all_reduce(torch.ones(64)), lambda: dist.broadcast(torch.ones(64), 0)],
            [r"all.?reduce", r"broadcast"],
        ),
        (
            [
                lambda: dist.all_reduce(torch.ones(64)),
                lambda: dist.all_reduce(torch.ones(64, dtype=torch.int32)),
            ],
            [r"float", r"int"],
        ),
        (
            [
                lambda: dist.all_reduce(torch.ones(64)),
                lambda: dist.all_reduce(torch.ones(64), dist.ReduceOp.MAX),
            ],
            [r"sum", r"max"],
        ),
        (
            [lambda: dist.broadcast(torch.ones(64), 0), lambda: dist.broadcast(torch.ones(64), 1)],
            [r"broadcast", r"root"],
        ),
    ],
    ids=["count", "kind", "type", "reduction", "root"],
)
def test_calls_that_differ_name_each_other(
    calls: List[Callable[[], object]], words: List[str]
) -> None:
    def program(rank: int) -> str:
        return error_of(calls[rank])

    for text in on_ranks(2, program):
        for word in words:
            assert re.search(word, text, re.IGNORECASE), text


def test_a_call_that_one_rank_does_not_make_says_which() -> None:
    def program(rank: int) -> str:
        dist.all_reduce(torch.ones(1))
        if rank == 2:
            # Waits, and calls no collective.
            dist.distributed_c10d._get_default_store().get("enough")
            return ""
        text = error_of(lambda: dist.all_reduce(torch.ones(10)))
        dist.distributed_c10d._get_default_store().set("enough", "1")
        return text

    for text in on_ranks(3, program, timeout_s=4)[:2]:
        assert names_rank(text, 2), text


def test_a_work_has_a_timeout_of_its_own() -> None:
    def program(rank: int) -> str:
        store = dist.distributed_c10d._get_default_store()
        if rank == 1:
            store.get("enough")
            return ""
        work = dist.all_reduce(torch.ones(10), async_op=True)
        began = time.monotonic()
        text = error_of(lambda: work.wait(timedelta(milliseconds=200)))
        store.set("enough", "1")
        assert time.monotonic() - began < 60  # not the timeout of the group
        return text

    assert names_rank(on_ranks(2, program, timeout_s=100)[0], 1)


@pytest.mark.skipif(not HAS_MONITORED_BARRIER, reason="PyTorch allows it for Gloo alone")
@pytest.mark.parametrize("wait_all", [False, True])
def test_a_monitored_barrier_names_who_is_missing(wait_all: bool) -> None:
    def program(rank: int) -> str:
        if rank in (1, 3):
            dist.distributed_c10d._get_default_store().get("enough")
            return ""
        text = error_of(
            lambda: dist.monitored_barrier(timeout=timedelta(seconds=3), wait_all_ranks=wait_all)
        )
        if rank == 0:
            dist.distributed_c10d._get_default_store().set("enough", "1")
        return text

    text = on_ranks(4, program)[0]
    assert names_rank(text, 1), text
    assert not wait_all or names_rank(text, 3), text


def test_a_rank_that_is_killed_is_named_by_the_others() -> None:
    def program(rank: int) -> str:
        dist.all_reduce(torch.ones(1))
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return error_of(lambda: dist.all_reduce(torch.ones(1000)))

    results = on_ranks(3, program, timeout_s=20, may_die=[1])
    for rank in (0, 2):
        assert names_rank(results[rank], 1), results[rank]


def test_a_rank_that_ends_while_others_wait_is_named() -> None:
    """It closes its context, so its peers fail at once, not at the timeout."""

    def program(rank: int) -> str:
        dist.all_reduce(torch.ones(1))
        if rank == 1:
            return ""
        return error_of(lambda: dist.all_reduce(torch.ones(1000)))

    results = on_ranks(2, program, timeout_s=20)
    assert names_rank(results[0], 1), results[0]


@on_each_rank(2)
def test_what_a_group_cannot_do_leaves_it_as_it_was(rank: int) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        dist.all_gather_into_tensor(torch.empty(3), torch.ones(2))
    with pytest.raises((RuntimeError, ValueError)):
        dist.reduce_scatter_tensor(torch.empty(2), torch.ones(3))
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        dist.all_to_all_single(torch.empty(4), torch.ones(4), [1, 1], [2, 2])
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        dist.all_reduce(torch.ones(4), dist.ReduceOp.BAND)  # of floating point
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == 2


@on_each_rank(2)
def test_a_tensor_with_gaps_is_reduced_or_refused(rank: int) -> None:
    whole = torch.arange(16.0).reshape(4, 4)
    try:
        dist.all_reduce(whole.t()[1:3])
    except (RuntimeError, ValueError):
        assert torch.equal(whole, torch.arange(16.0).reshape(4, 4))
        return
    expected = torch.arange(16.0).reshape(4, 4)
    expected[:, 1:3] *= 2
    assert torch.equal(whole, expected)


@on_each_rank(2)
def test_a_new_group_works_after_another_has_failed(rank: int) -> None:
    group, other = dist.new_group(), dist.new_group()
    error_of(lambda: dist.all_reduce(torch.ones(100 + rank), group=group))
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=other)
    later = dist.new_group()
    dist.all_reduce(tensor, group=later)
    assert tensor.item() == 4


def test_what_fails_fails_in_the_future_too() -> None:
    def program(rank: int) -> str:
        work = dist.all_reduce(torch.ones(100 + rank), async_op=True)
        return error_of(lambda: work.get_future().wait())

    for text in on_ranks(2, program):
        assert "100" in text and "101" in text, text
