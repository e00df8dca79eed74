"""What the modes of compare share: the programs that answer requests, and the form of figures."""

import bisect
import json
import os
import select
import shutil
import subprocess
import time

KIB, MIB = 1 << 10, 1 << 20
# How much longer work takes, at least, on two busy processors of one core (1.7 is usual), and on
# one whose core a neighbour uses too (1.4 is usual).
ONE_CORE = 1.4
SHARED_CORE = 1.2

ANSWER_SECONDS = 300  # the longest request takes a tenth of it


class Program:
    """One program that answers requests, one JSON object a line."""

    def __init__(self, command, environment=None):
        self.command = command
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                env=dict(os.environ, **(environment or {})))
        except OSError as error:
            raise SystemExit(f"compare: {command[0]}: {error.strerror}") from None
        self.name = self.read().get("ready", "?")

    def read(self):
        # One line is an answer, so nothing of the next one is in the buffer of the file.
        if not select.select([self.process.stdout], [], [], ANSWER_SECONDS)[0]:
            self.process.terminate()
            command = " ".join(self.command)
            raise SystemExit(f"compare: {command} has not answered in {ANSWER_SECONDS} s")
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"compare: {' '.join(self.command)} ended with no answer")
        return json.loads(line)

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        answer = self.read()
        if "error" in answer:
            raise SystemExit(f"compare: {self.name}: {request}: {answer['error']}")
        return answer

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()


def mpi_command(program, ranks, cores, yields=1):
    """Under Open MPI, with a core a rank where there are enough, else yielding when idle."""
    command = ["mpirun", "-np", str(ranks), "--oversubscribe"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-run-as-root")
    if ranks <= cores:
        command += ["--bind-to", "core", "--mca", "mpi_yield_when_idle", "0"]
    else:
        command += ["--bind-to", "none", "--mca", "mpi_yield_when_idle", str(yields)]
    return command + program


def start_rondo(arguments, ranks, cores, options=()):
    """Starts rondo-perf for the arguments of compare: ranks are threads, or processes of mpirun."""
    pin = "0" if ranks > cores else "1"
    command = [os.path.join(arguments.bin, "rondo-perf"), "--serve", "-t", str(ranks), "--pin",
               pin] + arguments.rondo + list(options)
    return Program(mpi_command(command, ranks, cores) if arguments.processes else command)


def start_mpi(arguments, ranks, cores):
    """peer_mpi, or nothing where there is no MPI."""
    mpi = os.path.join(arguments.bin, "peer_mpi")
    if os.path.exists(mpi) and shutil.which("mpirun"):
        return Program(mpi_command([mpi], ranks, cores))
    return None


class Cores:
    """Looks whether the two processors are two whole cores."""

    def __init__(self, binaries):
        self.program = Program([os.path.join(binaries, "peer_cores")])
        self.times = []  # of what each does alone, sorted
        for _ in range(100):
            self.are_whole()
            time.sleep(0.01)

    def are_whole(self):
        answer = self.program.ask("")
        alone = [answer["first_ns"], answer["second_ns"]]
        for value in alone:
            bisect.insort(self.times, value)
        # Not the least: at times there is a neighbour, and at times the clock is faster.
        usual = self.times[len(self.times) // 10]
        return max(alone) <= SHARED_CORE * usual and answer["both_ns"] <= ONE_CORE * alone[0]

    def close(self):
        self.program.close()


def size_text(size):
    for unit, scale in (("MiB", MIB), ("KiB", KIB)):
        if size >= scale and size % scale == 0:
            return f"{size // scale} {unit}"
    return f"{size} B"


def cell(time_ns):
    if time_ns is None:
        return "-"
    micros = time_ns / 1000
    return f"{micros:.2f}" if micros < 100 else f"{micros:.0f}"
