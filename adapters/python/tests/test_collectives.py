"""Results, order, callbacks, waiting and the end of runs."""

from __future__ import annotations

import asyncio
import builtins
import gc
import json
import random
import select
import sys
import threading
import weakref
from typing import Any, Callable, List

import numpy as np
import pytest
import rondo
from conftest import LONG_S, Job, on_each
from rondo import DType, Kind, RedOp, Status

N = 1000


def test_every_rank_may_issue_in_an_order_of_its_own(job: Callable[..., Job]) -> None:
    ranks, collectives, rounds = 8, 8, 20

    def program(ctx: rondo.Context) -> None:
        order = random.Random(ctx.rank)
        colls = [ctx.all_reduce(i, 64 << i, DType.FLOAT32) for i in range(collectives)]
        sends = [np.zeros(64 << i, np.float32) for i in range(collectives)]
        recvs = [np.zeros(64 << i, np.float32) for i in range(collectives)]
        for turn in range(rounds):
            runs = []
            for i in order.sample(range(collectives), collectives):
                sends[i][:] = ctx.rank + i + turn
                runs.append(colls[i].run(sends[i], recvs[i]))
            for run in runs:
                run.wait(LONG_S)
            for i in range(collectives):
                assert (recvs[i] == 28 + 8 * (i + turn)).all()

    job(ranks).on_each(program)


@on_each(3)
def test_each_kind_gives_what_its_name_says(ctx: rondo.Context) -> None:
    mine = np.arange(N, dtype=np.int64) + 1000 * ctx.rank
    sums = sum(np.arange(N, dtype=np.int64) + 1000 * r for r in range(3))
    out = np.zeros(N, np.int64)
    wide = np.zeros(3 * N, np.int64)
    ctx.all_reduce(1, N, DType.INT64).run(mine, out).wait(LONG_S)
    assert (out == sums).all()
    ctx.all_gather(2, N, DType.INT64).run(mine, wide).wait(LONG_S)
    assert (wide.reshape(3, N)[2] == np.arange(N) + 2000).all()
    ctx.reduce_scatter(3, N, DType.INT64, RedOp.MAX).run(wide, out).wait(LONG_S)
    assert (out == np.arange(N) + 1000 * ctx.rank).all()
    out[:] = 0
    at_root = ctx.rank == 1
    ctx.reduce(4, N, DType.INT64, root=1).run(mine, out if at_root else None).wait(LONG_S)
    assert (out == (sums if at_root else 0)).all()
    sent = mine if ctx.rank == 2 else None
    ctx.broadcast(5, N, DType.INT64, root=2).run(sent, out).wait(LONG_S)
    assert (out == np.arange(N) + 2000).all()


@on_each(3)
def test_quantised_messages_reach_the_library(ctx: rondo.Context) -> None:
    mine = np.linspace(-1, 1, N, dtype=np.float32) * (ctx.rank + 1)
    out = np.zeros(N, np.float32)
    for i, kind in enumerate((rondo.Quantisation.INT8, rondo.Quantisation.FLOAT8_E4M3)):
        coll = ctx.all_reduce(i, N, DType.FLOAT32, quantisation=kind)
        coll.run(mine, out).wait(LONG_S)
        error = np.abs(out - 6 * np.linspace(-1, 1, N, dtype=np.float32)).max()
        assert 1e-4 < error < (3 * 6 / 254 if i == 0 else 3 * 6 / 14)
    with pytest.raises(rondo.UnsupportedError):
        ctx.all_reduce(9, N, DType.FLOAT16, quantisation=rondo.Quantisation.INT8)


