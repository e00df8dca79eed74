"""scripts/study on its cheapest figures: the page, the text, refusals, and an interrupt.

    study.py SCRIPT FOLDER-OF-PROGRAMS
"""

import html.parser
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

SCRIPT, PROGRAMS = sys.argv[1:]


def run(arguments, folder, status=0):
    done = subprocess.run([SCRIPT, "--bin", PROGRAMS, "--out", folder, *arguments],
                          capture_output=True, text=True, check=False)
    assert done.returncode == status, (arguments, done)
    return done


class Page(html.parser.HTMLParser):
    """Headings and the rows of tables; what a page would load from elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.headings, self.loaded, self.points = [], [], [], 0
        self.cell = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.loaded += [v for k, v in attrs if k in ("src", "href")]
        self.points += tag == "circle"
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        self.cell = tag in ("td", "th")
        if tag == "h2":
            self.headings.append(dict(attrs)["id"])

    def handle_data(self, data):
        if self.cell:
            self.rows[-1][-1] += data

    def handle_endtag(self, tag):
        self.cell = False


def check_figure(folder):
    """Prime's bytes are exact, and page and text have every number of the JSON."""
    run(["--quick", "--figure", "prime", "--figure", "penny", "--figure", "fig9"], folder)
    found = json.loads(pathlib.Path(folder, "study.json").read_text())
    figures = {figure["name"]: figure for figure in found["figures"]}
    assert list(figures) == ["prime", "penny", "fig9"] and not found["interrupted"], found
    lines = figures["prime"]["lines"]
    assert len(lines) == 6, lines
    for (peers, line) in zip((18, 12, 6), lines[::2]):
        exact = 2 * (peers - 1) / peers * 2**30 / 1e9
        assert abs(line["ours"] / exact - 1) < 1e-6, line
    for line in lines:
        assert abs(line["ratio"] - 1) < 0.001, line
    text = pathlib.Path(folder, "study.txt").read_text()
    page = Page(pathlib.Path(folder, "study.html").read_text())
    assert page.headings == list(figures) and not page.loaded, page.loaded
    rows = [row for row in page.rows if row[0] != "what"]
    assert len(rows) == sum(len(figure["lines"]) for figure in figures.values()), rows
    for row in rows:
        assert re.search(r"\d", row[2]), f"no number of ours: {row}"
        assert row[4], f"no reason: {row}"
        assert re.search(r" +".join(map(re.escape, row)), text), f"not in the text: {row}"
    assert page.points > 4 * 17, page.points  # of Penny's chart
    ends = figures["fig9"]["lines"]
    assert len(ends) == 5 and all(line["ours"] > 0 for line in ends), ends


def check_late_rank(folder):
    """Figure 11 is measured here: fixed budgets collapse as in the paper, and not in Rondo."""
    run(["--quick", "--figure", "fig11"], folder)
    figure = json.loads(pathlib.Path(folder, "study.json").read_text())["figures"][0]
    assert not figure["failed"] and not figure["missing"], figure
    slowest = {line["what"]: line["ours"] for line in figure["lines"]
               if "slowest fixed budget / default" in line["what"]}
    for place in ("host", "64 ranks"):
        without = [ratio for what, ratio in slowest.items()
                   if what.startswith(place) and "no look rounds" in what]
        having = [ratio for what, ratio in slowest.items()
                  if what.startswith(place) and "no look rounds" not in what]
        assert len(without) == len(having) == 1, slowest
        assert without[0] > 5 and without[0] > 3 * having[0], slowest
    assert any(line["what"].startswith("host, one order: queue length at a fetch")
               and 0 < line["ours"] < 64 for line in figure["lines"]), figure
    page = Page(pathlib.Path(folder, "study.html").read_text())
    assert page.points > 4 * 64, page.points  # of each collective, twice, in two charts


def check_refusals(folder):
    """Each mistake is one line, and nothing runs."""
    for arguments, what in ((["--figure", "fig99"], "fig99"), (["--figure"], "--figure"),
                            (["--fast"], "--fast"), (["--qui"], "--qui"),
                            (["--out", "/proc/x"], "/proc/x")):
        done = run(arguments, folder, 2)
        assert re.fullmatch(f"study: .*{re.escape(what)}.*\n", done.stderr), done
    assert not list(pathlib.Path(folder).iterdir())
    assert "Usage: scripts/study" in run(["--help"], folder).stdout


def check_failure(folder):
    """A figure whose program is not there says so; a program that fails is a failure."""
    def run_with(programs, status):
        done = subprocess.run([SCRIPT, "--bin", programs, "--out", folder, "--figure", "prime"],
                              capture_output=True, text=True, check=False)
        assert done.returncode == status, done
        return json.loads(pathlib.Path(folder, "study.json").read_text())["figures"][0]

    assert run_with("/nowhere", 0)["missing"] == "rondo-sim is not built"
    programs = pathlib.Path(folder, "bin")
    programs.mkdir()
    program = programs / "rondo-sim"
    program.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    program.chmod(0o700)
    failed = run_with(str(programs), 1)
    assert failed["failed"] and "exit status 3: broken" in failed["missing"], failed


def check_interrupt(folder):
    """Ctrl-C writes what is known by then."""
    with subprocess.Popen([SCRIPT, "--bin", PROGRAMS, "--out", folder, "--figure", "prime",
                           "--figure", "table1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, start_new_session=True) as process:
        for line in process.stderr:
            if "row s3" in line:
                break
        os.killpg(process.pid, signal.SIGINT)
        process.communicate()
    assert process.returncode == 130, process.returncode
    found = json.loads(pathlib.Path(folder, "study.json").read_text())
    prime, table1 = found["figures"]
    assert found["interrupted"] and len(prime["lines"]) == 6, found
    assert table1["missing"] == "interrupted" and 2 <= len(table1["lines"]) < 18, table1
    assert "INTERRUPTED" in pathlib.Path(folder, "study.html").read_text()


for check in (check_figure, check_late_rank, check_refusals, check_failure, check_interrupt):
    with tempfile.TemporaryDirectory() as place:
        check(place)
