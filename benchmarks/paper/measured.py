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


def fig9(study, figure):
    """From submission to callback, against the time in a block."""
    study.progress("bench_ends")
    output = study.output([study.program("bench_ends"), "--rounds",
                           "50" if study.quick else "500"])
    points = {"end to end": [], "core": []}
    for found in map(json.loads, output.splitlines()):
        outside = found["end_to_end_us"] - found["core_us"]
        figure.line(f"{found['bytes']:,} B: end to end less core", None, outside, "us",
                    f"{found['end_to_end_us']:.2f} us from submission to callback, "
                    f"{found['core_us']:.2f} us from the run's first step to its last; medians "
                    f"of {found['rounds']} runs, 2 ranks on the host. The paper compares both with "
                    "NCCL's on GPUs: +4 us for small buffers, -3 us for large ones (core -20)")
        points["end to end"].append((found["bytes"], found["end_to_end_us"]))
        points["core"].append((found["bytes"], found["core_us"]))
    figure.chart("All-reduce of two ranks", "bytes", "us", points, log_x=True, log_y=True)


def fig10_real(study, figure):
    """The same with PyTorch's DistributedDataParallel on the CPU, if PyTorch is there."""
    try:
        study.output([sys.executable, "-c", "import torch, rondo_torch"])
    except study.Failed:
        figure.line("real DDP on the CPU", None, None, "", "it needs PyTorch and Rondo's adapter "
                    "(scripts/check-torch), which this Python does not have",
                    ours_text="skipped")
        return
    path = os.path.join(study.out, "ddp.json")
    study.progress("DDP on the CPU, on Rondo and on Gloo")
    study.output([sys.executable, os.path.join(PEERS, "compare-torch"), "--ops", "ddp_step",
                  "--save", path])
    with open(path, encoding="utf-8") as file:
        for row in json.load(file)["results"]:
            figure.line(f"real DDP on the CPU, layers of {row['bytes']}: Gloo / Rondo", None,
                        row["ratio"], "x", f"{1e3 * row['rondo_s']:.2f} ms a step against "
                        f"{1e3 * row['gloo_s']:.2f} ms; the paper has GPUs")


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


# ------------------------------------------------------------------- DFCCL, Fig. 11 ---

LATE_BUDGETS_US = (1, 10, 100, 1000, 4000)
LATE_US = 5000
LATE_COLLECTIVES, LATE_BYTES = 64, 64 << 10
NO_LOOK_NS = 4000000000  # longer than every budget


def late_run(study, orders, tuning, policy="adaptive", late=True):
    """The least time of an iteration in us, and the counters of the collectives in order."""
    path = os.path.join(study.out, "late.json")
    ranks = min(4, max(2, cores()))
    command = [study.program("rondo-perf"), "-t", str(ranks), "--in-flight",
               str(LATE_COLLECTIVES), "-b", str(LATE_BYTES), "-e", str(LATE_BYTES), "-n", "6",
               "-w", "1", "-c", "0", "--orders", orders, "--budget", policy, "--counters",
               "--json", path]
    if late:
        command += ["--late-rank", f"{ranks - 1}={LATE_US / 1e6}"]
    study.output(command, environment={"RONDO_TUNING": tuning}, limit_s=100)
    with open(path, encoding="utf-8") as file:
        result = json.load(file)["results"][0]["out_of_place"]
    return result["min"], result["counters"]


def late_tuning(look_ns, budget_us):
    """All times that a budget needs; a block quits only after two budgets in vain."""
    budget_ns = budget_us * 1000
    return (f"look_ns={look_ns},front_budget_ns={budget_ns},min_budget_ns=1000,"
            f"max_budget_ns={max(400000, budget_ns)},quit_period_ns={max(200000, 2 * budget_ns)}")


def a_fetch(counters, *names):
    """The mean of the named counters, added up, for one run on one rank."""
    return sum(count[name] for count in counters for name in names) / sum(
        count["fetches"] for count in counters)


def late_sweep(study, look_ns, repeats):
    """Medians of times, and the counters of the last repeat, by policy and budget."""
    times = {"fixed": {}, "adaptive": {}}
    counters = {"fixed": {}, "adaptive": {}}
    for repeat in range(repeats):
        for budget in LATE_BUDGETS_US:
            study.progress(f"host, repeat {repeat + 1} of {repeats}, budget of {budget} us")
            for policy, found in times.items():
                time_us, counters[policy][budget] = late_run(
                    study, "own", late_tuning(look_ns, budget), policy)
                found.setdefault(budget, []).append(time_us)
    medians = {policy: {budget: statistics.median(values) for budget, values in found.items()}
               for policy, found in times.items()}
    return medians, counters


