"""DFCCL section 2.4: Table 1 and the conclusions drawn from it, computed by rondo-sim deadlock."""

import math
import random
import time

ROWS = [f"s{i}" for i in range(1, 9)] + [f"y{i}" for i in range(1, 11)]
VARIANTS = {"interleaved": "interleaved", "sequential": "sequential",
            "dfccl": "published", "dfccl-sequential": "published-sequential"}
LAST = {"interleaved": "interleaved-last", "sequential": "sequential-last"}
PAPER_ROUNDS = 32000

NOT_REPRODUCED = {
    "s6": "every exact variant and grouping lies above it; a tenth of the disorder would give it",
    "s7": "contradicts s8, which has a tenth of its disorder, in every variant",
    "s8": "every exact variant and grouping lies above it, and it contradicts s7",
    "s4": "contradicts s3: a lone skip is fatal or not, so ten times the disorder make 4.6 % of it",
    "y4": "about double y2, as exact cycles are; the published decisions, which y2 fits, more than "
          "double, because a synchronisation without effect costs a turn and GPUs drift apart",
    "y10": "not in these 20 groupings, but in others: see the line on y10 below",
}
WHY = {
    "s5": "one group: the order of lists and the detector make no difference",
    "y5": "on sequential lists, unlike y1 to y4",
}
FREE_SYNC = ("the published detector reports chains of waits that do not close; cycles close only "
             "if a skipped collective is invoked last")


def wilson(hits, trials):
    """The 95 % interval of a ratio."""
    z, share = 1.959964, hits / trials
    middle = share + z * z / (2 * trials)
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return (middle - half) / (1 + z * z / trials), (middle + half) / (1 + z * z / trials)


def verdict(ok):
    return "agrees" if ok else "does not agree"


def time_note(figure, began):
    figure.notes.append(f"Computed in {time.monotonic() - began:.0f} s.")


def interval(tally):
    return (f"{100 * tally['ratio']:.3g} [{100 * tally['low95']:.3g}, "
            f"{100 * tally['high95']:.3g}]")


def deadlock(study, options):
    """The rows that rondo-sim deadlock finds."""
    return study.rondo_sim(["deadlock", "-q", "--json", "-"] + options)["rows"]


# ------------------------------------------------------------------------ Table 1 ---