@on_each(3)
def test_kinds_that_do_not_reduce_move_what_their_names_say(ctx: rondo.Context) -> None:
    n, r = 3, ctx.rank
    mine = np.arange(n * N, dtype=np.int64) + 10000 * r
    wide, out = np.zeros(n * N, np.int64), np.zeros(N, np.int64)
    ctx.all_to_all(1, N, DType.INT64).run(mine, wide).wait(LONG_S)
    assert (wide.reshape(n, N)[2] == np.arange(N) + r * N + 20000).all()
    at_root = r == 1
    ctx.gather(2, N, DType.INT64, root=1).run(mine[:N], wide if at_root else None).wait(LONG_S)
    assert not at_root or (wide.reshape(n, N)[0] == np.arange(N)).all()
    ctx.scatter(3, N, DType.INT64, root=1).run(mine if at_root else None, out).wait(LONG_S)
    assert (out == np.arange(N) + r * N + 10000).all()
    ctx.barrier(4).run().wait(LONG_S)
    if r != 1:
        pair = ctx.send_recv(5, N, DType.INT64, root=2, peer=0)
        run = pair.run(mine[:N]) if r == 2 else pair.run(recv=out)
        run.wait(LONG_S)
        assert pair.describe()["ranks"] == [2, 0]
        assert r == 2 or (out == np.arange(N) + 20000).all()


@on_each(3)
def test_parts_of_an_all_to_all_v_are_uneven(ctx: rondo.Context) -> None:
    # Rank r sends r + s elements to rank s. The received parts have gaps between them.
    r = ctx.rank
    counts = [r + s for s in range(3)]
    send = np.repeat(np.arange(3, dtype=np.float32), counts) + 10 * r
    close = np.zeros(sum(counts), np.float32)
    ctx.all_to_all_v(1, DType.FLOAT32, counts, counts).run(send, close).wait(LONG_S)
    assert (close == np.repeat(10 * np.arange(3), counts) + r).all()
    apart = np.full(30, -1, np.float32)
    coll = ctx.all_to_all_v(2, DType.FLOAT32, counts, counts, recv_displacements=[20, 10, 0])
    coll.run(send, apart).wait(LONG_S)
    for s in range(3):
        assert (apart[20 - 10 * s :][: counts[s]] == 10 * s + r).all()
    assert (apart == -1).sum() == 30 - sum(counts)
    with pytest.raises(rondo.InvalidError, match="elements, not"):
        coll.run(send, np.zeros(5, np.float32))


@on_each(3)
def test_groups_priorities_and_factors_reach_the_library(ctx: rondo.Context) -> None:
    if ctx.rank == 1:
        with pytest.raises(rondo.InvalidError), ctx.group([2, 0]) as others:
            ctx.all_gather(1, 1, DType.INT32, group=others)
        return
    with ctx.group([2, 0]) as group:
        coll = ctx.all_gather(1, 1, DType.INT32, group=group, priority=5)
        scaled = ctx.all_reduce(
            2, 1, DType.FLOAT64, RedOp.PREMUL_SUM, group=group, scalar=0.5 + ctx.rank
        )
    both = np.zeros(2, np.int32)
    coll.run(np.array([ctx.rank], np.int32), both).wait(LONG_S)
    assert both.tolist() == [2, 0]
    one = np.array([2.0])
    scaled.run_in_place(one).wait(LONG_S)
    assert one[0] == 6.0


@on_each(2)
def test_many_runs_may_be_outstanding_in_opposite_orders(ctx: rondo.Context) -> None:
    a, b = (ctx.all_reduce(i, 1, DType.INT32) for i in (1, 2))
    outs = np.zeros((2, 500), np.int32)
    one = np.ones(1, np.int32)
    runs = []
    for coll, out in ((a, outs[0]), (b, outs[1])) if ctx.rank else ((b, outs[1]), (a, outs[0])):
        runs += [coll.run(one, out[i : i + 1]) for i in range(500)]
    assert [run.number for run in runs[:500]] == list(range(1, 501))
    for run in runs:
        run.wait(LONG_S)
    assert (outs == 2).all()


def test_a_run_says_whether_it_has_ended(job: Callable[..., Job]) -> None:
    two = job(2).contexts
    colls = [ctx.all_reduce(1, N, DType.FLOAT32) for ctx in two]
    array = np.ones(N, np.float32)
    run = colls[0].run(array, np.empty(N, np.float32))
    assert not run.test()
    assert run.status == Status.IN_PROGRESS
    other = colls[1].run(array, np.empty(N, np.float32))
    other.wait(LONG_S)
    run.wait(LONG_S)
    assert run.test()
    assert two[0].counters().completed == 1 == two[0].counters().submitted


