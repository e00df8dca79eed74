"""Runs the experiments of the papers again and writes one page and one text: see scripts/study."""

import argparse
import datetime
import json
import os
import platform
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # the modules lie in the tree of sources
import deadlock
import measured
import page
import simulated

HERE = os.path.dirname(os.path.abspath(__file__))


def fig11(study, figure):
    """A late rank, on this machine and simulated."""
    measured.late_rank(study, figure)
    simulated.fig11(study, figure)


def fig10(study, figure):
    """Simulated, and with PyTorch on this machine."""
    simulated.fig10(study, figure)
    measured.fig10_real(study, figure)


FIGURES = {  # name: title, function or why there is none
    "table1": ("DFCCL, Table 1: deadlocked rounds", deadlock.table1),
    "conclusions": ("DFCCL, 2.4.3: the five conclusions, with exact cycles", deadlock.conclusions),
    "preemptions": ("DFCCL, 6.1: preemptions, simulated", simulated.preemptions),
    "fig11": ("DFCCL, Fig. 11: a late rank, fixed and adaptive budgets, on the host and simulated",
              fig11),
    "fig10": ("DFCCL, Fig. 10: ResNet50, static and free order, simulated", fig10),
    "fig8": ("DFCCL, Fig. 8: all-reduce on the host against Open MPI", measured.fig8),
    "priority": ("An urgent all-reduce behind eight of 64 MiB", measured.priority),
    "sendoff": ("Big Send-off, Fig. 6: ring against recursive all-gather, simulated",
                simulated.sendoff),
    "prime": ("Prime, experiments 1 to 3: bytes and times, simulated", simulated.prime),
    "penny": ("Penny: crossovers of one-shot, two-shot and ring, simulated", simulated.penny),
    "fig7": ("DFCCL, Fig. 7: stages of a collective on the host, counts of the PTX machine",
             measured.fig7),
    "fig9": ("DFCCL, Fig. 9: end to end against core time, on the host", measured.fig9),
    "fig12": ("DFCCL, Fig. 12: ViT, static and free order, simulated", simulated.fig12),
    "fig13": ("DFCCL, Fig. 13: GPT-2, static and free order, simulated", simulated.fig13),
}


class Missing(Exception):
    """Why a figure cannot be had here."""


class Failed(Exception):
    """A program did not do what it should."""


class Study:
    """What figures need: programs, the folder for results, and a place to say how far it is."""

    Missing, Failed = Missing, Failed

    def __init__(self, arguments):
        self.bin, self.out, self.quick = arguments.bin, arguments.out, arguments.quick
        self.figure = ""

    def progress(self, text):
        print(f"study: {self.figure}: {text}", file=sys.stderr, flush=True)

    def program(self, name):
        path = os.path.join(self.bin, name)
        if not os.access(path, os.X_OK):
            raise Missing(f"{name} is not built")
        return path

    def write(self, name, value):
        path = os.path.join(self.out, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file)
        return path

    def output(self, command, allowed=(0,), limit_s=1500, environment=None):
        """What a program prints."""
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  stdin=subprocess.DEVNULL, text=True, timeout=limit_s,
                                  env=dict(os.environ, **(environment or {})), check=False)
        except subprocess.TimeoutExpired:
            raise Failed(f"{' '.join(command)}: took more than {limit_s} s") from None
        if done.returncode in (130, -signal.SIGINT):
            raise KeyboardInterrupt
        if done.returncode not in allowed:
            said = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise Failed(f"{' '.join(command)}: exit status {done.returncode}: {''.join(said)}")
        return done.stdout

    def rondo_sim(self, arguments, allowed=(0,)):
        return json.loads(self.output([self.program("rondo-sim")] + arguments, allowed))

    def schedule(self, options):
        """The results of rondo-sim schedule; a deadlock (10) is one."""
        return self.rondo_sim(["schedule", "-q", "--json", *options], (0, 10))


def read_arguments():
    parser = argparse.ArgumentParser(prog="scripts/study", add_help=False, allow_abbrev=False)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--figure", action="append")
    parser.add_argument("--out", default="build/study")
    parser.add_argument("--bin", default="build/release/bin")
    parser.error = lambda text: sys.exit(refuse(text))
    arguments = parser.parse_args()
    for name in arguments.figure or []:
        if name not in FIGURES:
            sys.exit(refuse(f"no figure \"{name}\"; there are {', '.join(FIGURES)}"))
    try:
        os.makedirs(arguments.out, exist_ok=True)
    except OSError as error:
        sys.exit(refuse(f"--out {arguments.out}: {error.strerror}"))
    return arguments


def refuse(text):
    print(f"study: {text}", file=sys.stderr)
    return 2


def figure_make(study, name):
    title, how = FIGURES[name]
    figure = page.Figure(name, title)
    study.figure = name
    if isinstance(how, str):
        figure.missing = how
    return figure, how


def figure_compute(study, figure, how):
    began = time.monotonic()
    try:
        how(study, figure)
    except Missing as reason:
        figure.missing = str(reason)
    except (Failed, OSError, KeyError, ValueError) as error:
        figure.missing, figure.failed = f"{type(error).__name__}: {error}", True
    except KeyboardInterrupt:
        figure.missing = "interrupted"
        raise
    finally:
        figure.seconds = time.monotonic() - began
    state = figure.state() or f"{len(figure.lines)} lines"
    study.progress(f"{state}, {figure.seconds:.0f} s")


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def head_lines(study, figures, interrupted):
    date = datetime.datetime.now().isoformat(timespec="minutes")
    tree = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty"],
                          capture_output=True, text=True, check=False).stdout.strip()
    yield (f"{date}, {processor()}, {len(os.sched_getaffinity(0))} cores, Linux "
           f"{platform.release()}, Rondo {tree or '?'}"
           + (", quick" if study.quick else ""))
    if interrupted:
        yield "INTERRUPTED: what follows is what was known by then."
    yield ("Ratio is ours / the paper's. All numbers of the column \"ours\" and all points of the "
           "charts were computed in this run.")
    failed = [figure.name for figure in figures if figure.failed]
    if failed:
        yield f"FAILED: {', '.join(failed)}"


def write_results(study, figures, interrupted):
    head = list(head_lines(study, figures, interrupted))
    for name, content in (
            ("study.html", page.page_of(head, figures)), ("study.txt", page.text_of(head, figures)),
            ("study.json", json.dumps({"head": head, "interrupted": interrupted, "figures": [
                figure.as_json() for figure in figures]}, indent=1) + "\n")):
        with open(os.path.join(study.out, name), "w", encoding="utf-8") as file:
            file.write(content)
    print(page.text_of(head, figures))
    print(f"written: {os.path.join(study.out, 'study.html')}, .txt and .json")


def main():
    arguments = read_arguments()
    study = Study(arguments)
    figures, interrupted = [], False
    try:
        for name in arguments.figure or FIGURES:
            figure, how = figure_make(study, name)
            figures.append(figure)
            if not isinstance(how, str):
                figure_compute(study, figure, how)
    except KeyboardInterrupt:
        interrupted = True
    write_results(study, figures, interrupted)
    return 130 if interrupted else 1 if any(figure.failed for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
