"""Figures that are measured on this machine."""

import glob
import json
import os
import re
import shutil
import statistics
import sys

PEERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "peers")
COMPARE = os.path.join(PEERS, "compare")
sys.path.insert(0, PEERS)
from programs import mpi_command


def cores():
    return len(os.sched_getaffinity(0))



def compare_results(study, options):
    """Results of benchmarks/peers/compare, whose files are left in the folder of results."""
    study.program("rondo-perf")
    study.program("peer_ceiling")
    study.program("peer_cores")
    study.program("peer_mpi")
    if not shutil.which("mpirun"):
        raise study.Missing("no mpirun (Debian: openmpi-bin)")
    study.output([sys.executable, COMPARE, "--bin", study.bin, "--out", study.out, "--what",
                  "study"] + options, environment={"OMPI_MCA_plm": "isolated"})
    newest = max(glob.glob(os.path.join(study.out, "peers-study-*.json")), key=os.path.getmtime)
    with open(newest, encoding="utf-8") as file:
        return json.load(file)["results"]


def fig8(study, figure):
    """Bandwidth by size, two ranks."""
    sizes = "8,1K,32K,1M,16M" if study.quick else "8,256,1K,8K,32K,256K,1M,4M,16M,64M"
    ops = "all_reduce" if study.quick else "all_reduce,all_gather,reduce_scatter,broadcast"
    options = ["--quick"] if study.quick else []
    study.progress("benchmarks/peers/compare")
    results = compare_results(study, options + ["--ranks", "2", "--ops", ops, "--sizes", sizes])
    points = {}
    for result in results:
        ours = result["bytes"] / result["rondo_ns"]
        figure.line(f"{result['op']}, {result['bytes']:,} B: bandwidth over the peer's", 1.0,
                    result["ratio"], "x",
                    f"{ours:.3g} GB/s; threads against processes of Open MPI on the host, the "
                    "paper has NCCL on GPUs (\"on par\")"
                    + (f"; {result['wrong']} WRONG" if result["wrong"] else ""))
        for name, key in (("Rondo", "rondo_ns"), ("Open MPI", "mpi_ns"), ("ceiling", "ceiling_ns")):
            if result["op"] == "all_reduce" and result[key]:
                points.setdefault(name, []).append((result["bytes"],
                                                    result["bytes"] / result[key]))
    figure.chart("All-reduce of two ranks", "bytes", "GB/s", points, log_x=True, log_y=True)
    figure.notes.append("Gloo: benchmarks/peers/compare-torch compares with it where PyTorch is "
                        "installed (scripts/check-torch speed); it is not run here.")


STAGE = re.compile(r"(.+?) {2,}(\d+) +(\d+) +(\d+) +(\d+)")
GOAL = re.compile(r"([a-z].+?) {2,}((?:<= )?[\d and]+) +([\d.]+)")
PAPER_NS = {"CQE write": 2000, "context load": 450, "context save": 50}


def fig7(study, figure):
    """Times of the stages on the host, and what the PTX machine counts of the kernel."""
    study.progress("bench_breakdown")
    output = study.output([study.program("bench_breakdown"), "--rounds",
                           "200" if study.quick else "2000"])
    for stage in filter(None, map(STAGE.fullmatch, output.splitlines())):
        figure.line(f"host: {stage[1]}", PAPER_NS.get(stage[1]), int(stage[4]), "ns",
                    "median on the host, looking at the clock included; the paper's GPU has its "
                    f"queues behind PCIe; 99 % {stage[5]} ns")
    try:
        program = study.program("gpu-model")
    except study.Missing as reason:
        figure.notes.append(f"Counts of the PTX machine: {reason} (it needs a CUDA compiler).")
        return
    study.progress("gpu-model")
    output = study.output([program])
    for goal in filter(None, map(GOAL.fullmatch, output.splitlines())):
        figure.line(f"PTX machine: {goal[1]}", None, float(goal[3]), "",
                    f"counted, not timed: no GPU here; our goal is {goal[2]}")


def urgent_us(study, command):
    """What bench_urgent and peer_urgent_mpi print, by name."""
    output = study.output(command, environment={"OMPI_MCA_plm": "isolated"})
    return {found["what"]: found for found in map(json.loads, output.splitlines())}


def priority(study, figure):
    """The latency of a run of 8 KiB behind eight of 64 MiB, on two ranks."""
    repeats, rounds = (2, "5") if study.quick else (5, "20")
    ours = [study.program("bench_urgent"), "--rounds", rounds]
    peer = os.path.join(study.bin, "peer_urgent_mpi")
    has_mpi = os.access(peer, os.X_OK) and shutil.which("mpirun")
    times = {"fifo": [], "priority": [], "mpi": []}
    for repeat in range(repeats):
        study.progress(f"repeat {repeat + 1} of {repeats}")
        found = urgent_us(study, ours)
        if has_mpi:
            found.update(urgent_us(study, mpi_command([peer, "--rounds", rounds], 2, cores())))
        for what, result in found.items():
            times[what].append(result["urgent_us"])
    median = {what: statistics.median(values) for what, values in times.items() if values}
    why = f"median of {repeats} x {rounds} rounds, slowest rank, 2 ranks; no paper has it"
    figure.line("with priority", None, median["priority"], "us", why)
    figure.line("without priority", None, median["fifo"], "us", why)
    figure.line("without / with priority", None, median["fifo"] / median["priority"], "x", why)
    if has_mpi:
        figure.line("Open MPI, which queues", None, median["mpi"], "us",
                    why + "; MPI_Iallreduce between processes, ours between threads")
        figure.line("Open MPI / ours with priority", None, median["mpi"] / median["priority"], "x",
                    why)
    else:
        figure.notes.append("Open MPI: no peer_urgent_mpi or no mpirun here.")
    figure.notes.append("Gloo: not measured; it has no priority either, and needs PyTorch.")
    figure.chart("8 KiB behind eight of 64 MiB (1: priority, 2: no priority, 3: Open MPI)", "",
                 "us", {what: [(i + 1, median[what])] for i, what in enumerate(
                     ("priority", "fifo", "mpi")) if what in median}, log_y=True, joined=False)
