"""The build backend (PEP 517) of package rondo_torch: builds librondo and the extension module.

pip builds in its own environment, which has no PyTorch. So this backend asks the interpreter
outside of that environment for its PyTorch, and builds for it. It needs no network. The functions
that know nothing of PyTorch are those of adapters/python.

    pip install ./adapters/torch
    pip install --config-settings library=/path/librondo.so.0 ./adapters/torch    # do not build it
    pip install --config-settings build=/tmp/build ./adapters/torch               # keep the build
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile
from typing import Any, ContextManager, Dict, Optional

HERE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE.parent / "python" / "backend"))

import rondo_build as base  # noqa: E402

# What else pip looks for in a build backend.
UnsupportedOperation = base.UnsupportedOperation
get_requires_for_build_wheel = base.get_requires_for_build_wheel
build_sdist = base.build_sdist

OLDEST = (2, 4)

# Runs in the environment into which pip installs the package.
QUESTION = """
import json, pathlib, re, torch
root = pathlib.Path(torch.__file__).parent
aten = (root / "include/ATen/ATen.h").read_text()
needs = re.search(r"#error C\\+\\+(\\d+)", aten)
print("\\n" + json.dumps({
    "version": torch.__version__,
    "root": str(root),
    "distributed": torch.distributed.is_available(),
    "abi": int(torch._C._GLIBCXX_USE_CXX11_ABI),
    "standard": int(needs[1]) if needs else 17,
    "pybind": {key: getattr(torch._C, "_PYBIND11_" + key, None)
               for key in ("COMPILER_TYPE", "STDLIB", "BUILD_ABI")},
}))
"""


def ask_torch() -> Dict[str, Any]:
    """The properties of the installed PyTorch."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    target = os.environ.get("RONDO_TORCH_PATH")  # a PyTorch outside of the environment
    if target:
        environment["PYTHONPATH"] = target
    asked = subprocess.run(
        [sys.executable, "-c", QUESTION], env=environment, capture_output=True, text=True
    )
    if asked.returncode != 0:
        raise RuntimeError(
            f"{sys.executable} cannot import torch. Install PyTorch first:\n{asked.stderr[-2000:]}"
        )
    answer: Dict[str, Any] = json.loads(asked.stdout.strip().splitlines()[-1])
    found = tuple(int(part) for part in str(answer["version"]).split(".")[:2])
    if found < OLDEST:
        raise RuntimeError(
            f"PyTorch {answer['version']} is too old: rondo_torch needs 2.4 or newer"
        )
    if not answer["distributed"]:
        raise RuntimeError("this PyTorch was built without torch.distributed")
    return answer


def module_suffix() -> str:
    return str(sysconfig.get_config_var("EXT_SUFFIX"))


def module_settings(library: pathlib.Path) -> Dict[str, str]:
    """The variables of CMakeLists.txt for the installed PyTorch."""
    torch = ask_torch()
    root = pathlib.Path(str(torch["root"]))
    includes = [str(root / "include"), str(root / "include/torch/csrc/api/include")]
    includes += [sysconfig.get_paths()["include"]]
    names = ("libtorch_python.so", "libtorch_cpu.so", "libc10.so")
    libraries = [str(root / "lib" / name) for name in names] + [str(library)]
    definitions = [f"_GLIBCXX_USE_CXX11_ABI={torch['abi']}"]
    pybind = torch["pybind"].items()
    definitions += [f'PYBIND11_{key}="{value}"' for key, value in pybind if value]
    return {
        "RONDO_TORCH_INCLUDES": ";".join(includes),
        "RONDO_TORCH_LIBRARIES": ";".join(libraries),
        "RONDO_TORCH_DEFINITIONS": ";".join(definitions),
        "RONDO_TORCH_STANDARD": str(torch["standard"]),
        "RONDO_TORCH_SUFFIX": module_suffix(),
    }


def build_module(build: pathlib.Path, library: pathlib.Path) -> pathlib.Path:
    """Builds the extension module in ``build`` and returns its path."""
    base.run_cmake(HERE, build, module_settings(library), "rondo_torch")
    return build / f"_native{module_suffix()}"


def build_wheel(
    wheel_directory: str,
    config_settings: Optional[Dict[str, str]] = None,
    metadata_directory: Optional[str] = None,
) -> str:
    settings = config_settings or {}
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    sources = HERE / "src" / "rondo_torch"
    files = {
        f"rondo_torch/{name}": (sources / name).read_bytes()
        for name in ("__init__.py", "_native.pyi", "py.typed", "torchft.py")
    }
    kept, given = settings.get("build"), settings.get("library")
    folder: ContextManager[str] = (
        contextlib.nullcontext(kept) if kept else tempfile.TemporaryDirectory()
    )
    with folder as place:
        build = pathlib.Path(place)
        library = pathlib.Path(given) if given else base.build_library(build / "rondo")
        files[f"rondo_torch/{base.LIBRARY}"] = library.read_bytes()
        module = build_module(build / "module", library)
        files[f"rondo_torch/{module.name}"] = module.read_bytes()
    summary = "A PyTorch backend whose operations cannot deadlock on their order"
    about = {
        "METADATA": base.metadata(HERE, "rondo-torch", summary, ["torch>=2.4"]),
        "entry_points.txt": "[torch.distributed.backends]\nrondo = rondo_torch:register\n",
    }
    return base.write_wheel(
        wheel_directory, "rondo_torch", f"{python}-{python}-{base.platform_tag()}", files, about
    )
