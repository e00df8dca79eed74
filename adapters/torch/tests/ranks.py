"""Runs a program on every rank of a job, one process a rank, and returns the results.

The ranks are forked, so that no test imports PyTorch again. No rank outlives ``on_ranks``: it kills
ranks that have not ended in time, and ranks die with their parent process.
"""

from __future__ import annotations

import ctypes
import faulthandler
import inspect
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
import torch.distributed as dist

LONG_S = float(os.environ.get("RONDO_TEST_LONG_S", "120"))  # longer than any wait, except a hang
GRACE_S = 20.0  # the time of the other ranks after one has failed
BACKEND = os.environ.get("RONDO_TEST_BACKEND", "rondo")
# Older versions refuse it themselves.
HAS_MONITORED_BARRIER = "only implemented for GLOO" not in inspect.getsource(dist.monitored_barrier)

if BACKEND == "rondo":
    import rondo_torch  # noqa: F401  (registers the backend)

_PR_SET_PDEATHSIG = 1


class RankError(AssertionError):
    """The errors of the ranks of a job."""


class Died:
    """The result of a rank that was killed."""

    def __init__(self, exit_code: Optional[int]) -> None:
        self.exit_code = exit_code


def _say(pipe: multiprocessing.connection.Connection, kind: str, value: Any) -> None:
    try:
        pipe.send((kind, value))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        pipe.send(("error", f"what the rank returned cannot be sent: {error}"))


def take_one_core(rank: int) -> None:
    """Pins this thread to one core, and each rank to another core if there are several."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})


def _end_groups() -> None:
    # PyTorch 2.4: the end of a Gloo group may deadlock on the GIL. The process exits anyway.
    if dist.get_backend() == "gloo" and torch.__version__.startswith("2.4."):
        dist.barrier()
    else:
        dist.destroy_process_group()


def _rank_main(
    rank: int,
    pipe: multiprocessing.connection.Connection,
    program: Callable[[int], Any],
    init: Optional[Dict[str, Any]],
    limit_s: float,
) -> None:
    """The main function of a forked rank."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    torch.set_num_threads(1)
    # A rank that hangs prints its stack before it is killed.
    faulthandler.dump_traceback_later(limit_s * 0.8, file=sys.__stderr__)
    try:
        if init is not None:
            dist.init_process_group(rank=rank, **init)
        result = program(rank)
        if init is not None and dist.is_initialized():
            _end_groups()
        _say(pipe, "ok", result)
    except BaseException:  # report any exception to the parent
        _say(pipe, "error", traceback.format_exc())
        os._exit(1)
    os._exit(0)  # skip the exit handlers of pytest


def _collect(pipes: Dict[Any, int], limit_s: float, results: List[Any]) -> List[str]:
    """Receives the results of all ranks, until the time is over. Returns the errors."""
    wrong: List[str] = []
    until = time.monotonic() + limit_s
    while pipes:
        ready = multiprocessing.connection.wait(list(pipes), until - time.monotonic())
        if not ready:
            missing = sorted(pipes.values())
            return wrong + [f"ranks {missing} have not ended after {limit_s:g} s"]
        for pipe in ready:
            rank = pipes.pop(pipe)
            try:
                kind, value = pipe.recv()  # type: ignore[union-attr]
            except EOFError:
                kind, value = "died", None
            results[rank] = Died(None) if kind == "died" else value
            if kind == "error":
                wrong.append(f"rank {rank}:\n{value}")
                until = min(until, time.monotonic() + GRACE_S)
    return wrong


def on_ranks(
    count: int,
    program: Callable[[int], Any],
    *,
    limit_s: float = LONG_S,
    may_die: Sequence[int] = (),
    init: bool = True,
    backend: str = BACKEND,
    timeout_s: float = LONG_S,
    **config: Any,
) -> List[Any]:
    """Runs ``program(rank)`` on each of ``count`` ranks, and returns their results in order.

    The ranks in ``may_die`` may end without a result. With ``init`` false ``init_process_group`` is
    not called. If a rank raises or hangs, this raises RankError with the errors of all ranks.
    """
    context = multiprocessing.get_context("fork")
    results: List[Any] = [None] * count
    with tempfile.TemporaryDirectory(prefix="rondo-torch-") as place:
        start: Optional[Dict[str, Any]] = None
        if init:
            start = dict(config, backend=backend, world_size=count)
            start.setdefault("init_method", f"file://{place}/store")
            start["timeout"] = timedelta(seconds=timeout_s)
        processes, pipes = [], {}
        for rank in range(count):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(
                target=_rank_main, args=(rank, theirs, program, start, limit_s), daemon=True
            )
            process.start()
            theirs.close()
            processes.append(process)
            pipes[ours] = rank
        try:
            wrong = _collect(pipes, limit_s, results)
        finally:
            _end(processes)
    for rank, result in enumerate(results):
        if isinstance(result, Died):
            result.exit_code = processes[rank].exitcode
            if rank not in may_die:
                wrong.append(f"rank {rank} died with exit code {result.exit_code}")
    if wrong:
        raise RankError("\n".join(wrong))
    return results


def on_each_rank(count: int, **config: Any) -> Callable[[Callable[[int], Any]], Any]:
    """Makes a test of a program: runs it on ``count`` ranks, as ``on_ranks``."""

    def make(program: Callable[[int], Any]) -> Any:
        def test() -> None:
            on_ranks(count, program, **config)

        return test

    return make


def _end(processes: Sequence[Any]) -> None:
    """Waits for ranks that have sent their results, and kills the others."""
    until = time.monotonic() + 5
    for process in processes:
        process.join(max(0.0, until - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()


def none_failed(failures: Sequence[str]) -> None:
    """Fails with the list of wrong cases, if there are any."""
    if failures:
        raise AssertionError(f"{len(failures)} cases: " + "; ".join(failures[:20]))
