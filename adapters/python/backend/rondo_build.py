"""The build backend (PEP 517) of package rondo: builds librondo with CMake and packs the wheel.

``pip install ./adapters/python`` needs no network. The wheel holds a shared library for ctypes, and
no extension module, so one wheel serves every Python 3.

    pip install ./adapters/python
    pip install --config-settings library=/path/librondo.so.0 ./adapters/python    # do not build

The backend of adapters/torch imports this module.
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
from typing import Dict, List, Optional, Sequence

HERE = pathlib.Path(__file__).resolve().parent.parent
ROOT = HERE.parent.parent
LIBRARY = "librondo.so.0"


class UnsupportedOperation(Exception):
    """PEP 517: the backend does not support this operation."""


def get_requires_for_build_wheel(config_settings: Optional[Dict[str, str]] = None) -> List[str]:
    return []


def version() -> str:
    """The version of the library, which is that of the package."""
    found = re.search(r"project\(rondo VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    if not found:
        raise RuntimeError(f"{ROOT}/CMakeLists.txt names no version")
    return found[1]


def platform_tag() -> str:
    return re.sub(r"[-.]", "_", sysconfig.get_platform())


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise RuntimeError(f"{name} is not installed (Debian: {name}, or scripts/setup demo)")
    return found


def configure(source: pathlib.Path, build: pathlib.Path, settings: Dict[str, str]) -> None:
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    options = [f"-D{key}={value}" for key, value in settings.items()]
    command = [tool("cmake"), "-S", str(source), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release"]
    subprocess.run(command + options + generator, check=True)


def run_cmake(
    source: pathlib.Path, build: pathlib.Path, settings: Dict[str, str], target: str
) -> None:
    configure(source, build, settings)
    jobs = str(os.cpu_count() or 1)
    subprocess.run(
        [tool("cmake"), "--build", str(build), "--target", target, "-j", jobs], check=True
    )


def build_library(build: pathlib.Path) -> pathlib.Path:
    """Builds librondo in ``build`` and returns its path."""
    parts = ("TESTS", "TOOLS", "EXAMPLES", "BENCHMARKS", "SIM", "ADAPTERS")
    run_cmake(ROOT, build, {f"RONDO_BUILD_{part}": "OFF" for part in parts}, "rondo")
    return build / LIBRARY


def metadata(folder: pathlib.Path, name: str, summary: str, needs: Sequence[str] = ()) -> str:
    """The METADATA file of a wheel, which ends with the README of ``folder``."""
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {version()}",
        f"Summary: {summary}",
        "License: Apache-2.0",
        "Requires-Python: >=3.9",
        *(f"Requires-Dist: {need}" for need in needs),
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + (folder / "README.md").read_text(encoding="utf-8")


def write_wheel(
    folder: str, package: str, tag: str, files: Dict[str, bytes], about: Dict[str, str]
) -> str:
    """Writes a wheel of ``files`` and of the metadata files ``about``, and returns its name.

    The build is reproducible: equal inputs give equal bytes.
    """
    info = f"{package}-{version()}.dist-info"
    wheel = f"Wheel-Version: 1.0\nGenerator: rondo\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files = {
        **files,
        **{f"{info}/{name}": text.encode() for name, text in {**about, "WHEEL": wheel}.items()},
    }
    record = ""
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    made = f"{package}-{version()}-{tag}.whl"
    with zipfile.ZipFile(pathlib.Path(folder) / made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if ".so" in name else 0o644) << 16
            archive.writestr(entry, content)
    return made


def build_wheel(
    wheel_directory: str,
    config_settings: Optional[Dict[str, str]] = None,
    metadata_directory: Optional[str] = None,
) -> str:
    given = (config_settings or {}).get("library")
    sources = sorted((HERE / "src" / "rondo").glob("*.py")) + [HERE / "src" / "rondo" / "py.typed"]
    files = {f"rondo/{source.name}": source.read_bytes() for source in sources}
    with tempfile.TemporaryDirectory() as build:
        library = pathlib.Path(given) if given else build_library(pathlib.Path(build))
        files[f"rondo/{LIBRARY}"] = library.read_bytes()
    summary = "Collective communication that cannot deadlock on the order of calls"
    about = {"METADATA": metadata(HERE, "rondo", summary)}
    return write_wheel(wheel_directory, "rondo", f"py3-none-{platform_tag()}", files, about)


def build_sdist(sdist_directory: str, config_settings: Optional[Dict[str, str]] = None) -> str:
    raise UnsupportedOperation("there is no sdist: install from the source tree or from a wheel")
