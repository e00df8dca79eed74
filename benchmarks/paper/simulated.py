"""Figures that rondo-sim computes."""

import math
import statistics

KIB, MIB, MB = 1 << 10, 1 << 20, 1000000


def size_of(value):
    return f"{value // MIB} MiB" if value >= MIB else f"{value // KIB} KiB"


# ------------------------------------------------------------------- DFCCL, 6.1 ---

def preemptions(study, figure):
    """Eight all-reduces of 256 B to 1 MB in each rank's own order, budget swept."""
    iterations = 50 if study.quick else 200
    program = {"program": [{"op": "all_reduce", "bytes": 256 << (12 * i + 3) // 7}
                           for i in range(8)]}
    job = ["--program", study.write("preemptions.json", program), "--ranks", "8", "--orders",
           "random", "--iterations", str(iterations)]
    points = {}
    default = study.schedule(job)
    runs = default["runs_ended"]
    for policy in ("fixed", "adaptive"):
        points[policy] = []
        for budget_us in (1, 3, 10, 30, 100, 300):
            study.progress(f"{policy} budget of {budget_us} us")
            found = study.schedule(job + ["--budget", policy, "--front-budget", f"{budget_us}us"])
            points[policy].append((budget_us, found["scheduler"]["preemptions"] / runs))
    figure.line("preemptions a run and block", 11, default["scheduler"]["preemptions"] / runs, "",
                "simulated, links of this machine's model; theirs retries each stuck collective, "
                "ours looks for a ready one first")
    synced = study.schedule(job + ["--sync", "1"])
    for name, paper, found in (("", 1.8, default),
                               (", each call after a device synchronisation", None, synced)):
        figure.line(f"quits an iteration and block{name}", paper,
                    found["scheduler"]["quits"] / 8 / iterations, "",
                    f"{found['outcome']}; blocks quit after 200 us without progress; the paper has "
                    "about 360 a GPU in 200 iterations, for budgets in polls")
    stuck = study.schedule(job + ["--no-preemption"])
    figure.line("without preemption", "hangs", None, "", "found as a cycle of waits by the "
                "analyser", ours_text=stuck["outcome"])
    figure.chart("Preemptions a run against the budget", "budget of the front, us",
                 "preemptions a run", points, log_x=True, log_y=True)


# ----------------------------------------------------------------- DFCCL, Fig. 11 ---

BUDGETS_US = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 390)
LATE_US = 5000


def budgets_sweep(study, name, job):
    """Results of a job by policy and budget."""
    found = {"fixed": {}, "adaptive": {}}
    for policy, results in found.items():
        for budget in BUDGETS_US:
            study.progress(f"{name}, {policy} budget of {budget} us")
            results[budget] = study.schedule(job + [
                "--budget", policy, "--front-budget", f"{round(budget * 1000)}ns",
                "--min-budget", f"{round(min(budget, 1) * 1000)}ns"])
    return found


def per_run(results, counter):
    """Points of a counter of the scheduler, for one run on one rank."""
    return [(budget, found["scheduler"][counter] / found["runs_ended"])
            for budget, found in results.items()]


def late_rank(study, figure, name, job, swept_options=()):
    """Fixed against adaptive budgets if rank 2 is late; the options are only for the sweep."""
    late = job + ["--late-rank", f"2={LATE_US}us"]
    ideal = study.schedule(job)["makespan_us"] + LATE_US
    default = study.schedule(late)
    swept = budgets_sweep(study, name, late + list(swept_options))
    makespans = {policy: [(budget, found["makespan_us"]) for budget, found in results.items()]
                 for policy, results in swept.items()}
    loads = {policy: per_run(results, "loads") for policy, results in swept.items()}
    preempted = {policy: per_run(results, "preemptions") for policy, results in swept.items()}
    slowest, slowest_us = max((y, budget) for budget, y in makespans["fixed"])
    slowest /= default["makespan_us"]
    figure.line(f"{name}: time with the slowest fixed budget / default", "> 5", slowest, "x",
                f"slowest at {slowest_us} us: a block leaves a stuck collective only when its "
                "budget is spent; the default has look rounds" if slowest > 1.1 else
                "no collapse at any budget: a block leaves a stuck collective for one whose data "
                "have arrived, and switches while it would wait for the late rank anyway")
    figure.line(f"{name}: default / (time without the late rank + delay)", 1.0,
                default["makespan_us"] / ideal, "x", "below 1 where the others work ahead "
                "meanwhile, or load fewer contexts because more of them are ready at once")
    for what, points in (("preemptions", preempted), ("contexts loaded", loads)):
        figure.line(f"{name}: {what} a run, fixed {BUDGETS_US[0]} us / {BUDGETS_US[-1]} us", None,
                    points["fixed"][0][1] / points["fixed"][-1][1], "x",
                    f"the spikes of Fig. 11(a): {points['fixed'][0][1]:.1f} against "
                    f"{points['fixed'][-1][1]:.1f}; adaptive from {BUDGETS_US[0]} us "
                    f"{points['adaptive'][0][1]:.1f}")
    figure.line(f"{name}: longest task queue at a fetch", None, default["scheduler"]["queue_most"],
                "", "the spikes of Fig. 11(b): what waits for the late rank, whatever the budget; "
                f"mean {default['scheduler']['queue_mean']:.1f}")
    figure.chart(f"{name}, rank 2 late by {LATE_US / 1000:g} ms", "budget of the front, us",
                 "makespan, us", {**makespans, "without the late rank + delay": [
                     (budget, ideal) for budget in BUDGETS_US]}, log_x=True)
    figure.chart(f"{name}: preemptions", "budget of the front, us", "preemptions a run",
                 preempted, log_x=True, log_y=True)


