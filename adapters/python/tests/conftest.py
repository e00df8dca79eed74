"""Fixtures: jobs whose ranks are threads."""

from __future__ import annotations

import threading
from typing import Any, Callable, Iterator, List

import pytest
import rondo

Program = Callable[[rondo.Context], None]
LONG_S = 50.0  # longer than any wait, except a hang


class Job:
    """The contexts of a job. ``on_each`` runs a program on every rank."""

    def __init__(self, ranks: int, **config: Any) -> None:
        id = rondo.unique_id()
        self.contexts = [
            rondo.Context(id, rank=rank, rank_count=ranks, **config) for rank in range(ranks)
        ]

    def on_each(self, program: Program) -> None:
        """Runs ``program`` in one thread a rank, and raises the first exception."""
        errors: List[BaseException] = []

        def main(context: rondo.Context) -> None:
            try:
                program(context)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=main, args=(one,), daemon=True) for one in self.contexts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG_S)
            assert not thread.is_alive(), "a rank hangs"
        if errors:
            raise errors[0]

    def close(self) -> None:
        for context in self.contexts:
            context.close(abort=True)


def on_each(ranks: int, **config: Any) -> Callable[[Program], Callable[..., None]]:
    """Makes a test of a program, which runs on every rank of a job."""

    def make(program: Program) -> Callable[..., None]:
        def test(job: Callable[..., Job]) -> None:
            job(ranks, **config).on_each(program)

        return test

    return make


@pytest.fixture
def job() -> Iterator[Callable[..., Job]]:
    jobs: List[Job] = []

    def make(ranks: int, **config: Any) -> Job:
        jobs.append(Job(ranks, **config))
        return jobs[-1]

    yield make
    for one in jobs:
        one.close()


@pytest.fixture
def alone() -> Iterator[rondo.Context]:
    """A job of one rank."""
    context = rondo.Context()
    yield context
    context.close(abort=True)
