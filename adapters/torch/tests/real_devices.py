"""The CUDA devices of this machine, with the functions of stand_in/stand_in.cpp."""

from __future__ import annotations

import ctypes

import torch

_WAIT_EQUAL = 1  # CU_STREAM_WAIT_VALUE_EQ


def count() -> int:
    """How many devices there are. Does not start CUDA, which would not survive a fork."""
    return torch.cuda.device_count() if torch.version.cuda else 0


def start() -> None:
    torch.cuda.init()


def on_device(tensor: torch.Tensor, device: int = 0) -> torch.Tensor:
    return tensor.to(f"cuda:{device}")


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.cpu()


def new_stream(tensor: torch.Tensor) -> torch.cuda.Stream:
    return torch.cuda.Stream(tensor.device)


def use_stream(tensor: torch.Tensor, stream: torch.cuda.Stream) -> None:
    # It made the tensors. The current stream may be at a gate.
    stream.wait_stream(torch.cuda.default_stream(tensor.device))
    torch.cuda.set_stream(stream)


def is_idle(tensor: torch.Tensor) -> bool:
    return torch.cuda.current_stream(tensor.device).query()


class Gate:
    """A stream waits at it until it is opened."""

    def __init__(self) -> None:
        self._word = torch.zeros(1, dtype=torch.int32, pin_memory=True)

    def put(self, tensor: torch.Tensor) -> None:
        stream = torch.cuda.current_stream(tensor.device).cuda_stream
        status = ctypes.CDLL("libcuda.so.1").cuStreamWaitValue32_v2(
            ctypes.c_void_p(stream),
            ctypes.c_uint64(self._word.data_ptr()),
            ctypes.c_uint32(1),
            ctypes.c_uint(_WAIT_EQUAL),
        )
        assert status == 0, f"cuStreamWaitValue32: {status}"

    def open(self) -> None:
        self._word[0] = 1
