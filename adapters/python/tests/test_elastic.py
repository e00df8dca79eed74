"""Jobs whose members change, runs that survive a death, and state that all members share."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from typing import Any, Callable, List, Tuple

import numpy as np
import pytest
import rondo
from conftest import LONG_S, Job, on_each
from rondo import DType, OnLoss, RedOp, StateStrategy


def sum_of(ctx: rondo.Context, id: int = 1) -> int:
    """How many ranks take part."""
    one, out = np.ones(1, np.int32), np.zeros(1, np.int32)
    ctx.all_reduce(id, 1, DType.INT32).run(one, out).wait(LONG_S)
    return int(out[0])


def joined(id: bytes, use: Callable[[rondo.Context], None]) -> threading.Thread:
    """A thread that joins the job and uses its context."""

    def main() -> None:
        with rondo.join(id, LONG_S) as ctx:
            use(ctx)

    thread = threading.Thread(target=main, daemon=True)
    thread.start()
    return thread


def test_a_job_grows_and_shrinks() -> None:
    seen: List[Tuple[int, int, int]] = []

    def newcomer(ctx: rondo.Context) -> None:
        seen.append((ctx.rank, ctx.rank_count, sum_of(ctx)))
        ctx.wait_gone(LONG_S)

    with rondo.Context() as alone:
        id = rondo.grow_listen()
        assert rondo.pending(id) == 0
        assert alone.grow(id=id, timeout=LONG_S) is None
        thread = joined(id, newcomer)
        two = alone.grow(1, id=id, timeout=LONG_S)
        assert two is not None
        assert (two.rank, two.rank_count) == (0, 2)
        assert sum_of(two) == 2
        with two.shrink([1], timeout=LONG_S) as one:
            assert (one.rank, one.rank_count, sum_of(one)) == (0, 1, 1)
        two.close()
        thread.join(LONG_S)
        assert not thread.is_alive()
        assert seen == [(1, 2, 2)]
        assert sum_of(alone, 2) == 1  # the first job goes on
        rondo.grow_close(id)
        with pytest.raises(rondo.UnknownError):
            rondo.pending(id)


def test_a_job_keeps_its_least_and_greatest_number_of_ranks() -> None:
    refused: List[str] = []

    def expect_full(call: Callable[[], object]) -> None:
        with pytest.raises(rondo.FullError) as error:
            call()
        refused.append(str(error.value))

    def vote(ctx: rondo.Context) -> None:
        expect_full(lambda: ctx.grow(1, id=port if ctx.rank == 0 else None, timeout=LONG_S))
        ctx.wait_gone(LONG_S)

    for least, most in [(2, 0), (3, 2)]:
        with pytest.raises(rondo.InvalidError):
            rondo.Context(least_ranks=least, most_ranks=most)
    with rondo.Context(least_ranks=1, most_ranks=2) as alone:
        port = rondo.grow_listen()
        member = joined(port, vote)
        two = alone.grow(1, id=port, timeout=LONG_S)
        assert two is not None
        late = threading.Thread(target=expect_full, args=(lambda: rondo.join(port, LONG_S),))
        late.start()
        while late.is_alive() and not rondo.pending(port):
            late.join(0.001)
        expect_full(lambda: two.grow(1, id=port, timeout=LONG_S))
        two.close()
        for thread in [member, late]:
            thread.join(LONG_S)
        rondo.grow_close(port)
    assert sum("would have 3 ranks, and most_ranks is 2" in text for text in refused) == 2
    assert sum("the job has 2 ranks, and most_ranks is 2" in text for text in refused) == 1


@on_each(2)
def test_differing_votes_say_who_asked_for_what(ctx: rondo.Context) -> None:
    with pytest.raises(rondo.MismatchError, match="votes differ: .*rank 0.*rank 1"):
        if ctx.rank == 0:
            ctx.grow(id=rondo.grow_listen(), timeout=LONG_S)
        else:
            ctx.shrink(timeout=LONG_S)


@pytest.mark.parametrize("newcomers", [0, -1, 2**32 - 1])
def test_a_wrong_number_of_newcomers_is_refused(newcomers: int) -> None:
    with rondo.Context() as ctx, pytest.raises(rondo.InvalidError, match="newcomers"):
        ctx.grow(newcomers)


def test_a_wrong_id_is_refused() -> None:
    calls: List[Callable[[bytes], object]] = [rondo.pending, rondo.grow_close, rondo.join]
    for call in calls:
        with pytest.raises(rondo.InvalidError, match="an id of 3 bytes"):
            call(b"abc")
    with pytest.raises(rondo.InvalidError):
        rondo.join(bytes(128), 1.0)


MEMBER = """
import os, signal, sys, numpy as np, rondo
id, rank = bytes.fromhex(sys.argv[1]), int(sys.argv[2])
ctx = rondo.Context(id, rank=rank, rank_count=3)
coll = ctx.all_reduce(1, 1000, rondo.DType.FLOAT32, rondo.RedOp.AVG, on_loss=rondo.OnLoss.RETRY)
mine = np.full(1000, rank + 1, np.float32)
out = np.zeros_like(mine)
run = coll.run(mine, out)
run.wait(50)
assert (out == 2).all() and run.members() == [0, 1, 2]
print("first", flush=True)
if rank == 2:
    os.kill(os.getpid(), signal.SIGKILL)
