"""Compiles the headers and compares them with the ctypes declarations."""

from __future__ import annotations

import ctypes
import os
import pathlib
import re
import shutil
import subprocess
from typing import Dict

import pytest
from rondo import _enums, _native

HEADERS = pathlib.Path(__file__).resolve().parents[3] / "include"
CC = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
STRUCTS = {
    "rondo_context": _native.Handle,
    "rondo_unique_id": _native.UniqueId,
    "rondo_tuning": _native.Tuning,
    "rondo_config": _native.Config,
    "rondo_collective_desc": _native.Desc,
    "rondo_run_args": _native.RunArgs,
    "rondo_counters": _native.Counters,
    "rondo_collective_counters": _native.CollectiveCounters,
    "rondo_stuck": _native.Stuck,
    "rondo_comm": _native.Handle,
    "rondo_ticket": _native.Ticket,
    "rondo_comm_config": _native.CommConfig,
    "rondo_comm_counters": _native.CommCounters,
    "rondo_state_tensor": _native.StateTensor,
    "rondo_state": _native.SharedState,
    "rondo_state_report": _native.StateReport,
    "rondo_links": _native.Links,
}
ENUMS = {
    "rondo_status": _enums.Status,
    "rondo_dtype": _enums.DType,
    "rondo_redop": _enums.RedOp,
    "rondo_kind": _enums.Kind,
    "rondo_backend": _enums.Backend,
    "rondo_order_policy": _enums.OrderPolicy,
    "rondo_budget_policy": _enums.BudgetPolicy,
    "rondo_run_state": _enums.RunState,
    "rondo_transport": _enums.Transport,
    "rondo_on_loss": _enums.OnLoss,
    "rondo_quantisation": _enums.Quantisation,
    "rondo_state_strategy": _enums.StateStrategy,
}
PREFIXES = (
    "RONDO_ORDER_",
    "RONDO_BUDGET_",
    "RONDO_BACKEND_",
    "RONDO_RUN_",
    "RONDO_TRANSPORT_",
    "RONDO_ON_LOSS_",
    "RONDO_QUANTISE_",
    "RONDO_STATE_",
    "RONDO_",
)


@pytest.mark.skipif(CC is None, reason="no C compiler")
def test_structures_are_laid_out_as_the_compiler_lays_them_out(tmp_path: pathlib.Path) -> None:
    lines = []
    for name, struct in STRUCTS.items():
        lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
        for field in struct._fields_:
            place = f"offsetof(struct {name}, {field[0]})"
            lines.append(f'printf("{name}.{field[0]} %zu\\n", {place});')
    lines.append("struct rondo_config c = RONDO_CONFIG_INIT; unsigned char b[sizeof c];")
    lines.append("memset(b, 0, sizeof b);")
    for field in _native.Config._fields_:
        at = f"offsetof(struct rondo_config, {field[0]})"
        lines.append(f"memcpy(b + {at}, &c.{field[0]}, sizeof c.{field[0]});")
    lines.append('printf("default "); for (size_t i = 0; i < sizeof b; i++) printf("%02x", b[i]);')
    lines.append('printf("\\ndesc_version %u\\n", RONDO_COLLECTIVE_DESC_VERSION);')
    lines.append('printf("counters_version %u\\n", RONDO_COLLECTIVE_COUNTERS_VERSION);')
    lines.append("struct rondo_comm_config d = RONDO_COMM_CONFIG_INIT;")
    lines.append('printf("comm_size %zu\\n", d.size); printf("comm_version %u\\n", d.version);')
    lines.append('printf("reason_bytes %d\\n", RONDO_REASON_BYTES);')
    lines.append("struct rondo_state s = RONDO_STATE_INIT;")
    lines.append('printf("state_size %zu\\n", s.size); printf("state_version %u\\n", s.version);')
    lines.append('printf("links_version %u\\n", RONDO_LINKS_VERSION);')
    lines.append('printf("all_pending %u\\n", RONDO_ALL_PENDING);')
    source = tmp_path / "layout.c"
    source.write_text(
        "".join(f"#include <rondo/{one}.h>\n" for one in ("comm", "elastic", "links", "state"))
        + "#include <string.h>\nint main(void) {"
        + "\n".join(lines)
        + "}"
    )
    program = str(tmp_path / "layout")
    subprocess.run([CC or "cc", f"-I{HEADERS}", str(source), "-o", program], check=True)
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    said = dict(line.split() for line in printed.splitlines())
    for name, struct in STRUCTS.items():
        assert int(said[name]) == ctypes.sizeof(struct), name
        for field in struct._fields_:
            assert int(said[f"{name}.{field[0]}"]) == getattr(struct, field[0]).offset, field[0]
    assert said["default"] == bytes(_native.default_config()).hex()
    assert int(said["desc_version"]) == _native.DESC_VERSION
    assert int(said["counters_version"]) == _native.COLLECTIVE_COUNTERS_VERSION
    config = _native.default_comm_config()
    assert [int(said["comm_size"]), int(said["comm_version"])] == [config.size, config.version]
    assert int(said["reason_bytes"]) == _native.REASON_BYTES
    state = _native.default_state()
    assert [int(said["state_size"]), int(said["state_version"])] == [state.size, state.version]
    assert int(said["links_version"]) == _native.LINKS_VERSION
    assert int(said["all_pending"]) == _native.ALL_PENDING


@pytest.mark.parametrize("name", ENUMS)
def test_numbers_are_those_of_the_headers(name: str) -> None:
    text = "".join(path.read_text() for path in sorted((HEADERS / "rondo").glob("*.h")))
    found = re.search(rf"enum {name} {{(.*?)}};", text, re.S)
    assert found
    said: Dict[str, int] = {}
    for constant, number in re.findall(r"(RONDO_\w+) = (\d+)", found[1]):
        prefix = next(one for one in PREFIXES if constant.startswith(one))
        if not constant.endswith("_COUNT"):
            said[constant[len(prefix) :]] = int(number)
    assert said == {one.name: one.value for one in ENUMS[name]}
