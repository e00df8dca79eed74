"""Makes the wheel of package rondo_torch: librondo and the extension module, for the PyTorch at hand.

A build backend (PEP 517) of its own. pip builds in an environment of its own that has no PyTorch, and
one that it fetched there might not be the one that the module will meet. So this one asks the
interpreter what it has without pip's environment, and builds for that. Nothing comes from a network.

    pip install ./adapters/torch
    pip install --config-settings library=/path/librondo.so.0 ./adapters/torch    # one built before
    pip install --config-settings build=/tmp/build ./adapters/torch               # kept: faster again
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from typing import Dict, Iterator, List, Optional

HERE = pathlib.Path(__file__).resolve().parent.parent
ROOT = HERE.parent.parent
LIBRARY = "librondo.so.0"
OLDEST = (2, 4)

# Runs in the environment that the package goes to.
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


class UnsupportedOperation(Exception):
    """What PEP 517 has a backend raise for something that it does not do."""


def get_requires_for_build_wheel(config_settings: Optional[Dict[str, str]] = None) -> List[str]:
    return []


def version() -> str:
    """The version, which is the library's."""
    found = re.search(r"project\(rondo VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    if not found:
        raise RuntimeError(f"{ROOT}/CMakeLists.txt names no version")
    return found[1]


def ask_torch() -> Dict[str, object]:
    """What the PyTorch that the module is for says of itself."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    target = os.environ.get("RONDO_TORCH_PATH")  # where PyTorch is, if not in the environment itself
    if target:
        environment["PYTHONPATH"] = target
    asked = subprocess.run([sys.executable, "-c", QUESTION], env=environment, capture_output=True, text=True)
    if asked.returncode != 0:
        raise RuntimeError(
            f"{sys.executable} cannot import torch, which has to be installed first:\n{asked.stderr[-2000:]}"
        )
    answer: Dict[str, object] = json.loads(asked.stdout.strip().splitlines()[-1])
    found = tuple(int(part) for part in str(answer["version"]).split(".")[:2])
    if found < OLDEST:
        raise RuntimeError(f"PyTorch {answer['version']} is too old: 2.4 or newer is needed")
    if not answer["distributed"]:
        raise RuntimeError("this PyTorch is built without torch.distributed")
    return answer


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise RuntimeError(f"{name} is not installed (Debian: {name}, or scripts/setup demo)")
    return found


def configure(source: pathlib.Path, build: pathlib.Path, settings: Dict[str, str]) -> None:
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    given = [f"-D{key}={value}" for key, value in settings.items()]
    command = [tool("cmake"), "-S", str(source), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release"]
    subprocess.run(command + given + generator, check=True)


def run_cmake(source: pathlib.Path, build: pathlib.Path, settings: Dict[str, str], target: str) -> None:
    configure(source, build, settings)
    jobs = str(os.cpu_count() or 1)
    subprocess.run([tool("cmake"), "--build", str(build), "--target", target, "-j", jobs], check=True)


def build_library(build: pathlib.Path) -> pathlib.Path:
    """Builds librondo in ``build`` and returns where it is."""
    parts = ("TESTS", "EXAMPLES", "BENCHMARKS", "SIM", "ADAPTERS")
    run_cmake(ROOT, build, {f"RONDO_BUILD_{part}": "OFF" for part in parts}, "rondo")
    return build / LIBRARY


def module_suffix() -> str:
    return str(sysconfig.get_config_var("EXT_SUFFIX"))


def module_settings(library: pathlib.Path) -> Dict[str, str]:
    """What CMakeLists.txt has to know to build for the PyTorch at hand."""
    torch = ask_torch()
    root = pathlib.Path(str(torch["root"]))
    includes = [str(root / "include"), str(root / "include/torch/csrc/api/include")]
    includes += [sysconfig.get_paths()["include"]]
    names = ("libtorch_python.so", "libtorch_cpu.so", "libc10.so")
    libraries = [str(root / "lib" / name) for name in names] + [str(library)]
    definitions = [f"_GLIBCXX_USE_CXX11_ABI={torch['abi']}"]
    pybind = torch["pybind"]
    assert isinstance(pybind, dict)
    definitions += [f'PYBIND11_{key}="{value}"' for key, value in pybind.items() if value]
    return {
        "RONDO_TORCH_INCLUDES": ";".join(includes),
        "RONDO_TORCH_LIBRARIES": ";".join(libraries),
        "RONDO_TORCH_DEFINITIONS": ";".join(definitions),
        "RONDO_TORCH_STANDARD": str(torch["standard"]),
        "RONDO_TORCH_SUFFIX": module_suffix(),
    }


def build_module(build: pathlib.Path, library: pathlib.Path) -> pathlib.Path:
    """Builds the extension module in ``build`` and returns where it is."""
    run_cmake(HERE, build, module_settings(library), "rondo_torch")
    return build / f"_native{module_suffix()}"


@contextlib.contextmanager
def build_folder(settings: Dict[str, str]) -> Iterator[pathlib.Path]:
    if "build" in settings:
        kept = pathlib.Path(settings["build"])
        kept.mkdir(parents=True, exist_ok=True)
        yield kept
        return
    with tempfile.TemporaryDirectory() as made:
        yield pathlib.Path(made)


def metadata() -> str:
    lines = [
        "Metadata-Version: 2.1",
        "Name: rondo-torch",
        f"Version: {version()}",
        "Summary: A PyTorch backend whose operations cannot deadlock on their order",
        "License: Apache-2.0",
        "Requires-Python: >=3.9",
        "Requires-Dist: torch>=2.4",
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + (HERE / "README.md").read_text(encoding="utf-8")


def write_wheel(path: pathlib.Path, files: Dict[str, bytes], info: str) -> None:
    """Writes ``files`` and the record of them, in an order and with times that never differ."""
    record = ""
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if ".so" in name else 0o644) << 16
            wheel.writestr(entry, content)


def build_wheel(
    wheel_directory: str,
    config_settings: Optional[Dict[str, str]] = None,
    metadata_directory: Optional[str] = None,
) -> str:
    settings = config_settings or {}
    info = f"rondo_torch-{version()}.dist-info"
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    tag = f"{python}-{python}-{re.sub(r'[-.]', '_', sysconfig.get_platform())}"
    sources = HERE / "src" / "rondo_torch"
    files = {f"rondo_torch/{name}": (sources / name).read_bytes() for name in ("__init__.py", "_native.pyi", "py.typed")}
    with build_folder(settings) as build:
        library = pathlib.Path(settings["library"]) if "library" in settings else build_library(build / "rondo")
        files[f"rondo_torch/{LIBRARY}"] = library.read_bytes()
        module = build_module(build / "module", library)
        files[f"rondo_torch/{module.name}"] = module.read_bytes()
    files[f"{info}/METADATA"] = metadata().encode()
    wheel = f"Wheel-Version: 1.0\nGenerator: rondo\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files[f"{info}/WHEEL"] = wheel.encode()
    files[f"{info}/entry_points.txt"] = b"[torch.distributed.backends]\nrondo = rondo_torch:register\n"
    name = f"rondo_torch-{version()}-{tag}.whl"
    write_wheel(pathlib.Path(wheel_directory) / name, files, info)
    return name


def build_sdist(sdist_directory: str, config_settings: Optional[Dict[str, str]] = None) -> str:
    raise UnsupportedOperation("rondo_torch is installed from the whole source tree, or from a wheel")