def test_a_collective_has_counters_where_they_are_on(job: Callable[..., Job]) -> None:
    array = np.ones(N, np.float32)
    for on in (True, False):
        two = job(2, collective_counters=on).contexts
        colls = [ctx.all_reduce(1, N, DType.FLOAT32) for ctx in two]
        for run in [coll.run(array, np.empty(N, np.float32)) for coll in colls]:
            run.wait(LONG_S)
        if on:
            found = [coll.counters() for coll in colls]
            assert [one.fetches for one in found] == [1, 1]
            assert all(one.loads >= 1 and one.queue_most == 0 for one in found)
        else:
            with pytest.raises(rondo.UnsupportedError):
                colls[0].counters()


def test_buffers_live_as_long_as_their_run_and_no_longer(job: Callable[..., Job]) -> None:
    two = job(2).contexts
    colls = [ctx.all_reduce(1, N, DType.FLOAT32) for ctx in two]
    send, recv = (np.ones(N, np.float32) for _ in range(2))
    alive = [weakref.ref(send), weakref.ref(recv)]
    run = colls[0].run(send, recv)
    del send, recv
    gc.collect()
    assert all(ref() is not None for ref in alive)
    array = np.ones(N, np.float32)
    colls[1].run(array, np.empty_like(array)).wait(LONG_S)
    run.wait(LONG_S)
    gc.collect()
    assert all(ref() is None for ref in alive)


def test_a_bytearray_cannot_be_resized_under_a_run(job: Callable[..., Job]) -> None:
    two = job(2).contexts
    coll = two[0].all_reduce(1, 8, DType.UINT8)
    memory = bytearray(8)
    coll.run_in_place(memory)
    with pytest.raises(BufferError):
        memory.append(1)
    two[0].close(abort=True)
    memory.append(1)


# ---- callbacks


def test_callbacks_get_the_status(job: Callable[..., Job]) -> None:
    two = job(2).contexts
    ended: List[Status] = []
    done = threading.Semaphore(0)

    def on_end(status: Status) -> None:
        ended.append(status)
        done.release()

    colls = [ctx.all_reduce(1, N, DType.FLOAT32) for ctx in two]
    arrays = [np.ones(N, np.float32) for _ in two]
    for coll, array in zip(colls, arrays):
        coll.run_in_place(array, on_end)
    for _ in two:
        assert done.acquire(timeout=LONG_S)
    run = colls[0].run_in_place(arrays[0], on_end)
    two[0].abort()
    assert done.acquire(timeout=LONG_S)
    assert ended == [Status.SUCCESS, Status.SUCCESS, Status.ERR_ABORTED]
    with pytest.raises(rondo.AbortedError):
        run.wait(LONG_S)


