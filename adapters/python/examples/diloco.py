"""DiLoCo: ranks train alone for many steps, then average what they have learned.

    python diloco.py --curve loss.svg

Trains one model three times, with a process a rank, and compares: all-reduces of the gradients in
each step (data parallel); DiLoCo, whose ranks average the change of their weights every so many
steps; and asynchronous DiLoCo, whose ranks train on while the average of the last round is on its
way. DiLoCo sends a small part of the bytes, for networks that are slow. Rondo's runs are free to
overlap: the asynchronous form needs no thread and no second group.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import rondo
from training import Adam, Arrays, Model, draw, smooth

MINUTE_S = 60.0
MODES = ("data parallel", "DiLoCo", "asynchronous DiLoCo")


class Averages:
    """All-reduces of arrays of a model, and what they cost this rank."""

    def __init__(self, ctx: rondo.Context, arrays: Arrays) -> None:
        self.collectives = {
            name: ctx.all_reduce(number, array.size, rondo.DType.FLOAT32, rondo.RedOp.AVG)
            for number, (name, array) in enumerate(arrays.items())
        }
        self.runs: List[rondo.Run] = []
        self.sent_bytes = 0
        self.waited_s = 0.0

    def begin(self, arrays: Arrays) -> None:
        """Begins to replace the arrays by their averages over all ranks."""
        for name, array in arrays.items():
            self.runs.append(self.collectives[name].run_in_place(array))
            self.sent_bytes += array.nbytes

    def end(self) -> None:
        began = time.perf_counter()
        for run in self.runs:
            run.wait(MINUTE_S)
        self.runs.clear()
        self.waited_s += time.perf_counter() - began


class Outer:
    """The outer optimiser: the weights that all ranks agree on, and Nesterov's momentum.

    A round gives the *change* of each array: how far the ranks have moved it, on average.
    """

    def __init__(self, parameters: Arrays, rate: float = 0.7, momentum: float = 0.9) -> None:
        self.rate, self.momentum = rate, momentum
        self.agreed = {name: array.copy() for name, array in parameters.items()}
        self.speed = {name: np.zeros_like(array) for name, array in parameters.items()}

    def update(self, change: Arrays) -> None:
        for name, array in change.items():
            self.speed[name] = self.momentum * self.speed[name] + array
            self.agreed[name] += self.rate * (array + self.momentum * self.speed[name])


def difference(first: Arrays, second: Arrays) -> Arrays:
    return {name: first[name] - second[name] for name in first}


def train(mode: str, ctx: rondo.Context, options: argparse.Namespace) -> Dict[str, Any]:
    model, random = Model(), np.random.default_rng(ctx.rank)
    weights = model.parameters
    adam, outer, averages = Adam(weights), Outer(weights), Averages(ctx, weights)
    began_at: Optional[Arrays] = None  # asynchronous: the weights where the next round begins
    change: Arrays = {}
    losses: List[float] = []
    for step in range(1, options.steps + 1):
        loss, gradients = model.step(random)
        losses.append(loss)
        if mode == "data parallel":
            averages.begin(gradients)
            averages.end()
        adam.update(weights, gradients)
        if mode == "data parallel" or step % options.local_steps:
            continue
        if mode == "DiLoCo":
            change = difference(weights, outer.agreed)
            averages.begin(change)
            averages.end()
            outer.update(change)
            for name in weights:
                weights[name][:] = outer.agreed[name]
            continue
        # What this rank has learned in this round; the average of the last one has come meanwhile.
        mine = difference(weights, began_at or outer.agreed)
        averages.end()
        outer.update(change)
        if change:  # keep this round's own progress, on top of what all agree on
            for name in weights:
                weights[name][:] = outer.agreed[name] + mine[name]
        began_at = {name: array.copy() for name, array in weights.items()}
        change = mine
        averages.begin(change)
    averages.end()
    return {"losses": losses, "bytes": averages.sent_bytes, "waited": averages.waited_s}


def member(job: bytes, rank: int, options: argparse.Namespace, news: Any) -> None:
    with rondo.Context(job, rank=rank, rank_count=options.ranks) as ctx:
        news.put((rank, train(options.mode, ctx, options)))


def run(mode: str, options: argparse.Namespace) -> Tuple[List[float], Dict[str, Any]]:
    """Trains with a process a rank. Returns the mean losses of all ranks, and rank 0's report."""
    options.mode = mode
    processes = multiprocessing.get_context("spawn")
    news = processes.Queue()
    job = rondo.unique_id_listen()
    members = [
        processes.Process(target=member, args=(job, rank, options, news), daemon=True)
        for rank in range(options.ranks)
    ]
    for one in members:
        one.start()
    reports = dict(news.get(timeout=10 * MINUTE_S) for _ in members)
    for one in members:
        one.join(MINUTE_S)
    losses = np.mean([report["losses"] for report in reports.values()], axis=0)
    return smooth(list(losses)), reports[0]


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2, help="processes")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--local-steps", type=int, default=20, help="steps of a round of DiLoCo")
    parser.add_argument("--curve", metavar="FILE", help="draw the losses, as SVG")
    options = parser.parse_args()
    if options.ranks < 1 or options.local_steps < 1 or options.steps < options.local_steps:
        parser.error("--ranks and --local-steps must be at least 1, and --steps a round or more")
    return options


def main() -> int:
    options = read_options()
    curves = {}
    print(f"{'':20}  last loss  MB averaged  seconds waited")
    for mode in MODES:
        losses, report = run(mode, options)
        curves[mode] = list(enumerate(losses, 1))
        megabytes, waited = report["bytes"] / 1e6, report["waited"]
        print(f"{mode:20}  {losses[-1]:9.3f}  {megabytes:11.2f}  {waited:14.3f}", flush=True)
    if options.curve:
        draw(options.curve, curves)
        print(f"{options.curve}: the losses")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
