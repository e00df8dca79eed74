"""What the modes of compare share: the programs that answer requests, what they have measured, and
the form of figures."""

import bisect
import json
import os
import select
import shutil
import statistics
import subprocess
import tempfile
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


class Machines:
    """Two network namespaces and a cable between them, as long as this program runs."""

    NETWORK = "10.78.0"

    def __init__(self):
        self.holders = [subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 36000"],
                                         stdout=subprocess.PIPE) for _ in range(2)]
        for holder in self.holders:
            holder.stdout.readline()
        pids = [str(holder.pid) for holder in self.holders]
        # A core each, of which the launcher knows nothing: it takes them for machines.
        self.enter = [["nsenter", "--target", pid, "--net", "taskset", "--cpu-list", str(core)]
                      for core, pid in zip(sorted(os.sched_getaffinity(0)), pids)]
        self.sh(0, f"ip link add eth0 type veth peer name eth0 netns {pids[1]}")
        for i in range(2):
            self.sh(i, f"ip link set lo up && ip addr add {self.NETWORK}.{i + 1}/24 dev eth0 && "
                       "ip link set eth0 up")
        self.shared = tempfile.NamedTemporaryFile(prefix="rondo-peers-", dir="/dev/shm")
        for i in range(2):  # the carrier comes up to a second later
            self.sh(i, "for i in $(seq 100); do ip -br link show eth0 | grep -q ' UP ' && exit; "
                       "sleep 0.1; done; exit 1")
        self.files = []
        self.agent = tempfile.NamedTemporaryFile("w", prefix="rondo-agent-", delete=False)
        self.agent.write('#!/bin/sh\nshift\nexec ' + " ".join(self.enter[1]) + ' sh -c "$*"\n')
        self.agent.close()
        os.chmod(self.agent.name, 0o700)

    def sh(self, machine, text):
        subprocess.run(self.enter[machine] + ["sh", "-c", text], check=True)

    def command(self, program, passes=()):
        """Rank 0 on the first machine, rank 1 on the second, where mpirun's way is no ssh.

        passes: variables of the environment that go to both.
        """
        root = f"{self.NETWORK}.1"
        network = f"{self.NETWORK}.0/24"
        shared = tempfile.NamedTemporaryFile(prefix="rondo-peers-", dir="/dev/shm",
                                             delete=False)
        shared.close()
        self.files.append(shared.name)
        command = self.enter[0] + mpi_command([], 2, 0, yields=0) + [
            "--host", f"{root},{self.NETWORK}.2", "--mca", "plm_rsh_agent", self.agent.name,
            "--mca", "oob_tcp_if_include", network, "--mca", "btl_tcp_if_include", network,
            "--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]
        for name, value in (("PEER_SHARED", shared.name), ("PEER_ADDRESS", root),
                            ("RONDO_ROOT", root), ("RONDO_SOCKET_IFNAME", "=eth0")):
            command += ["-x", f"{name}={value}"]
        for name in passes:
            command += ["-x", name]
        return command + program

    def close(self):
        for holder in self.holders:
            holder.kill()
            holder.wait()
        for name in [self.agent.name] + self.files:
            os.unlink(name)


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


class Team:
    """The programs that are compared at one number of ranks."""

    def __init__(self, arguments, ranks, cores):
        self.ranks = ranks
        self.cores = Cores(arguments.bin) if ranks == 2 and cores >= 2 else None
        self.programs = {}  # by name; None where there is no such program

    def has_cores(self):
        return not self.cores or self.cores.are_whole()

    def close(self):
        for program in [*self.programs.values(), self.cores]:
            if program:
                program.close()


class Sample:
    """What was measured of one row."""

    def __init__(self, row):
        self.row = row
        self.repeats = []
        self.set_aside = []  # repeats on less than two cores
        self.wrong = 0

    def requests(self, team, arguments):
        """Name, program and request of each measurement of one repeat.

        A name stands next to the names that it is compared with.
        """
        raise NotImplementedError

    def add(self, team, arguments, is_reversed):
        requests = self.requests(team, arguments)
        if is_reversed:
            requests.reverse()
        has_cores = team.has_cores()
        repeat = {name: program.ask(request) for name, program, request in requests if program}
        has_cores &= team.has_cores()
        (self.repeats if has_cores else self.set_aside).append(repeat)
        self.wrong += sum(answer["wrong"] for answer in repeat.values())

    def counted(self):
        return self.repeats or self.set_aside


def reduced(repeats, name, key="middle_ns", reduce=statistics.median):
    values = [repeat[name][key] for repeat in repeats if name in repeat]
    return reduce(values) if values else None


def ratios_of(repeats, above, below):
    """Of the times of two programs, which were asked one after the other in each repeat."""
    return [repeat[above]["middle_ns"] / repeat[below]["middle_ns"]
            for repeat in repeats if above in repeat and below in repeat]


def ratio_of(repeats, above, below):
    ratios = ratios_of(repeats, above, below)
    return statistics.median(ratios) if ratios else None


def ratio_text(ratio):
    if not ratio:
        return "-"
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.1g}"


def spread_text(ratios):
    return f"{min(ratios):.2f}-{max(ratios):.2f}" if len(ratios) > 1 else ""


def wrong_text(result):
    return f"  {result['wrong']} WRONG" if result["wrong"] else ""


def size_text(size):
    for unit, scale in (("MiB", MIB), ("KiB", KIB)):
        if size >= scale:
            return f"{size / scale:.4g} {unit}"
    return f"{size} B"


def read_size(text):
    scale = {"K": KIB, "M": MIB}.get(text[-1:].upper(), 1)
    return int(text[:-1] if scale > 1 else text) * scale


def list_reader(read):
    """Reads a list with commas, for argparse."""
    return lambda text: [read(part) for part in text.split(",")]


def cell(time_ns):
    if time_ns is None:
        return "-"
    micros = time_ns / 1000
    return f"{micros:.2f}" if micros < 100 else f"{micros:.0f}"