def test_a_callback_that_raises_harms_nobody(
    alone: rondo.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: List[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    done = threading.Event()

    def bad(status: Status) -> None:
        raise KeyError("of the callback")

    coll = alone.all_reduce(1, N, DType.FLOAT32)
    array = np.ones(N, np.float32)
    coll.run_in_place(array, bad).wait(LONG_S)
    coll.run_in_place(array, lambda status: done.set()).wait(LONG_S)
    assert done.wait(LONG_S)
    assert [one.exc_type for one in seen] == [KeyError]


def test_a_callback_may_submit_but_not_wait_or_close(alone: rondo.Context) -> None:
    coll = alone.all_reduce(1, N, DType.FLOAT32)
    other = job_of_two = rondo.Context(rondo.unique_id(), rank=0, rank_count=2)
    stuck = other.all_reduce(1, 1, DType.INT32).run_in_place(np.zeros(1, np.int32))
    refused: List[BaseException] = []
    done = threading.Event()
    array = np.ones(N, np.float32)

    def on_end(status: Status) -> None:
        try:
            stuck.wait(1)
        except rondo.RondoError as error:
            refused.append(error)
        try:
            alone.close()
        except rondo.RondoError as error:
            refused.append(error)
        coll.run_in_place(array, lambda status: done.set())

    coll.run_in_place(array, on_end)
    assert done.wait(LONG_S)
    assert [type(one) for one in refused] == [rondo.InvalidError] * 2
    assert not alone.closed
    job_of_two.close(abort=True)


# ---- asyncio


def test_runs_can_be_awaited(job: Callable[..., Job]) -> None:
    two = job(2).contexts
    colls = [[ctx.all_reduce(i, N, DType.FLOAT32) for i in range(4)] for ctx in two]

    async def rank(r: int) -> float:
        arrays = [np.full(N, r + 1, np.float32) for _ in range(4)]
        order = range(4) if r else range(3, -1, -1)
        await asyncio.gather(*[_await(colls[r][i].run_in_place(arrays[i])) for i in order])
        return float(sum(array.sum() for array in arrays))

    async def _await(run: rondo.Run) -> None:
        await run

    async def both() -> List[float]:
        return list(await asyncio.wait_for(asyncio.gather(rank(0), rank(1)), LONG_S))

    for _ in range(20):
        assert asyncio.run(both()) == [3.0 * 4 * N] * 2


def test_several_loops_may_await_the_same_context(job: Callable[..., Job]) -> None:
    two = job(2).contexts
    colls = [[ctx.all_reduce(i, 1, DType.INT32) for i in range(4)] for ctx in two]
    errors: List[BaseException] = []

    def main(i: int) -> None:
        async def await_both() -> None:
            for _ in range(20):
                runs = [colls[r][i].run_in_place(np.ones(1, np.int32)) for r in range(2)]
                for run in runs:
                    await asyncio.wait_for(run._awaited(), LONG_S)

        try:
            asyncio.run(await_both())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=main, args=(i,), daemon=True) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)
        assert not thread.is_alive()
    assert not errors


def test_an_awaited_run_fails_with_its_context(job: Callable[..., Job]) -> None:
    two = job(2).contexts
    run = two[0].all_reduce(1, 1, DType.INT32).run_in_place(np.ones(1, np.int32))

    async def main() -> None:
        threading.Timer(0.01, two[0].close, kwargs={"abort": True}).start()
        with pytest.raises((rondo.AbortedError, rondo.ClosedError)):
            await asyncio.wait_for(run._awaited(), LONG_S)

    asyncio.run(main())


def test_the_event_fd_can_be_polled(alone: rondo.Context) -> None:
    fd = alone.event_fd
    alone.all_reduce(1, 1, DType.INT32).run_in_place(np.ones(1, np.int32))
    assert select.select([fd], [], [], LONG_S)[0] == [fd]


# ---- failure


def test_a_timeout_carries_the_stuck_report(job: Callable[..., Job]) -> None:
    two = job(2).contexts
    colls = [ctx.all_reduce(1, N, DType.FLOAT32) for ctx in two]
    run = colls[0].run_in_place(np.ones(N, np.float32))
    with pytest.raises(rondo.TimeoutError) as caught:
        run.wait(0.05)
    assert isinstance(caught.value, builtins.TimeoutError)
    report = caught.value.report
    assert report is not None and report["rank"] == 0 and report["outstanding"] == 1
    (stuck,) = report["runs"]
    assert (stuck["id"], stuck["run"], stuck["missing"]) == (1, 1, 1)
    assert (stuck["kind"], stuck["count"], stuck["dtype"]) == ("all_reduce", N, "float32")
    assert (stuck["ranks"], stuck["missing_ranks"], stuck["communicator"]) == ([0, 1], [1], None)
    assert stuck["reason"] == ""
    assert "not submitted by rank 1" in report["text"] and "not submitted" in str(caught.value)
    assert report["cycle_ranks"] == 0
    assert two[0].report(limit=0)["runs"] == []


def test_a_timeout_of_nothing_looks_once(job: Callable[..., Job]) -> None:
    ctx = job(2).contexts[0]
    run = ctx.all_reduce(1, 1, DType.INT32).run_in_place(np.ones(1, np.int32))
    with pytest.raises(rondo.TimeoutError) as caught:
        run.wait(0)
    assert caught.value.report is None


