"""Runs of the explorer, played again by the schedule simulator: all turns of blocks are equal, and
a difference that is planted in a record is found."""

import copy
import json
import os
import subprocess
import sys
import tempfile

EXPLORER, SIMULATOR = sys.argv[1:3]
SEEDS = 20 if "RONDO_TEST_REDUCED" in os.environ else 200
PLANTED_SEEDS = 20


def play(path):
    """Returns the exit status and what the simulator says of a record."""
    done = subprocess.run([SIMULATOR, "schedule", "--turns", path], capture_output=True, text=True,
                          check=False)
    return done.returncode, done.stdout + done.stderr


def play_changed(folder, record):
    """Plays a record that was changed."""
    path = os.path.join(folder, "changed.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(record, file)
    return play(path)


def explore(folder, seed):
    """Records a seed. Returns the path."""
    path = os.path.join(folder, f"{seed}.json")
    subprocess.run([EXPLORER, "--seed", str(seed), "--record", path], check=True)
    return path


def check_equal(folder):
    """All turns of all seeds are equal, and they have what is worth to be compared."""
    preemptions = quits = evictions = compared = 0
    for seed in range(1, SEEDS + 1):
        path = explore(folder, seed)
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        if any("packets" in c["algorithm"] for c in record["collectives"]):
            continue  # the simulator sends slots, which wait for credits
        status, text = play(path)
        assert status == 0 and text.endswith("turns: equal\n"), (seed, text)
        compared += 1
        starts = {(t["rank"], c) for t in record["turns"] for c in t["given"]}
        preemptions += sum(t["counts"][2] for t in record["turns"])
        evictions += sum(t["counts"][3] for t in record["turns"]) - len(starts)
        quits += sum(t["counts"][5] for t in record["turns"])
    assert compared > 0.9 * SEEDS, compared
    assert min(preemptions, quits, evictions) > 20 * SEEDS, (preemptions, quits, evictions)
    print(f"{compared} seeds: {preemptions} preemptions, {quits} quits, and {evictions} "
          "loads besides the first of each collective: all turns are equal")


def check_budget(folder):
    """One budget is another: the first turn that this changes is named."""
    found = 0
    for seed in range(1, PLANTED_SEEDS + 1):
        with open(explore(folder, seed), encoding="utf-8") as file:
            record = json.load(file)
        for name in ("front_budget_ns", "min_budget_ns", "max_budget_ns"):
            record[name] = 1
        status, text = play_changed(folder, record)
        if status:
            assert status == 1 and text.endswith("turns: different\n"), (status, text)
            assert text.startswith("turn ") and ": recorded " in text and text.count("\n") == 2
            found += 1
    assert found > PLANTED_SEEDS // 4, found
    print(f"other budgets: found in {found} of {PLANTED_SEEDS} seeds")


def check_each_field(folder):
    """Each thing that is compared is compared."""
    with open(explore(folder, 3), encoding="utf-8") as file:
        record = json.load(file)
    number = next(i for i, t in enumerate(record["turns"]) if len(t["queue"]) > 1)
    said = {"fetched runs": ("counts", 0), "primitives": ("counts", 1),
            "preemptions": ("counts", 2), "context loads": ("counts", 3), "saves": ("counts", 4),
            "quits": ("counts", 5),
            "ended runs": ("counts", 6), "place in the task queue": ("at", 0),
            "run of the scheduled collective": ("at", 1), "phase": ("at", 2), "op": ("at", 3),
            "repeat": ("at", 4)}
    for name, (key, place) in said.items():
        changed = copy.deepcopy(record)
        changed["turns"][number][key][place] += 1
        status, text = play_changed(folder, changed)
        assert status == 1 and text.startswith(f"turn {number + 1} of "), (name, text)
        assert f": {name}: recorded " in text, (name, text)
    changed = copy.deepcopy(record)
    changed["turns"][number]["queue"].reverse()
    status, text = play_changed(folder, changed)
    assert status == 1 and ": collective in the task queue: recorded " in text, text
    changed = copy.deepcopy(record)
    changed["turns"][number]["resident"] ^= 1
    status, text = play_changed(folder, changed)
    assert status == 1 and ": resident blocks: recorded " in text, text


def check_refusals(folder):
    """What is no record is refused with one line."""
    with open(explore(folder, 3), encoding="utf-8") as file:
        record = json.load(file)
    for change in ({"schema": "x"}, {"ranks": 0}, {"ranks": 65}, {"active_slots": 3.5},
                   {"collectives": []}, {"turns": []}, {"turns": [1]}, {"slot_bytes": 1},
                   {"budget": -1}, {"turns": record["turns"] + [{"rank": 99}]}):
        status, text = play_changed(folder, dict(record, **change))
        assert status == 65 and text.count("\n") == 1, (change, status, text)
    missing = os.path.join(folder, "missing.json")
    status, text = play(missing)
    assert status == 65 and text.count("\n") == 1, text
    done = subprocess.run([SIMULATOR, "schedule", "--turns", missing, "--ranks", "3"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 64 and done.stderr.count("\n") == 1, done


with tempfile.TemporaryDirectory() as place:
    check_equal(place)
    check_budget(place)
    check_each_field(place)
    check_refusals(place)
