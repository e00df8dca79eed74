"""rondo-info tune: the file that it writes, and that it leaves none if it is interrupted.

info_tune.py RONDO-INFO RONDO-PERF
"""

import os
import signal
import subprocess
import sys
import tempfile
import time

INFO, PERF = sys.argv[1:3]
SMALL = ["--threads", "-r", "1", "-b", "1", "-m", "3", "--any-cores"]


def tune(path, *options):
    return subprocess.Popen([INFO, "tune", path, *SMALL, *options], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def check_file(path):
    process = tune(path)
    progress = process.communicate()[1]
    assert process.returncode == 0, progress
    assert "ranks, thread, repeat 1 of 1" in progress and "100 % measured" in progress, progress
    with open(path, encoding="ascii") as file:
        text = file.read()
    assert text.startswith("rondo cost model 2\ncores "), text
    assert "\ntuning front_budget_ns=" in text and "\nrow thread all_reduce ring " in text, text
    shown = subprocess.run([INFO, "plan", "all_reduce", "2", "8", "--model", path], check=True,
                           stdout=subprocess.PIPE, text=True).stdout
    assert " chosen\n" in shown, shown
    subprocess.run([PERF, "-t", "2", "-b", "8", "-e", "8", "-n", "2"], check=True,
                   stdout=subprocess.DEVNULL, env=dict(os.environ, RONDO_COST_MODEL=path))
    return text


# Starts two processes here, as a launcher would on two machines.
LAUNCHER = ('sh -c \'export RONDO_ROOT=127.0.0.1 RONDO_RANK_COUNT=2 RONDO_JOB=tuned-$$; '
            'RONDO_RANK=1 "$@" </dev/null >/dev/null & RONDO_RANK=0 exec "$@"\' sh')


def check_machines(path, without):
    """With a launcher the file has rows of the network, and its terms are measured."""
    process = tune(path, "--machines", LAUNCHER)
    progress = process.communicate()[1]
    assert process.returncode == 0, progress
    assert "2 ranks, network, repeat 1 of 1" in progress, progress
    with open(path, encoding="ascii") as file:
        text = file.read()
    rows = [[line for line in lines.splitlines() if line.startswith("row network ")]
            for lines in (without, text)]
    assert not rows[0] and any(" all_reduce ring " in row for row in rows[1]), rows
    terms = [[line for line in lines.splitlines() if line.startswith("link network ")]
             for lines in (without, text)]
    assert terms[0] != terms[1], terms
    os.unlink(path)
    process = tune(path, "--machines", "exit 3 #")
    why = process.communicate()[1]
    assert process.returncode == 1 and "rondo-perf has ended" in why, why
    assert not os.path.exists(path)


def check_torn(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text[:len(text) // 2])
    done = subprocess.run([INFO, "plan", "all_reduce", "2", "8", "--model", path], text=True,
                          stderr=subprocess.PIPE)
    assert done.returncode == 2 and f"{path} is torn" in done.stderr, done.stderr
    done = subprocess.run([PERF, "-t", "1"], text=True, stderr=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, env=dict(os.environ, RONDO_COST_MODEL=path))
    assert done.returncode == 2, done.returncode
    assert f"RONDO_COST_MODEL: {path} is torn" in done.stderr, done.stderr


def check_older(path):
    """A file of the version before is refused in one line that says what to do."""
    with open(path, "w", encoding="ascii") as file:
        file.write("rondo cost model 1\ncores 2\n")
    why = (f"{path} has version 1, this library reads version 2: "
           "measure it again with rondo-info tune")
    done = subprocess.run([INFO, "plan", "all_reduce", "2", "8", "--model", path], text=True,
                          stderr=subprocess.PIPE)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert why in done.stderr, done.stderr
    done = subprocess.run([PERF, "-t", "1"], text=True, stderr=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, env=dict(os.environ, RONDO_COST_MODEL=path))
    assert done.returncode == 2 and f"RONDO_COST_MODEL: {why}" in done.stderr, done.stderr


def check_cores(path):
    """Measurements without two whole cores do not count, and if too few do, there is no file."""
    process = subprocess.run([INFO, "tune", path, *SMALL[:-1], "-m", "2"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    too_few = "too few count: try again" in process.stderr
    assert process.returncode == (1 if too_few else 0), process.stderr
    assert os.path.exists(path) != too_few, process.stderr
    assert not too_few or "set aside" in process.stderr, process.stderr


def check_interrupted(folder):
    """A file of another program is kept as it was."""
    path = os.path.join(folder, "interrupted")
    with open(path, "w", encoding="ascii") as file:
        file.write("before")
    process = tune(path, "-b", "2000")  # minutes
    process.stderr.readline()
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == -signal.SIGINT, process.returncode
    assert os.listdir(folder) == ["interrupted"]
    with open(path, encoding="ascii") as file:
        assert file.read() == "before"


with tempfile.TemporaryDirectory() as scratch:
    model = os.path.join(scratch, "model")
    plain = check_file(model)
    check_cores(os.path.join(scratch, "guarded"))
    check_torn(model, plain)
    check_older(model)
    if len(os.sched_getaffinity(0)) > 1:
        check_machines(model, plain)
with tempfile.TemporaryDirectory() as scratch:
    check_interrupted(scratch)