def fig11(study, figure):
    """A late rank: fixed against adaptive budgets."""
    # Ranks, collectives, size, algorithm, orders, and ns that a switch takes.
    cells = [(4, 161, "256KiB", "ring", "one", 500), (4, 161, "256KiB", "ring", "one", 20000),
             (64, 40, "256KiB", "ring", "random", 500)]
    if not study.quick:
        cells += [(1024, 40, "64KiB", "recursive", "random", 500),
                  (10000, 20, "8KiB", "recursive", "random", 500)]
    for ranks, count, size, algorithm, orders, switch_ns in cells:
        name = f"{ranks} ranks, {count} x {size}, switch {switch_ns / 1000:g} us"
        job = ["--ranks", str(ranks), "--collectives", str(count), "--bytes", size, "--algo",
               algorithm, "--orders", orders, "--switch", f"{switch_ns}ns"]
        late_rank(study, figure, name, job)
        if ranks == 64:
            late_rank(study, figure, f"{name}, no look rounds", job, [
                "--look", "4s", "--quit-period", "10ms"])
    figure.notes.append("Simulated. The paper's switch takes 0.5 us (load 0.45, save 0.05). 4 "
                        "ranks submit in one order, as in the paper, more ranks in orders of their "
                        "own. An arrival wakes a stuck block at once, and polls cost nothing.")


# ----------------------------------------------------------------- DFCCL, Fig. 10 ---

def fig10(study, figure):
    """161 gradients of ResNet50 in a static order, and free."""
    iterations = 5 if study.quick else 50
    job = ["--ranks", "8", "--collectives", "161", "--bytes", "620KiB", "--compute", "300us",
           "--jitter", "0.05", "--iterations", str(iterations), "--latency", "5us", "--bandwidth",
           "8GB/s"]
    rates = {}
    for name, options in (("static order", ["--no-preemption"]), ("free", []),
                          ("coordinator", ["--order", "coordinator"]),
                          ("shuffled", ["--orders", "random"])):
        study.progress(name)
        found = study.schedule(job + options)
        rates[name] = 8 * 48 * iterations * 1e6 / found["makespan_us"]
    figure.line("free / static order, samples/s", 1.012, rates["free"] / rates["static order"],
                "x", "links of 8 GB/s and 5 us, 300 us of compute before each gradient: assumed; "
                "the paper's +1.2 % is its best")
    figure.line("free / coordinator, samples/s", "1.204 to 1.223",
                rates["free"] / rates["coordinator"], "x",
                "as Horovod: rounds of 1 ms, nothing fused; the paper compares with Horovod and "
                "KungFu, which fuse gradients")
    figure.line("every rank shuffles its gradients / static order", None,
                rates["shuffled"] / rates["static order"], "x",
                "worse than any framework: a gradient that one rank submits last waits for the end "
                "of its backward pass")
    stuck = study.schedule(job + ["--orders", "random", "--no-preemption"])
    figure.line("every rank shuffles, without preemption", "hangs", None, "",
                "a cycle of waits", ours_text=stuck["outcome"])
    figure.line("samples/s, free", None, rates["free"], "", "batch 48 a GPU; the compute time is "
                "assumed, so only ratios count")


# ------------------------------------------------------------ DFCCL, Fig. 12 and 13 ---