def test_who_has_not_submitted_a_run_is_named(job: Callable[..., Job]) -> None:
    three = job(3).contexts
    colls = [ctx.all_reduce(1, N, DType.FLOAT32) for ctx in three]
    data = [np.ones(N, np.float32) for _ in three]
    first = colls[1].run_in_place(data[1])
    assert colls[1].missing(1) == [0, 2]
    assert colls[1].missing(2) == [0, 1, 2]
    assert colls[1].reason() == ""
    colls[0].run_in_place(data[0])
    assert colls[1].missing(1) == [2]
    colls[2].run_in_place(data[2])
    first.wait(LONG_S)


def test_the_report_finds_the_circle_without_preemption(job: Callable[..., Job]) -> None:
    two = job(2, budget=rondo.BudgetPolicy.NEVER).contexts
    colls = [[ctx.all_reduce(i, N, DType.FLOAT32) for i in range(2)] for ctx in two]
    runs = [
        colls[r][(r + i) % 2].run_in_place(np.ones(N, np.float32))
        for i in range(2)
        for r in range(2)
    ]
    with pytest.raises(rondo.TimeoutError) as caught:
        runs[0].wait(0.2)
    assert caught.value.report is not None and caught.value.report["cycle_ranks"] == 2


def test_a_collective_says_what_it_is(job: Callable[..., Job]) -> None:
    ctx = job(3).contexts[2]
    with ctx.group([2, 0]) as group:
        coll = ctx.reduce(7, N, DType.BFLOAT16, RedOp.MAX, root=1, group=group)
    assert coll.describe() == {
        "id": 7,
        "kind": "reduce",
        "count": N,
        "dtype": "bfloat16",
        "op": "max",
        "root": 1,
        "peer": 0,
        "ranks": [2, 0],
    }


def test_a_rank_says_how_it_reaches_another(job: Callable[..., Job]) -> None:
    how, why = job(2).contexts[0].transport(1)
    assert how is rondo.Transport.LOCAL and why


def test_the_flight_record_is_json(alone: rondo.Context) -> None:
    alone.barrier(1).run().wait(LONG_S)
    lines = [json.loads(line) for line in alone.flight_record().splitlines()]
    assert len(lines) > 1 and any("barrier" in str(line) for line in lines)


@on_each(2)
def test_descriptions_that_differ_fail_on_both_sides(ctx: rondo.Context) -> None:
    coll = ctx.all_reduce(1, N + ctx.rank, DType.FLOAT32)
    with pytest.raises(rondo.MismatchError) as caught:
        coll.run_in_place(np.ones(N + ctx.rank, np.float32)).wait(LONG_S)
    assert caught.value.status is Status.ERR_MISMATCH
    assert "in its count" in coll.reason()
    assert "rank 0" in coll.reason() and "rank 1" in coll.reason()


def test_a_peer_that_leaves_ends_the_run(job: Callable[..., Job]) -> None:
    two = job(2).contexts
    colls = [ctx.all_reduce(1, N, DType.FLOAT32) for ctx in two]
    run = colls[0].run_in_place(np.ones(N, np.float32))
    two[1].close()
    with pytest.raises((rondo.PeerError, rondo.AbortedError)):
        run.wait(LONG_S)


def test_closing_in_time_drains_and_late_aborts(job: Callable[..., Job]) -> None:
    two = job(2).contexts
    colls = [ctx.all_reduce(1, N, DType.FLOAT32) for ctx in two]
    runs = [coll.run_in_place(np.ones(N, np.float32)) for coll in colls]
    two[0].close()
    two[1].close()
    assert [run.status for run in runs] == [Status.SUCCESS] * 2
    ctx = job(2).contexts[0]
    run = ctx.all_reduce(1, 1, DType.INT32).run_in_place(np.ones(1, np.int32))
    with pytest.raises(rondo.TimeoutError):
        ctx.close(0.01)
    assert ctx.closed
    with pytest.raises(rondo.AbortedError):
        run.wait()
    with pytest.raises(rondo.ClosedError):
        ctx.counters()
    ctx.close()


