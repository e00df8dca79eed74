"""One process group in which each rank issues operations in its own order.

    torchrun --standalone --nproc-per-node 2 disorder.py         # on rondo: completes
    torchrun --standalone --nproc-per-node 2 disorder.py gloo    # hangs until --timeout
    python disorder.py --both                                    # runs both and prints outcomes

Gradients of layers or stages of a pipeline may be ready in different orders on different ranks. On
rondo the operations have names and match by them. On other backends the n-th operations of the
ranks match, whatever they are.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import subprocess
import sys
from typing import ContextManager

import torch
import torch.distributed as dist

import rondo_torch

LAYERS = 8
COUNT = 1 << 20  # elements, more than a socket buffers, so that a send waits for its receive


def name_of(backend: str, layer: int) -> ContextManager[None]:
    return rondo_torch.named(f"layer {layer}") if backend == "rondo" else contextlib.nullcontext()


def program(backend: str, timeout_s: float) -> None:
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=timeout_s))
    rank, size = dist.get_rank(), dist.get_world_size()
    layers = [torch.full((COUNT,), float(layer + rank)) for layer in range(LAYERS)]
    order = [(layer + rank) % LAYERS for layer in range(LAYERS)]
    works = []
    for layer in order:
        with name_of(backend, layer):
            works.append(dist.broadcast(layers[layer], layer % size, async_op=True))
    for work in works:
        work.wait()
    for layer in range(LAYERS):
        wanted = float(layer + layer % size)
        if not torch.all(layers[layer] == wanted):
            raise SystemExit(f"rank {rank}: layer {layer} is {layers[layer][0]}, not {wanted}")
    print(f"rank {rank}: order {order}: all layers are right", flush=True)
    dist.destroy_process_group()


def run_both(ranks: int, timeout_s: float) -> int:
    outcome = {}
    for backend in ("gloo", "rondo"):
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += [f"--nproc-per-node={ranks}", __file__, backend, f"--timeout={timeout_s}"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=20 * timeout_s + 120)
        outcome[backend] = ran.returncode
        ending = "completes" if ran.returncode == 0 else f"does not complete in {timeout_s:g} s"
        print(f"{backend}: {ending}")
        printed = (ran.stdout + ran.stderr).splitlines()
        errors = [line for line in printed if "[rank" in line and "Error: " in line]
        print("".join(f"  {line}\n" for line in errors[:2]), end="")
    return 0 if outcome["rondo"] == 0 and outcome["gloo"] != 0 else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("backend", nargs="?", default="rondo", choices=["rondo", "gloo"])
    parser.add_argument(
        "--timeout", type=float, default=20.0, help="seconds after which a hang is given up"
    )
    parser.add_argument(
        "--both", action="store_true", help="launch both backends, one after the other"
    )
    parser.add_argument("--ranks", type=int, default=2, help="processes, with --both")
    given = parser.parse_args()
    if given.both:
        return run_both(given.ranks, given.timeout)
    if "RANK" not in os.environ:
        parser.error("start it with torchrun, or with --both")
    program(given.backend, given.timeout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
