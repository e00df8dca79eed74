"""Builds the stand-in for CUDA devices, for this interpreter's PyTorch: ``build.py FOLDER``.

Needs cuda.h of a CUDA toolkit and a PyTorch that was built with CUDA; exits with 77 without them.
"""

from __future__ import annotations

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "backend"))

import rondo_torch_build as build  # noqa: E402  (it adds the folder of rondo_build)
import rondo_build as base  # noqa: E402, I001

PARTS = ("TOOLS", "EXAMPLES", "BENCHMARKS", "SIM", "ADAPTERS")
SKIP = 77


def cached(folder: pathlib.Path, name: str) -> str:
    """A variable of the CMake cache."""
    for line in (folder / "CMakeCache.txt").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return line.split("=", 1)[1]
    return ""


def main() -> int:
    import torch

    place = pathlib.Path(sys.argv[1])
    if torch.version.cuda is None:
        print("this PyTorch is built without CUDA")
        return SKIP
    driver = place / "driver"
    settings = {f"RONDO_BUILD_{part}": "OFF" for part in PARTS}
    base.configure(base.ROOT, driver, settings)
    include = cached(driver, "RONDO_CUDA_INCLUDE_DIR")
    if not include or include.endswith("NOTFOUND"):
        print("there is no CUDA toolkit")
        return SKIP
    base.run_cmake(base.ROOT, driver, settings, "rondo_fake_cuda")
    library = next(driver.rglob("libcuda.so.1"))
    given = build.module_settings(library)
    given.update(RONDO_TORCH_STAND_IN=str(library), RONDO_TORCH_CUDA_INCLUDE=include)
    base.run_cmake(build.HERE, place, given, "stand_in")
    return 0


if __name__ == "__main__":
    sys.exit(main())
