"""The library's version, identities of jobs, and the times that steer a daemon."""

from __future__ import annotations

import ctypes
from ctypes import byref
from dataclasses import asdict, dataclass
from typing import Any, Tuple

from . import _native
from ._errors import check
from ._native import lib
from ._state import nanoseconds


def version() -> Tuple[int, int, int]:
    """The version of the loaded library."""
    number = int(lib.rondo_version())
    return number // 10000, number // 100 % 100, number % 100


def _make_id(function: Any, name: str, *args: Any) -> bytes:
    id = _native.UniqueId()
    check(function(byref(id), *args), name)
    return bytes(id.bytes)


def unique_id() -> bytes:
    """Creates the id of a job whose ranks are all threads of this process."""
    return _make_id(lib.rondo_unique_id_create, "unique_id")


def unique_id_listen() -> bytes:
    """Creates the id of a job whose ranks may be in other processes, and listens for them."""
    return _make_id(lib.rondo_unique_id_listen, "unique_id_listen", None)


@dataclass(frozen=True)
class Tuning:
    """Times that steer a daemon; 0 is the default of the machine."""

    front_budget_ns: int = 0
    min_budget_ns: int = 0
    max_budget_ns: int = 0
    success_factor: int = 0
    look_ns: int = 0
    quit_period_ns: int = 0
    residency_ns: int = 0
    restart_min_ns: int = 0
    restart_max_ns: int = 0

    @classmethod
    def profile(cls, duration: float = 0.05) -> "Tuning":
        """Measures this machine for about ``duration`` seconds."""
        native = _native.Tuning()
        check(lib.rondo_profile(byref(native), nanoseconds(duration)), "Tuning.profile")
        return cls(**_native.values_of(native))

    @classmethod
    def parse(cls, text: str) -> "Tuning":
        """Reads the format of ``str`` and of RONDO_TUNING."""
        native = _native.Tuning()
        check(lib.rondo_tuning_parse(byref(native), text.encode()), f"Tuning.parse({text!r})")
        return cls(**_native.values_of(native))

    def _native(self) -> _native.Tuning:
        return _native.Tuning(**asdict(self))

    def __str__(self) -> str:
        native, text = self._native(), ctypes.create_string_buffer(320)
        check(lib.rondo_tuning_print(byref(native), text, len(text)), "Tuning")
        return text.value.decode()
