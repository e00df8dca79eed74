"""The structures and calls of the headers in include/rondo, through ctypes.

ctypes releases the GIL around every call. A test compiles the headers and compares sizes, offsets
and defaults.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
from ctypes import POINTER, c_char, c_double, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64
from dataclasses import fields
from typing import Any, Dict, List, Tuple

from . import _reports

FOREVER_NS = 2**63 - 1
UNIQUE_ID_BYTES = 128
CONFIG_VERSION = 8
DESC_VERSION = 2
COMM_CONFIG_VERSION = 1
COLLECTIVE_COUNTERS_VERSION = 1
REASON_BYTES = 512
STATE_VERSION = 1
LINKS_VERSION = 2
ALL_PENDING = 2**32 - 1


def fields_of(kind: Any, *names: str) -> List[Tuple[str, Any]]:
    """Consecutive fields of one type."""
    return [(name, kind) for name in names]


class Handle(ctypes.Structure):
    """struct rondo_context, rondo_collective, rondo_group and rondo_comm."""

    _fields_ = [("handle", c_uint64)]


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * UNIQUE_ID_BYTES)]


class Tuning(ctypes.Structure):
    _fields_ = [
        *fields_of(c_uint64, "front_budget_ns", "min_budget_ns", "max_budget_ns"),
        *fields_of(c_uint32, "success_factor", "look_ns"),
        *fields_of(c_uint64, "quit_period_ns", "residency_ns", "restart_min_ns", "restart_max_ns"),
    ]


class Config(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("version", c_uint32),
        ("backend", c_int),
        ("id", UniqueId),
        *fields_of(c_uint32, "rank", "rank_count"),
        ("device", c_int),
        *fields_of(c_uint32, "blocks", "workers"),
        *fields_of(c_int, "first_worker", "order", "budget"),
        ("tuning", Tuning),
        ("max_collectives", c_uint32),
        *fields_of(c_uint64, "max_runs", "connector_bytes"),
        *fields_of(c_uint32, "slot_bytes", "report_on_timeout"),
        *fields_of(c_uint64, "peer_timeout_ns", "heartbeat_ns", "join_timeout_ns"),
        *fields_of(c_int, "address_family", "transport"),
        ("interfaces", c_char * 64),
        *fields_of(c_uint32, "threads", "multiprocessors", "endpoints", "huge_pages"),
        *fields_of(c_uint32, "collective_counters", "least_ranks", "most_ranks"),
    ]


class Desc(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("version", c_uint32),
        ("kind", c_int),
        *fields_of(c_uint64, "id", "count"),
        *fields_of(c_int, "dtype", "redop"),
        ("root", c_uint32),
        ("priority", c_int),
        ("group", Handle),
        ("scalar", c_double),
        *fields_of(c_uint32, "peer", "on_loss"),
        *fields_of(POINTER(c_uint64), "send_counts", "send_displacements"),
        *fields_of(POINTER(c_uint64), "recv_counts", "recv_displacements"),
        ("quantisation", c_uint32),
    ]


CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, c_int)


class RunArgs(ctypes.Structure):
    _fields_ = [
        *fields_of(ctypes.c_void_p, "send", "recv"),
        ("callback", CALLBACK),
        ("arg", ctypes.c_void_p),
    ]


class Counters(ctypes.Structure):
    _fields_ = [(field.name, c_uint64) for field in fields(_reports.Counters)]


class CollectiveCounters(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        *fields_of(c_uint32, "version", "reserved"),
        *[(field.name, c_uint64) for field in fields(_reports.CollectiveCounters)],
    ]


class Stuck(ctypes.Structure):
    _fields_ = [
        *fields_of(c_uint64, "id", "run"),
        ("state", c_int),
        *fields_of(c_uint32, "block", "op"),
        ("peer", c_int32),
        ("missing", c_uint32),
        ("waiting_ns", c_uint64),
    ]


class Ticket(ctypes.Structure):
    _fields_ = [("coll", Handle), ("run", c_uint64)]


class CommConfig(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("version", c_uint32),
        ("priority", c_int),
        ("key", c_uint64),
        ("group", Handle),
        *fields_of(c_uint32, "cached_collectives", "cached_pairs"),
    ]


class CommCounters(ctypes.Structure):
    _fields_ = [(field.name, c_uint64) for field in fields(_reports.CommunicatorCounters)]


class StateTensor(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("memory", ctypes.c_void_p),
        ("count", c_uint64),
        ("dtype", c_int),
    ]


class SharedState(ctypes.Structure):
    """struct rondo_state."""

    _fields_ = [
        ("size", c_size_t),
        ("version", c_uint32),
        ("strategy", c_int),
        ("tensors", POINTER(StateTensor)),
        *fields_of(c_uint32, "tensor_count", "is_partial"),
        *fields_of(c_uint64, "revision", "digest"),
    ]


class StateReport(ctypes.Structure):
    _fields_ = [
        *fields_of(c_uint64, "revision", "compared_blocks", "sent_bytes", "received_bytes"),
        *fields_of(c_uint32, "source", "senders"),
    ]


class Links(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        *fields_of(c_uint32, "version", "capacity"),
        ("ranks", POINTER(c_uint32)),
        ("rates", POINTER(c_uint64)),
        ("endpoints", POINTER(c_uint32)),
        *fields_of(c_uint32, "count", "reserved"),
        *fields_of(c_uint64, "ring_rate", "plain_ring_rate"),
    ]


def values_of(struct: ctypes.Structure) -> Dict[str, Any]:
    """The fields of a structure by name."""
    return {field[0]: getattr(struct, field[0]) for field in struct._fields_}


def reason_buffer() -> "ctypes.Array[c_char]":
    """Room for the reason that a call gives in words."""
    return ctypes.create_string_buffer(REASON_BYTES)


def text_of(buffer: "ctypes.Array[c_char]") -> str:
    """The text that a call has written into ``buffer``."""
    return buffer.value.decode("utf-8", "replace")


def default_comm_config() -> CommConfig:
    """RONDO_COMM_CONFIG_INIT."""
    return CommConfig(size=ctypes.sizeof(CommConfig), version=COMM_CONFIG_VERSION)


def default_state() -> SharedState:
    """RONDO_STATE_INIT."""
    return SharedState(size=ctypes.sizeof(SharedState), version=STATE_VERSION)


def default_config() -> Config:
    """RONDO_CONFIG_INIT."""
    return Config(
        size=ctypes.sizeof(Config),
        version=CONFIG_VERSION,
        rank_count=1,
        first_worker=-1,
        report_on_timeout=1,
    )


_RANKS = [
    POINTER(c_uint32),
    c_uint32,
    POINTER(c_uint32),
]  # an array, its length, how many there are
_TEXT = [ctypes.c_char_p, c_size_t]
_VOTE = [c_int64, POINTER(Handle), ctypes.c_char_p]  # a timeout, the next context, the reason
_SIGNATURES: List[Tuple[str, List[Any]]] = [
    ("rondo_version", []),
    ("rondo_unique_id_create", [POINTER(UniqueId)]),
    ("rondo_unique_id_listen", [POINTER(UniqueId), POINTER(Config)]),
    ("rondo_profile", [POINTER(Tuning), c_uint64]),
    ("rondo_tuning_print", [POINTER(Tuning), *_TEXT]),
    ("rondo_tuning_parse", [POINTER(Tuning), ctypes.c_char_p]),
    ("rondo_config_complete", [POINTER(Config)]),
    ("rondo_init", [POINTER(Handle), POINTER(Config)]),
    ("rondo_destroy", [Handle, c_int, c_int64]),
    ("rondo_wait_ready", [Handle, c_int64, *_RANKS]),
    ("rondo_wait_gone", [Handle, c_int64, *_RANKS]),
    ("rondo_abort", [Handle]),
    ("rondo_grow_listen", [POINTER(UniqueId), POINTER(Config)]),
    ("rondo_grow_close", [POINTER(UniqueId)]),
    ("rondo_pending", [POINTER(UniqueId), POINTER(c_uint32)]),
    ("rondo_join", [POINTER(Handle), POINTER(Config), c_int64, ctypes.c_char_p]),
    ("rondo_describe_rank", [Handle, POINTER(c_uint32), POINTER(c_uint32)]),
    ("rondo_grow", [Handle, POINTER(UniqueId), c_uint32, *_VOTE]),
    ("rondo_shrink", [Handle, POINTER(c_uint32), c_uint32, *_VOTE]),
    (
        "rondo_state_sync",
        [Handle, POINTER(SharedState), c_int64, POINTER(StateReport), ctypes.c_char_p],
    ),
    ("rondo_links_measure", [Handle, POINTER(Links), c_int64, ctypes.c_char_p]),
    ("rondo_group_create", [Handle, POINTER(c_uint32), c_uint32, POINTER(Handle)]),
    ("rondo_group_destroy", [Handle, Handle]),
    ("rondo_register", [Handle, POINTER(Desc), POINTER(Handle)]),
    ("rondo_deregister", [Handle, Handle]),
    ("rondo_run_numbered", [Handle, Handle, POINTER(RunArgs), POINTER(c_uint64)]),
    ("rondo_wait", [Handle, Handle, c_uint64, c_int64]),
    ("rondo_test", [Handle, Handle, c_uint64]),
    ("rondo_run_members", [Handle, Handle, c_uint64, *_RANKS]),
    ("rondo_event_fd", [Handle, POINTER(c_int)]),
    ("rondo_device_synchronize", [Handle, c_int64]),
    ("rondo_counters", [Handle, POINTER(Counters)]),
    ("rondo_collective_counters", [Handle, Handle, POINTER(CollectiveCounters)]),
    ("rondo_stuck", [Handle, POINTER(Stuck), c_size_t, POINTER(c_size_t)]),
    ("rondo_describe", [Handle, Handle, POINTER(Desc), *_RANKS]),
    ("rondo_missing", [Handle, Handle, c_uint64, *_RANKS]),
    ("rondo_reason", [Handle, Handle, *_TEXT]),
    ("rondo_report", [Handle, ctypes.c_void_p, POINTER(c_uint32)]),
    ("rondo_flight_write", [Handle, ctypes.c_void_p]),
    ("rondo_transport", [Handle, c_uint32, POINTER(c_int), *_TEXT]),
    ("rondo_comm_create", [Handle, POINTER(CommConfig), POINTER(Handle)]),
    ("rondo_comm_call", [Handle, Handle, POINTER(Desc), POINTER(RunArgs), POINTER(Ticket)]),
    ("rondo_comm_wait", [Handle, Handle, POINTER(Ticket), c_int64]),
    ("rondo_comm_test", [Handle, Handle, POINTER(Ticket)]),
    ("rondo_comm_status", [Handle, Handle, POINTER(c_int), *_TEXT]),
    ("rondo_comm_abort", [Handle, Handle]),
    ("rondo_comm_destroy", [Handle, Handle, c_int, c_int64]),
    ("rondo_comm_counters", [Handle, Handle, POINTER(CommCounters)]),
]


def _load() -> ctypes.CDLL:
    """Loads PYRONDO_LIBRARY, else the library of the wheel, else that of the system."""
    beside = pathlib.Path(__file__).resolve().parent / "librondo.so.0"
    name = os.environ.get("PYRONDO_LIBRARY") or (str(beside) if beside.exists() else beside.name)
    try:
        opened = ctypes.CDLL(name)
    except OSError as error:
        raise ImportError(
            f"rondo: {error}. Install the package with pip, or set PYRONDO_LIBRARY to librondo."
        ) from error
    try:
        for call, arguments in _SIGNATURES:
            function = getattr(opened, call)
            function.argtypes = arguments
            function.restype = c_int
    except AttributeError as error:
        raise ImportError(f"rondo: {name} has another version: {error}") from error
    for call in ("rondo_status_name", "rondo_status_string"):
        getattr(opened, call).argtypes = [c_int]
        getattr(opened, call).restype = ctypes.c_char_p
    return opened


lib: Any = _load()