def test_a_with_aborts_after_an_exception(job: Callable[..., Job]) -> None:
    ctx = job(2).contexts[0]
    with pytest.raises(KeyError), ctx:
        run = ctx.all_reduce(1, 1, DType.INT32).run_in_place(np.ones(1, np.int32))
        raise KeyError
    assert ctx.closed and run.status is Status.ERR_ABORTED


def test_who_waits_for_the_others_hears_of_them(job: Callable[..., Job]) -> None:
    contexts = job(3).contexts
    for context in contexts:
        context.wait_ready(LONG_S)
    with pytest.raises(rondo.TimeoutError, match="wait_gone: ranks 1, 2"):
        contexts[0].wait_gone(0.01)
    contexts[1].close()
    with pytest.raises(rondo.PeerError, match="wait_ready: ranks 1"):
        contexts[0].wait_ready(LONG_S)
    contexts[2].close()
    contexts[0].wait_gone(LONG_S)


def test_closing_wakes_who_waits(job: Callable[..., Job]) -> None:
    ctx = job(2).contexts[0]
    run = ctx.all_reduce(1, 1, DType.INT32).run_in_place(np.ones(1, np.int32))
    threading.Timer(0.02, ctx.close, kwargs={"abort": True}).start()
    with pytest.raises((rondo.ClosedError, rondo.AbortedError)):
        run.wait()


def test_a_context_that_nobody_closed_goes_with_its_last_reference() -> None:
    id = rondo.unique_id()
    ctx = rondo.Context(id, rank=0, rank_count=2)
    ctx.all_reduce(1, 1, DType.INT32).run_in_place(np.ones(1, np.int32))
    del ctx
    gc.collect()
    rondo.Context(id, rank=0, rank_count=2).close()  # the rank is free again


# ---- the rest of the interface


def test_an_id_can_be_registered_again(alone: rondo.Context) -> None:
    for _ in range(3):
        with alone.all_reduce(1, 1, DType.INT32) as coll:
            run = coll.run_in_place(np.ones(1, np.int32))
            run.wait(LONG_S)
        assert run.status is Status.SUCCESS
    with pytest.raises(rondo.UnknownError):
        coll.run_in_place(np.ones(1, np.int32))


def test_a_collective_with_work_is_not_deregistered(job: Callable[..., Job]) -> None:
    coll = job(2).contexts[0].all_reduce(1, 1, DType.INT32)
    coll.run_in_place(np.ones(1, np.int32))
    with pytest.raises(rondo.BusyError):
        coll.deregister()


def test_uneven_parts_are_registered_by_a_call_of_their_own(alone: rondo.Context) -> None:
    with pytest.raises(rondo.UnsupportedError):
        alone.register(Kind.ALL_TO_ALL_V, 1, 1, DType.INT32)
    with pytest.raises(rondo.InvalidError, match="not one for each of 1 ranks"):
        alone.all_to_all_v(1, DType.INT32, [1, 1], [1])


def measured_tuning() -> rondo.Tuning:
    """A busy machine may not switch threads within a short time."""
    for seconds in (0.1, 1.0):
        try:
            return rondo.Tuning.profile(seconds)
        except rondo.SystemRefusedError:
            pass
    return rondo.Tuning.profile(LONG_S / 4)


def test_tunings_are_read_as_they_are_printed(alone: rondo.Context) -> None:
    tuning = rondo.Tuning(front_budget_ns=30000, quit_period_ns=100000)
    assert rondo.Tuning.parse(str(tuning)) == tuning
    assert measured_tuning().front_budget_ns > 0
    with pytest.raises(rondo.InvalidError):
        rondo.Tuning.parse("nonsense=1")
    rondo.Context(tuning=tuning).close()


def test_the_device_can_be_waited_for(alone: rondo.Context) -> None:
    alone.synchronize(LONG_S)


def test_kinds_have_the_names_of_the_registering_calls(alone: rondo.Context) -> None:
    with alone.communicator(1) as comm:
        for kind in Kind:
            assert callable(getattr(alone, kind.name.lower()))
            if kind is not Kind.SEND_RECV:
                assert callable(getattr(comm, kind.name.lower()))
