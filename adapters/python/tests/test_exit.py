"""The interpreter's exit and a fork with outstanding runs neither hang nor crash."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

START = """
import os, sys, threading
import numpy as np
import rondo
id = rondo.unique_id()
contexts = [rondo.Context(id, rank=r, rank_count=2) for r in range(2)]
coll = contexts[0].all_reduce(1, 1000, rondo.DType.FLOAT32)
"""


def run(program: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", START + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=50,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        check=False,
    )


@pytest.mark.parametrize(
    "program, status, output",
    [
        # Runs with callbacks: each callback is called, at the latest at exit.
        (
            """
            for _ in range(10):
                coll.run_in_place(np.ones(1000, np.float32), lambda status: print(status.name))
            """,
            0,
            "ERR_ABORTED\n" * 10,
        ),
        ("coll.run_in_place(np.ones(1000, np.float32)); sys.exit(3)", 3, ""),
        # A thread that waits forever.
        (
            """
            runs = [coll.run_in_place(np.ones(1000, np.float32))]
            threading.Thread(target=runs[0].wait, daemon=True).start()
            """,
            0,
            "",
        ),
        # A callback that raises, and one that ends the interpreter.
        ("coll.run_in_place(np.ones(1000, np.float32), lambda status: 1 / 0)", 0, ""),
        ("coll.run_in_place(np.ones(1000, np.float32), lambda status: sys.exit(7))", 0, ""),
        # An exit function uses a closed context.
        (
            """
            import atexit
            def late():
                try: coll.run_in_place(np.ones(1000, np.float32))
                except rondo.ClosedError: print("closed")
            atexit._run_exitfuncs(); late()
            """,
            0,
            "closed\n",
        ),
        # A child process does not close its parent's contexts.
        (
            """
            coll.run_in_place(np.ones(1000, np.float32))
            child = os.fork()
            if child == 0:
                print(contexts[0].closed); sys.exit(5)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), contexts[0].closed)
            """,
            0,
            "True\n5 False\n",
        ),
        # A child process refuses all calls and waits, and says why.
        (
            """
            run = coll.run_in_place(np.ones(1000, np.float32))
            child = os.fork()
            if child == 0:
                for call in (run.wait, coll.deregister, contexts[1].counters):
                    try: call()
                    except rondo.ClosedError as error:
                        print(f"process {os.getppid()}," in str(error))
                contexts[0].close()
                sys.exit()
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), run.status.name)
            """,
            0,
            "True\nTrue\nTrue\n0 IN_PROGRESS\n",
        ),
        # Worker processes have their own jobs while the parent's runs go on.
        (
            """
            other = contexts[1].all_reduce(1, 1000, rondo.DType.FLOAT32)
            def have_job():
                id = rondo.unique_id()
                own = [rondo.Context(id, rank=r, rank_count=2) for r in range(2)]
                colls = [c.all_reduce(1, 10, rondo.DType.INT32) for c in own]
                runs = [coll.run_in_place(np.ones(10, np.int32)) for coll in colls]
                for run in runs: run.wait(20)
                for context in own: context.close()
            for worker in range(6):
                runs = [coll.run_in_place(np.ones(1000, np.float32))]
                child = os.fork()
                if child == 0:
                    have_job()
                    os._exit(0) if worker % 2 else sys.exit(0)
                runs.append(other.run_in_place(np.ones(1000, np.float32)))
                for run in runs: run.wait(20)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            for context in contexts: context.close()
            """,
            0,
            "",
        ),
    ],
)
def test_the_interpreter_ends(program: str, status: int, output: str) -> None:
    ended = run(program)
    assert (ended.returncode, ended.stdout) == (status, output), ended.stderr
    assert "Fatal" not in ended.stderr


def test_a_signal_is_handled_while_a_run_is_waited_for() -> None:
    ended = run(
        """
        import signal
        signal.signal(signal.SIGALRM, lambda number, frame: 1 / 0)
        run = coll.run_in_place(np.ones(1000, np.float32))
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        try:
            run.wait()
        except ZeroDivisionError:
            print("handled")
        """
    )
    assert ended.stdout == "handled\n", ended.stderr
