"""Runs a program on every rank of a job, each rank a process, and brings back what it returned.

The ranks are forked, so that each test costs no import of PyTorch. Nothing outlives ``on_ranks``: a
rank that has not ended in time is killed, and ranks die with the process that made them.
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

LONG_S = float(os.environ.get("RONDO_TEST_LONG_S", "120"))  # a wait that only a hang outlasts
GRACE_S = 20.0  # what the other ranks have once one has failed
BACKEND = os.environ.get("RONDO_TEST_BACKEND", "rondo")
# Older ones refuse it themselves.
HAS_MONITORED_BARRIER = "only implemented for GLOO" not in inspect.getsource(dist.monitored_barrier)

if BACKEND == "rondo":
    import rondo_torch  # noqa: F401  (registers the backend)

_PR_SET_PDEATHSIG = 1


class RankError(AssertionError):
    """What went wrong on the ranks of a job."""


class Died:
    """Takes the place of the result of a rank that was killed."""

    def __init__(self, exit_code: Optional[int]) -> None:
        self.exit_code = exit_code


def _say(pipe: multiprocessing.connection.Connection, kind: str, value: Any) -> None:
    try:
        pipe.send((kind, value))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        pipe.send(("error", f"what the rank returned cannot be sent: {error}"))


def take_one_core(rank: int) -> None:
    """Leaves this thread of the rank a single core, another than its neighbour's where there are several."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})


def _end_groups() -> None:
    # Groups of Gloo of PyTorch 2.4 join, with Python's lock, a thread that may wait for that lock. This process ends anyway.
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
    """What a rank does from the fork to its end."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    torch.set_num_threads(1)
    # A rank that hangs says where, in what pytest shows of a test that failed.
    faulthandler.dump_traceback_later(limit_s * 0.8, file=sys.__stderr__)
    try:
        if init is not None:
            dist.init_process_group(rank=rank, **init)
        result = program(rank)
        if init is not None and dist.is_initialized():
            _end_groups()
        _say(pipe, "ok", result)
    except BaseException:  # of whatever kind: it is told, and the rank ends
        _say(pipe, "error", traceback.format_exc())
        os._exit(1)
    os._exit(0)  # none of what pytest would do at the end of its process


def _collect(pipes: Dict[Any, int], limit_s: float, results: List[Any]) -> List[str]:
    """Takes what the ranks say until all have or time is up. Returns what went wrong."""
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

    ``may_die`` names ranks that may end without a word. With ``init`` false nobody calls
    ``init_process_group``. Raises RankError with what the ranks said if one raised or hung.
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


def _end(processes: Sequence[Any]) -> None:
    """Lets those end that have said what they have to say, and kills the others."""
    until = time.monotonic() + 5
    for process in processes:
        process.join(max(0.0, until - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()


def none_failed(failures: Sequence[str]) -> None:
    """Fails with the list of cases that went wrong, if there are any."""
    if failures:
        raise AssertionError(f"{len(failures)} cases: " + "; ".join(failures[:20]))
