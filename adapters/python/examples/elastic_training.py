"""Data-parallel training that loses a rank and gets another one.

    python elastic_training.py --curve loss.svg

Three processes train one model. One of them kills itself in the middle of a step: the others do the
step's all-reduces again among themselves and go on. Then a new process joins. It gets the weights,
the state of the optimiser and the number of the step from the others.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import queue
import signal
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import rondo
from training import Adam, Model, draw, smooth

MINUTE_S = 60.0


class Trainer:
    """One rank: the model, and the all-reduces of its gradients in the job of today."""

    def __init__(self, ctx: rondo.Context) -> None:
        self.model = Model()
        self.adam = Adam(self.model.parameters)
        self.done = np.zeros((), np.int64)  # steps
        self.mean_loss = np.zeros(1, np.float32)
        self.state = rondo.SharedState(
            {"done": self.done, **self.model.parameters, **self.adam.moments}
        )
        self.enter(ctx)

    def enter(self, ctx: rondo.Context) -> None:
        """Begins to work in a job: all of its ranks get the same state."""
        self.ctx = ctx
        arrays = {"loss": self.mean_loss, **self.model.parameters}
        self.averages = {
            name: ctx.all_reduce(
                number,
                array.size,
                rondo.DType.FLOAT32,
                rondo.RedOp.AVG,
                on_loss=rondo.OnLoss.RETRY,
            )
            for number, (name, array) in enumerate(arrays.items())
        }
        self.state.sync(ctx, MINUTE_S)

    def step(self, dies: bool) -> List[int]:
        """One step; returns the ranks that did all of it."""
        random = np.random.default_rng((int(self.done), self.ctx.rank))
        loss, gradients = self.model.step(random)
        self.mean_loss[:] = loss
        arrays = {"loss": self.mean_loss, **gradients}
        runs = {}
        for name in random.permutation(list(arrays)):  # each rank in an order of its own
            runs[name] = self.averages[name].run_in_place(arrays[name])
            if dies and len(runs) == 3:
                os.kill(os.getpid(), signal.SIGKILL)
        for run in runs.values():
            run.wait(MINUTE_S)
        self.adam.update(self.model.parameters, gradients)
        self.done += 1
        return min((run.members() for run in runs.values()), key=len)

    def admit(self, id: Optional[bytes]) -> None:
        """Lets those in who wait."""
        next = self.ctx.grow(id=id, timeout=MINUTE_S)
        if next is not None:
            self.ctx.close()
            self.enter(next)


def train(trainer: Trainer, options: argparse.Namespace, news: Any, id: Optional[bytes]) -> None:
    death = options.kill_at if trainer.ctx.rank == options.ranks - 1 and options.kill_at else -1
    while trainer.done < options.steps:
        members = trainer.step(dies=trainer.done == death)
        if trainer.ctx.rank == 0:
            news.put(("step", int(trainer.done), float(trainer.mean_loss[0]), len(members)))
        if trainer.done % options.admit_every == 0 or trainer.done == options.steps:
            trainer.admit(id)
    news.put(("end", trainer.ctx.rank, trainer.state.sync(trainer.ctx, MINUTE_S).received_bytes))
    trainer.ctx.close()


def member(job: bytes, rank: int, options: argparse.Namespace, news: Any) -> None:
    """A process that is there from the beginning. That of rank 0 keeps the door for others."""
    trainer = Trainer(rondo.Context(job, rank=rank, rank_count=options.ranks))
    id = rondo.grow_listen() if rank == 0 else None
    if id is not None:
        news.put(("id", id))
    train(trainer, options, news, id)


def newcomer(id: bytes, options: argparse.Namespace, news: Any) -> None:
    """A process that comes later."""
    try:
        trainer = Trainer(rondo.join(id, MINUTE_S))
    except (rondo.PeerError, rondo.TimeoutError):
        return  # the others have finished
    options.kill_at = 0
    train(trainer, options, news, None)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, default=3, help="processes at the start, at least 2")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--kill-at", type=int, default=200, help="step of the death; 0: none")
    parser.add_argument("--admit-every", type=int, default=25, help="steps between two votes")
    parser.add_argument("--curve", metavar="FILE", help="draw the loss, as SVG")
    options = parser.parse_args()
    if options.ranks < 2 or options.steps < 1 or options.admit_every < 1:
        parser.error("--ranks must be at least 2, --steps and --admit-every at least 1")
    return options


def main() -> int:
    options = read_options()
    processes = multiprocessing.get_context("spawn")
    news = processes.Queue()
    job = rondo.unique_id_listen()
    members = [
        processes.Process(target=member, args=(job, rank, options, news))
        for rank in range(options.ranks)
    ]
    for one in members:
        one.start()
    losses: List[Tuple[int, float]] = []
    events: List[Tuple[int, str]] = []
    received: Dict[int, int] = {}
    id, ranks = b"", options.ranks
    while any(one.is_alive() for one in members) or not news.empty():
        try:
            what, *values = news.get(timeout=0.2)
        except queue.Empty:
            continue
        if what == "id":
            id = values[0]
        elif what == "end":
            received[values[0]] = values[1]
        else:
            step, loss, count = values
            losses.append((step, loss))
            if count != ranks:
                events.append((step, f"{count} ranks"))
                print(f"step {step}: {count} ranks")
            if count < ranks:  # one has died: start another
                members.append(processes.Process(target=newcomer, args=(id, options, news)))
                members[-1].start()
            ranks = count
            if step % 100 == 0:
                print(f"step {step}: loss {np.mean([one for _, one in losses[-50:]]):.3f}")
    if options.curve:
        steps = [step for step, _ in losses]
        curve = list(zip(steps, smooth([loss for _, loss in losses])))
        draw(options.curve, {"mean of 20 steps": curve}, events)
        print(f"{options.curve}: the loss")
    is_equal = not any(received.values())
    print(f"{len(received)} processes ended, with {'the same' if is_equal else 'OTHER'} weights")
    failed = [one.exitcode for one in members if one.exitcode not in (0, -signal.SIGKILL)]
    return 0 if is_equal and received and not failed else 1


if __name__ == "__main__":
    raise SystemExit(main())