def late_lines(figure, name, swept, ideal_us, default, why):
    """Lines and chart of a sweep; `default` is what Rondo does without any setting."""
    (times, counters), (default_us, of_default) = swept, default
    worst = max(times["fixed"], key=times["fixed"].get)
    figure.line(f"{name}: time with the slowest fixed budget / default", "> 5",
                times["fixed"][worst] / default_us, "x", f"slowest at {worst} us; {why}")
    figure.line(f"{name}: the same fixed budget / adaptive from it", "> 5",
                times["fixed"][worst] / times["adaptive"][worst], "x",
                "what raising the budget after progress alone does")
    switches = {policy: [(budget, a_fetch(count, "switches")) for budget, count in found.items()]
                for policy, found in counters.items()}
    figure.line(f"{name}: switches a run, fixed {LATE_BUDGETS_US[0]} us / {LATE_BUDGETS_US[-1]} us",
                None, switches["fixed"][0][1] / switches["fixed"][-1][1], "x",
                f"{switches['fixed'][0][1]:.2f} against {switches['fixed'][-1][1]:.2f}; default "
                f"{a_fetch(of_default, 'switches'):.2f}, with {a_fetch(of_default, 'loads'):.2f} "
                "contexts loaded; the paper has spikes of hundreds in a picture")
    figure.chart(f"{name}: time", "budget of the front, us", "us", {
        **{policy: sorted(found.items()) for policy, found in times.items()},
        "without the late rank + delay": [(budget, ideal_us) for budget in LATE_BUDGETS_US]},
                 log_x=True, log_y=True)
    figure.chart(f"{name}: switches", "budget of the front, us", "switches a run", switches,
                 log_x=True, log_y=True)


def late_by_id(study, figure):
    """Fig. 11 itself: switches and queue length by the collective's place in the call order."""
    found = {name: late_run(study, "one", tuning, policy)[1] for name, policy, tuning in (
        ("fixed budget of 10 us, no look rounds", "fixed", late_tuning(NO_LOOK_NS, 10)),
        ("adaptive, the default", "adaptive", "look_ns=0"))}
    for what, names, unit in (("context switches", ("switches",), "switches a run"),
                              ("queue length at fetch", ("queue_sum",), "collectives")):
        figure.chart(f"Host, one order: {what} (Fig. 11)", "collective in call order", unit, {
            name: [(i, a_fetch([count], *names)) for i, count in enumerate(counters)]
            for name, counters in found.items()})
    counters = found["adaptive, the default"]
    figure.line("host, one order: queue length at a fetch, mean", None,
                a_fetch(counters, "queue_sum"), "",
                f"greatest {max(count['queue_most'] for count in counters)}: what waits for the "
                "late rank; the paper has a picture")


def late_rank(study, figure):
    """One rank of the host is late: fixed against adaptive budgets, with and without looks."""
    repeats = 1 if study.quick else 3
    name = f"host, {LATE_COLLECTIVES} x {LATE_BYTES >> 10} KiB, own orders"
    study.progress("host, without a late rank")
    ideal_us = LATE_US + min(late_run(study, "own", "look_ns=0", late=False)[0]
                             for _ in range(repeats))
    runs = [late_run(study, "own", "look_ns=0") for _ in range(repeats)]
    default = statistics.median(run[0] for run in runs), runs[-1][1]
    late_lines(figure, f"{name}, no look rounds", late_sweep(study, NO_LOOK_NS, repeats), ideal_us,
               default, "a block leaves a stuck collective only when its budget is spent, as in "
               "DFCCL: each costs its whole budget until the ranks meet")
    late_lines(figure, name, late_sweep(study, 1, repeats), ideal_us, default,
               "no collapse: a block leaves a stuck collective at once for one that is ready")
    figure.line(f"{name}: default / (time without the late rank + delay)", 1.0,
                default[0] / ideal_us, "x", f"{default[0] / 1000:.2f} ms against "
                f"{ideal_us / 1000:.2f} ms; below 1 where the others send ahead meanwhile")
    late_by_id(study, figure)
    figure.notes.append(f"On the host: {min(4, max(2, cores()))} ranks, one thread each, the last "
                        f"sleeps {LATE_US / 1000:g} ms in each iteration. Times are the least of 6 "
                        f"iterations, medians of {repeats} repeats in turn.")
