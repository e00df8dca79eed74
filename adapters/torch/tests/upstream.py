#!/usr/bin/env python3
"""Runs tests that wheels carry with Rondo and with Gloo, and compares the results.

    upstream.py run --suite torch|torchft --backend rondo --save rondo.json [--only WORD]
    upstream.py compare rondo.json gloo.json [--save TABLE]

The suite torch is torch.testing._internal.distributed.distributed_test, unchanged. Its tests choose
by the name of the backend and do not know Rondo. So they are loaded as for Gloo, which makes them
skip the same tests, and then start the other backend. The all-to-all tests on CPU tensors are for
MPI only, though Gloo has the operation now; they run a second time as for MPI, on both backends.
Ranks are forked, so that they do not import PyTorch again.

The suite torchft is those test modules of torchft that use its ProcessGroupGloo, unchanged. With
Rondo they get rondo_torch.torchft.ProcessGroupRondo under that name.

compare exits with 0 if every test that passes with Gloo passes with Rondo, else with 1. Tests that
only other backends can pass are in the table with a reason, and do not count: CANNOT_PASS.
"""

from __future__ import annotations

import argparse
import atexit
import collections
import importlib
import importlib.metadata
import importlib.util
import json
import multiprocessing
import multiprocessing.connection
import os
import platform
import re
import shutil
import signal
import sys
import tempfile
import time
import unittest
from typing import Any, Dict, Iterator, List, Optional, Tuple

PER_TEST_S = 90  # then the ranks of the test are killed
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
# Tests that pass with Gloo and cannot pass with Rondo: the beginning of their names, a word of the
# error, and the reason.
CANNOT_PASS = (
    ("test_ddp_logging_data_cpu", "", "PyTorch logs every backend but its own as 'custom'"),
    (
        "process_group_test.ProcessGroupTest.test_gloo_timeout",
        "RuntimeError not raised",
        "configure does not wait for all ranks",
    ),
    (
        "process_group_test.NormalGlooMultiPgTest.test_collective_with_resiliency_",
        "RONDO_ERR_PEER",
        "the test accepts only what Gloo and NCCL say of a rank that has left",
    ),
)
SUITES = {"torch": "PyTorch's own distributed tests", "torchft": "torchft's own tests"}
TORCHFT = (  # the modules that use ProcessGroupGloo
    "process_group_test",
    "manager_integ_test",
    "local_sgd_integ_test",
    "ddp_test",
    "lighthouse_test",
    "parameter_server_test",
    "checkpointing.pg_transport_test",
)
Outcome = Dict[str, Any]


class Like(str):
    """The name of a backend, which equals another name too."""

    other: str

    def __eq__(self, other: object) -> bool:
        return other == self.other or str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.other)


def load(backend: str, like: str) -> type:
    """The tests as a unittest class. Its ranks use ``backend`` and skip what ``like`` skips."""
    os.environ["BACKEND"] = like
    import torch

    spec = importlib.util.find_spec("torch.testing._internal.distributed.distributed_test")
    assert spec is not None and spec.loader is not None
    upstream = importlib.util.module_from_spec(spec)  # a copy of the module for each backend
    sys.modules[spec.name] = upstream
    spec.loader.exec_module(upstream)
    upstream.BACKEND = Like(backend)
    upstream.BACKEND.other = like

    class Tests(upstream.TestDistBackend, upstream.DistributedTest._DistTestBase):  # type: ignore
        module = upstream

        def setUp(self) -> None:
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return Tests


def prepare(ranks: int) -> None:
    """The environment that the tests read at import."""
    place = tempfile.mkdtemp(prefix="rondo-upstream-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    os.environ.update(
        WORLD_SIZE=str(ranks),
        MASTER_ADDR="127.0.0.1",
        DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(PER_TEST_S),
        INIT_METHOD=f"file://{place}/init",
    )


def cases(backend: str) -> Iterator[Tuple[str, type, str]]:
    """The tests to run: the reported name, the class, and the method's name."""
    loader = unittest.TestLoader()
    tests = load(backend, "gloo")
    for name in loader.getTestCaseNames(tests):
        yield name, tests, name
    tests = load(backend, "mpi")
    for name in loader.getTestCaseNames(tests):
        if "all_to_all" in name and "cuda" not in name:
            yield f"{name} (like MPI)", tests, name


