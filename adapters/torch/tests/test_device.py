"""Tensors on CUDA devices: those of this machine, if RONDO_TEST_GPU is 1, or those of the stand-in
for the CUDA driver: see stand_in/stand_in.cpp.

The backend's code is the real one. On the stand-in streams and events behave as the driver's, and
freed memory is overwritten. On a GPU all ranks share device 0.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from datetime import timedelta
from typing import Any, Callable, List

import pytest
import torch
import torch.distributed as dist
import real_devices
from ranks import LONG_S, none_failed, on_ranks

PLACE = os.environ.get("RONDO_TEST_STAND_IN", "")
ON_GPU = os.environ.get("RONDO_TEST_GPU") == "1"
pytestmark = pytest.mark.skipif(
    not PLACE and not ON_GPU,
    reason="RONDO_TEST_STAND_IN names no stand-in for CUDA, and RONDO_TEST_GPU is not 1",
)
needs_two = pytest.mark.skipif(
    ON_GPU and real_devices.count() < 2, reason="there is one device only"
)

SIZE = 1000


def stand_in(driver: str) -> Any:
    """The devices of the stand-in, with options for its driver."""
    os.environ["RONDO_TEST_FAKE_CUDA"] = driver
    sys.path.insert(0, PLACE)
    import _stand_in as devices  # type: ignore[import-not-found]
    import rondo_torch

    # Before c10::Stream::native_handle: Python does not know the streams of these devices.
    rondo_torch._native.set_handle_source(devices.handle)
    torch.cuda.get_device_capability = lambda device=None: (9, 0)  # broadcast asks
    torch.Tensor.__repr__ = lambda self: f"tensor on {self.device}"  # has no kernels
    return devices


def on_devices(
    count: int,
    program: Callable[[int, Any], Any],
    *,
    backend: str = "rondo",
    timeout_s: float = LONG_S,
    driver: str = "memory_waits=0",
) -> List[Any]:
    """on_ranks with devices: ``program(rank, devices)``. ``driver``: options of the stand-in.

    Allocation does not wait for the device, because the tests hold its streams at gates.
    """
    with tempfile.TemporaryDirectory(prefix="rondo-torch-") as place:

        def with_devices(rank: int) -> Any:
            devices = real_devices if ON_GPU else stand_in(driver)
            devices.start()
            dist.init_process_group(
                backend,
                init_method=f"file://{place}/store",
                rank=rank,
                world_size=count,
                timeout=timedelta(seconds=timeout_s),
            )
            result = program(rank, devices)
            if dist.is_initialized():
                dist.destroy_process_group()
            return result

        return on_ranks(count, with_devices, init=False)


def on_each_device(count: int, **config: Any) -> Callable[[Callable[[int, Any], Any]], Any]:
    """Makes a test of a program: runs it on ``count`` ranks with devices, as ``on_devices``."""

    def make(program: Callable[[int, Any], Any]) -> Any:
        def test() -> None:
            on_devices(count, program, **config)

        return test

    return make


def seen(devices: Any, tensor: torch.Tensor) -> List[float]:
    return devices.on_host(tensor).reshape(-1).tolist()


def store_of_default() -> dist.Store:
    return dist.distributed_c10d._get_default_store()


# ------------------------------------------------------------------- order ---


@on_each_device(2)
def test_an_operation_runs_behind_what_the_stream_holds_and_before_what_comes(
    rank: int, devices: Any
) -> None:
    tensor = devices.on_device(torch.zeros(SIZE))
    source = devices.on_device(torch.full((SIZE,), rank + 1.0))
    result = devices.on_device(torch.zeros(SIZE))
    dist.all_reduce(tensor)  # the first operation on a device allocates
    gate = devices.Gate()
    gate.put(tensor)
    tensor.copy_(source)
    work = dist.all_reduce(tensor, async_op=True)
    assert not work.is_completed()
    work.wait()
    result.copy_(tensor)
    assert not devices.is_idle(tensor)  # so the host has not waited for the gate
    gate.open()
    assert seen(devices, result) == [3.0] * SIZE
    work.wait(timedelta(seconds=LONG_S))  # the stream passes the end before the host does
    assert work.is_completed() and work.is_success()


@on_each_device(2)
def test_a_stream_goes_on_beside_an_operation_until_it_waits(rank: int, devices: Any) -> None:
    tensor = devices.on_device(torch.ones(SIZE))
    other = devices.on_device(torch.zeros(SIZE))
    dist.all_reduce(other)  # a rank's first operation on a device waits for the other's
    work = None
    if rank == 0:
        work = dist.all_reduce(tensor, async_op=True)
        other.copy_(tensor)  # after the call, which no other rank has made
        assert len(seen(devices, other)) == SIZE
        store_of_default().set("gone on", "1")
    else:
        store_of_default().wait(["gone on"])
        work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    assert seen(devices, tensor) == [2.0] * SIZE


@on_each_device(2)
def test_streams_of_the_program_each_wait_for_their_own(rank: int, devices: Any) -> None:
    first = devices.on_device(torch.ones(SIZE))
    second = devices.on_device(torch.ones(SIZE))
    slow = dist.new_group([0, 1])
    quick = dist.new_group([0, 1])
    zeros = devices.on_device(torch.zeros(SIZE))
    for group in (slow, quick):
        dist.all_reduce(zeros, group=group)
    gate = devices.Gate()
    devices.use_stream(first, devices.new_stream(first))
    gate.put(first)
    held = dist.all_reduce(first, group=slow, async_op=True)
    held.wait()
    devices.use_stream(second, devices.new_stream(second))
    dist.all_reduce(second, group=quick)
    assert seen(devices, second) == [2.0] * SIZE  # the other stream is at its gate
    assert not held.is_completed()
    gate.open()
    held.wait()  # this stream, too
    assert seen(devices, first) == [2.0] * SIZE


@on_each_device(2)
def test_names_and_groups_may_come_in_any_order(rank: int, devices: Any) -> None:
    import rondo_torch

    groups = [dist.new_group([0, 1]) for _ in range(2)]
    cases = [(group, name) for group in groups for name in ("a", "b", "c")]
    cases = cases if rank == 0 else cases[::-1]
    tensors, works = {}, []
    for round in range(3):
        for group, name in cases:
            at = (groups.index(group), name)
            tensors[at] = devices.on_device(torch.full((SIZE,), float(ord(name) + at[0])))
            with rondo_torch.named(name):
                works.append(dist.all_reduce(tensors[at], group=group, async_op=True))
        for work in works:
            work.wait()
        for (index, name), tensor in tensors.items():
            assert seen(devices, tensor) == [2.0 * (ord(name) + index)] * SIZE


@on_each_device(2)
def test_ranks_that_send_to_each_other_may_both_send_first(rank: int, devices: Any) -> None:
    mine = devices.on_device(torch.full((100000,), rank + 1.0))
    theirs = devices.on_device(torch.zeros(100000))
    sent = dist.isend(mine, 1 - rank)
    got = dist.irecv(theirs, 1 - rank)
    got.wait()
    sent.wait()
    assert seen(devices, theirs) == [2.0 - rank] * 100000


# -------------------------------------------------------------- operations ---


def cases_of(rank: int, on: Callable[[torch.Tensor], torch.Tensor]) -> List[Any]:
    """Every operation: its name, the function that makes it, and the tensors of its result."""

    def made(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        count = torch.Size(shape).numel()
        return on((torch.arange(count).reshape(shape) + 10 * rank + 1).to(dtype))

    def strided(*shape: int) -> torch.Tensor:
        return made(*reversed(shape)).t()

    cases: List[Any] = []

    def case(name: str, call: Callable[[], Any], *results: torch.Tensor) -> None:
        cases.append((name, call, results))

    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int16):
        tensor = made(100, dtype=dtype)
        case(f"all_reduce of {dtype}", lambda t=tensor: dist.all_reduce(t, async_op=True), tensor)
    one = made(6, 4)
    case(
        "all_reduce of the greatest",
        lambda: dist.all_reduce(one, dist.ReduceOp.MAX, async_op=True),
        one,
    )
    across = strided(6, 4)
    case("all_reduce in strides", lambda: dist.all_reduce(across, async_op=True), across)
    none = made(0)
    case("all_reduce of nothing", lambda: dist.all_reduce(none, async_op=True), none)
    sent = made(64)
    case("broadcast", lambda: dist.broadcast(sent, 1, async_op=True), sent)
    to_root = made(64)
    is_root = [to_root] if rank == 0 else []
    case("reduce", lambda: dist.reduce(to_root, 0, async_op=True), *is_root)
    short = made(64, dtype=torch.int16)
    short_is_root = [short] if rank == 0 else []
    case("reduce of int16", lambda: dist.reduce(short, 0, async_op=True), *short_is_root)
    parts = [made(5, 3), made(5, 3)]
    case("all_gather", lambda: dist.all_gather(parts, made(5, 3), async_op=True), *parts)
    whole = made(2, 7)
    case(
        "all_gather_into_tensor",
        lambda: dist.all_gather_into_tensor(whole, made(7), async_op=True),
        whole,
    )
    mine = made(9)
    inputs = [made(9), made(9)]
    case("reduce_scatter", lambda: dist.reduce_scatter(mine, inputs, async_op=True), mine)
    share = made(8)
    case(
        "reduce_scatter_tensor",
        lambda: dist.reduce_scatter_tensor(share, made(16), async_op=True),
        share,
    )
    short_share = made(8, dtype=torch.int16)
    case(
        "reduce_scatter_tensor of int16",
        lambda: dist.reduce_scatter_tensor(short_share, made(16, dtype=torch.int16), async_op=True),
        short_share,
    )
    even = made(4, 5)
    case("all_to_all_single", lambda: dist.all_to_all_single(even, made(4, 5), async_op=True), even)
    odd = made(3 if rank == 0 else 5, 2)
    splits = ([1, 2], [1, 3]) if rank == 0 else ([3, 2], [2, 2])
    case(
        "all_to_all_single in splits",
        lambda: dist.all_to_all_single(odd, made(4, 2), splits[0], splits[1], async_op=True),
        odd,
    )
    lists = [made(3), made(3)]
    case("all_to_all", lambda: dist.all_to_all(lists, [made(3), made(3)], async_op=True), *lists)
    gathered = [made(4), made(4)] if rank == 1 else None
    case("gather", lambda: dist.gather(made(4), gathered, 1, async_op=True), *(gathered or []))
    piece = made(4)
    scattered = [made(4), made(4)] if rank == 0 else None
    case("scatter", lambda: dist.scatter(piece, scattered, 0, async_op=True), piece)
    passed = made(11)
    case(
        "send and recv",
        lambda: dist.isend(passed, 1, tag=5) if rank == 0 else dist.irecv(passed, 0, tag=5),
        passed,
    )
    there, back = made(13), made(13)

    def batch() -> Any:
        ops = [dist.P2POp(dist.isend, there, 1 - rank), dist.P2POp(dist.irecv, back, 1 - rank)]
        works = dist.batch_isend_irecv(ops if rank == 0 else ops[::-1])
        for work in works[:-1]:  # one work for all; in older versions one for each
            work.wait()
        return works[-1]

    case("batch_isend_irecv", batch, back)
    several = [made(10), made(20)]
    case(
        "all_reduce_coalesced", lambda: dist.all_reduce_coalesced(several, async_op=True), *several
    )
    return cases


@on_each_device(2)
def test_every_operation_gives_what_it_gives_on_the_cpu(rank: int, devices: Any) -> None:
    wrong = []
    there = cases_of(rank, devices.on_device)
    here = cases_of(rank, lambda tensor: tensor)
    for (name, call, results), (_, same, expected) in zip(there, here):
        call().wait()
        same().wait()
        for result, wanted in zip(results, expected):
            got = devices.on_host(result)
            if not torch.equal(got, wanted):
                wrong.append(f"{name}: {got} instead of {wanted}")
    none_failed(wrong)


@on_each_device(4)
def test_operations_on_devices_of_four_ranks(rank: int, devices: Any) -> None:
    tensor = devices.on_device(torch.full((SIZE,), float(rank)))
    dist.all_reduce(tensor)
    pair = dist.new_group([1, 3])
    other = devices.on_device(torch.full((SIZE,), float(rank)))
    if rank in (1, 3):
        dist.all_reduce(other, group=pair)
    assert seen(devices, tensor) == [6.0] * SIZE
    assert seen(devices, other) == [4.0 if rank in (1, 3) else float(rank)] * SIZE


@on_each_device(2)
def test_a_barrier_on_a_device_waits_here(rank: int, devices: Any) -> None:
    tensor = devices.on_device(torch.ones(1))
    options = dist.BarrierOptions()
    options.device = torch.device("cuda", 0)
    if rank == 1:
        store_of_default().set("is there", "1")
    work = dist.group.WORLD.barrier(opts=options)
    work.wait()
    assert store_of_default().check(["is there"])
    until = time.monotonic() + 10  # the stream has yet to pass an event that has happened
    while not devices.is_idle(tensor):
        assert time.monotonic() < until


@on_each_device(3)
def test_a_receive_from_any_source(rank: int, devices: Any) -> int:
    tensor = devices.on_device(torch.full((SIZE,), float(rank)))
    if rank > 0:
        dist.send(tensor, 0)
        return rank
    senders = []
    for _ in range(2):
        senders.append(dist.recv(tensor))
        assert seen(devices, tensor) == [float(senders[-1])] * SIZE
    assert sorted(senders) == [1, 2]
    return 0


# ------------------------------------------------------ memory and futures ---


@on_each_device(2)
def test_tensors_are_kept_until_the_operation_has_ended(rank: int, devices: Any) -> None:
    whole = devices.on_device(torch.zeros(2 * SIZE))
    mine = devices.on_device(torch.full((SIZE,), rank + 1.0))
    dist.all_reduce(whole)  # a rank's first operation on a device waits for the other's
    if rank == 1:
        store_of_default().wait(["dropped"])
    work = dist.all_gather_into_tensor(whole, mine, async_op=True)
    del mine  # freed memory is overwritten
    if rank == 0:
        store_of_default().set("dropped", "1")
    work.wait()
    assert seen(devices, whole) == [1.0] * SIZE + [2.0] * SIZE


@on_each_device(2)
def test_a_future_is_there_at_once_and_goes_on_in_the_order_of_streams(
    rank: int, devices: Any
) -> None:
    tensor = devices.on_device(torch.full((SIZE,), rank + 1.0))
    dist.all_reduce(devices.on_device(torch.zeros(SIZE)))
    gate = devices.Gate()
    gate.put(tensor)
    future = dist.all_reduce(tensor, async_op=True).get_future()
    assert future.done()

    def copied(done: Any) -> torch.Tensor:
        result = devices.on_device(torch.zeros(0)).new_empty(SIZE)
        return result.copy_(done.value()[0])

    after = future.then(copied)
    gate.open()
    assert seen(devices, after.wait()) == [3.0] * SIZE


# ----------------------------------------------------------------- failure ---


@on_each_device(2)
def test_a_wait_with_a_time_waits_here_for_so_long(rank: int, devices: Any) -> None:
    # Not contiguous, so copies follow the calls.
    tensor = devices.on_device(torch.full((6, 4), rank + 1.0)).t()
    # Loads PyTorch's kernels for such copies, which may wait for all streams of the device.
    dist.all_reduce(devices.on_device(torch.zeros((6, 4))).t())
    gate = devices.Gate()
    gate.put(tensor)
    work = dist.all_reduce(tensor, async_op=True)
    with pytest.raises(RuntimeError, match="timed out"):
        work.wait(timedelta(milliseconds=20))
    gate.open()
    work.wait(timedelta(seconds=LONG_S))
    assert work.is_completed()
    assert seen(devices, tensor) == [3.0] * 24


@on_each_device(2, timeout_s=3)
def test_a_lost_rank_lets_the_stream_go_on_and_is_told_by_the_next_operation(
    rank: int, devices: Any
) -> None:
    tensor = devices.on_device(torch.ones(SIZE))
    if rank == 1:
        store_of_default().wait(["told"])
        return
    dist.all_reduce(tensor, async_op=True).wait()
    assert len(seen(devices, tensor)) == SIZE  # the stream goes on after the timeout
    with pytest.raises(RuntimeError, match="all_reduce"):
        dist.all_reduce(tensor)
    store_of_default().set("told", "1")


@needs_two
@on_each_device(2, driver="devices=2,memory_waits=0")
def test_tensors_on_different_devices_are_refused(rank: int, devices: Any) -> None:
    there = devices.on_device(torch.zeros(SIZE))
    here = torch.zeros(2 * SIZE)
    with pytest.raises(RuntimeError, match="on cuda:0 and on cpu|on cpu and on cuda:0"):
        dist.all_gather(list(here.chunk(2)), there)
    dist.all_reduce(there)
    with pytest.raises(RuntimeError, match="this rank uses cuda:0"):
        dist.all_reduce(devices.on_device(torch.zeros(SIZE), 1))
    dist.all_reduce(there)
    assert seen(devices, there) == [0.0] * SIZE


def test_a_group_can_be_made_again_and_has_devices_again() -> None:
    with tempfile.TemporaryDirectory(prefix="rondo-torch-") as place:

        def program(rank: int, devices: Any) -> None:
            dist.destroy_process_group()
            store = dist.FileStore(f"{place}/again", 2)
            for round in range(3):
                dist.init_process_group("rondo", store=store, rank=rank, world_size=2)
                tensor = devices.on_device(torch.full((SIZE,), rank + 1.0))
                dist.all_reduce(tensor)
                assert seen(devices, tensor) == [3.0] * SIZE
                dist.destroy_process_group()

        on_devices(2, program)


# ------------------------------------------------------------------- mixes ---


@on_each_device(2, backend="cpu:gloo,cuda:rondo")
def test_devices_here_and_the_cpu_elsewhere(rank: int, devices: Any) -> None:
    there = devices.on_device(torch.full((SIZE,), rank + 1.0))
    here = torch.full((SIZE,), rank + 1.0)
    dist.all_reduce(there)
    dist.all_reduce(here)
    assert seen(devices, there) == [3.0] * SIZE and here.tolist() == [3.0] * SIZE
    names = {
        name: dist.group.WORLD._get_backend(torch.device(name)).name() for name in ("cpu", "cuda")
    }
    assert names == {"cpu": "gloo", "cuda": "rondo"}


# ------------------------------------------------------------- on a GPU only ---


@pytest.mark.skipif(not ON_GPU, reason="copies of the stand-in do not wait in the driver")
@on_each_device(2)
def test_the_first_result_may_be_read_at_once(rank: int, devices: Any) -> None:
    tensor = devices.on_device(torch.full((SIZE,), rank + 1.0))
    if rank == 1:  # calls when rank 0 reads, which waits for it in the driver
        try:
            store_of_default().wait(["reads"], timedelta(seconds=0.5))
        except RuntimeError:
            pass  # rank 0 waits for this call before it reads
    dist.all_reduce(tensor)
    if rank == 0:
        store_of_default().set("reads", "1")
    assert seen(devices, tensor) == [3.0] * SIZE


@pytest.mark.skipif(not ON_GPU, reason="the stand-in has no kernels of PyTorch")
def test_training_gives_the_losses_of_one_process() -> None:
    def losses_of(rank: int, ranks: int) -> List[float]:
        torch.manual_seed(1)
        model: Any = torch.nn.Sequential(
            torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)
        ).cuda()
        if ranks > 1:
            # Small buckets, so that all-reduces run beside the backward pass.
            model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.02)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for step in range(10):
            generator = torch.Generator().manual_seed(step)
            x = torch.randn(32, 64, generator=generator).cuda()
            y = torch.randn(32, 8, generator=generator).cuda()
            mine = slice(rank * 32 // ranks, (rank + 1) * 32 // ranks)
            loss = torch.nn.functional.mse_loss(model(x[mine]), y[mine])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total = loss.detach().clone()
            if ranks > 1:
                dist.all_reduce(total)
            losses.append(float(total) / ranks)
        return losses

    alone = on_ranks(1, lambda rank: losses_of(0, 1), init=False)[0]
    for losses in on_devices(2, lambda rank, devices: losses_of(rank, 2)):
        torch.testing.assert_close(torch.tensor(losses), torch.tensor(alone), rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not ON_GPU, reason="the stand-in has no kernels of PyTorch")
@on_each_device(2)
def test_kernels_before_and_after_and_memory_that_is_used_again(rank: int, devices: Any) -> None:
    groups = [dist.new_group([0, 1]) for _ in range(3)]
    generator = torch.Generator().manual_seed(rank)
    for _ in range(20):
        works = []
        order = torch.randperm(3, generator=generator).tolist()
        for index in order:  # another order on each rank
            matrix = torch.full((64, 64), float(index + 1), device="cuda")
            product = (matrix @ matrix).contiguous()  # 64 (index + 1)^2 everywhere
            del matrix
            work = dist.all_reduce(product, group=groups[index], async_op=True)
            works.append((index, product, work))
        for index, product, work in works:
            work.wait()
            assert bool((product * 0.5 == 64.0 * (index + 1) ** 2).all())
