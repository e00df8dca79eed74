"""What rondo-demo prints of a deadlock: the cycle, the runs in it, and one line of counts.

    demo_cycle.py RANKS COLLECTIVES COMMAND ...

COMMAND runs rondo-demo with so many ranks and collectives; options are appended.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

EDGE = re.compile(r"rank (\d+) executes id (\d+) and waits for rank (\d+), which has not begun it")
RUN = re.compile(r"rank (\d+), id (\d+), run (\d+): block \d+ stands at op \d+.*, for \d+\.\d s")
OTHERS = re.compile(r"other runs: (\d+) being executed, (\d+) waiting for a block, "
                    r"(\d+) not submitted by their rank")


def check_lines(lines, ranks, collectives):
    """Returns the cycle: (rank, id, awaited rank) each."""
    edges = [EDGE.fullmatch(line) for line in lines]
    length = next(i for i, edge in enumerate(edges) if edge is None)
    assert length >= 2, f"no cycle comes first: {lines}"
    cycle = [tuple(map(int, edge.groups())) for edge in edges[:length]]
    for (_, _, awaited), (rank, _, _) in zip(cycle, cycle[1:] + cycle[:1]):
        assert awaited == rank, f"the cycle is not closed: {cycle}"
    runs = [RUN.match(line) for line in lines[length:2 * length]]
    assert all(runs), f"the runs in the cycle do not follow it: {lines}"
    assert [(rank, what) for rank, what, _ in cycle] == [(int(r[1]), int(r[2])) for r in runs]
    assert len(lines) == 2 * length + 1, f"the other runs take more than a line: {lines}"
    counts = OTHERS.fullmatch(lines[-1])
    assert counts, f"no counts at the end: {lines}"
    executed, waiting, absent = map(int, counts.groups())
    assert length + executed <= ranks, lines
    assert length + executed + waiting + absent <= ranks * collectives, lines
    return cycle


def check_json(result, cycle):
    assert result["end"] == "deadlocked" and result["cycle_ranks"] == len(cycle)
    found = [(edge["rank"], edge["id"], edge["waits_for"]) for edge in result["cycle"]]
    assert found == cycle, f"{found} in JSON, {cycle} in the text"


def main():
    ranks, collectives, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "result.json"
        options = [f"--collectives={collectives}", "--max=64K", "--iterations=5", "--watchdog=2",
                   f"--json={path}"]
        text = subprocess.run(command + options, check=True, stdout=subprocess.PIPE,
                              text=True).stdout
        results = json.loads(path.read_text())["results"]
    baselines = [result for result in results if not result["preemption"]]
    parts = text.split("preemption off: DEADLOCK")[1:]
    assert len(parts) == len(baselines) == 2, text
    for part, result in zip(parts, baselines):
        lines = re.findall(r"^ *\| (.*)$", part, re.MULTILINE)
        check_json(result, check_lines(lines, ranks, collectives))
    assert all(result["cycle"] == [] for result in results if result["preemption"])


main()