def cases_torchft(backend: str) -> Iterator[Tuple[str, type, str]]:
    """The tests of torchft, as ``cases``."""
    import torchft
    import torchft.process_group

    if backend == "rondo":
        from rondo_torch.torchft import ProcessGroupRondo

        torchft.ProcessGroupGloo = ProcessGroupRondo
        torchft.process_group.ProcessGroupGloo = ProcessGroupRondo
    loader = unittest.TestLoader()
    for name in TORCHFT:
        for suite in loader.loadTestsFromModule(importlib.import_module(f"torchft.{name}")):
            for test in suite:  # type: ignore[union-attr]
                method = test._testMethodName
                # The number is that of the parameter in a set, which has another order each time.
                title = re.sub(r"_\d+_", "_", method)
                yield f"{name}.{type(test).__name__}.{title}", type(test), method


class Recorder(unittest.TestResult):
    """Keeps the outcome of one test."""

    def __init__(self) -> None:
        super().__init__()
        self.outcome: Tuple[str, str] = (PASSED, "")

    def addFailure(self, test: Any, error: Any) -> None:
        self.outcome = (FAILED, self._exc_info_to_string(error, test))

    def addError(self, test: Any, error: Any) -> None:
        self.outcome = (FAILED, self._exc_info_to_string(error, test))

    def addSkip(self, test: Any, reason: str) -> None:
        self.outcome = (SKIPPED, reason)

    def addExpectedFailure(self, test: Any, error: Any) -> None:
        self.outcome = (PASSED, "")

    def addUnexpectedSuccess(self, test: Any) -> None:
        self.outcome = (FAILED, "unexpected success")


def run_here(tests: type, name: str, pipe: Any, log: str) -> None:
    """Runs a test in this process, which was forked for the test and leads its own session."""
    os.setsid()
    if hasattr(tests, "module"):
        sys.modules[tests.module.__name__] = tests.module  # where pickle looks
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    quiet = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(quiet, stream)
    recorder = Recorder()
    unittest.TestSuite([tests(name)]).run(recorder)
    pipe.send(recorder.outcome)
    os._exit(0)


