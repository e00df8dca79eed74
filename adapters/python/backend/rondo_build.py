"""Makes the wheel of package rondo: builds librondo with CMake and puts it beside the sources.

A build backend (PEP 517) of its own, so that ``pip install ./adapters/python`` needs nothing from
a network. The wheel holds no extension module, only a shared library that ctypes opens, so that one
wheel serves every Python 3 of the machine's kind.

    pip install ./adapters/python
    pip install --config-settings library=/path/librondo.so.0 ./adapters/python    # one built before
"""

from __future__ import annotations

import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sysconfig
import tempfile
import zipfile
from typing import Dict, List, Optional

HERE = pathlib.Path(__file__).resolve().parent.parent
ROOT = HERE.parent.parent
LIBRARY = "librondo.so.0"


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


def platform_tag() -> str:
    return re.sub(r"[-.]", "_", sysconfig.get_platform())


def build_library(build: pathlib.Path) -> pathlib.Path:
    """Builds librondo in ``build`` and returns where it is."""
    cmake = shutil.which("cmake")
    if cmake is None:
        raise RuntimeError("cmake is not installed (Debian: cmake, or scripts/setup demo)")
    off = [f"-DRONDO_BUILD_{part}=OFF" for part in ("TESTS", "EXAMPLES", "BENCHMARKS", "SIM", "ADAPTERS")]
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    configure = [cmake, "-S", str(ROOT), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release"]
    subprocess.run(configure + off + generator, check=True)
    jobs = str(os.cpu_count() or 1)
    subprocess.run([cmake, "--build", str(build), "--target", "rondo", "-j", jobs], check=True)
    return build / LIBRARY


def metadata() -> str:
    lines = [
        "Metadata-Version: 2.1",
        "Name: rondo",
        f"Version: {version()}",
        "Summary: Collective communication that cannot deadlock on the order of calls",
        "License: Apache-2.0",
        "Requires-Python: >=3.9",
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
            entry.external_attr = (0o755 if name.endswith(LIBRARY) else 0o644) << 16
            wheel.writestr(entry, content)


def build_wheel(
    wheel_directory: str,
    config_settings: Optional[Dict[str, str]] = None,
    metadata_directory: Optional[str] = None,
) -> str:
    given = (config_settings or {}).get("library")
    info = f"rondo-{version()}.dist-info"
    tag = f"py3-none-{platform_tag()}"
    sources = sorted((HERE / "src" / "rondo").glob("*.py")) + [HERE / "src" / "rondo" / "py.typed"]
    files = {f"rondo/{source.name}": source.read_bytes() for source in sources}
    with tempfile.TemporaryDirectory() as build:
        library = pathlib.Path(given) if given else build_library(pathlib.Path(build))
        files[f"rondo/{LIBRARY}"] = library.read_bytes()
    files[f"{info}/METADATA"] = metadata().encode()
    wheel = f"Wheel-Version: 1.0\nGenerator: rondo\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files[f"{info}/WHEEL"] = wheel.encode()
    name = f"rondo-{version()}-{tag}.whl"
    write_wheel(pathlib.Path(wheel_directory) / name, files, info)
    return name


def build_sdist(sdist_directory: str, config_settings: Optional[Dict[str, str]] = None) -> str:
    raise UnsupportedOperation("rondo is installed from the whole source tree, or from a wheel")
