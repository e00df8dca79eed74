"""rondo-perf with a late rank, and the counters of each collective.

    perf_counters.py PROGRAM
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

ITERATIONS, WARMUP, CHECKS, RANKS, COLLECTIVES, LATE_US = 3, 1, 1, 2, 3, 20000


def run(folder, more):
    path = pathlib.Path(folder, "perf.json")
    done = subprocess.run(
        [sys.argv[1], "-t", str(RANKS), "-b", "64", "-e", "64", "-n", str(ITERATIONS), "-w",
         str(WARMUP), "-c", str(CHECKS), "--in-flight", str(COLLECTIVES), "--json", str(path),
         *more], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout, json.loads(path.read_text())["results"][0]


def check_late(folder):
    """Every iteration takes at least as long as the rank is late, and the others wait for it."""
    text, line = run(folder, ["--counters", "--late-rank", f"1={LATE_US / 1e6}"])
    assert "rank 1 submits 20000 us after the others" in text, text
    found = re.findall(r"^# (out of place|in place), a run and block: .*queue at fetch: mean "
                       r"([0-9.]+), most ([0-9]+); waits: ([0-9.]+) data", text, re.M)
    assert [half[0] for half in found] == ["out of place", "in place"], text
    for half, (_, _, most, waits) in zip(("out_of_place", "in_place"), found):
        result = line[half]
        assert result["min"] >= LATE_US and result["nwrong"] == 0, result
        counts = result["counters"]
        assert len(counts) == COLLECTIVES, counts
        for count in counts:
            assert count["fetches"] == RANKS * (ITERATIONS + WARMUP + CHECKS), count
            assert count["queue_most"] < COLLECTIVES, count
            assert count["queue_sum"] <= count["queue_most"] * count["fetches"], count
            assert count["preemptions"] <= count["switches"], count
            # Rank 0 waits for the data of rank 1 in each iteration.
            assert count["waits_data"] >= ITERATIONS + WARMUP, count
        assert int(most) == max(count["queue_most"] for count in counts), text
        mean = sum(count["waits_data"] for count in counts) / sum(
            count["fetches"] for count in counts)
        assert abs(float(waits) - mean) < 0.01, (text, mean)


def check_off(folder):
    """Without the options there are neither counters nor delays."""
    text, line = run(folder, [])
    assert "queue at fetch" not in text and "after the others" not in text, text
    assert "counters" not in line["out_of_place"], line
    assert line["out_of_place"]["min"] < LATE_US, line


for check in (check_late, check_off):
    with tempfile.TemporaryDirectory() as place:
        check(place)