def row_tallies(study, name, rounds):
    """The row as JSON, and its tallies by the title of the variant."""
    row = deadlock(study, ["--preset", "table1", "--rows", name, "-n", str(rounds)])[0]
    tallies = {title: row["variants"][key] for key, title in VARIANTS.items()}
    # A skip then disturbs the rest of its list, and 3D groups at 4e-3 always deadlock.
    few = max(20, rounds // (1600 if name == "y5" else 64)) if name in ROWS[8:13] else rounds
    last = deadlock(study, ["--preset", "table1", "--rows", name, "-n", str(few), "--skipped",
                            "last", "--variant", ",".join(LAST)])[0]
    return row, {**tallies, **{title: last["variants"][key] for key, title in LAST.items()}}


def row_line(figure, row, tallies):
    """Which variants agree, and the intervals of all. True if one does."""
    name, paper = row["row"], row["paper"]
    agreeing = [title for title, tally in tallies.items() if tally["agrees_with_paper"]]
    nearest = min(agreeing or tallies, key=lambda title: abs(tallies[title]["ratio"] - paper))
    why = WHY.get(name, FREE_SYNC if name in ("y6", "y7", "y8", "y9", "y10") else "")
    result = (f"reproduced with {', '.join(agreeing)}" + (f"; {why}" if why else "")
              if agreeing else f"not reproduced: {NOT_REPRODUCED.get(name, why)}")
    figure.line(f"{name}: {row['configuration']}", 100 * paper, 100 * tallies[nearest]["ratio"],
                "%", f"{result}. " + "; ".join(f"{title} {interval(tally)}"
                                               for title, tally in tallies.items()),
                ours_text=f"{100 * tallies[nearest]['ratio']:.3g} % ({nearest})")
    return bool(agreeing)


def tenfold_lines(figure, found):
    """What one row of the single queue says of another that has ten times its disorder."""
    for less, more in (("s1", "s2"), ("s3", "s4"), ("s8", "s7")):
        paper = found[less][0]["paper"], found[more][0]["paper"]
        low, high = (1 - (1 - x) ** 10 for x in wilson(round(paper[0] * PAPER_ROUNDS),
                                                       PAPER_ROUNDS))
        ours = found[less][1]["interleaved"]["ratio"], found[more][1]["interleaved"]["ratio"]
        fits = low <= paper[1] <= high
        figure.line(f"{more} from {less}: each skip by itself, ten times as many",
                    100 * paper[1], 100 * (1 - (1 - paper[0]) ** 10), "%",
                    f"{'consistent' if fits else 'not both from one grouping and one model'}: 95 % "
                    f"interval {100 * low:.3g} to {100 * high:.3g}; the same step in ours gives "
                    f"{100 * (1 - (1 - ours[0]) ** 10):.3g} and is simulated as "
                    f"{100 * ours[1]:.3g}")


def disorder_lines(figure, found):
    """The disorder at which the exact model gives the paper's ratio of a free single queue."""
    for name in ("s6", "s7", "s8"):
        row, tallies = found[name]
        needed = {order: row["disorder"] * math.log1p(-row["paper"]) / math.log1p(
            -tallies[order]["ratio"]) for order in ("interleaved", "sequential")}
        figure.line(f"{name}: disorder that gives the paper's ratio", row["disorder"],
                    needed["sequential"], "",
                    f"sequential; interleaved {needed['interleaved']:.3g}. Near a tenth of the "
                    "printed disorder" + (", but in no variant with that of s8" if name == "s7"
                                          else ""))


def agrees(paper, tally):
    """The paper's ratio and ours are at most three standard deviations apart."""
    rounds = tally["rounds"]
    pooled = (tally["deadlocks"] + paper * PAPER_ROUNDS) / (rounds + PAPER_ROUNDS)
    sigma = math.sqrt(pooled * (1 - pooled) * (1 / rounds + 1 / PAPER_ROUNDS))
    return abs(tally["ratio"] - paper) <= 3 * sigma


def one_grouping_lines(study, figure):
    """In how many drawn groupings rows y6 to y9 agree at once, as they share one, and y10."""
    draws, rounds = (20, 500) if study.quick else (60, 8000)
    rows = deadlock(study, ["--preset", "table1", "--rows", "y6,y7,y8,y9,y10", "--draws",
                            str(draws), "-n", str(draws * rounds), "--variant",
                            "dfccl,dfccl-sequential"])
    for names, those in (("y6 to y9 at once", rows[:4]), ("y10", rows[4:])):
        for key in ("dfccl-sequential", "dfccl"):
            groupings = [[row["variants"][key]["groupings"][i] for row in those]
                         for i in range(draws)]
            agreeing = [tallies for tallies in groupings if all(
                agrees(row["paper"], tally) for row, tally in zip(those, tallies))]
            text = "; ".join(", ".join(f"{100 * t['ratio']:.3g}" for t in tallies)
                             for tallies in agreeing[:2])
            figure.line(f"groupings with {names}: {VARIANTS[key]}", None, len(agreeing), "",
                        f"agree within three standard deviations, {rounds:,} rounds each"
                        + (f", such as {text} %" if text else ""),
                        ours_text=f"{len(agreeing)} of {draws}")


def table1(study, figure):
    """The ratio of deadlocked rounds of 18 configurations."""
    began = time.monotonic()
    rounds = 3200 if study.quick else PAPER_ROUNDS
    points = {name: [] for name in ["the paper", *VARIANTS.values(), *LAST.values()]}
    agreed, found = 0, {}
    for number, name in enumerate(ROWS, 1):
        study.progress(f"row {name} of {len(ROWS)}")
        found[name] = row, tallies = row_tallies(study, name, rounds)
        agreed += row_line(figure, row, tallies)
        points["the paper"].append((number, 100 * row["paper"]))
        for title, tally in tallies.items():
            points[title].append((number, 100 * tally["ratio"]))
    tenfold_lines(figure, found)
    disorder_lines(figure, found)
    study.progress("rows y6 to y10 by grouping")
    one_grouping_lines(study, figure)
    figure.chart("Deadlocked rounds by row (1-8: s1-s8, 9-18: y1-y10)", "row", "%", points,
                 log_y=True, joined=False)
    figure.notes.append(f"{agreed} of {len(ROWS)} rows agree with at least one variant, {rounds:,} "
                        "rounds each (of y1 to y5 fewer with -last); brackets are 95 % intervals "
                        "by Wilson. Interleaved and sequential lists: exact searches for "
                        "cycles; -last: a skipped collective is invoked after all others. "
                        "Published: the decisions of the paper's program, on interleaved or "
                        "sequential lists. With drawn groupings the paper must lie between the "
                        "least and the greatest of 20. Zeros are not drawn.")
    time_note(figure, began)


# -------------------------------------------------------------------- conclusions ---

SHAPE = ["--3d", "4,4,4", "--collectives", "400,1200"]
SYNC = ["--model", "synchronisation"]


def drawn(study, skipped):
    """A file with the (32, 64)-free grouping, of which the paper gives the sizes."""
    return study.write(f"deadlock-free-{skipped}.json", {
        "model": "synchronisation", "disorder": 4e-5, "synchronisation": 4e-5, "skipped": skipped,
        "grouping": {
            "policy": "drawn", "gpus": 64, "groups": [{"count": 28, "gpus": 3},
                                                      {"count": 4, "gpus": 8}],
            "collectives": [400, 1200], "max_groups_per_gpu": 5, "draws": 20}})


def swept(study, options, key, ends, count, variant):
    """Tallies by the swept value."""
    rows = deadlock(study, options + ["--sweep", f"{key}={ends[0]:g}..{ends[1]:g}:log:{count}",
                                      "--variant", variant])
    return [(row[f"swept_{key}"], row["variants"][variant]) for row in rows]


def percents(tallies):
    return [(x, 100 * tally["ratio"]) for x, tally in tallies]


def rises(tallies):
    return all(a["ratio"] < b["ratio"] for (_, a), (_, b) in zip(tallies, tallies[1:]))


def first_conclusion(study, figure, rounds):
    """Tiny probabilities, large ratios."""
    series = {}
    for name, options in (("(4, 4, 4)-3D, single queue", SHAPE),
                          ("(8, 6, 64)-3D, single queue",
                           ["--3d", "8,6,64", "--collectives", "400,1200"]),
                          ("one group of 8 GPUs, single queue", [])):
        series[name] = swept(study, options + rounds, "disorder", (1e-9, 1e-5), 9, "sequential")
    most, tally = max(((t["ratio"] / p, t) for tallies in series.values() for p, t in tallies
                       if t["deadlocks"] > 10), key=lambda pair: pair[0])
    figure.line("1: single queue, ratio / disorder, at most", 0.0049 / 1e-9, most, "",
                f"{verdict(most > 1e6)}: sequential lists, where each skip "
                f"is fatal, {interval(tally)} %")
    free = ["--preset", "table1", "--rows", "y9", *rounds, "--variant", "interleaved", "--skipped"]
    kept, last = (deadlock(study, free + [how])[0]["variants"]["interleaved"]
                  for how in ("keeps-odds", "last"))
    most = last["ratio"] / 4e-5
    figure.line("1: synchronisation, ratio / probability (y9)", 0.0694 / 4e-5, most, "",
                f"{verdict(most > 1e3)} if a skipped collective is invoked "
                f"last: {interval(last)} %; if it is first in line again, as published, "
                f"{interval(kept)} %")
    figure.chart("Conclusion 1: ratio against disorder, exact cycles", "disorder probability", "%",
                 {**{name: percents(tallies) for name, tallies in series.items()},
                  "the paper, 3D": [(1e-7, 1.10), (1e-6, 9.97), (1e-9, 0.47), (1e-8, 3.59)],
                  "the paper, one group": [(1e-5, 1.21)]}, log_x=True, log_y=True)


def second_conclusion(study, figure, rounds):
    """The ratio rises with either probability. Returns the tallies."""
    base = SHAPE + SYNC + rounds
    series = {
        "disorder swept": swept(study, base + ["-s", "4e-3"], "disorder", (1e-3, 1.6e-2), 5,
                                "interleaved"),
        "synchronisation swept": swept(study, base + ["-d", "4e-3"], "synchronisation",
                                       (1e-3, 1.6e-2), 5, "interleaved")}
    ok = all(map(rises, series.values()))
    figure.line("2: rises with disorder and with synchronisation", "rises", None, "",
                f"{verdict(ok)}: (4, 4, 4)-3D, the other at 4e-3: " + "; ".join(
                    f"{name} {interval(tallies[0][1])} to {interval(tallies[-1][1])} %"
                    for name, tallies in series.items()), ours_text="rises" if ok else "does not")
    figure.chart("Conclusion 2: the other probability is 4e-3, (4, 4, 4)-3D, exact cycles",
                 "probability", "%", {name: percents(t) for name, t in series.items()},
                 log_x=True, log_y=True)


def exponent(tallies):
    """The slope between the first and the last point on logarithmic axes, and its 95 % interval."""
    (x, a), (y, b) = tallies[0], tallies[-1]
    if not a["deadlocks"] or not b["deadlocks"]:
        return None, "too few deadlocks"
    slope = math.log(b["ratio"] / a["ratio"]) / math.log(y / x)
    half = 1.96 * math.sqrt(1 / a["deadlocks"] + 1 / b["deadlocks"]) / math.log(y / x)
    return slope, f"[{slope - half:.2f}, {slope + half:.2f}]"


def third_conclusion(study, figure, rounds):
    """More sensitive to synchronisation than to disorder: exponents of both."""
    settings = (
        ("(4, 4, 4)-3D at 4e-3", SHAPE + SYNC + ["-d", "4e-3", "-s", "4e-3"], 4e-3, "interleaved"),
        ("(32, 64)-free at 4e-5, skipped last", [drawn(study, "last")], 4e-5, "interleaved"),
        ("(32, 64)-free at 4e-5, published-sequential", [drawn(study, "keeps-odds")], 4e-5,
         "dfccl-sequential"))
    series = {}
    for name, options, middle, variant in settings:
        study.progress(f"conclusion 3: {name}")
        found = {key: swept(study, options + rounds, key, (middle / 2, middle * 2), 3, variant)
                 for key in ("disorder", "synchronisation")}
        slopes = {key: exponent(tallies) for key, tallies in found.items()}
        known = all(slope is not None for slope, _ in slopes.values())
        ok = known and slopes["synchronisation"][0] > slopes["disorder"][0]
        for key, paper in (("disorder", math.log10(1.16 / 0.81)),
                           ("synchronisation", math.log2(6.56 / 1.16))):
            figure.line(f"3: {name}: exponent of {key}", paper, slopes[key][0], "",
                        f"{verdict(ok)} that synchronisation weighs more; "
                        f"95 % {slopes[key][1]}" + (
                            "; a deadlock needs one skip, so the ratio is proportional to "
                            "disorder, and ten times the disorder cannot give the paper's 42 %"
                            if variant == "interleaved" and key == "disorder" else ""))
            series[f"{name}: {key}"] = [(x / middle, y) for x, y in percents(found[key])]
    figure.chart("Conclusion 3: one probability doubled and halved", "factor", "%", series,
                 log_x=True, log_y=True)


def fourth_conclusion(study, figure, rounds):
    """The ratio rises with GPUs and with collectives."""
    models = (("single queue, disorder 1e-7", ["-d", "1e-7"], "sequential"),
              ("synchronisation, 4e-3", SYNC + ["-d", "4e-3", "-s", "4e-3"], "interleaved"))
    for what, cases in (
            ("GPUs", [(16 * p, ["--3d", f"4,4,{p}", "--collectives", "400,1200"])
                      for p in (1, 4, 16, 64)]),
            ("collectives of a GPU", [(4 * n, ["--3d", "4,4,4", "--collectives", f"{n},{3 * n}"])
                                      for n in (100, 200, 400, 800)])):
        series = {}
        for name, options, variant in models:
            study.progress(f"conclusion 4: {what}, {name}")
            series[name] = [(x, deadlock(study, shape + options + rounds + [
                "--variant", variant])[0]["variants"][variant]) for x, shape in cases]
        ok = all(map(rises, series.values()))
        figure.line(f"4: rises with {what}", "rises", None, "",
                    f"{verdict(ok)}, about in proportion: {cases[0][0]} to "
                    f"{cases[-1][0]}: " + "; ".join(
                        f"{name} {interval(t[0][1])} to {interval(t[-1][1])} %"
                        for name, t in series.items()), ours_text="rises" if ok else "does not")
        figure.chart(f"Conclusion 4: ratio against {what}, exact cycles", what, "%",
                     {name: percents(t) for name, t in series.items()}, log_x=True, log_y=True)


def groups_of_four(degree, collectives, seed):
    """64 GPUs, each in `degree` random groups of four."""
    shuffler, groups = random.Random(seed), []
    for _ in range(degree):
        gpus = list(range(64))
        shuffler.shuffle(gpus)
        groups += [{"gpus": sorted(gpus[i:i + 4]), "collectives": collectives}
                   for i in range(0, 64, 4)]
    shuffler.shuffle(groups)
    return groups


def overlap_tally(study, degree, collectives, settings, rounds):
    """Deadlocks over three groupings."""
    hits = trials = 0
    for seed in range(3):
        path = study.write("deadlock-overlap.json", {
            "model": "synchronisation", **settings, "grouping": {
                "policy": "free", "groups": groups_of_four(degree, collectives, seed)}})
        tally = deadlock(study, [path] + rounds)[0]["variants"][settings["order"]]
        hits, trials = hits + tally["deadlocks"], trials + tally["rounds"]
    low, high = wilson(hits, trials)
    return {"ratio": hits / trials, "deadlocks": hits, "low95": low, "high95": high}


def fifth_conclusion(study, figure, rounds):
    """The number of groups of a GPU, with as many collectives a group or a GPU."""
    ways = (
        ("4e-3, sequential", {"disorder": 4e-3, "synchronisation": 4e-3, "order": "sequential"}),
        ("4e-5, interleaved, skipped last", {"disorder": 4e-5, "synchronisation": 4e-5,
                                             "order": "interleaved", "skipped": "last"}))
    series = {}
    for name, settings in ways:
        for each, count in (("group", lambda degree: 400), ("GPU", lambda degree: 1600 // degree)):
            study.progress(f"conclusion 5: {name}, as many collectives a {each}")
            tallies = [(degree, overlap_tally(study, degree, count(degree), settings, rounds))
                       for degree in (1, 2, 4, 5)]
            series[f"{name}: as many collectives a {each}"] = tallies
            ok = tallies[-1][1]["low95"] > tallies[0][1]["high95"]
            figure.line(f"5: groups of a GPU 1 to 5, {name}, as many collectives a {each}", "rises",
                        None, "", f"{verdict(ok)}: "
                        f"{interval(tallies[0][1])} to {interval(tallies[-1][1])} %; "
                        + ("a GPU in five groups also has five times the collectives"
                           if each == "group" else "this is overlap alone"),
                        ours_text="rises" if ok else "does not")
    free, shaped = (deadlock(study, options + rounds + ["--variant", "interleaved"])[0]["variants"][
        "interleaved"] for options in (
            [drawn(study, "last")],
            SHAPE + SYNC + ["-d", "4e-5", "-s", "4e-5", "--skipped", "last"]))
    figure.line("5: (32, 64)-free / (4, 4, 4)-3D, both at 4e-5, skipped last", None,
                free["ratio"] / shaped["ratio"] if shaped["ratio"] else None, "x",
                f"{interval(free)} against {interval(shaped)} %: the paper sets free groups at "
                "4e-5 against 3D at 4e-3 and takes the factor of 100 for one of overlap. At equal "
                "probabilities there is none. If a skipped collective is first in line again, free "
                "groups at 4e-5 have no cycles")
    figure.chart("Conclusion 5: 64 GPUs in groups of four, exact cycles", "groups of a GPU", "%",
                 {name: percents(tallies) for name, tallies in series.items()}, log_y=True)


def conclusions(study, figure):
    """The five conclusions of section 2.4.3, with exact cycles."""
    began = time.monotonic()
    rounds = ["-n", str(2000 if study.quick else PAPER_ROUNDS)]
    fewer = ["-n", str(1000 if study.quick else 8000)]
    for number, (conclude, count) in enumerate((
            (first_conclusion, rounds), (second_conclusion, rounds), (third_conclusion, rounds),
            (fourth_conclusion, fewer), (fifth_conclusion, fewer)), 1):
        study.progress(f"conclusion {number}")
        conclude(study, figure, count)
    figure.notes.append("All points are exact cycles except those called published. On the paper's "
                        "free groupings such cycles need a skipped collective that is invoked "
                        "last; groups of four on 64 GPUs are ours.")
    time_note(figure, began)
