"""Builds a wheel of an existing library, unpacks it and runs a program with it.

    wheel.py LIBRARY
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "backend"))

import rondo_build  # noqa: E402

PROGRAM = """
import array, pathlib, sys, rondo
assert pathlib.Path(rondo.__file__).is_relative_to(sys.argv[1]), rondo.__file__
with rondo.Context() as ctx:
    memory = array.array("f", [1, 2, 3])
    ctx.all_reduce(1, 3, rondo.DType.FLOAT32).run_in_place(memory).wait(10)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        name = rondo_build.build_wheel(folder, {"library": sys.argv[1]})
        again = pathlib.Path(folder, "again")
        again.mkdir()
        rondo_build.build_wheel(str(again), {"library": sys.argv[1]})
        wheel = pathlib.Path(folder, name)
        assert wheel.read_bytes() == (again / name).read_bytes(), "two wheels differ"
        site = os.path.realpath(os.path.join(folder, "site"))
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(site)
        assert pathlib.Path(site, "rondo", "py.typed").exists()
        environment = {key: value for key, value in os.environ.items() if key != "PYRONDO_LIBRARY"}
        environment["PYTHONPATH"] = site
        command = [sys.executable, "-c", PROGRAM, site]
        subprocess.run(command, check=True, timeout=50, env=environment)


main()
