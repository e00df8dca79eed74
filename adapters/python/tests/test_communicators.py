"""Calls that match by their order, and need no ids."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any, Callable, List

import numpy as np
import pytest
import rondo
from conftest import LONG_S, Job, on_each
from rondo import DType, RedOp, Status

N = 500


@on_each(3)
def test_each_call_gives_what_its_name_says(ctx: rondo.Context) -> None:
    n, r = 3, ctx.rank
    comm = ctx.communicator(1)
    mine = np.arange(n * N, dtype=np.int64) + 10000 * r
    wide, out = np.zeros(n * N, np.int64), np.zeros(N, np.int64)
    comm.all_reduce(mine, wide, RedOp.MAX).wait(LONG_S)
    assert (wide == np.arange(n * N) + 20000).all()
    comm.all_gather(mine[:N], wide).wait(LONG_S)
    assert (wide.reshape(n, N)[1] == np.arange(N) + 10000).all()
    comm.reduce_scatter(mine, out, RedOp.MIN).wait(LONG_S)
    assert (out == np.arange(N) + r * N).all()
    comm.reduce(mine[:N], out if r == 2 else None, root=2).wait(LONG_S)
    assert r != 2 or (out == 3 * np.arange(N) + 30000).all()
    comm.broadcast(mine[:N] if r == 1 else None, out, root=1).wait(LONG_S)
    assert (out == np.arange(N) + 10000).all()
    comm.all_to_all(mine, wide).wait(LONG_S)
    assert (wide.reshape(n, N)[2] == np.arange(N) + r * N + 20000).all()
    comm.gather(mine[:N], wide if r == 0 else None).wait(LONG_S)
    assert r or (wide.reshape(n, N)[1] == np.arange(N) + 10000).all()
    comm.scatter(mine if r == 2 else None, out, root=2).wait(LONG_S)
    assert (out == np.arange(N) + r * N + 20000).all()
    factors = np.full(4, 2.0)
    comm.all_reduce(factors, factors, RedOp.PREMUL_SUM, scalar=r + 1.0).wait(LONG_S)
    assert (factors == 12.0).all()
    comm.barrier().wait(LONG_S)
    comm.destroy()


@on_each(2)
def test_sends_and_receives_may_come_in_any_order(ctx: rondo.Context) -> None:
    comm, other = ctx.communicator(1), 1 - ctx.rank
    sent = np.full(N, ctx.rank, np.float32)
    own, got = np.zeros_like(sent), np.zeros_like(sent)
    calls: List[Callable[[], rondo.Run]] = [
        lambda: comm.send(sent, other),
        lambda: comm.recv(got, other),
    ]
    runs = [call() for call in (calls if ctx.rank else calls[::-1])]
    runs.append(comm.send_to_self(sent, own))
    for run in runs:
        run.wait(LONG_S)
    assert (got == other).all() and (own == ctx.rank).all()


@on_each(3)
def test_uneven_parts_may_change_from_call_to_call(ctx: rondo.Context) -> None:
    comm = ctx.communicator(1)
    for turn in range(5):
        counts = [ctx.rank + s + turn for s in range(3)]
        send = np.repeat(np.arange(3), counts) + 10 * ctx.rank
        recv = np.zeros_like(send)
        comm.all_to_all_v(send, recv, counts, counts).wait(LONG_S)
        assert (recv == np.repeat(10 * np.arange(3), counts) + ctx.rank).all()


@on_each(2)
def test_communicators_may_be_called_in_any_order(ctx: rondo.Context) -> None:
    comms = [ctx.communicator(key) for key in range(4)]
    arrays = [np.ones(N, np.float32) for _ in comms]
    for _ in range(10):
        order = range(4) if ctx.rank else range(3, -1, -1)
        for run in [comms[i].all_reduce(arrays[i], arrays[i]) for i in order]:
            run.wait(LONG_S)
    assert all((one == 2.0**10).all() for one in arrays)
    assert comms[0].counters() == rondo.CommunicatorCounters(10, 1, 1, 0)


@on_each(3)
def test_a_group_gives_positions_their_meaning(ctx: rondo.Context) -> None:
    if ctx.rank == 1:
        return
    with ctx.group([2, 0]) as group:
        comm = ctx.communicator(9, group=group)
    assert (comm.ranks, comm.position) == ((2, 0), 0 if ctx.rank else 1)
    array = np.array([ctx.rank])
    comm.broadcast(array, array, root=0).wait(LONG_S)
    assert array[0] == 2


@on_each(2)
def test_calls_that_differ_fail_on_both_sides_and_name_both(ctx: rondo.Context) -> None:
    comm = ctx.communicator(1)
    assert comm.state() == (Status.SUCCESS, "")
    run = comm.all_reduce(np.ones(N + ctx.rank), np.ones(N + ctx.rank))
    with pytest.raises(rondo.MismatchError):
        run.wait(LONG_S)
    with pytest.raises(rondo.MismatchError):
        comm.wait(LONG_S)
    status, why = comm.state()
    assert status is Status.ERR_MISMATCH
    assert f" {N} " in why and f" {N + 1} " in why
    assert run.reason() == why
    with pytest.raises(rondo.MismatchError, match=f" {N + 1} "):
        comm.barrier()


def test_a_call_says_who_has_not_made_it(job: Callable[..., Job]) -> None:
    two = job(2).contexts
    comms = [ctx.communicator(77) for ctx in two]
    array = np.ones(N)
    run = comms[0].broadcast(array, array, root=1)
    assert run.missing() == [1]
    assert (run.describe()["kind"], run.describe()["ranks"]) == ("broadcast", [0, 1])
    with pytest.raises(rondo.TimeoutError) as caught:
        run.wait(0.05)
    assert caught.value.report is not None
    (stuck,) = caught.value.report["runs"]
    assert (stuck["communicator"], stuck["kind"], stuck["missing_ranks"]) == (77, "broadcast", [1])
    with pytest.raises(rondo.TimeoutError):
        comms[0].wait(0.05)
    comms[1].broadcast(array.copy(), np.empty(N), root=1)
    for comm in comms:
        comm.wait(LONG_S)
    assert run.test()


def test_many_calls_may_be_outstanding_and_forgotten(job: Callable[..., Job]) -> None:
    two = job(2).contexts
    comms = [ctx.communicator(1, cached_collectives=2) for ctx in two]
    outs = [np.zeros((300, 8)) for _ in two]
    for comm, out in zip(comms, outs):
        for i in range(300):
            comm.all_reduce(np.full(1 + i % 5, 1.0), out[i][: 1 + i % 5])
    for comm in comms:
        comm.wait(LONG_S)
    for out in outs:
        assert all((out[i][: 1 + i % 5] == 2).all() for i in range(300))
    # The state keeps no queue of a call that has ended.
    assert not two[0]._state.queues


def test_arrays_live_as_long_as_their_call_and_no_longer(job: Callable[..., Job]) -> None:
    two = job(2).contexts
    comms = [ctx.communicator(1) for ctx in two]
    send, recv = np.ones(N), np.ones(N)
    alive = [weakref.ref(send), weakref.ref(recv)]
    run = comms[0].all_reduce(send, recv)
    del send, recv
    gc.collect()
    assert all(ref() is not None for ref in alive)
    comms[1].all_reduce(np.ones(N), np.ones(N)).wait(LONG_S)
    run.wait(LONG_S)
    gc.collect()
    assert all(ref() is None for ref in alive)


def test_calls_can_be_awaited_and_have_callbacks(job: Callable[..., Job]) -> None:
    two = job(2).contexts
    comms = [ctx.communicator(1) for ctx in two]
    ended: List[Status] = []
    done = threading.Semaphore(0)

    def on_end(status: Status) -> None:
        ended.append(status)
        done.release()

    async def rank(r: int) -> None:
        array = np.ones(N)
        for _ in range(10):
            await comms[r].all_reduce(array, array, callback=on_end)
        assert (array == 2.0**10).all()

    async def both() -> None:
        await asyncio.wait_for(asyncio.gather(rank(0), rank(1)), LONG_S)

    asyncio.run(both())
    for _ in range(20):
        assert done.acquire(timeout=LONG_S)
    assert ended == [Status.SUCCESS] * 20


def test_bad_calls_are_refused_and_not_counted(job: Callable[..., Job]) -> None:
    ctx = job(3).contexts[0]
    comm = ctx.communicator(1)
    bad: List[Callable[[], Any]] = [
        lambda: comm.send(np.ones(1), 3),
        lambda: comm.send(np.ones(1), -1),
        lambda: comm.all_reduce(np.ones(1), None),
        lambda: comm.all_reduce(np.ones(1), np.ones(2)),
        lambda: comm.all_reduce(np.ones(1), np.ones(1, np.float32)),
        lambda: comm.all_to_all(np.ones(4), np.ones(4)),
        lambda: comm.all_to_all_v(np.ones(1), np.ones(1), [1], [1]),
        lambda: comm.broadcast(None, np.ones(1), root=5),
        lambda: ctx.communicator(2, priority=1000),
    ]
    for call in bad:
        with pytest.raises(rondo.InvalidError):
            call()
    with pytest.raises(rondo.ExistsError):
        ctx.communicator(1)
    assert comm.counters().calls == 0
    assert not ctx._state.queues


def test_an_abort_ends_calls_and_leaves_others(job: Callable[..., Job]) -> None:
    two = job(2).contexts
    bad, good = ([ctx.communicator(key) for ctx in two] for key in (1, 2))
    run = bad[0].barrier()
    bad[0].abort()
    with pytest.raises(rondo.AbortedError):
        run.wait(LONG_S)
    assert "aborted" in bad[1].state()[1]
    for one in [comm.barrier() for comm in good]:
        one.wait(LONG_S)


def test_destroying_drains_or_aborts(job: Callable[..., Job]) -> None:
    two = job(2).contexts
    with two[0].communicator(1) as one, two[1].communicator(1) as other:
        runs = [one.barrier(), other.barrier()]
    assert [run.status for run in runs] == [Status.SUCCESS] * 2
    with pytest.raises(rondo.ClosedError):
        one.barrier()
    one.destroy()
    late = two[0].communicator(2)
    run = late.barrier()
    with pytest.raises(rondo.TimeoutError):
        late.destroy(0.01)
    assert run.status is Status.ERR_ABORTED
    stays = two[0].communicator(3)
    run = stays.barrier()
    two[0].close(abort=True)
    assert run.status is Status.ERR_ABORTED
    stays.destroy()


def test_destroying_wakes_who_waits(job: Callable[..., Job]) -> None:
    comm = job(2).contexts[0].communicator(1)
    run = comm.barrier()
    threading.Timer(0.02, comm.destroy, kwargs={"abort": True}).start()
    with pytest.raises((rondo.ClosedError, rondo.AbortedError)):
        run.wait(LONG_S)


def test_types_without_a_name_are_called_too(alone: rondo.Context) -> None:
    array = np.arange(N, dtype=np.uint16)
    out = np.zeros_like(array)
    with alone.communicator(1) as comm:
        run = comm.all_reduce(
            rondo.as_dtype(array, DType.BFLOAT16), rondo.as_dtype(out, DType.BFLOAT16)
        )
        run.wait(LONG_S)
    assert (out == array).all()