def run_test(tests: type, name: str, log: str) -> Outcome:
    """Runs a test in its own process, and kills the processes that it leaves."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=run_here, args=(tests, name, theirs, log))
    began = time.monotonic()
    process.start()
    theirs.close()
    outcome, why = FAILED, f"hangs: no result after {PER_TEST_S + 60} s"
    try:
        if ours.poll(PER_TEST_S + 60):
            outcome, why = ours.recv()
    except EOFError:
        process.join(5)
        why = f"ended without a result, exit code {process.exitcode}"
    finally:
        process.kill()
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.join()
    return {"outcome": outcome, "why": why, "seconds": round(time.monotonic() - began, 1)}


def last_words(why: str) -> str:
    """The line of a traceback that has the error."""
    lines = [
        line.strip() for line in why.splitlines() if re.match(r"\w[\w.]*(Error|Exception)\b", line)
    ]
    lines = [line for line in lines if "exited with error code" not in line] or why.splitlines()
    return lines[-1] if lines else ""


def environment(suite: str) -> Dict[str, str]:
    import torch

    version = f"torch {torch.__version__}"
    if suite == "torchft":
        version += f", torchft {importlib.metadata.version('torchft')}"
    return {
        "suite": suite,
        "version": version,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def command_run(options: argparse.Namespace) -> int:
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(143)
    )  # so that ranks do not outlive a timeout
    prepare(options.ranks)
    find = cases_torchft if options.suite == "torchft" else cases
    if options.backend == "rondo":
        import rondo_torch  # noqa: F401  (registers the backend)
    chosen = [case for case in find(options.backend) if re.search(options.only, case[0])]
    if not chosen:
        print(f"upstream: no test has {options.only} in its name", file=sys.stderr)
        return 2
    results: Dict[str, Outcome] = {}
    until = time.monotonic() + options.limit_s
    for name, tests, method in chosen:
        if time.monotonic() > until:
            print(
                f"upstream: {len(chosen) - len(results)} tests not run:"
                f" {options.limit_s:g} s are over"
            )
            break
        results[name] = run_test(tests, method, options.log)
        result = results[name]
        if result["outcome"] == FAILED or options.verbose:
            print(f"{name}: {result['outcome']} {last_words(result['why'])}", flush=True)
        if result["outcome"] == FAILED and options.verbose:
            print(result["why"][-3000:])
    sums = collections.Counter(one["outcome"] for one in results.values())
    print(f"{options.suite}, {options.backend}: {counted(sums)}")
    if options.save:
        report = dict(environment(options.suite), backend=options.backend, tests=results)
        report["machine"] += f", {options.ranks} ranks" if options.suite == "torch" else ""
        with open(options.save, "w") as file:
            json.dump(report, file, indent=1)
    return 0 if len(results) == len(chosen) else 1


def counted(sums: "collections.Counter[str]") -> str:
    return ", ".join(f"{sums[one]} {one}" for one in (PASSED, FAILED, SKIPPED))


def reason_it_cannot_pass(name: str, outcome: Outcome) -> str:
    for begin, word, reason in CANNOT_PASS:
        if name.startswith(begin) and word in outcome["why"]:
            return reason
    return ""


def table(ours: Dict[str, Any], theirs: Dict[str, Any]) -> Tuple[List[str], List[str]]:
    """The lines of the comparison, and the names of the tests that pass only with Gloo."""
    missing: Outcome = {"outcome": "not run", "why": ""}
    names = sorted(set(ours["tests"]) | set(theirs["tests"]))
    wide = max(map(len, names), default=0)
    rows: List[str] = []
    worse: List[str] = []
    cannot: List[str] = []  # lines
    both: "collections.Counter[Tuple[str, str]]" = collections.Counter()
    for name in names:
        mine = ours["tests"].get(name, missing)
        other = theirs["tests"].get(name, missing)
        pair = (mine["outcome"], other["outcome"])
        both[pair] += 1
        if other["outcome"] == PASSED and mine["outcome"] != PASSED:
            reason = reason_it_cannot_pass(name, mine)
            if reason:
                cannot.append(f"and {name} cannot: {reason}")
            else:
                worse.append(name)
        words = last_words(mine["why"] if mine["outcome"] != PASSED else other["why"])
        rows.append(f"{name:<{wide}} {pair[0]:<8} {pair[1]:<8} {words[:110]}".rstrip())
    head = [
        f"{SUITES[ours['suite']]}, as its wheel carries them, with Rondo and with Gloo.",
        f"{ours['version']}, Python {ours['python']}, {ours['machine']}, {ours['date']}",
        "",
    ]
    head += [
        f"{count:4d}  {mine} with Rondo, {other} with Gloo"
        for (mine, other), count in sorted(both.items(), key=lambda item: -item[1])
    ]
    head += ["", f"{len(worse)} pass with Gloo and not with Rondo" + (":" if worse else "")]
    head += [f"  {name}" for name in worse]
    head += cannot
    head += [
        "",
        f"{'test':<{wide}} {'Rondo':<8} {'Gloo':<8} last words of the one that did not pass",
    ]
    return head + rows, worse


def count_line(ours: Dict[str, Any], worse: List[str]) -> str:
    """The counts of passed, failed and skipped tests, for scripts/check-torch. A test that fails
    with Gloo too counts as skipped."""
    good = sum(one["outcome"] == PASSED for one in ours["tests"].values())
    return f"{good} {len(worse)} {len(ours['tests']) - good - len(worse)}"


def command_compare(options: argparse.Namespace) -> int:
    reports = []
    for path in (options.ours, options.theirs):
        with open(path) as file:
            reports.append(json.load(file))
    lines, worse = table(*reports)
    if options.count:
        with open(options.count, "w") as file:
            file.write(count_line(reports[0], worse) + "\n")
    if options.save:
        with open(options.save, "w") as file:
            file.write("\n".join(lines) + "\n")
    short = len(lines) - len(set(reports[0]["tests"]) | set(reports[1]["tests"])) - 2
    print("\n".join(lines if options.verbose else lines[:short]))
    return 1 if worse else 0


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--verbose", action="store_true", help="say all that is known of each test")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("--suite", choices=list(SUITES), default="torch")
    run.add_argument("--backend", default="rondo")
    run.add_argument("--ranks", type=int, default=4, help="of the suite torch")
    run.add_argument("--only", default="", help="a regular expression that names must have")
    run.add_argument("--save", help="the file for the outcomes, JSON")
    run.add_argument("--log", default=os.devnull, help="the file for what the test at hand prints")
    run.add_argument("--limit-s", type=float, default=3600, help="no test starts after so long")
    run.set_defaults(function=command_run)
    compare = commands.add_parser("compare")
    compare.add_argument("ours")
    compare.add_argument("theirs")
    compare.add_argument("--save", help="the file for the whole table")
    compare.add_argument("--count", help="the file for the numbers passed, failed and skipped")
    compare.set_defaults(function=command_compare)
    options = parser.parse_args(arguments)
    return int(options.function(options))


if __name__ == "__main__":
    sys.exit(main())
