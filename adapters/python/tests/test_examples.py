"""The examples, with few steps."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
from typing import List
from xml.etree import ElementTree

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"


def example(name: str, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-B", str(EXAMPLES / name), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=180)


def polylines(picture: pathlib.Path) -> List[List[float]]:
    """The heights of each curve; a loss that falls goes down, which is up in SVG's numbers."""
    found = ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}polyline")
    return [[float(at.split(",")[1]) for at in one.attrib["points"].split()] for one in found]


def test_a_training_loses_a_rank_and_gets_another(tmp_path: pathlib.Path) -> None:
    picture = tmp_path / "loss.svg"
    options = ["--steps=60", "--kill-at=20", "--admit-every=5", f"--curve={picture}"]
    ended = example("elastic_training.py", *options)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "step 21: 2 ranks\n" in ended.stdout
    # When the newcomer comes depends on how fast it starts: perhaps after the last step.
    came = re.search(r"step (\d+): 3 ranks\n", ended.stdout)
    ranks = "3" if came else "[23]"
    assert re.search(f"^{ranks} processes ended, with the same weights\n", ended.stdout, re.M)
    (curve,) = polylines(picture)
    assert len(curve) == 60
    assert curve[-1] > curve[0] + 100
    assert "2 ranks" in picture.read_text()


def test_diloco_learns_with_a_small_part_of_the_bytes(tmp_path: pathlib.Path) -> None:
    picture = tmp_path / "loss.svg"
    ended = example("diloco.py", "--steps=60", "--local-steps=10", f"--curve={picture}")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = dict(re.findall(r"^(\w.*?)  +([\d. ]+)$", ended.stdout, re.M))
    sent = {mode: float(numbers.split()[1]) for mode, numbers in rows.items()}
    assert sent["DiLoCo"] == sent["asynchronous DiLoCo"]
    assert sent["data parallel"] == pytest.approx(10 * sent["DiLoCo"], abs=0.1)
    curves = polylines(picture)
    assert len(curves) == 3
    for curve in curves:
        assert len(curve) == 60
        assert curve[-1] > curve[0] + 100


@pytest.mark.parametrize("name", ["elastic_training.py", "diloco.py"])
def test_a_wrong_option_is_refused(name: str) -> None:
    for options in (["--steps=0"], ["--ranks=0"], ["--frob"]):
        ended = example(name, *options)
        assert ended.returncode == 2
        assert ended.stderr.startswith("usage:")