run = coll.run(mine, out)
run.wait(50)
assert (out == 1.5).all() and run.members() == [0, 1], (out[0], run.members())
ctx.close()
"""


def test_a_run_survives_a_death() -> None:
    id = rondo.unique_id_listen().hex()
    members = [
        subprocess.Popen([sys.executable, "-c", MEMBER, id, str(rank)], stdout=subprocess.PIPE)
        for rank in range(3)
    ]
    try:
        for one in members:
            one.communicate(timeout=LONG_S)
    finally:
        for one in members:
            one.kill()
    assert [one.returncode for one in members] == [0, 0, -signal.SIGKILL]


def test_retry_is_refused_for_other_kinds() -> None:
    with rondo.Context() as ctx, pytest.raises(rondo.UnsupportedError):
        ctx.all_gather(1, 1, DType.INT8, on_loss=OnLoss.RETRY)


def test_the_members_of_a_run_are_known_at_its_end(job: Callable[..., Job]) -> None:
    contexts = job(2).contexts
    colls = [ctx.all_reduce(1, 1, DType.INT32, RedOp.MAX) for ctx in contexts]
    buffer = [np.zeros(1, np.int32) for _ in contexts]
    runs = [colls[0].run_in_place(buffer[0])]
    with pytest.raises(rondo.BusyError):
        runs[0].members()
    runs.append(colls[1].run_in_place(buffer[1]))
    for run in runs:
        run.wait(LONG_S)
        assert run.members() == [0, 1]


@on_each(3)
def test_arrays_become_equal_on_all_ranks(ctx: rondo.Context) -> None:
    weights = np.full(300000, 7 if ctx.rank else 3, np.float32)
    steps = np.zeros((), np.int64)
    state = rondo.SharedState({"weights": weights, "steps": steps})
    report = state.sync(ctx, LONG_S)
    assert (weights == 7).all()  # what most have
    assert (report.source, report.revision, state.revision) == (1, 1, 1)
    assert (report.received_bytes > weights.nbytes // 2) == (ctx.rank == 0)
    weights[-1] = steps[...] = ctx.rank
    state.strategy = [StateStrategy.SEND_ONLY, *[StateStrategy.RECEIVE_ONLY] * 2][ctx.rank]
    report = state.sync(ctx, LONG_S)
    assert weights[-1] == steps[()] == 0
    assert (state.revision, state.is_partial) == (2, False)
    assert report.received_bytes < weights.nbytes  # only blocks that differ
    everywhere = np.zeros(3, np.uint64)
    digest = np.array([state.digest], np.uint64)
    ctx.all_gather(9, 1, DType.UINT64).run(digest, everywhere).wait(LONG_S)
    assert (everywhere == digest).all()


@on_each(2)
def test_states_that_differ_in_their_names_are_refused(ctx: rondo.Context) -> None:
    array = np.zeros(4, np.float32)
    with pytest.raises(rondo.MismatchError, match="sync: "):
        rondo.SharedState({f"of rank {ctx.rank}": array}).sync(ctx, LONG_S)
    assert rondo.SharedState({"one": array}).sync(ctx, LONG_S).revision == 1


def read_only() -> Any:
    array = np.zeros(4, np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("array", [read_only(), np.zeros((4, 4))[:, 1], None, np.zeros(2, ">f4")])
def test_an_array_that_cannot_be_shared_is_refused(array: Any) -> None:
    with rondo.Context() as ctx, pytest.raises(rondo.InvalidError, match="sync: weights"):
        rondo.SharedState({"weights": array}).sync(ctx)


@on_each(3)
def test_links_are_measured_and_give_an_order(ctx: rondo.Context) -> None:
    links = ctx.measure_links(LONG_S)
    assert sorted(links.ranks) == [0, 1, 2] and links.ranks[0] == 0
    assert [[rate > 0 for rate in row] for row in links.rates] == [
        [i != j for j in range(3)] for i in range(3)
    ]
    assert links.endpoints == [[0] * 3] * 3  # not over a network
    assert links.ring_rate == min(links.rates[i][(i + 1) % 3] for i in range(3))
    assert links.ring_rate >= links.plain_ring_rate * 0.95
    ctx.group(links.ranks).destroy()


def test_a_closed_context_neither_votes_nor_synchronises() -> None:
    ctx = rondo.Context()
    ctx.close()
    state = rondo.SharedState({})
    calls: List[Callable[[], object]] = [ctx.grow, ctx.shrink, lambda: state.sync(ctx)]
    for call in calls:
        with pytest.raises(rondo.ClosedError):
            call()
