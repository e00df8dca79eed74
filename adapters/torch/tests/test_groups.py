"""Groups: made, split, meshed, destroyed, aborted and made again; and the ways to start a job."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from datetime import timedelta
from pathlib import Path
from typing import List

import pytest
import torch
import torch.distributed as dist
from ranks import BACKEND, LONG_S, on_each_rank, on_ranks
from torch.distributed.device_mesh import init_device_mesh


def total(group: object = None) -> float:
    """All-reduces the ranks of the members of a group."""
    tensor = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(tensor, group=group)
    return tensor.item()


@on_each_rank(2)
def test_the_backend_is_known_by_its_name(rank: int) -> None:
    assert dist.get_backend() == BACKEND
    assert dist.is_backend_available(BACKEND)
    assert total() == 1


@on_each_rank(2, backend=f"cpu:{BACKEND}")
def test_a_backend_can_be_named_for_a_kind_of_device(rank: int) -> None:
    assert total() == 1


@pytest.mark.skipif(BACKEND != "rondo", reason="mixes of this backend with others")
@pytest.mark.parametrize(
    "mix", ["cpu:rondo,cuda:gloo", "cpu:rondo,meta:gloo", "cpu:rondo,cuda:rondo"]
)
def test_tensors_of_the_cpu_come_here_in_a_mix(mix: str) -> None:
    def program(rank: int) -> None:
        assert total() == 1
        with_others = dist.new_group([1, 0])
        assert total(with_others) == 1
        assert dist.group.WORLD._get_backend(torch.device("cpu")).name() == "rondo"

    on_ranks(2, program, backend=mix)


@pytest.mark.skipif(
    BACKEND != "rondo" or torch.cuda.is_available() or not dist.is_nccl_available(),
    reason="of a PyTorch with NCCL, on a machine without a GPU",
)
def test_nccl_beside_this_backend_refuses_a_machine_without_gpus(tmp_path: Path) -> None:
    def program(rank: int) -> None:
        with pytest.raises((RuntimeError, ValueError), match="GPU|CUDA"):
            dist.init_process_group(
                "cpu:rondo,cuda:nccl", f"file://{tmp_path}/mixed", rank=rank, world_size=2
            )

    on_ranks(2, program, init=False)


@on_each_rank(4)
def test_groups_of_some_ranks_count_from_zero(rank: int) -> None:
    group = dist.new_group([3, 1])
    others = dist.new_group([0, 2])
    mine = group if rank in (1, 3) else others
    assert total(mine) == (4 if rank in (1, 3) else 2)
    tensor = torch.tensor([rank])
    dist.broadcast(tensor, 3 if rank in (1, 3) else 2, group=mine)
    assert tensor.item() == (3 if rank in (1, 3) else 2)
    gathered = [torch.empty(1, dtype=torch.int64) for _ in range(2)]
    dist.all_gather(gathered, torch.tensor([rank]), group=mine)
    assert [one.item() for one in gathered] == dist.get_process_group_ranks(mine)


@on_each_rank(3)
def test_many_groups_one_after_the_other(rank: int) -> None:
    for turn in range(30):
        group = dist.new_group([turn % 2, 2])
        if rank in (turn % 2, 2):
            assert total(group) == turn % 2 + 2
            dist.destroy_process_group(group)


@pytest.mark.skipif(not hasattr(dist, "split_group"), reason="PyTorch is too old to split groups")
@on_each_rank(4, device_id=torch.device("cpu:0"))
def test_a_group_is_split(rank: int) -> None:
    half = dist.split_group(split_ranks=[[0, 1], [2, 3]])
    assert dist.get_process_group_ranks(half) == ([0, 1] if rank < 2 else [2, 3])
    assert total(half) == (1 if rank < 2 else 5)
    assert total() == 6


@on_each_rank(4)
def test_a_mesh_of_ranks(rank: int) -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
    assert total(mesh.get_group("columns")) == (1 if rank < 2 else 5)
    assert total(mesh.get_group("rows")) == (2 if rank % 2 == 0 else 4)


@on_each_rank(2)
def test_functional_collectives(rank: int) -> None:
    import torch.distributed._functional_collectives as functional

    group = dist.group.WORLD
    mine = torch.full((4,), float(rank))
    assert torch.equal(functional.all_reduce(mine, "sum", group) + 0, torch.ones(4))
    gathered = functional.all_gather_tensor(mine, 0, group) + 0
    assert gathered.tolist() == [0.0] * 4 + [1.0] * 4
    part = functional.reduce_scatter_tensor(gathered, "sum", 0, group) + 0
    assert part.tolist() == [2.0 * rank] * 4


def test_a_job_ends_and_another_begins_in_the_same_processes(tmp_path: Path) -> None:
    def program(rank: int) -> None:
        for turn in range(5):
            dist.init_process_group(
                BACKEND, f"file://{tmp_path}/store{turn}", rank=rank, world_size=2
            )
            assert total() == 1
            dist.destroy_process_group()

    on_ranks(2, program, init=False)


def test_a_rank_may_be_jobs_ahead_of_another_in_the_same_store(tmp_path: Path) -> None:
    def program(rank: int) -> None:
        store = dist.FileStore(f"{tmp_path}/again", 2)
        ahead = dist.FileStore(f"{tmp_path}/ahead", 2)
        if rank == 1:
            ahead.wait(["two jobs have been"])
        for _ in range(2):
            dist.init_process_group(BACKEND, store=store, rank=rank, world_size=2)
            dist.destroy_process_group()
        if rank == 0:
            ahead.set("two jobs have been", "1")
        dist.init_process_group(BACKEND, store=store, rank=rank, world_size=2)
        assert total() == 1

    on_ranks(2, program, init=False)


@pytest.mark.skipif(
    not hasattr(dist.distributed_c10d, "_abort_process_group"),
    reason="PyTorch is too old to abort groups",
)
def test_abort_ends_calls_that_wait_for_others(tmp_path: Path) -> None:
    """Rank 0 waits in a call that rank 1 never makes. abort ends the wait, and a new job works."""

    def program(rank: int) -> List[str]:
        errors: List[str] = []
        if rank == 0:
            started = threading.Event()

            def hang() -> None:
                try:
                    work = dist.all_reduce(torch.ones(10), async_op=True)
                    started.set()
                    work.wait()
                except RuntimeError as error:  # from all_reduce if rank 1 was faster
                    errors.append(str(error))
                    started.set()

            thread = threading.Thread(target=hang, daemon=True)
            thread.start()
            started.wait(LONG_S)
        dist.distributed_c10d._abort_process_group()
        if rank == 0:
            thread.join(LONG_S)
            assert not thread.is_alive(), "the call still waits"
        dist.init_process_group(BACKEND, f"file://{tmp_path}/again", rank=rank, world_size=2)
        assert total() == 1
        return errors

    assert len(on_ranks(2, program)[0]) == 1


def run_python(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments],
        text=True,
        capture_output=True,
        timeout=LONG_S,
        env=dict(os.environ, OMP_NUM_THREADS="1"),
    )


SCRIPT = textwrap.dedent(
    f"""
    import torch, torch.distributed as dist
    {"import rondo_torch" if BACKEND == "rondo" else ""}
    dist.init_process_group("{BACKEND}")
    tensor = torch.tensor([float(dist.get_rank() + 1)])
    dist.all_reduce(tensor)
    print("sum", tensor.item(), flush=True)
    """
)


@pytest.mark.parametrize("ending", ["dist.destroy_process_group()", ""])
def test_a_program_under_torchrun(tmp_path: Path, ending: str) -> None:
    """Also a rank that does not destroy its process group."""
    script = tmp_path / "program.py"
    script.write_text(SCRIPT + ending + "\n")
    done = run_python(
        "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3", str(script)
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("sum") == done.stdout.count("6.0") == 3


def test_a_job_of_one_process_needs_nobody(tmp_path: Path) -> None:
    done = run_python(
        "-c",
        SCRIPT.replace(
            f'"{BACKEND}")',
            f'"{BACKEND}", init_method="file://{tmp_path}/store", rank=0, world_size=1)',
        ),
    )
    assert done.returncode == 0, done.stderr
    assert "sum 1.0" in done.stdout


@on_each_rank(2)
def test_a_group_has_a_timeout_of_its_own(rank: int) -> None:
    group = dist.new_group(timeout=timedelta(seconds=2))
    if rank == 0:
        with pytest.raises(RuntimeError):
            dist.all_reduce(torch.ones(1), group=group)
    assert total() == 1  # the job goes on