JITTER = "0.05"


def iterations_of(study, job, count):
    """Times of that many iterations in us, each with jitter of its own."""
    return [study.schedule(job + ["--seed", str(seed)])["makespan_us"]
            for seed in range(1, count + 1)]


def order_study(study, figure, name, job, papers):
    """Mean and coefficient of variation of iterations, free against a static order.

    `papers`: the ratio of the means and that of the coefficients.
    """
    count = 10 if study.quick else 50
    points, means, spreads = {}, {}, {}
    for order in ("static", "free"):
        study.progress(f"{name}, {order}")
        times = iterations_of(study, job + ["--order", order, "--jitter", JITTER], count)
        points[order] = list(enumerate(times, 1))
        means[order] = statistics.mean(times)
        spreads[order] = 100 * statistics.stdev(times) / means[order]
    figure.line(f"{name}: time of an iteration, free / static", papers[0],
                means["free"] / means["static"], "x", f"{means['free'] / 1000:.4g} ms against "
                f"{means['static'] / 1000:.4g} ms; model, links and compute times are assumed, so "
                "only the order is compared")
    figure.line(f"{name}: coefficient of variation, free / static", papers[1],
                spreads["free"] / spreads["static"], "x",
                f"{spreads['free']:.2f} % against {spreads['static']:.2f} %; every compute time "
                f"and latency varies by up to {100 * float(JITTER):g} %, {count} iterations each")
    figure.chart(f"{name}: {count} iterations", "iteration", "us", points)


LINKS = ["--latency", "5us", "--bandwidth", "8GB/s"]


def fig12(study, figure):
    """ViT: buckets of gradients, on 8 and 16 GPUs."""
    for ranks, paper in ((8, "0.93 to 1.09"), (16, "0.97 to 1.03")):
        order_study(study, figure, f"ViT, {ranks} ranks",
                    ["--program", "ddp", "--ranks", str(ranks), "--bytes", "328MiB", "--compute",
                     "3ms", *LINKS], (paper, None))
    figure.notes.append("Simulated: 14 buckets of 25 MiB (ViT-B has 86 M parameters), 3 ms of "
                        "compute before each. The paper has samples/s; its time is the inverse. "
                        "Samples/s themselves need GPUs.")


def fig13(study, figure):
    """GPT-2 with 3D parallelism, on 8 and 16 GPUs."""
    for ranks, shape, paper in ((8, "3d:2,2,2", 1.4 / 1.5), (16, "3d:2,4,2", 4.3 / 3.9)):
        order_study(study, figure, f"GPT-2, {ranks} ranks ({shape})",
                    ["--program", shape, "--ranks", str(ranks), "--collectives", "24", "--bytes",
                     "4MiB", "--compute", "1ms", *LINKS], ("0.96 to 1.04", paper))
    figure.notes.append("Simulated: 24 layers, how the ranks are divided is assumed. The paper's "
                        "coefficients are 1.4 % against 1.5 % on 8 GPUs, and 4.3 % against 3.9 % "
                        "on 16; seconds an iteration need GPUs.")


# -------------------------------------------------------- Big Send-off, Prime, Penny ---

RATIOS = {  # of anchors: 2,048 ranks, 25 GB/s, by latency in us and gathered MB
    20: {16: 48.4, 64: 15.7, 256: 4.89, 512: 2.97, 1024: 1.99},
    50: {16: 86.6, 64: 33.8, 256: 10.4, 512: 5.84, 1024: 3.45},
    100: {16: 118, 64: 56.7, 256: 19.0, 512: 10.4, 1024: 5.84},
}
PUBLISHED = {512: 11.4, 1024: 7.0}  # all-gather over RCCL, 2,048 ranks


FREE = ["--bandwidth", "25GB/s"]  # each rank alone has so much
# Nodes of 8 ranks share 4 interfaces of 25 GB/s, as on Frontier; what is inside a node is assumed.
SHARED = ["--interfaces", "4", "--bandwidth", "25GB/s", "--inner-latency", "5us",
          "--inner-bandwidth", "50GB/s"]


def gather_ratio(study, ranks, megabytes, latency_us, links):
    """The time of an all-gather by ring, divided by that in log2 p rounds."""
    study.progress(f"{ranks} ranks, {megabytes} MB, {latency_us} us")
    machines = ranks // 8 if links is SHARED else 1
    times = [study.schedule([
        "--ranks", str(ranks), "--machines", str(machines), "--op", "all_gather", "--algo",
        algorithm, "--bytes", str(math.ceil(megabytes * MB / ranks)), "--latency",
        f"{latency_us}us", "--slot-bytes", "1GiB", *links])["makespan_us"]
        for algorithm in ("ring", "recursive")]
    return times[0] / times[1]


def sendoff(study, figure):
    """All-gather by ring against log2 p rounds, without and with contention."""
    points = {}
    for latency in (20,) if study.quick else (20, 50, 100):
        series = points[f"{latency} us"] = []
        for megabytes, closed in RATIOS[latency].items():
            ratio = gather_ratio(study, 2048, megabytes, latency, FREE)
            series.append((megabytes, ratio))
            figure.line(f"2,048 ranks, {megabytes} MB, {latency} us", closed, ratio, "x",
                        "the paper's formulas with this latency and 25 GB/s")
    series = points["20 us, 8 ranks of a node share 4 interfaces"] = []
    for megabytes in RATIOS[20]:
        ratio = gather_ratio(study, 2048, megabytes, 20, SHARED)
        series.append((megabytes, ratio))
        figure.line(f"2,048 ranks, {megabytes} MB, 20 us, contention", PUBLISHED.get(megabytes),
                    ratio, "x", "the paper's number is its two-level algorithm over RCCL, ours one "
                    "level of log2 p rounds, whose large messages all leave the node")
    for links, why in ((FREE, "both formulas share the bandwidth term, so log2 p rounds never lose "
                        "without contention"),
                       (SHARED, "one in eight messages of the ring leaves the node, and all of the "
                        "rounds with most data; the paper's number is its two-level algorithm over "
                        "RCCL")):
        figure.line(f"32 ranks, 1024 MB, 20 us{', contention' if links is SHARED else ''}", 0.52,
                    gather_ratio(study, 32, 1024, 20, links), "x", why)
    figure.chart("All-gather among 2,048 ranks: time by ring / log2 p rounds (Fig. 6)",
                 "gathered MB", "ratio", points, log_x=True, log_y=True)


PRIME = (  # name, peers, seconds, GB sent by a peer
    ("North America + Europe", 18, 90.5, 2.02818),
    ("North America", 12, 35.2, 1.9685),
    ("Europe", 6, 8.3, 1.7895),
)


def prime(study, figure):
    """All-reduce of 268,435,456 float32 over the internet."""
    for name, peers, seconds, sent in PRIME:
        megabits = 8000 * sent / seconds
        found = study.schedule(["--ranks", str(peers), "--bytes", str(1 << 30), "--algo", "ring",
                                "--latency", "0us", "--bandwidth", f"{megabits:.1f}Mbit/s",
                                "--slot-bytes", "1GiB"])
        figure.line(f"{name}, {peers} peers: sent by a peer", sent,
                    found["traffic"]["most_bytes_of_a_rank"] / 1e9, "GB",
                    "2(N-1)/N of the data, exactly; the paper rounds")
        figure.line(f"{name}, {peers} peers: time", seconds, found["makespan_us"] / 1e6, "s",
                    f"with the slowest link that the paper's time implies, {megabits:.0f} Mbit/s "
                    "one way, and no latency")


def crossing(points, other):
    """The size at which `other` begins to be faster for good, or none."""
    faster = [size for size, time in points if dict(other)[size] < time]
    slower = [size for size, time in points if dict(other)[size] >= time]
    if not faster or not slower or min(faster) < max(slower):
        return None
    return min(faster)


def penny(study, figure):
    """One-shot and two-shot against the ring on 8 GPUs."""
    sizes = [KIB << i for i in range(0, 17)]
    points = {}
    for algorithm in ("one-shot", "two-shot", "ring", "doubling"):
        study.progress(algorithm)
        points[algorithm] = [(size, study.schedule(
            ["--ranks", "8", "--link", "nvlink", "--algo", algorithm, "--bytes", str(size)])
            ["makespan_us"]) for size in sizes]
    found = crossing(points["one-shot"], points["two-shot"])
    figure.line("two-shot beats one-shot from", "256-512 KiB", None, "",
                "NVLink of the runtime's cost model, in which a rank sends its messages one after "
                "the other; not fitted to their GPUs",
                ours_text=size_of(found) if found else "no crossing")
    found = crossing(points["doubling"], points["ring"])
    figure.line("ring beats log2 n rounds from", "-", None, "", "the paper gives it in a picture",
                ours_text=size_of(found) if found else "no crossing")
    figure.chart("All-reduce of 8 GPUs, simulated", "bytes", "us", points, log_x=True, log_y=True)
